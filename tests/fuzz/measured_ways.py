"""Hostile results of measurements: what a probe's ranks and nvidia-smi report, calibrations, runs of a profile."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from hpclaunch import runs
from hpclaunch.actions.clusters import doctor
from hpclaunch.actions.system import System
from hpclaunch.cli.show import doctor_report
from hpclaunch.config.job import Training
from hpclaunch.planner.measured import calibration_file, finished_runs, measurement, model_figures
from hpclaunch.planner.measured.all_reduce_file import measured_links
from hpclaunch.runs.ownership import list_own
from hpclaunch.schedulers.slurm import scheduler
from hpclaunch.schedulers.slurm.programs import Answer
from hpclaunch.training.doctor.rank_probe import node_facts
from tests.builders import a_job
from tests.fuzz.data_ways import METRICS
from tests.fuzz.scene import Scene, Way
from tests.fuzz.text_ways import a_record, as_yaml, changed, changes, screen, words
from tests.unit.actions.diagnosis.probes import SPEC, a_rank
from tests.unit.training.doctor.trees import nvidia_node

PROBE, TRAINED = "doctor-3", "train-4"
ROWS = [{"bytes": 4**power, "seconds": 1e-5 * 2**power, "n": 20} for power in range(5, 9)]
ALL_REDUCE = {"library": "Horovod", "through": "MPI", "on_gpus": False, "rows": ROWS}
KEPT = {"measurements": [{"library": "Horovod", "through": "MPI", "nodes": 2, "ranks_per_node": 2, "rows": []}]}
KEPT["measurements"][0]["rows"] = [{"bytes": row["bytes"], "seconds": row["seconds"]} for row in ROWS]
POINT = {"nodes": 1, "ranks_per_node": 4, "per_rank": 32, "samples_per_s": 1000.0, "straggling": 0.02, "runs": ["a"]}
NOISE = {"value": 900.0, "low": 500.0, "high": 2000.0, "steps": 300}
CALIBRATION = {"points": [POINT, {**POINT, "nodes": 2}], "noise_scale": NOISE, "overhead_s": 30.0, "origin": "2 runs"}
FINISHED = {
    "read": 0,
    "open": ["/x/train-1"],
    "finished": [{"point": POINT, "noise": NOISE, "overhead_s": None}],
    "passed": [["train-2", "is FAILED"]],
}
FIGURES = {"parameters": 1000, "fixed_parameters": 0, "flops_per_sample": 1e6, "flops_at_least": False}
FIGURES |= {"saved_bytes_per_sample": 4e6, "saved_at_most": False, "largest_layer": 500, "operations": 40}
MODEL = FIGURES | {"layers": [["dense", "Dense", 500, 10]], "tensorflow": "2.15.1", "by": "hpclaunch"}
TRAINED_JOB = a_job(training=Training(samples=60_000, model="model:build"))
LISTING = "00000000:03:00.0, GPU-a\n00000000:41:00.0, GPU-b\n"
MATRIX = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV12\t0-31\nGPU1\tNV12\t X \t0-31\n"
cells = st.one_of(
    words, st.sampled_from(["GPU0", "GPU1", "GPU\u00b2", "GPU" + "9" * 5000, "NV12", "SYS", "X", "\t", "\n", "\x1b[4m"])
)
tables = st.lists(st.one_of(cells, st.sampled_from([LISTING, MATRIX])), max_size=6).map("".join)
visible = st.one_of(
    words, st.sampled_from(["0", "0,1", "1,", "\u00b2", "9" * 5000, "-1", "GPU-a", "GPU-", "NoDevFiles"])
)
logs = st.lists(
    st.one_of(
        st.binary(max_size=20), st.sampled_from([b"\n", b"hpclaunch: no\n", b"srun: error: x\n", b"PMIX ERROR\n"])
    ),
    max_size=4,
).map(b"".join)
few = st.one_of(st.just([]), changes, changes)


def prepare_measured(scene: Scene) -> None:
    """A node's /sys, what four ranks report of it, and the specs of a probe and of a training run."""
    scene.store["root"] = root = nvidia_node(scene.place / "node")
    facts = node_facts(str(root), {"CUDA_VISIBLE_DEVICES": "0,1"}, 0, lambda *_: "")
    facts["links"] = [["0000:03:00.0", "0000:41:00.0", "NV12"]]
    scene.store["ranks"] = [a_rank(number, topology=facts, all_reduce=ALL_REDUCE) for number in range(4)]
    scene.store["spec"] = json.loads(json.dumps(SPEC))
    command = ["python", "train.py", "--batch-size-per-rank=16"]
    scene.store["trained"] = {**scene.store["spec"], "command": command, "layout": {"nodes": 2, "tasks_per_node": 2}}
    read_all(scene, FILLED)  # what is loaded late is loaded now


FILLED: dict[str, Any] = {"log": b"", "listing": LISTING, "matrix": MATRIX, "gpus": "0", "state": "COMPLETED"}
FILLED |= {key: [] for key in ("ranks", "spec", "kept", "calibration", "finished", "figures", "trained", "events")}
"""An input without anything hostile."""


