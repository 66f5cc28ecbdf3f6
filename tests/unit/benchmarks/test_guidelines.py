"""The study of the guidelines: verdicts of a plan as a table, figures 4 and 5 of runs that follow an exact law."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hpclaunch.config.job import Job, job_of_file
from hpclaunch.guidelines.dataset import PROJECTS
from hpclaunch.guidelines.efficiency import Pareto
from hpclaunch.guidelines.reasoning import GUIDELINES

ROOT = Path(__file__).parents[3]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("group checkout: an sdist holds no benchmarks", allow_module_level=True)

Reference = Callable[[str], ModuleType]
LAW = Pareto(fewest_epochs=60_000, critical_batch=800)
SIZES = (64, 512, 4096)
NOISE = 1024.0


def a_reason(rule: str, verdict: str, source: str = GUIDELINES) -> dict[str, Any]:
    return {"rule": rule, "verdict": verdict, "source": source}


PLAN = {
    "sections": [
        {
            "title": "batch",
            "reasons": [
                a_reason("below sqrt(N)", "at most 223"),
                a_reason("the time", "1 s", "a model of this project"),
            ],
            "declined": [{"name": "hybrid", "why": "not | in Horovod", "source": f"{GUIDELINES}, hybrid"}],
            "remarks": ["at least 32 samples a rank"],
        },
        {"title": "ladder", "reasons": [a_reason("1. data parallel", "taken")], "declined": [], "remarks": ["a rung"]},
        {"title": "time", "reasons": [a_reason("the time", "1 s", "a model")], "declined": [], "remarks": ["a model"]},
    ]
}


def test_the_verdicts_of_a_plan_are_those_of_the_guidelines(reference: Reference) -> None:
    rules = reference("guidelines_rules")
    found = rules.verdicts(PLAN)
    assert found == rules.Verdicts(
        rules={"below sqrt(N)": "at most 223"},
        declined={"hybrid": "not | in Horovod"},
        notes={"at least 32 samples a rank": "batch"},
    )
    other = rules.Verdicts(rules={"below sqrt(N)": "at most 244", "a new rule": "yes"}, declined={}, notes={})
    text = rules.table({"cifar": found, "mnist": other})
    assert text.splitlines()[0] == "| rule | cifar | mnist |"
    assert text.splitlines()[2:] == ["| below sqrt(N) | at most 223 | at most 244 |", "| a new rule | - | yes |"]
    assert rules.markdown(["a"], [["x | y"]]).splitlines()[-1] == "| x \\| y |"


def test_every_bundled_job_that_trains_has_a_row_among_the_data_sets(reference: Reference, tmp_path: Path) -> None:
    text = reference("guidelines_report").data_sets(tmp_path)
    for name in (*(one.name for one in PROJECTS), *reference("guidelines_rules").jobs_that_train()):
        assert f"| {name} |" in text
    assert "| resnet50 | 25.56 million | 1,281,167 | 0.05 | as large | no committed result |" in text
    assert "| mnist | 1.20 million | 60,000 | 0.05 | smaller | no committed result |" in text


def test_what_is_declined_for_some_jobs_names_them(reference: Reference) -> None:
    both, one = {"pipelined": "stale"}, {"gRPC": "sockets"}
    found = {"here": {"cifar": both | one, "ddp": both}, "there": {"cifar": both | one, "ddp": both}}
    by_place = reference("guidelines_rules").tables_by_place
    for_all, for_some = by_place(found, "Declined for", ("way", "why"))
    assert for_all.splitlines()[0] == "### Declined for every job"
    assert for_all.splitlines()[4:] == ["| pipelined | stale |"]
    assert for_some.splitlines()[:3:2] == ["### Declined for some jobs", "| way | why | jobs |"]
    assert for_some.splitlines()[4:] == ["| gRPC | sockets | at here: cifar; at there: cifar |"]
    assert len(by_place({"here": {"cifar": both}}, "Declined for", ("way", "why"))) == 1


def test_a_job_that_is_not_there_is_one_error(reference: Reference, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        reference("guidelines_rules").report(["local"], ["nosuch"])
    assert ended.value.code and capsys.readouterr().err.startswith("error: no job is called 'nosuch'")


def test_a_report_without_results_is_one_error(reference: Reference, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"no results in .*: run benchmarks/reference/guidelines.py updates first"):
        reference("guidelines_report").report(tmp_path, tmp_path / "pictures")
    assert not (tmp_path / "pictures").exists()


def test_the_outcome_of_a_job_is_the_median_of_one_case(reference: Reference, tmp_path: Path) -> None:
    store, report = reference("store"), reference("guidelines_report")
    assert report.outcome_of("mnist", tmp_path) == ("no committed result", "-")
    wanted = reference("notebook3_cases").wanted(False)
    for case, best in {
        "learn-horovod-1": 0.98,
        "learn-horovod-1-fashion_mnist": 0.999,
        "few-mirrored-2-float32": 1,
    }.items():
        for seed in (1, 2, 3):
            one = store.Result(
                study="notebook3",
                case=case,
                seed=seed,
                settings=wanted[case],
                measured={"test_accuracy": best - seed / 100},
            )
            store.write(one, tmp_path)
    outcome, source = report.outcome_of("mnist", tmp_path)
    assert outcome == "96.0% (95.0% to 97.0%) test accuracy; 3 seeds"
    assert source == "study notebook3, case learn-horovod-1"


def a_run(store: ModuleType, batch: int, seed: int) -> Any:
    """A run whose samples to the target are the law's, and whose loss falls in a straight line from 2 to 1.5."""
    samples = LAW.epochs(batch)
    looks = [samples * part / 4 + 2 for part in range(1, 5)]  # at their end, two samples behind their centre
    measured = {
        "batch": batch,
        "reached": True,
        "samples": samples,
        "steps": samples / batch,
        "seconds": samples / 1000,
        "noise_scale": NOISE,
        "curve": {"samples": looks, "loss": [None, 1.75, 1.625, 1.5], "noise_scale": [None, 10.0, 100.0, NOISE]},
    }
    settings = {"every": 2, "looks": 2}
    return store.Result(study="critical_batch", case=f"batch-{batch}", seed=seed, settings=settings, measured=measured)


