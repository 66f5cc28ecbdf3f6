"""A stranger's program; `mypy --strict` has nothing to say about it."""

from __future__ import annotations

from pathlib import Path

import hpclaunch


def train(nodes: int) -> float:
    """Submit, wait, and return the last loss."""
    run: hpclaunch.Run = hpclaunch.submit(
        "cifar", nodes=nodes, walltime="2:00:00", settings={"epochs": 3, "augment": True}, environment={"A": "1"}
    )
    if run.wait(timeout=3600, retries=2) != "COMPLETED":
        raise RuntimeError(run.log())
    losses = [float(epoch["loss"]) for epoch in run.metrics("epoch")]
    return losses[-1]


def script() -> str:
    """Return what would be submitted."""
    dry: hpclaunch.DryRun = hpclaunch.submit(["python", "train.py"], nodes=4, dry_run=True)
    return dry.script


def planned(budget: float) -> hpclaunch.Run | None:
    """Submit what the planner recommends, if it is feasible."""
    plan: hpclaunch.Plan = hpclaunch.plan("cifar", site="perlmutter", budget=budget, prefer="cost")
    if not plan.feasible:
        print(*plan.problems, sep="\n")
        return None
    return hpclaunch.submit(plan.job, **plan.options)


def swept() -> list[hpclaunch.RunStatus]:
    """Wait for every run of a sweep."""
    runs = hpclaunch.sweep("./train.py", {"lr": [0.1, 0.01], "seed": range(3)}, at_once=2, data_dir=Path("/data"))
    for now in runs.follow(pause=10):
        print(now.id, now.state, now.epoch, now.loss)
    after = hpclaunch.submit("./report.py", after=runs, arguments=["--runs", runs])
    print(after.job_id, hpclaunch.__version__)
    return hpclaunch.status(*runs.tasks(), state=["FAILED", "TIMEOUT"], since="7d")


def look(name: str) -> int | None:
    """Return the exit code of a run; None for one that does not exist."""
    try:
        return hpclaunch.run(name).status().exit_code
    except hpclaunch.NotFound as error:
        fault: hpclaunch.Fault = error.faults[0]
        print(fault.what)
        return None