def read_all(scene: Scene, given: dict[str, Any]) -> None:
    """Write every file with its changes, and read each as its command does."""
    folder = scene.place / "project/runs"
    (folder / PROBE / "doctor").mkdir(parents=True)
    (folder / PROBE / "logs").mkdir()
    (folder / TRAINED).mkdir()
    outcomes = []
    parts = (read_probe, read_calibrations, read_trained, read_node)
    try:
        for part in parts:
            part(scene, folder, given)
            outcomes.append(scene.outcome)
    finally:
        shutil.rmtree(folder)
    scene.outcome = "result" if "result" in outcomes else "refused"


def read_probe(scene: Scene, folder: Path, given: dict[str, Any]) -> None:
    """``doctor --from``."""
    path, home = folder / PROBE, scene.place / "home"
    record = a_record(path, state=given["state"], job_id="3", token="3" * 32) | {"name": "doctor"}
    (path / "run.json").write_text(json.dumps(record))
    (path / "spec.json").write_bytes(as_yaml(changed(scene.store["spec"], given["spec"])))
    (path / "logs/slurm-3.out").write_bytes(given["log"])
    reported = changed(scene.store["ranks"], given["ranks"])
    for number, facts in enumerate(reported):
        (path / f"doctor/rank-{number}.json").write_bytes(as_yaml(facts))
    run = runs.load(path)
    assert not list_own(home / ".local/state/hpclaunch", run)
    answer = Answer(ok=True, text=given["matrix"], messages=given["listing"])
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(screen()),
        contextlib.redirect_stderr(screen()),
    ):
        patch.setattr(scheduler, "ask", lambda *_, **__: answer)
        patch.setattr(doctor, "_FILE_DELAY_S", 0)
        with scene.met(path, home / ".local"):
            report = doctor.report_of(System(cwd=scene.place / "project"), run)
            doctor_report.show_report(report, as_json=True)
            doctor_report.show_report(report, as_json=False)


def read_calibrations(scene: Scene, _: Path, given: dict[str, Any]) -> None:
    """``plan --calibration``, and what a plan finds of earlier runs, of the network and of the job's model."""
    place = scene.place / "home/measured.json"
    files = {"": CALIBRATION, ".network": KEPT, ".finished": FINISHED, ".figures": MODEL}
    hostile = {"": "calibration", ".network": "kept", ".finished": "finished", ".figures": "figures"}
    for ending, content in files.items():
        place.with_suffix(ending or ".json").write_bytes(as_yaml(changed(content, given[hostile[ending]])))
    with scene.met():
        assert all(link.bytes_per_s > 0 for link in measured_links(place.with_suffix(".network"), None))
        taken = finished_runs._read_taken(place.with_suffix(".finished"))
        finished_runs._combine(None, taken)
        with contextlib.suppress(model_figures.NotFoundOut):
            model_figures._read_figures(TRAINED_JOB, place.with_suffix(".figures"))
        finished_runs._combine(calibration_file.read_calibration(place), taken)
        calibration_file.read_evidence(place)


def read_trained(scene: Scene, folder: Path, given: dict[str, Any]) -> None:
    """``profile --from``."""
    path = folder / TRAINED
    (path / "run.json").write_text(json.dumps(a_record(path, state=given["state"], job_id="4", tasks=0)))
    (path / "spec.json").write_bytes(as_yaml(changed(scene.store["trained"], given["trained"])))
    start, epoch, *others = METRICS
    epochs = [{**epoch, "epoch": number, "samples_per_s": 90.0 + number} for number in (1, 2, 3)]
    events = [start, *epochs, *others]
    events = changed(events, given["events"])
    (path / "metrics.jsonl").write_bytes(b"".join(as_yaml(event) + b"\n" for event in events))
    place = scene.place / "home/stored.json"
    with scene.met(scene.place / "home"):
        found = measurement.measured(runs.load(path), TRAINED_JOB)
        calibration = measurement.calibration_of([found])
        calibration_file.store(place, calibration)
        assert calibration_file.read_calibration(place).points == calibration.points


def read_node(scene: Scene, _: Path, given: dict[str, Any]) -> None:
    """What a rank asks nvidia-smi; it must not fail, whatever that answers."""
    with scene.met():
        answers = iter([given["listing"], given["matrix"]])
        facts = node_facts(
            str(scene.store["root"]), {"CUDA_VISIBLE_DEVICES": given["gpus"]}, 0, lambda *_: next(answers)
        )
        json.dumps(facts)
    assert "problem" in facts or {"numa", "gpus", "links", "cards", "gpu"} == set(facts)


states = st.sampled_from(["COMPLETED", "COMPLETED", "FAILED", "TIMEOUT"])
texts = {"log": logs, "listing": tables, "matrix": tables, "gpus": visible, "state": states}
edited = dict.fromkeys(("ranks", "kept", "calibration", "finished", "figures", "events"), changes)
inputs = st.fixed_dictionaries({**texts, **edited, "spec": few, "trained": few})
MEASURED_WAYS = {"measurements": Way(st.tuples(inputs), read_all, prepare_measured)}
