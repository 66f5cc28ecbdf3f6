"""A worker with real processes: it makes every trial once, is killed and continues, and passes signals on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from hpclaunch.search.events import TrialBegin
from hpclaunch.search.folder import SearchFolder, SearchRecord
from hpclaunch.search.journal import JournalReader
from hpclaunch.search.space import Dimension, SearchSpace
from hpclaunch.search.table import MOST_FAULTS
from hpclaunch.search.terms import SearchTerms
from tests.cli.conftest import wait_for

PROGRAM = """trial() {
  local own
  IFS=$'\\t' read -r -a own <<< "$HPCLAUNCH_SWEPT"
  BODY
}
trial
"""


@dataclass
class Bench:
    """A search in a folder, and its workers. ``body``: what a trial runs, with its words in the array ``own``."""

    root: Path

    @property
    def folder(self) -> SearchFolder:
        return SearchFolder(self.root)

    def ask(self, body: str, count: int, metric: str = "", **terms: object) -> None:
        space = SearchSpace(dimensions=(Dimension(name="n", low=0, high=count - 1, whole=True),))
        made = SearchTerms(space=space, metric=metric, **terms)  # type: ignore[arg-type]
        self.folder.write(SearchRecord(terms=made, target="x", at_once=2, created="now", free=True))
        (self.root / "program").write_text(PROGRAM.replace("BODY", body))

    def start(self, start: str = "1.0", shares: str = "2 2 0") -> subprocess.Popen[bytes]:
        attempt = self.root / "attempts" / start
        attempt.mkdir(parents=True, exist_ok=True)
        (attempt / "trial").write_text((self.root / "program").read_text())
        (attempt / "first-failure").unlink(missing_ok=True)
        variables = {
            "HPCLAUNCH_RUN_DIR": str(self.root),
            "HPCLAUNCH_SEARCH_START": start,
            "HPCLAUNCH_SEARCH_SHARES": shares,
            "HPCLAUNCH_EXIT_FILE": str(attempt / "first-failure"),
            "SLURM_PROCID": "3",
        }
        words = [sys.executable, "-m", "hpclaunch.search"]
        with open(self.root / "worker.log", "ab") as log:
            return subprocess.Popen(words, cwd=self.root, env={**os.environ, **variables}, stdout=log, stderr=log)

    def table(self) -> JournalReader:
        reader = JournalReader(self.folder)
        reader.read()
        return reader

    def states(self) -> list[str]:
        return [row.state for row in self.table().table.rows()]

    def log(self) -> str:
        return (self.root / "worker.log").read_text()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def ended(process: subprocess.Popen[bytes]) -> int:
    return process.wait(timeout=120)


def test_every_trial_is_made_once_with_its_value_and_what_it_was_granted(bench: Bench) -> None:
    body = 'echo "{\\"loss\\": ${own[0]#*=}}" > metrics.jsonl; env > environment; echo out; echo err >&2'
    bench.ask(body, 12, metric="loss")
    assert ended(bench.start(shares="2 2 2")) == 0, bench.log()
    rows = list(bench.table().table.rows())
    assert [(row.number, row.state, row.value) for row in rows] == [(n, "COMPLETED", float(n)) for n in range(12)]
    trial = bench.folder.trial(5)
    assert json.loads((trial / "trial.json").read_text())["value"] == 5.0
    assert sorted((trial / "log.out").read_text().split()) == ["err", "out"]
    variables = dict(line.partition("=")[::2] for line in (trial / "environment").read_text().splitlines())
    assert variables["HPCLAUNCH_RUN_DIR"] == str(trial)
    assert variables["CUDA_VISIBLE_DEVICES"] in ("0", "1")
    assert "SLURM_PROCID" not in variables
    assert not (bench.root / "attempts/1.0/first-failure").exists()


def test_a_trial_gets_its_gpus_in_the_vendors_variable(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "2,3")
    monkeypatch.setenv("HPCLAUNCH_SEARCH_GPUS", "ROCR_VISIBLE_DEVICES=2,3")
    bench.ask("env > environment", 4)
    assert ended(bench.start(shares="2 2 2")) == 0, bench.log()
    for number in range(4):
        lines = (bench.folder.trial(number) / "environment").read_text().splitlines()
        assert not [line for line in lines if line.startswith(("CUDA_VISIBLE", "HPCLAUNCH_SEARCH_GPUS"))]
        assert {"ROCR_VISIBLE_DEVICES=2", "ROCR_VISIBLE_DEVICES=3"} & set(lines)


def test_no_two_trials_have_a_cpu_or_a_gpu_at_the_same_time(bench: Bench) -> None:
    bench.ask("sleep 0.05", 16)
    assert ended(bench.start(shares="4 8 4")) == 0, bench.log()
    overlapping(list(bench.table().table.intervals()))


def overlapping(found: list[tuple[TrialBegin, float | None]]) -> None:
    held: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for begin, end in found:
        assert end is not None
        for kind, names in (("cpus", begin.cpus), ("gpus", begin.gpus)):
            held.setdefault((begin.host, kind, names), []).append((begin.time, end))
    assert len({key for key in held if key[1] == "gpus"}) == 4
    for times in held.values():
        for (_, ended_at), (began, _) in pairwise(sorted(times)):
            assert began >= ended_at


def test_nothing_is_lost_or_doubled_when_the_worker_is_killed(bench: Bench) -> None:
    bench.ask(f'[ "${{own[0]#*=}}" -lt 50 ] || until [ -e {bench.root}/open ]; do sleep 0.05; done', 150)
    worker = bench.start()
    wait_for(lambda: bench.states().count("COMPLETED") == 50, "all but those at the gate have ended")
    worker.kill()
    ended(worker)
    finished = {row.number for row in bench.table().table.rows() if row.state == "COMPLETED"}
    assert finished == {*range(50)}
    (bench.root / "open").touch()
    assert ended(bench.start("1.0")) == 0, bench.log()
    rows = list(bench.table().table.rows())
    assert [(row.number, row.state) for row in rows] == [(n, "COMPLETED") for n in range(150)]
    assert all(row.attempts == 1 for row in rows if row.number in finished)
    again = [row.number for row in rows if row.attempts > 1 and row.begin and row.begin.attempt > 1]
    assert not finished & set(again)


def test_what_a_killed_worker_left_is_ended_before_its_trials_are_made_again(bench: Bench) -> None:
    bench.ask('[ "$HPCLAUNCH_RESTART_COUNT" -gt 0 ] || { echo $$ > pid; sleep 1000; }', 1)
    worker = bench.start()
    pid = bench.folder.trial(0) / "pid"
    wait_for(lambda: pid.exists() and pid.read_text().strip(), "the trial runs")
    worker.kill()
    ended(worker)
    assert ended(bench.start()) == 0, bench.log()
    assert not _lives(int(pid.read_text()))
    assert bench.states() == ["COMPLETED"]


def _lives(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_killed_trial_is_tried_again_and_a_failed_one_is_not(bench: Bench) -> None:
    bench.ask('case "${own[0]#*=}.$HPCLAUNCH_RESTART_COUNT" in 0.0) kill -9 $$ ;; 1.*) exit 3 ;; esac', 3)
    assert ended(bench.start()) == 0, bench.log()
    rows = list(bench.table().table.rows())
    assert [(row.state, row.attempts) for row in rows] == [("COMPLETED", 2), ("FAILED", 1), ("COMPLETED", 1)]
    assert rows[1].end is not None
    assert rows[1].end.exit_code == 3


def test_the_last_trial_is_tried_again_too(bench: Bench) -> None:
    bench.ask('[ "$HPCLAUNCH_RESTART_COUNT" -gt 0 ] || kill -9 $$', 1)
    assert ended(bench.start()) == 0, bench.log()
    (row,) = bench.table().table.rows()
    assert (row.state, row.attempts) == ("COMPLETED", 2)


def test_a_trial_that_cannot_be_started_is_tried_again(bench: Bench) -> None:
    bench.ask("true", 1)
    place = bench.folder.trial(0)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("a file where the trial's folder should be")
    assert ended(bench.start()) == 1, bench.log()  # all of its trials failed
    (row,) = bench.table().table.rows()
    assert (row.state, row.attempts) == ("FAILED", MOST_FAULTS + 1)
    assert row.end is not None
    assert "could not be started" in row.end.reason


def test_a_signal_interrupts_the_trials_and_asks_for_a_further_start_which_continues_them(bench: Bench) -> None:
    bench.ask('[ "$HPCLAUNCH_RESTART_COUNT" -gt 0 ] || { : > begun; trap "exit 75" TERM; sleep 1000 & wait; }', 4)
    worker = bench.start()
    wait_for(lambda: all((bench.folder.trial(n) / "begun").exists() for n in (0, 1)), "two trials run")
    worker.send_signal(signal.SIGTERM)
    assert ended(worker) == 0, bench.log()
    assert bench.states() == ["INTERRUPTED", "INTERRUPTED"]
    assert (bench.root / "attempts/1.0/first-failure").read_text() == "75\n"
    assert bench.folder.workers()[1]["ended"] == "asked to stop"
    (bench.root / "program").write_text("true\n")
    assert ended(bench.start("1.1")) == 0, bench.log()
    rows = list(bench.table().table.rows())
    assert [(row.state, row.attempts) for row in rows] == [("COMPLETED", 2)] * 2 + [("COMPLETED", 1)] * 2


def test_two_workers_share_the_trials(bench: Bench) -> None:
    bench.ask("sleep 0.02", 60)
    workers = [bench.start(f"{number}.0") for number in (1, 2)]
    assert [ended(worker) for worker in workers] == [0, 0], bench.log()
    assert bench.states() == ["COMPLETED"] * 60
    events = [line for n in (1, 2) for line in bench.folder.journal(n).read_text().splitlines()]
    assert len(events) == 120


def test_a_trial_without_a_value_says_so(bench: Bench) -> None:
    bench.ask("true", 1, metric="val_loss")
    assert ended(bench.start()) == 1, bench.log()  # all of its trials failed
    (row,) = bench.table().table.rows()
    assert row.state == "FAILED"
    assert row.end is not None
    assert "no number named 'val_loss'" in row.end.reason


def test_a_folder_that_is_no_search_ends_the_worker_with_a_sentence(bench: Bench) -> None:
    (bench.root / "program").write_text("true\n")
    worker = bench.start()
    assert ended(worker) == 1
    assert "there is no search" in bench.log()
    assert "Traceback" not in bench.log()


def test_a_search_whose_trials_all_fail_has_failed_and_shows_the_end_of_the_first_log(bench: Bench) -> None:
    bench.ask('echo "of trial ${own[0]#*=}"; echo "train.py: no such option" >&2; exit 2', 6)
    workers = [bench.start("1.0"), bench.start("1.0")]
    codes = sorted(ended(worker) for worker in workers)
    assert codes[-1] == 1, bench.log()
    assert bench.states() == ["FAILED"] * 6
    assert "6 of 6 trials FAILED; the first is trial 0: " in bench.log()
    end = "log.out\n  | of trial 0\n  | train.py: no such option\n"
    assert f"its log: {bench.folder.trial(0)}/{end}" in bench.log()
    assert not (bench.root / "attempts/1.0/first-failure").exists(), "it asks for no further start"


def test_a_search_with_one_completed_trial_has_not_failed(bench: Bench) -> None:
    bench.ask('[ "${own[0]#*=}" -eq 3 ]', 6)
    assert ended(bench.start()) == 0, bench.log()
    assert bench.states().count("FAILED") == 5
    assert "FAILED" not in bench.log()
