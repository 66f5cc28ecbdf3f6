"""How a notebook shows a run and a plan: small pieces of HTML without script; every text is escaped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Protocol

from hpclaunch.core.units import format_walltime

if TYPE_CHECKING:
    from hpclaunch.planner.values import Forecast

_WIDTH, _HEIGHT, _EDGE = 360, 90, 4
"""Pixels of the curve of the loss, and around it."""
_LEFT = ' style="text-align:left"'


class ShownStatus(Protocol):
    """What is shown of a run; `hpclaunch.RunStatus` has it."""

    @property
    def id(self) -> str: ...
    @property
    def site(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def job_id(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def nodes(self) -> int | None: ...
    @property
    def elapsed_s(self) -> float | None: ...
    @property
    def left_s(self) -> float | None: ...
    @property
    def epoch(self) -> int | None: ...
    @property
    def epochs(self) -> int | None: ...
    @property
    def losses(self) -> tuple[float, ...]: ...


def status_html(status: ShownStatus) -> str:
    """Return a table of what is known of the run, and the curve of its loss once there are two epochs."""
    rows = [
        ("run", status.id),
        ("site", f"{status.site}, job {status.job_id}" if status.job_id else status.site),
        ("state", f"{status.state} ({status.reason})" if status.reason else status.state),
        ("nodes", "" if status.nodes is None else str(status.nodes)),
        ("elapsed", _duration(status.elapsed_s)),
        ("left", _duration(status.left_s)),
        ("epoch", _epoch(status.epoch, status.epochs)),
        ("loss", f"{status.losses[-1]:.4g}" if status.losses else ""),
    ]
    return _table([row for row in rows if row[1]]) + loss_svg(status.losses)


def plan_html(plan: Forecast) -> str:
    """Return the headlines of a plan, the settings to submit with, warnings, and why it is not feasible."""
    rows = [(line.name, f"{line.value} ({line.range}; {line.trust})") for line in plan.headlines]
    rows += [("settings", " ".join(f"{name}={value}" for name, value in plan.settings))] if plan.settings else []
    rows += [("warning", text) for text in plan.warnings]
    rows += [("not feasible", str(fault)) for fault in plan.refusals]
    return _table(rows)


def loss_svg(losses: Sequence[float]) -> str:
    """Return the losses of the epochs, from the lowest to the highest, as a curve; nothing for less than two."""
    known = [(place, loss) for place, loss in enumerate(losses) if math.isfinite(loss)]
    if len(known) < 2:
        return ""
    low, high = min(loss for _, loss in known), max(loss for _, loss in known)
    across = (_WIDTH - 2 * _EDGE) / (len(losses) - 1)
    down = (_HEIGHT - 2 * _EDGE) / (high - low) if high > low else 0.0
    points = " ".join(f"{_EDGE + place * across:.1f},{_EDGE + (high - loss) * down:.1f}" for place, loss in known)
    title = f"loss of the last {len(losses)} epochs, {low:.4g} to {high:.4g}"
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{title}"><title>{title}</title>'
        f'<polyline points="{points}" fill="none" stroke="#0b62ad" stroke-width="1.5"/></svg>'
    )


def _table(rows: Sequence[tuple[str, str]]) -> str:
    cells = [
        f'<tr><th scope="row"{_LEFT}>{escape(name)}</th><td{_LEFT}>{escape(value)}</td></tr>' for name, value in rows
    ]
    return f"<table>{''.join(cells)}</table>"


def _duration(seconds: float | None) -> str:
    return "" if seconds is None else format_walltime(round(seconds))


def _epoch(epoch: int | None, epochs: int | None) -> str:
    if epoch is None:
        return ""
    return f"{epoch} of {epochs}" if epochs else str(epoch)
