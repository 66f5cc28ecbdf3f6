"""Two trainers in one run directory: the older one, which was cut off and comes back, changes nothing more."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.horovod.conftest import PROGRAMS, Ended
from tests.horovod.test_resuming import EXACT, same_final_state
from tests.tiers import LONG

PROGRAM = PROGRAMS / "resumable.py"
OPTIONS = ("--scale-learning-rate=adascale", "--optimizer=adam", "--learning-rate=0.01", "--decay=cosine")
SENTENCE = "start 1 of this run ends here and writes nothing more: a later start has taken the run over (claims/2)"
Ranks = Callable[..., Ended]


def of_start(number: int, run_dir: Path) -> dict[str, str]:
    """The variables that a script exports in this start of a run."""
    attempt = run_dir / "attempts" / f"7.{number - 1}"
    attempt.mkdir(parents=True)
    names = {"HPCLAUNCH_RUN_DIR": run_dir, "HPCLAUNCH_EXIT_FILE": attempt / "first-failure", "HPCLAUNCH_START": number}
    return {**EXACT, **{name: str(value) for name, value in names.items()}}


def claim(number: int, run_dir: Path) -> None:
    (run_dir / "claims").mkdir(exist_ok=True)
    (run_dir / "claims" / str(number)).touch()


def wait_for(path: Path, meanwhile: Callable[[], bool]) -> None:
    while not path.exists():
        assert meanwhile(), f"the ranks have ended without {path}"
        time.sleep(0.1)


def content(run_dir: Path) -> dict[str, bytes]:
    """What the library has written to a run directory: the log, and the checkpoints under their own names."""
    paths = [run_dir / "metrics.jsonl", *(run_dir / "checkpoints").rglob("*")]
    return {str(path): path.read_bytes() for path in paths if path.is_file() and "/." not in str(path)}


@pytest.fixture(scope="module")
def undisturbed(ranks: Ranks) -> Ended:
    return ranks(PROGRAM, *OPTIONS, **EXACT)


HOLDS = ["0:20", "0:26"]  # within an epoch; in its last step, before its line and its checkpoint
if LONG:
    HOLDS += ["1:20"]  # rank 0 waits in a collective


@pytest.mark.parametrize("hold", HOLDS)
def test_a_trainer_that_comes_back_changes_nothing(ranks: Ranks, undisturbed: Ended, hold: str, tmp_path: Path) -> None:
    """It is held after its first checkpoint until the later start has ended; 3 epochs of 13 steps each."""
    claim(1, tmp_path)
    with ThreadPoolExecutor(1) as aside:
        zombie = aside.submit(ranks, PROGRAM, *OPTIONS, f"--event={hold}:hold", **of_start(1, tmp_path))
        wait_for(tmp_path / "event", lambda: not zombie.done())
        assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00000013-start-1"]
        claim(2, tmp_path)
        later = ranks(PROGRAM, *OPTIONS, "--checkpoint-steps=12", **of_start(2, tmp_path))
        assert later.code == 0, later.text
        before = content(tmp_path)
        (tmp_path / "go").touch()
        ended = zombie.result()
    assert ended.code != 0
    assert (tmp_path / "attempts/7.0/first-failure").read_text() == "75\n", ended.text
    assert len(ended.speakers(SENTENCE)) == 1 and ended.speakers("Traceback") == [], ended.text
    assert content(tmp_path) == before
    both = Ended(0, "", tmp_path)
    same_final_state(undisturbed, both, 2)
    losses = [[(line["epoch"], line["loss"]) for line in one.events("epoch")] for one in (undisturbed, both)]
    assert losses[0] == losses[1] and len(losses[0]) == 3
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    starts = [line["start_number"] for line in lines if line["event"] != "checkpoint"]
    assert starts == [1, 2, 2, 2, 2]  # an epoch; resume, two epochs, end
    kept = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert kept == ["step-00000036-start-2", "step-00000039-start-2"]
