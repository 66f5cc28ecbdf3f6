"""The gradient noise scale on real ranks against linear regressions whose noise scale is known."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.horovod.conftest import PROGRAMS, Ended
from tests.tiers import LONG

if importlib.util.find_spec("horovod") is None:
    pytest.skip("group horovod: horovod is not installed (the extra `train` brings it)", allow_module_level=True)

TOLERANCE = 0.02


def found(ended: Ended, size: int) -> dict[str, Any]:
    assert ended.code == 0, ended.text
    held: list[dict[str, Any]] = [
        json.loads((ended.run_dir / f"found-{rank}.json").read_text()) for rank in range(size)
    ]
    assert all(one == held[0] for one in held)  # all ranks come to the same result
    return held[0]


def is_near(result: dict[str, Any], case: str) -> None:
    assert result[case]["value"] == pytest.approx(result["truth"], rel=TOLERANCE), case
    assert result[case]["low"] < result[case]["value"] < result[case]["high"] < 1.05 * result[case]["low"]


@pytest.mark.parametrize(("size", "cases"), [(2, ("uneven", "float16")), *([(4, ("uneven",))] if LONG else [])])
def test_several_ranks(ranks: Callable[..., Ended], size: int, cases: tuple[str, ...]) -> None:
    ended = ranks(PROGRAMS / "noise_scale.py", *cases, size=size, OMP_NUM_THREADS="1")
    result = found(ended, size)
    for case in cases:
        is_near(result, case)
        assert result[case]["norm"] == pytest.approx(result["norm"], rel=0.03)  # under float16 not times its scale
    lines = ended.events("noise_scale")[:2]
    assert [(line["epoch"], line["steps"]) for line in lines] == [(1, 200), (2, 400)]
    assert lines[1]["noise_scale"] == result[cases[0]]["value"]


def test_one_rank_compares_the_parts_of_an_accumulated_step(ranks: Callable[..., Ended]) -> None:
    result = found(ranks(PROGRAMS / "noise_scale.py", "parts", size=0), 1)
    is_near(result, "parts")
