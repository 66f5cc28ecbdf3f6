"""``--json``: every command has it, and writes one document that keeps the schema, also for a bad command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from hpclaunch import cli
from tests.cli.conftest import Desk
from tests.cli.schema import checked


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command with the words that one types to reach it."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
        return
    for name, one in inner.items():
        yield from leaves(one, (*path, name))


COMMANDS = dict(leaves(typer.main.get_command(cli.app)))


def bad_usages(path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield command lines that no command accepts: an unknown option, too many words, values of the wrong type."""
    yield (*path, "--no-such-option", "--json")
    yield ("--json", *path)
    numbers = [option.opts[-1] for option in COMMANDS[path].params if "range" in str(option.type.name)]
    flags = [option.opts[-1] for option in COMMANDS[path].params if not getattr(option, "is_flag", True)]
    yield from ((*path, flag, "many", "--json") for flag in numbers[:1])
    yield from ((*path, "--json", flag) for flag in flags[:1])
    yield (*path, "--json=yes")
    if all(argument.nargs == 1 for argument in COMMANDS[path].params if argument.param_type_name == "argument"):
        yield (*path, "--json", "one", "two", "three", "four")


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder and an empty home: a command line that is accepted by mistake finds no run of this user."""
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))


def test_every_command_has_it() -> None:
    assert len(COMMANDS) >= 40
    without = [path for path, command in COMMANDS.items() if not any("--json" in one.opts for one in command.params)]
    assert without == []


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_a_bad_command_line_is_one_document(
    path: tuple[str, ...], nowhere: None, capfd: pytest.CaptureFixture[str]
) -> None:
    tried = 0
    for words in bad_usages(path):
        with pytest.raises(SystemExit) as ended:
            cli.main(list(words))
        out, err = capfd.readouterr()
        found = checked(out)
        assert (ended.value.code, found["document"], found["exit_code"]) == (2, "error", 2), words
        assert err.startswith("error: ") and all(fault["what"] and fault["next"] for fault in found["faults"]), words
        tried += 1
    assert tried >= 3


@pytest.mark.parametrize(
    ("words", "what", "allowed"),
    [
        (("sbmit", "--json"), "there is no command 'sbmit'; did you mean 'submit'?", ""),
        (("jobs", "lsit", "--json"), "there is no command 'lsit'; did you mean 'list'?", ""),
        (("submit", "x", "--nodez", "1", "--json"), "there is no option --nodez; did you mean '--nodes'?", ""),
        (("submit", "x", "--nodes", "many", "--json"), "'many' is not a whole number", "a whole number, at least 1"),
        (("wait", "--retries", "200", "--json"), "200 is out of range", "at least 0 and at most 100"),
        (("plan", "x", "--budget", "little", "--json"), "'little' is not a number", ""),
        (("submit", "--json", "--nodes"), "--nodes needs a value", ""),
        (("report", "--json", "--compare", "one"), "--compare needs 2 values", ""),
        (("jobs", "show", "--json"), "JOB is missing", ""),
        (("jobs", "list", "a", "b", "--json"), "there are more arguments than it takes: a b", ""),
        (("status", "--json=3"), "--json takes no value", ""),
    ],
)
def test_a_bad_command_line_has_plain_words(
    words: tuple[str, ...], what: str, allowed: str, nowhere: None, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main(list(words))
    out, err = capfd.readouterr()
    assert what in err
    (fault,) = checked(out)["faults"]
    assert fault["what"] == what and fault["allowed"].startswith(allowed)


def test_what_succeeds_keeps_the_schema(cluster: Desk) -> None:
    """Twenty documents of a desk; those of long commands are checked by their own tests' values."""
    run = checked(cluster.type("submit", "./train.py", "--json").out)
    assert run["document"] == "run" and run["job_id"] == "4711"
    seen = {"run"}
    for words in (
        ("submit", "./train.py", "--dry-run"),
        ("submit", "./train.py", "--test-only"),
        ("render", "./train.py"),
        ("render", "./train.py", "-o", "job.sh"),
        ("shell", "--dry-run"),
        ("status",),
        ("results",),
        ("runs", "list"),
        ("runs", "show"),
        ("runs", "compare", "@1", "@2"),
        ("runs", "rebuild"),
        ("cancel", "4711"),
        ("runs", "clean", "--keep", "9"),
        ("efficiency",),
        ("logs",),
        ("plan", "cifar"),
        ("jobs", "list"),
        ("jobs", "show", "cifar"),
        ("jobs", "new", "mine"),
        ("sites", "list"),
        ("sites", "show"),
        ("sites", "detect"),
        ("sites", "compare", "cifar", "--site", "perlmutter"),
        ("trust", "."),
        ("trust", "--list"),
    ):
        done = cluster.type(*words, "--json")
        seen.add(checked(done.out)["document"])
    assert len(seen) >= 18, seen


def test_the_schema_is_printed(desk: Desk) -> None:
    printed = desk.type("--json-schema")
    assert (printed.code, printed.json["properties"]["schema_version"]) == (0, {"const": 1})
