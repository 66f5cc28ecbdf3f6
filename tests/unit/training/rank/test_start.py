"""What a rank sets before TensorFlow is imported."""

from __future__ import annotations

import pytest

try:
    import numpy  # noqa: F401
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

from hpclaunch.training.rank.start import prefer_onednn


@pytest.mark.parametrize(
    ("before", "machine", "after"),
    [
        ({}, "x86_64", "1"),
        ({}, "AMD64", "1"),
        ({}, "aarch64", None),
        ({"TF_ENABLE_ONEDNN_OPTS": "0"}, "x86_64", "0"),
    ],
)
def test_onednn_is_on_by_default_and_a_persons_own_choice_wins(
    before: dict[str, str], machine: str, after: str | None
) -> None:
    environ = dict(before)
    prefer_onednn(environ, machine)
    assert environ.get("TF_ENABLE_ONEDNN_OPTS") == after
