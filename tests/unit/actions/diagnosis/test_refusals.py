"""Why a probe was refused: each fault under its subject, with what helps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpclaunch.actions.clusters.diagnosis.refusals import refusals
from hpclaunch.core.errors import Fault, Subject
from hpclaunch.core.scheduler_rows import SCHEDULERS
from hpclaunch.schedulers.slurm.reasons import subject_of

SLURM = SCHEDULERS["slurm"]
REFUSAL = Fault(where="sbatch", what="Requested node configuration is not available", next="the script is x")


def test_a_wrong_type_of_gpus_is_what_slurms_refusal_is_about() -> None:
    (check,) = refusals([REFUSAL], [("gpus-per-node", "h100:2")], ["a100"], SLURM)
    assert check.name == "GPUs"
    assert "GPUs of type h100, but Slurm has a100" in check.what
    assert "gpu_type in the site file" in check.next
    (other,) = refusals([REFUSAL], [("gpus-per-node", "2")], ["a100"], SLURM)
    assert (other.name, other.next) == ("request", "the script is x")
    (gres,) = refusals([REFUSAL], [("gres", "gpu:h100:2")], [""], SLURM)
    assert "but Slurm has GPUs without a type" in gres.what


def test_a_refusal_is_told_under_its_subject() -> None:
    private = Fault(what="the run directory is in /tmp", next="--runs-dir FOLDER", subject="shared paths")
    (check,) = refusals([private], [("gpus-per-node", "h100:2")], ["a100"], SLURM)
    assert (check.name, check.what, check.next) == ("shared paths", private.what, private.next)
    nodes = Fault(where="cluster gpu", what="no partition accepts 9 gpu nodes", allowed="at most 4 nodes")
    (check,) = refusals([nodes], [], [], SLURM)
    assert check.name == "request", "its nodes are only called so"
    assert check.what == "cluster gpu: no partition accepts 9 gpu nodes; allowed: at most 4 nodes"


def test_of_slurms_own_refusal_the_subject_tells_what_helps() -> None:
    (check,) = refusals([replace(REFUSAL, subject="shared paths")], [], [], SLURM)
    assert check.next.startswith("use --runs-dir FOLDER on a file system that all nodes share")


@pytest.mark.parametrize(
    ("words", "subject"),
    [
        ("Requested node configuration is not available", ""),
        ("Invalid generic resource (gres) specification", "GPUs"),
        ("Batch job submission failed: GPU count specification invalid", "GPUs"),
        ("Requested partition gpu is closed", ""),
        ("Invalid account or account/partition combination specified", "account"),
        ("Invalid qos specification", "account"),
        ("fatal: Unable to process configuration file", "scheduler"),
        ("Unable to contact slurm controller (connect failure)", "scheduler"),
        ("Invalid MPI type 'pmix', consult --mpi=list for acceptable types", "MPI"),
    ],
)
def test_what_sbatchs_words_are_about(words: str, subject: Subject) -> None:
    assert subject_of(words) == subject
