"""What the advice imports, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("words", [("--recipe", "job"), ()])
def test_without_a_recipe_no_module_of_the_planner_is_imported_and_with_one_no_forecast(words: tuple[str, ...]) -> None:
    """Start-up: what is not imported takes no time."""
    program = (
        "import sys; from tests.unit.actions.test_advice import case_of; from hpclaunch.resolve import spec_of\n"
        "ours = {name for name in sys.modules if name.startswith(('hpclaunch.planner', 'hpclaunch.guidelines'))}\n"
        "for name in ours: del sys.modules[name]\n"
        "del sys.modules['hpclaunch.actions.preparing.advice']\n"
        "from hpclaunch.actions.preparing.advice import advised\n"
        f"advised(case_of(nodes=4, recipe={'job' if words else None!r}))\n"
        "print(*sorted(name for name in sys.modules if name.startswith('hpclaunch.planner.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    if words:
        assert loaded == {"hpclaunch.planner.measured", "hpclaunch.planner.measured.calibrations"}
    else:
        assert "hpclaunch.planner.choice.run_recipe" in loaded
        assert not loaded & {
            f"hpclaunch.planner.{name}" for name in ("forecasting", "decision", "proposal", "sections")
        }
