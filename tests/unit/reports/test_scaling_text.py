"""The text of a scaling study: CSV, and the paragraph and table of a proposal, from measured figures alone."""

from __future__ import annotations

import csv
from typing import Any

import pytest

from hpclaunch.reports.charts.scaling_chart import panels_of
from hpclaunch.reports.scaling_text import csv_text, latex_text, markdown_text, paragraph, proposal_table

STUDY = {
    "job": "my_job",
    "site": "here",
    "node_type": "gpu",
    "device": "A100 & more",
    "mode": "strong",
    "batch": 512,
    "samples": 50_000,
    "steps": 100,
    "created": "2026-11-24T10:00:00Z",
}
SPLIT = {"compute_s": 0.040, "communication_s": 0.005, "waiting_s": 0.003, "input_s": 0.002}


def row(ranks: int, rate: float | None, **more: Any) -> dict[str, Any]:
    speed_up = None if rate is None else rate / 1000.0
    return {
        "nodes": max(1, ranks // 4),
        "ranks": ranks,
        "batch_per_rank": 512 // ranks,
        "accumulation": 1,
        "global_batch": 512,
        "rates": [] if rate is None else [rate],
        "samples_per_s": rate,
        "samples_per_s_low": rate,
        "samples_per_s_high": rate,
        "deviation": None,
        "step_s": None if rate is None else 512 / rate,
        "split": None,
        "speed_up": speed_up,
        "speed_up_low": speed_up,
        "speed_up_high": speed_up,
        "efficiency": None if speed_up is None else speed_up / ranks,
        "predicted": 7777.0,
        "predicted_low": 7000.0,
        "predicted_high": 8000.0,
        "prediction_error": 0.5,
        "cost_of_epoch": None,
        "unit": "",
        "verdict": "",
        **more,
    }


def results(*rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"study": STUDY, "rows": list(rows), "synthetic": False, **more}


def test_the_csv_has_a_line_for_every_layout_and_nothing_for_what_is_unknown() -> None:
    lines = list(csv.DictReader(csv_text(results(row(1, 1000.0, split=SPLIT), row(4, None))).splitlines()))
    assert [line["ranks"] for line in lines] == ["1", "4"]
    assert (lines[0]["samples_per_s"], lines[0]["waiting_s"], lines[0]["repeats"]) == ("1000.0", "0.003", "1")
    assert (lines[1]["samples_per_s"], lines[1]["compute_s"], lines[1]["repeats"]) == ("", "", "0")


def test_the_paragraph_names_machine_job_date_method_and_figures() -> None:
    costs = [{"cost_of_epoch": 0.02, "unit": "node-hour"}, {"cost_of_epoch": 0.0123, "unit": "node-hour"}]
    spread = {"rates": [3000.0, 3400.0], "deviation": 0.09, "speed_up_low": 2.9, "speed_up_high": 3.5}
    text = paragraph(results(row(1, 1000.0, **costs[0]), row(4, 3200.0, split=SPLIT, **costs[1], **spread)))
    for words in (
        "The training my_job was measured on 1 node of here (node type gpu; a rank computes on: A100 & more), in a",
        "study begun on 2026-11-24, with hpclaunch ",
        "The global batch of 512 samples was the same in all layouts. Every layout ran 1 to 2 times, in epochs of at",
        "± is the standard deviation over the runs.",
        "One process trains 1000 samples/s, and 4 ranks on 1 node train 3200 ± 2.9e+02 samples/s: a speed-up of 3.20",
        "(2.90 to 3.50 over all pairs of runs), and an efficiency of 80%.",
        "Its step of 50 ms consists of 80% computing, 10% communication, 6% waiting for the slowest rank and 4%",
        "An epoch of 50000 samples at this speed is charged 0.0123 node-hours, and 0.02 with one process.",
    ):
        assert words in text
    assert "7777" not in text and "predict" not in text


def test_a_single_run_weak_scaling_and_made_up_samples_are_said() -> None:
    found = results(row(1, 1000.0), row(2, 1500.0), synthetic=True)
    text = paragraph({**found, "study": {**STUDY, "mode": "weak", "batch": 64}})
    assert "The batch of 64 samples per rank was the same in all layouts." in text
    assert "Every layout ran once, in epochs" in text
    assert "Each layout was measured once, so the spread between runs is not known." in text
    assert "The samples were made up" in text and "±" not in text


def test_disturbed_runs_are_counted() -> None:
    text = paragraph(results(row(1, 1000.0), row(2, 1500.0), disturbed=["a", "b"]))
    assert "In 2 runs the epochs differed by more than 25 % in speed." in text


def test_without_measured_runs_nothing_is_claimed() -> None:
    assert paragraph(results(row(1, None))) == "Nothing has been measured yet."
    text = paragraph(results(row(1, None), row(4, 3200.0, speed_up=None, efficiency=None)))
    assert "4 ranks on 1 node trains" in text and "speed-up" not in text


def test_columns_without_figures_are_left_out_of_the_table() -> None:
    header, cells = proposal_table(results(row(1, 1000.0), row(4, 3200.0), row(8, None)))
    assert header == ["nodes", "ranks", "batch per rank", "samples/s", "speed-up", "efficiency", "step (ms)"]
    assert cells == [["1", "1", "512", "1000", "1.00", "100%", "512"], ["1", "4", "128", "3200", "3.20", "80%", "160"]]
    header, _ = proposal_table(results(row(1, 1000.0, split=SPLIT, cost_of_epoch=0.5, unit="SBU")))
    assert header[-5:] == ["compute (ms)", "communication (ms)", "slowest rank (ms)", "input (ms)", "SBUs per epoch"]


def test_latex_is_escaped() -> None:
    text = latex_text(results(row(1, 1000.0), row(4, 3200.0, deviation=0.1, rates=[1.0, 2.0])))
    assert r"my\_job" in text and r"A100 \& more" in text and r"80\%" in text and r"$\pm$" in text
    assert "±" not in text and text.count("{") == text.count("}")
    assert text.count(r"\begin") == text.count(r"\end") == 2


def test_markdown_has_one_line_for_every_measured_layout() -> None:
    lines = markdown_text(results(row(1, 1000.0), row(4, 3200.0), row(8, None))).splitlines()
    assert [line.count("|") for line in lines if line.startswith("|")] == [8, 8, 8, 8]


@pytest.mark.parametrize(
    ("rows", "titles"),
    [
        ([row(1, None)], []),
        ([row(1, 1000.0), row(4, 3200.0)], ["speed-up", "efficiency"]),
        ([row(1, 1000.0, split=SPLIT), row(4, 3200.0, split=SPLIT)], ["speed-up", "efficiency", "parts of a step"]),
    ],
)
def test_the_picture_has_the_panels_that_were_measured(rows: list[dict[str, Any]], titles: list[str]) -> None:
    panels = panels_of(results(*rows))
    assert [panel.title for panel in panels] == titles
    if panels:
        measured, ideal, predicted = panels[0].series
        assert list(measured.y) == [1.0, 3.2] and list(ideal.y) == [1, 4] and list(predicted.y) == [7.777, 7.777]
    if len(panels) == 3:
        assert [series.y for series in panels[2].series] == [[40, 40], [5, 5], [3, 3], [2, 2]]
