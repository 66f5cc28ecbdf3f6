"""doctor at a desk: what keeps the probe from being queued is a finding, told under what it is about."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Desk
from tests.unit.actions.diagnosis.probes import a_rank
from tests.unit.sites.describe.texts import FOLDER

HERE = ("--tasks-per-node", "1")
REFUSED = "sbatch: error: Batch job submission failed: Invalid qos specification\n"  # no doubt, so no waiting for a job


def failed(report: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["what"] for check in report["checks"] if check["verdict"] == "FAIL"}


@pytest.fixture
def gpus(cluster: Desk) -> Desk:
    """The fake cluster, with GPUs of a type."""
    path = cluster.project / "site_configs" / "slurmsite.yaml"
    text = path.read_text().replace("cores_per_node: 8", "cores_per_node: 8, gpus_per_node: 2, gpu_type: h100")
    path.write_text(text + "gpus: {directive: gpus-per-node}\n")
    cluster.fake("sinfo", out="gpu:a100:2(S:0-1)\n(null)\n")
    return cluster


def test_a_refusal_of_sbatch_is_a_finding(gpus: Desk) -> None:
    gpus.fake(
        "sbatch",
        err="sbatch: error: Batch job submission failed: Requested node configuration is not available\n",
        code=1,
    )
    done = gpus.type("doctor", "--json", *HERE)
    assert done.code == 1
    assert list(failed(done.json)) == ["GPUs"]
    assert "asks for GPUs of type h100, but Slurm has a100" in failed(done.json)["GPUs"]
    assert not done.json["passed"]


def test_the_probe_is_a_job_of_two_nodes_whose_script_holds_its_code(cluster: Desk) -> None:
    cluster.fake("sbatch", err=REFUSED, code=1)
    assert cluster.type("doctor", *HERE).code == 1
    (run,) = (cluster.project / "runs").iterdir()
    script = (run / "job.sh").read_text()
    assert "#SBATCH --nodes=2\n" in script and "#SBATCH --time=00:10:00\n" in script
    assert (run / "code" / "rank_probe.py").is_file()
    assert "HPCLAUNCH_DOCTOR_MARK" in cluster.environment_of("sbatch")  # only the submitting shell has it
    assert "HPCLAUNCH_DOCTOR_MARK" not in script


def test_one_node_is_enough_where_there_are_no_two_and_it_says_so(cluster: Desk) -> None:
    path = cluster.project / "site_configs" / "slurmsite.yaml"
    path.write_text(path.read_text().replace("nodes: 8", "nodes: 1"))
    cluster.fake("sbatch", err=REFUSED, code=1)
    done = cluster.type("doctor", "--json", *HERE)
    warned = [check for check in done.json["checks"] if check["verdict"] == "WARN"]
    assert "only one node was tested: 2 nodes are not possible" in warned[0]["what"]


def test_planning_refuses_in_its_own_words(cluster: Desk) -> None:
    done = cluster.type("doctor", "--json", "--partition", "btach")
    assert done.code == 1
    assert (
        "the site file of slurmsite lists no partition 'btach'; did you mean 'batch'?" in failed(done.json)["request"]
    )


def test_a_report_for_a_reader(cluster: Desk) -> None:
    (Path(cluster.root) / "bin" / "sbatch").unlink()
    done = cluster.type("doctor", *HERE)
    assert done.code == 1
    assert "FAIL  programs" in done.out and "missing: sbatch" in done.out
    assert "next: " in done.out
    assert "checks failed" in done.err


def test_an_old_probe_is_read_again_and_another_run_is_not(cluster: Desk) -> None:
    done = cluster.type("submit", "./train.py", "--json")
    name = Path(done.json["run_dir"]).name
    other = cluster.type("doctor", "--from", name)
    assert other.code == 1 and "is not a probe of hpclaunch doctor" in other.err
    record = Path(done.json["run_dir"]) / "run.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "name": "doctor"}))
    waiting = cluster.type("doctor", "--from", name)
    assert waiting.code == 1 and "has not ended" in waiting.err


def test_a_folder_of_runs_that_is_a_file_is_named(cluster: Desk) -> None:
    cluster.write("taken", "")
    done = cluster.type("doctor", "--json", "--runs-dir", "taken", *HERE)
    assert done.code == 1
    assert "taken: the place for run directories is not a folder" in failed(done.json)["shared paths"]


def test_interrupted_in_the_queue_it_leaves_the_probe_and_says_how_to_go_on(cluster: Desk) -> None:
    cluster.fake("squeue", out="4711|PENDING|Resources\n")
    process = cluster.start("doctor", *HERE)
    assert process.stderr is not None
    told = ""
    while "PENDING" not in told:
        line = process.stderr.readline()
        assert line, told
        told += line
    process.send_signal(signal.SIGINT)
    out, rest = process.communicate(timeout=60)
    (run,) = (cluster.project / "runs").iterdir()
    assert process.returncode == 130 and out == ""
    assert f"{run.name} continues" in rest and f"hpclaunch doctor --from {run.name}" in rest
    assert not (cluster.spool / "scancel.args").exists()


def test_reading_an_old_probe_takes_no_request(cluster: Desk) -> None:
    done = cluster.type("doctor", "--from", "x", "--nodes", "4")
    assert done.code == 2 and "--from: submits nothing" in done.err


def test_local_and_another_site_exclude_each_other(cluster: Desk) -> None:
    done = cluster.type("doctor", "--local", "--site", "slurmsite")
    assert done.code == 2 and "cannot be used together" in done.err


def test_a_framework_without_a_probe_is_refused_before_anything_is_queued(cluster: Desk) -> None:
    done = cluster.type("doctor", "--framework", "mpi")
    assert done.code == 2
    assert "--framework: doctor has no probe for 'mpi'" in done.err and "tensorflow, pytorch, jax" in done.err
    assert not (cluster.project / "runs").exists()


def ended_probe(cluster: Desk, **changes: Any) -> Path:
    """The directory of a probe of two ranks on one node that has ended, with what they reported."""
    run = Path(cluster.type("submit", "./train.py", "--nodes", "1", "--tasks-per-node", "2", "--json").json["run_dir"])
    rows = [{"bytes": 4**power, "seconds": 1e-3 + 4**power / 1e9, "n": 3} for power in range(5, 14)]
    times = {"library": "Horovod", "through": "MPI", "on_gpus": False, "rows": rows}
    (run / "doctor").mkdir()
    for rank in range(2):
        world = {"size": 2, "rank": rank, "local_rank": rank, "local_size": 2, "sum": 2.0, "libraries": []}
        facts = a_rank(rank, host="n0", world=world, all_reduce=times)
        (run / f"doctor/rank-{rank}.json").write_text(json.dumps(facts))
    for file, more in (("run.json", {"name": "doctor", "state": "COMPLETED"}), ("spec.json", {})):
        (run / file).write_text(json.dumps({**json.loads((run / file).read_text()), **more, **changes}))
    (run / "states.jsonl").unlink(missing_ok=True)
    return run


def test_what_a_probe_measured_is_kept_for_plans(cluster: Desk) -> None:
    run = ended_probe(cluster)
    report = cluster.type("doctor", "--from", run.name, "--json").json
    assert report["all_reduce"]["bandwidth_bytes_per_s"] == pytest.approx(1e9, rel=1e-3)
    place = Path(*report["kept"])
    assert report["not_kept"] == ""
    assert place.parts[-4:] == (
        "calibrations",
        "slurmsite",
        json.loads((run / "spec.json").read_text())["node_type"],
        "all-reduce.json",
    )
    assert json.loads(place.read_text())["measurements"][0]["run"] == run.name


def add_speeds(run: Path, *fastest: float) -> None:
    """Let the ranks of a probe have measured so many TFLOP/s."""
    for rank, speed in enumerate(fastest):
        file = run / f"doctor/rank-{rank}.json"
        found = {"float32": [speed, speed], "copy": [80.0, 79.0]}
        device = {"library": "TensorFlow", "name": "", "on_gpu": False, "speed": found}
        file.write_text(json.dumps({**json.loads(file.read_text()), "device": device}))


def test_the_speed_of_the_device_is_kept_unless_a_node_seems_sick(cluster: Desk) -> None:
    run = ended_probe(cluster)
    add_speeds(run, 0.5, 0.2)
    report = cluster.type("doctor", "--from", run.name, "--json").json
    (all_reduces,) = report["kept"]
    kept = Path(all_reduces).with_name("device.json")
    assert report["not_kept"].startswith("n0 reaches 0.2 in float32")
    assert report["device"]["doubts"].startswith("n0 reaches 0.2 in float32") and not kept.exists()
    assert [check["verdict"] for check in report["checks"] if check["name"] == "device"] == ["WARN"]
    add_speeds(run, 0.5, 0.45)
    report = cluster.type("doctor", "--from", run.name, "--json").json
    assert (report["device"]["float32"], report["device"]["doubts"]) == (0.45, "")
    assert (report["kept"], report["not_kept"]) == ([all_reduces, str(kept)], "")
    measured = json.loads(kept.read_text())["measurements"]
    assert [(one["float32"], one["ranks_per_node"], one["run"]) for one in measured] == [(0.45, 2, run.name)]
    kept.unlink()
    kept.mkdir()  # so that no file of this name can be written
    report = cluster.type("doctor", "--from", run.name, "--json").json
    assert report["kept"] == [all_reduces]
    assert report["not_kept"].startswith(f"{kept.parent} cannot be written")
    shown = cluster.type("doctor", "--from", run.name).err
    assert f"for plans: {all_reduces}" in shown and "not kept for plans: " in shown


def test_nothing_is_kept_of_a_record_that_is_not_the_users(cluster: Desk) -> None:
    run = ended_probe(cluster)
    clone = cluster.project / "clone/runs" / run.name
    shutil.copytree(run, clone)
    report = cluster.type("doctor", "--from", str(clone), "--json").json
    assert report["kept"] == [] and "is not known as a run of yours" in report["not_kept"]


def test_no_name_leads_out_of_the_folder_of_measurements(cluster: Desk) -> None:
    run = ended_probe(cluster, node_type="../../../../out")
    report = cluster.type("doctor", "--from", run.name, "--json").json
    assert report["kept"] == [] and "cannot be names of folders" in report["not_kept"]
    assert not list(cluster.root.rglob("all-reduce.json"))


TEXTS = """#!/bin/bash
case "$1 $2" in
  'show node') cat {texts}/nodes.txt ;;
  'show partition') cat {texts}/partitions.txt ;;
