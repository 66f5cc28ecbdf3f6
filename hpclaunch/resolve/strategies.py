"""What averages a job's gradients, where the job offers a choice: Horovod, unless a TensorFlow strategy is typed."""

from __future__ import annotations

from collections.abc import Mapping

from hpclaunch.config.job import Job, Role
from hpclaunch.core.errors import did_you_mean
from hpclaunch.core.spec import HOROVOD, MIRRORED, MULTIWORKER, TENSORFLOW, Layout, Pairs, Request
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


def models_of(request: Request, layout: Layout) -> int:
    """Return how many GPUs may each hold a model: one for each rank, or for each GPU of a task that uses several."""
    several = takes_several_gpus(request) and not layout.stand_in_gpus
    return layout.world_size * (max(1, layout.gpus_per_node // layout.tasks_per_node) if several else 1)


TENSOR: Role = "tensor_parallel"
STAGES: Role = "pipeline_stages"


def ranks_by_role(job: Job, typed: Mapping[str, str]) -> tuple[int, int]:
    """Return the values of tensor_parallel and pipeline_stages with these typed settings; 1 where the job has none.

    A value that cannot be read counts as 1: ``resolve.command`` refuses it.
    """
    return _number(job, TENSOR, typed), _number(job, STAGES, typed)


def _number(job: Job, role: Role, typed: Mapping[str, str]) -> int:
    name = job.parameter_for(role)
    parameter = job.parameters.get(name)
    if parameter is None:
        return 1
    try:
        value = parameter.parse(typed[name]) if name in typed else parameter.default
    except ValueError:
        return 1
    return value if type(value) is int and value > 0 else 1


def ranks_per_replica(job: Job, settings: Pairs = ()) -> int:
    """Return how many ranks hold one replica of the model: tensor_parallel x pipeline_stages."""
    tensor, stages = ranks_by_role(job, dict(settings))
    return tensor * stages


def can_divide(job: Job) -> bool:
    """Whether a job has a parameter with which several ranks share a model."""
    return any(job.parameter_for(role) in job.parameters for role in (TENSOR, STAGES))


def replicas_of(case: Case, layout: Layout) -> int:
    """Return how many whole replicas of the model train."""
    return models_of(case.request, layout) // ranks_per_replica(case.job, case.request.settings)


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
