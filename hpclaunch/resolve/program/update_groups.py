"""Refuses groups of ranks that update their model apart, if the ranks of a run cannot form them."""

from __future__ import annotations

from collections.abc import Iterator

from hpclaunch.config.job import Role
from hpclaunch.core.spec import Layout, Sweep
from hpclaunch.core.units import count
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions

GROUPS: Role = "update_groups"


def check_update_groups(case: Case, layout: Layout, decisions: Decisions, sweep: Sweep | None = None) -> None:
    """Note the first fault, if the ranks of a run, swept ones included, cannot be so many equal groups."""
    name, ranks = case.job.parameter_for(GROUPS), layout.world_size
    for groups in _numbers_of(case, name, sweep):
        if ranks % groups:
            near = ", ".join(str(one) for one in range(1, ranks + 1) if ranks % one == 0)
            decisions.fault(
                f"{count(ranks, 'rank')} cannot be {groups} equal groups",
                where=f"--set {name}",
                allowed=near,
                next=f"choose one of these, or a multiple of {groups} ranks",
            )
            return


def _numbers_of(case: Case, name: str, sweep: Sweep | None) -> Iterator[int]:
    """Yield the number of groups of every run; one that cannot be read is refused by ``resolve.program.command``."""
    row, typed = case.job.parameters.get(name), dict(case.request.settings)
    if row is None:
        return
    texts: tuple[str, ...] = (str(row.default),)
    if sweep and name in dict(sweep.axes):
        texts = dict(sweep.axes)[name]
    elif name in typed:
        texts = (typed[name],)
    for text in texts:
        try:
            number = row.parse(text)
        except ValueError:
            continue
        if type(number) is int and number > 0:
            yield number
