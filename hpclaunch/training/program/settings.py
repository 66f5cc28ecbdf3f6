"""The settings of a training script: their defaults, read over by the command line; it needs no TensorFlow."""

from __future__ import annotations

import argparse
import difflib
from typing import Any, Callable, Mapping, Sequence

from hpclaunch.training import options
from hpclaunch.training.optimization import techniques

GROUPS = ["images", "batch_norm", "model_parallel"]
"""The groups of parameters.json that a script of one's own has: all of TensorFlow's."""
PLAIN_GROUP = "other_frameworks"
"""The group for a script that trains with JAX; its settings are among those of GROUPS."""
TORCH_GROUP = "pytorch"
"""The group for a script that trains with PyTorch: PLAIN_GROUP, and how its steps are computed."""


class Settings(argparse.Namespace):
    """The settings of a training script, by name; their meaning, bounds and defaults are in training/parameters.json.

    A script's own settings are attributes too. `vars(settings)` is the dictionary of all of them.
    """

    __slots__ = ("_chosen",)  # no part of vars()

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self._chosen = frozenset(values)

    def is_chosen(self, name: str) -> bool:
        """Whether the program or the command line has chosen a value for `name`; else it is the library's default."""
        return name in self._chosen

    data_dir: str
    strategy: str
    epochs: int
    batch_size_per_rank: int
    accumulation: int
    seed: int
    noise_scale: bool
    learning_rate: float
    scale_learning_rate: str
    warmup_epochs: float
    warmup_steps: int
    decay: str
    decay_epochs: tuple[float, ...]
    decay_factor: float
    decay_power: float
    optimizer: str
    momentum: float
    momentum_correction: bool
    muon_momentum: float
    muon_weights: str
    muon_exclude: str
    weight_decay: float
    exclude_vectors: bool
    shard_optimizer: bool
    ema_decay: float
    tensor_parallel: int
    pipeline_stages: int
    recompute: bool
    batch_norm: str
    ghost_batch_size: int
    precision: str
    compression: str
    adasum: bool
    gradient_lag: bool
    update_groups: int
    group_steps: int
    xla: bool
    compile: bool
    channels_last: bool
    steps_per_execution: int
    input: str
    stage_to: str
    synthetic: bool
    synthetic_samples: int
    train_samples: int
    record_shards: bool
    reshuffle: str
    validation_every: int
    validation_part: float
    validate_on: str
    patience: int
    monitor: str
    monitor_mode: str
    min_delta: float
    keep_best: bool
    restore_best: bool
    top_k: int
    confusion_matrix: bool
    tensorboard: bool
    profile_first: int
    profile_steps: int
    profile_rank: int
    flip_horizontal: bool
    flip_vertical: bool
    crop: int
    scale_images: float
    shear: float
    lens_distortion: float
    brightness: float
    contrast: float
    saturation: float
    mixup: float
    cutmix: float
    checkpoint_minutes: float
    checkpoint_steps: int
    keep_checkpoints: int
    export_model: bool
    mlflow: bool
    stall_minutes: float
    resume: bool


def settings(description: str = "", script: str = "", words: Sequence[str] | None = None, **defaults: Any) -> Settings:
    """The settings of this program: its own defaults, unless the command line says otherwise (--learning-rate=0.1).

    description: for --help. script: `__file__` of a job whose parameters are in the file parameters.json beside it;
    without one, the program has every setting of the library. words: in place of the command line. defaults: this
    program's values, as in settings(epochs=5, learning_rate=0.1), and settings of its own, each with a default and a
    help text, as in settings(size={"default": 64, "at_least": 8, "help": "pixels per side"}).
    Raises ValueError for a default that is unknown or out of bounds. A wrong command line ends the program with a
    message.
    """
    given = options.of_job(script) if script else {options.FROM: GROUPS}
    return _read(description, given, words, defaults, techniques.parse)


def plain_settings(
    description: str = "", script: str = "", words: Sequence[str] | None = None, **defaults: Any
) -> Settings:
    """The settings of a program that trains with JAX: as `settings`, but fewer (PLAIN_GROUP)."""
    given = options.of_job(script) if script else {options.FROM: PLAIN_GROUP}
    return _read(description, given, words, defaults, techniques.parse_plain)


def torch_settings(
    description: str = "", script: str = "", words: Sequence[str] | None = None, **defaults: Any
) -> Settings:
    """The settings of a program that trains with PyTorch: those of TORCH_GROUP."""
    given = options.of_job(script) if script else {options.FROM: TORCH_GROUP}
    return _read(description, given, words, defaults, techniques.parse_plain)


def _read(
    description: str,
    given: Mapping[str, Any],
    words: Sequence[str] | None,
    defaults: Mapping[str, Any],
    parse: Callable[[argparse.ArgumentParser, Sequence[str] | None], argparse.Namespace],
) -> Settings:
    _check(options.rows_of(given), defaults)
    parser = options.parser(description, {**given, **defaults})
    found = Settings(**vars(parse(parser, words)))
    found._chosen = frozenset({*given, *defaults, *options.chosen(parser, words)})
    return found


def _check(rows: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    for name, value in defaults.items():
        row = value if isinstance(value, dict) else {"default": value}
        if name not in rows and not (isinstance(value, dict) and "default" in value):
            near = difflib.get_close_matches(name, rows, 1)
            raise ValueError(
                "there is no setting {!r}{}; a setting of your own has a default and a help text: "
                '{}={{"default": ..., "help": "..."}}'.format(
                    name, ": did you mean {!r}?".format(near[0]) if near else "", name
                )
            )
        options.check_default(name, {**rows.get(name, {}), **row})
