"""Shows a report of ``doctor``, on a terminal and as ``--json``; it decides nothing."""

from __future__ import annotations

from hpclaunch.actions.clusters.doctor import Report, summary_of
from hpclaunch.cli.show.console import say, show_lines, write_json
from hpclaunch.cli.show.node_lines import all_reduce_lines, node_lines

_STYLES = {"PASS": "derived", "WARN": "third-party", "FAIL": "bad"}


def show_report(report: Report, as_json: bool) -> None:
    """Show the nodes, the measured times, and every check with its next step."""
    if as_json:
        write_json("doctor", report.to_json())
        return
    shown = [node_lines(node) for node in report.nodes]
    shown += [all_reduce_lines(report.all_reduce)] if report.all_reduce else []
    lines = [[(text, "")] for part in shown for text in (*part, "")]
    for check in report.checks:
        lines.append([(f"{check.verdict}  ", _STYLES[check.verdict]), (f"{check.name:<13} ", ""), (check.what, "")])
        if check.next and check.verdict != "PASS":
            lines.append([("      next: " + check.next, "")])
    show_lines(lambda width: lines)
    say(summary_of(report))
    if report.kept:
        say(f"the measured speeds, for plans: {', '.join(report.kept)}")
    if report.not_kept:
        say(f"not kept for plans: {report.not_kept}")
    if report.run is not None:
        say(f"the run directory of the probe: {report.run.path}")
