"""The options of the techniques: defaults as in the job files, and what does not go together."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

try:
    import numpy as np  # noqa: F401
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

from hpclaunch.config.job import spell
from hpclaunch.training.optimization import techniques
from tests.builders import bundled_job
from tests.unit.planner.questions import plan_of
from tests.unit.training.optimization.test_learning_rate import asked


def train_of(job: str) -> ModuleType:
    path = Path(bundled_job(job).folder) / "train.py"
    spec = importlib.util.spec_from_file_location(f"{job}_train", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["chips", "cifar", "cosmoflow", "mnist", "resnet50"])
def test_a_job_file_and_its_script_have_the_same_options(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = bundled_job(name).parameters
    script = train_of(name)
    monkeypatch.setattr(sys, "argv", ["train.py"])
    plain = vars(script.parse())
    as_launched = [f"--{key.replace('_', '-')}={spell(value.default)}" for key, value in parameters.items()]
    monkeypatch.setattr(sys, "argv", ["train.py", *as_launched])
    assert vars(script.parse()) == plain
    assert set(plain) - set(parameters) == {"data_dir", "strategy"}
    for key, value in parameters.items():
        for choice in value.choices:
            monkeypatch.setattr(sys, "argv", ["train.py", f"--{key.replace('_', '-')}={choice}"])
            assert vars(script.parse())[key] == choice


SWITCHES = ("scale_learning_rate", "decay", "optimizer", "precision", "compression", "batch_norm", "input")


@pytest.mark.parametrize("name", ["chips", "cifar", "cosmoflow", "mnist", "resnet50"])
def test_one_switch_is_enough_whatever_the_jobs_own_defaults_are(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    script, parameters = train_of(name), bundled_job(name).parameters
    tried = [
        f"--{key.replace('_', '-')}={choice}"
        for key in SWITCHES
        if key in parameters
        for choice in parameters[key].choices
    ]
    for argument in [*tried, "--warmup-steps=7"]:
        monkeypatch.setattr(sys, "argv", ["train.py", argument])
        found = techniques.faults(script.parse())
        assert found == [] or (argument, found[0][:33]) == ("--decay=step", "--decay=step needs --decay-epochs"), (
            argument
        )


def test_what_is_chosen_is_kept_and_still_contradicts(monkeypatch: pytest.MonkeyPatch) -> None:
    script = train_of("resnet50")
    monkeypatch.setattr(sys, "argv", ["train.py"])
    plain = script.parse()
    assert (plain.decay, plain.decay_epochs, plain.warmup_epochs) == ("step", (30.0, 60.0, 80.0), 5.0)
    monkeypatch.setattr(
        sys, "argv", ["train.py", "--decay=cosine", "--decay-epochs=3", "--warmup-epochs=2", "--warmup-steps=9"]
    )
    assert [text[:16] for text in techniques.faults(script.parse())] == ["say --warmup-epo", "--decay-epochs h"]


@pytest.mark.parametrize("name", ["chips", "cifar", "cosmoflow", "mnist", "resnet50"])
@pytest.mark.parametrize("nodes", [1, 4, 64])
def test_what_plan_proposes_goes_together(name: str, nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    proposed = plan_of(bundled_job(name), nodes=nodes).settings
    words = [f"--{key.replace('_', '-')}={value}" for key, value in proposed]
    monkeypatch.setattr(sys, "argv", ["train.py", *words])
    assert techniques.faults(train_of(name).parse()) == []


PROBES = ("-1", "0", "0.999", "1e-9", "0.5", "1", "2", "31", "32", "inf", "nan")


@pytest.mark.parametrize("name", ["chips", "cifar", "cosmoflow", "mnist", "resnet50"])
def test_a_number_that_the_script_refuses_is_refused_before_anything_is_queued(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = train_of(name)
    for key, parameter in bundled_job(name).parameters.items():
        if isinstance(parameter.default, bool | str):
            continue
        for text in PROBES:
            monkeypatch.setattr(sys, "argv", ["train.py", f"--{key.replace('_', '-')}={text}"])
            assert refuses(parameter.parse, text) == refuses(script.parse), (key, text)
    capsys.readouterr()


def test_a_momentum_of_one_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", "--momentum=1"])
    assert refuses(train_of("cifar").parse)
    assert "below 1" in capsys.readouterr().err


def refuses(read: Callable[..., object], *text: str) -> bool:
    try:
        read(*text)
    except (SystemExit, ValueError):
        return True
    return False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--warmup-epochs=1 --warmup-steps=9", "not both"),
        ("--decay=step", "needs --decay-epochs"),
        ("--decay-epochs=3,6", "--decay=step alone"),
        ("--weight-decay=0.1", "no effect on adam"),
        ("--momentum-correction=false", "on sgd alone"),
        ("--synthetic=true --stage-to=/tmp", "cannot be staged"),
        ("--synthetic=true --input=stream", "in memory"),
        ("--scale-learning-rate=adascale --adasum=true", "averaged gradients"),
        ("--scale-learning-rate=adascale --warmup-steps=9", "a warm-up itself"),
        ("--scale-learning-rate=adascale --precision=float16", "loss scale"),
        ("--xla=true --accumulation=2", "--accumulation above 1"),
        ("--xla=true --batch-norm=synchronized", "XLA cannot compile"),
    ],
)
def test_options_that_do_not_go_together(arguments: str, message: str) -> None:
    (found,) = techniques.faults(asked(*arguments.split()))
    assert message in found


def test_options_that_go_together() -> None:
    assert techniques.faults(asked()) == []
    assert techniques.faults(asked("--optimizer=lamb", "--weight-decay=0.01", "--decay=step", "--decay-epochs=3")) == []


@pytest.mark.parametrize(
    "argument",
    [
        "--decay-epochs=6,3",
        "--optimizer=lion",
        "--accumulation=0",
        "--momentum=-1",
        "--scale-images=1",
        "--crop=-1",
        "--input=disk",
    ],
)
def test_what_is_not_understood_ends_with_2(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        asked(argument)
    assert stopped.value.code == 2
    assert argument.split("=", maxsplit=1)[0] in capsys.readouterr().err
