"""The optimizer of a training: the one that the program gives, if it can be used, else that of the settings."""

from __future__ import annotations

from typing import Any

from hpclaunch.training.optimization import given, hidden_weights, optimizer_state, optimizers
from hpclaunch.training.program.run import Run
from hpclaunch.training.rank.failure import AgreedError


def settings(run: Run, optimizer: Any) -> Any:
    """The settings of the run, with what `optimizer` (None: that of the settings) has itself.

    Raises AgreedError with all reasons why they do not fit together.
    """
    if optimizer is None:
        return run.settings
    faults = given.faults(optimizer, run.settings)
    if faults:
        raise AgreedError("; ".join(faults), speaks=run.is_root)
    return given.described(run.settings, optimizer)


def make(run: Run, asked: Any, optimizer: Any, rate: float) -> Any:
    """A new optimizer with learning rate `rate`: like `optimizer`, or (None) that of the settings `asked`.

    Raises AgreedError if `optimizer` is of a class that cannot be made again.
    """
    if optimizer is None:
        return optimizers.from_options(asked, rate)
    try:
        return given.made(optimizer, rate)
    except (TypeError, ValueError) as error:
        raise AgreedError(
            "{} cannot be made again from its get_config(), as Horovod does ({}): get_config() must return every "
            "argument of __init__".format(given.in_words(optimizer), error),
            speaks=run.is_root,
        ) from None


def divide_weights(run: Run, asked: Any, model: Any) -> None:
    """Mark which weights of the model Muon takes, if it is the optimizer of the settings, and report them.

    Raises AgreedError for a pattern of muon_exclude that matches no weight.
    """
    if asked.optimizer not in optimizers.OF_MATRICES:
        return
    exclude = [pattern.strip() for pattern in asked.muon_exclude.split(",") if pattern.strip()]
    try:
        division = hidden_weights.mark(model, exclude, only_hidden=asked.muon_weights == "hidden")
    except ValueError as error:
        raise AgreedError("--muon-exclude={}: {}".format(asked.muon_exclude, error), speaks=run.is_root) from None
    if run.is_root:
        print(division.in_words(), flush=True)


def is_adaptive(optimizer: Any) -> bool | None:
    """Whether the given optimizer divides by the gradient's size; None if there is none."""
    return None if optimizer is None else given.is_adaptive(optimizer)


def check_state(run: Run, optimizer: Any, model: Any) -> None:
    """Raise AgreedError if no checkpoint can hold the whole state of `optimizer`."""
    unknown = optimizer_state.unknown(optimizer, model.trainable_variables)
    if unknown:
        raise AgreedError(
            "{} keeps {} outside its `variables`, so a run could not be continued with it: use another optimizer, for "
            "example that of tf.keras.optimizers.legacy".format(type(optimizer).__name__, ", ".join(unknown)),
            speaks=run.is_root,
        )
