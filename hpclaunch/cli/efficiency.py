"""``efficiency``: what runs used of what they asked for, and what to type next time."""

from __future__ import annotations

import typer

from hpclaunch.actions.requesting import typed_times
from hpclaunch.cli import run_flags
from hpclaunch.core.errors import Fault, Refused

app = typer.Typer()


@app.command("efficiency")
def efficiency(run: run_flags.NewestRuns = None, since: run_flags.Since = None, json: run_flags.Json = False) -> None:
    """Show how well runs used their CPUs, memory, GPUs and time, and what to ask for next time."""
    from hpclaunch.actions.following import states
    from hpclaunch.actions.following.efficiency import efficiencies
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console
    from hpclaunch.cli.show.efficiency import show_efficiencies

    system = System(warn=console.warn)
    begin = typed_times.since_of(since, system.now())
    found = states.all_runs(system, begin) if since and not run else states.find(system, run or [])
    known = efficiencies([one for one in found if one.created >= begin])
    if not known and not since:
        names = ", ".join(one.label for one in found[:3])
        raise Refused(Fault(what=f"{names} has not begun, so it has used nothing", next="hpclaunch status"))
    show_efficiencies(known, json)
