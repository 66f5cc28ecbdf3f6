"""An optimizer of Keras that the program gives, in place of that of the settings: what it may be, and its rate."""

from __future__ import annotations

import copy
import numbers
from typing import Any

import numpy as np
import tensorflow as tf

from hpclaunch.training.optimization.learning_rate import ADASCALE
from hpclaunch.training.rank import legacy_keras

_OF_KERAS = (tf.keras.optimizers.Optimizer, legacy_keras.Optimizer)
_OF_OURS = ("optimizer", "weight_decay", "momentum_correction", "exclude_vectors")  # no given optimizer follows them
_OF_BOTH = ("learning_rate", "momentum")  # the program may pass them on
_EXCLUSIONS = ("_exclude_from_weight_decay", "_exclude_from_weight_decay_names")


def faults(optimizer: Any, settings: Any) -> list[str]:
    """Why `optimizer` cannot train with these settings (of training.settings), one sentence each."""
    if not isinstance(optimizer, _OF_KERAS):
        return [
            "optimizer={!r}: an optimizer of Keras is expected, such as tf.keras.optimizers.Adam(0.001); the settings "
            "choose one by its name".format(optimizer)
        ]
    wrapper = _wrapper(optimizer)
    if wrapper:
        return [wrapper]
    config, steps = optimizer.get_config(), int(optimizer.iterations)
    if "learning_rate" not in config:
        return [
            "get_config() of {} has no learning_rate, which the settings scale and change: add it, as Keras's "
            "optimizers do".format(in_words(optimizer))
        ]
    rules = [
        (
            _is_scheduled(optimizer, config),
            "the optimizer's learning rate is a schedule of Keras: give a number, which --decay and warm-up change",
        ),
        (
            # Nadam's "decay" is that of its momentum.
            config.get("decay") and keras_class(optimizer) != "Nadam",
            "the optimizer's own decay counts steps: omit it, and use --decay",
        ),
        (
            config.get("use_ema"),
            "use_ema=True changes weights when Keras's fit ends, which a resumed run calls twice: set --ema-decay",
        ),
        (
            steps,
            "the optimizer has already made {} steps, but a training begins with a new one: give "
            "type(optimizer).from_config(optimizer.get_config())".format(steps),
        ),
        (
            settings.scale_learning_rate == ADASCALE and not keras_class(optimizer),
            "AdaScale knows Keras's optimizers, but not what {} does with its gradients: use another "
            "--scale-learning-rate".format(type(optimizer).__name__),
        ),
    ]
    return [text for broken, text in rules if broken] + _conflicts(optimizer, config, settings)


def _is_scheduled(optimizer: Any, config: Any) -> bool:
    """Whether its rate changes by itself: a LearningRateSchedule, or a function, which only older optimizers take."""
    older = getattr(optimizer, "_hyper", {}).get("learning_rate")
    return not isinstance(config["learning_rate"], numbers.Real) or callable(older)


def _wrapper(optimizer: Any) -> str:
    if hasattr(optimizer, "_allreduce_grads"):
        return "the library averages gradients itself: give the optimizer without hvd.DistributedOptimizer"
    if hasattr(optimizer, "inner_optimizer"):
        return "--precision=float16 adds loss scaling: give the optimizer without LossScaleOptimizer"
    return ""


def _conflicts(optimizer: Any, config: Any, settings: Any) -> list[str]:
    """The settings that someone has chosen and that have no effect on a given optimizer."""
    chosen = [name for name in (*_OF_OURS, *_OF_BOTH) if settings.is_chosen(name)]
    idle = [name for name in chosen if name in _OF_OURS or not _is_passed_on(config.get(name), getattr(settings, name))]
    if not idle:
        return []
    return [
        "{} cannot change the optimizer that the program gives ({}): omit {}, or let the program give none".format(
            ", ".join("--" + name.replace("_", "-") for name in idle),
            in_words(optimizer),
            "it" if len(idle) == 1 else "them",
        )
    ]


def _is_passed_on(own: Any, chosen: float) -> bool:
    """Whether the program has given the optimizer the setting itself, as in SGD(momentum=settings.momentum)."""
    return not chosen if own is None else _shortest(own) == _shortest(chosen)


def in_words(optimizer: Any) -> str:
    """The optimizer's class as one writes it: tf.keras.optimizers.legacy.Adam, or module.Name of one's own."""
    name = type(optimizer).__name__
    for place in ("optimizers", "optimizers.legacy"):
        if _class_of_keras(place, name) is type(optimizer):
            return "tf.keras.{}.{}".format(place, name)
    return "{}.{}".format(type(optimizer).__module__, name)


def keras_class(optimizer: Any) -> str:
    """The name of Keras's optimizer that this one is or inherits from, such as SGD; empty if there is none."""
    for kind in type(optimizer).__mro__:
        if kind not in _OF_KERAS and kind in (
            _class_of_keras("optimizers", kind.__name__),
            _class_of_keras("optimizers.legacy", kind.__name__),
        ):
            return str(kind.__name__)
    return ""


def is_adaptive(optimizer: Any) -> bool:
    """Whether one of Keras's optimizers divides by the gradient's size: all do but SGD."""
    return keras_class(optimizer) != "SGD"


def described(settings: Any, optimizer: Any) -> Any:
    """A copy of the settings, for the schedule, the log and the checkpoints, with what `optimizer` has itself."""
    found, config = copy.copy(settings), optimizer.get_config()
    found.optimizer = in_words(optimizer)
    for name in (*_OF_BOTH, "weight_decay"):
        if name in config:
            setattr(found, name, _shortest(config[name] or 0.0))
    return found


def made(optimizer: Any, rate: float) -> Any:
    """A new optimizer like `optimizer`, without its state, with learning rate `rate`."""
    new = type(optimizer).from_config({**optimizer.get_config(), "learning_rate": rate})
    keep_exclusions(optimizer, new)
    return new


def keep_exclusions(optimizer: Any, copied: Any) -> None:
    """Exclude from weight decay in `copied` what `optimizer` excludes, which is no part of its get_config()."""
    for name in _EXCLUSIONS:
        if hasattr(optimizer, name):
            setattr(copied, name, getattr(optimizer, name))


def _class_of_keras(place: str, name: str) -> Any:
    home: Any = tf.keras.optimizers
    if place.endswith("legacy"):
        home = getattr(home, "legacy", None)
    return getattr(home, name, None)


def _shortest(value: float) -> float:
    """0.1 of Keras's float32, which is 0.10000000149."""
    return float(str(np.float32(value)))
