"""Many runs as one job array: one call of each of Slurm's programs, whatever their number."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.builders import leave_proof
from tests.cli.conftest import Desk, wait_for

# Keeps the calls of each program, one a line, and answers with the contents of NAME.out.
COUNTED = """#!/bin/bash
printf '%s\\t' {name} "$@" >> {spool}/calls
echo >> {spool}/calls
[ {name} != sbatch ] || cat -- "${{@: -1}}" > {spool}/script
with_folders {spool}/{name}.out "$@"
"""
# Queues the array, which squeue then tells as Slurm does, and loses the answer.
LOSING = """#!/bin/bash
echo sbatch >> {spool}/calls
while IFS= read -r line; do
  case $line in '#SBATCH --chdir='*) folder=${{line#*=}} ;; esac
done < "${{@: -1}}"
printf '4711_[1-2%%1]|PENDING|Priority||%s\\n4711_0|PENDING|Priority||%s\\n' "$folder" "$folder" > {spool}/squeue.out
echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2
exit 1
"""
# Queues a part of an array, but slowly: meanwhile a person asks for its state.
ASKED_MEANWHILE = """#!/bin/bash
{python} -m hpclaunch status > {spool}/meanwhile
echo 'Submitted batch job 4800'
"""
JOB = """
summary: sweeps
script: train.py
parameters:
  learning_rate: 0.1
  seed: 1
  note: {default: "", choices: []}
  augment: false
"""


@pytest.fixture
def site(cluster: Desk) -> Desk:
    """A Slurm site with a job ``tune``; every call of a scheduler's program is remembered."""
    cluster.write("jobs/tune/job.yaml", JOB.replace(", choices: []", ""))
    cluster.write("jobs/tune/train.py", "print('hello')\n")
    for name in ("sbatch", "squeue", "sacct", "scancel"):
        cluster.program(name, COUNTED.format(name=name, spool=cluster.spool))
    return cluster


def calls(desk: Desk, name: str) -> list[list[str]]:
    path = desk.spool / "calls"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.rstrip("\t").split("\t")[1:] for line in lines if line.split("\t")[0] == name]


def forget_calls(desk: Desk) -> None:
    (desk.spool / "calls").unlink(missing_ok=True)


def answers(desk: Desk, squeue: str = "", sacct: str = "") -> None:
    (desk.spool / "squeue.out").write_text(squeue)
    (desk.spool / "sacct.out").write_text(sacct)


def submitted(desk: Desk, *words: str) -> Path:
    done = desk.type("submit", "tune", *words)
    assert done.code == 0, done.err
    return Path(done.out.strip())


def told(desk: Desk, *words: str) -> list[dict[str, Any]]:
    done = desk.type(*words, "--json")
    assert done.code == 0, done.err
    assert isinstance(done.runs, list)
    return done.runs


def test_a_thousand_runs_are_one_array_one_sbatch_and_few_files(site: Desk) -> None:
    path = submitted(site, "--sweep", "learning_rate=0.1,0.01", "--sweep", "seed=1..500", "--at-once", "12")
    assert len(calls(site, "sbatch")) == 1
    assert "#SBATCH --array=0-999%12\n" in (path / "job.sh").read_text()
    lines = (path / "values").read_text().splitlines()
    assert (lines[0], lines[999]) == ("0000\t--learning-rate=0.1\t--seed=1", "0999\t--learning-rate=0.01\t--seed=500")
    assert len(lines) == 1000
    assert not list(path.glob("0*")), "nothing is written of a run that has not begun"
    forget_calls(site)
    running = "".join(f"4711_{n}|RUNNING|None|n1\n" for n in range(12))
    answers(site, running + "".join(f"4711_{n}|PENDING|JobArrayTaskLimit|\n" for n in range(12, 1000)))
    row = site.type("status").out.splitlines()[1].split("\t")
    assert row[0] == path.name
    assert row[3] == "RUNNING"
    counts, _, words = row[-1].partition(": as many")
    assert counts == "1000 runs: 12 RUNNING, 988 PENDING (JobArrayTaskLimit)"
    assert words.startswith(" tasks of its array as allowed are running"), "why it waits, in words"
    assert [len(calls(site, name)) for name in ("squeue", "sacct")] == [1, 0]
    assert "--array" in calls(site, "squeue")[0]
    assert "--jobs=4711" in calls(site, "squeue")[0]
    each = told(site, "status")
    assert len(each) == 1000
    assert (each[999]["run"], each[999]["job_id"], each[999]["state"]) == (f"{path.name}/0999", "4711_999", "PENDING")
    assert each[999]["values"] == {"learning_rate": "0.01", "seed": "500"}
    assert len(site.type("status", "--all").out.splitlines()) == 1 + 1000  # the columns' names
    assert len(site.type("runs", "list").out.splitlines()) == 1 + 1


def test_what_has_ended_is_asked_of_accounting_once_and_those_that_never_began_are_read_too(site: Desk) -> None:
    path = submitted(site, "--sweep", "seed=1..10")
    forget_calls(site)
    answers(
        site,
        "4711_3|RUNNING|None|n1\n",
        "4711_0|COMPLETED|0:0|n1\n4711_1|FAILED|7:0|n2\n4711_[2,4-9%3]|CANCELLED by 0|0:0|\n",
    )
    states = {one["run"][-4:]: one["state"] for one in told(site, "status")}
    assert [len(calls(site, name)) for name in ("squeue", "sacct")] == [1, 1]
    assert states == {"0000": "COMPLETED", "0001": "FAILED", "0003": "RUNNING"} | {
        f"{n:04}": "CANCELLED" for n in (2, 4, 5, 6, 7, 8, 9)
    }
    answers(site, "", "4711_3|COMPLETED|0:0|n1\n")
    assert site.type("status", path.name).out.splitlines()[1].split("\t")[3] == "FAILED"
    forget_calls(site)
    site.type("status")
    assert not (site.spool / "calls").exists(), "all have ended: nobody is asked"
    done = site.type("wait", path.name)
    assert done.code == 7, "the first that failed"
    answers(site, "", "4711_[0-1]|FAILED|7:0|n1\n")
    assert site.type("submit", "tune", "--sweep", "seed=1,2", "--wait").code == 1, "as of one run"


def test_the_exit_code_of_a_run_that_failed_is_asked_for_until_it_is_told(site: Desk) -> None:
    submitted(site, "--sweep", "seed=1..3")
    answers(site, "4711_0|FAILED|NonZeroExitCode|n1\n4711_1|RUNNING|None|n1\n4711_2|RUNNING|None|n1\n")
    assert [(one["state"], one["exit_code"]) for one in told(site, "status")] == [
        ("FAILED", ""),
        ("RUNNING", ""),
        ("RUNNING", ""),
    ]
    answers(site, "", "4711_1|COMPLETED|0:0|n1\n4711_2|COMPLETED|0:0|n1\n")
    assert [one["state"] for one in told(site, "status")] == ["FAILED", "COMPLETED", "COMPLETED"]
    forget_calls(site)
    answers(site, "", "4711_0|FAILED|3:0|n1\n")  # accounting may be late
    assert told(site, "status")[0]["exit_code"] == "3:0"
    assert [len(calls(site, name)) for name in ("squeue", "sacct")] == [1, 1]
    forget_calls(site)
    assert site.type("wait").code == 3
    assert not (site.spool / "calls").exists(), "all is known: nobody is asked"


def test_control_c_leaves_a_sweep_running_and_says_so(site: Desk) -> None:
    answers(site, "4711_0|RUNNING|None|n1\n4711_1|RUNNING|None|n1\n")
    process = site.start("submit", "tune", "--sweep", "seed=1,2", "--wait")
    wait_for(lambda: any("%T" in " ".join(call) for call in calls(site, "squeue")), "squeue is asked for the states")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    (path,) = (site.project / "runs").iterdir()
    assert "detached; the run continues" in err
    assert f"hpclaunch wait {path.name}" in err and "or: scancel 4711" in err
    assert not calls(site, "scancel")


def test_a_run_that_was_cancelled_while_it_waited_is_named_by_nobody_and_still_cancelled(site: Desk) -> None:
    path = submitted(site, "--sweep", "seed=1..4")
    waiting = "4711_0|PENDING|JobHeldUser|\n4711_3|PENDING|JobHeldUser|\n"
    (path / "0002/attempts/4711_2.0").mkdir(parents=True)
    (path / "0002/attempts/4711_2.0/started").write_text("2026-11-21T05:22:00Z\n")
    answers(site, waiting, "")
    assert [one["state"] for one in told(site, "status")] == ["PENDING", "UNKNOWN", "UNKNOWN", "PENDING"]
    answers(site, waiting, "4711_[0,3]|PENDING|0:0|None assigned\n")
    each = told(site, "status")
    assert [one["state"] for one in each] == ["PENDING", "CANCELLED", "UNKNOWN", "PENDING"], "one of them had begun"
    assert each[1]["reason"] == "cancelled before it began"


def test_who_is_cancelled_while_it_waits_is_told_so_at_once(site: Desk) -> None:
    path = submitted(site, "--sweep", "seed=1..4")
    site.program("scancel", f"#!/bin/bash\nprintf '4711_0|PENDING|JobHeldUser|\\n' > {site.spool}/squeue.out\n")
    answers(site, "".join(f"4711_{n}|PENDING|JobHeldUser|\n" for n in range(4)))
    cancelled = told(site, "cancel", f"{path.name}/0001", f"{path.name}/0003")
    assert [(one["state"], one["reason"]) for one in cancelled] == [("CANCELLED", "cancelled before it began")] * 2
    assert [one["state"] for one in told(site, "status")] == ["PENDING", "CANCELLED", "UNKNOWN", "CANCELLED"]


def test_not_found_is_unknown_and_never_failed(site: Desk) -> None:
    path = submitted(site, "--sweep", "seed=1..3")
    leave_proof(path / "0001", "4711_1.0")
    assert [one["state"] for one in told(site, "status")] == ["UNKNOWN", "COMPLETED", "UNKNOWN"]
    assert "UNKNOWN" in site.type("status").out.splitlines()[1].split("\t")[3]


@pytest.mark.parametrize("name", ["{run}/0001", "4711_1", "4711/0001", "runs/{run}/0001"])
def test_one_run_of_an_array_has_a_name_a_job_id_and_a_path(site: Desk, name: str) -> None:
    path = submitted(site, "--sweep", "seed=5,6,7")
    answers(site, "4711_1|RUNNING|None|n1\n")
    forget_calls(site)
    name = name.format(run=path.name)
    (one,) = told(site, "status", name)
    assert (one["run"], one["state"], one["values"]) == (f"{path.name}/0001", "RUNNING", {"seed": "6"})
    assert "--jobs=4711_1" in calls(site, "squeue")[0]
    shown = site.type("runs", "show", name, "--json").json
    assert shown["values"] == {"seed": "6"}
    (command,) = [line for line in site.type("runs", "show", name).out.splitlines() if line.startswith("command")]
    assert "--seed=6" in command.split()
    (path / "logs/slurm-4711_1.out").write_text("its log\n")
    (path / "logs/slurm-4711_11.out").write_text("another's\n")
    assert site.type("logs", name).out == "its log\n"
    site.type("cancel", name)
    assert calls(site, "scancel") == [["4711_1"]]


def test_a_rank_of_one_run_of_an_array_has_its_own_log(site: Desk) -> None:
    path = submitted(site, "--sweep", "seed=5,6", "--tasks-per-node", "2")
    name = f"{path.name}/0001"
    refused = site.type("logs", name, "--rank", "1")
    assert (refused.code, f"hpclaunch logs -f {name} --rank 1" in refused.err) == (1, True)
    (path / "0001/logs").mkdir(parents=True)
    (path / "0001/logs/rank-1.out").write_text("rank 1 of it\n")
    (path / "logs/slurm-4711_1.out").write_text("its log\n")
    assert site.type("logs", name, "--rank", "1").out == "rank 1 of it\n"
    assert site.type("logs", name).out == "its log\n"


def test_an_array_is_cancelled_with_one_scancel(site: Desk) -> None:
    path = submitted(site, "--sweep", "seed=1..50")
    answers(site, "".join(f"4711_{n}|PENDING|None|\n" for n in range(50)))
    assert site.type("cancel", path.name).code == 0
    assert calls(site, "scancel") == [["4711"]]


def test_a_waiting_task_that_was_cancelled_does_not_wait_because_accounting_hears_of_it_later(site: Desk) -> None:
    path = submitted(site, "--sweep", "seed=1..4")
    answers(site, "".join(f"4711_{n}|PENDING|None|\n" for n in range(4)))
    assert "4 PENDING" in site.type("status", path.name).out
    answers(site, "4711_0|PENDING|None|\n4711_1|PENDING|None|\n4711_3|PENDING|None|\n", "4711_[0-3]|PENDING|0:0|\n")
    assert site.type("cancel", f"{path.name}/0002").code == 0
    assert "3 PENDING, 1 CANCELLED" in site.type("status", path.name).out


def test_names_that_are_none(site: Desk) -> None:
    path = submitted(site, "--sweep", "seed=1..3")
    for name in (f"{path.name}/0003", f"{path.name}/3", f"{path.name}/x", "4711_3", f"{path.name}/00001"):
        done = site.type("status", name)
        assert (done.code, done.out) == (1, ""), name
    assert "has no run '0003'; allowed: 0000 to 0002" in site.type("status", f"{path.name}/0003").err
    assert "array 4711 has no task 3; allowed: 0 to 2" in site.type("status", "4711_3").err


def test_results_and_compare_tell_what_was_swept(site: Desk) -> None:
    path = submitted(site, "--sweep", "learning_rate=0.1,0.2", "--sweep", 'note="a,b",c')
    answers(site, "", "".join(f"4711_{n}|COMPLETED|0:0|n1\n" for n in range(4)))
    for number in range(4):
        (path / f"{number:04}").mkdir()
        (path / f"{number:04}/metrics.jsonl").write_text(json.dumps({"event": "end", "accuracy": number / 4}) + "\n")
    names, *rows = [row.split("\t") for row in site.type("results", path.name).out.splitlines()]
    assert names == ["run", "state", "learning_rate", "note", "accuracy"]
    assert rows[0] == [f"{path.name}/0000", "COMPLETED", "0.1", "a,b", "0"]
    assert rows[3] == [f"{path.name}/0003", "COMPLETED", "0.2", "c", "0.75"]
    compared = site.type("runs", "compare", f"{path.name}/0000", f"{path.name}/0001", "--json").json
    assert set(compared["differences"]) == {"--note", "result.accuracy"}
    other = submitted(site, "--sweep", "note=c,d", "--sweep", "learning_rate=0.1")
    compared = site.type("runs", "compare", f"{path.name}/0001", f"{other.name}/0000", "--json").json
    assert "command" not in compared["differences"], "their folders differ by nature"


def test_runs_all_over_a_large_array_are_retried_as_one_array(site: Desk) -> None:
    """Their list is longer than Linux allows a word of a command line to be (128 KiB)."""
    path = submitted(site, "--sweep", "seed=1..50000")
    ends = ("CANCELLED by 7|0:15|n1", "NODE_FAIL|0:0|n2")
    answers(site, "", "".join(f"4711_{n}|{ends[n % 2]}\n" for n in range(50000)))
    (site.spool / "sbatch.out").write_text("Submitted batch job 4800\n")
    done = site.type("retry", path.name)
    assert done.code == 0, done.err
    tasks = ",".join(map(str, range(1, 50000, 2)))
    assert len(tasks) > 2**17
    assert f"#SBATCH --array={tasks}\n" in (site.spool / "script").read_text()
    assert json.loads((path / "run.json").read_text())["parts"] == ["", tasks]


def test_the_failed_of_a_machine_are_retried_as_one_array_and_keep_their_folders(site: Desk) -> None:
    path = submitted(site, "--sweep", "seed=1..6", "--at-once", "2")
    ends = [
        "COMPLETED|0:0|n1",
        "NODE_FAIL|0:0|n2",
        "NODE_FAIL|0:0|n2",
        "FAILED|3:0|n1",
        "COMPLETED|0:0|n1",
        "PREEMPTED|0:0|n3",
    ]
    answers(site, "", "".join(f"4711_{n}|{end}\n" for n, end in enumerate(ends)))
    (site.spool / "sbatch.out").write_text("Submitted batch job 4800\n")
    forget_calls(site)
    done = site.type("retry", path.name)
    assert done.code == 0, done.err
    ((_,),) = calls(site, "sbatch")
    script = (site.spool / "script").read_text()
    assert script.count("#SBATCH --array=") == script.count("#SBATCH --array=1-2,5%2\n") == 1
    assert "#SBATCH --exclude=n2\n" in script
    answers(site, "4800_1|RUNNING|None|n1\n4800_2|PENDING|None|\n4800_5|PENDING|None|\n")
    each = told(site, "status")
    assert [one["job_id"] for one in each] == ["4711_0", "4800_1", "4800_2", "4711_3", "4711_4", "4800_5"]
    assert [one["earlier"] for one in each][1] == ["4711_1"]
    assert [one["state"] for one in each] == ["COMPLETED", "RUNNING", "PENDING", "FAILED", "COMPLETED", "PENDING"]
    assert told(site, "status", "4711_1")[0]["run"] == f"{path.name}/0001"
    done = site.type("retry", f"{path.name}/0003")
    assert done.code == 1
    assert "it failed with exit code 3" in done.err
    (site.spool / "sbatch.out").write_text("Submitted batch job 4900\n")
    assert site.type("resume", f"{path.name}/0003").code == 0
    script = (site.spool / "script").read_text()
    assert "#SBATCH --array=3%2\n" in script and "#SBATCH --exclude=n2\n" in script
    assert (path / "0003/resumed").exists()
    answers(site, "4900_3|RUNNING|None|n1\n4800_1|RUNNING|None|n1\n", "4800_[2,5]|COMPLETED|0:0|n1\n")
    states = [one["state"] for one in told(site, "status")]
    assert states == ["COMPLETED", "RUNNING", "COMPLETED", "RUNNING", "COMPLETED", "COMPLETED"]
    site.type("cancel", path.name)
    assert [sorted(call) for call in calls(site, "scancel")] == [["4800", "4900"]]


def test_a_part_that_slurm_refuses_leaves_the_others_as_they_are(site: Desk) -> None:
    path = submitted(site, "--sweep", "seed=1..3")
    answers(site, "4711_0|RUNNING|None|n1\n", "4711_1|NODE_FAIL|0:0|n2\n4711_2|COMPLETED|0:0|n1\n")
    site.fake("sbatch", err="sbatch: error: Invalid --time specification\n", code=1)
    assert site.type("retry", f"{path.name}/0001").code == 1
    assert [one["state"] for one in told(site, "status")] == ["RUNNING", "NOT_SUBMITTED", "COMPLETED"]
    site.fake("sbatch", out="Submitted batch job 4800\n")
    assert site.type("retry", f"{path.name}/0001").code == 0
    answers(site, "4711_0|RUNNING|None|n1\n4800_1|RUNNING|None|n1\n")
    assert [one["job_id"] for one in told(site, "status")] == ["4711_0", "4800_1", "4711_2"]


def test_of_an_array_with_a_refused_part_the_others_can_be_cancelled(site: Desk) -> None:
    path = submitted(site, "--sweep", "seed=1..3")
    answers(site, "4711_0|RUNNING|None|n1\n", "4711_1|NODE_FAIL|0:0|n2\n4711_2|COMPLETED|0:0|n1\n")
    site.fake("sbatch", err="sbatch: error: Invalid --time specification\n", code=1)
    assert site.type("retry", f"{path.name}/0001").code == 1
    done = site.type("cancel", path.name)
    assert done.code == 0, done.err
    assert calls(site, "scancel") == [["4711"]]


def test_who_asks_while_a_part_is_submitted_does_not_undo_that(site: Desk) -> None:
    path = submitted(site, "--sweep", "seed=1..3")
    answers(site, "4711_0|RUNNING|None|n1\n", "4711_1|NODE_FAIL|0:0|n2\n4711_2|COMPLETED|0:0|n1\n")
    site.program("sbatch", ASKED_MEANWHILE.format(python=sys.executable, spool=site.spool))
    done = site.type("retry", f"{path.name}/0001")
    assert done.code == 0, done.err
    assert "SUBMITTING" in (site.spool / "meanwhile").read_text()
    answers(site, "4711_0|RUNNING|None|n1\n4800_1|RUNNING|None|n1\n")
    assert [one["job_id"] for one in told(site, "status")] == ["4711_0", "4800_1", "4711_2"], "no job is lost"


def test_what_cannot_be_swept_is_refused_with_all_reasons_before_anything_is_written(site: Desk) -> None:
    before = site.listing()
    done = site.type("submit", "tune", "--sweep", "rate=1,2", "--sweep", "seed=1,1", "--sweep", "augment=")
    assert done.code == 1
    for said in ("tune has no parameter 'rate'", "'1' is listed twice", "a value is empty"):
        assert said in done.err
    assert site.listing() == before
    assert not calls(site, "sbatch")


def test_what_is_no_pair_is_a_usage_error(site: Desk) -> None:
    done = site.type("submit", "tune", "--sweep", "seed")
    assert done.code == 2
    assert "--sweep: 'seed' is not NAME=V1,V2,… or NAME=1..10" in done.err


def test_an_array_that_slurm_would_refuse_is_refused_with_its_limit(site: Desk) -> None:
    site.fake("scontrol", out="MaxArraySize            = 1001\nMaxJobCount             = 500\n")
    assert site.type("submit", "tune", "--sweep", "seed=1..500").code == 0
    done = site.type("submit", "tune", "--sweep", "seed=1..1002")
    assert done.code == 1
    assert "MaxJobCount: an array of 1002 runs is larger than this Slurm accepts; allowed: at most 500 runs" in done.err
    site.fake("scontrol", out="MaxArraySize            = 0\n")
    done = site.type("submit", "tune", "--sweep", "seed=1,2")
    assert (done.code, "MaxArraySize: this Slurm accepts no job arrays" in done.err) == (1, True)


def test_a_dry_run_prints_the_script_that_is_submitted_and_says_how_many(site: Desk) -> None:
    dry = site.type("submit", "tune", "--sweep", "seed=1..20", "--dry-run")
    assert dry.code == 0
    assert "20 runs" in dry.err
    assert "#   seed: 1, 2, 3, 4, 5, 6, …, 20 (20 values)\n" in dry.out
    assert '"${own[@]}"' in dry.out


def test_a_script_for_sbatch_by_hand_is_found_by_the_claims_of_its_runs(site: Desk) -> None:
    done = site.type("render", "tune", "--sweep", "seed=1..3", "-o", "mine.sh")
    assert done.code == 0, done.err
    path = Path(done.out.strip())
    (path / "0002/claims").mkdir(parents=True)
    (path / "0002/claims/1").write_text("5000_2.0 n1 77 1234\n")
    answers(site, "5000_2|RUNNING|None|n1\n5000_0|PENDING|None|\n5000_1|PENDING|None|\n")
    assert [one["state"] for one in told(site, "status")] == ["PENDING", "PENDING", "RUNNING"]


def test_a_submission_whose_answer_was_lost_is_found_by_its_folder_and_not_repeated(site: Desk) -> None:
    site.program("sbatch", LOSING.format(spool=site.spool))
    done = site.type("submit", "tune", "--sweep", "seed=1..3", "--json")
    assert (done.code, done.json["job_id"]) == (0, "4711"), done.err
    assert len(calls(site, "sbatch")) == 1
    assert not calls(site, "scancel")


def test_a_damaged_record_or_file_of_states_is_no_traceback(site: Desk) -> None:
    path = submitted(site, "--sweep", "seed=1..3")
    answers(site, "4711_0|RUNNING|None|n1\n4711_1|RUNNING|None|n1\n4711_2|RUNNING|None|n1\n")
    for text in ("", "{", '{"0": 1, "x": ["4711_0"], "1": ["4711_1", "a", "", "", ""], "99": []}', "[]", "\x00\xff"):
        (path / "states.json").write_text(text)
        assert [one["state"] for one in told(site, "status")] == ["RUNNING"] * 3
    (path / "values").write_text("nonsense\n\t\\0\\\n")
    assert told(site, "status")[0]["values"] == {}
    record = json.loads((path / "run.json").read_text())
    for news in ({"tasks": -1}, {"tasks": "x"}, {"tasks": 10**30}, {"parts": ["0-999999999"]}, {"parts": ["$(x)"]}):
        (path / "run.json").write_text(json.dumps({**record, **news}))
        assert site.type("status").code == 0


def test_an_array_is_cleaned_as_a_whole(site: Desk) -> None:
    path = submitted(site, "--sweep", "seed=1..3")
    answers(site, "", "4711_[0-2]|COMPLETED|0:0|n1\n")
    refused = site.type("runs", "clean", f"{path.name}/0001", "--yes")
    assert refused.code == 1
    assert (
        f"{path.name}/0001 is one run of the job array {path.name}, which can only be deleted completely" in refused.err
    )
    assert path.is_dir()
    assert site.type("runs", "clean", path.name, "--yes").code == 0
    assert not path.exists()
    assert site.type("status").out == ""


DASHES = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--learning-rate')\n"


@pytest.mark.parametrize(
    "words",
    [("./train.py",), ("--", "python3", "train.py"), ("--", "python3", "-m", "pack.train"), ("--", "./tool")],
)
def test_the_runs_of_a_sweep_get_an_option_as_the_program_spells_it(cluster: Desk, words: tuple[str, ...]) -> None:
    cluster.write("train.py", DASHES)
    cluster.write("pack/train.py", DASHES)
    cluster.write("tool", f"#!/usr/bin/env python3\n{DASHES}")
    (cluster.project / "tool").chmod(0o755)
    cut = words.index("--") if "--" in words else len(words)
    done = cluster.type("submit", "-v", *words[:cut], "--sweep", "learning_rate=0.1,0.2", *words[cut:])
    assert done.code == 0, done.err
    assert "option          --learning-rate=…        (train.py:3)" in done.err.replace("tool:4", "train.py:3")
    (array,) = (cluster.project / "runs").iterdir()
    lines = (array / "values").read_text().splitlines()
    assert lines == ["0000\t--learning-rate=0.1", "0001\t--learning-rate=0.2"]
