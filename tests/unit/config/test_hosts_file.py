from __future__ import annotations

import pytest

from hpclaunch.config.hosts_file import hosts_in

SHAPES = {
    "PBS_NODEFILE": "node01\nnode01\nnode02\nnode02\nnode03\nnode03\n",
    "LSB_DJOB_HOSTFILE": "node01\nnode02\nnode01\nnode03\nnode02\nnode03\n",
    "LSB_MCPU_HOSTS": "node01 2 node02 2 node03 2\n",
    "LSB_HOSTS": "node01 node01 node02 node02 node03 node03\n",
    "Open MPI": "# the cluster\nnode01 slots=2\nnode02 slots=2 max_slots=4 # a comment\n\nnode03\n",
    "MPICH": "node01:2\nnode02:2 binding=user:0,1\nnode03:2\n",
    "PE_HOSTFILE": "node01 2 all.q@node01 UNDEFINED\nnode02 2 all.q@node02 <NULL>\nnode03 2 all.q@node03 0,0:0,1\n",
    "scontrol show hostnames": "node01\nnode02\nnode03\n",
    "bsub -hostfile": "# hosts and slots\nnode01 2\nnode02\nnode01 1\nnode03 4\n",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_public_shape_of_a_hosts_file_gives_the_same_hosts(shape: str) -> None:
    assert hosts_in(SHAPES[shape]) == ("node01", "node02", "node03")


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("", ()),
        ("# nothing\n\n", ()),
        ("10.0.0.1 node1 node1.cluster.org\n", ("10.0.0.1",)),
        ("nA\nnA\nnB\nnB\n", ("nA", "nB")),
        ("login.cluster.org slots=4", ("login.cluster.org",)),
        ("fd00::1\nfd00::2\n", ("fd00::1", "fd00::2")),
        ("10.0.0.1:4\n10.0.0.2:4\n", ("10.0.0.1", "10.0.0.2")),
        ("node1 8", ("node1",)),
    ],
)
def test_a_hosts_file(text: str, hosts: tuple[str, ...]) -> None:
    assert hosts_in(text) == hosts
