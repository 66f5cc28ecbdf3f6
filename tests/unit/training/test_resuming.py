"""What is said when a run goes on with other options."""

from __future__ import annotations

import json

import pytest

try:
    import numpy  # noqa: F401
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

from hpclaunch.training import resuming
from tests.unit.training.test_learning_rate import asked


def changed(before: str, now: str) -> list[str]:
    then = json.loads(json.dumps(vars(asked(*before.split()))))
    return resuming.changed(vars(asked(*now.split())), then)


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ("", "--momentum=0.8", ["--momentum is 0.8 now and was 0.9"]),
        ("", "--steps-per-execution=4", ["--steps-per-execution is 4 now and was 1"]),  # the rate changes with these
        ("--decay=cosine", "--decay=cosine --epochs=20", ["--epochs is 20 now and was 12"]),
        ("--decay=step --decay-epochs=3,6", "--decay=step --decay-epochs=3,6", []),
        ("--decay=step --decay-epochs=3,6", "--decay=step --decay-epochs=3", ["--decay-epochs is [3.0] now"]),
        ("", "--epochs=20 --stage-to=/tmp --data-dir=/elsewhere --noise-scale=false", []),
    ],
)
def test_options_that_change_what_is_computed_are_told(before: str, now: str, said: list[str]) -> None:
    found = changed(before, now)
    assert len(found) == len(said)
    assert all(one.startswith(start) for one, start in zip(found, said, strict=True))
