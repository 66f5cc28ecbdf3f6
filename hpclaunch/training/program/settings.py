"""The settings of a training script: their defaults, read over by the command line; it needs no TensorFlow."""

from __future__ import annotations

import argparse
import difflib
from typing import Any, Callable, Mapping, Sequence

from hpclaunch.training import options
from hpclaunch.training.optimization import techniques
from hpclaunch.training.program.setting_types import SettingTypes

GROUPS = ["images", "batch_norm", "model_parallel"]
"""The groups of parameters.json that a script of one's own has: all of TensorFlow's."""
PLAIN_GROUP = "other_frameworks"
"""The group for a script that trains with JAX; its settings are among those of GROUPS."""
TORCH_GROUPS = ["pytorch", "optimizers"]
"""The group for a script that trains with PyTorch: PLAIN_GROUP, and how its steps are computed."""


class Settings(SettingTypes):
    """The settings of a training script, by name; their meaning, bounds and defaults are in training/parameters.json.

    A script's own settings are attributes too. `vars(settings)` is the dictionary of all of them.
    """

    __slots__ = ("_chosen", "_own")  # no part of vars()

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self._chosen = frozenset(values)
        self._own: frozenset[str] = frozenset()

    def is_chosen(self, name: str) -> bool:
        """Whether the program or the command line has chosen a value for `name`; else it is the library's default."""
        return name in self._chosen

    def is_own(self, name: str) -> bool:
        """Whether the program declares the setting `name` itself, so that it means what the program makes of it."""
        return name in self._own

    # Every script has these two, whatever its parameters are (options.py).
    data_dir: str
    strategy: str


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
    """The settings of a program that trains with PyTorch: those of TORCH_GROUPS.

    A job file may leave ``optimizers`` out, for a program that makes its optimizer itself.
    """
    given = options.of_job(script) if script else {options.FROM: TORCH_GROUPS}
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
    found._own = frozenset(name for name, row in {**given, **defaults}.items() if isinstance(row, dict))
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
