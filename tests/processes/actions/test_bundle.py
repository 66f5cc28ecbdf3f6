"""How pip's end becomes that of a bundle."""

from __future__ import annotations

import contextlib
import sys

import pytest

from hpclaunch.actions.sharing.bundle import BundleTarget, _run_pip
from hpclaunch.actions.system import System
from hpclaunch.core.errors import Refused


@pytest.mark.parametrize("code", [0, 1, 2])
def test_whether_pip_has_failed_is_told_by_its_exit_code(code: int) -> None:
    """A pip that warns of something and goes on has not failed."""
    told: list[str] = []
    says = f"print('Saved ./a.whl'); print('No module named pip'); raise SystemExit({code})"
    failure = pytest.raises(Refused, match="has no pip") if code else contextlib.nullcontext()
    with failure:
        _run_pip(System(tell=told.append), [sys.executable, "-c", says], BundleTarget(python="3.12", machine="aarch64"))
    assert told == ["  a.whl"]
