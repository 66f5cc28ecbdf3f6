"""Which place a rank reports, by the variables of its launcher."""

from __future__ import annotations

import pytest

from hpclaunch.training.doctor.rank_probe import place


@pytest.mark.parametrize(
    ("launcher", "environment", "rank", "local_rank"),
    [
        ("srun", {"SLURM_PROCID": "5", "SLURM_LOCALID": "1"}, 5, 1),
        ("mpirun", {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}, 5, 1),
        ("horovodrun", {"HOROVOD_RANK": "5", "HOROVOD_LOCAL_RANK": "1"}, 5, 1),
        # srun starts one torchrun per node, so Slurm's numbers are those of the node.
        (
            "torchrun",
            {"SLURM_PROCID": "1", "SLURM_LOCALID": "0", "RANK": "5", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "7"},
            5,
            1,
        ),
        ("none", {}, None, None),
    ],
)
def test_a_rank_reports_the_number_that_its_launcher_gave_it(
    launcher: str, environment: dict[str, str], rank: int | None, local_rank: int | None
) -> None:
    reported = place(environment, ())
    assert (reported["rank"], reported["local_rank"]) == (rank, local_rank), launcher
