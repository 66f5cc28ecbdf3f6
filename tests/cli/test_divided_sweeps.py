"""More runs than one array of Slurm may have: one command, one record, several arrays, each run queued once."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Desk, wait_for

# A Slurm that keeps its arrays as ID|TASKS|FOLDER|STATE in FOLDER/jobs. What stands in FOLDER/at-N happens at the Nth
# call of sbatch: ``before`` or ``after`` it is queued, as $1 says.
SLURM = """#!/bin/bash
program=${{0##*/}}
cd {folder}
printf '%s\\t' "$program" "$@" >> calls
echo >> calls
jobs=()
[ ! -e jobs ] || mapfile -t jobs < jobs
case $program in
  scontrol) printf 'ClusterName = lab\\nMaxArraySize = 1001\\n' ;;
  sbatch)
    number=$(($(cat number 2> /dev/null) + 1))
    echo $number > number
    [ ! -e at-$number ] || source ./at-$number before
    tasks=
    while IFS= read -r line; do
      case $line in
        '#SBATCH --array='*) tasks=${{line#*=}} ;;
        '#SBATCH --chdir='*) home=${{line#*=}} ;;
        'array_task '*) echo "$number $line" >> scripts ;;
      esac
    done < "${{@: -1}}"
    echo "$tasks" "${{@:1:$#-1}}" >> submissions
    echo "$((4000 + number))|${{tasks%%%*}}|$home|PENDING" >> jobs
    [ ! -e at-$number ] || source ./at-$number after
    echo "Submitted batch job $((4000 + number))" ;;
  scancel)
    for id in "$@"; do sed -i "s/^\\($id|.*|\\)PENDING/\\1CANCELLED/" jobs; done ;;
  squeue | sacct)
    for job in "${{jobs[@]}}"; do
      IFS='|' read -r id tasks home state <<< "$job"
      case "$program $state" in
        'squeue PENDING' | 'sacct CANCELLED') ;;
        *) continue ;;
      esac
      case "$*" in
        *'%N|%Z'*) echo "${{id}}_[$tasks]|$state|Priority||$home" ;;
        *'%N|%V|%Z'*) echo "${{id}}_[$tasks]|$state|Priority||$EPOCHSECONDS|$home" ;;
        *NodeList,WorkDir*) echo "${{id}}_[$tasks]|$state|0:0|None assigned|$home" ;;
        *NodeList,Cluster,Submit,WorkDir*)
          echo "${{id}}_[$tasks]|$state|0:0|None assigned|lab|$EPOCHSECONDS|$home" ;;
        *) echo "${{id}}_[$tasks]|$EPOCHSECONDS|$home" ;;
      esac
    done ;;
esac
"""
JOB = "summary: sweeps\nscript: train.py\nparameters:\n  seed: 1\n"
LOST = "[ $1 = before ] || { echo 'sbatch: error: Batch job submission failed: Socket timed out' >&2; exit 1; }\n"
REFUSED = (
    "[ $1 = after ] || { echo 'sbatch: error: Batch job submission failed: Invalid qos specification' >&2; exit 1; }\n"
)
KILLED = "[ $1 = {when} ] || return 0\nkill -KILL $(cat {folder}/process)\nexit 1\n"
SWEEP = ("submit", "tune", "--sweep", "seed=1..3000")


@pytest.fixture
def site(cluster: Desk) -> Desk:
    cluster.write("jobs/tune/job.yaml", JOB)
    cluster.write("jobs/tune/train.py", "print('hello')\n")
    for name in ("sbatch", "squeue", "sacct", "scancel", "scontrol"):
        cluster.program(name, SLURM.format(folder=cluster.spool))
    return cluster


def calls(desk: Desk, name: str) -> list[list[str]]:
    path = desk.spool / "calls"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.rstrip("\t").split("\t")[1:] for line in lines if line.split("\t")[0] == name]


def submissions(desk: Desk) -> list[str]:
    """What sbatch was told, each time: the tasks of the script's directive, and the options."""
    return (desk.spool / "submissions").read_text().splitlines()


