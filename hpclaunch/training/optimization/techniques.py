"""Reads a job's options so that typed ones override conflicting defaults, and checks that they can be combined."""

from __future__ import annotations

import argparse
from typing import Any, Callable, Sequence

from hpclaunch.training import options
from hpclaunch.training.optimization import learning_rate
from hpclaunch.training.optimization.optimizers import OF_MATRICES
from hpclaunch.training.rank import strategies
from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.world import World


def parse(parser: argparse.ArgumentParser, words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; typed options override defaults that conflict with them.

    So --decay=cosine is enough if the job's own decay has steps, and --warmup-steps if its warm-up is in epochs. Two
    typed options that conflict stay unchanged, even if one has its default value; `check` refuses them.
    """
    return _parse(parser, words, options.idle)


def parse_plain(parser: argparse.ArgumentParser, words: Sequence[str] | None = None) -> argparse.Namespace:
    """As `parse`, for a program of PyTorch or JAX, whose optimizer and its settings are its own."""
    return _parse(parser, words, _idle_beside_the_optimizer)


def _parse(
    parser: argparse.ArgumentParser, words: Sequence[str] | None, idle: Callable[[Any], list[options.Idle]]
) -> argparse.Namespace:
    asked, typed = options.parse(parser, words)
    for one in idle(asked):
        if one.name not in typed:
            setattr(asked, one.name, one.off)
    for conflict in options.conflicts(asked):
        if conflict.gives_way and conflict.other not in typed:
            setattr(asked, conflict.other, type(getattr(asked, conflict.other))())
    for name, without, conflicts in _OVERRIDDEN:
        if name not in typed and conflicts(asked):
            setattr(asked, name, without)
    return asked


def _idle_beside_the_optimizer(asked: Any) -> list[options.Idle]:
    """The options without effect, but for those of an optimizer: a program has its own, whatever that is called."""
    return [one for one in options.idle(asked) if one.needs != "optimizer"]


def _adascale(asked: Any) -> bool:
    return bool(asked.scale_learning_rate == learning_rate.ADASCALE)


_OVERRIDDEN: tuple[tuple[str, Any, Callable[[Any], Any]], ...] = (
    ("warmup_epochs", 0.0, lambda asked: asked.warmup_steps or _adascale(asked)),
    ("warmup_steps", 0, lambda asked: asked.warmup_epochs or _adascale(asked)),
)
"""A default, its value when another option overrides it, and the condition for that."""


def check(asked: argparse.Namespace, world: World) -> None:
    """Raise AgreedError with all conflicts between the options."""
    _refuse(faults(asked), world)


def check_plain(asked: argparse.Namespace, world: World) -> None:
    """As `check`, for a program of PyTorch or JAX."""
    idle = [one.why for one in _idle_beside_the_optimizer(asked)]
    conflicts = [one.why for one in options.conflicts(asked)]
    _refuse([*idle, *_rate_faults(asked), *_monitoring_faults(asked), *conflicts], world)


def check_made_up(asked: argparse.Namespace, world: World) -> None:
    """Raise AgreedError with what cannot be done with synthetic images, which are made in memory."""
    _refuse(made_up_faults(asked), world)


def _refuse(found: list[str], world: World) -> None:
    if found:
        raise AgreedError("; ".join(found), speaks=world.is_root)


def made_up_faults(asked: Any) -> list[str]:
    """Why these options cannot be combined with synthetic images in memory, one sentence each."""
    rules = [
        (asked.stage_to, "synthetic images (--synthetic=true) cannot be staged: omit --stage-to"),
        (asked.input == "stream", "synthetic images are in memory: --input=stream needs data"),
    ]
    return [text for broken, text in rules if asked.synthetic and broken]


def faults(asked: Any) -> list[str]:
    """Why these options cannot be combined, one sentence each; an option without effect is a fault too.

    Pairs of values stand in ``conflicts`` of parameters.json where its form can say them. They are refused before the
    submission, too; the rules below are found by the ranks.
    """
    adascale = _adascale(asked)
    warms_up = asked.warmup_epochs or asked.warmup_steps
    tensor_parallel = getattr(asked, "tensor_parallel", 1) > 1
    stages = getattr(asked, "pipeline_stages", 1)
    split = "--pipeline-stages" if stages > 1 else "--tensor-parallel"
    is_split = tensor_parallel or stages > 1
    rules = [
        (
            asked.optimizer in OF_MATRICES and (asked.shard_optimizer or is_split),
            "--optimizer={} needs whole matrices: omit {}".format(
                asked.optimizer, "--shard-optimizer=true" if asked.shard_optimizer else split
            ),
        ),
        (adascale and warms_up, "AdaScale includes a warm-up: omit --warmup-epochs and --warmup-steps"),
        (
            adascale and asked.precision == "float16",
            "AdaScale cannot be used with float16, whose loss scale changes its averages",
        ),
        (asked.xla and asked.accumulation > 1, "--xla=true cannot be combined with --accumulation above 1"),
    ]
    found = [one.why for one in options.idle(asked)] + [one.why for one in options.conflicts(asked)]
    found += _rate_faults(asked) + [text for broken, text in rules if broken]
    return found + _update_faults(asked, split) + strategies.faults(asked) + _monitoring_faults(asked)


def _rate_faults(asked: Any) -> list[str]:
    """Why the options of the learning rate cannot be combined, whatever the framework."""
    decays_in_steps = asked.decay == "step"
    rules = [
        (asked.warmup_epochs and asked.warmup_steps, "use --warmup-epochs or --warmup-steps, not both"),
        (decays_in_steps and not asked.decay_epochs, "--decay=step needs --decay-epochs, such as 30,60,80"),
    ]
    return [text for broken, text in rules if broken]


def _update_faults(asked: Any, split: str) -> list[str]:
    """Why gradient lag and groups that train apart cannot be combined with others. split: that of a divided model."""
    is_split = getattr(asked, "tensor_parallel", 1) > 1 or getattr(asked, "pipeline_stages", 1) > 1
    apart = asked.update_groups > 1
    if not apart and not asked.gradient_lag:
        unused = asked.group_steps != options.default_of("group_steps")
        return ["--group-steps has an effect only with --update-groups above 1"] if unused else []
    this = "--update-groups above 1" if apart else "--gradient-lag=true"
    others = [
        (apart and asked.gradient_lag, "--gradient-lag=true"),
        (asked.adasum, "--adasum=true"),
        (asked.shard_optimizer, "--shard-optimizer=true"),
        (_adascale(asked), "--scale-learning-rate=adascale"),
        (is_split, split + " above 1"),
        (asked.xla and not apart, "--xla=true"),
        (apart and getattr(asked, "batch_norm", "none") == "synchronized", "--batch-norm=synchronized"),
    ]
    found = ["{} cannot be combined with {}: omit one of them".format(this, other) for used, other in others if used]
    if asked.precision == "float16":
        found.append("{} needs one loss scale for all gradients: use --precision=bfloat16, not float16".format(this))
    if apart and asked.group_steps % asked.steps_per_execution:
        found.append(
            "--group-steps={} must be a multiple of --steps-per-execution={}: weights are exchanged between "
            "executions".format(asked.group_steps, asked.steps_per_execution)
        )
    return found


def watches_best(asked: Any) -> bool:
    """Whether the options need the best epoch: to stop after it, to keep it, or to return to it."""
    return any(getattr(asked, name, False) for name in ("patience", "keep_best", "restore_best"))


def _monitoring_faults(asked: Any) -> list[str]:
    """Why the options of results cannot be combined; not all jobs have them."""
    return ["--top-k=1 is the accuracy: use 2 or more"] if getattr(asked, "top_k", 0) == 1 else []
