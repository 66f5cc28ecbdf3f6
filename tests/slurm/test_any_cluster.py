"""A cluster that nobody has described: detected, proven by doctor, used unedited; and a job inside real walls."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.slurm.boxes import APPTAINER
from tests.slurm.desk import Desk, new_desk
from tests.slurm.second import second_cluster

pytestmark = pytest.mark.timeout(1200)
ELSEWHERE = ("--cluster-name", "elsewhere", "--nodes", "3", "--gpus", "2", "--cpus", "4")
BARE = ("--partitions", "work,quick", "--no-accounting", "--no-preempt")
SMALL = ("--synthetic", "--set", "synthetic_samples=64", "--set", "epochs=1", "--set", "batch_size_per_rank=8")
SMALL += ("--set", "noise_scale=false")  # which costs more than all the rest of so small a run
SLOW_S = 400


@pytest.fixture(scope="module", autouse=True)
def _ranks() -> None:
    if importlib.util.find_spec("horovod") is None:
        pytest.skip("group horovod: needs TensorFlow and Horovod (the extra train)")


@pytest.fixture(scope="module")
def elsewhere(cluster: Any) -> Iterator[Desk]:
    """A desk on a second cluster: three nodes of two GPUs, other partitions, no accounting."""
    with second_cluster(cluster, *ELSEWHERE, *BARE) as conf:
        yield new_desk(conf.parents[1], conf, "any_cluster")


def detected(desk: Desk, name: str) -> dict[str, Any]:
    """hpclaunch sites detect --name NAME, and what the file says."""
    done = desk.run("sites", "detect", "--name", name)
    assert done.returncode == 0, done.stderr
    content: dict[str, Any] = yaml.safe_load(Path(done.stdout.strip()).read_text())
    return content


def wrong(desk: Desk, name: str, right: dict[str, Any], **keys: Any) -> None:
    """Keep the detected file under another name, with something wrong in it."""
    folder = desk.folder / "site_configs"
    folder.mkdir(exist_ok=True)
    content = {**right, "origins": {}, "derived": {}, "unverified": {}, "sources": {}, "partitions": {}, **keys}
    content["defaults"] = {**right["defaults"], "walltime": "00:10:00", **keys.get("defaults", {})}
    content.pop("detect")
    (folder / f"{name}.yaml").write_text(json.dumps(content))


def doctor(desk: Desk, *arguments: str) -> dict[str, Any]:
    """hpclaunch doctor --json: its report."""
    done = desk.run("doctor", "--json", *arguments, seconds=SLOW_S)
    report: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (0 if report["passed"] else 1), done.stderr
    return report


def failures(report: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["what"] for check in report["checks"] if check["verdict"] == "FAIL"}


def test_the_known_cluster_is_recognized_and_described_anew_it_works_unedited(desk: Desk) -> None:
    known = json.loads(desk.run("sites", "detect", "--json").stdout)
    assert known["known"]["name"] == "testcluster"
    content = detected(desk, "found")
    assert content["launchers"]["options"]["srun"] == {"mpi": "pmix"}
    run = desk.submit("mnist", "--nodes", "4", "--tasks-per-node", "1", *SMALL)
    report = doctor(desk, "--tasks-per-node", "1")
    desk.wait(run, seconds=SLOW_S)
    assert desk.ended(run) == "COMPLETED 0:0", run.log()
    assert json.loads((run.path / "run.json").read_text())["site"] == "found"
    assert {line["rank"]: line["host"] for line in ranks_of(run.log())} == {n: f"node{n + 1}" for n in range(4)}
    assert report["passed"] and report["site"] == "found", report
    told = {check["name"]: check["what"] for check in report["checks"]}
    assert told["MPI"].startswith("2 ranks in one job under srun --mpi=pmix (libmpi")
    assert told["GPUs"].startswith("every rank sees 1; 1 per node requested")
    assert (report["all_reduce"]["nodes"], report["all_reduce"]["rows"][0]["bytes"]) == (2, 1024)
    plan = json.loads(desk.run("plan", "mnist", "--tasks-per-node", "1", "--json").stdout)
    (line,) = plan["links"]
    assert line.startswith("all-reduce of 2 nodes x 1 rank: ") and line.endswith("; measured at scale)")


def ranks_of(log: str) -> list[dict[str, Any]]:
    lines = [line.split() for line in log.splitlines() if line.startswith("rank ")]
    return [{"rank": int(words[1]), "host": words[3].rstrip(",")} for words in lines]


def test_a_cluster_without_accounting_works_unedited_up_to_its_size(elsewhere: Desk) -> None:
    content = detected(elsewhere, "three")
    assert list(content["partitions"]) == ["work", "quick"] and "qos" not in content
    assert content["node_types"]["gpu"]["gpus_per_node"] == 2
    done = elsewhere.run("submit", "mnist", "--nodes", "4", *SMALL)
    assert done.returncode == 1
    assert "at most 3" in done.stderr
    run = elsewhere.submit("mnist", "--nodes", "3", "--tasks-per-node", "1", *SMALL)
    elsewhere.wait(run, seconds=SLOW_S)
    assert elsewhere.states(run) == {run.job_id: "COMPLETED"}, run.log()
    assert len(run.metrics("epoch")) == 1


def test_doctor_names_what_is_wrong_with_the_site_file(elsewhere: Desk) -> None:
    right = detected(elsewhere, "right")
    launchers = {"default": "srun", "options": {"srun": {"mpi": "none"}}}
    wrong(elsewhere, "bad-mpi", right, launchers=launchers)
    wrong(elsewhere, "bad-gpus", right, gpus={"directive": "none"})
    gpu = {**right["node_types"]["gpu"], "gpu_type": "h100"}
    wrong(elsewhere, "bad-type", right, node_types={"gpu": gpu})
    wrong(elsewhere, "bad-log", right, folders={})
    wrong(elsewhere, "bad-count", right, node_types={"gpu": {**right["node_types"]["gpu"], "gpus_per_node": 8}})
    wrong(elsewhere, "bad-memory", right, node_types={"gpu": {**right["node_types"]["gpu"], "memory_gb": 512}})
    wrong(elsewhere, "bad-partition", right, partitions={"wrok": {}, "quick": {}}, defaults={"partition": "wrok"})
    one = ("--nodes", "1", "--tasks-per-node", "1")
    asked = {
        "bad-mpi": ("--nodes", "1", "--tasks-per-node", "2"),
        "bad-gpus": one,
        "bad-type": one,
        "bad-log": (*one, "--runs-dir", f"/tmp/hpclaunch-{elsewhere.folder.name}"),
        "bad-count": one,
        "bad-memory": one,
        "bad-partition": (*one, "--partition", "quick"),
    }
    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(lambda name: doctor(elsewhere, "--site", name, *asked[name]), asked))
    mpi, gpus, kind, log, number, memory, partition = map(failures, reports)
    assert list(mpi) == ["MPI"] and "srun --mpi=none" in mpi["MPI"]
    assert list(gpus) == ["GPUs"] and "Slurm gave none" in gpus["GPUs"]
    assert list(kind) == ["site file", "GPUs"] and "asks for GPUs of type h100, but Slurm has a100" in kind["GPUs"]
    assert list(log) == ["shared paths"]
    assert number["site file"] == "node_types.gpu.gpus_per_node: Slurm has 2 GPUs in such a node, the file says 8"
    assert memory["site file"] == "node_types.gpu.memory_gb: Slurm has 7 GB in such a node, the file says 512"
    assert (
        "partitions.wrok, defaults.partition: Slurm has no partition wrok; did you mean 'work'?"
        in (partition["site file"])
    )


def test_row_23_code_and_training_reach_ranks_that_have_only_tensorflow_and_horovod(elsewhere: Desk) -> None:
    """The box is a stand-in for apptainer, and its walls are real: this checkout is not there, nor any hpclaunch."""
    site = detected(elsewhere, "boxes")
    image = elsewhere.folder / "tensorflow.image"
    found = importlib.util.find_spec("horovod")
    assert found is not None and found.origin is not None
    folders = [Path(sys.prefix), Path(sys.base_prefix), Path(found.origin).parents[1]]
    folders += [(Path(sys.prefix) / "pyvenv.cfg").resolve().parent]  # a venv may be links to another's parts
    image.write_text("".join(f"{folder}\n" for folder in dict.fromkeys(folder.resolve() for folder in folders)))
    setup = [elsewhere.program("apptainer", APPTAINER)]
    # PMIx keeps what the ranks of a node share below SlurmdSpoolDir.
    container = {"runtime": "apptainer", "options": ["--bind", str(elsewhere.folder.parents[1] / "nodes")]}
    python = str(Path(sys.prefix).resolve() / "bin" / "python")
    environment = {"container": str(image), "python": python, "setup": setup}
    wrong(elsewhere, "boxed", site, container=container, environment=environment)
    run = elsewhere.submit("mnist", "--site", "boxed", "--nodes", "2", "--tasks-per-node", "1", *SMALL)
    elsewhere.wait(run, seconds=SLOW_S)
    assert elsewhere.states(run) == {run.job_id: "COMPLETED"}, run.log()
    assert "apptainer exec --bind" in (run.path / "job.sh").read_text()
    assert [line["host"] for line in ranks_of(run.log())] == ["node1", "node2"]
