"""runs list, show, compare, clean, rebuild; wait, cancel, retry, results: at a Slurm site with fakes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders import leave_proof
from tests.cli.conftest import Desk


def submit(desk: Desk, job_id: int, *words: str) -> Path:
    desk.fake("sbatch", out=f"Submitted batch job {job_id}\n")
    done = desk.type("submit", "./train.py", "--json", *words)
    assert done.code == 0, done.err
    return Path(done.json["run_dir"])


def ended(desk: Desk, **states: str) -> None:
    """What sacct answers: job id with a j before it -> STATE|CODE|NODES. The next job gets another number."""
    desk.fake("sbatch", out=f"Submitted batch job {1 + max(int(job[1:]) for job in states)}\n")
    desk.fake("sacct", out="".join(f"{job[1:]}|{state}\n" for job, state in states.items()))


def age(desk: Desk) -> None:
    """Let all runs be years old: a test that waited until they are a second old would fail on a fast machine."""
    for file in desk.project.glob("runs/*/run.json"):
        record = json.loads(file.read_text())
        file.write_text(json.dumps({**record, "created": "2001-02-03T04:05:06Z"}))


def result(run: Path, **values: float) -> None:
    (run / "metrics.jsonl").write_text(json.dumps({"event": "end", **values}) + "\n")


def test_list_tells_the_records_and_asks_no_scheduler(cluster: Desk) -> None:
    old, new = submit(cluster, 1), submit(cluster, 2)
    (cluster.spool / "squeue.args").unlink()  # of the submissions
    names = [row["run"] for row in cluster.type("runs", "list", "--json").runs]
    assert sorted(names) == sorted([old.name, new.name])
    assert not (cluster.spool / "squeue.args").exists()
    assert cluster.type("runs", "list", "--state", "FAILED", "--json").runs == []


def test_a_run_directory_tells_everything(cluster: Desk) -> None:
    run = submit(cluster, 7)
    (run / "logs/slurm-7.out").write_text("hello\n")
    leave_proof(run, "7.0")
    (run / "attempts/7.0/started").write_text("2026-01-02T03:04:05Z\n")
    (run / "attempts/7.0/broadcast").write_text("/sw/venv, 12.3 MB, copied to /dev/shm/x on every node in 4 s\n")
    (run / "checkpoints/step-10").mkdir()
    (run / "model").mkdir()
    (run / "model/model.keras").touch()
    result(run, accuracy=0.75)
    ended(cluster, j7="COMPLETED|0:0|node1")
    told = cluster.type("runs", "show", "7", "--json").json
    assert [event["state"] for event in told["states"]] == [
        "INCOMPLETE",
        "RENDERED",
        "SUBMITTING",
        "PENDING",
        "COMPLETED",
    ]
    copied = "/sw/venv, 12.3 MB, copied to /dev/shm/x on every node in 4 s"
    start = {"attempt": "7.0", "started": "2026-01-02T03:04:05Z", "exit_code": 0, "broadcast": copied}
    assert told["attempts"] == [start]
    assert (told["nodes"], told["final"]["accuracy"]) == ("node1", 0.75)
    assert told["checkpoints"] == [str(run / "checkpoints/step-10")]
    assert told["model"] == [str(run / "model/model.keras")]
    assert told["spec"]["name"] == "train" and told["environment"]["folder"] == str(cluster.project)
    text = cluster.type("runs", "show").out
    for word in ("COMPLETED", "exit code 0", "step-10", "model.keras", "accuracy", "slurm-7.out", "12.3 MB"):
        assert word in text


def test_no_secret_of_the_shell_is_recorded(cluster: Desk) -> None:
    run = Path(cluster.type("submit", "./train.py", TOKEN="hunter2", LOADEDMODULES="gcc").out.strip())
    files = [path for path in run.rglob("*") if path.is_file()]
    assert not [path for path in files if b"hunter2" in path.read_bytes()]
    assert json.loads((run / "environment.json").read_text())["variables"]["LOADEDMODULES"] == "gcc"
    assert stat.S_IMODE(run.stat().st_mode) == 0o700


def test_a_rendered_script_is_its_owners_alone(cluster: Desk) -> None:
    cluster.type("render", "./train.py", "-o", "job.sh")
    assert stat.S_IMODE((cluster.project / "job.sh").stat().st_mode) == 0o700


def test_compare_tells_what_differs(cluster: Desk) -> None:
    one, two = submit(cluster, 1), submit(cluster, 2, "--nodes", "2")
    result(one, accuracy=0.5)
    result(two, accuracy=0.75)
    told = cluster.type("runs", "compare", "1", "2", "--json").json["differences"]
    assert told["layout.nodes"] == {str(one): "1", str(two): "2"}
    assert told["result.accuracy"] == {str(one): "0.5", str(two): "0.75"}
    assert not [name for name in told if "run_dir" in name or name == "site"]
    table = cluster.type("runs", "compare", "1", "2").out
    assert table.startswith(f"what\t{one.name}\t{two.name}\n") and "--nodes\t1\t2\n" in table
    assert cluster.type("runs", "compare", "1").code == 2


def test_show_and_compare_tell_every_parameter_however_it_reached_the_program(cluster: Desk) -> None:
    cluster.write("jobs/mine/job.yaml", "summary: x\nscript: train.py\nparameters: {from: training, epochs: 12}\n")
    cluster.write("jobs/mine/train.py", "")
    runs = []
    for number, words in enumerate([[], ["--set", "epochs=12"], ["--set", "epochs=12", "--set", "seed=1"]], start=1):
        cluster.fake("sbatch", out=f"Submitted batch job {number}\n")
        runs.append(Path(cluster.type("submit", "mine", "--json", *words).json["run_dir"]))
    specs = [json.loads((run / "spec.json").read_text()) for run in runs]
    assert [spec["command"][2:] for spec in specs] == [
        ["--default=epochs=12"],
        ["--epochs=12"],
        ["--epochs=12", "--seed=1"],
    ]
    chosen = [[one["key"] for one in spec["choices"] if one["origin"] == "--set"] for spec in specs]
    assert chosen == [[], ["parameters.epochs"], ["parameters.epochs", "parameters.seed"]]
    assert specs[0]["parameters"] == specs[1]["parameters"] == specs[2]["parameters"]
    (line,) = [line for line in cluster.type("runs", "show", "1").out.splitlines() if line.startswith("parameters\t")]
    assert line.split("\t")[1].split()[:2] == ["epochs=12", "batch_size_per_rank=32"]
    assert "--epochs" not in cluster.type("runs", "compare", "1", "3", "--json").json["differences"]


def test_clean_asks_first_and_never_touches_what_may_run(cluster: Desk) -> None:
    done, running, unknown = submit(cluster, 1), submit(cluster, 2), submit(cluster, 3)
    ended(cluster, j1="COMPLETED|0:0")
    cluster.fake("squeue", out="2|RUNNING|None|node1\n")
    cluster.type("render", "./train.py", "-o", "job.sh")
    age(cluster)
    asked = cluster.type("runs", "clean", "--older-than", "1h")
    assert (asked.code, "nothing was deleted" in asked.err) == (1, True)
    assert done.is_dir() and str(done) in asked.out
    assert str(running) not in asked.out and "RUNNING" in asked.err
    told = cluster.type("runs", "clean", "--older-than", "1h", "--yes", "--json")
    assert told.json["deleted"] == [str(done)] and told.json["bytes"] > 1000
    assert (done.exists(), running.is_dir(), unknown.is_dir()) == (False, True, True)
    assert len(cluster.type("runs", "list", "--json").runs) == 3
    for run, state, step in ((running, "RUNNING", "cancel"), (unknown, "UNKNOWN", "status")):
        refused = cluster.type("runs", "clean", run.name, "--yes")
        assert (refused.code, f"{run.name} is {state} and is kept" in refused.err) == (1, True)
        assert f"hpclaunch {step} {run.name}" in refused.err
        assert run.is_dir()


def test_clean_keeps_the_newest_and_wants_to_be_told_which(cluster: Desk) -> None:
    submit(cluster, 1), submit(cluster, 2)
    ended(cluster, j1="COMPLETED|0:0", j2="FAILED|1:0")
    assert cluster.type("runs", "clean").code == 2
    assert len(cluster.type("runs", "clean", "--keep", "1", "--yes", "--json").json["deleted"]) == 1
    assert cluster.type("runs", "clean", "--older-than", "30d", "--yes", "--json").json["deleted"] == []


def test_the_newest_of_named_runs_is_kept_if_the_list_lacks_it(cluster: Desk) -> None:
    older, newest = submit(cluster, 1), submit(cluster, 2)
    record = json.loads((older / "run.json").read_text())
    (older / "run.json").write_text(json.dumps({**record, "created": "2001-02-03T04:05:06Z"}))
    ended(cluster, j1="COMPLETED|0:0", j2="COMPLETED|0:0")
    (cluster.home / ".local/state/hpclaunch/runs.txt").write_text(f"{older}\n")
    assert [row["run_dir"] for row in cluster.type("runs", "list", "--json").runs] == [str(newest), str(older)]
    done = cluster.type("runs", "clean", older.name, newest.name, "--keep", "1", "--yes", "--json")
    assert done.json["deleted"] == [str(older)] and newest.is_dir()


def test_clean_follows_no_link(cluster: Desk) -> None:
    run = submit(cluster, 1)
    precious = cluster.write("precious/file", "x")
    (run / "checkpoints/link").symlink_to(precious.parent)
    ended(cluster, j1="COMPLETED|0:0")
    assert cluster.type("runs", "clean", "1", "--yes").code == 0
    assert precious.exists() and not run.exists()


def test_a_lost_list_of_runs_is_made_anew(cluster: Desk) -> None:
    one = submit(cluster, 1)
    other = submit(cluster, 2, "--runs-dir", "elsewhere")
    index = cluster.home / ".local/state/hpclaunch/runs.txt"
    index.write_bytes(b"/nowhere\n\xff\xfe\nrelative\n/etc\n\0\n")
    assert [row["run_dir"] for row in cluster.type("status", "--json").runs] == [str(one)]  # ./runs is always looked at
    told = cluster.type("runs", "rebuild", "elsewhere", "--json").json
    assert (sorted(told["runs"]), "/nowhere" in told["forgotten"]) == (sorted([str(one), str(other)]), True)
    assert len(cluster.type("status", "--json").runs) == 2
    shutil.rmtree(other)
    assert len(cluster.type("status", "--json").runs) == 1
    assert cluster.type("runs", "rebuild", "nowhere").code == 1


def test_a_home_that_cannot_be_written_is_told_and_no_run_is_lost(cluster: Desk) -> None:
    done = cluster.type("submit", "./train.py", XDG_STATE_HOME="/proc/nowhere")
    assert (done.code, "the list of runs cannot be written" in done.err) == (0, True)
    (told,) = cluster.type("status", "--json", XDG_STATE_HOME="/proc/nowhere").runs
    assert told["job_id"] == "4711"


@pytest.mark.parametrize(
    ("states", "code"),
    [
        ({"j1": "COMPLETED|0:0", "j2": "COMPLETED|0:0"}, 0),
        ({"j1": "COMPLETED|0:0", "j2": "FAILED|7:0"}, 7),
        ({"j1": "CANCELLED by 0|0:15", "j2": "COMPLETED|0:0"}, 1),
        # What wait means by these itself: cannot be read, its time was over, Ctrl-C.
        ({"j1": "FAILED|2:0", "j2": "COMPLETED|0:0"}, 1),
        ({"j1": "FAILED|124:0", "j2": "COMPLETED|0:0"}, 1),
        ({"j1": "FAILED|130:0", "j2": "COMPLETED|0:0"}, 1),
    ],
)
def test_wait_ends_with_the_runs_exit_code_unless_it_would_say_something_of_wait(
    cluster: Desk, states: dict[str, str], code: int
) -> None:
    submit(cluster, 1), submit(cluster, 2)
    ended(cluster, **states)
    assert cluster.type("wait", "1", "2").code == code


def test_waits_time_counts_more_than_a_run_that_has_failed(cluster: Desk) -> None:
    submit(cluster, 1), submit(cluster, 2)
    cluster.fake("squeue", out="2|PENDING|Priority|\n")
    ended(cluster, j1="FAILED|7:0")
    assert cluster.type("wait", "1", "2", "--timeout", "1s").code == 124


def test_wait_gives_up_in_time(cluster: Desk) -> None:
    submit(cluster, 1)
    cluster.fake("squeue", out="1|PENDING|QOSMaxJobsPerUserLimit|\n")
    done = cluster.type("wait", "--timeout", "1s")
    assert (done.code, "PENDING" in done.out) == (124, True)
    assert "you have as many running jobs as the QOS allows one person" in done.out
    for typed, what in (
        ("soon", "'soon' is not a length of time"),
        ("-1", "'-1' is not"),
        ("0", "must be longer than"),
    ):
        done = cluster.type("wait", "--timeout", typed)
        assert (done.code, what in done.err, "allowed: minutes (30), HH:MM:SS" in done.err) == (2, True, True)


def test_wait_starts_a_run_again_after_a_node_failed_and_not_after_its_own_error(cluster: Desk) -> None:
    run = submit(cluster, 1)
    ended(cluster, j1="NODE_FAIL|1:0|node[1-2]", j2="FAILED|3:0|node[3-4]")
    lines = [f"NodeName=node{number} Arch=x State={state} Weight=1" for number, state in ((1, "IDLE"), (2, "DOWN*"))]
    cluster.fake("scontrol", out="\n".join(lines))
    cluster.fake("sbatch", out="Submitted batch job 2\n")
    done = cluster.type("wait", "1", "--retries", "5", "--json")
    assert (done.code, done.runs[0]["job_id"], done.runs[0]["earlier"]) == (3, "2", ["1"])
    assert "starting it again without node2 (node2: Slurm reports it as down and not responding)" in done.err
    assert done.runs[0]["excluded_because"] == "node2: Slurm reports it as down and not responding"
    directive, script = "#SBATCH --exclude=node2\n", (cluster.spool / "script").read_text()
    assert script.count(directive) == 1
    assert (run / "job.sh").read_text() == script.replace(directive, "")


def test_retry_refuses_a_programs_own_error(cluster: Desk) -> None:
    submit(cluster, 1)
    ended(cluster, j1="FAILED|7:0")
    done = cluster.type("retry", "1")
    assert (done.code, "it failed with exit code 7" in done.err) == (1, True)


@pytest.mark.parametrize("verb", ["retry", "resume"])
def test_a_script_above_slurms_limit_of_today_is_not_queued_again(cluster: Desk, verb: str) -> None:
    """The job would wait for ever with the reason PartitionTimeLimit."""
    submit(cluster, 1)
    ended(cluster, j1="NODE_FAIL|1:0|node3")
    cluster.fake("scontrol", out="PartitionName=batch Default=YES MaxTime=00:05:00 State=UP TotalNodes=8\n")
    (cluster.spool / "sbatch.args").unlink()
    done = cluster.type(verb, "1")
    assert (done.code, "asks for 00:10:00, but Slurm allows 00:05:00 per job now" in done.err) == (1, True), done.err
    assert not (cluster.spool / "sbatch.args").exists()
    (step,) = [line for line in done.err.splitlines() if "next: hpclaunch resume" in line]
    assert cluster.type(*step.split()[2:]).code == 0
    assert "#SBATCH --time=00:05:00\n" in (cluster.spool / "script").read_text()


def test_retry_keeps_what_the_script_excludes_itself(cluster: Desk) -> None:
    submit(cluster, 1, "--sbatch=--exclude=node9")
    ended(cluster, j1="NODE_FAIL|1:0|node3")
    assert cluster.type("retry", "1").code == 0
    assert "#SBATCH --exclude=node9,node3\n" in (cluster.spool / "script").read_text()
    assert "#SBATCH --exclude=node9\n" not in (cluster.spool / "script").read_text()


def test_the_number_of_any_earlier_start_is_not_taken_again(cluster: Desk) -> None:
    submit(cluster, 1)
    ended(cluster, j1="NODE_FAIL|1:0|node3")
    assert cluster.type("retry", "1").code == 0
    ended(cluster, j2="NODE_FAIL|1:0|node3")
    cluster.fake("sbatch", out="Submitted batch job 1\n")  # the cluster counts from 1 again
    done = cluster.type("retry", "2")
    assert (done.code, "the number of an earlier start, 1, again and again" in done.err) == (1, True), done.err


def test_a_later_answer_about_an_ended_run_adds_no_more_than_its_exit_code(cluster: Desk) -> None:
    submit(cluster, 1)
    cluster.fake("squeue", out="1|FAILED|None|node1\n")
    assert cluster.type("status", "1", "--json").runs[0]["state"] == "FAILED"
    cluster.fake("squeue", out="")
    for answer, shown in (("TIMEOUT|0:0|node2", ("FAILED", "")), ("FAILED|7:0|node2", ("FAILED", "7:0"))):
        ended(cluster, j1=answer)
        run = cluster.type("status", "1", "--json").runs[0]
        assert (run["state"], run["exit_code"]) == shown


def test_every_further_start_avoids_the_nodes_of_all_earlier_failures(cluster: Desk) -> None:
    submit(cluster, 1)
    for number, node in ((1, "node3"), (2, "node4")):
        ended(cluster, **{f"j{number}": f"NODE_FAIL|1:0|{node}"})
        done = cluster.type("retry", str(number))
        assert done.code == 0, done.err
    assert "#SBATCH --exclude=node3,node4\n" in (cluster.spool / "script").read_text()
    ended(cluster, j3="FAILED|7:0|node5")
    done = cluster.type("resume", "3")
    assert done.code == 0, done.err
    assert "#SBATCH --exclude=node3,node4\n" in (cluster.spool / "script").read_text()
    ended(cluster, j4="TIMEOUT|0:0|node5")
    done = cluster.type("resume", "4", "--walltime", "7m", "--nodes", "2")
    assert done.code == 0, done.err
    assert "world size 2 instead of 1: the batch size of every rank stays as its program has it" in done.err
    script = (cluster.spool / "script").read_text()
    assert "#SBATCH --exclude=node3,node4\n" in script and "#SBATCH --time=00:07:00\n" in script


def test_retry_does_not_exclude_a_node_that_the_job_requires(cluster: Desk) -> None:
    """Slurm would refuse the job."""
    submit(cluster, 1, "--sbatch=--nodelist=node[3-4]")
    ended(cluster, j1="NODE_FAIL|1:0|node3")
    done = cluster.type("retry", "1")
    assert done.code == 0, done.err
    assert "; node3 cannot be avoided: --nodelist names it" in done.err
    assert "--exclude" not in (cluster.spool / "script").read_text()


def test_cancel_takes_several_with_one_call_and_all_only_when_sure(cluster: Desk) -> None:
    submit(cluster, 1), submit(cluster, 2)
    cluster.fake("squeue", out="1|RUNNING|None|\n2|PENDING|None|\n")
    assert cluster.type("cancel", "1", "2").code == 0
    assert cluster.given("scancel") == ["1", "2"]
    (cluster.spool / "scancel.args").unlink()
    done = cluster.type("cancel", "--all")
    assert (done.code, "nothing was cancelled" in done.err) == (1, True)
    assert not (cluster.spool / "scancel.args").exists()
    assert cluster.type("cancel", "--all", "--yes").code == 0
    assert sorted(cluster.given("scancel")) == ["1", "2"]
    assert cluster.type("cancel").code == 2


def test_results_are_a_table_of_final_metrics(cluster: Desk) -> None:
    one, two = submit(cluster, 1), submit(cluster, 2)
    result(one, accuracy=0.5)
    told = {row["run"]: row["final"] for row in cluster.type("results", "--json").runs}
    assert told[one.name]["accuracy"] == 0.5 and told[two.name] == {}
    table = cluster.type("results").out.splitlines()
    assert table[0] == "run\tstate\taccuracy"
    assert sorted(table[1:]) == sorted([f"{one.name}\tUNKNOWN\t0.5", f"{two.name}\tUNKNOWN\t-"])


def test_watch_shows_every_change_until_all_have_ended(cluster: Desk) -> None:
    submit(cluster, 1)
    ended(cluster, j1="COMPLETED|0:0")
    done = cluster.type("status", "--watch", "--json")
    assert [row["state"] for row in json.loads(done.out.splitlines()[-1])["runs"]] == ["COMPLETED"]


def test_watch_in_a_pipe_names_the_columns_once(cluster: Desk) -> None:
    run = submit(cluster, 1)
    cluster.program(
        "squeue",
        f"""#!/bin/bash
        n=$(cat {cluster.spool}/asked 2> /dev/null || echo 0)
        echo $((n + 1)) > {cluster.spool}/asked
        states=(PENDING PENDING RUNNING COMPLETED)
        echo "1|${{states[n]}}|None|" | with_folders /dev/stdin "$@"
        """,
    )
    ended(cluster, j1="COMPLETED|0:0")
    lines = [line.split("\t") for line in cluster.type("status", "--watch").out.splitlines()]
    assert [line[0] for line in lines] == ["run", run.name, run.name, run.name]
    assert [line[3] for line in lines] == ["state", "PENDING", "RUNNING", "COMPLETED"]


def test_nobody_waits_for_a_run_that_was_never_submitted(cluster: Desk) -> None:
    rendered = Path(cluster.type("render", "./train.py", "-o", "job.sh", "--json").json["run_dir"])
    halfway = Path(cluster.type("render", "./train.py", "-o", "other.sh", "--json").json["run_dir"])
    record = json.loads((halfway / "run.json").read_text())
    (halfway / "run.json").write_text(json.dumps({**record, "state": "INCOMPLETE"}))
    (halfway / "states.jsonl").unlink()
    watched = cluster.type("status", "--watch", "--json")
    assert {row["state"] for row in json.loads(watched.out)["runs"]} == {"RENDERED", "INCOMPLETE"}
    for verb in ("wait", "cancel", "resume"):
        told = cluster.type(verb, rendered.name)
        assert (told.code, "was rendered but not submitted" in told.err) == (1, True)
        told = cluster.type(verb, halfway.name)
        assert (told.code, "nothing is queued" in told.err) == (1, True)


def test_watch_without_runs_says_so(desk: Desk) -> None:
    done = desk.type("status", "--watch")
    assert (done.code, done.out, "there is no run yet" in done.err) == (0, "", True)


def test_row_12_squeue_alone_tells_that_a_job_was_queued_again(cluster: Desk) -> None:
    submit(cluster, 1)
    ended(cluster, j1="PREEMPTED|0:15")
    cluster.fake("squeue", err="Unable to contact slurm controller\n", code=1)
    assert cluster.type("status", "--json").runs[0]["state"] == "UNKNOWN"
    cluster.fake("squeue", out="1|PENDING|BeginTime|\n")
    assert cluster.type("status", "--json").runs[0]["state"] == "PENDING"


def test_row_12_a_later_start_without_an_exit_code_is_not_the_earlier_ones_failure(cluster: Desk) -> None:
    run = submit(cluster, 1)
    for restart in (0, 1):
        (run / f"attempts/1.{restart}").mkdir()
        (run / f"attempts/1.{restart}/started").touch()
    (run / "attempts/1.0/exit-code").write_text("143\n")
    assert cluster.type("status", "--json").runs[0]["state"] == "UNKNOWN"
    leave_proof(run, "1.1")
    assert cluster.type("status", "--json").runs[0]["state"] == "COMPLETED"


def test_row_14_one_squeue_and_one_sacct_tell_of_a_thousand_runs(cluster: Desk) -> None:
    run = submit(cluster, 1)
    index = cluster.home / ".local/state/hpclaunch/runs.txt"
    (own,) = index.with_name("own-runs").iterdir()
    for number in range(2, 1001):
        copy = cluster.project / "runs" / f"train-{number}"
        copy.mkdir()
        text = (run / "run.json").read_text().replace('"job_id": "1"', f'"job_id": "{number}"')
        (copy / "run.json").write_text(text.replace(own.name, f"{number:032x}"))
        place = {"directory": str(copy), "inode": copy.stat().st_ino}
        (own.parent / f"{number:032x}").write_text(json.dumps(place))
        os.write(fd := os.open(index, os.O_APPEND | os.O_WRONLY), f"{copy}\n".encode())
        os.close(fd)
    for name, answer in (("squeue", "|RUNNING|None|"), ("sacct", "|COMPLETED|0:0|")):
        numbers = range(1, 501) if name == "squeue" else range(501, 1001)
        (cluster.spool / f"{name}.out").write_text("".join(f"{number}{answer}\n" for number in numbers))
        text = (cluster.root / "bin" / name).read_text()
        cluster.program(name, text.replace("#!/bin/bash", f"#!/bin/bash\necho {name} >> {cluster.spool}/calls", 1))
    told = cluster.type("status", "--json").runs
    assert sorted(row["state"] for row in told) == ["COMPLETED"] * 500 + ["RUNNING"] * 500
    assert (cluster.spool / "calls").read_text().split() == ["squeue", "sacct"]


def test_control_c_in_a_wait_for_several_runs_names_those_that_go_on(cluster: Desk) -> None:
    names = [submit(cluster, number).name for number in (1, 2, 3)]
    cluster.fake("squeue", out="1|RUNNING|None|n1\n3|RUNNING|None|n1\n")
    cluster.fake("sacct", out="2|COMPLETED|0:0|n1\n")
    process = cluster.start("wait", *names)
    assert process.stderr is not None
    assert [process.stderr.readline().split()[1] for _ in names] == ["RUNNING", "COMPLETED", "RUNNING"]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"detached; 2 runs continue. To follow again: hpclaunch wait {names[0]} {names[2]}. To end them: " in err


def test_a_run_can_be_named_by_whole_parts_of_its_name(cluster: Desk) -> None:
    one, two = submit(cluster, 1), submit(cluster, 2)
    assert [row["run"] for row in cluster.type("status", one.name.rpartition("-")[2], "--json").runs] == [one.name]
    refused = cluster.type("cancel", "train")
    assert (refused.code, "matches 2 runs" in refused.err) == (1, True)
    assert one.name in refused.err and two.name in refused.err
    shutil.rmtree(two)
    assert [row["run"] for row in cluster.type("status", "train", "--json").runs] == [one.name]
    assert cluster.type("status", one.name[1:]).code == 1  # the first letter is missing: no part, but a typing error


def test_a_run_whose_directory_is_gone_or_damaged_says_so(cluster: Desk) -> None:
    gone, damaged = submit(cluster, 1), submit(cluster, 2)
    shutil.rmtree(gone)
    (damaged / "run.json").write_text('{"name": "train", "sit')
    told = cluster.type("status", gone.name)
    assert (told.code, f"{gone}: the directory of this run no longer exists" in told.err) == (1, True)
    told = cluster.type("logs", damaged.name)
    assert (told.code, "the record cannot be read: it has no name, site" in told.err) == (1, True)
    told = cluster.type("runs", "rebuild")
    assert f"{damaged} is not in the new list" in told.err
    assert "the list has 0 runs; 1 run removed, whose directory no longer exists" in told.err


def test_a_list_of_one_state(cluster: Desk) -> None:
    run = submit(cluster, 1)
    assert [row["run"] for row in cluster.type("runs", "list", "--state", "pending", "--json").runs] == [run.name]
    done = cluster.type("runs", "list", "--state", "failed")
    assert (done.code, "no run is failed; the states are PENDING" in done.err) == (0, True)


@pytest.mark.parametrize(
    ("state", "step"),
    [
        ("FAILED|3:0", "correct the program, then hpclaunch submit; or hpclaunch resume RUN"),
        ("TIMEOUT|0:0", "next: hpclaunch resume RUN"),
        ("COMPLETED|0:0", "next: hpclaunch results RUN"),
        ("RUNNING|0:0", "next: hpclaunch wait RUN, or hpclaunch cancel RUN"),
    ],
)
def test_what_retry_does_not_start_again_has_another_way(cluster: Desk, state: str, step: str) -> None:
    run = submit(cluster, 1)
    ended(cluster, j1=state)
    refused = cluster.type("retry", "1")
    assert (refused.code, step.replace("RUN", run.name) in refused.err) == (1, True), refused.err


def test_on_a_terminal_a_shown_run_is_one_table(cluster: Desk) -> None:
    run = submit(cluster, 1)
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "hpclaunch", "runs", "show", "1"]
    shown = subprocess.Popen(command, cwd=cluster.project, env=cluster.environment, stdout=theirs, stderr=theirs)
    os.close(theirs)
    text = b""
    with contextlib.suppress(OSError):  # the terminal's way to say that nobody writes any more
        while part := os.read(ours, 4096):
            text += part
    os.close(ours)
    assert shown.wait(60) == 0
    lines = text.decode().splitlines()
    assert lines[0] == f"run{' ' * 20}{run.name}"
    assert all(line[:21].strip() and line[21:23] == "  " and line[23:].strip() for line in lines), lines
