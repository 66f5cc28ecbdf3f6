"""What a notebook shows of a run: escaped texts, no script, and a curve once there are two epochs."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

from hpclaunch.actions.api.submitted import RunStatus, SubmittedRun
from hpclaunch.reports.notebook_view import loss_svg, status_html


def a_status(**more: object) -> RunStatus:
    values = {"run": SubmittedRun(folder=Path("/r")), "id": "r", "name": "r", "site": "s", "state": "RUNNING"}
    return RunStatus(**{**values, "final": False, "job_id": "7", "created": "", **more})  # type: ignore[arg-type]


def test_what_is_known_is_shown_and_what_is_not_known_has_no_row() -> None:
    html = status_html(a_status(epoch=3, epochs=60, elapsed_s=61.0, losses=(1.0, 0.5)))
    for text in ("RUNNING", "s, job 7", "3 of 60", "00:01:01", "0.5"):
        assert f">{text}</td>" in html
    assert ">left<" not in html and ">nodes<" not in html


def test_a_text_cannot_become_html() -> None:
    html = status_html(a_status(reason="<script>alert(1)</script>", id='"><img>'))
    assert "<script" not in html and "<img" not in html
    ElementTree.fromstring(f"<div>{html}</div>")


def test_the_curve_goes_from_the_highest_loss_to_the_lowest() -> None:
    assert loss_svg(()) == loss_svg((1.0,)) == loss_svg((1.0, math.nan)) == ""
    svg = ElementTree.fromstring(loss_svg((1.0, math.inf, 0.5)))
    line = svg.find("polyline")
    assert line is not None and line.get("points") == "4.0,4.0 356.0,86.0"
    flat = ElementTree.fromstring(loss_svg((1.0, 1.0)))
    assert flat.findtext("title") == "loss of the last 2 epochs, 1 to 1"
