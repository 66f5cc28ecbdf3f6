"""The sections of a page: what they say about finished, preempted, failed and other runs; nothing is drawn."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.reports.charts.study_chart import Panel
from hpclaunch.reports.page.comparison_page import comparison_page
from hpclaunch.reports.page.model import (
    CodeText,
    Facts,
    Figure,
    HeatMap,
    Listing,
    Page,
    PageSection,
    Sentence,
    Timeline,
)
from hpclaunch.reports.page.recorded import RecordedRun, read_run
from hpclaunch.reports.page.run_page import run_page
from hpclaunch.reports.page.runs_page import is_smaller_better, runs_page
from hpclaunch.reports.page.sections.course import ending_of
from hpclaunch.reports.page.sections.measured_plan import charged, checkpoint_advice, node_hours
from hpclaunch.reports.page.sections.search import FailedTrials, search_section
from hpclaunch.reports.page.sections.speed import slowest_rank
from hpclaunch.reports.page.study_page import study_page
from hpclaunch.runs import load, tasks_of
from hpclaunch.runs.scaling_study import load_study
from hpclaunch.search.folder import SearchFolder
from hpclaunch.search.journal import JournalReader
from hpclaunch.search.results import summary_of
from tests import fabricated_runs as fabricated


def page_of(path: Path) -> Page:
    return run_page(read_run(load(path)), fabricated.NOW, "1.2.3")


def section(page: Page, name: str) -> PageSection:
    return next(one for one in page.sections if one.name == name)


def figure(page: Page, name: str) -> Figure:
    return next(one for one in page.figures if one.name == name)


def texts(part: Page | PageSection) -> str:
    sections = part.sections if isinstance(part, Page) else (part,)
    blocks = [block for one in sections for block in one.blocks]
    words = [block.text for block in blocks if isinstance(block, Sentence | CodeText)]
    words += [
        f"{row.name} {row.value} {row.origin}" for block in blocks if isinstance(block, Facts) for row in block.rows
    ]
    words += [" ".join(map(str, row)) for block in blocks if isinstance(block, Listing) for row in block.rows]
    return "\n".join([*words, *(figure.words for one in sections for figure in one.figures)])


def test_a_finished_run_shows_everything(tmp_path: Path) -> None:
    page = page_of(fabricated.finished(tmp_path))
    assert [one.name for one in page.sections] == [
        *("warnings", "course", "training", "speed", "resources", "plan", "cost", "asked", "script", "repeat")
    ]
    assert [one.name for one in page.figures] == [
        *("states", "loss", "accuracy", "noise-scale", "throughput", "step-parts", "rank-step-time"),
        *("cpu", "rank-cpu", "memory", "gpu", "input-output", "energy"),
    ]
    assert (page.state, page.tone) == ("COMPLETED", "good")
    assert "Rank 5 is a straggler: its own steps take 38 % longer" in "\n".join(page.warnings)
    plan = texts(section(page, "plan"))
    assert "ranks 8 8 100 %" in plan
    assert "epochs 20 20 100 %" in plan
    assert "walltime of the longest start 01:00:00 9 min 59 s 17 %" in plan
    assert "samples per second 6,400 (5,200 to 8,100) 7,0" in plan
    assert "It rests on measured runs of this job." in plan
    asked = texts(section(page, "asked"))
    assert "walltime 01:00:00 --walltime" in asked
    assert "memory 64000M settings" in asked
    assert "learning_rate typed 0.004 (advised: 0.002)" in asked
    repeat = texts(section(page, "repeat"))
    assert (
        "cd /home/ada/project\ngit checkout 9be6c0233d2788a3560c2fbfe4b2c9e1051ae1cf\nhpclaunch submit cifar" in repeat
    )
    assert "--walltime 01:00:00 --set learning_rate=0.004" in repeat


def test_the_heat_map_has_a_row_for_each_rank_and_a_column_for_each_epoch(tmp_path: Path) -> None:
    heat_map = figure(page_of(fabricated.finished(tmp_path)), "rank-step-time").drawings[0]
    assert isinstance(heat_map, HeatMap)
    assert (len(heat_map.rows), len(heat_map.columns)) == (8, 20)
    assert min(heat_map.values[5]) > max(max(row) for place, row in enumerate(heat_map.values) if place != 5)  # type: ignore[type-var]


def test_the_cost_is_the_measured_part_of_the_walltime(tmp_path: Path) -> None:
    recorded = read_run(load(fabricated.finished(tmp_path)))
    assert recorded.seconds == 599
    assert node_hours(recorded) == pytest.approx(2 * 599 / 3600)
    assert charged(recorded) == (pytest.approx(8.0 * 599 / 3600), 8.0, "GPU-hour")


def test_a_preempted_run_shows_its_starts(tmp_path: Path) -> None:
    page = page_of(fabricated.preempted(tmp_path))
    course = section(page, "course")
    states = figure(page, "states").drawings[0]
    assert isinstance(states, Timeline)
    assert [span.row for span in states.spans if span.row != "state"] == ["start 1", "start 2", "start 3"]
    words = texts(course)
    assert "It started 3 times" in words
    assert "1 epoch had to be repeated" in words
    assert "saved its state and asked to be started again" in words
    assert "was ended by SIGTERM" in words
    panel = figure(page, "loss").drawings[0]
    assert isinstance(panel, Panel)
    assert panel.uprights == [5, 11]


def test_a_start_is_called_completed_with_its_proof_only(tmp_path: Path) -> None:
    path = fabricated.finished(tmp_path)
    (start,) = read_run(load(path)).starts
    assert ending_of(start) == "completed"
    (path / "attempts" / start.name / "completed").unlink()
    (start,) = read_run(load(path)).starts
    assert ending_of(start) == "ended with 0, without the proof that every rank did"


def test_a_failed_run_says_why_and_shows_its_log(tmp_path: Path) -> None:
    page = page_of(fabricated.failed(tmp_path))
    warnings = "\n".join(page.warnings)
    assert "first rank to fail: 1 rank 3" in warnings
    assert "loss, accuracy: not a finite number in the last epoch" in warnings
    assert "training has diverged" in texts(section(page, "course"))
    assert "Nothing was sampled on the nodes" in texts(section(page, "resources"))


def test_a_run_that_never_started_has_a_short_page(tmp_path: Path) -> None:
    page = page_of(fabricated.not_started(tmp_path))
    assert page.figures == ()
    words = texts(page)
    for sentence in (
        "The script never started",
        "The run wrote no epochs",
        "Nothing was sampled",
        "nothing was measured",
    ):
        assert sentence in words, sentence


def test_a_directory_with_only_a_record_has_a_page(tmp_path: Path) -> None:
    path = fabricated.not_started(tmp_path)
    for name in ("spec.json", "request.json", "job.sh", "environment.json"):
        (path / name).unlink()
    words = texts(page_of(path))
    assert "spec.json" in words
    assert "request.json" in words
    assert "The script is missing" in words


@pytest.mark.parametrize(
    "content", ["[]", "{", '{"layout": 3, "choices": {"a": 1}, "recipe": [], "cost": "x", "walltime": "y"}']
)
def test_damaged_records_are_no_errors(tmp_path: Path, content: str) -> None:
    path = fabricated.finished(tmp_path)
    for name in ("spec.json", "request.json", "environment.json", "metrics.jsonl", "states.jsonl"):
        (path / name).write_text(content)
    assert page_of(path).title == path.name


def test_hostile_metrics_have_names_of_files_and_legends(tmp_path: Path) -> None:
    page = page_of(fabricated.hostile(tmp_path))
    names = [one.name for one in page.figures]
    assert len(set(names)) == len(names)
    assert all(name.replace("-", "").isalnum() and name.isascii() for name in names)


def test_an_array_shows_its_runs_and_results_by_value(tmp_path: Path) -> None:
    array = load(fabricated.array(tmp_path))
    page = runs_page(read_run(array), [read_run(run) for run in tasks_of(array)], fabricated.NOW, "1.2.3")
    table = next(block for block in section(page, "runs").blocks if isinstance(block, Listing))
    assert table.columns == ("run", "learning_rate", "seed", "state", "took", "samples/s", "test_accuracy")
    assert len(table.rows) == 24
    assert "2 runs did not complete" in page.warnings[0]
    assert [one.name for one in page.figures] == [
        *("loss", "accuracy", "test-accuracy-by-learning-rate", "test-accuracy-by-seed")
    ]
    panel = figure(page, "loss").drawings[0]
    assert isinstance(panel, Panel)
    assert [series.label.partition(":")[0] for series in panel.series if not series.quiet] == [
        "best",
        "middle",
        "worst",
    ]
    assert sum(series.quiet for series in panel.series) == 21
    assert "Most: 0.9163 at learning_rate=0.003" in figure(page, "test-accuracy-by-learning-rate").words
    assert page.lead == "24 runs: 22 COMPLETED, 2 FAILED."


def test_two_runs_are_compared(tmp_path: Path) -> None:
    two = [read_run(load(fabricated.finished(tmp_path))), read_run(load(fabricated.preempted(tmp_path)))]
    page = comparison_page(two, [("--lr", ["0.1", "0.2"]), ("result.test_loss", ["1", "2"])], fabricated.NOW, "1.2.3")
    results = next(block for block in section(page, "results").blocks if isinstance(block, Listing))
    assert ("test_accuracy", 0.9123, None, None) in results.rows
    settings = next(block for block in section(page, "settings").blocks if isinstance(block, Listing))
    assert settings.rows == (("--lr", "0.1", "0.2"),)
    loss = figure(page, "loss").drawings[0]
    assert isinstance(loss, Panel)
    assert [series.label for series in loss.series] == [one.run.label for one in two]


def test_a_rank_that_is_a_little_slower_is_no_straggler() -> None:
    def times(slow: float) -> list[dict[str, object]]:
        return [{"step_seconds_by_rank": [0.1, 0.1, slow]} for _ in range(3)]

    slower = slowest_rank(times(0.109))
    assert slower is not None
    assert (slower.rank, slower.counts) == (2, False)
    straggler = slowest_rank(times(0.12))
    assert straggler is not None
    assert straggler.counts
    assert slowest_rank([{"step_seconds_by_rank": [0.1]}]) is None
    assert slowest_rank([{"step_seconds_by_rank": [0.1, "x"]}]) is None


def test_idle_gpus_and_full_memory_are_warned_of(tmp_path: Path) -> None:
    path = fabricated.finished(tmp_path)
    evidence = {"samples": 50, "seconds": 10.0}
    for file in (path / "samples").iterdir():
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        for line in lines[1:]:
            line["gpu"] = [{"use": 0.05, **evidence, "memory": 1, "power": 60} for _ in range(4)]
        lines[0]["memory_limit"] = 16 * 2**30
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    warnings = "\n".join(page_of(path).warnings)
    assert "The GPUs were idle most of the time: they computed 5.0 % of it (" in warnings and " samples in " in warnings
    assert "Memory was almost full" in warnings


@pytest.mark.parametrize(
    ("name", "smaller"), [("val_loss", True), ("test_accuracy", False), ("rmse", True), ("closs", False)]
)
def test_a_loss_is_better_when_it_is_smaller(name: str, smaller: bool) -> None:
    assert is_smaller_better(name) == smaller


def test_a_search_shows_its_best_trial_and_all_others(tmp_path: Path) -> None:
    folder = SearchFolder(fabricated.search(tmp_path))
    terms, table = folder.read().terms, JournalReader(folder).read()
    found = search_section(
        [*table.rows()],
        terms,
        summary_of(table, terms, 2),
        FailedTrials(words="1 FAILED", first=7, log_end="the last line"),
    )
    words = texts(found)
    assert "1 FAILED." in words
    assert CodeText(title="The last lines of the log of trial 7", text="the last line") in found.blocks
    assert "8 trials begun of 8: 7 COMPLETED, 1 FAILED. The best test_accuracy is 0.895 (trial 2)." in words
    assert "learning_rate 0.01" in words
    listing = next(block for block in found.blocks if isinstance(block, Listing))
    assert listing.columns == ("trial", "test_accuracy", "learning_rate", "seed", "state", "took")
    assert listing.rows[0][0] == 2
    assert listing.rows[-1][4] == "FAILED"
    assert found.figures[0].name == "best-so-far"


def test_a_study_shows_its_layouts(tmp_path: Path) -> None:
    path = fabricated.study(tmp_path)
    results = json.loads((path / "results.json").read_text())
    page = study_page(load_study(path), results, fabricated.NOW, "1.2.3")
    assert page.state == "COMPLETE"
    assert page.lead == "strong scaling of cifar at cluster on gpu nodes; global batch 512."
    assert [one.name for one in page.figures] == ["speed-up", "efficiency", "parts-of-a-step"]
    assert any("less than 60 %" in warning for warning in page.warnings)
    listing = next(block for block in section(page, "layouts").blocks if isinstance(block, Listing))
    assert listing.rows[-1][:5] == (4, 16, 512, 9100.0, 9.1)


@pytest.mark.parametrize(
    "results", [{}, {"rows": 3}, {"rows": [3, {"speed_up": 1.0}, {"split": {}}]}, {"rows": [{"split": 1}]}]
)
def test_a_study_without_results_or_with_damaged_ones_has_a_page(tmp_path: Path, results: dict[str, object]) -> None:
    page = study_page(load_study(fabricated.study(tmp_path)), results, fabricated.NOW, "1.2.3")
    assert page.figures == ()
    assert "Nothing can be drawn" in texts(page)


RATE = {"samples_per_s": 6400.0, "low": 5200.0, "high": 8100.0, "measured": False}


@pytest.mark.parametrize(
    "predicted",
    [
        None,
        [],
        {},
        {"samples_per_s": 6400.0},
        *({**RATE, "low": wrong} for wrong in ("a", -1, 0, 7000, True, math.nan)),
    ],
)
def test_without_a_prediction_the_measurement_stands_alone(tmp_path: Path, predicted: object) -> None:
    path = fabricated.finished(tmp_path)
    (path / "spec.json").write_text(json.dumps(fabricated.spec(predicted=predicted)))
    plan = texts(section(page_of(path), "plan"))
    assert "samples per second not predicted 7,0" in plan
    assert "No predicted speed is recorded for this run." in plan


def test_a_prediction_without_a_measurement_behind_it_says_so(tmp_path: Path) -> None:
    path = fabricated.finished(tmp_path)
    (path / "spec.json").write_text(json.dumps(fabricated.spec(predicted=RATE)))
    assert "there was no measurement that it could use" in texts(section(page_of(path), "plan"))


def test_the_utilization_that_was_reached_stands_beside_the_expected_one(tmp_path: Path) -> None:
    path = fabricated.finished(tmp_path)
    predicted = {**RATE, "mfu": 0.4, "peak": "989 TFLOP/s, the dense peak of H200 in 16 bits"}
    (path / "spec.json").write_text(json.dumps(fabricated.spec(predicted=predicted)))
    plan = texts(section(page_of(path), "plan"))
    assert "model FLOP utilization, of 989 TFLOP/s, the dense peak of H200 in 16 bits 40 %" in plan


def test_checkpoints_are_compared_with_the_best_interval(tmp_path: Path) -> None:
    path = fabricated.finished(tmp_path)
    with (path / "metrics.jsonl").open("a") as file:
        for number in range(4):
            event = {"event": "checkpoint", "time": fabricated.BEGAN + 302 * number, "seconds": 2.0, "step": number}
            file.write(json.dumps(event) + "\n")
    recorded = read_run(load(path))
    assert checkpoint_advice(recorded) is None
    advice = checkpoint_advice(replace(recorded, has_site=True, mtbf_days=100.0))
    assert advice is not None
    assert (advice.saving.save_s, advice.saving.used_s, advice.nodes, advice.assumed) == (2.0, 300.0, 2, False)
    page = run_page(replace(recorded, has_site=True), fabricated.NOW, "1.2.3")
    assert "Checkpoints took 2 s each. Advice: save every" in texts(section(page, "plan"))


def test_the_array_shares_the_price_among_its_runs(tmp_path: Path) -> None:
    array = load(fabricated.array(tmp_path))
    one: RecordedRun = read_run(tasks_of(array)[0])
    found = charged(one)
    assert found is not None
    assert found[1] == pytest.approx(8.0 / 24)
    assert charged(replace(one, starts=())) is None
