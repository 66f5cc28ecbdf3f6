"""Shows a report of ``doctor``, on a terminal and as ``--json``; it decides nothing."""

from __future__ import annotations

from hpclaunch.actions.doctor import Report, summary_of
from hpclaunch.cli.show.console import say, show_lines, write_json

_STYLES = {"PASS": "derived", "WARN": "third-party", "FAIL": "bad"}


def show_report(report: Report, as_json: bool) -> None:
    """Show every check with its next step."""
    if as_json:
        write_json(report.to_json())
        return
    lines = []
    for check in report.checks:
        lines.append([(f"{check.verdict}  ", _STYLES[check.verdict]), (f"{check.name:<13} ", ""), (check.what, "")])
        if check.next and check.verdict != "PASS":
            lines.append([("      next: " + check.next, "")])
    show_lines(lambda width: lines)
    say(summary_of(report))
    if report.run is not None:
        say(f"the run directory of the probe: {report.run.path}")
