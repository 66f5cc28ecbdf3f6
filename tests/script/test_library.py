"""Functions of the library that no whole script shows alone: signals at awkward moments, programs, settings."""

from __future__ import annotations

import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders import ROOTS, with_library
from tests.cli.conftest import wait_for

HOST = socket.gethostname()


@pytest.mark.parametrize(("asked_for", "got"), [("", "USR2"), ("TERM", "TERM")])
def test_row_25_a_signal_that_comes_while_the_launcher_starts_is_passed_on_when_it_has(
    tmp_path: Path, asked_for: str, got: str
) -> None:
    launcher = f"trap 'echo {got}; exit 4' {got}; : > {tmp_path}/up; while :; do sleep 0.05; done"
    done = with_library(
        "rank() { :; }\n"
        f"cd {tmp_path}; pass_on={asked_for}\n"
        'start_apart() { kill -s USR2 $$; "$@" & until [ -e up ]; do sleep 0.05; done; }\n'
        f'launch bash -c "{launcher}"; echo "$code"\n'
    )
    assert (done.stdout, done.stderr) == (f"{got}\n4\n", "")


def test_a_signal_after_the_end_of_the_launcher_goes_to_nobody() -> None:
    done = with_library('rank() { :; }; launch true; kill() { echo "$@"; }; pass_signal TERM; echo $received')
    assert done.stdout == "TERM\n"


def test_a_variable_of_the_shell_is_no_setting() -> None:
    names = ("restarts", "restart_by", "restart_lead", "pass_on", "signal_to", "walltime", "asked", "lead_ends")
    done = with_library(f"echo {' '.join(f'${name},' for name in names)}", **dict.fromkeys(names, "7"))
    assert done.stdout == "0, none, 0, , launcher, 0, , ,\n"


def test_begin_takes_settings_and_leaves_the_marks_of_a_start(tmp_path: Path) -> None:
    done = with_library(
        'begin slurm restarts=3 pass_on=USR1; echo "$restarts $pass_on $job $HPCLAUNCH_RESTART_COUNT"; exit 5',
        HPCLAUNCH_RUN_DIR=str(tmp_path),
        SLURM_JOB_ID="7",
        SLURM_RESTART_COUNT="2",
    )
    assert (done.returncode, done.stdout, done.stderr) == (5, "3 USR1 7 0\n", "")
    assert (tmp_path / "attempts/7.2/exit-code").read_text() == "5\n"
    assert (tmp_path / "attempts/7.2/started").exists() and (tmp_path / "checkpoints").is_dir()


@pytest.mark.parametrize(
    ("keras", "tf_keras", "value"), [("3.8.0", True, "1"), ("3.8.0", False, ""), ("2.15.0", True, ""), ("", False, "")]
)
def test_tf_keras_takes_the_place_of_keras_3_and_of_no_other(
    tmp_path: Path, keras: str, tf_keras: bool, value: str
) -> None:
    found = {f"keras-{keras}": keras, "tf_keras-2.18.0": "2.18.0" if tf_keras else ""}
    for name, version in found.items():
        if version:
            (tmp_path / f"{name}.dist-info").mkdir()
            (tmp_path / f"{name}.dist-info/METADATA").write_text(f"Name: {name.split('-')[0]}\nVersion: {version}\n")
    own = shlex.join([sys.executable, "-SE"])
    (tmp_path / "python").write_text(f'#!/bin/bash\ncd {tmp_path} && exec {own} "$@"\n')
    (tmp_path / "python").chmod(0o755)
    done = with_library(f"set_legacy_keras {tmp_path}/python; bash -c 'echo \"<${{TF_USE_LEGACY_KERAS-unset}}>\"'")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"<{value}>\n", "")


def test_a_missing_python_leaves_keras_as_it_is() -> None:
    done = with_library("set_legacy_keras no-such-python; bash -c 'echo \"<$TF_USE_LEGACY_KERAS>\"'")
    assert (done.returncode, done.stdout, done.stderr) == (0, "<>\n", "")


@pytest.mark.parametrize("name", ["ARRAY_DIR", "BROADCAST", "COMPONENT", "SIGNAL", "SWEPT", "WORKERS"])
def test_a_job_that_another_job_submitted_has_none_of_its_variables(tmp_path: Path, name: str) -> None:
    """Where the submitting shell's variables reach a job; with HPCLAUNCH_ARRAY_DIR it would refuse to start."""
    done = with_library(
        f'begin slurm; echo "$job ${{HPCLAUNCH_{name}-}}"',
        HPCLAUNCH_RUN_DIR=str(tmp_path),
        SLURM_JOB_ID="7",
        **{f"HPCLAUNCH_{name}": "/of/the/other"},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "7 \n", "")


