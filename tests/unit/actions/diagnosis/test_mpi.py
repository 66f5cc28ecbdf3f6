"""Whether all ranks are in one job of MPI, and what to do if they are not."""

from __future__ import annotations

import pytest

from tests.unit.actions.diagnosis.probes import LOG, SPEC, a_rank, evidence, failed, with_ranks


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
    assert "has no tensorflow" in checks["TensorFlow"].what
    assert checks["Horovod"].next == "correct TensorFlow first (above)"


def test_a_launcher_without_the_option_names_no_type_of_mpi() -> None:
    alone = {"size": 1, "rank": 0, "local_rank": 0, "local_size": 1, "sum": 1.0, "libraries": []}
    spec = {**SPEC, "launcher": "mpirun", "launch": ["mpirun", "-np", "4"]}
    (check,) = failed(evidence(spec=spec, ranks=with_ranks(world=alone)))
    assert check.what.startswith("under mpirun each rank starts as a separate one-rank job")
    assert "--launcher tries another" in check.next and "srun" not in check.next


def test_a_type_that_only_the_ranks_know_is_named() -> None:
    assigned = {"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_CPUS_PER_TASK": "8", "SLURM_MPI_TYPE": "pmi2"}
    lost = {"size": 2, "rank": 0, "local_rank": 0, "local_size": 1, "sum": 2.0, "libraries": []}
    found = evidence(spec={**SPEC, "launch": ["srun"]}, ranks=with_ranks(assigned=assigned, world=lost))
    assert any("under srun --mpi=pmi2 the ranks form jobs of 2 ranks" in check.what for check in failed(found))
