"""What a person gives reaches every rank, whatever the launcher does with variables."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.builders import with_library
from tests.script.test_ranks import ALL_ARE_FREE, told_by

NAMES = ("MASTER_ADDR", "MASTER_PORT", "JAX_COORDINATOR_ADDRESS", "NCCL_SOCKET_IFNAME", "OMP_NUM_THREADS")
GPUS, STORE = "CUDA_VISIBLE_DEVICES", "TORCHELASTIC_USE_AGENT_STORE"
LAUNCHERS = {
    "passes all on": 'starter() { "$@"; }',
    "sets its own": f'starter() {{ MASTER_ADDR=node MASTER_PORT=1 {GPUS}=0 OMP_NUM_THREADS=1 "$@"; }}',
    "passes nothing on": 'starter() { env -i PATH="$PATH" HPCLAUNCH_RUN_DIR=. '
    'HPCLAUNCH_EXIT_FILE="$HPCLAUNCH_EXIT_FILE" "$@"; }',
}
"""How srun, torchrun and srun's GPU binding, and mpirun (to other nodes) treat what the script exports."""


def told(run: Path, given: str, starter: str, before: str = "", **inherited: str) -> dict[str, str]:
    """What the only rank of job 4711 on this machine has, if lines of set-up are ``given``."""
    shown = "; ".join(f'echo {name}="${{{name}-}}"' for name in (*NAMES, GPUS, STORE))
    rank = f"rank() {{ {shown}; }}"
    text = f"{ALL_ARE_FREE}\nbegin local\n{given}\n{starter}\n{rank}\n{before}\nlaunch starter"
    known = {"HPCLAUNCH_RUN_DIR": str(run), "SUBMITIT_LOCAL_JOB_ID": "4711", **inherited}
    done = with_library(text, **known)
    assert done.stderr == ""
    return told_by(done.stdout)


@pytest.mark.parametrize("starter", LAUNCHERS.values(), ids=LAUNCHERS)
def test_an_address_that_was_given_reaches_the_rank(tmp_path: Path, starter: str) -> None:
    found = told(tmp_path, "export MASTER_ADDR=g1i MASTER_PORT=29999", starter)
    assert [found[name] for name in NAMES[:3]] == ["g1i", "29999", "g1i:29999"]
    assert found[STORE] == "False"  # else PyTorch's ranks would look for torchrun's own store at that address


@pytest.mark.parametrize("starter", LAUNCHERS.values(), ids=LAUNCHERS)
def test_half_an_address_that_was_given_is_completed(tmp_path: Path, starter: str) -> None:
    found = told(tmp_path, "export MASTER_PORT=29999", starter)
    assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == ("localhost", "29999")
    assert told(tmp_path, "export MASTER_ADDR=g1i", starter)["MASTER_ADDR"] == "g1i"


@pytest.mark.parametrize("starter", LAUNCHERS.values(), ids=LAUNCHERS)
def test_interfaces_threads_and_gpus_that_a_line_of_set_up_exports_reach_the_rank(tmp_path: Path, starter: str) -> None:
    given = f"export NCCL_SOCKET_IFNAME='ib0 x' OMP_NUM_THREADS=3; export {GPUS}=2,0"
    found = told(tmp_path, given, starter, **{GPUS: "0,1,2,3"})
    assert [found[name] for name in ("NCCL_SOCKET_IFNAME", "OMP_NUM_THREADS", GPUS)] == ["ib0 x", "3", "2,0"]
    assert found[STORE] == ""


def test_what_the_scheduler_has_set_is_left_to_the_launcher(tmp_path: Path) -> None:
    found = told(tmp_path, "", LAUNCHERS["sets its own"], **{GPUS: "0,1,2,3", "MASTER_ADDR": "of-the-shell"})
    assert (found[GPUS], found["MASTER_ADDR"]) == ("0", "node")
    assert told(tmp_path, "", LAUNCHERS["passes all on"], MASTER_ADDR="of-the-shell")["MASTER_ADDR"] == "localhost"


def test_a_coordinator_of_jax_that_was_given_stays(tmp_path: Path) -> None:
    found = told(tmp_path, "export JAX_COORDINATOR_ADDRESS=c:1", LAUNCHERS["passes nothing on"])
    assert (found["JAX_COORDINATOR_ADDRESS"], found["MASTER_ADDR"]) == ("c:1", "")


@pytest.mark.parametrize(("name", "text"), [("RANK", "0"), ("LOCAL_RANK", "1"), ("WORLD_SIZE", "9")])
def test_a_place_that_a_line_of_set_up_sets_is_said_to_have_no_effect(tmp_path: Path, name: str, text: str) -> None:
    script = (
        f"begin local; export {name}={text} HPCLAUNCH_WORLD_SIZE=4; start_ranks() {{ :; }}; launch; echo ${{{name}-}}"
    )
    done = with_library(script, HPCLAUNCH_RUN_DIR=str(tmp_path), SUBMITIT_LOCAL_JOB_ID="7")
    assert done.stderr.startswith(f"hpclaunch: {name}={text}, which a line of set-up sets, does not reach the ranks")
    assert done.stdout == "\n"


def test_the_number_of_ranks_may_be_set_to_what_it_is(tmp_path: Path) -> None:
    script = "begin local; export WORLD_SIZE=4 HPCLAUNCH_WORLD_SIZE=4; start_ranks() { :; }; launch"
    done = with_library(script, HPCLAUNCH_RUN_DIR=str(tmp_path), SUBMITIT_LOCAL_JOB_ID="7")
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("given", "endpoint"),
    [
        ("", f"{os.uname().nodename}:24711"),
        ("export MASTER_ADDR=g1i", f"{os.uname().nodename}:24712"),
        ("export MASTER_PORT=24712", f"{os.uname().nodename}:24713"),
        ("export PET_RDZV_ENDPOINT=g1:5", "g1:5"),
    ],
)
def test_torchruns_nodes_meet_where_no_rank_listens(given: str, endpoint: str) -> None:
    """With a given address rank 0 itself listens there; else PyTorch's ranks use the store of torchrun."""
    done = with_library(f"{ALL_ARE_FREE}; {given or ':'}; set_rendezvous; echo $PET_RDZV_ENDPOINT", job="4711")
    assert done.stdout == f"{endpoint}\n"


def test_the_address_of_a_site_may_have_a_suffix() -> None:
    known = {"HPCLAUNCH_WORLD_SIZE": "8", "SLURM_JOB_NODELIST": "n[1-2]", "HPCLAUNCH_RUN_DIR": "/nonexistent"}
    scontrol = 'scontrol() { [ "$1" != show ] || printf "n1\\nn2\\n"; }'
    text = f"{scontrol}; scheduler=slurm address_suffix=i; set_master; echo $MASTER_ADDR"
    assert with_library(text, **known).stdout == "n1i\n"
    assert with_library(f"export MASTER_ADDR=n2; {text}", **known).stdout == "n2\n"
    meeting = with_library(f"{ALL_ARE_FREE}; {text}; set_rendezvous; echo $PET_RDZV_ENDPOINT", job="4711", **known)
    assert meeting.stdout == f"n1i\n{os.uname().nodename}i:24711\n"
    alone = with_library(text, **{**known, "HPCLAUNCH_WORLD_SIZE": "1"})
    assert alone.stdout == "localhost\n"
