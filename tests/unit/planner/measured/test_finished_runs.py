"""Finished runs refine the calibration by themselves: which are taken in, what is made of them, how little is read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpclaunch import runs
from hpclaunch.planner.job.question import Evidence
from hpclaunch.planner.measured.calibration_file import Calibration, Noise, Point, store
from hpclaunch.planner.measured.calibrations import expect, place_of, with_key
from hpclaunch.planner.measured.finished_runs import LOOKED_AT, _combine, evidence_for, taken_in
from hpclaunch.resolve import resolve
from hpclaunch.resolve.nodes.sizing import one_process_on
from hpclaunch.runs import Run
from tests.builders import a_case, a_context, bundled_job, bundled_site
from tests.unit.planner.measured.test_measurement import NOISE, a_run, the_job

KEY = f"s/gpu/train-{24 * '0'}"


def fast(rate: float, number: int = 4, **more: Any) -> list[dict[str, Any]]:
    """Epochs of 100 s at that rate, after a slow first one."""
    slow = {"event": "epoch", "seconds": 100.0, "images_per_s": rate / 10}
    return [slow, *[{"event": "epoch", "seconds": 100.0, "images_per_s": rate, **more}] * number]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return place_of({"HOME": str(tmp_path / "home")}, KEY)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


def submitted(place: Path, *found: Run) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_suffix(".runs").open("a") as file:
        file.write("".join(f"{run.path}\n" for run in found))


def evidence(place: Path, profiled: Calibration | None = None) -> Evidence:
    return _combine(profiled, taken_in(place, the_job()))


def test_a_finished_run_is_taken_in(place: Path, folder: Path) -> None:
    run = a_run(folder, [*fast(100), NOISE], nodes=2)
    submitted(place, run)
    found = evidence(place)
    (point,) = found.points
    assert (point.shape.nodes, point.shape.ranks_per_node, point.shape.per_rank) == (2, 4, 8)
    assert point.samples_per_s == 100
    assert found.noise is not None and found.noise.value == 300
    assert found.origin == "1 finished run on 2 nodes"
    assert found.sources[0] == f"2 nodes x 4 ranks, 8 samples per rank: 100 samples/s ({run.path.name})"


def test_runs_of_one_process_on_a_node_are_read_beside_those_of_the_layout(tmp_path: Path, folder: Path) -> None:
    home = a_context(environment={"HOME": str(tmp_path)}).environment
    job = replace(the_job(), folder=str(bundled_job("cifar").folder), script=bundled_job("cifar").script)
    case = a_case(bundled_site("testcluster"), job, context=a_context(environment=home), nodes=1, tasks_per_node=4)
    case, alone = with_key(case), with_key(one_process_on(case))
    assert case.calibration_key != alone.calibration_key
    submitted(place_of(home, case.calibration_key), a_run(folder, fast(100)))
    submitted(place_of(home, alone.calibration_key), a_run(folder, fast(300), ranks=1))
    found = evidence_for(case)
    assert [point.samples_per_s for point in found.points] == [100]
    assert [(point.samples_per_s, point.shape.ranks_per_node) for point in found.alone] == [(300, 1)]
    assert evidence_for(alone).alone == ()


def test_nobody_has_to_ask_the_scheduler_how_it_ended(place: Path, folder: Path) -> None:
    submitted(place, a_run(folder, fast(100), state="PENDING"))
    assert evidence(place).points  # its own mark says so


@pytest.mark.parametrize(
    ("events", "keys", "reason"),
    [
        (fast(100), {"state": "FAILED"}, "is FAILED"),
        (fast(100), {"state": "TIMEOUT"}, "is TIMEOUT"),
        (fast(100), {"state": "CANCELLED"}, "is CANCELLED"),
        (fast(100, synthetic=True), {}, "used synthetic samples"),
        (fast(100, number=1), {}, "has fewer than 2 epochs and 30 steps"),
        ([*fast(100, number=2), *fast(50, number=2)[1:]], {}, "was disturbed: its epochs differ in speed"),
        ([], {}, "has fewer than 2 epochs"),
        (fast(100), {"name": "other"}, "is not a run of train"),
    ],
)
def test_a_run_that_tells_nothing_sure_is_not_and_it_is_said(
    place: Path, folder: Path, events: list[dict[str, Any]], keys: dict[str, str], reason: str
) -> None:
    run = a_run(folder, events, **keys)
    submitted(place, run)
    found = evidence(place)
    assert found.points == () and found.origin == ""
    (told,) = found.sources
    assert told.startswith(f"not used: {run.path.name} {reason}")


@pytest.mark.parametrize(("seconds", "enough"), [(3.1, False), (3.3, True)])
def test_30_steps_are_enough(place: Path, folder: Path, seconds: float, enough: bool) -> None:
    # 32 samples a step: 30 steps are 960 samples, which three epochs at 100 a second reach in 3.2 s each.
    submitted(place, a_run(folder, [{**event, "seconds": seconds} for event in fast(100, number=3)]))
    assert bool(evidence(place).points) is enough


def test_one_slow_epoch_of_many_disturbs_nobody(place: Path, folder: Path) -> None:
    submitted(place, a_run(folder, [*fast(100, number=5), *fast(40, number=1)[1:]]))
    assert evidence(place).points[0].samples_per_s == 100


def test_a_run_that_was_started_again_is_not_taken_in(place: Path, folder: Path) -> None:
    run = a_run(folder, fast(100))
    (run.path / "attempts/7.1").mkdir()
    (run.path / "attempts/7.1/exit-code").write_text("0\n")
    submitted(place, run)
    assert "was started more than once" in evidence(place).sources[0]


def test_a_run_that_goes_on_is_looked_at_again(place: Path, folder: Path) -> None:
    run = a_run(folder, fast(100), state="RUNNING")
    for mark in ("completed", "exit-code"):
        (run.path / "attempts/7.0" / mark).unlink()
    submitted(place, run)
    assert evidence(place) == Evidence()
    runs.change(run, state="COMPLETED")
    assert evidence(place).points


def test_what_was_taken_in_outlives_the_run_and_is_not_read_again(place: Path, folder: Path) -> None:
    run = a_run(folder, fast(100))
    submitted(place, run)
    before = evidence(place)
    for file in sorted(run.path.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    run.path.rmdir()
    assert evidence(place) == before
    place.with_suffix(".finished").write_text("{damaged")
    assert evidence(place) == Evidence()  # nobody knows any more


def test_runs_of_one_shape_count_by_the_median_of_the_newest_five(place: Path, folder: Path) -> None:
    rates = [500, 100, 102, 104, 106, 108]
    submitted(place, *[a_run(folder, fast(rate)) for rate in rates])
    submitted(place, a_run(folder, fast(190), nodes=2))
    found = evidence(place)
    by_nodes = {point.shape.nodes: point.samples_per_s for point in found.points}
    assert by_nodes == {1: 104, 2: 190}
    assert found.origin == "7 finished runs on 1 and 2 nodes"


def test_a_profile_and_finished_runs_count_together_and_no_run_twice(place: Path, folder: Path) -> None:
    own, later = a_run(folder, fast(100)), a_run(folder, fast(110))
    submitted(place, own, later)
    point = Point(nodes=1, ranks_per_node=4, per_rank=8, samples_per_s=100.0, runs=(own.path.name,))
    half = replace(point, per_rank=4, samples_per_s=60.0, runs=("half",))
    noise = Noise(value=300, low=200, high=400, steps=4000)
    found = evidence(
        place, Calibration(points=(point, half), noise_scale=noise, overhead_s=3.0, origin="2 runs, today")
    )
    assert [one.samples_per_s for one in found.points] == [105.0, 60.0]
    assert found.origin == "2 runs, today; and 1 finished run on 1 node"
    assert f"(median of {own.path.name}, {later.path.name})" in found.sources[0]
    assert found.noise is not None and found.noise.steps == 4000
    assert found.overhead_s == 0  # of the finished run: 60 s, of which all and more were epochs


def test_the_spread_of_steps_becomes_that_of_one_rank(place: Path, folder: Path) -> None:
    submitted(place, a_run(folder, fast(100, step_spread=0.07012)))
    (point,) = evidence(place).points
    assert point.straggling == pytest.approx(0.1, rel=1e-3)  # of four ranks' slowest: 0.7012 of one rank's
    assert "a rank's steps vary by 10.0%" in evidence(place).sources[0]


def test_of_many_runs_only_the_newest_are_looked_at(place: Path, folder: Path) -> None:
    newest = a_run(folder, fast(100))
    gone = [folder / f"gone-{number}" for number in range(1000)]
    place.parent.mkdir(parents=True)
    place.with_suffix(".runs").write_text("".join(f"{path}\n" for path in [newest.path, *gone[LOOKED_AT:]]))
    assert evidence(place) == Evidence()  # 936 are younger
    submitted(place, newest)
    assert evidence(place).points


def test_a_line_that_is_being_written_is_read_the_next_time(place: Path, folder: Path) -> None:
    run = a_run(folder, fast(100))
    place.parent.mkdir(parents=True)
    file = place.with_suffix(".runs")
    file.write_text(str(run.path))
    assert evidence(place) == Evidence()
    file.write_text(f"{run.path}\n")
    assert evidence(place).points


def test_what_cannot_be_written_is_found_anew(place: Path, folder: Path) -> None:
    submitted(place, a_run(folder, fast(100)))
    place.with_suffix(".finished").mkdir()
    assert evidence(place).points and evidence(place).points


@pytest.mark.parametrize(
    ("typed", "listed"),
    [
        ({}, True),
        ({"nodes": 4, "settings": (("epochs", "2"),)}, True),
        ({"settings": (("precision", "bfloat16"),)}, False),
        ({"settings": (("precision", "float32"), ("xla", "False"))}, True),
        ({"tasks_per_node": 2}, False),
        ({"arguments": ("--verbose",)}, False),
        ({"sbatch": ("--exclusive",)}, False),
        ({"launcher": "mpirun"}, False),
        ({"synthetic": True}, False),
        ({"settings": (("synthetic", "true"),)}, False),
        ({"strategy": "mirrored"}, False),
        ({"strategy": "horovod"}, True),
    ],
)
def test_a_run_with_other_settings_is_on_another_list_or_none(
    tmp_path: Path, typed: dict[str, Any], listed: bool
) -> None:
    here = a_context(environment={"HOME": str(tmp_path), "SCRATCH": "/scratch"})
    site, job = bundled_site("perlmutter"), bundled_job("cifar")

    def lists() -> dict[str, str]:
        return {str(path): path.read_text() for path in tmp_path.rglob("*.runs")}

    def submit(run_dir: str, **typed: Any) -> None:
        spec, _ = resolve(with_key(a_case(site, job, context=here, **{"target": "cifar", **typed})))
        if spec.calibration_key:
            expect(here.environment, spec.calibration_key, run_dir)

    submit("/runs/plain")
    ((plain, text),) = lists().items()
    assert text == "/runs/plain\n"
    submit("/runs/other", **typed)
    assert ("/runs/other" in lists()[plain]) is listed


def test_a_list_that_cannot_be_written_keeps_nobody_from_submitting(tmp_path: Path) -> None:
    (tmp_path / ".local").write_text("")
    expect({"HOME": str(tmp_path)}, KEY, "/runs/one")


def test_a_stored_calibration_names_its_runs(place: Path) -> None:
    point = Point(nodes=1, ranks_per_node=4, per_rank=8, samples_per_s=100.0, runs=("one",))
    store(place, Calibration(points=(point,), origin="x"))
    assert json.loads(place.read_text())["points"] == [
        {"nodes": 1, "ranks_per_node": 4, "per_rank": 8, "accumulation": 1, "samples_per_s": 100.0, "runs": ["one"]}
    ]
