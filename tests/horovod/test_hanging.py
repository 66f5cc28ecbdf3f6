"""A rank that hangs anywhere ends the run; an error is printed once; a save on request ends quietly."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from tests.horovod.conftest import PROGRAMS, Ended
from tests.tiers import LONG

PROGRAM = PROGRAMS / "hanging.py"
Ranks = Callable[..., Ended]

# Gloo ends a rank that is stopped after 30 s, with another message; the end must come from the watch.
PATIENT = {"HOROVOD_GLOO_TIMEOUT_SECONDS": "600"}
# In a collective. tests/frameworks has one of each phase, under the same watch.
PHASES = [("step", "wait", "the first step")]
if LONG:
    PHASES += [
        ("data", "stop", "the opening of the data"),
        ("model", "wait", "the making of the model"),
        ("evaluation", "stop", "the evaluation"),
        ("exit", "stop", "the end of the program"),
        ("exit", "wait", "the end of the program"),
    ]


@pytest.mark.parametrize(("place", "how", "phase"), PHASES)
def test_a_rank_that_hangs_ends_the_run(ranks: Ranks, place: str, how: str, phase: str) -> None:
    ended = ranks(PROGRAM, place, how, **PATIENT)
    assert (ended.run_dir / "hangs").exists(), ended.text
    assert ended.code != 0
    assert (ended.run_dir / "exit-code").read_text() == "1\n", ended.text
    assert f"in {phase}: a rank hangs" in ended.text, ended.text


def test_a_rank_that_fails_alone_prints_its_error_alone(ranks: Ranks) -> None:
    ended = ranks(PROGRAM, "step", "fail", size=3)
    assert (ended.run_dir / "exit-code").read_text() == "1\n"
    assert ended.speakers("stopped by the ValueError below") == ended.speakers("Traceback") == ["1"], ended.text


def test_an_error_of_all_ranks_is_printed_once(ranks: Ranks) -> None:
    ended = ranks(PROGRAM, "data", "fail-everywhere", size=3)
    assert (ended.run_dir / "exit-code").read_text() == "1\n"
    assert len(ended.speakers("stopped by the ValueError below")) == 1, ended.text
    assert len(ended.speakers("Traceback")) == 1, ended.text


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="group mpi: mpirun is not installed")
def test_a_save_on_request_ends_without_complaints_of_open_mpi(ranks: Ranks) -> None:
    # On one node Open MPI uses shared memory; over TCP, as between nodes, its ranks report a peer that disconnects.
    event = ("--event=1:5:term", "--step-seconds=0.1")
    ended = ranks(PROGRAMS / "resumable.py", *event, mpi=True, OMPI_MCA_btl="tcp,self")
    assert (ended.run_dir / "exit-code").read_text() == "75\n", ended.text
    assert "asked to stop; saved at epoch 1, step" in ended.text
    assert "disconnected" not in ended.text, ended.text