def test_every_program_that_is_needed_is_looked_for() -> None:
    assert with_library("need bash cat").returncode == 0
    done = with_library("need bash no-such-program", HOSTNAME="n1")
    assert (done.returncode, done.stderr[:58]) == (78, "hpclaunch: there is no program no-such-program on n1: load")


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640])
def test_a_secret_is_read_from_a_file_that_nobody_else_can_read(tmp_path: Path, mode: int) -> None:
    (tmp_path / "TOKEN").write_text("hunter2 \\ x\n")
    (tmp_path / "TOKEN").chmod(mode)
    done = with_library(f'secret {tmp_path}/TOKEN; env | grep "^TOKEN"')
    if mode == 0o640:
        assert (done.returncode, "can be read by others (mode 640): chmod 600 it" in done.stderr) == (78, True)
    else:
        assert (done.returncode, done.stdout) == (0, "TOKEN=hunter2 \\ x\n")
    assert with_library(f'secret {tmp_path}/OTHER; echo "$OTHER"', OTHER="set").stdout == "set\n"


SHOW = 'echo "$HPCLAUNCH_COMPONENT: $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $NODE_RANK"'


@pytest.mark.parametrize("places", [False, True])
def test_the_ranks_of_several_node_types_are_numbered_through(places: bool) -> None:
    """One node with one rank, two with three each; the launcher tells the place, or nothing of it."""
    seen = []
    for rank in range(7):
        local, node = (0, 0) if rank == 0 else ((rank - 1) % 3, 1 + (rank - 1) // 3)
        told = f"{local} {node}" if places else ""
        done = with_library(f"set_rank_of_component '1x1 2x3' {rank} {told}; {SHOW}", HPCLAUNCH_WORLD_SIZE="7")
        seen.append(done.stdout.strip())
    assert seen == [
        "0: 0/7 0/1 0",
        *("1: 1/7 0/3 1", "1: 2/7 1/3 1", "1: 3/7 2/3 1"),
        *("1: 4/7 0/3 2", "1: 5/7 1/3 2", "1: 6/7 2/3 2"),
    ]


def test_the_nodes_of_a_component_come_after_all_of_the_one_before() -> None:
    seen = []
    for rank in range(5):
        done = with_library(f"set_rank_of_component '2x1 1x3' {rank}; {SHOW}", HPCLAUNCH_WORLD_SIZE="5")
        seen.append(done.stdout.strip())
    assert seen == ["0: 0/5 0/1 0", "0: 1/5 0/1 1", "1: 2/5 0/3 2", "1: 3/5 1/3 2", "1: 4/5 2/3 2"]


def test_the_hosts_of_a_heterogeneous_job_are_those_of_all_its_components() -> None:
    lists = {"SLURM_HET_SIZE": "2", "SLURM_JOB_NODELIST_HET_GROUP_0": "n[1-2]", "SLURM_JOB_NODELIST_HET_GROUP_1": "m7"}
    shown = with_library('scontrol() { echo "$3"; }; slurm_hosts', SLURM_JOB_NODELIST="n[1-2]", **lists)
    assert shown.stdout == "n[1-2],m7\n"
    assert with_library('scontrol() { echo "$3"; }; slurm_hosts', SLURM_JOB_NODELIST="n[1-2]").stdout == "n[1-2]\n"


# Answers of scontrol, as of Slurm 22.05: the fields after SrunHost:Pid stand there only if the step has GPUs.
STEPS = """
scontrol() { # --oneliner show step JOB
  echo "StepId=$4.batch UserId=1 State=RUNNING Name=batch SrunHost:Pid=(null):0"
  echo "StepId=$4.0 UserId=1 State=RUNNING Name=bash SrunHost:Pid=node1:1$launcher$further"
  echo "StepId=$4.1 UserId=1 State=RUNNING Name=bash SrunHost:Pid=node1:$launcher$further"
}
scancel() { echo "scancel $*"; }
kill() { echo "kill $2"; }
"""


def signalled(folder: Path, launcher: str, signals: str, **variables: str) -> list[str]:
    """Which programs the script calls as it passes these signals on to a launcher of that name."""
    shutil.copy("/bin/sleep", folder / launcher)
    done = with_library(
        f"{STEPS}{folder}/{launcher} 60 & launcher=$!\n"
        f'until [ "$(cat /proc/$launcher/comm)" = {launcher} ]; do sleep 0.05; done\n'
        f"slurm_job; for signal in {signals}; do signal_ranks $signal; done; builtin kill -s KILL $launcher\n",
        **variables,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize("further", ["", " TresPerStep=cpu:1 TresPerNode=gres:gpu:1"])
def test_row_26_sigterm_goes_to_sruns_step_as_srun_would_kill_the_ranks(tmp_path: Path, further: str) -> None:
    calls = signalled(tmp_path, "srun", "USR1 TERM USR1 TERM", SLURM_JOB_ID="7", further=further)
    assert calls == ["kill USR1", "scancel --signal=TERM 7.1", "kill USR1", "kill TERM"]


def test_row_26_the_ranks_of_every_component_get_sigterm(tmp_path: Path) -> None:
    components = {"SLURM_JOB_ID_HET_GROUP_0": "7", "SLURM_JOB_ID_HET_GROUP_1": "8"}
    assert signalled(tmp_path, "srun", "TERM", SLURM_JOB_ID="7", **components) == ["scancel --signal=TERM 7.1 8.1"]


@pytest.mark.parametrize(("launcher", "job"), [("mpirun", "7"), ("srun", "")])
def test_row_26_a_launcher_without_a_step_in_this_job_gets_sigterm_itself(
    tmp_path: Path, launcher: str, job: str
) -> None:
    assert signalled(tmp_path, launcher, "TERM", SLURM_JOB_ID=job) == ["kill TERM"]


@pytest.mark.parametrize(("rank", "said"), [("0", True), ("1", False)])
def test_without_python_there_are_no_samples_and_rank_0_says_so(tmp_path: Path, rank: str, said: bool) -> None:
    (tmp_path / "samples").mkdir()
    done = with_library(
        f"PATH=/nonexistent; sampler=x; set_rank 2 {rank}; count_rank; echo done",
        HPCLAUNCH_RUN_DIR=str(tmp_path),
        HPCLAUNCH_EXIT_FILE=f"{tmp_path}/attempts/7.0/first-failure",
    )
    assert done.stderr == (f"hpclaunch: no samples: there is no program python3 on {HOST}\n" if said else "")
    [begin, end] = (tmp_path / f"samples/{HOST}-7.0.ranks").read_text().splitlines()
    assert begin.startswith(f"begin {rank} ") and end.startswith(f"end {rank} ")


def test_the_ranks_of_a_node_start_one_sampler(tmp_path: Path) -> None:
    (tmp_path / "python3").write_text(f'#!/bin/bash\necho "$@" >> {tmp_path}/started\nenv >> {tmp_path}/seen\n')
    (tmp_path / "python3").chmod(0o755)
    known = {"HPCLAUNCH_RUN_DIR": str(tmp_path), "HPCLAUNCH_EXIT_FILE": f"{tmp_path}/attempts/7_1.0/first-failure"}
    known["HOSTNAME"] = "the-first-node"  # as a login shell exports it, and srun takes it to all nodes
    for rank in (2, 3):
        done = with_library(f"PATH={tmp_path}:$PATH; sampler=/x/sampler.py; set_rank 2 {rank}; wait", **known)
        assert (done.returncode, done.stderr) == (0, "")
    wait_for((tmp_path / "seen").exists, "the sampler")
    assert (tmp_path / "started").read_text() == f"-I -S /x/sampler.py {HOST} 7_1.0 {tmp_path}/samples\n"
    assert "HPCLAUNCH_EXIT_FILE" not in (tmp_path / "seen").read_text(), "it is not ended as a process of the run"
    ranks = (tmp_path / f"samples/{HOST}-7_1.0.ranks").read_text().splitlines()
    assert [line.split()[:2] for line in ranks] == [["begin", "2"], ["begin", "3"]]


def test_a_rank_that_its_launcher_gives_no_number_is_not_listed(tmp_path: Path) -> None:
    done = with_library('sampler=x; set_rank 2 ""; echo ok', HPCLAUNCH_RUN_DIR=str(tmp_path))
    assert (done.stdout, done.stderr, [*tmp_path.iterdir()]) == ("ok\n", "", [])


def test_a_rank_is_counted_by_what_the_kernel_says_of_it(tmp_path: Path) -> None:
    """Milliseconds of a core, bytes read, bytes written: here some time, little read, and two millions written."""
    busy = (
        'until read -r -a f < /proc/$$/stat; [ "${f[13]}" -ge 25 ]; do for ((i = 0; i < 50000; i++)); do :; done; done'
    )
    write = "printf '%1000000s' x > /dev/null; printf '%1000000s' x > /dev/null"
    text = f"{busy}; {write}; RANK=3 sampled={tmp_path}/ranks; count_rank"
    assert with_library(text).stderr == ""
    kind, rank, when, milliseconds, read, written = (tmp_path / "ranks").read_text().split()
    assert (kind, rank, when.isdigit()) == ("end", "3", True)
    assert int(milliseconds) >= 250
    assert int(read) < 1_000_000
    assert int(written) >= 2_000_000


def test_a_sampler_that_was_changed_is_not_run(tmp_path: Path) -> None:
    """Whoever may write into the run directory would run what he likes on every node."""
    (tmp_path / "sampler.py").write_text((ROOTS[-1][1] / "sampler.py").read_text())
    known = {"HPCLAUNCH_RUN_DIR": str(tmp_path)}
    assert with_library("find_sampler", **known).stdout == f"{tmp_path}/sampler.py"
    program = with_library("samples=no; rank() { :; }; rank_program", **known).stdout
    assert "\nsampler=\n" in program and "sampler.py" not in program
    with (tmp_path / "sampler.py").open("a") as file:
        file.write("\n")
    done = with_library("find_sampler", **known)
    assert done.stdout == ""
    assert f"no samples: {tmp_path}/sampler.py is not the sampler of this script" in done.stderr


def test_a_sampler_that_does_not_end_is_killed(tmp_path: Path) -> None:
    (tmp_path / "samples").mkdir()
    file = f"{tmp_path}/attempts/7.0/first-failure"
    deaf = ["bash", "-c", "trap '' TERM; echo up; exec sleep 1000"]
    with subprocess.Popen(deaf, env={"HPCLAUNCH_SAMPLES_OF": file}, stdout=subprocess.PIPE) as sampler:
        assert sampler.stdout is not None and sampler.stdout.readline() == b"up\n"
        known = {"HPCLAUNCH_RUN_DIR": str(tmp_path), "HPCLAUNCH_EXIT_FILE": file}
        done = with_library("end_sampler", **known)
        ended = sampler.poll()
        sampler.kill()
    assert (ended, done.stderr) == (-9, "")


def test_a_rank_that_its_shell_knows_is_reported_by_its_number(tmp_path: Path) -> None:
    (tmp_path / "ranks").mkdir()
    known = {"HPCLAUNCH_RUN_DIR": str(tmp_path), "HPCLAUNCH_EXIT_FILE": f"{tmp_path}/first-failure"}
    known["HPCLAUNCH_WORLD_SIZE"] = "2"
    assert with_library("rank() { set_rank 2 1; return 7; }; run_rank", **known).returncode == 7
    assert (tmp_path / "ranks/1").read_text() == "7\n"
    assert with_library("rank() { set_rank 2 ''; }; run_rank", **known).returncode == 0
    (other,) = (file.name for file in (tmp_path / "ranks").iterdir() if file.name != "1")
    assert re.fullmatch(rf"{re.escape(HOST)}-\d+-\d+", other), "processes of two hosts may have one name and number"


def test_a_trial_of_a_search_complains_of_no_missing_folder(tmp_path: Path) -> None:
    known = {"HPCLAUNCH_RUN_DIR": str(tmp_path), "HPCLAUNCH_EXIT_FILE": f"{tmp_path}/first-failure"}
    done = with_library("rank() { return 7; }; run_rank", **known)
    assert (done.returncode, done.stderr) == (7, "")


def test_a_copy_on_the_nodes_replaces_nobodys_file_and_has_no_libraries_beside_it(tmp_path: Path) -> None:
    (tmp_path / "sbcast").write_text('#!/bin/bash\necho "$SBCAST_SEND_LIBS $*"\n')
    (tmp_path / "sbcast").chmod(0o755)
    done = with_library("slurm_send /a /n/a", PATH=f"{tmp_path}:/usr/bin:/bin", SBCAST_SEND_LIBS="yes")
    assert done.stdout == "no --timeout=120 /a /n/a\n"


@pytest.mark.parametrize(("taken", "port"), [("", "20011"), ("4E2B", "20012")])
def test_the_port_after_one_that_is_taken_is_the_next(taken: str, port: str) -> None:
    text = f"grep() {{ [[ $3 == *:{taken or 'none'}' ' ]]; }}; job=11; port_of_job"
    assert with_library(text).stdout == f"{port}\n"


def test_a_launcher_that_takes_text_gives_its_ranks_what_a_person_has_given(tmp_path: Path) -> None:
    starter = 'starter() { env -i PATH="$PATH" HPCLAUNCH_RUN_DIR=. HPCLAUNCH_EXIT_FILE="$HPCLAUNCH_EXIT_FILE" "$@"; }'
    text = f"begin local; export NCCL_X='a b'; {starter}; rank() {{ echo \"<$NCCL_X>\"; }}; launch_file starter"
    done = with_library(text, HPCLAUNCH_RUN_DIR=str(tmp_path), SUBMITIT_LOCAL_JOB_ID="7")
    assert (done.stdout, done.stderr) == ("<a b>\n", "")


@pytest.mark.parametrize("name", ["HUP", "INT", "TERM"])
def test_whatever_ends_the_script_asks_the_ranks_to_save(tmp_path: Path, name: str) -> None:
    program = f"trap 'echo saved; exit 75' TERM; kill -s {name} $SCRIPT; while :; do sleep 0.02; done"
    text = 'begin local signal_to=group; launcher() { exec bash -c "$PROGRAM"; }; launch launcher; echo $code'
    known = {"HPCLAUNCH_RUN_DIR": str(tmp_path), "SUBMITIT_LOCAL_JOB_ID": "7"}
    done = with_library(f"export SCRIPT=$$; trap - INT HUP; {text}", PROGRAM=program, **known)
    assert done.stdout == "saved\n75\n", done.stderr


def test_the_account_of_a_rank_ends_with_it(tmp_path: Path) -> None:
    (tmp_path / "samples").mkdir()
    known = {"HPCLAUNCH_RUN_DIR": str(tmp_path), "HPCLAUNCH_EXIT_FILE": f"{tmp_path}/attempts/7.0/first-failure"}
    text = "sampler=x; PATH=/nonexistent; rank() { set_rank 2 1; :; }; run_rank"
    assert with_library(text, HPCLAUNCH_WORLD_SIZE="2", **known).returncode == 0
    lines = (tmp_path / f"samples/{HOST}-7.0.ranks").read_text().splitlines()
    assert [line.split()[:2] for line in lines] == [["begin", "1"], ["end", "1"]]


def test_without_the_hosts_of_a_job_no_rank_is_told_where_the_others_listen() -> None:
    text = "scontrol() { return 1; }; scheduler=slurm job=7; set_workers 2; echo on"
    done = with_library(text, SLURM_JOB_NODELIST="n1")
    assert (done.returncode, done.stdout) == (78, "")
    listed = 'scontrol() { printf "n1\\nn2\\n"; }; scheduler=slurm job=7; set_workers 2; echo "$HPCLAUNCH_WORKERS"'
    assert with_library(listed).stdout == "n1:10700,n1:10701,n2:10702,n2:10703\n"


def test_a_worker_of_a_search_learns_its_shares_and_is_sampled_and_no_trial_of_it(tmp_path: Path) -> None:
    """The sampler sees all processes of a node: listed again for each trial, they would count twice."""
    (tmp_path / "sampler.py").write_text((ROOTS[-1][1] / "sampler.py").read_text())
    shown = 'echo "$HPCLAUNCH_SEARCH_SHARES $HPCLAUNCH_SEARCH_START $*"'
    (tmp_path / "worker").write_text(f'#!/bin/bash\n{shown}\nexec bash "$HPCLAUNCH_RUN_DIR/attempts/7.0/trial"\n')
    (tmp_path / "worker").chmod(0o755)
    text = f"cd {tmp_path}; begin local; rank() {{ echo trial; }}; launch_search 1 ./worker 3 8 2; finish"
    done = with_library(text, HPCLAUNCH_RUN_DIR=str(tmp_path), SUBMITIT_LOCAL_JOB_ID="7")
    assert (done.returncode, done.stdout) == (0, "3 8 2 7.0 -m hpclaunch.search\ntrial\n"), done.stderr
    lines = (tmp_path / f"samples/{HOST}-7.0.ranks").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["begin", "end"]
