"""The code that a run takes along: told, predictable, or refused before anything is queued."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Desk

SCRIPT = """
import os
from helpers.model import WORDS
here = os.path.dirname(os.path.abspath(__file__))
print(WORDS, open(os.path.join(here, "table.csv")).read(), "from", here)
"""
DATA_FILES = 25_000


@pytest.fixture
def crowded(desk: Desk) -> Desk:
    """A script with a package of helpers and a table, beside 25,000 files of data."""
    desk.write("train.py", SCRIPT)
    desk.write("helpers/__init__.py", "")
    desk.write("helpers/model.py", "WORDS = 'a model'\n")
    desk.write("table.csv", "1,2")
    for number in range(DATA_FILES):
        (desk.project / f"{number}.txt").touch()
    return desk


def test_a_script_beside_25000_data_files_runs_with_helpers_and_table_or_is_refused(crowded: Desk) -> None:
    words = ("submit", "./train.py", "--site", "local", "--wait")
    done = crowded.type(*words)
    assert done.code == 1
    assert (
        f"25,004 files would be copied, {DATA_FILES:,} of them *.txt in the same folder; allowed: at most" in done.err
    )
    assert "next: --include '*.csv'" in done.err
    assert not (crowded.project / "runs").exists(), "nothing was written, and nothing was started"
    done = crowded.type(*words, "--include", "*.csv", "-v")
    assert done.code == 0, done.err
    assert f"a model 1,2 from {crowded.project}/runs/train-" in done.err
    assert "  code            4 files, " in done.err
    assert f"(*.py, *.sh, *.so and --include; {DATA_FILES} other files not copied)" in done.err
    crowded.write(".hpclaunchignore", "*.txt\n")
    done = crowded.type(*words)
    assert done.code == 0, done.err
    assert "a model 1,2 from " in done.err
    done = crowded.type(*words, "--code-in-place")
    assert done.code == 0, done.err
    assert f"a model 1,2 from {crowded.project}\n" in done.err


def test_what_cannot_be_taken_is_refused_with_no_job_queued(cluster: Desk) -> None:
    with (cluster.project / "large.bin").open("wb") as file:
        file.truncate(101 * 2**20)
    done = cluster.type("submit", "./train.py")
    assert (done.code, "101 MB would be copied, 101 MB of them large.bin" in done.err) == (1, True), done.err
    assert not (cluster.spool / "sbatch.args").exists()
    assert cluster.type("submit", "./train.py", "--dry-run").code == 0, "a script may be shown for another machine"


def unfolded(script: Path) -> str:
    """The text of a script, in which a long command is on one line."""
    return re.sub(r" \\\n +", " ", script.read_text())


def test_code_in_place_is_used_where_it_is(cluster: Desk) -> None:
    cluster.write("sub dir/run.sh", "echo hello\n")
    done = cluster.type("submit", "./sub dir/run.sh", "--code-in-place")
    assert done.code == 0, done.err
    run = Path(done.out.strip())
    script = unfolded(run / "job.sh")
    assert f"  bash '{cluster.project}/sub dir/run.sh'\n" in script
    assert f'  export PYTHONPATH={run}/code"${{PYTHONPATH:+:$PYTHONPATH}}"\n' in script
    assert f"code: in place ({cluster.project}/sub dir, as it is when the run begins)" in done.err
    assert json.loads((run / "spec.json").read_text())["code"]["in_place"] is True
    cluster.fake("sacct", out="4711|TIMEOUT|0:0|n1\n")
    assert cluster.type("status", "@1").code == 0
    cluster.fake("sbatch", out="Submitted batch job 4712\n")
    assert cluster.type("resume", "@1", "--nodes", "2").code == 0
    assert f"  bash '{cluster.project}/sub dir/run.sh'\n" in unfolded(cluster.spool / "script")


def test_a_job_can_be_used_in_place_too(cluster: Desk) -> None:
    cluster.write("jobs/own/job.yaml", "summary: x\nscript: a.py\n")
    cluster.write("jobs/own/a.py", "")
    done = cluster.type("submit", "own", "--code-in-place", "--dry-run")
    assert f" {cluster.project}/jobs/own/a.py\n" in done.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("./train.py", "--include", "*.nothing"), "--include: no file beside train.py matches '*.nothing'; allowed:"),
        (("./train.py", "--include", "*.py", "--code-in-place"), "--include: only files beside a script of your own"),
        (("--include", "*.py", "--", "srun"), "--include: only files beside a script of your own are chosen"),
        (("cifar", "--synthetic", "--include", "*.py"), "a job is copied completely"),
    ],
)
def test_files_that_cannot_be_chosen_are_refused(cluster: Desk, words: tuple[str, ...], told: str) -> None:
    done = cluster.type("submit", *words)
    assert (done.code, told in done.err, "next: " in done.err) == (1, True, True), done.err
    assert not (cluster.spool / "sbatch.args").exists()


def test_a_pattern_that_matches_for_ever_is_ended(cluster: Desk) -> None:
    cluster.write("a" * 200 + ".py", "")
    cluster.write(".hpclaunchignore", "*a" * 60 + "b\n")
    done = cluster.type("submit", "./train.py")
    assert (done.code, "its patterns take more than 0.5 s" in done.err) == (1, True), done.err
