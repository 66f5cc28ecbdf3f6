"""What is expected of a job on a node before anything was measured: compute, fixed times, input, time outside steps."""

from __future__ import annotations

import math
from dataclasses import replace

from hpclaunch.core.spec import PYTORCH
from hpclaunch.guidelines.expected_timing import Prior
from hpclaunch.guidelines.figures import ModelFigures
from hpclaunch.guidelines.hardware import Compute, unmeasured_compute
from hpclaunch.guidelines.intervals import deviation
from hpclaunch.guidelines.memory import SLOTS
from hpclaunch.guidelines.overhead import (
    Overhead,
    Staged,
    expected_overhead,
    fixed_time,
    measured_overhead,
    reading_rate,
)
from hpclaunch.guidelines.parallelism import USABLE_NODE_MEMORY
from hpclaunch.planner.fitting.machine import NodeModel
from hpclaunch.planner.job.question import Question
from hpclaunch.planner.job.workload import Workload
from hpclaunch.resolve.environment.framework import stated_framework

INPUT, IN_MEMORY = "input", "memory"
"""The parameter of hpclaunch's training library for how samples are read, and its value for samples in memory."""


def prior_of(question: Question, work: Workload, node: NodeModel, figures: ModelFigures) -> Prior:
    """Return the prior of a job's step on a node type, with samples that fit the memory of its nodes.

    PyTorch starts operations one by one, ahead of the GPU: ResNet-50 took 30 ms with 32 and with 128 images on an H200
    (``benchmarks/published_tables.py``). The additive time is that of notebooks 3 and 4, with TensorFlow.
    """
    fixed = fixed_time(figures.operations, len(figures.layers))
    return Prior(
        compute=_compute_of(work, node, figures),
        fixed_s=fixed.seconds,
        fixed_spread=deviation(fixed.width),
        launches_ahead=node.on_gpus and stated_framework(question.case)[1] == PYTORCH,
        joining_s=node.links.library.joining_s,
        reading=reading_rate(node.cores, kept=keeps_samples(question), fits=True),
        reasons=(fixed.reason,),
    )


def _compute_of(work: Workload, node: NodeModel, figures: ModelFigures) -> Compute | None:
    if node.speed is None:
        return None
    saved, device = figures.model(work.precision).saved_bytes, node.speed
    if figures.decoder is not None and work.precision == "mixed":
        device = replace(device, derate=min(device.derate, device.of_decoders))
    return unmeasured_compute(device, work.arithmetic(node.speed.tf32 > 0), figures.flops_per_sample, saved)


def keeps_samples(question: Question) -> bool:
    """Whether the ranks keep their samples in memory, as far as the job's parameters say."""
    job = question.case.job
    if INPUT not in job.parameters:
        return False
    return dict(question.case.request.settings).get(INPUT, job.parameters[INPUT].default) == IN_MEMORY


def nodes_that_keep(question: Question, work: Workload, node: NodeModel) -> int:
    """Return the fewest nodes whose memory holds the data set; 1 where no number of nodes reads faster than another."""
    whole = work.dataset_bytes
    if keeps_samples(question) or whole is None or node.room is None:
        return 1
    return max(1, math.ceil(whole / (USABLE_NODE_MEMORY * node.room.node_bytes)))


def reading_on(nodes: int, question: Question, work: Workload, node: NodeModel) -> float:
    """Return the bytes/s of samples that each of so many nodes reads and decodes, if it was not measured."""
    kept, whole = keeps_samples(question), work.dataset_bytes
    share = math.inf if whole is None else whole / nodes
    fits = kept or (node.room is not None and share <= USABLE_NODE_MEMORY * node.room.node_bytes)
    return reading_rate(node.cores, kept=kept, fits=fits, gbytes_per_s=node.links.node_gbytes_per_s)


def overhead_of(question: Question, work: Workload, nodes: int, epoch_s: float) -> Overhead:
    """Return the time outside the steps on so many nodes; ``epoch_s``: seconds of training in an epoch."""
    if question.evidence.overhead_s is not None:
        return measured_overhead(question.evidence.overhead_s)
    parameters = question.figures.parameters if question.figures else 0
    staged = Staged(dataset_bytes=work.dataset_bytes, parameters=parameters, slots=SLOTS.get(work.optimizer, 2))
    return expected_overhead(nodes, staged, kept=keeps_samples(question), epoch_s=epoch_s)
