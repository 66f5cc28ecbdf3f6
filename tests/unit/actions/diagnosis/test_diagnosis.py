"""Verdicts on what a probe's ranks told: each promise of the script, kept and broken."""

from __future__ import annotations

from typing import Any

import pytest

from hpclaunch.actions.diagnosis import Check, ProbeEvidence, diagnose
from hpclaunch.schedulers import UNOPENED_LOG
from tests.builders import a_job, planned


def a_spec(**changes: Any) -> dict[str, Any]:
    spec = planned(job=a_job(name="doctor"), nodes=2, tasks_per_node=2).to_json()
    return {**spec, "layout": {**spec["layout"], **changes}}


SPEC = a_spec()
PROMISED = dict(SPEC["environment"])
LOG = "".join(f"doctor: rank {rank} on n{rank // 2}\n" for rank in range(4))


def a_rank(number: int, **changes: Any) -> dict[str, Any]:
    """What rank ``number`` of four on two nodes tells where all is well."""
    facts = {
        "rank": number,
        "local_rank": number % 2,
        "host": f"n{number // 2}",
        "python": "/opt/python",
        "python_version": "3.11.2",
        "cpus": list(range(16 * (number % 2), 16 * (number % 2) + 16)),
        "node_cpus": 32,
        "gpu_devices": [],
        "assigned": {"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_CPUS_PER_TASK": str(SPEC["layout"]["cpus_per_task"])},
        "variables": PROMISED,
        "strays": [],
        "step": "done",
        "tensorflow": {"version": "2.15.1", "cuda": True, "rocm": False, "gpus": 2},
        "horovod": {"version": "0.28.1", "mpi": True, "gloo": True, "nccl": True},
        "world": {"size": 4, "rank": number, "local_rank": number % 2, "local_size": 2, "sum": 4.0, "libraries": []},
    }
    return {**facts, **changes}


def evidence(**changes: Any) -> ProbeEvidence:
    """Four ranks; a change of theirs is a function of the rank's number."""
    ranks = changes.pop("ranks", [a_rank(number) for number in range(4)])
    state = changes.pop("state", "COMPLETED")
    return ProbeEvidence(**{"spec": SPEC, "state": state, "log": LOG, "ranks": ranks, "mark": "MARK", **changes})


def failed(found: ProbeEvidence) -> list[Check]:
    return [check for check in diagnose(found) if check.verdict == "FAIL"]


def with_ranks(**changes: Any) -> list[dict[str, Any]]:
    return [a_rank(number, **changes) for number in range(4)]


def test_where_all_is_well_every_check_passes() -> None:
    checks = diagnose(evidence())
    assert {check.verdict for check in checks} == {"PASS"}
    names = [check.name for check in checks]
    assert names[:4] == ["shared paths", "ranks", "MPI", "GPUs"]
    assert set(names) >= {"CPUs per task", "CPU binding", "environment", "TensorFlow", "Horovod"}


def test_a_world_for_every_rank_is_named_as_the_mpi_type() -> None:
    alone = {"size": 1, "rank": 0, "local_rank": 0, "local_size": 1, "sum": 1.0, "libraries": []}
    (check,) = failed(evidence(ranks=with_ranks(world=alone)))
    assert (check.name, check.what) == (
        "MPI",
        "under srun --mpi=pmix each rank starts as a separate one-rank job; 4 ranks in one job were requested",
    )
    assert "srun --mpi=list" in check.next
    (check,) = failed(evidence(ranks=with_ranks(world=alone), mpi_types=["pmi2", "pmix", "none", "pmix_v4"]))
    assert "srun has pmi2, pmix_v4" in check.next


def test_an_abort_in_mpis_own_start_is_named_as_the_mpi_type() -> None:
    ranks = [{key: value for key, value in a_rank(n, step="world").items() if key != "world"} for n in range(4)]
    log = LOG + "[n0:1] OPAL ERROR: Unreachable in file ext3x_client.c\nsrun: error: n0: task 0: Exited with code 1\n"
    (check,) = failed(evidence(ranks=ranks, log=log, state="FAILED", exit_code="1:0"))
    assert check.name == "MPI"
    assert "OPAL ERROR" in check.what and "--mpi=pmix" in check.what


@pytest.mark.parametrize(
    "said",
    [
        "srun: error: Couldn't find the specified plugin name for mpi/pmix looking at all files",
        "srun: error: Invalid MPI type 'pmix', --mpi=list for acceptable types",
    ],
)
def test_a_type_of_mpi_that_srun_lacks_is_named(said: str) -> None:
    log = f"{said}\nsrun: error: cannot find mpi plugin\n"
    found = evidence(ranks=[], log=log, state="FAILED", exit_code="1:0", mpi_types=["none", "pmi2"])
    (check,) = failed(found)
    assert (check.name, check.what) == ("MPI", f"srun does not support --mpi=pmix: {said}")
    assert "mpi under launchers.options.srun in the site file: srun has pmi2" in check.next


