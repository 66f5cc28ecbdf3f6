"""Ranks of PyTorch that share weights, or the optimizer's state, train as one process, and go on in another layout."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frameworks.environments import ROOT
from tests.frameworks.test_jobs import PROGRAMS, start_program
from tests.tiers import LONG

pytestmark = pytest.mark.timeout(900)
PROGRAM = PROGRAMS / "sharded_torch.py"
TRAINED = 12
"""Samples, of which 2, 3 and 4 ranks have equally many. Three more are validated, and five are tested: of four ranks
one validates none."""
STEPS, STOP, SAVED = 10, 4, 3
"""A training is broken off after step STOP, before it saves that one."""
CASES = ["adamw-float64-decayed", "sgd-float32", "adam-float64-averaged"]
OF_THE_STATE = ["adamw-float64-decayed", "lamb-float64-decayed", "muon-float64"]
if LONG:
    CASES += ["adam-float64-accumulated", "adam-float64-best"]
    OF_THE_STATE += [*CASES[1:], "lars-float64-decayed", "larc-float64-decayed"]


class Bench:
    """A folder with data, and what each launch of ranks came to."""

    def __init__(self, folder: Path, environment: str) -> None:
        self.folder, self.environment = folder, environment
        draws = np.random.default_rng(5)
        features = draws.normal(size=(TRAINED + 8, 3))
        price = features @ np.array([1.0, -2.0, 0.5])
        parts = {"features_train": features[5:], "price_train": price[5:]}
        np.savez(folder / "houses.npz", features_test=features[:5], price_test=price[:5], **parts)

    def trained(self, size: int, folders: str, jobs: list[str]) -> dict[str, Any]:
        """What `size` ranks come to, by job; their checkpoints are in `folders`."""
        words = [f"--data-dir={self.folder / 'houses.npz'}", f"--folders={self.folder / folders}"]
        run_dir = self.folder / f"run-{folders}-{size}"
        codes, text = start_program(
            self.environment, PROGRAM, run_dir, *words, "--jobs=" + ",".join(jobs), size=size
        ).ended()
        assert codes == [0] * size, text
        return json.loads((run_dir / "sharded.json").read_text())  # type: ignore[no-any-return]

    def alone(self, cases: list[str]) -> dict[str, Any]:
        """What one process comes to, by case."""
        found = self.trained(1, "one", [f"{case}:none:{case}:0" for case in cases])
        return {job.split(":")[0]: one for job, one in found.items()}


def difference(found: dict[str, Any], expected: dict[str, Any]) -> float:
    """The largest one of losses, weights and the results of the test; a resumed training has the last losses alone."""
    losses = expected["losses"][-len(found["losses"]) :]
    pairs = [(found["losses"], losses)]
    pairs += [(found["weights"][name], one) for name, one in expected["weights"].items()]
    pairs += [(found["tested"][name], one) for name, one in expected["tested"].items()]
    return max(float(np.abs(np.array(one) - np.array(other)).max()) for one, other in pairs)


def wrong(found: dict[str, Any], alone: dict[str, Any], steps: int) -> list[str]:
    """What is not as in one process."""
    far = []
    for job, one in found.items():
        case = job.split(":")[0]
        near = 1e-6 if "float32" in case else 1e-12
        apart = difference(one, alone[case])
        if len(one["losses"]) != steps or apart > near:
            far.append(f"{job}: {len(one['losses'])} steps, apart by {apart}")
    return far


def test_ranks_that_share_weights_follow_one_process_and_go_on_in_another_layout(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "newer-torch")
    alone = bench.alone(CASES)
    begun = [f"{CASES[0]}:{layout}:from-{layout}:{STOP}" for layout in ("fsdp", "zero1", "none")]
    found = bench.trained(2, "two", [f"{case}:fsdp:{case}:0" for case in CASES] + begun)
    halves = {job: found.pop(job) for job in begun}
    assert not wrong(found, alone, STEPS)
    expected = alone[CASES[0]]["losses"][:STOP]
    assert [one["losses"] for one in halves.values()] == [pytest.approx(expected, rel=1e-12)] * 3
    # Each rank keeps its part of the weights and of Adam's two averages alone.
    size = sum(np.size(one) for name, one in alone[CASES[0]]["weights"].items() if name != "shift")
    divided = halves[begun[0]]
    assert sum(divided["held"]) == size and max(divided["held"]) < size
    assert divided["kept"] == [2 * held for held in divided["held"]]
    # They go on with other ranks, in another layout.
    layouts = {"fsdp": "zero1", "zero1": "none", "none": "fsdp"}
    for ranks in (1, 3, 4) if LONG else (3,):
        shutil.copytree(tmp_path / "two", tmp_path / f"go-on-{ranks}")
        jobs = [f"{CASES[0]}:{now}:from-{before}:0" for before, now in layouts.items()]
        assert not wrong(bench.trained(ranks, f"go-on-{ranks}", jobs), alone, STEPS - SAVED)


def test_ranks_that_share_the_state_alone_follow_one_process(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "ddp")
    alone = bench.alone(OF_THE_STATE)
    found = bench.trained(2, "two", [f"{case}:zero1:{case}:0" for case in OF_THE_STATE])
    assert not wrong(found, alone, STEPS)
    shared, whole = found[f"{OF_THE_STATE[0]}:zero1:{OF_THE_STATE[0]}:0"], alone[OF_THE_STATE[0]]
    assert shared["held"] == whole["held"] * 2
    assert sum(shared["kept"]) == whole["kept"][0] and max(shared["kept"]) < whole["kept"][0]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--shard-weights=true"], "--shard-weights=true needs fully_shard of PyTorch 2.6 or newer, and this is 1.13"),
        (
            ["--shard-weights=true", "--optimizer=lamb"],
            "with --optimizer=lamb, which needs whole weights: use --shard-optimizer=true, not --shard-weights=true",
        ),
    ],
)
def test_what_cannot_share_weights_is_refused_with_one_error(words: list[str], error: str, tmp_path: Path) -> None:
    small = ["--synthetic=true", "--synthetic-samples=64", "--epochs=1"]
    program = ROOT / "jobs" / "ddp" / "train.py"
    codes, text = start_program("ddp", program, tmp_path, *small, *words, size=2).ended()
    assert set(codes) == {1} and text.count(error) == 1 and "Traceback" not in text, text


def test_a_program_with_its_own_optimizer_is_told_how_to_share(tmp_path: Path) -> None:
    np.savez(tmp_path / "houses.npz", features=np.ones((20, 3)), price=np.ones(20))
    words = [f"--data-dir={tmp_path / 'houses.npz'}", "--shard-optimizer=true"]
    codes, text = start_program("ddp", PROGRAMS / "houses_torch.py", tmp_path, *words, size=2).ended()
    assert set(codes) == {1} and text.count("training.optimizer(run, model) makes") == 1, text
