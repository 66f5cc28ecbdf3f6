"""What a scheduler's row tells: how often states are asked for."""

from __future__ import annotations

import pytest

from hpclaunch.core.errors import NotFound
from hpclaunch.core.scheduler_rows import longest_pause, scheduler_row


def test_the_slowest_scheduler_tells_how_long_to_pause() -> None:
    assert longest_pause(["local", "local"]) < 1 < longest_pause(["local", "slurm"])
    assert longest_pause([]) == 0


def test_an_unknown_scheduler_is_not_found() -> None:
    with pytest.raises(NotFound, match="no scheduler is called 'slrm'; did you mean 'slurm'"):
        scheduler_row("slrm")
