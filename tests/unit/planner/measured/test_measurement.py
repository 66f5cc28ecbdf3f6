"""What a run's directory tells: the median of the epochs that count, the noise scale, the time outside the steps."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hpclaunch import runs
from hpclaunch.config.job import Job, Training
from hpclaunch.config.parameters import Parameter
from hpclaunch.core.errors import Refused
from hpclaunch.planner.measured.calibration_file import evidence_of
from hpclaunch.planner.measured.measurement import calibration_of, measured
from hpclaunch.runs import Run
from tests.builders import a_job, leave_proof

STARTED = 1_767_323_045  # 2026-01-02T03:04:05Z
NOISE = {"event": "noise_scale", "noise_scale": 300.0, "low": 200.0, "high": 400.0, "steps": 40}


def the_job() -> Job:
    return a_job(
        parameters={"batch_size_per_rank": Parameter(default=8), "epochs": Parameter(default=3)},
        training=Training(samples=1000),
    )


def a_run(
    folder: Path,
    events: list[dict[str, Any]],
    *,
    nodes: int = 1,
    ranks: int = 4,
    command: tuple[str, ...] = (),
    **keys: Any,
) -> Run:
    """A run of so many ranks on each node that took 60 s."""
    path = folder / f"run-{nodes}-{len(list(folder.iterdir()))}"
    (path / "attempts/7.0").mkdir(parents=True)
    words = ["python", "train.py", "--batch-size-per-rank=8", "--epochs=3", *command]
    (path / "spec.json").write_text(json.dumps({"layout": {"nodes": nodes, "tasks_per_node": ranks}, "command": words}))
    (path / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    (path / "attempts/7.0/started").write_text("2026-01-02T03:04:05Z\n")
    leave_proof(path, "7.0")
    os.utime(path / "attempts/7.0/exit-code", (STARTED + 60, STARTED + 60))
    told = {"name": "train", "site": "s", "scheduler": "slurm", "created": "now", "state": "COMPLETED", "job_id": "7"}
    return runs.save(Run(path=path, **{**told, **keys}))


def epochs(*rates: float, **more: Any) -> list[dict[str, Any]]:
    return [{"event": "epoch", "seconds": 1000 / rate, "images_per_s": rate, **more} for rate in rates]


def test_the_first_epoch_does_not_count_and_the_median_of_the_others_does(tmp_path: Path) -> None:
    found = measured(a_run(tmp_path, [*epochs(10, 100, 50, 200), NOISE]), the_job())
    assert found.point is not None
    assert (found.point.nodes, found.point.ranks_per_node, found.point.per_rank) == (1, 4, 8)
    assert (found.point.accumulation, found.point.samples_per_s) == (1, 100)
    # 60 s, of which four epochs at the median of 10 s are steps.
    assert found.overhead_s == pytest.approx(20)


def test_parameters_that_the_command_does_not_name_count(tmp_path: Path) -> None:
    run = a_run(tmp_path, epochs(10, 100))
    pairs = [["batch_size_per_rank", "32"], ["accumulation", "2"]]
    (run.path / "spec.json").write_text(
        json.dumps({"layout": {"nodes": 1, "tasks_per_node": 4}, "command": ["python"], "parameters": pairs})
    )
    found = measured(run, the_job())
    assert (found.per_rank, found.accumulation) == (32, 2)


def test_the_last_of_two_settings_counts(tmp_path: Path) -> None:
    run = a_run(tmp_path, epochs(10, 100), command=("--accumulation=4", "--batch-size-per-rank=16"))
    found = measured(run, the_job())
    assert (found.per_rank, found.accumulation) == (16, 4)


def test_the_batch_that_the_run_itself_tells_counts(tmp_path: Path) -> None:
    divided = [{"event": "start", "global_batch_size": 64}, *epochs(10, 100)]
    assert measured(a_run(tmp_path, divided), the_job()).per_rank == 16
    odd = [{"event": "start", "global_batch_size": 63}, *epochs(10, 100)]
    assert measured(a_run(tmp_path, odd), the_job()).per_rank == 8


def test_ranks_that_share_a_model_count_as_one_replica(tmp_path: Path) -> None:
    """Four ranks, two for each replica: a step has the samples of two, also where the run tells its global batch."""
    start = {"event": "start", "global_batch_size": 16}
    run = a_run(tmp_path, [start, *epochs(10, 100, 100)], command=("--tensor-parallel=2",))
    found = measured(run, the_job())
    assert found.point is not None
    assert (found.per_rank, found.ranks_per_replica, found.point.ranks_per_replica) == (8, 2, 2)
    (point,) = evidence_of(calibration_of([found]), "").points
    assert (point.shape.group.ranks, point.shape.samples, point.ranks_per_replica) == (2, 16, 2)


@pytest.mark.parametrize("strategy", ["mirrored", "multiworker", "one-device"])
def test_a_run_of_another_strategy_tells_nothing_of_horovods(tmp_path: Path, strategy: str) -> None:
    run = a_run(tmp_path, epochs(10, 100))
    spec = json.loads((run.path / "spec.json").read_text())
    (run.path / "spec.json").write_text(json.dumps({**spec, "strategy": strategy}))
    with pytest.raises(Refused, match=f"trained under {strategy}"):
        measured(run, the_job())


def test_a_run_of_an_array_counts_with_its_own_values(tmp_path: Path) -> None:
    array = a_run(tmp_path, [], tasks=2)
    (array.path / "values").write_text("0000\t--batch-size-per-rank=16\n0001\t--batch-size-per-rank=32\n")
    (array.path / "0001").mkdir()
    (array.path / "0001/metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in epochs(10, 100)))
    found = measured(runs.task_of(array, 1), the_job())
    assert found.per_rank == 32
    assert found.point is not None
    assert found.point.runs == (f"{array.path.name}/0001",)


@pytest.mark.parametrize("state", ["TIMEOUT", "CANCELLED"])
def test_a_run_that_was_cut_off_tells_its_speed_and_no_overhead(tmp_path: Path, state: str) -> None:
    found = measured(a_run(tmp_path, epochs(10, 100), state=state), the_job())
    assert found.point is not None and found.overhead_s is None


@pytest.mark.parametrize(
    "events",
    [[], epochs(10), [{"event": "epoch"}] * 3, epochs(10, -1), [{"event": "epoch", "images_per_s": "fast"}] * 3],
)
def test_a_run_without_a_second_epoch_tells_nothing(tmp_path: Path, events: list[dict[str, Any]]) -> None:
    silent = measured(a_run(tmp_path, events), the_job())
    assert silent.point is None
    with pytest.raises(Refused, match="reported the speed of no epoch after the first"):
        calibration_of([measured(a_run(tmp_path, epochs(10, 100)), the_job()), silent])


@pytest.mark.parametrize(
    ("event", "known"),
    [
        (NOISE, True),
        ({**NOISE, "noise_scale": None}, False),
        ({**NOISE, "high": None}, False),
        ({**NOISE, "low": -3.0}, False),
        ({**NOISE, "synthetic": True}, False),
        ({**NOISE, "steps": 0}, False),
    ],
)
def test_a_noise_scale_counts_with_both_ends_and_real_samples(
    tmp_path: Path, event: dict[str, Any], known: bool
) -> None:
    run = a_run(tmp_path, [*epochs(10, 100), event], nodes=2)
    assert (calibration_of([measured(run, the_job())]).noise_scale is not None) is known


def test_several_runs_become_one_calibration(tmp_path: Path) -> None:
    one = measured(a_run(tmp_path, epochs(10, 100)), the_job())
    two = measured(
        a_run(tmp_path, [*epochs(10, 190, synthetic=True), {**NOISE, "synthetic": True}], nodes=2), the_job()
    )
    found = calibration_of([one, two])
    assert [point.nodes for point in found.points] == [1, 2]
    assert found.overhead_s == two.overhead_s
    assert found.origin.startswith("2 runs on 1 and 2 nodes, 20") and found.origin.endswith(", with synthetic samples")
    assert calibration_of([one]).origin.startswith("1 run on 1 node, 20")


def test_a_run_of_another_job_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="is not a run of train"):
        measured(a_run(tmp_path, epochs(10, 100), name="other"), the_job())


def test_a_profile_whose_epochs_differ_is_refused_with_the_advice_to_repeat_it(tmp_path: Path) -> None:
    steady = measured(a_run(tmp_path, epochs(10, 100, 95, 110)), the_job())
    disturbed = measured(a_run(tmp_path, epochs(10, 100, 150, 98)), the_job())
    assert calibration_of([steady]).points[0].samples_per_s == 100
    with pytest.raises(Refused) as refused:
        calibration_of([steady, disturbed])
    (fault,) = refused.value.faults
    assert fault.where == disturbed.run.label and "98 to 150 samples/s" in fault.what
    assert fault.next is not None and "measure it again: hpclaunch profile train --one-by-one" in fault.next


@pytest.mark.parametrize(
    "spec",
    [
        {"layout": {}, "command": ["--batch-size-per-rank=8"]},
        {"layout": {"nodes": 0, "tasks_per_node": 4}, "command": ["--batch-size-per-rank=8"]},
        {"layout": {"nodes": [], "tasks_per_node": 4}, "command": ["--batch-size-per-rank=8"]},
        {"layout": {"nodes": 10**400, "tasks_per_node": 4}, "command": ["--batch-size-per-rank=8"]},
    ],
)
def test_a_spec_that_hpclaunch_has_not_written_is_refused(tmp_path: Path, spec: dict[str, Any]) -> None:
    run = a_run(tmp_path, epochs(10, 100, 50))
    (run.path / "spec.json").write_text(json.dumps(spec))
    with pytest.raises(Refused, match="its record is damaged"):
        measured(run, the_job())


def test_a_speed_that_no_number_can_hold_does_not_count(tmp_path: Path) -> None:
    events = [*epochs(10, 100, 50), {"event": "epoch", "seconds": 10**400, "images_per_s": 10**400}]
    found = measured(a_run(tmp_path, events), the_job())
    assert found.rates == (10, 100, 50)


@pytest.mark.parametrize(
    ("seconds", "median"),
    # The first makes the folder. What is no time is left out.
    [([9.0, 2.0, 4.0], 3.0), ([9.0], 9.0), ([9.0, "fast", -1, 2.0], 2.0), ([], None), ([None], None)],
)
def test_what_a_checkpoint_takes_is_the_median_without_the_first(
    tmp_path: Path, seconds: list[Any], median: float | None
) -> None:
    saved = [{"event": "checkpoint", "step": 1, "seconds": value} for value in seconds]
    found = measured(a_run(tmp_path, [*epochs(10, 100), *saved]), the_job())
    assert found.save_s == median
    assert calibration_of([found]).save_s == median
