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
    return options.parser("a job", seed=1)


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
def test_positive(text: str) -> None:
    with pytest.raises(Exception, match="above 0"):
        options.positive(text)


def test_data_dir_typed_wins(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("HPCLAUNCH_DATA_DIR", "/from/site")
    assert options.data_dir("/typed") == "/typed"
    assert options.data_dir("") == "/from/site"
    assert np is not None