def test_ranks_that_never_reach_mpi_do_not_accuse_it() -> None:
    left = ("tensorflow", "horovod", "world")
    ranks = [{key: value for key, value in a_rank(n).items() if key not in left} for n in range(4)]
    ranks = [
        {**one, "step": "tensorflow", "problem": "ModuleNotFoundError: No module named 'tensorflow'"} for one in ranks
    ]
    checks = {check.name: check for check in failed(evidence(ranks=ranks, state="FAILED"))}
    assert set(checks) == {"MPI", "TensorFlow", "Horovod"}
    assert "correct TensorFlow" in checks["MPI"].next
    assert "No module named 'tensorflow'" in checks["TensorFlow"].what
    assert checks["Horovod"].next == "correct TensorFlow first (above)"


@pytest.mark.parametrize("stand_in", [False, True])
def test_no_gpu_from_slurm_is_named_as_the_gpu_request(stand_in: bool) -> None:
    told = {"SLURM_CPUS_PER_TASK": str(SPEC["layout"]["cpus_per_task"])}
    tensorflow = {"version": "2.15.1", "cuda": True, "rocm": False, "gpus": 0}
    found = evidence(spec=a_spec(stand_in_gpus=stand_in), ranks=with_ranks(assigned=told, tensorflow=tensorflow))
    (check,) = failed(found)
    assert check.name == "GPUs"
    assert "4 of 4 ranks have no GPU (rank 0 on n0: Slurm gave none)" in check.what
    assert "'gpus' and gpu_type" in check.next


def test_a_tensorflow_for_cpus_on_real_gpus_is_named() -> None:
    build = {"version": "2.15.1", "cuda": False, "rocm": False, "gpus": 0}
    (check,) = failed(evidence(ranks=with_ranks(tensorflow=build)))
    assert check.name == "GPUs"
    assert "TensorFlow sees none" in check.what and "built for CPUs" in check.next


def test_ranks_that_would_share_a_gpu_are_named() -> None:
    told = {"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_CPUS_PER_TASK": "16"}
    spec = a_spec(tasks_per_node=4, nodes=1)
    ranks = [a_rank(n, host="n0", assigned=told) for n in range(4)]
    assert "4 ranks on n0 see 2 GPUs: they would share" in [
        check.what for check in failed(evidence(spec=spec, ranks=ranks))
    ]


def test_fewer_gpus_than_were_asked_for_are_a_warning_where_every_rank_has_one() -> None:
    spec = a_spec(tasks_per_node=1, nodes=4, gpus_per_node=4)
    for visible, verdict in (("0,1", "WARN"), ("0,1,2,3", "PASS")):
        told = {"CUDA_VISIBLE_DEVICES": visible, "SLURM_CPUS_PER_TASK": str(SPEC["layout"]["cpus_per_task"])}
        checks = diagnose(evidence(spec=spec, ranks=[a_rank(n, host=f"n{n}", assigned=told) for n in range(4)]))
        (check,) = [check for check in checks if check.name == "GPUs"]
        assert check.verdict == verdict
        assert verdict == "PASS" or check.what == "n0 shows 2 GPUs, but 4 per node were requested"


def test_one_gpu_bound_to_every_rank_is_enough() -> None:
    told = {"CUDA_VISIBLE_DEVICES": "0", "SLURM_CPUS_PER_TASK": str(SPEC["layout"]["cpus_per_task"])}
    build = {"version": "2.15.1", "cuda": True, "rocm": False, "gpus": 1}
    assert not failed(evidence(ranks=with_ranks(assigned=told, tensorflow=build)))


def test_gpus_without_a_variable_count_by_what_tensorflow_sees() -> None:
    told = {"SLURM_CPUS_PER_TASK": str(SPEC["layout"]["cpus_per_task"])}
    assert not failed(evidence(ranks=with_ranks(assigned=told)))


def test_a_log_folder_that_the_nodes_lack_is_named() -> None:
    (check,) = failed(evidence(ranks=[], log=None, state="FAILED", reason=UNOPENED_LOG, exit_code="0:53"))
    assert check.name == "shared paths"
    assert f"{SPEC['run_dir']}/logs does not exist on the nodes" in check.what
    assert "--runs-dir" in check.next


