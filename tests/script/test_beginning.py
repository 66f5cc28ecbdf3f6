"""How a script begins: what stops it before a rank runs, and what it notes about itself."""

from __future__ import annotations

import subprocess
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.builders import source_library, with_library


def begun(run: Path, text: str, **known: str) -> subprocess.CompletedProcess[str]:
    """A script without a scheduler, whose start is 7.0."""
    return with_library(text, HPCLAUNCH_RUN_DIR=str(run), SUBMITIT_LOCAL_JOB_ID="7", **known)


@pytest.mark.parametrize("name", ["attempts", "checkpoints", "starts", "claims"])
def test_a_folder_that_cannot_be_made_stops_the_script(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    done = begun(tmp_path, "begin local restarts=1; echo begun")
    assert (done.returncode, done.stdout) == (78, "")
    assert f"hpclaunch: the run directory {tmp_path} cannot be written on " in done.stderr


def test_a_start_that_cannot_be_noted_stops_the_script(tmp_path: Path) -> None:
    """It would not be counted against the limit of restarts."""
    done = begun(tmp_path, 'dd() { [[ "$1" != */started ]]; }; begin local; echo begun')
    assert (done.returncode, done.stdout) == (78, "")
    assert "cannot be written on " in done.stderr


def test_a_claim_of_which_nothing_reaches_the_disk_is_none(tmp_path: Path) -> None:
    """As on a full disk. An empty one would keep all later starts out."""
    done = begun(tmp_path, "trap '' XFSZ; ulimit -f 0; begin local; echo begun")
    assert (done.returncode, done.stdout) == (78, "")
    assert "cannot be written on " in done.stderr
    assert not [file for file in (tmp_path / "claims").iterdir() if file.name[0] != "."]


def test_the_time_of_a_start_is_that_of_utc_wherever_the_node_is(tmp_path: Path) -> None:
    assert begun(tmp_path, "begin local", TZ="Etc/GMT+11").returncode == 0
    noted = datetime.fromisoformat((tmp_path / "attempts/7.0/started").read_text().strip().replace("Z", "+00:00"))
    assert abs(datetime.now(timezone.utc) - noted) < timedelta(hours=5), "the node's own time is eleven hours behind"


def test_a_claim_names_the_process_of_the_script(tmp_path: Path) -> None:
    """By it a later start finds whether this one lives, and it is not the process that has started the script."""
    text = 'begin local; read -r start host process began < "$HPCLAUNCH_RUN_DIR/claims/1"; echo "$process $began"'
    done = begun(tmp_path, f"{text}; echo $$ $(began_at $$)")
    named, own = done.stdout.splitlines()
    assert named == own


def test_a_claim_replaces_none_where_links_are_not_known(tmp_path: Path) -> None:
    """Two starts may have seen that there is none."""
    (tmp_path / "1").write_text("6.0 elsewhere 1 1\n")
    done = with_library(f"ln() {{ return 1; }}; start=7.0; leave_claim {tmp_path}/1 mine")
    assert (tmp_path / "1").read_text() == "6.0 elsewhere 1 1\n", done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["1"]


def test_a_script_that_is_ended_before_its_ranks_begin_says_so(tmp_path: Path) -> None:
    done = begun(tmp_path, "begin local\nSECONDS=3\nkill -s TERM $$\nexit 0")
    attempt = tmp_path / "attempts/7.0"
    assert done.returncode == 143, done.stderr
    assert (attempt / "exit-code").read_text() == "143\n"
    assert int((attempt / "terminated").read_text()) >= 3


def test_the_first_sigterm_counts(tmp_path: Path) -> None:
    text = f"unset SECONDS; attempt={tmp_path}; SECONDS=3; mark_terminated; SECONDS=9; mark_terminated"
    assert with_library(text).stderr == ""
    assert (tmp_path / "terminated").read_text() == "3\n"


@pytest.mark.parametrize("theirs", ["", "/code"])
def test_an_array_of_another_user_starts_nothing(tmp_path: Path, theirs: str) -> None:
    """Its code lies in the folder of the array, and not in that of the run."""
    array = tmp_path / "array"
    (array / "code").mkdir(parents=True)
    (array / "0").mkdir()
    stat = f'stat() {{ [ "${{!#}}" = {array}{theirs} ] && echo 4711 || echo "$UID"; }}'
    done = with_library(
        f"{stat}; export HPCLAUNCH_ARRAY_DIR={array}; begin slurm; echo begun",
        HPCLAUNCH_RUN_DIR=str(array / "0"),
        SLURM_ARRAY_JOB_ID="7",
        SLURM_ARRAY_TASK_ID="0",
    )
    assert (done.returncode, done.stdout) == (78, "")
    assert f"{array}{theirs} belongs to the user with uid 4711" in done.stderr


def test_a_folder_that_cannot_be_entered_stops_the_script(tmp_path: Path) -> None:
    done = with_library(f"enter {tmp_path}/gone; echo on")
    assert (done.returncode, done.stdout) == (78, "")
    assert f"the folder {tmp_path}/gone does not exist, or cannot be entered" in done.stderr


def test_a_secret_may_begin_with_a_space_and_lie_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("  two words \n")
    (tmp_path / "real").chmod(0o600)
    (tmp_path / "TOKEN").symlink_to("real")
    done = with_library(f"secret {tmp_path}/TOKEN; bash -c 'echo \"<$TOKEN>\"'")
    assert (done.stdout, done.stderr) == ("<  two words >\n", "")


@pytest.mark.parametrize(("text", "words"), [("", "TOKEN is empty"), (None, "there is no file")])
def test_a_secret_without_a_value_stops_the_script(tmp_path: Path, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / "TOKEN").write_text(text)
        (tmp_path / "TOKEN").chmod(0o600)
    done = with_library(f"secret {tmp_path}/TOKEN; echo on")
    assert (done.returncode, done.stdout, words in done.stderr) == (78, "", True)


@pytest.mark.parametrize(("lacks", "code"), [("numpy.x,json", 78), ("no_such,json", 78), ("os,json", 0)])
def test_a_python_that_lacks_a_package_is_named_and_one_that_cannot_look_is_not(lacks: str, code: int) -> None:
    python = "/usr/bin/python3"
    if lacks.startswith("numpy"):
        done = with_library(f"need_packages false {lacks}; echo on")
        assert (done.returncode, done.stdout) == (0, "on\n")
        return
    done = with_library(f"need --packages {lacks} {python}; echo on")
    assert done.returncode == code, done.stderr
    assert ("has no no_such, which this run needs" in done.stderr) is bool(code)


def test_a_higher_claim_counts_where_those_before_it_are_gone(tmp_path: Path) -> None:
    (tmp_path / "claims").mkdir()
    for number in (8, 150):
        (tmp_path / f"claims/{number}").write_text("free\n")
    done = begun(tmp_path, 'begin local; echo "$HPCLAUNCH_START"')
    assert done.stdout == "151\n", done.stderr


def test_a_launcher_reads_nothing_that_was_typed_for_the_script(tmp_path: Path) -> None:
    script = 'begin local\nrank() { read -r line; echo "<$line>"; }\nlaunch\nread -r left; echo "$left"'
    text = f"{source_library()}\n{script}"
    known = {"PATH": "/usr/bin:/bin", "HPCLAUNCH_RUN_DIR": str(tmp_path), "SUBMITIT_LOCAL_JOB_ID": "7"}
    done = subprocess.run(["bash", "-c", text], env=known, input="typed\n", capture_output=True, text=True)
    assert done.stdout == "<>\ntyped\n", done.stderr


def test_what_a_mpi_program_has_set_does_not_reach_the_ranks_of_a_script_that_it_starts(tmp_path: Path) -> None:
    theirs = ("SLURM_JOB_ID", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_MCA_x", "HOROVOD_RANK")
    done = begun(tmp_path, "begin local; env", **dict.fromkeys(theirs, "9"))
    assert done.returncode == 0, done.stderr
    assert not {line.partition("=")[0] for line in done.stdout.splitlines()} & set(theirs)


def test_gpus_that_a_person_has_hidden_stay_hidden(tmp_path: Path) -> None:
    """An empty list is one, too: the launcher's own would come back."""
    starter = 'starter() { CUDA_VISIBLE_DEVICES=0 "$@"; }'
    rank = 'rank() { echo "<$CUDA_VISIBLE_DEVICES>"; }'
    done = begun(tmp_path, f"begin local; export CUDA_VISIBLE_DEVICES=; {starter}; {rank}; launch starter")
    assert (done.stdout, done.stderr) == ("<>\n", "")


FAMILIES = (
    *("TP_SOCKET_IFNAME", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK", "ROCR_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"),
    *("NCCL_X", "RCCL_X", "GLOO_X", "UCX_X", "FI_X", "OMP_X", "HOROVOD_X", "XLA_X"),
)


def test_each_family_of_variables_reaches_ranks_of_a_launcher_that_passes_nothing_on(tmp_path: Path) -> None:
    given = " ".join(f"{name}='it is\t{name}'" for name in FAMILIES)
    starter = 'starter() { env -i PATH="$PATH" HPCLAUNCH_RUN_DIR=. HPCLAUNCH_EXIT_FILE="$HPCLAUNCH_EXIT_FILE" "$@"; }'
    done = begun(tmp_path, f"begin local; export {given} MINE=x; {starter}; rank() {{ env; }}; launch starter")
    seen = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert {name: seen.get(name) for name in FAMILIES} == {name: f"it is\t{name}" for name in FAMILIES}
    assert "MINE" not in seen


@pytest.mark.parametrize("known", [{}, {"HPCLAUNCH_RUN_DIR": ""}, {"HPCLAUNCH_ARRAY_DIR": "/tmp"}])
@pytest.mark.parametrize("text", ["begin local", "rank() { rank_log 0; set_rank 1 0; echo ran; }; run_rank"])
def test_nothing_starts_without_a_run_directory(text: str, known: dict[str, str]) -> None:
    """Its files would be written to the root of the file system."""
    done = with_library(f"{text}; echo begun", SUBMITIT_LOCAL_JOB_ID="7", HPCLAUNCH_EXIT_FILE="/dev/null", **known)
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr.startswith("hpclaunch: HPCLAUNCH_RUN_DIR, which names the run directory, is empty")


def test_a_start_that_has_not_begun_leaves_no_mark() -> None:
    """It has no folder for them yet."""
    done = with_library("leave_mark hpclaunch-test x; echo $?; mark_terminated")
    assert (done.stdout, done.stderr) == ("1\n", "")
    assert not any(Path("/", name).exists() for name in ("hpclaunch-test", "terminated"))


# Names that a line of set-up, or a file that it reads, may have for something else.
@pytest.mark.parametrize(
    "line",
    [
        "start=now scheduler=none job=mine restart=4",
        "attempt= later=soon outlived=x",
        "ranks=8 restarts=3 restart_by=requeue walltime=1",
        "unset HPCLAUNCH_RUN_DIR HPCLAUNCH_START",
        "HPCLAUNCH_EXIT_FILE=",
    ],
)
def test_variables_of_a_set_up_do_not_replace_those_of_the_start(tmp_path: Path, line: str) -> None:
    (tmp_path / "job.sh").touch()
    program = 'rank() { set_rank 1 0; rank_log 0; echo "$HPCLAUNCH_START"; }'
    text = f"begin local restarts=0 walltime=900; {line}; {program}; launch; echo $job $restarts $walltime; finish"
    done = begun(tmp_path, text)
    attempt = tmp_path / "attempts/7.0"
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == ["1", "7 0 900"]
    assert (attempt / "completed").read_text() == "7.0 1\n"
    assert (attempt / "exit-code").read_text() == "0\n"
    assert (tmp_path / "logs/rank-0.out").read_text() == "1\n"


def test_a_signal_during_the_set_up_is_noted_for_this_start(tmp_path: Path) -> None:
    done = begun(tmp_path, "begin local; attempt=; kill -s TERM $$; exit 0")
    assert done.returncode == 143, done.stderr
    assert {"terminated", "exit-code"} <= {file.name for file in (tmp_path / "attempts/7.0").iterdir()}


def test_the_workers_of_a_search_are_counted_whatever_a_set_up_calls_ranks(tmp_path: Path) -> None:
    """A worker is one of two that have to report their ends."""
    text = "begin local; ranks=8; HPCLAUNCH_WORLD_SIZE=4; need() { :; }; samples=no; launch_search 2 true 1 1 0"
    text += "; sleep() { :; }; finish"  # which waits a minute for files that come late
    done = begun(tmp_path, f"watch_start() {{ :; }}; HPCLAUNCH_SEARCH_PYTHON=true; {text}")
    assert "1 of 2 ranks did not report" in done.stderr
