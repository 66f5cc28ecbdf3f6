"""What averages a job's gradients, where it offers a choice: Horovod, unless a strategy of TensorFlow is typed."""

from __future__ import annotations

from hpclaunch.core.errors import did_you_mean
from hpclaunch.core.spec import HOROVOD, MIRRORED, MULTIWORKER, Layout, Request
from hpclaunch.launchers import LAUNCHERS
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions


def strategy_of(case: Case, layout: Layout, launcher: str, decisions: Decisions) -> str:
    """Return its name; empty where the job offers no choice. What cannot be is a fault.

    Never chosen by itself: the guidelines decline multi-worker tf.distribute, which talks gRPC (guidelines.framework).
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
            next="leave --strategy out; a job whose program takes --strategy=NAME says 'strategies' in its job.yaml",
        )
        return ""
    if asked == HOROVOD:
        return asked
    if not LAUNCHERS[launcher].trains_tensorflow:
        decisions.fault(f"{launcher} starts no ranks for {asked}", next="leave --launcher out for the site's own")
    if asked == MIRRORED and layout.world_size > 1:
        decisions.fault(
            f"mirrored is one task on one node, with all its GPUs, not {layout.nodes} x {layout.tasks_per_node}",
            next="leave --nodes and --tasks-per-node out, or say --strategy multiworker",
        )
    if asked == MIRRORED and not layout.gpus_per_node:
        decisions.warnings.append("no GPU is asked for: without one mirrored has one replica, on the CPUs of its task")
    if asked == MULTIWORKER:
        decisions.warnings.append(_why_declined())
    return asked


def takes_several_gpus(request: Request) -> bool:
    """Whether one task can use more than one GPU: Horovod's ranks have one each."""
    return request.strategy in (MIRRORED, MULTIWORKER)


def words_of(strategy: str) -> tuple[str, ...]:
    """Return what the program is told; nothing for its default."""
    return () if strategy in ("", HOROVOD) else (f"--strategy={strategy}",)


def _why_declined() -> str:
    from hpclaunch.guidelines.framework import choose_framework

    (grpc,) = [way for way in choose_framework().declined if way.name == "gRPC"]
    why = f"{grpc.why} ({grpc.source})"
    return f"multiworker talks gRPC, which the guidelines decline: {why}; hpclaunch never chooses it"
