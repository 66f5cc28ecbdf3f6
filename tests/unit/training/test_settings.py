"""The settings of a script of one's own: typed, with its own defaults, over which the command line goes."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import get_type_hints

import pytest

from hpclaunch import training
from hpclaunch.training import options
from hpclaunch.training.program.settings import GROUPS, TORCH_GROUPS, Settings

ROWS = options.rows_of({options.FROM: GROUPS})
TYPES = {"bool": bool, "int": int, "float": float, "text": str, "epochs": tuple[float, ...]}


def test_every_setting_of_the_library_is_declared_with_its_type() -> None:
    declared = get_type_hints(Settings)
    rows = {**options.rows_of({options.FROM: TORCH_GROUPS}), **ROWS}
    assert {name: TYPES[row["type"]] for name, row in rows.items()} | {"data_dir": str, "strategy": str} == declared


def test_the_command_line_goes_over_the_scripts_defaults_and_these_over_the_librarys() -> None:
    found = training.settings("a script", words=["--epochs=7"], epochs=5, learning_rate=0.25)
    assert (found.epochs, found.learning_rate, found.momentum) == (7, 0.25, ROWS["momentum"]["default"])
    assert json.loads(json.dumps(vars(found)))["epochs"] == 7


def test_a_setting_is_chosen_by_the_program_or_the_command_line(tmp_path: Path) -> None:
    found = training.settings(words=["--epochs=7", "--default=decay=cosine"], learning_rate=0.001)
    chosen = {name for name in ROWS if found.is_chosen(name)}
    assert chosen == {"epochs", "decay", "learning_rate"} and found.decay == "cosine"
    assert copy.copy(found).is_chosen("epochs") and "_chosen" not in vars(found)
    (tmp_path / "parameters.json").write_text('{"from": "samples", "optimizer": "sgd"}')
    job = training.settings(words=[], script=str(tmp_path / "train.py"))
    assert {name for name in ROWS if job.is_chosen(name)} == {"optimizer"}
    assert training.Settings(epochs=5).is_chosen("epochs")


def test_a_script_has_settings_of_its_own() -> None:
    size = {"default": 64, "at_least": 8, "help": "pixels per side"}
    assert training.settings(words=["--size=32"], size=size).size == 32
    with pytest.raises(SystemExit):
        training.settings(words=["--size=4"], size=size)


@pytest.mark.parametrize(
    ("defaults", "message"),
    [
        ({"epoch": 5}, "there is no setting 'epoch': did you mean 'epochs'?"),
        ({"size": {"help": "pixels"}}, "a setting of your own has a default and a help text"),
        ({"epochs": 0}, "epochs: '0': a number at least 1 is expected"),
        ({"epochs": 2.5}, "epochs: '2.5': a number at least 1 is expected"),
        ({"optimizer": "adamm"}, "optimizer: 'adamm' is not one of adam, adamw"),
        ({"xla": "perhaps"}, "xla: 'perhaps': true or false is expected"),
    ],
)
def test_a_default_that_cannot_be_is_refused_at_once(defaults: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        training.settings(words=[], **defaults)


def test_the_names_of_the_library_are_those_that_it_says() -> None:
    for name in training.__all__:
        if name in ("Settings", "settings", "Run", "start"):  # the others need TensorFlow
            assert getattr(training, name)
    with pytest.raises(AttributeError, match="no attribute 'fitt'"):
        _ = training.fitt  # type: ignore[attr-defined]