@pytest.fixture
def batches(reference: Reference) -> dict[int, list[Any]]:
    return {size: [a_run(reference("store"), size, seed) for seed in (1, 2)] for size in SIZES}


def test_figure_4_has_the_points_on_the_law(reference: Reference, batches: dict[int, list[Any]]) -> None:
    law = {"critical_batch": 800.0, "fewest_samples": 60_000.0, "fewest_steps": 75.0}
    frontier, levels, time = reference("guidelines_report").figure_4(batches, law)
    points, curve = frontier.series
    assert list(points.names) == ["64", "512", "4096"]
    for steps, samples in [*zip(points.x, points.y, strict=True), *zip(curve.x, curve.y, strict=True)]:
        assert (steps / 75 - 1) * (samples / 60_000 - 1) == pytest.approx(1)
    assert list(time.series[0].x) == pytest.approx([LAW.epochs(size) / 1000 for size in SIZES])
    # 1.5 is at the end, 1.6 at 0.8 of it, 1.8 before the first whole mean of the loss: it has no curve.
    assert [one.label for one in levels.series] == ["training loss 1.5", "training loss 1.6"]
    assert list(levels.series[1].y) == pytest.approx([0.8 * LAW.epochs(size) for size in SIZES])


def test_the_panels_of_figure_4_agree_at_the_target(reference: Reference) -> None:
    target, store, report = reference("target"), reference("store"), reference("guidelines_report")
    for batch in (64, 4096):
        crossing, looks = target.Crossing(target.Target(loss=1.5, every=4096)), []
        while crossing.samples is None:
            if crossing.add(batch, 2.3 - 0.8 * ((crossing.seen + batch / 2) / 50_000) ** 0.5):
                looks.append((crossing.seen, None if math.isnan(crossing.loss) else crossing.loss))
        measured = {"curve": {"samples": [x for x, _ in looks], "loss": [y for _, y in looks]}}
        settings = {"every": 4096, "looks": 2}
        run = store.Result(study="critical_batch", case="a", seed=1, settings=settings, measured=measured)
        assert report.at_level(run, 1.5) == pytest.approx(crossing.samples)


def test_figure_5_shows_noise_and_progress(reference: Reference, batches: dict[int, list[Any]]) -> None:
    law = {"critical_batch": 800.0, "fewest_samples": 60_000.0, "fewest_steps": 75.0}
    estimate, speed, noise = reference("guidelines_report").figure_5(batches, law)
    assert list(estimate.series[0].y) == pytest.approx([4.0, 2**0.5, 0.5])
    measured, curve = speed.series
    assert list(measured.y) == pytest.approx([1 / (1 + 800 / size) for size in SIZES])
    assert (curve.x[0], curve.x[-1]) == (pytest.approx(64), pytest.approx(4096))
    assert [one.label for one in noise.series] == ["B = 64", "B = 512", "B = 4096"]
    assert list(noise.series[0].y) == [10.0, 100.0, NOISE]