@pytest.mark.parametrize("state", ["CANCELLED", "NODE_FAIL", "PREEMPTED"])
def test_a_job_that_never_began_says_nothing_of_its_folders(state: str) -> None:
    (check,) = diagnose(evidence(ranks=[], log=None, state=state, reason="by 1000", exit_code="0:0"))
    assert (check.name, check.verdict, check.what) == ("job", "FAIL", f"the job ended as {state} (by 1000)")
    assert check.next == "try again: hpclaunch doctor"


def test_a_job_of_which_nobody_knows_accuses_nothing() -> None:
    (check,) = diagnose(evidence(ranks=[], log=None, state="UNKNOWN"))
    assert check.what == "the state of the job is unknown"


def test_results_that_stay_on_the_nodes_are_named() -> None:
    (check,) = failed(evidence(ranks=[], log=None))
    assert check.name == "shared paths" and "neither its log nor its files" in check.what
    found = failed(evidence(ranks=[a_rank(n) for n in range(3)]))
    assert "1 rank ran, but their files" in found[0].what


def test_a_job_that_never_reached_the_ranks_says_why() -> None:
    log = "hpclaunch: module load tensorflow/9: failed with exit code 1\n"
    (check,) = failed(evidence(ranks=[], log=log, state="FAILED", exit_code="78:0"))
    assert check.name == "job"
    assert "module load tensorflow/9" in check.what
    assert check.next == f"read its log: hpclaunch logs {SPEC['run_dir'].rpartition('/')[2]}"


def test_too_few_ranks_and_wrong_nodes_are_named() -> None:
    checks = failed(evidence(ranks=[a_rank(n, host="n0") for n in range(4)]))
    assert "4 of 4 ranks were seen (n0 4), but 2 nodes x 2 tasks were requested" in checks[0].what


def test_cpus_of_a_task_are_held_against_what_was_asked_for() -> None:
    told = {"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_CPUS_PER_TASK": "1"}
    (check,) = failed(evidence(ranks=with_ranks(assigned=told)))
    assert (check.name, check.verdict) == ("CPUs per task", "FAIL")


@pytest.mark.parametrize(
    ("cpus", "node_cpus", "verdict"),
    [([3], 64, "FAIL"), (list(range(32)), 32, "WARN"), (list(range(8)), 8, "WARN")],
)
def test_binding(cpus: list[int], node_cpus: int, verdict: str) -> None:
    checks = diagnose(evidence(ranks=with_ranks(cpus=cpus, node_cpus=node_cpus)))
    assert next(check.verdict for check in checks if check.name == "CPU binding") == verdict


def test_variables_that_changed_on_their_way_are_named() -> None:
    changed = {**PROMISED, "OMP_NUM_THREADS": "1"}
    (check,) = failed(evidence(ranks=with_ranks(variables=changed)))
    assert check.name == "environment" and "OMP_NUM_THREADS='1'" in check.what


def test_a_variable_of_the_submitting_shell_among_the_ranks_is_a_warning() -> None:
    spec = {**SPEC, "directives": [["export", "NONE"]]}
    checks = diagnose(evidence(spec=spec, ranks=with_ranks(strays=["MARK"])))
    assert "in spite of --export=NONE" in next(one.what for one in checks if one.verdict == "WARN")
    allowed = diagnose(evidence(spec={**SPEC, "directives": []}, ranks=with_ranks(strays=["MARK"])))
    assert {check.verdict for check in allowed} == {"PASS"}


@pytest.mark.parametrize(("version", "verdict"), [("2.8.4", "FAIL"), ("2.9.0", "PASS"), ("2.16.1", "FAIL")])
def test_versions_of_tensorflow(version: str, verdict: str) -> None:
    build = {"version": version, "cuda": True, "rocm": False, "gpus": 2}
    checks = diagnose(evidence(ranks=with_ranks(tensorflow=build)))
    assert next(check.verdict for check in checks if check.name == "TensorFlow") == verdict


def test_a_horovod_that_cannot_talk_with_the_launcher_is_named() -> None:
    build = {"version": "0.28.1", "mpi": False, "gloo": True, "nccl": False}
    assert "Horovod" in [check.name for check in failed(evidence(ranks=with_ranks(horovod=build)))]


def test_no_nccl_is_a_warning_where_gpus_compute() -> None:
    build = {"version": "0.28.1", "mpi": True, "gloo": True, "nccl": False}
    for stand_in, verdict in ((False, "WARN"), (True, "PASS")):
        found = evidence(spec=a_spec(stand_in_gpus=stand_in), ranks=with_ranks(horovod=build))
        assert next(check.verdict for check in diagnose(found) if check.name == "Horovod") == verdict
