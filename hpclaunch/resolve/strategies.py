"""What averages a job's gradients, where the job offers a choice: Horovod, unless a TensorFlow strategy is typed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hpclaunch.config.job import Job, Role
from hpclaunch.core.errors import did_you_mean
from hpclaunch.core.spec import (
    CENTRAL_STORAGE,
    HOROVOD,
    MIRRORED,
    MULTIWORKER,
    ONE_DEVICE,
    TENSORFLOW,
    Layout,
    Pairs,
    Request,
)
from hpclaunch.core.units import count
from hpclaunch.launchers import LAUNCHERS
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions

ONE_TASK = (MIRRORED, CENTRAL_STORAGE, ONE_DEVICE)
"""The strategies of TensorFlow that train in a single process."""


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
        _refuse(asked, job, offered, decisions)
        return HOROVOD if offered else ""
    if asked == HOROVOD:
        return asked
    if TENSORFLOW in LAUNCHERS[launcher].refuses:
        decisions.fault(
            f"launcher {launcher} cannot start ranks for the strategy {asked}",
            next="leave --launcher out to use the site's default",
        )
    if asked in ONE_TASK and layout.world_size > 1:
        gpus = "one GPU" if asked == ONE_DEVICE else "all its GPUs"
        decisions.fault(
            f"{asked} runs one task on one node, with {gpus}, not {count(layout.nodes, 'node')} x "
            f"{count(layout.tasks_per_node, 'task')}",
            next="leave --nodes and --tasks-per-node out, or choose --strategy multiworker",
        )
    if asked in (MIRRORED, CENTRAL_STORAGE) and not layout.gpus_per_node:
        decisions.warnings.append(f"no GPU is requested, so {asked} has one replica, on the CPUs of its task")
    if asked == MULTIWORKER:
        decisions.warnings.append(_why_declined())
    return asked


def _refuse(asked: str, job: Job, offered: Sequence[str], decisions: Decisions) -> None:
    """Note why there is no such strategy; TensorFlow's own names, such as MirroredStrategy, are understood."""
    plain = _plain_name(asked)
    reason = _impossible(plain)
    if reason is not None:
        what, instead = reason
        decisions.fault(what, where=f"--strategy {asked}", next=f"leave --strategy out: {instead}")
    elif offered:
        same = [name for name in offered if plain == _plain_name(name)]
        near = f"; it is called {same[0]} here" if same else did_you_mean(asked, offered)
        decisions.fault(f"{job.name} has no strategy {asked!r}{near}", allowed=", ".join(offered))
    else:
        decisions.fault(
            f"{job.name} offers no choice of strategy",
            next="leave --strategy out; if the program accepts --strategy=NAME, add 'strategies: …' to its job.yaml",
        )


def _plain_name(name: str) -> str:
    """Return a strategy's name without case and hyphens, and without what the names of TensorFlow's classes add."""
    last = re.sub(r"[-_\s]", "", name.rpartition(".")[2].lower())
    return re.sub(r"strategy(v\d+)?$", "", last).replace("multiworkermirrored", "multiworker")


def _impossible(plain: str) -> tuple[str, str] | None:
    """Return why hpclaunch has no strategy of this plain name, and what to take instead; None for any other name."""
    if plain in ("parameterserver", "parameterservers", "ps"):
        from hpclaunch.guidelines.reasoning import GUIDELINES

        what = (
            "parameter servers are not offered: their variables are updated asynchronously, so gradients are stale and "
            "runs cannot be reproduced, and over gRPC, without the interconnect's RDMA"
        )
        instead = (
            f"Horovod averages the gradients of all ranks in every step; or --strategy {CENTRAL_STORAGE}, whose "
            "variables are in the memory of one node"
        )
        return f"{what}; both are declined by {GUIDELINES}", instead
    if plain == "tpu":
        what = "TPUStrategy needs Google's TPUs, which no site with Slurm has"
        return what, "Horovod trains on the site's GPUs or CPUs"
    return None


def takes_several_gpus(request: Request) -> bool:
    """Whether one task can use more than one GPU; a rank of Horovod uses one."""
    return request.strategy in (MIRRORED, MULTIWORKER, CENTRAL_STORAGE)


def is_tensorflows(request: Request) -> bool:
    """Whether a strategy of TensorFlow is typed, in place of Horovod."""
    return request.strategy not in (None, HOROVOD)


def models_of(request: Request, layout: Layout) -> int:
    """Return how many GPUs may each hold a model: one for each rank, or for each GPU of a task that uses several."""
    several = takes_several_gpus(request) and not layout.stand_in_gpus
    return layout.world_size * (max(1, layout.gpus_per_node // layout.tasks_per_node) if several else 1)


TENSOR: Role = "tensor_parallel"
STAGES: Role = "pipeline_stages"


def ranks_by_role(job: Job, typed: Mapping[str, str]) -> tuple[int, int]:
    """Return the values of tensor_parallel and pipeline_stages with these typed settings; 1 where the job has none.

    A value that cannot be read counts as 1: ``resolve.program.command`` refuses it.
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