esac
"""


@pytest.mark.parametrize(
    ("right", "wrong", "what"),
    [
        ("", "", ""),
        ("gpus_per_node: 4", "gpus_per_node: 8", "node_types.gpu.gpus_per_node: Slurm has 4 GPUs in such a node"),
        ("memory_gb: 7", "memory_gb: 512", "node_types.gpu.memory_gb: Slurm has 7 GB in such a node"),
        ("debug: {}", "debugging: {}", "partitions.debugging: Slurm has no partition debugging; did you mean 'debug'?"),
    ],
)
def test_a_site_file_that_slurm_contradicts_is_a_finding_with_the_next_step(
    cluster: Desk, right: str, wrong: str, what: str
) -> None:
    text = """
title: a copy of the test cluster's
scheduler: slurm
defaults: {node_type: gpu, partition: batch, walltime: "00:10:00"}
node_types: {gpu: {title: x, nodes: 4, cores_per_node: 8, memory_gb: 7, gpus_per_node: 4, stand_in_gpus: true}}
partitions: {batch: {}, debug: {}}
gpus: {directive: gpus-per-node}
launchers: {default: srun, options: {srun: {mpi: pmix}}}
environment: {python: current}
"""
    cluster.write("site_configs/copied.yaml", text.replace(right, wrong) if right else text)
    cluster.program("scontrol", TEXTS.format(texts=FOLDER / "slurm_22_05"))
    cluster.fake("sbatch", err=REFUSED, code=1)
    done = cluster.type("doctor", "--json", "--site", "copied", *HERE)
    (check,) = [check for check in done.json["checks"] if check["name"] == "site file"]
    if not what:
        assert (check["verdict"], check["what"]) == ("PASS", "as Slurm shows its 4 nodes in 3 partitions")
        return
    assert (check["verdict"], what in check["what"]) == ("FAIL", True), check
    assert "correct it in the site file of copied" in check["next"]


@pytest.mark.parametrize(
    "spec", [{"x": 1}, {"layout": {"nodes": "x" * 10, "tasks_per_node": 10**12}}, {"layout": [1], "launcher": {}}]
)
def test_a_damaged_probe_is_one_clear_error(cluster: Desk, spec: dict[str, Any]) -> None:
    record = {"name": "doctor", "site": "x", "scheduler": "slurm", "created": "2026-01-01T00:00:00Z"}
    run = cluster.write("runs/doctor-1/run.json", json.dumps({**record, "state": "COMPLETED"})).parent
    (run / "spec.json").write_text(json.dumps(spec))
    done = cluster.type("doctor", "--from", str(run))
    assert (done.code, "is damaged" in done.err) == (1, True), done.err