def queued(desk: Desk) -> list[str]:
    """The arrays in the queue, as ID and tasks."""
    lines = [line.split("|") for line in (desk.spool / "jobs").read_text().splitlines()]
    return [f"{line[0]} {line[1]}" for line in lines if line[-1] == "PENDING"]


def record(desk: Desk) -> dict[str, Any]:
    (path,) = (desk.project / "runs").iterdir()
    found: dict[str, Any] = json.loads((path / "run.json").read_text())
    return found


def summary(desk: Desk) -> str:
    return desk.type("status").out.splitlines()[1].split("\t")[-1]


THREE = ["4001 0-1000", "4002 0-1000", "4003 0-997"]


def test_3000_runs_are_one_command_one_record_three_arrays_and_one_cancel(site: Desk) -> None:
    done = site.type(*SWEEP)
    assert done.code == 0, done.err
    assert "as jobs 4001, 4002, 4003 at slurmsite" in done.err
    assert queued(site) == THREE
    assert submissions(site) == [text[5:] for text in THREE]
    assert (site.spool / "scripts").read_text().splitlines() == [
        "1 array_task 4 SLURM_ARRAY_TASK_ID",
        "2 array_task 4 SLURM_ARRAY_TASK_ID 1001",
        "3 array_task 4 SLURM_ARRAY_TASK_ID 2002",
    ]
    kept = record(site)
    assert (kept["tasks"], kept["job_id"], kept["earlier"]) == (3000, "4003", ["4001", "4002"])
    assert (kept["parts"], kept["offsets"]) == (["0-1000", "1001-2001", "2002-2999"], [0, 1001, 2002])
    (site.spool / "calls").unlink()
    assert summary(site).startswith("3000 runs: 3000 PENDING (Priority)")
    assert "\t4001, 4002, 4003\t" in site.type("status").out.splitlines()[1]
    assert len(calls(site, "squeue")) == 2
    each = site.type("status", "--json").runs
    named = {one["run"][-4:]: (one["job_id"], one["values"]["seed"]) for one in each}
    assert (named["1000"], named["1001"], named["2999"]) == (
        ("4001_1000", "1001"),
        ("4002_0", "1002"),
        ("4003_997", "3000"),
    )
    (one,) = site.type("status", "4002_7", "--json").runs
    assert (one["run"][-4:], one["job_id"]) == ("1008", "4002_7")
    assert "array 4003 has no task 998; allowed: 0 to 997" in site.type("status", "4003_998").err
    cancelled = site.type("cancel", str(kept["run"]))
    assert cancelled.code == 0, cancelled.err
    assert calls(site, "scancel") == [["4001", "4002", "4003"]]
    assert queued(site) == []
    assert summary(site) == "3000 runs: 3000 CANCELLED"


@pytest.mark.parametrize(
    ("at_once", "expected"),
    [
        ("10", ["0-1000%4", "0-1000%3", "0-997%3"]),
        ("3", ["0-1000%1", "0-1000%1", "0-997%1"]),
        ("2", ["0-1000%1", "0-1000%1", "0-997%1 --dependency=afterany:4001"]),
        ("1", ["0-1000%1", "0-1000%1 --dependency=afterany:4001", "0-997%1 --dependency=afterany:4002"]),
    ],
)
def test_the_arrays_share_the_limit_of_runs_at_a_time(site: Desk, at_once: str, expected: list[str]) -> None:
    assert site.type(*SWEEP, "--at-once", at_once).code == 0
    assert submissions(site) == expected


