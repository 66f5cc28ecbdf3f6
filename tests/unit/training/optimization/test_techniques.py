"""The options of the techniques: defaults as in the job files, and what does not go together."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import pytest

try:
    import numpy as np  # noqa: F401
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

from hpclaunch.config.effects import conflicting_settings
from hpclaunch.config.parameters import Parameter, several, spell
from hpclaunch.training import options
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


@pytest.mark.parametrize("name", ["chips", "cifar", "cosmoflow", "mnist", "resnet50", "transformer"])
def test_a_job_file_and_its_script_have_the_same_options(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = bundled_job(name).parameters
    script = train_of(name)
    monkeypatch.setattr(sys, "argv", ["train.py"])
    plain = vars(script.parse())
    assert {key: value for key, value in plain.items() if key in parameters} == {
        key: options.epochs(str(value.default)) if value.value_type == "epochs" else value.default
        for key, value in parameters.items()
    }
    as_launched = [f"--{key.replace('_', '-')}={spell(value.default)}" for key, value in parameters.items()]
    monkeypatch.setattr(sys, "argv", ["train.py", *as_launched])
    assert vars(script.parse()) == plain
    assert set(plain) - set(parameters) == {"data_dir", "strategy"}
    for key, value in parameters.items():
        for choice in value.choices:
            monkeypatch.setattr(sys, "argv", ["train.py", f"--{key.replace('_', '-')}={choice}"])
            assert vars(script.parse())[key] == choice


@pytest.mark.parametrize("name", ["chips", "cifar", "cosmoflow", "mnist", "resnet50", "transformer", "universes"])
def test_a_job_and_its_program_understand_parameters_json_in_the_same_way(name: str) -> None:
    job = bundled_job(name)
    rows = options.rows_of(json.loads((Path(job.folder) / "parameters.json").read_text()))
    assert list(rows) == list(job.parameters)
    for key, row in rows.items():
        parameter = job.parameters[key]
        assert parameter.builtin == parameter.default == row["default"], key
        lists = {field: list(getattr(parameter, field)) for field in ("choices", "divides", "less_than")}
        kept = {field: getattr(parameter, field) for field in row if field not in ("default", "type", *lists)}
        assert kept == {field: value for field, value in row.items() if field in kept}, key
        assert lists == {field: several(row.get(field, [])) for field in lists}, key
        assert parameter.value_type == row.get("type", parameter.value_type), key


def test_every_training_parameter_has_a_type_that_is_its_defaults() -> None:
    groups = json.loads(Path(options.__file__).with_name(options.TRAINING_PARAMETERS).read_text())["groups"]
    apart = ("pytorch_and_jax", "pytorch_noise", "pytorch_speed", "pytorch_sharding")
    others = {name: row for group in apart for name, row in groups.pop(group).items()}  # have rows of the same names
    rows = {name: row for held in groups.values() if isinstance(held, dict) for name, row in held.items()}
    assert len(rows) == sum(len(held) for held in groups.values() if isinstance(held, dict))
    assert set(rows) == set(options.rows_of({"from": ["images", "batch_norm", "model_parallel"]}))
    for name, row in [*rows.items(), *others.items()]:
        assert row["help"], name
        assert Parameter(default=row["default"]).value_type == {"epochs": "text"}.get(row["type"], row["type"]), name


SWITCHES = ("scale_learning_rate", "decay", "optimizer", "precision", "compression", "batch_norm", "input")


@pytest.mark.parametrize("name", ["chips", "cifar", "cosmoflow", "mnist", "resnet50", "transformer"])
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
    assert [text[:16] for text in techniques.faults(script.parse())] == ["--decay-epochs h", "use --warmup-epo"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "--decay=cosine --decay-epochs=30,60,80",
            "--decay-epochs has an effect only with --decay=step, not with cosine",
        ),
        ("--warmup-steps=9 --warmup-epochs=5.0", "use --warmup-epochs or --warmup-steps, not both"),
        ("--scale-learning-rate=adascale --warmup-epochs=5", "AdaScale includes a warm-up"),
    ],
)
def test_a_typed_value_contradicts_also_where_it_is_the_jobs_default(
    words: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", *words.split()])
    (found,) = techniques.faults(train_of("resnet50").parse())
    assert message in found


@pytest.mark.parametrize(
    ("defaults", "words", "kept"),
    [
        ({"decay": "step", "decay_epochs": "3,6"}, "--decay=cosine", {"decay_epochs": ()}),
        ({"warmup_epochs": 2.0}, "--warmup-steps=9", {"warmup_epochs": 0.0, "warmup_steps": 9}),
        ({"warmup_steps": 9}, "--warmup-epochs=2", {"warmup_epochs": 2.0, "warmup_steps": 0}),
        ({"warmup_steps": 9}, "--scale-learning-rate=adascale", {"warmup_steps": 0}),
        ({"optimizer": "lamb", "weight_decay": 0.1}, "--optimizer=sgd", {"weight_decay": 0.0}),
        ({"optimizer": "sgd", "momentum": 0.8}, "--optimizer=muon", {"momentum": 0.9}),
        ({"optimizer": "adam", "momentum": 0.8}, "--epochs=2", {"momentum": 0.8}),  # of the program's own SGD
        ({"optimizer": "muon", "muon_exclude": "head/*"}, "--optimizer=sgd", {"muon_exclude": ""}),
        ({"optimizer": "sgd", "momentum_correction": False}, "--optimizer=adam", {"momentum_correction": True}),
        ({}, "--default=decay=step --default=decay-epochs=3,6 --decay=cosine", {"decay_epochs": ()}),
        ({}, "--default=warmup-epochs=2 --warmup-steps=9", {"warmup_epochs": 0.0}),
    ],
)
def test_what_is_typed_overrides_defaults_of_the_program_and_of_the_job_file(
    defaults: dict[str, object], words: str, kept: dict[str, object]
) -> None:
    found = techniques.parse(options.parser("a job", {"from": "samples", **defaults}), words.split())
    assert techniques.faults(found) == []
    assert {name: getattr(found, name) for name in kept} == kept


@pytest.mark.parametrize("shares_weights", [True, False])
def test_the_launcher_and_the_ranks_have_the_same_settings_that_exclude_others(shares_weights: bool) -> None:
    job, found = bundled_job("ddp"), set()
    parser = options.parser("ddp", options.of_job(str(Path(job.folder) / "train.py")))
    for name, row in job.parameters.items():
        for value in (False, True) if row.value_type == "bool" else row.choices:
            typed = {"shard_weights": shares_weights, name: value}
            words = [f"--{key.replace('_', '-')}={spell(one)}" for key, one in typed.items()]
            of_ranks = options.conflicts(techniques.parse_plain(parser, words))
            of_launcher = conflicting_settings(job.parameters, {key: [one] for key, one in typed.items()})
            assert [one.other for one in of_ranks] == [other for _, other, _ in of_launcher], typed
            found |= {(one.other, spell(typed[one.other])) for one in of_ranks}
    switches = {(name, "true") for name in ("shard_optimizer", "noise_scale", "channels_last")}
    optimizers = {("optimizer", name) for name in ("lamb", "larc", "lars", "muon")}
    assert found == (switches | optimizers if shares_weights else set())


ON = {"scale_learning_rate": "adascale", "batch_norm": "synchronized", "ema_decay": "0.9", "steps_per_execution": "2"}
ON |= dict.fromkeys(("tensor_parallel", "pipeline_stages", "update_groups"), "2")


@pytest.mark.parametrize(("name", "least"), [("resnet50", 6), ("transformer", 12)])
def test_what_the_ranks_of_a_job_refuse_as_a_pair_is_refused_before_it_is_queued(name: str, least: int) -> None:
    job = bundled_job(name)
    parser = options.parser(name, options.of_job(str(Path(job.folder) / "train.py")))
    pairs = [(key, conflict.other) for key, row in job.parameters.items() for conflict in row.conflicts]
    pairs = [pair for pair in pairs if pair[1] in job.parameters]
    assert len(pairs) >= least
    for pair in pairs:
        typed = {key: ON.get(key, "true") for key in pair}
        chosen = {key: [job.parameters[key].parse(text)] for key, text in typed.items()}
        assert [found[:2] for found in conflicting_settings(job.parameters, chosen)] == [pair]
        (fault,) = techniques.faults(
            techniques.parse(parser, [f"--{key.replace('_', '-')}={text}" for key, text in typed.items()])
        )
        assert "cannot be combined with" in fault


@pytest.mark.parametrize(
    "name", ["chips", "cifar", "cosmoflow", "ddp", "gpt", "jax", "mnist", "resnet50", "transformer"]
)
def test_no_bundled_job_has_settings_that_exclude_each_other(name: str) -> None:
    assert conflicting_settings(bundled_job(name).parameters, {}) == []


@pytest.mark.parametrize("name", ["chips", "cifar", "cosmoflow", "mnist", "resnet50", "transformer"])
@pytest.mark.parametrize("nodes", [1, 4, 64])
def test_what_plan_proposes_goes_together(name: str, nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    proposed = plan_of(bundled_job(name), nodes=nodes).settings
    words = [f"--{key.replace('_', '-')}={value}" for key, value in proposed]
    monkeypatch.setattr(sys, "argv", ["train.py", *words])
    assert techniques.faults(train_of(name).parse()) == []


PROBES = ("-1", "0", "0.999", "1e-9", "0.5", "1", "2", "31", "32", "inf", "nan")


def multiples(parameters: Mapping[str, Parameter], key: str, text: str) -> dict[str, str]:
    """Values within their bounds that `text`, a value of `key`, divides."""
    found: dict[str, str] = {}
    for other in parameters[key].divides:
        number = int(text) if text.isdigit() else 0
        least = parameters[other].at_least or 1
        found[other] = str(number * max(1, -(-least // number))) if number else text
        found.update(multiples(parameters, other, found[other]))
    return found


@pytest.mark.parametrize("name", ["chips", "cifar", "cosmoflow", "mnist", "resnet50", "transformer"])
def test_a_number_that_the_script_refuses_is_refused_before_anything_is_queued(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script, parameters = train_of(name), bundled_job(name).parameters
    for key, parameter in parameters.items():
        if parameter.value_type not in ("int", "float"):
            continue
        # Numbers that divide any other, and numbers that this one divides.
        others = {other: "1" for other, row in parameters.items() if key in row.divides}
        for text in PROBES:
            typed = {**others, **multiples(parameters, key, text), key: text}
            words = [f"--{name.replace('_', '-')}={number}" for name, number in typed.items()]
            monkeypatch.setattr(sys, "argv", ["train.py", *words])
            assert refuses(parameter.parse, text) == refuses(script.parse), (key, text)
    capsys.readouterr()


def test_a_number_that_does_not_divide_another_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", "--default=hidden=130", "--heads=3"])
    assert refuses(train_of("transformer").parse)
    assert "--heads=3 does not divide --hidden=130" in capsys.readouterr().err


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
        ("--decay-epochs=3,6", "only with --decay=step"),
        (
            "--weight-decay=0.1",
            "only with --optimizer=adamw or lamb or larc or lars or muon, not with adam",
        ),
        (
            "--momentum=0.95 --optimizer=muon",
            "--momentum has no effect with --optimizer=muon: use --muon-momentum",
        ),
        ("--muon-exclude=head/*", "--muon-exclude has an effect only with --optimizer=muon, not with adam"),
        ("--momentum-correction=false", "--momentum-correction has an effect only with --optimizer=sgd, not with adam"),
        ("--scale-learning-rate=adascale --adasum=true", "averaged gradients"),
        ("--scale-learning-rate=adascale --warmup-steps=9", "AdaScale includes a warm-up"),
        ("--scale-learning-rate=adascale --precision=float16", "loss scale"),
        ("--shard-optimizer=true --adasum=true", "averages gradients"),
        ("--shard-optimizer=true --scale-learning-rate=adascale", "whole average gradient"),
        ("--xla=true --accumulation=2", "--accumulation above 1"),
        ("--xla=true --batch-norm=synchronized", "whose all-reduce XLA cannot compile"),
        ("--gradient-lag=true --adasum=true", "--gradient-lag=true cannot be combined with --adasum=true"),
        ("--gradient-lag=true --shard-optimizer=true", "cannot be combined with --shard-optimizer=true: omit one"),
        ("--gradient-lag=true --scale-learning-rate=adascale", "with --scale-learning-rate=adascale"),
        ("--gradient-lag=true --xla=true", "--gradient-lag=true cannot be combined with --xla=true"),
        ("--gradient-lag=true --precision=float16", "needs one loss scale for all gradients: use --precision=bfloat16"),
        (
            "--gradient-lag=true --update-groups=2",
            "--update-groups above 1 cannot be combined with --gradient-lag=true",
        ),
        ("--update-groups=2 --adasum=true", "--update-groups above 1 cannot be combined with --adasum=true"),
        ("--update-groups=2 --shard-optimizer=true", "cannot be combined with --shard-optimizer=true"),
        ("--update-groups=2 --batch-norm=synchronized", "cannot be combined with --batch-norm=synchronized"),
        ("--update-groups=2 --precision=float16", "needs one loss scale"),
        ("--update-groups=2 --group-steps=3 --steps-per-execution=2", "--group-steps=3 must be a multiple of"),
        ("--ema-decay=0.9 --update-groups=2", "--update-groups=2, with which the ranks have different weights"),
        ("--ema-decay=0.9 --steps-per-execution=2", "the weights cannot be averaged after every step"),
        ("--profile-rank=1", "--profile-rank has an effect only with --profile-first"),
        ("--group-steps=3", "--group-steps has an effect only with --update-groups above 1"),
    ],
)
def test_options_that_do_not_go_together(arguments: str, message: str) -> None:
    (found,) = techniques.faults(asked(*arguments.split()))
    assert message in found


def test_the_switches_of_updates_are_off_unless_they_are_typed() -> None:
    plain = asked()
    assert (plain.gradient_lag, plain.update_groups, plain.group_steps) == (False, 1, options.default_of("group_steps"))
    together = "--accumulation=2 --compression=fp16 --precision=bfloat16 --steps-per-execution=4"
    for typed in ("--gradient-lag=true", "--update-groups=4", "--update-groups=2 --xla=true"):
        words = together.replace("--accumulation=2", "") if "xla" in typed else together
        assert techniques.faults(asked(*typed.split(), *words.split())) == []


def test_a_divided_model_has_rules_of_its_own() -> None:
    plain = {"tensor_parallel": 1, "pipeline_stages": 1, "recompute": False}

    def found(typed: str, **own: object) -> list[str]:
        settings = asked(*typed.split())
        vars(settings).update({**plain, **own})
        return techniques.faults(settings)

    for name, own in (("--tensor-parallel", {"tensor_parallel": 2}), ("--pipeline-stages", {"pipeline_stages": 2})):
        (text,) = found("--adasum=true", **own)
        assert text == f"--adasum=true cannot be combined with {name}=2, which averages gradients: omit one of them"
        (text,) = found("--scale-learning-rate=adascale", **own)
        assert text.startswith(f"{name}=2 cannot be combined with --scale-learning-rate=adascale")
        (text,) = found("--xla=true", **own)
        assert text.startswith(f"{name}=2 cannot be combined with --xla=true, which cannot compile")
        for update in ("--gradient-lag=true", "--update-groups=2"):
            (text,) = found(update, **own)
            assert text.endswith(f"cannot be combined with {name} above 1: omit one of them")
    (text,) = found("--batch-norm=synchronized", pipeline_stages=2)
    assert text.startswith("--pipeline-stages=2 cannot be combined with --batch-norm=synchronized")
    assert found("--batch-norm=synchronized", tensor_parallel=2) == []
    (text,) = found("--xla=true", recompute=True)
    assert "--recompute=true, which has not been tried with XLA" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--synthetic=true --stage-to=/tmp", "cannot be staged"),
        ("--synthetic=true --input=stream", "in memory"),
    ],
)
def test_what_synthetic_images_in_memory_cannot_do(arguments: str, message: str) -> None:
    (found,) = techniques.made_up_faults(asked(*arguments.split()))
    assert message in found
    assert techniques.made_up_faults(asked(arguments.split()[1])) == []


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
