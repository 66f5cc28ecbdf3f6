"""Options in the launcher's style: --name=value, true or false."""

from __future__ import annotations

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

from hpclaunch.training import options


@pytest.fixture
def parser():  # type: ignore[no-untyped-def]
    return options.parser("a job", {"from": "data", "seed": {"default": 1, "at_least": 0}})


def test_defaults(parser) -> None:  # type: ignore[no-untyped-def]
    asked = parser.parse_args([])
    assert (asked.seed, asked.synthetic, asked.synthetic_samples, asked.train_samples) == (1, False, 4096, 0)


def test_the_launchers_style(parser) -> None:  # type: ignore[no-untyped-def]
    asked = parser.parse_args(["--synthetic=true", "--record-shards=false", "--data-dir=/a b/$HOME;*"])
    assert (asked.synthetic, asked.record_shards, asked.data_dir) == (True, False, "/a b/$HOME;*")


@pytest.mark.parametrize(
    "arguments", [["--synthetic=maybe"], ["--seed=-1"], ["--train-samples=x"], ["--synth=true"], ["x"]]
)
def test_what_is_not_understood_ends_with_2(parser, arguments, capsys) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SystemExit) as stopped:
        parser.parse_args(arguments)
    assert stopped.value.code == 2
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "x", ""])
def test_a_number_within_bounds(text: str) -> None:
    with pytest.raises(Exception, match="above 0"):
        options.number(float, {"above": 0})(text)


def test_a_number_without_bounds() -> None:
    assert options.number(float, {})("inf") == float("inf")
    with pytest.raises(Exception, match="'x': a number is expected"):
        options.number(float, {})("x")


@pytest.mark.parametrize(
    ("row", "words", "value"),
    [
        ({"default": 3}, ["--a=4"], 4),
        ({"default": 3.0}, ["--a=4"], 4.0),
        ({"default": 3, "type": "float"}, ["--a=4.5"], 4.5),
        ({"default": 3, "type": "float"}, [], 3.0),
        ({"default": True}, ["--a=no"], False),
        ({"default": "x"}, ["--a=4"], "4"),
        ({"default": "30,60", "type": "epochs"}, [], (30.0, 60.0)),
        ({"default": "", "type": "epochs"}, ["--a=3,6.5"], (3.0, 6.5)),
        (5, [], 5),
    ],
)
def test_a_default_fixes_the_type_unless_the_row_says_it(row, words, value) -> None:  # type: ignore[no-untyped-def]
    asked, _ = options.parse(options.parser("a job", {"a": row}), words)
    assert (asked.a, type(asked.a)) == (value, type(value))


def test_defaults_and_help_can_be_changed() -> None:
    given = {"from": ["training", "colour"], "epochs": 7, "saturation": {"help": "50 % at most"}}
    rows = options.rows_of(given)
    assert (rows["epochs"]["default"], rows["epochs"]["at_least"], rows["epochs"]["group"]) == (7, 1, "training")
    assert (rows["saturation"]["default"], rows["saturation"]["help"]) == (0.0, "50 % at most")
    shown = " ".join(options.parser("a job", given).format_help().split())
    assert "passes over the training data (default: 7)" in shown and "50 % at most (default: 0.0)" in shown


def test_a_group_may_name_groups() -> None:
    rows = options.rows_of({"from": "images"})
    assert set(options.rows_of({"from": ["samples", "augmentation", "colour"]})) == set(rows)
    assert not {"batch_norm", "image_size"} & set(rows)


def test_what_was_typed_is_known_also_where_it_is_the_default(parser) -> None:  # type: ignore[no-untyped-def]
    asked, typed = options.parse(parser, ["--seed=1", "--data-dir=", "--synthetic=true"])
    assert (asked.seed, asked.data_dir, asked.synthetic) == (1, "", True)
    assert typed == {"seed", "data_dir", "synthetic"}
    assert options.parse(parser, [])[1] == set()


def test_a_default_of_the_job_file_was_not_typed(parser) -> None:  # type: ignore[no-untyped-def]
    words = ["--default=seed=7", "--default=train-samples=64", "--train-samples=32"]
    asked, typed = options.parse(parser, words)
    assert (asked.seed, asked.train_samples, typed) == (7, 32, {"train_samples"})
    assert not hasattr(asked, "default")


@pytest.mark.parametrize("word", ["--default=seed=-1", "--default=sed=1", "--default=seed"])
def test_a_default_is_checked_as_an_option_is(parser, word: str, capsys) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SystemExit) as stopped:
        options.parse(parser, [word])
    assert stopped.value.code == 2
    assert "--" + word.split("=")[1] in capsys.readouterr().err


def test_data_dir_typed_wins(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("HPCLAUNCH_DATA_DIR", "/from/site")
    assert options.data_dir("/typed") == "/typed"
    assert options.data_dir("") == "/from/site"
    assert np is not None