@pytest.mark.parametrize(
    ("at_once", "expected"),
    [
        ((), ["0-1000", "0-1000 --dependency=after:4001_0", "0-997 --dependency=after:4001_0"]),
        (
            ("--at-once", "1"),
            [
                "0-1000%1",
                "0-1000%1 --dependency=after:4001_0,afterany:4001",
                "0-997%1 --dependency=after:4001_0,afterany:4002",
            ],
        ),
    ],
)
def test_arrays_of_one_sweep_do_not_wait_for_each_other_by_their_name(
    site: Desk, at_once: tuple[str, ...], expected: list[str]
) -> None:
    done = site.type(*SWEEP, *at_once, "--after", "singleton")
    assert done.code == 0, done.err
    assert submissions(site) == expected
    assert "waits until no earlier job of yours named tune waits or runs; its own runs do not" in done.err


def test_what_is_submitted_later_keeps_to_the_limit_too(site: Desk) -> None:
    """The third array was refused; it waits for those that run, whose limits it cannot know to be free."""
    (site.spool / "at-3").write_text(REFUSED)
    assert site.type(*SWEEP, "--at-once", "10").code == 1
    done = site.type("retry", str(record(site)["run"]))
    assert done.code == 0, done.err
    assert submissions(site)[-1] == "0-997%10 --dependency=afterany:4001:4002"


def test_only_the_first_part_is_asked_about_before_a_submission(site: Desk) -> None:
    site.program(
        "sbatch", f"#!/bin/bash\ncat > {site.spool}/script\necho 'sbatch: Job 1 to start at 2030-01-01T00:00:00'"
    )
    assert site.type(*SWEEP, "--test-only").code == 0
    assert "#SBATCH --array=0-1000\n" in (site.spool / "script").read_text()


def test_an_array_that_was_queued_although_the_answer_was_lost_is_queued_once(site: Desk) -> None:
    (site.spool / "at-2").write_text(LOST)
    done = site.type(*SWEEP)
    assert done.code == 0, done.err
    assert queued(site) == THREE
    assert summary(site).startswith("3000 runs: 3000 PENDING")


def test_a_part_that_is_refused_is_told_and_retry_submits_the_rest_once(site: Desk) -> None:
    (site.spool / "at-2").write_text(REFUSED)
    done = site.type(*SWEEP)
    assert done.code == 1
    assert "Invalid qos specification" in done.err
    assert "1001 of 3000 runs" in done.err and "are queued (as 4001)" in done.err
    assert queued(site) == THREE[:1]
    assert summary(site).startswith("3000 runs: 1001 PENDING, 1999 NOT_SUBMITTED (Priority)")
    assert "submits the runs that are not queued" in summary(site)
    name = str(record(site)["run"])
    again = site.type("retry", name)
    assert again.code == 0, again.err
    assert queued(site) == ["4001 0-1000", "4003 0-1000", "4004 0-997"]
    assert summary(site).startswith("3000 runs: 3000 PENDING")
    assert site.type("retry", name).code == 1
    assert site.type("resume", name).code == 1
    assert len(queued(site)) == 3
    assert site.type("cancel", name).code == 0
    assert queued(site) == []


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_process_that_is_killed_leaves_no_run_that_is_queued_twice(site: Desk, number: int, when: str) -> None:
    """Before sbatch reaches Slurm, or after it has queued the array and before it answers."""
    (site.spool / f"at-{number}").write_text(KILLED.format(when=when, folder=site.spool))
    starter = "import os, sys; open(sys.argv[1], 'w').write(str(os.getpid())); os.execv(sys.executable, sys.argv[2:])"
    site.before = (sys.executable, "-c", starter, str(site.spool / "process"))
    process = site.start(*SWEEP)
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    site.before = ()
    found = queued(site) if (site.spool / "jobs").exists() else []
    assert found == THREE[: number - (when == "before")]
    name = str(record(site)["run"])
    known = f"{sum(map(_size, found))} PENDING" if when == "after" else "\tSUBMITTING\t"
    assert known in site.type("status").out
    _end_the_patience(site)
    site.type("status")
    site.type("retry", name)
    assert sorted(_size(array) for array in queued(site)) == [998, 1001, 1001], "each run is queued once"
    assert summary(site).startswith("3000 runs: 3000 PENDING")


