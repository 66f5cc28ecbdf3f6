"""The hosts of the ranks, and what each rank is told about itself."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from hpclaunch.launchers import LAUNCHERS
from hpclaunch.render import render
from tests.builders import ROOTS, everywhere, planned, with_library

ALL_ARE_FREE = "grep() { return 1; }"


@pytest.mark.parametrize(("code", "written"), [(0, "n1 slots=4\nn2 slots=4\n"), (1, "")])
def test_row_05_the_list_of_hosts_is_one_host_a_line_or_stops_the_script(
    tmp_path: Path, code: int, written: str
) -> None:
    answer = 'echo "no such list" >&2; return 1' if code else 'printf "%s\\n" n1 n2'
    scontrol = f'scontrol() {{ [ "$*" != "show hostnames n[1-2]" ] || {{ {answer}; }}; }}'
    known = {"HPCLAUNCH_RUN_DIR": str(tmp_path), "SLURM_JOB_NODELIST": "n[1-2]"}
    done = with_library(f"{scontrol}\nscheduler=slurm; list_hosts 4", **known)
    assert (done.returncode, (tmp_path / "hosts").read_text()) == (78 if code else 0, written)
    assert ("listing the hosts of the job: failed" in done.stderr) is bool(code)


def told_by(done_stdout: str) -> dict[str, str]:
    """The variables of a list as ``env`` writes it."""
    return dict(line.split("=", 1) for line in done_stdout.splitlines())


def identity(launcher: str, **variables: str) -> dict[str, str]:
    """What a rank of two nodes with four ranks each exports, if its launcher gives it these variables."""
    script = render(planned(everywhere(), launcher=launcher, framework="none", nodes=2), ROOTS)
    (line,) = [line for line in script.splitlines() if line.startswith("  set_rank ")]
    given = {"MASTER_ADDR": "n1", "MASTER_PORT": "24711", **variables}
    names = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK MASTER_ADDR MASTER_PORT JAX_COORDINATOR_ADDRESS"
    told = " ".join(f"{name}={text}" for name, text in given.items())
    shown = f"for name in {names}; do echo $name=${{!name-}}; done"
    done = with_library(f"set -u; export {told}; {line}; {shown}", HPCLAUNCH_WORLD_SIZE="8")
    assert done.stderr == ""
    return told_by(done.stdout)


@pytest.mark.parametrize(
    ("launcher", "given"),
    [
        ("srun", {"SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_NODEID": "1"}),
        ("mpirun", {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "SLURM_PROCID": "0"}),
        ("mpirun", {"PMI_RANK": "5"}),
        ("horovodrun", {"HOROVOD_RANK": "5", "HOROVOD_LOCAL_RANK": "1", "HOROVOD_CROSS_RANK": "1"}),
        ("ibrun", {"MV2_COMM_WORLD_RANK": "5"}),
        ("local", {"RANK": "5", "LOCAL_RANK": "1", "NODE_RANK": "1"}),
        ("torchrun", {"RANK": "5", "LOCAL_RANK": "1", "GROUP_RANK": "1", "SLURM_PROCID": "1", "SLURM_NODEID": "1"}),
    ],
)
def test_a_rank_learns_who_it_is_from_its_own_launcher(launcher: str, given: dict[str, str]) -> None:
    assert identity(launcher, **given) == {
        "RANK": "5",
        "WORLD_SIZE": "8",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "4",
        "NODE_RANK": "1",
        "MASTER_ADDR": "n1",
        "MASTER_PORT": "24711",
        "JAX_COORDINATOR_ADDRESS": "n1:24711",
    }


def test_the_launchers_own_place_of_a_rank_is_taken_before_the_computed_one() -> None:
    cyclic = identity("srun", SLURM_PROCID="5", SLURM_LOCALID="2", SLURM_NODEID="1")
    assert (cyclic["LOCAL_RANK"], cyclic["NODE_RANK"]) == ("2", "1")


def test_a_rank_that_its_launcher_tells_nothing_is_not_taken_for_rank_0() -> None:
    assert identity("mpirun", SLURM_PROCID="0")["RANK"] == ""


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_only_rank_is_rank_0_under_every_launcher(launcher: str) -> None:
    spec = planned(everywhere(), launcher=launcher, nodes=1, tasks_per_node=1)
    assert "set_rank" not in render(spec, ROOTS)
    names = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK MASTER_ADDR MASTER_PORT"
    shown = " ".join(f"${name}" for name in names.split())
    done = with_library(f"{ALL_ARE_FREE}; job=4711; rank() {{ echo {shown}; }}; launch", HPCLAUNCH_RUN_DIR="/run/x")
    assert done.stdout == "0 1 0 1 0 localhost 24711\n"


def master(setting: str, **variables: str) -> tuple[str, str]:
    """MASTER_ADDR and MASTER_PORT of job 4711 with eight ranks on n1 and n2, for this line of slurm.conf."""
    scontrol = f'scontrol() {{ case $1-$2 in show-hostnames) printf "n1\\nn2\\n" ;; *) echo "{setting}" ;; esac; }}'
    known = {"HPCLAUNCH_WORLD_SIZE": "8", "SLURM_JOB_NODELIST": "n[1-2]", "job": "4711", **variables}
    done = with_library(f"{scontrol}\nscheduler=slurm; set_master; echo $MASTER_ADDR $MASTER_PORT", **known)
    address, port = done.stdout.split()
    return address, port


def test_rank_0_listens_on_the_first_host_at_a_port_of_its_job() -> None:
    assert with_library(f"{ALL_ARE_FREE}; free_port 20000 29999 4711").stdout == "24711\n"
    address, port = master("SrunPortRange           = 0-0")
    assert address == "n1" and 20000 <= int(port) <= 29999


def test_where_slurm_keeps_ports_for_jobs_rank_0_listens_at_one_of_them() -> None:
    assert 60001 <= int(master("SrunPortRange           = 60001-63000")[1]) <= 63000


def test_what_an_outer_job_has_exported_is_not_taken_over() -> None:
    address, port = master("SrunPortRange           = 0-0", MASTER_ADDR="elsewhere", MASTER_PORT="1", has_master="yes")
    assert address == "n1" and port != "1"


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_port_that_another_program_has_is_left_out(family: socket.AddressFamily) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as other:
        other.bind(("", 0))
        taken = other.getsockname()[1]
        other.listen()
        done = with_library(f"free_port {taken} {taken + 100} {taken * 101}")
    assert taken < int(done.stdout) <= taken + 100


def test_where_slurm_does_not_list_the_hosts_rank_0_is_where_the_script_is_whatever_hostname_says() -> None:
    known = {"HPCLAUNCH_WORLD_SIZE": "8", "SLURM_JOB_NODELIST": "n[1-2]", "HOSTNAME": "login1"}
    done = with_library("scontrol() { return 1; }; scheduler=slurm; set_master; echo $MASTER_ADDR", **known)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{os.uname().nodename}\n", "")
