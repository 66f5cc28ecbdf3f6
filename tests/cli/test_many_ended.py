"""Ended runs cost nothing: their index, what makes an entry of it wrong, and the order of the list of runs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hpclaunch import runs
from hpclaunch.actions.following.states import MOST_ENDED
from tests.cli.conftest import Desk
from tests.cli.test_failing_io import Bed, library
from tests.cli.test_runs_kept import ended, submit
from tests.forked.server import Server, compiled

__all__ = ["library"]
LIVE = 10
OTHER_CLOCK = Path(__file__).parents[1] / "forked" / "other_clock.c"


def make(desk: Desk, first: int, last: int, state: str = "COMPLETED", folder: str = "project/runs") -> None:
    """Write own runs with these numbers as their job IDs, oldest first."""
    place = state_folder(desk)
    (place / "own-runs").mkdir(parents=True, exist_ok=True)
    with (place / "runs.txt").open("a") as file:
        for number in range(first, last + 1):
            path = desk.root / folder / f"train-{number:05}"
            path.mkdir(parents=True)
            record = {"name": "train", "site": "slurmsite", "scheduler": "slurm", "token": f"{number:032x}"}
            news = {"created": "2026-01-02T03:04:05Z", "state": state, "job_id": str(number)}
            (path / "run.json").write_text(json.dumps({**record, **news, "submission": "hpclaunch", "edition": 1}))
            line = {"time": "2026-01-02T04:04:05Z", "state": state, "exit_code": "0:0", "nodes": "n1", "edition": 1}
            (path / "states.jsonl").write_text(f"{json.dumps(line)}\n")
            os.utime(path / "states.jsonl", (0, 0))
            listed = {"directory": str(path), "inode": path.stat().st_ino}
            (place / "own-runs" / record["token"]).write_text(json.dumps(listed))
            file.write(f"{path}\n")


def state_folder(desk: Desk) -> Path:
    return desk.home / ".local/state/hpclaunch"


def index(desk: Desk) -> Path:
    return state_folder(desk) / "ended-runs.txt"


def shown(desk: Desk, *words: str) -> list[str]:
    """The names of the runs that plain ``status`` shows."""
    done = desk.type("status", *words)
    assert done.code == 0, done.err
    return [line.partition("\t")[0] for line in done.out.splitlines()[1:]]


@pytest.fixture
def bed(cluster: Desk, library: str) -> Iterator[Bed]:
    with Server(library) as server:
        yield Bed(cluster, server)


def test_calls_do_not_grow_with_the_number_of_ended_runs(bed: Bed) -> None:
    desk = bed.desk

    def calls(*words: str) -> int:
        done = bed.type(*words, root=str(desk.root))
        assert done.code == 0, done.err
        return done.calls

    # Elsewhere: of a folder that is listed, the library that counts counts every name.
    make(desk, 1, 400, folder="data/runs")
    make(desk, 9000, 9000 + LIVE - 1, "RUNNING")
    desk.fake("squeue", out="".join(f"{number}|RUNNING|None|n1\n" for number in range(9000, 9000 + LIVE)))
    verbs = (["status"], ["logs", "@latest"], ["logs", "train-09003"])
    first = calls("status")
    few = [calls(*words) for words in verbs]
    make(desk, 401, 1200, folder="data/runs")
    calls("status")
    many = [calls(*words) for words in verbs]
    print(f"status without the index {first}; with it {few} beside 400 ended runs, {many} beside 1,200")
    assert first > 400 * 10
    assert all(later < before + 110 for before, later in zip(few, many, strict=True))
    assert many[0] < 1200 and max(many[1:]) < 800


def test_the_newest_ended_runs_are_shown_with_those_that_have_not_ended(cluster: Desk) -> None:
    make(cluster, 1, MOST_ENDED + 50)
    make(cluster, 9000, 9001, "RUNNING")
    cluster.fake("squeue", out="9000|RUNNING|None|n1\n9001|RUNNING|None|n1\n")
    assert len(shown(cluster)) == MOST_ENDED + 52, "they are not in the index yet"
    done = cluster.type("status")
    names = [line.partition("\t")[0] for line in done.out.splitlines()[1:]]
    newest = [f"train-{number:05}" for number in range(MOST_ENDED + 50, 50, -1)]
    assert names == ["train-09001", "train-09000", *newest]
    assert "not shown: 50 runs that ended before these; hpclaunch runs list shows all" in done.err
    assert len(cluster.type("status", "--json").runs) == MOST_ENDED + 52
    assert len(shown(cluster, "--since", "2026-01-01")) == len(shown(cluster, "--state", "COMPLETED")) + 2
    assert [len(cluster.type("runs", "list").out.splitlines()) - 1] == [MOST_ENDED + 52]
    (row,) = [row for row in cluster.type("status", "--json").runs if row["job_id"] == "7"]
    (read,) = cluster.type("status", "7", "--json").runs
    assert row == read, "the index shows what the directory says"


def test_an_old_run_that_is_started_again_is_shown(cluster: Desk) -> None:
    make(cluster, 1, MOST_ENDED + 50, "NODE_FAIL")
    cluster.type("status"), cluster.type("status")
    assert "train-00001" not in shown(cluster)
    old = cluster.project / "runs/train-00001"
    (old / "job.sh").write_text("#!/bin/bash\n#SBATCH --chdir=x\ntrue\n")
    cluster.fake("sbatch", out="Submitted batch job 5000\n")
    done = cluster.type("retry", "train-00001")
    assert done.code == 0, done.err
    cluster.fake("squeue", out="5000|RUNNING|None|n1\n")
    assert "train-00001" in shown(cluster)


@pytest.mark.parametrize("how", ["record", "copied", "damaged", "cut off", "deleted", "gone"])
def test_what_is_wrong_in_the_index_is_not_believed(cluster: Desk, how: str) -> None:
    make(cluster, 1, 5)
    cluster.type("status")
    path, text = cluster.project / "runs/train-00003", index(cluster).read_bytes()
    assert text.count(b"COMPLETED") == 5
    if how == "record":  # by another home's hpclaunch, or an older one
        runs.change(runs.load(path), state="FAILED", exit_code="9:0")
    elif how == "copied":  # from a backup, which may be older than the runs
        draft = index(cluster).with_name("draft")
        draft.write_bytes(text.replace(b"COMPLETED", b"CANCELLED"))
        draft.replace(index(cluster))
    elif how == "damaged":
        index(cluster).write_bytes(text.replace(b"COMPLETED", b"CANCELLED"))
    elif how == "cut off":
        index(cluster).write_bytes(text[: len(text) * 2 // 3])
    elif how == "deleted":
        index(cluster).unlink()
    elif how == "gone":
        shutil.rmtree(path)
    told = {row["job_id"]: row["state"] for row in cluster.type("status", "--json").runs}
    wanted = {str(number): "COMPLETED" for number in range(1, 6)}
    wanted |= {"3": "FAILED"} if how == "record" else {}
    if how == "gone":
        del wanted["3"]
    assert told == wanted
    assert cluster.type("status", "3").code == (1 if how == "gone" else 0)


def test_several_processes_write_the_index_at_once(cluster: Desk) -> None:
    make(cluster, 1, 40)
    with ThreadPoolExecutor(8) as pool:
        counts = [*pool.map(lambda _: len(shown(cluster)), range(8))]
    assert counts == [40] * 8
    lines = index(cluster).read_bytes().splitlines()[1:]
    assert len({line.partition(b"\t")[0][9:] for line in lines}) == 40
    assert len(shown(cluster)) == 40


def test_without_an_index_that_can_be_written_the_directories_are_read(ordinary_user: Desk) -> None:
    make(ordinary_user, 1, 5)
    state_folder(ordinary_user).chmod(0o500)
    assert [len(shown(ordinary_user)), len(shown(ordinary_user))] == [5, 5]
    assert not index(ordinary_user).exists()


def test_a_clock_that_steps_back_changes_no_order_of_runs(cluster: Desk, tmp_path: Path) -> None:
    """Two runs are submitted before it, and two while the clock is behind."""
    other_clock = compiled(tmp_path, OTHER_CLOCK)
    if not other_clock:
        pytest.skip("group compiler: no C compiler on this machine")
    usual: dict[str, str] = {}
    behind = {"LD_PRELOAD": other_clock, "CLOCK_SHIFT_S": str(-400 * 86400)}
    found: list[Path] = []
    for number, variables in enumerate((usual, usual, behind, behind), 1):
        cluster.fake("sbatch", out=f"Submitted batch job {number}\n")
        done = cluster.type("submit", "./train.py", "--json", **variables)
        assert done.code == 0, done.err
        found.insert(0, Path(done.json["run_dir"]))
        assert_order(cluster, found)
        assert cluster.type("runs", "show", "@latest", "--json", **variables).json["run_dir"] == str(found[0])
    created = [json.loads((run / "run.json").read_text())["created"] for run in found]
    assert max(created[:2]) < min(created[2:]), "the clock was not behind"
    assert cluster.type("runs", "rebuild").code == 0
    assert_order(cluster, found)
    cluster.fake("squeue", out="2|RUNNING|None|n1\n")
    assert cluster.type("cancel", "@3").code == 0
    assert cluster.given("scancel")[-1] == "2"
    cluster.fake("squeue")
    ended(cluster, **{f"j{number}": "COMPLETED|0:0|n1" for number in (1, 3, 4)}, j2="CANCELLED|0:0|n1")
    for run in found:
        cluster.type("status", run.name)
        os.utime(run / "states.jsonl", (0, 0))
    assert cluster.type("status").code == 0
    assert all(str(run).encode() in index(cluster).read_bytes() for run in found)
    assert_order(cluster, found)
    assert cluster.type("runs", "clean", "--keep", "3", "--yes").code == 0
    assert [run.exists() for run in found] == [True, True, True, False]
    assert cluster.type("runs", "clean", found[2].name, found[1].name, "--keep", "1", "--yes").code == 0
    assert [run.exists() for run in found] == [True, True, False, False]


def assert_order(desk: Desk, found: Sequence[Path]) -> None:
    """``found``: the runs in the order of their submission, the newest first."""
    for name, run in (("@latest", found[0]), *((f"@{number}", run) for number, run in enumerate(found, 1))):
        assert desk.type("runs", "show", name, "--json").json["run_dir"] == str(run), name
    for verb in (("status",), ("runs", "list"), ("results",)):
        assert [row["run_dir"] for row in desk.type(*verb, "--json").runs] == list(map(str, found)), verb


def test_a_run_that_ended_just_now_is_not_in_the_index_yet(cluster: Desk) -> None:
    """For five minutes accounting may add an exit code."""
    run = submit(cluster, 1)
    ended(cluster, j1="FAILED|")
    assert cluster.type("status").code == 0
    assert not index(cluster).exists()
    os.utime(run / "states.jsonl", (0, 0))
    assert cluster.type("status").code == 0
    assert str(run).encode() in index(cluster).read_bytes()
