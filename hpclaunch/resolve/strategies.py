"""What averages a job's gradients, where the job offers a choice: Horovod, unless a TensorFlow strategy is typed."""

from __future__ import annotations

from hpclaunch.core.errors import did_you_mean
from hpclaunch.core.spec import HOROVOD, MIRRORED, MULTIWORKER, TENSORFLOW, Layout, Request
from hpclaunch.launchers import LAUNCHERS
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions


def strategy_of(case: Case, layout: Layout, launcher: str, decisions: Decisions) -> str:
    """Return the strategy's name, or empty text where the job offers no choice; note a fault if it cannot work.

    hpclaunch never chooses a TensorFlow strategy itself: the guidelines decline multi-worker tf.distribute, which
    communicates over gRPC (guidelines.framework).
    """
    job, asked = case.job, case.request.strategy
    if asked is None:
        return HOROVOD if job.strategies else ""
    offered = (HOROVOD, *job.strategies) if job.strategies else ()
    decisions.pick("strategy", ("--strategy", asked))
    if asked not in offered:
        if offered:
            near = did_you_mean(asked, offered)
            decisions.fault(f"{job.name} has no strategy {asked!r}{near}", allowed=", ".join(offered))
            return HOROVOD
        decisions.fault(
            f"{job.name} offers no choice of strategy",
            next="leave --strategy out; if the program accepts --strategy=NAME, add 'strategies: …' to its job.yaml",
        )
        return ""
    if asked == HOROVOD:
        return asked
    if TENSORFLOW in LAUNCHERS[launcher].refuses:
        decisions.fault(
            f"launcher {launcher} cannot start ranks for the strategy {asked}",
            next="leave --launcher out to use the site's default",
        )
    if asked == MIRRORED and layout.world_size > 1:
        decisions.fault(
            f"mirrored runs one task on one node, with all its GPUs, not {layout.nodes} nodes x "
            f"{layout.tasks_per_node} tasks",
            next="leave --nodes and --tasks-per-node out, or choose --strategy multiworker",
        )
    if asked == MIRRORED and not layout.gpus_per_node:
        decisions.warnings.append("no GPU is requested, so mirrored has one replica, on the CPUs of its task")
    if asked == MULTIWORKER:
        decisions.warnings.append(_why_declined())
    return asked


def takes_several_gpus(request: Request) -> bool:
    """Whether one task can use more than one GPU; a rank of Horovod uses one."""
    return request.strategy in (MIRRORED, MULTIWORKER)


def replicas_of(request: Request, layout: Layout) -> int:
    """Return how many replicas of the model train: one for each rank, or for each GPU of a task that uses several."""
    several = takes_several_gpus(request) and not layout.stand_in_gpus
    return layout.world_size * (max(1, layout.gpus_per_node // layout.tasks_per_node) if several else 1)


def words_of(strategy: str) -> tuple[str, ...]:
    """Return the option that the program gets; none for its default."""
    return () if strategy in ("", HOROVOD) else (f"--strategy={strategy}",)


def needs_workers(strategy: str, layout: Layout) -> bool:
    """Whether the script must give every rank the addresses of all ranks."""
    return strategy == MULTIWORKER and layout.world_size > 1


def _why_declined() -> str:
    from hpclaunch.guidelines.framework import choose_framework

    (grpc,) = [way for way in choose_framework().declined if way.name == "gRPC"]
    why = f"{grpc.why} ({grpc.source})"
    return f"multiworker communicates over gRPC, which the guidelines decline: {why}; hpclaunch never chooses it itself"
