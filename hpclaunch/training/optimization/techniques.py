"""The options of the training techniques that every bundled job has, and which of them do not go together."""

from __future__ import annotations

import argparse
from typing import Any

from hpclaunch.training.optimization import learning_rate
from hpclaunch.training.options import at_least, below_one, boolean, positive
from hpclaunch.training.rank import strategies
from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.world import World

# Said here and not imported, as those modules import TensorFlow; a test compares them.
OPTIMIZERS = ("adam", "adamw", "lamb", "larc", "lars", "sgd")
WITH_WEIGHT_DECAY = ("adamw", "lamb", "larc", "lars")
BATCH_NORMS = ("none", "local", "ghost", "synchronized")
PRECISIONS = ("float32", "float16", "bfloat16")
INPUTS = ("memory", "stream")


def add_options(
    parser: argparse.ArgumentParser,
    epochs: int,
    batch_size: int,
    batch_norm: bool,
    colours: bool = True,
    images: bool = True,
) -> None:
    """Add the techniques to a job's parser; epochs, batch_size: defaults; batch_norm: the model can have it.

    images: samples are images, which can be augmented; colours: they have some; in grey, a saturation would do nothing.
    Other defaults are the parser's own (set_defaults).
    """
    strategies.add_option(parser)
    add = parser.add_argument
    add("--epochs", type=at_least(1), default=epochs, help="passes over the training images")
    add("--batch-size-per-rank", type=at_least(1), default=batch_size, help="images that a rank computes at once")
    add("--accumulation", type=at_least(1), default=1, help="such batches in one step, one after the other")
    add("--steps-per-execution", type=at_least(1), default=1, help="steps between two looks of Python")
    add("--xla", type=boolean, default=False, help="compile the step with XLA")
    add("--precision", choices=PRECISIONS, default="float32", help="of the arithmetic; weights stay float32")
    add("--compression", choices=["none", "fp16"], default="none", help="of gradients on their way")
    add("--adasum", type=boolean, default=False, help="add gradients by their angles instead of averaging them")
    add("--noise-scale", type=boolean, default=True, help="measure how noisy gradients are: what larger batches gain")
    if batch_norm:
        add("--batch-norm", choices=BATCH_NORMS, default="local", help="over a rank's batch, parts of it, all ranks'")
        add("--ghost-batch-size", type=at_least(1), default=32, help="images normalized together by ghost")
    _add_optimizer(add)
    _add_learning_rate(add)
    _add_input(add)
    if images:
        _add_augmentation(add, colours)


def _add_optimizer(add: Any) -> None:
    add("--optimizer", choices=OPTIMIZERS, default="adam", help="the optimizer")
    add("--momentum", type=below_one, default=0.9, help="of sgd, lars and larc")
    add("--momentum-correction", type=boolean, default=True, help="sgd's steps in flight follow a changed rate")
    add("--weight-decay", type=at_least(0, float), default=0.0, help="of " + ", ".join(WITH_WEIGHT_DECAY))
    add(
        "--exclude-vectors",
        type=boolean,
        default=True,
        help="keep biases and normalization out of weight decay and layer-wise rates",
    )


def _add_learning_rate(add: Any) -> None:
    add("--learning-rate", type=positive, default=0.001, help="base learning rate, for one rank")
    add(
        "--scale-learning-rate",
        choices=sorted(learning_rate.SCALING),
        default="none",
        help="with the number of batches in a step; adascale: as much as their noise allows",
    )
    add("--warmup-epochs", type=at_least(0, float), default=0.0, help="epochs until the scaled rate is reached")
    add("--warmup-steps", type=at_least(0), default=0, help="the same in steps (0: as --warmup-epochs says)")
    add("--decay", choices=learning_rate.DECAYS, default="constant", help="of the rate after the warm-up")
    add("--decay-epochs", type=_epochs, default=(), help="where the decay step lowers the rate, such as 30,60,80")
    add("--decay-factor", type=positive, default=0.1, help="of step and exponential; pace of inverse")
    add("--decay-power", type=positive, default=1.0, help="of polynomial")


def _add_input(add: Any) -> None:
    add("--input", choices=INPUTS, default="memory", help="keep a rank's images in memory, or read them every epoch")
    add("--stage-to", default="", help="a folder on every node, such as $TMPDIR, that gets a copy of the data first")


def _add_augmentation(add: Any, colours: bool) -> None:
    part = below_one
    add("--flip-horizontal", type=boolean, default=False, help="mirror every second image, left to right")
    add("--flip-vertical", type=boolean, default=False, help="turn every second image upside down")
    add("--crop", type=at_least(0), default=0, help="shift images by up to so many pixels in each direction")
    add("--scale-images", type=part, default=0.0, help="enlarge or shrink images by up to this part")
    add("--brightness", type=part, default=0.0, help="change the brightness by up to this part")
    add("--contrast", type=part, default=0.0, help="change the contrast by up to this part")
    if colours:
        add("--saturation", type=part, default=0.0, help="change the saturation by up to this part")
    add("--mixup", type=at_least(0, float), default=0.0, help="mix two images and their labels: alpha of the shares")
    add("--cutmix", type=at_least(0, float), default=0.0, help="put a box of one image into another: alpha")


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Read the command line; what a job only has as its default gives way to a choice that contradicts it.

    So --decay=cosine is enough where the job's own decay has steps, and --warmup-steps where it warms up by epochs. A
    launcher passes every parameter: a value that is the default counts as one that nobody chose.
    """
    asked = parser.parse_args()
    adascale = asked.scale_learning_rate == learning_rate.ADASCALE
    if asked.decay != "step" and asked.decay_epochs == parser.get_default("decay_epochs"):
        asked.decay_epochs = ()
    if (adascale or asked.warmup_steps) and asked.warmup_epochs == parser.get_default("warmup_epochs"):
        asked.warmup_epochs = 0.0
    return asked


def check(asked: argparse.Namespace, world: World, in_memory: bool = True) -> None:
    """Raise AgreedError with everything in the options that does not go together.

    in_memory: the job's stand-in data are made in memory, not written as files.
    """
    found = faults(asked, in_memory)
    if found:
        raise AgreedError("; ".join(found), speaks=world.is_root)


def faults(asked: Any, in_memory: bool = True) -> list[str]:
    """Why these options do not go together, a sentence each; an option without effect is a fault too."""
    adascale = asked.scale_learning_rate == learning_rate.ADASCALE
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


def _epochs(text: str) -> tuple[float, ...]:
    try:
        return learning_rate.epochs_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
