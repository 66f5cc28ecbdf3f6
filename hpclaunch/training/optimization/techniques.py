"""Reads a job's options so that what was typed decides, and tells which of them do not go together."""

from __future__ import annotations

import argparse
from typing import Any, Callable, Sequence

from hpclaunch.training import options
from hpclaunch.training.optimization import learning_rate
from hpclaunch.training.optimization.optimizers import WITH_WEIGHT_DECAY
from hpclaunch.training.rank import strategies
from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.world import World


def parse(parser: argparse.ArgumentParser, words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; typed options override defaults that conflict with them.

    So --decay=cosine is enough where the job's own decay has steps, and --warmup-steps where it warms up by epochs.
    Two typed options that conflict stay as they are, and `check` refuses them: also where one is typed as its default.
    """
    asked, typed = options.parse(parser, words)
    for name, without, conflicts in _OVERRIDDEN:
        if name not in typed and conflicts(asked):
            setattr(asked, name, without)
    return asked


def _adascale(asked: Any) -> bool:
    return bool(asked.scale_learning_rate == learning_rate.ADASCALE)


_OVERRIDDEN: tuple[tuple[str, Any, Callable[[Any], Any]], ...] = (
    ("decay_epochs", (), lambda asked: asked.decay != "step"),
    ("warmup_epochs", 0.0, lambda asked: asked.warmup_steps or _adascale(asked)),
    ("warmup_steps", 0, lambda asked: asked.warmup_epochs or _adascale(asked)),
    ("weight_decay", 0.0, lambda asked: asked.optimizer not in WITH_WEIGHT_DECAY),
    ("momentum_correction", True, lambda asked: asked.optimizer != "sgd"),
)
"""A default, its value when something else overrides it, and when that is so."""


def check(asked: argparse.Namespace, world: World, in_memory: bool = True) -> None:
    """Raise AgreedError with everything in the options that does not go together.

    in_memory: the job's stand-in data are made in memory, not written as files.
    """
    found = faults(asked, in_memory)
    if found:
        raise AgreedError("; ".join(found), speaks=world.is_root)


def faults(asked: Any, in_memory: bool = True) -> list[str]:
    """Why these options do not go together, a sentence each; an option without effect is a fault too."""
    adascale = _adascale(asked)
    made_up = asked.synthetic and in_memory
    synchronized = getattr(asked, "batch_norm", "none") == "synchronized"
    rules = [
        (asked.warmup_epochs and asked.warmup_steps, "say --warmup-epochs or --warmup-steps, not both"),
        (asked.decay == "step" and not asked.decay_epochs, "--decay=step needs --decay-epochs, such as 30,60,80"),
        (asked.decay != "step" and asked.decay_epochs, "--decay-epochs has an effect with --decay=step alone"),
        (
            asked.weight_decay and asked.optimizer not in WITH_WEIGHT_DECAY,
            "--weight-decay has no effect on {}, but on {}".format(asked.optimizer, ", ".join(WITH_WEIGHT_DECAY)),
        ),
        (
            not asked.momentum_correction and asked.optimizer != "sgd",
            "--momentum-correction=false has an effect on sgd alone",
        ),
        (made_up and asked.stage_to, "made-up images (--synthetic=true) cannot be staged: drop --stage-to"),
        (made_up and asked.input == "stream", "made-up images are in memory: --input=stream needs data"),
        (adascale and asked.adasum, "AdaScale measures averaged gradients: it does not go with --adasum=true"),
        (adascale and (asked.warmup_epochs or asked.warmup_steps), "AdaScale is a warm-up itself: set no other"),
        (adascale and asked.precision == "float16", "AdaScale's averages break when the loss scale of float16 changes"),
        (asked.xla and asked.accumulation > 1, "--xla=true does not go with --accumulation above 1"),
        (asked.xla and synchronized, "XLA cannot compile the all-reduce of --batch-norm=synchronized"),
    ]
    return [text for broken, text in rules if broken] + strategies.faults(asked)