def _size(array: str) -> int:
    first, _, last = array.split()[1].partition("-")
    return int(last) - int(first) + 1


def _end_the_patience(site: Desk) -> None:
    """Let the last sign of life of the killed process be ten minutes old."""
    (path,) = (site.project / "runs").iterdir()
    for file in (path / "submissions").glob("*.renewed"):
        file.write_text("-1000\n")


def test_a_look_at_the_states_between_two_parts_changes_nothing(site: Desk) -> None:
    text = f"[ $1 = after ] || {sys.executable} -m hpclaunch status > {site.spool}/meanwhile-$number 2>&1 < /dev/null\n"
    for number in (2, 3):
        (site.spool / f"at-{number}").write_text(text)
    done = site.type(*SWEEP)
    assert done.code == 0, done.err
    assert "\tSUBMITTING\t" in (site.spool / "meanwhile-2").read_text()
    assert queued(site) == THREE
    assert summary(site).startswith("3000 runs: 3000 PENDING")


def test_another_process_cannot_submit_the_rest_meanwhile(site: Desk) -> None:
    text = f"[ $1 = after ] || {{ {sys.executable} -m hpclaunch retry RUN; echo $?; }} > {site.spool}/meanwhile 2>&1\n"
    (site.spool / "at-2").write_text(text.replace("RUN", "$HOME/../project/runs/*"))
    done = site.type(*SWEEP)
    assert done.code == 0, done.err
    assert (site.spool / "meanwhile").read_text().rstrip().endswith("\n1")
    assert queued(site) == THREE


def test_control_c_between_two_parts_says_what_is_queued(site: Desk) -> None:
    (site.spool / "at-2").write_text(f": > {site.spool}/begun\nwhile [ ! -e {site.spool}/go ]; do sleep 0.1; done\n")
    process = site.start(*SWEEP)
    wait_for((site.spool / "begun").exists, "the second sbatch")
    process.send_signal(signal.SIGINT)
    (site.spool / "go").touch()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "1001 of 3000 runs" in err and "are queued (as 4001)" in err


def test_runs_of_several_arrays_are_resumed_with_one_command(site: Desk) -> None:
    assert site.type(*SWEEP).code == 0
    name = str(record(site)["run"])
    site.type("cancel", name)
    assert summary(site) == "3000 runs: 3000 CANCELLED"
    assert site.type("resume", f"{name}/1500").code == 0
    assert queued(site) == ["4004 0"]
    assert submissions(site)[-1] == "0"
    assert (site.spool / "scripts").read_text().splitlines()[-1] == "4 array_task 4 SLURM_ARRAY_TASK_ID 1500"
    (one,) = site.type("status", f"{name}/1500", "--json").runs
    assert (one["job_id"], one["earlier"], one["state"]) == ("4004_0", ["4002_499"], "PENDING")
    assert site.type("resume", name).code == 0
    assert queued(site) == ["4004 0", "4005 0-1000", "4006 0-498,500-1000", "4007 0-997"]
    assert summary(site).startswith("3000 runs: 3000 PENDING")


def test_a_template_of_ones_own_without_the_line_is_refused_before_a_run_is_doubled(site: Desk) -> None:
    bundled = Path(__file__).resolve().parents[2] / "templates"
    base = (
        (bundled / "base.sh.j2")
        .read_text()
        .replace("array_task {{ spec.sweep.digits }}", "array_task  {{ spec.sweep.digits }}")
    )
    site.write("templates/base.sh.j2", base)
    done = site.type(*SWEEP)
    assert (done.code, "has no line 'array_task'" in done.err) == (1, True), done.err
    assert "1001 of 3000 runs" in done.err
    assert queued(site) == THREE[:1]
