"""hpclaunch, of this checkout: README.md and docs/any-program.md. A site file of the project describes the cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from cases import MINUTES, NODES, RANKS_PER_NODE, Case
from peer import Peer, Place

SITE = Path(__file__).parents[2] / "site_configs" / "testcluster.yaml"


def files(case: Case, place: Place) -> dict[str, str]:
    """The site file of the test cluster, where srun binds each rank to one GPU."""
    site: dict[str, Any] = yaml.safe_load(SITE.read_text())
    site["detect"] = {"cluster_name": "hpcpeers"}
    site["defaults"]["walltime"], site["partitions"] = "00:30:00", {}
    site["launchers"]["options"]["srun"]["gpu_bind"] = "per_task:1"
    return {"site_configs/peers.yaml": json.dumps(site)}


def submit(case: Case, place: Place) -> list[str]:
    words = [str(place.programs / "hpclaunch"), "submit", "--name", "peers"]
    words += ["--nodes", str(NODES), "--tasks-per-node", str(RANKS_PER_NODE), "--cpus-per-task", "1"]
    words += ["--gpus-per-node", str(case.gpus_per_rank * RANKS_PER_NODE), "--walltime", str(MINUTES)]
    words += ["--partition", case.partition, "--no-samples"]
    words += ["--restarts", "3"] if case.requeue else []
    for name, value in case.typed.items():
        words += ["--env", f"{name}={value}"]
    return [*words, "--", *place.command(case)]


def dry_run(case: Case, place: Place) -> list[str]:
    words = submit(case, place)
    return [*words[:2], "--dry-run", *words[2:]]


PEER = Peer(
    name="hpclaunch",
    package="",
    documentation="README.md, docs/any-program.md",
    files=files,
    submit=submit,
    dry_run=dry_run,
    run_names=(r"peers-\d{8}-\d{6}-[0-9a-f]{8}", r"\d{4}-\d\d-\d\dT[\d:]+Z"),
)
