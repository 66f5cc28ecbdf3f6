"""Batch scripts of a person's own: taken in as a request, or submitted as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Desk

SCRIPT = """#!/bin/bash
#SBATCH -J resnet -N2 --ntasks-per-node=2
#SBATCH -t 00:08:00 --constraint=fast
module load tools
srun -u ./solver --lr 0.1 "$HOME"
"""


@pytest.fixture
def person(cluster: Desk) -> Desk:
    cluster.write("train.slurm", SCRIPT)
    cluster.write("solver", "#!/bin/bash\n", mode=0o755)
    return cluster


def test_a_batch_script_becomes_a_run_and_every_line_is_shown(person: Desk) -> None:
    done = person.type("submit", "--from-script", "train.slurm")
    assert done.code == 0, done.err
    script = (person.spool / "script").read_text()
    for line in ("job-name=resnet", "nodes=2", "ntasks-per-node=2", "time=00:08:00", "constraint=fast"):
        assert f"#SBATCH --{line}\n" in script
    assert "\nmodule load tools\n" in script and 'exec $BATCH_SCRIPT_PROGRAM"' in script
    for shown in ("--time=00:08:00 ", "--constraint=fast ", "module load tools ", "./solver --lr 0.1 $HOME "):
        assert f"  {shown}" in done.err
    assert "in place of these options of srun hpclaunch has its own: -u" in done.err
    assert Path(done.out.strip()).name.startswith("resnet-")


def test_what_is_typed_counts_more_than_the_script(person: Desk) -> None:
    typed = ("--nodes", "1", "--walltime", "5m", "--name", "other", "--sbatch", "--constraint=slow")
    done = person.type("render", "--from-script", "train.slurm", *typed)
    assert done.code == 0, done.err
    for line in ("job-name=other", "nodes=1", "time=00:05:00", "constraint=slow"):
        assert f"#SBATCH --{line}\n" in done.out
    assert "--walltime is typed instead" in done.err


def test_a_run_of_a_batch_script_is_resumed_with_its_set_up(person: Desk) -> None:
    assert person.type("submit", "--from-script", "train.slurm").code == 0
    person.fake("sacct", out="4711|TIMEOUT|0:0|n1\n")
    assert person.type("status", "resnet").code == 0
    person.fake("sbatch", out="Submitted batch job 4712\n")
    done = person.type("resume", "resnet", "--nodes", "1")
    assert done.code == 0, done.err
    script = (person.spool / "script").read_text()
    assert "\nmodule load tools\n" in script and "#SBATCH --nodes=1\n" in script


def test_nothing_of_a_batch_script_is_executed_to_read_it(person: Desk) -> None:
    person.write(
        "evil.slurm", "#!/bin/bash\n#SBATCH -J $(touch${IFS}pwned)\nX=$(touch pwned)\n`touch pwned`\nsrun ./x\n"
    )
    done = person.type("submit", "--from-script", "evil.slurm", "--dry-run")
    assert (done.code, "no run can have this name" in done.err) == (1, True), done.err
    assert not (person.project / "pwned").exists()


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--from-script", "nowhere"), 1, "nowhere: the batch script cannot be read: No such file"),
        (("./train.slurm", "--from-script", "train.slurm"), 2, "the batch script names the program"),
        (("--as-is",), 2, "--as-is: the batch script is missing"),
        (("--as-is", "nowhere"), 1, "nowhere: the batch script cannot be read"),
        (("--as-is", "train.slurm", "--nodes", "4"), 1, "so --nodes would have no effect"),
        (("--as-is", "--site", "local", "train.slurm"), 1, "local has no queue for a batch script"),
        (("--as-is", "train.py"), 1, "train.py, line 1: it begins with no #! line"),
    ],
)
def test_a_mistake_is_told_and_nothing_is_queued(person: Desk, words: tuple[str, ...], code: int, told: str) -> None:
    done = person.type("submit", *words)
    assert (done.code, told in done.err, "next: " in done.err or code == 1) == (code, True, True), done.err
    assert not (person.spool / "sbatch.args").exists()


def test_a_batch_script_is_submitted_unchanged(person: Desk) -> None:
    done = person.type("submit", "--as-is", "train.slurm", "--", "a b")
    assert done.code == 0, done.err
    run, script = Path(done.out.strip()), (person.spool / "script").read_text()
    assert (run / "code/train.slurm").read_text() == SCRIPT
    for line in ("job-name=resnet", "nodes=2", "ntasks-per-node=2", "time=00:08:00", "constraint=fast", f"chdir={run}"):
        assert f"#SBATCH --{line}\n" in script
    assert f"run_batch_script /bin/bash {run}/code/train.slurm 'a b'\n" in script.replace("\\\n ", "").replace(
        "  ", " "
    )
    assert "--export" not in script and "rank" not in script
    assert "train: the batch script train.slurm, unchanged" in done.err
    assert json.loads((run / "request.json").read_text())["as_is"] is True


@pytest.mark.parametrize("option", ["--array=1-3", "--nodse=2", "--container-image=x"])
def test_what_a_run_cannot_have_refuses_a_script_that_is_submitted_unchanged(person: Desk, option: str) -> None:
    person.write("other.slurm", SCRIPT.replace("-J resnet", option))
    done = person.type("submit", "--as-is", "other.slurm")
    assert (done.code, "other.slurm, line 2: " in done.err) == (1, True), done.err
    assert not (person.spool / "sbatch.args").exists()


def test_a_completed_script_claims_nothing_about_its_ranks(person: Desk) -> None:
    run = Path(person.type("submit", "--as-is", "train.slurm").out.strip())
    start = run / "attempts/4711.0"
    start.mkdir(parents=True)
    (start / "started").write_text("2026-01-01T00:00:00Z\n")
    (start / "exit-code").write_text("0\n")
    person.fake("sacct", out="4711|COMPLETED|0:0|n1\n")
    assert person.type("status", "train", "--json").runs[0]["state"] != "COMPLETED"
    (start / "completed").write_text("4711.0 script\n")
    other = Path(person.type("submit", "--as-is", "train.slurm", "--name", "b").out.strip())
    (other / "attempts/4711.0").mkdir(parents=True)
    for name, text in (("started", "2026-01-01T00:00:00Z\n"), ("exit-code", "0\n"), ("completed", "4711.0 script\n")):
        (other / "attempts/4711.0" / name).write_text(text)
    (found,) = person.type("status", "b", "--json").runs
    assert (found["state"], "nothing is known about them" in found["reason"]) == ("COMPLETED", True)