def a_result(reference: Reference, case: str, seed: int, measured: dict[str, Any]) -> Any:
    """A result of the study of updates."""
    settings = reference("guidelines_cases").wanted(False)[case]
    return reference("store").Result(
        study="guidelines_updates", case=case, seed=seed, settings=settings, measured=measured
    )


def test_the_table_of_updates_compares_seed_by_seed(reference: Reference, tmp_path: Path) -> None:
    store, report = reference("store"), reference("guidelines_report")
    for name, accuracies in {"base": (0.70, 0.72), "lag": (0.69, 0.70)}.items():
        for seed, accuracy in enumerate(accuracies, 1):
            measured = {"test_accuracy": accuracy, "accuracy": 0.8, "images_per_s": 1000.0 * seed}
            store.write(a_result(reference, name, seed, measured), tmp_path)
    lines = report.updates_table(tmp_path).splitlines()
    assert lines[2].endswith("| 71.0 (70.0 to 72.0) | 80.0 | - | 1,500 (1,000 to 2,000) | 1, 2 |")
    assert "| -1.5 (-2.0 to -1.0) |" in lines[3]
    assert "| not measured yet |" in lines[4]


def test_the_points_of_the_figures_are_a_table_too(reference: Reference, batches: dict[int, list[Any]]) -> None:
    text = reference("guidelines_report").batch_table(batches, {"critical_batch": 800.0})
    assert "| 512 | 192 | 98,400 | 98 | 1,024 |" in text
    assert text.endswith("B_crit of the fitted law: 800 samples.")


def test_the_panels_of_updates_have_the_range_of_the_seeds(reference: Reference, tmp_path: Path) -> None:
    store, report = reference("store"), reference("guidelines_report")
    for seed, test in ((1, 0.6), (2, 0.7), (3, 0.8)):
        curve = {"accuracy": [test - 0.2, test], "loss": [1.5, 1.1]}
        measured = {"test_accuracy": test, "accuracy": test, "images_per_s": 1000.0, "curve": curve}
        store.write(a_result(reference, "lag", seed, measured), tmp_path)
    training, tests = report.updates_panels(tmp_path)
    (found,) = training.series
    assert (list(found.x), list(found.y)) == ([1, 2], pytest.approx([0.5, 0.7]))
    assert (list(found.low), list(found.high)) == (pytest.approx([0.4, 0.6]), pytest.approx([0.6, 0.8]))
    assert (tests.series[0].x, tests.series[0].y, tests.series[0].low) == (["gradient lag"], [0.7], [0.6])


def test_the_cases_of_updates_are_options_of_the_cifar_job(reference: Reference) -> None:
    from hpclaunch.training import options
    from hpclaunch.training.optimization import techniques

    cases = reference("guidelines_cases")
    for case in cases.CASES:
        words = cases.arguments_of(cases.settings_of(case))
        asked = techniques.parse(options.job_parser("a job", str(ROOT / "jobs" / "cifar" / "train.py")), words)
        assert techniques.faults(asked) == []
    assert (asked.update_groups, asked.group_steps, asked.epochs) == (2, 8, 8)


@pytest.mark.parametrize(("recipe", "project"), [("etalumis-15m", PROJECTS[0]), ("etalumis-3m", PROJECTS[1])])
def test_the_network_of_etalumis_has_the_size_of_the_guidelines_table(
    recipe: str, project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ROOT / "benchmarks" / "reference" / "jobs" / "etalumis"
    monkeypatch.syspath_prepend(str(folder))
    import network

    job: Job = job_of_file(folder / "job.yaml", "etalumis")
    sized = job.sized(job.recipes[recipe].settings.items())
    assert sized.training is not None
    assert sized.training.samples == project.samples
    assert sized.training.figures["parameters"] == pytest.approx(project.parameters, rel=1e-3)
    more = job.sized([("addresses", "1")]).training, job.sized([("addresses", "2")]).training
    assert more[1].figures["parameters"] - more[0].figures["parameters"] == network.of_an_address()  # type: ignore[union-attr]
