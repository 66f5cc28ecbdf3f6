"""What real ranks hold of a transformer is what a plan counts, with sharded state and with shared layers."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.horovod.conftest import ROOT
from tests.tiers import LONG

BENCHMARK = ROOT / "benchmarks" / "memory_per_rank.py"
if not BENCHMARK.exists():
    pytest.skip("group checkout: an sdist holds no benchmarks", allow_module_level=True)
SMALL = {"layers": 1, "hidden": 64, "heads": 4, "context": 16, "vocabulary": 512, "batch_size_per_rank": 4}
# test_tensor_parallel.py counts what four ranks hold of a model that they share.
LAYOUTS: list[tuple[int, dict[str, Any]]] = [(2, {"shard_optimizer": "true"})]
if LONG:
    LAYOUTS += [(2, {}), (2, {"tensor_parallel": 2}), (4, {"tensor_parallel": 2, "shard_optimizer": "true"})]


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(BENCHMARK.parent))
        return importlib.import_module("memory_per_rank")


@pytest.mark.parametrize(("size", "own"), LAYOUTS, ids=["-".join(own) or "data" for _, own in LAYOUTS])
def test_every_rank_counts_the_states_that_the_plan_computes(  # type: ignore[no-untyped-def]
    size: int, own: dict[str, Any], benchmark: ModuleType, ranks, tmp_path: Path
) -> None:
    settings = {**SMALL, **own}
    words = {**settings, **benchmark.TRAINED, "train_samples": 16}
    options = [f"--{name.replace('_', '-')}={value}" for name, value in words.items()]
    ended = ranks(BENCHMARK, "--rank", str(tmp_path / "found.json"), *options, size=size)
    assert ended.code == 0, ended.text
    found = json.loads((tmp_path / "found.json").read_text())
    states, _ = benchmark.planned(settings, size)
    assert len(found) == size
    for one in found:
        assert sum(one["counts"]) == pytest.approx(states, rel=0.02), one
