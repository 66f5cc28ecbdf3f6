"""``import hpclaunch`` beside the command line: the same bytes, the same run directories, and nothing is printed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import PATIENCE, Desk

CLOCK_AND_RANDOM_NUMBER = """
import datetime, os

class Fixed(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2026, 11, 21, 5, 22, 0, tzinfo=tz)

datetime.datetime = Fixed
os.urandom = lambda number: b"\\xa3" * number
"""
"""What a process imports as it starts: the clock and the random number of the machine."""
TRAINING = """\
import json, os
events = [{"event": "start", "options": {"epochs": 2}}]
events += [{"event": "epoch", "epoch": n, "loss": 1 / n, "seconds": 1.0, "time": float(n)} for n in (1, 2)]
events += [{"event": "end", "time": 3.0, "loss": 0.5}]
with open(os.environ["HPCLAUNCH_RUN_DIR"] + "/metrics.jsonl", "w") as file:
    file.write("".join(json.dumps(event) + "\\n" for event in events))
print("trained")
"""


def python(desk: Desk, program: str) -> Any:
    """Run a program that uses hpclaunch; return what it puts into ``answer``. It must print nothing else."""
    text = f"import hpclaunch\n{textwrap.dedent(program)}\nimport json\nprint(json.dumps(answer))\n"
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=desk.project, env=desk.environment, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout.count("\n") == 1, done.stdout
    return json.loads(done.stdout)


SAME = {
    "submit cifar --nodes 4": 'submit("cifar", nodes=4, dry_run=True)',
    "submit ./train.py --nodes 2 --tasks-per-node 3 --walltime 4m --memory 2G --env A=1 --env B=x --sbatch --comment=x "
    "--name try1 --partition debug --restarts 0 --include *.csv --no-samples -- --lr 0.1 $HOME": """submit(
        "./train.py", nodes=2, tasks_per_node=3, walltime=240, memory=2048, environment={"A": 1, "B": "x"},
        sbatch="--comment=x", name="try1", partition="debug", restarts=0, include=["*.csv"], samples=False,
        arguments=["--lr", "0.1", "$HOME"], dry_run=True)""",
    "submit --nodes 2 -- python3 train.py --lr 0.1": """submit(
        ["python3", "train.py", "--lr", "0.1"], nodes=2, dry_run=True)""",
    "submit cifar --nodes 1 --set epochs=3 --sweep learning_rate=0.1,0.01 --sweep seed=1..3 --at-once 2": """submit(
        "cifar", nodes=1, settings={"epochs": 3}, sweep={"learning_rate": [0.1, 0.01], "seed": range(1, 4)}, at_once=2,
        dry_run=True)""",
}
"""What one types, and what one writes in Python."""


@pytest.mark.parametrize(("words", "call"), SAME.items(), ids=["a job", "a script", "a command", "a sweep"])
def test_the_script_of_a_dry_run_is_that_of_the_command_line_byte_for_byte(
    cluster: Desk, words: str, call: str
) -> None:
    cluster.write("clock/sitecustomize.py", CLOCK_AND_RANDOM_NUMBER)
    places = [str(cluster.project / "clock"), os.environ.get("PYTHONPATH", "")]
    cluster.environment["PYTHONPATH"] = os.pathsep.join(filter(None, places))
    script = python(cluster, f"answer = hpclaunch.{call}.script")
    before, dashes, after = words.partition(" -- ")
    typed = [*before.split(), "--dry-run", *([dashes.strip(), *after.split()] if dashes else [])]
    assert cluster.type(*typed).out == script
    assert "20261121-052200-a3a3a3a3" in script
    assert not (cluster.project / "runs").exists()


def test_a_dry_run_tells_the_command_and_what_is_missing(cluster: Desk) -> None:
    cluster.fake("sbatch")
    (cluster.root / "bin/sbatch").unlink()
    answer = python(
        cluster,
        """
        dry = hpclaunch.submit("./train.py", nodes=2, dry_run=True)
        same = str(dry) == dry.script
        answer = [dry.command, list(dry.notices), same, dry.spec["layout"]["nodes"], "claim()" in dry.library]
        """,
    )
    assert answer[0] == "hpclaunch submit ./train.py --nodes 2"
    assert any("there is no sbatch on this machine" in notice for notice in answer[1])
    assert answer[2:] == [True, 2, True]


def test_a_run_is_submitted_asked_about_and_cancelled(cluster: Desk) -> None:
    cluster.fake("squeue", out="4711|RUNNING|None|n[1-2]\n")
    answer = python(
        cluster,
        """
        run = hpclaunch.submit("./train.py", nodes=2)
        now = run.status()
        same = hpclaunch.run(run.id)
        listed = hpclaunch.status(state="RUNNING", since="1d")
        answer = [run.job_id, now.state, now.nodes, same == run, [one.id for one in listed] == [run.id], run.script,
                  str(run.folder), run.metrics(), run.result(), hpclaunch.status(state="FAILED")]
        """,
    )
    assert answer[:5] == ["4711", "RUNNING", 2, True, True]
    assert answer[5].encode() == (cluster.spool / "script").read_bytes()
    assert Path(answer[6]).parent == cluster.project / "runs"
    assert answer[7:] == [[], {}, []]
    done = cluster.type("status", "--json")
    assert [row["run_dir"] for row in done.runs] == [answer[6]], "the command line knows the run"


def test_a_sweep_is_one_run_with_its_tasks(cluster: Desk) -> None:
    answer = python(
        cluster,
        """
        run = hpclaunch.sweep("./train.py", {"lr": [0.1, 0.01], "seed": range(2)}, at_once=2)
        answer = [[task.parameters() for task in run.tasks()], run.tasks()[1].id.split("/")[1]]
        try:
            run.log()
        except hpclaunch.Refused as error:
            answer.append(error.faults[0].what)
        """,
    )
    assert answer[0] == [{"lr": lr, "seed": seed} for lr in ("0.1", "0.01") for seed in ("0", "1")]
    assert answer[1] == "0001"
    assert "is an array of 4 runs" in answer[2]
    assert "--array=0-3%2" in " ".join(cluster.given("sbatch")) + (cluster.spool / "script").read_text()


def test_every_expected_failure_is_an_error_of_hpclaunch_and_nothing_ends_the_process(cluster: Desk) -> None:
    refusal = "Batch job submission failed: Invalid account or account/partition combination specified"
    cluster.fake("sbatch", err=f"sbatch: error: {refusal}\n", code=1)
    answer = python(
        cluster,
        """
        answer = []
        for call in (
            lambda: hpclaunch.submit("./train.py", nodes=99),
            lambda: hpclaunch.submit("./nowhere.py"),
            lambda: hpclaunch.submit("./train.py", nodes=0),
            lambda: hpclaunch.submit("./train.py", site="nowhere"),
            lambda: hpclaunch.submit("./train.py"),
            lambda: hpclaunch.run("nothing"),
            lambda: hpclaunch.plan("nothing"),
        ):
            try:
                call()
            except hpclaunch.HpclaunchError as error:
                answer.append([type(error).__name__, bool(error.faults)])
        """,
    )
    kinds = ["Refused", "Refused", "InvalidRequest", "NotFound", "SchedulerError", "NotFound", "NotFound"]
    assert answer == [[kind, True] for kind in kinds]


def test_messages_go_to_the_logger(cluster: Desk) -> None:
    cluster.write("hpclaunch.yaml", "walltime: 5m\n")
    answer = python(
        cluster,
        """
        import logging
        found = []
        handler = logging.Handler()
        handler.emit = lambda record: found.append(record.getMessage())
        logging.getLogger("hpclaunch").addHandler(handler)
        run = hpclaunch.submit("./train.py")
        answer = [found, list(run.notices)]
        """,
    )
    assert answer[0] == answer[1]
    assert any("the project's settings apply" in text for text in answer[0])


@pytest.fixture
def local(desk: Desk) -> Desk:
    desk.environment["HPCLAUNCH_SITE"] = "local"
    desk.write("train.py", TRAINING)
    return desk


def test_a_run_of_this_machine_is_followed_to_its_end(local: Desk) -> None:
    answer = python(
        local,
        """
        run = hpclaunch.submit("./train.py", tasks_per_node=1)
        seen = list(run.follow(pause=0.1))
        now = seen[-1]
        answer = [run.wait(), run.metrics("epoch")[-1]["loss"], len(run.metrics()), run.result(), run.log(),
                  [now.state, now.final, now.completed, now.exit_code, now.epoch, now.epochs, now.losses, now.loss],
                  "polyline" in now._repr_html_(), "COMPLETED" in run._repr_html_()]
        failed = hpclaunch.submit(["bash", "-c", "exit 3"], tasks_per_node=1)
        answer += [failed.wait(), failed.status().exit_code]
        """,
    )
    assert answer[:4] == ["COMPLETED", 0.5, 4, {"loss": 0.5}]
    assert "trained" in answer[4]
    assert answer[5] == ["COMPLETED", True, True, 0, 2, 2, [1.0, 0.5], 0.5]
    assert answer[6:] == [True, True, "FAILED", 3]


def test_a_run_is_resumed_and_made_again(local: Desk) -> None:
    local.write("train.py", f"{TRAINING}\nimport sys\nsys.exit(3)\n")
    answer = python(
        local,
        """
        run = hpclaunch.submit("./train.py", tasks_per_node=1)
        run.wait()
        again = run.resume()
        same = again == run
        states = [again.wait()]
        new = run.rerun()
        answer = [same, states, new.wait(), new == run, len(hpclaunch.status())]
        """,
    )
    assert answer == [True, ["FAILED"], "FAILED", False, 2]
