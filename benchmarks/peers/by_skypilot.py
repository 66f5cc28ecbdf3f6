"""SkyPilot 0.14.1: it reaches Slurm by SSH alone, so nothing was run here.

Its class SlurmClient (sky/adaptors/slurm.py of the package) opens a connection by SSH to a host of ~/.slurm/config, and
runs sbatch there; it runs commands of Slurm directly only inside a job that it has started itself. A job is placed into
an allocation that it provisions first, by a server of its own.
"""

from __future__ import annotations

from peer import Peer

WHY = "reaches Slurm only by SSH, through a server of its own, and the test cluster has no login node with SSH"

PEER = Peer(
    name="SkyPilot",
    package="skypilot==0.14.1",
    documentation="sky/adaptors/slurm.py of the package: SlurmClient",
    files=lambda case, place: {},
    submit=lambda case, place: [],
    cannot={"": WHY},
)
