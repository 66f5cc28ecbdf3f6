"""How a script asks to be started again: what Slurm is asked, how often, and what the script says."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.render import render
from tests.builders import CONTEXT, ROOTS, a_job, a_site, planned, ready_script, with_library

SLEEP = """#!/bin/bash
echo "sleep $*" >> {folder}/asked
"""
# Fails so often, as where the controller does not answer, then says its word.
FAILS = """#!/bin/bash
case $* in *' show job '*) exec echo 'JobId=7 Restarts=0 BatchFlag=1' ;; esac
echo "{name} $*" >> {folder}/asked
[ "$(grep -c '^{name} ' {folder}/asked)" -gt {times} ] || {{ echo 'Unable to contact slurm controller' >&2; exit 1; }}
echo '{word}'
"""


def asked_of_slurm(folder: Path, squeue: int, scontrol: int, word: str = "RUNNING", **typed: Any) -> tuple[str, str]:
    """Run a script whose program has saved; return (what it asked for, what it said). Slurm fails so many times."""
    (folder / "bin").mkdir()
    (folder / "run/code").mkdir(parents=True)
    job = a_job(restarts=5, command=("bash", "-c", "exit 75"))
    spec = planned(
        job=job, context=replace(CONTEXT, run_dir=str(folder / "run"), cwd=str(folder)), tasks_per_node=1, **typed
    )
    programs = {
        "srun": '#!/bin/bash\nwhile [ "$1" != bash ]; do shift; done\nexec "$@"\n',
        "sleep": SLEEP.format(folder=folder),
        "squeue": FAILS.format(name="squeue", folder=folder, times=squeue, word=word),
        "scontrol": FAILS.format(name="scontrol", folder=folder, times=scontrol, word=""),
    }
    for name, text in programs.items():
        shown = f'echo "{name} ${{SLURM_CLUSTERS-}} ${{SBATCH_CLUSTERS-}}" >> {folder}/variables'
        (folder / "bin" / name).write_text(text.replace("\n", f"\n{shown}\n", 1))
        (folder / "bin" / name).chmod(0o755)
    ready_script(spec)
    os.utime(folder / "run/job.sh", (0, 0))
    path = {"PATH": f"{folder}/bin:/usr/bin:/bin", "SLURM_JOB_ID": "7", "HOSTNAME": "n1"}
    done = subprocess.run(["bash", folder / "run/job.sh"], env=path, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 75, done.stderr
    return (folder / "asked").read_text(), done.stderr


def test_what_a_module_leaves_in_the_job_sends_no_question_to_another_cluster(tmp_path: Path) -> None:
    """At some centres a module that is loaded in a job sets SLURM_CLUSTERS, also for requeueing and for srun."""
    module = tmp_path / "module.sh"
    module.write_text("export SLURM_CLUSTERS=elsewhere SBATCH_CLUSTERS=elsewhere\n")
    asked, said = asked_of_slurm(tmp_path, squeue=0, scontrol=0, setup=(f"source {module}",))
    assert "scontrol requeue 7" in asked, said
    seen = (tmp_path / "variables").read_text().splitlines()
    assert {line.partition(" ")[0] for line in seen} >= {"srun", "squeue", "scontrol"}
    assert not [line for line in seen if "elsewhere" in line]


def test_row_10_a_controller_that_is_down_for_a_moment_does_not_end_the_chain(tmp_path: Path) -> None:
    asked, said = asked_of_slurm(tmp_path, squeue=1, scontrol=2)
    words = [line.partition(" --")[0] for line in asked.splitlines()]
    assert words == [
        *("squeue", "sleep 1", "squeue"),
        *("scontrol requeue 7", "sleep 1", "scontrol requeue 7", "sleep 2", "scontrol requeue 7"),
    ]
    assert "saved; requeueing the job" in said
    assert "the call of the scheduler failed; trying again in 2 s" in said
    assert "does not requeue this job" not in said


def test_row_10_slurm_is_asked_a_few_times_and_no_longer_than_the_lead(tmp_path: Path) -> None:
    (tmp_path / "long").mkdir()
    asked, said = asked_of_slurm(tmp_path / "long", squeue=0, scontrol=99)
    assert asked.count("scontrol requeue 7\n") == 6
    assert "the scheduler does not requeue this job. To continue: hpclaunch resume" in said
    (tmp_path / "short").mkdir()
    asked, said = asked_of_slurm(tmp_path / "short", squeue=0, scontrol=99, signal="USR2@1")
    assert asked.count("scontrol requeue 7\n") == 1 and "sleep" not in asked
    assert "the scheduler does not requeue this job. To continue: hpclaunch resume" in said


def test_row_10_a_job_that_was_cancelled_meanwhile_is_not_started_again(tmp_path: Path) -> None:
    asked, said = asked_of_slurm(tmp_path, squeue=2, scontrol=0, word="COMPLETING")
    assert "scontrol" not in asked
    assert "not started again, as the job is COMPLETING" in said


STAND_INS = """
squeue() { echo RUNNING; }
scontrol() { [[ $* == *' show job '* ]] || echo "scontrol $*"; }
sbatch() { echo "sbatch $*"; }
find() { echo one; }
restart=0
"""


@pytest.mark.parametrize(
    ("way", "asked", "said"),
    [
        ("requeue", "scontrol requeue 7\n", "requeueing the job"),
        ("resubmit", "sbatch --parsable --dependency=afterany:7 /r/job.sh\n", "submitting a successor"),
        ("none", "", "To continue: hpclaunch resume /r"),
    ],
)
def test_a_site_says_how_a_job_goes_on(tmp_path: Path, way: str, asked: str, said: str) -> None:
    spec = planned(a_site(restart=way), a_job(restarts=5))
    assert ("requeue" if way == "requeue" else "no-requeue") in dict(spec.directives)
    assert f" restart_by={way} " in render(spec, ROOTS)
    known = f"scheduler=slurm restarts=5 restart_by={way} job=7 attempt={tmp_path}"
    text = f"{STAND_INS}\n{known}; start_again saved; cat {tmp_path}/next-job"
    done = with_library(text, HPCLAUNCH_RUN_DIR="/r")
    assert done.stdout == asked
    assert said in done.stderr


@pytest.mark.parametrize(("nodes", "option"), [("n[2-3],n7", "--exclude=n[2-3],n7 "), ("(null)", "")])
def test_a_successor_avoids_the_nodes_that_its_job_avoided(nodes: str, option: str) -> None:
    """``hpclaunch retry`` gives them to sbatch on its command line, so the script does not have them."""
    known = f"scontrol() {{ echo 'JobId=7 ReqNodeList=(null) ExcNodeList={nodes} NumNodes=2'; }}"
    done = with_library(f'{known}\nsbatch() {{ echo "$*"; }}\njob=7; slurm_resubmit', HPCLAUNCH_RUN_DIR="/r")
    assert done.stdout == f"--parsable --dependency=afterany:7 {option}/r/job.sh\n"


def test_a_successor_gets_no_variable_by_which_its_job_was_made() -> None:
    """An account or a time in SBATCH_... would come before what its script says."""
    theirs = dict.fromkeys(("SLURM_JOB_ID", "SBATCH_ACCOUNT", "SRUN_X", "PMI_RANK", "PMIX_X", "OMPI_COMM_X"), "x")
    kept = {"SLURM_CONF": "/c", "MINE": "x"}
    stand_ins = 'scontrol() { :; }; sbatch() { env; echo "$job"; }'
    done = with_library(f"{stand_ins}\njob=7; slurm_resubmit; env", HPCLAUNCH_RUN_DIR="/r", **theirs, **kept)
    seen, _, after = done.stdout.partition("\n7\n")
    assert not [line for line in seen.splitlines() if line.partition("=")[0] in theirs]
    assert {f"{name}={value}" for name, value in kept.items()} <= set(seen.splitlines())
    assert {f"{name}=x" for name in theirs} <= set(after.splitlines()), "the job itself keeps them"


# Ranks of a launcher that ends with 0 whatever becomes of them, as mpirun of Open MPI 5 does.
ENDS_WITH_0 = """
scontrol() {
  [[ $2 == hostnames || $2 == config ]] || echo "scontrol $*" >> asked
  echo "JobId=7 PreemptTime=$PREEMPTED Restarts=0 X=0"
}
squeue() { echo RUNNING; }
sleep() { echo sleep >> asked; }
launcher() {
  trap 'exit 0' TERM
  for N in $ENDED; do N=$N "$@"; done
  [ -z "$SIGNAL" ] || { kill -s "$SIGNAL" $$; while :; do command sleep 0.05; done; }
}
rank() { rank_log "$N"; }
begin slurm restarts=$RESTARTS restart_by=requeue
launch launcher
finish
"""
ASKED = "scontrol --oneliner show job 7\n"
PREEMPTED = {"PREEMPTED": "2026-11-23T05:00:00"}


@pytest.mark.parametrize(
    ("ended", "known", "code", "asked"),
    [
        ("1 0", PREEMPTED, 0, ""),
        ("1 0", {"SIGNAL": "TERM"}, 0, ""),
        ("", PREEMPTED, 143, f"{ASKED * 3}scontrol requeue 7\n"),
        ("1", PREEMPTED, 143, f"{ASKED * 3}scontrol requeue 7\n"),
        ("0", PREEMPTED, 143, f"{ASKED * 3}scontrol requeue 7\n"),
        ("", {**PREEMPTED, "RESTARTS": "0"}, 143, ASKED),
        ("", {"SIGNAL": "TERM"}, 143, ASKED),
        ("0", {"RESTARTS": "0"}, 69, ASKED + "sleep\n" * 65),
    ],
    ids=[
        *("completed", "told, completed", "preempted", "only rank 1", "only rank 0", "no restarts", "cancelled"),
        "nobody ended it",
    ],
)
def test_a_launchers_0_without_all_ranks_is_the_end_that_somebody_asked_for(
    tmp_path: Path, ended: str, known: dict[str, str], code: int, asked: str
) -> None:
    (tmp_path / "job.sh").touch()
    os.utime(tmp_path / "job.sh", (0, 0))
    (tmp_path / "asked").touch()
    told = {"PREEMPTED": "None", "RESTARTS": "3", "SIGNAL": "", "HPCLAUNCH_WORLD_SIZE": "2", **known}
    done = with_library(
        f"cd {tmp_path}\n{ENDS_WITH_0}", HPCLAUNCH_RUN_DIR=str(tmp_path), SLURM_JOB_ID="7", ENDED=ended, **told
    )
    assert (done.returncode, (tmp_path / "asked").read_text()) == (code, asked), done.stderr
    assert (tmp_path / "attempts/7.0/exit-code").read_text() == f"{code}\n"
    assert (tmp_path / "attempts/7.0/completed").exists() is (code == 0)
    assert ("preempted; requeueing the job" in done.stderr) is ("requeue" in asked)
