"""Every word that a shell can complete, among hostile names: nothing is executed, and each name arrives as it is."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer.main

from hpclaunch.cli import app
from tests.cli.completing_shells import ALL, Shell
from tests.cli.conftest import Desk, make_desk

HOSTILE = (
    *("$(touch X)", "`touch X`", ";touch X", "a|touch X", "a&touch X", "a\ntouch X\n", ">X", "<(touch X)", "${X:=1}"),
    *("'q", '"q', "b\\", "!!", "c!d", "-rf", "--site=x", "two words", " ", "*", "?", "[a-z]", "{a,b}", "~root", "~"),
    *("#c", "=ls", "d=e f", "t\tab", "\x1b]0;title\x07", "\x9b31m", "\u202eabc", "\u200b", "%self", "^a", "f(g)"),
)
PLAIN = ("plain", "évry", "Straße-2.b")
IN_FILES = [name for name in (*PLAIN, *HOSTILE) if name.isprintable() and name.strip()]
"""Names of which site files and job files have some; they refuse control characters."""
RUN = {"format": 1, "site": "plain", "scheduler": "slurm", "state": "COMPLETED", "host": "n1", "user": ""}
SITE = {
    "title": "a site",
    "scheduler": "slurm",
    "defaults": {"node_type": "plain"},
    "node_types": {name: {"title": "x", "nodes": 8, "cores_per_node": 8} for name in ("plain", "b-2")},
    "partitions": {name: {} for name in IN_FILES},
    "qos": {name: {} for name in IN_FILES},
    "launchers": {"default": "srun", "options": {"srun": {}}},
    "environment": {"python": "current"},
}


def make_scene(desk: Desk) -> None:
    """Runs, jobs, sites, recipes, values, partitions and files with hostile names, beside a plain one of each."""
    for number, name in enumerate((*PLAIN, *HOSTILE)):
        record = {**RUN, "name": name, "created": f"2026-01-01T00:00:{number:02d}Z", "uid": str(os.getuid())}
        desk.write(f"runs/{name}/run.json", json.dumps(record))
        if name in HOSTILE:
            desk.write(name, "")
        for folder, file in (("jobs", f"{name}/job.yaml"), ("site_configs", f"{name}.yaml")):
            desk.write(f"{folder}/{file}", json.dumps(SITE if folder == "site_configs" else _job()))
    desk.environment["HPCLAUNCH_SITE"] = "plain"


def _job() -> dict[str, Any]:
    return {
        "summary": "a job",
        "command": ["true"],
        "parameters": {"plain": {"default": "plain", "choices": IN_FILES}},
        "recipes": {"plain": {"summary": "x", "settings": {"plain": "plain"}}},
    }


def positions() -> Iterator[str]:
    """Everything that may be typed before a value: each option of each verb, and each argument."""
    yield from _positions_of(typer.main.get_group(app), "")


def _positions_of(command: Any, typed: str) -> Iterator[str]:
    yield f"{typed}"
    for word in getattr(command, "commands", {}):
        yield from _positions_of(command.commands[word], f"{typed}{word} ")
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    yield from (f"{typed}{'plain ' * number}" for number in range(1, len(arguments)))
    job = "plain " if {"target", "job"}.intersection(one.name for one in arguments) else ""
    for option in command.params:
        if option.param_type_name == "option" and not option.is_flag:
            yield f"{typed}{job}{option.opts[0]} "
            if option.name in ("settings", "sweep"):
                yield f"{typed}{job}{option.opts[0]} plain="


def _shell(name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    if shutil.which(name) is None:
        pytest.skip(f"group shells: needs {name}")
    desk = make_desk(tmp_path_factory.mktemp(name))
    make_scene(desk)
    shell = Shell(name, desk)
    yield shell
    shell.close()


@pytest.fixture(scope="module", params=["bash", "zsh", "fish"])
def shell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    yield from _shell(request.param, tmp_path_factory)


@pytest.mark.parametrize("shell", ["bash", "zsh"], indirect=True)
def test_every_position(shell: Shell) -> None:
    """All completions are inserted at once, and Enter shows what they name: what hpclaunch offered, else files."""
    before = sorted(os.listdir(shell.folder))
    typed_ones = list(positions())
    if shell.name != "bash":  # an option means the same after every verb
        typed_ones = list({typed.split(" ")[-2] if " " in typed else "": typed for typed in typed_ones}.values())
    offered = set()
    for typed in typed_ones:
        words = shell.entered(f"hpclaunch {typed}{ALL}")
        inserted = words[len(typed.split(" ")) - 1 :]
        if shell.answer:
            if typed.endswith("plain="):  # the first word continues the one that was begun
                inserted[1:] = [word if word.startswith("plain=") else f"plain={word}" for word in inserted[1:]]
            assert sorted(inserted) == sorted(line.split("\t")[0] for line in shell.answer.split("\n")), typed
            assert not set(inserted).intersection(HOSTILE), typed
            offered.update(inserted)
        else:
            assert sorted(word.rstrip("/") for word in inserted) == before, typed
    assert offered.issuperset((*PLAIN, "plain=plain"))
    assert sorted(os.listdir(shell.folder)) == before


def _bare(text: str, shell: str) -> str:
    return "".join(sign if sign.isalnum() else f"\\{sign}" for sign in text)


def _single(text: str, shell: str) -> str:
    return f"'{text}"


def _double(text: str, shell: str) -> str:
    special = '$"\\' if shell == "fish" else '$"\\`'
    return '"' + "".join(f"\\{sign}" if sign in special else sign for sign in text)


@pytest.mark.parametrize("quoted", [_bare, _single, _double])
def test_a_name_is_completed_in_every_context(shell: Shell, quoted: Callable[[str, str], str]) -> None:
    """Names of runs are offered, and of files with hostile names; each arrives as it is, and none is executed."""
    before = sorted(os.listdir(shell.folder))
    for name in (*PLAIN, *HOSTILE):
        begun = name[:-1]  # a unique beginning, so that the Tab key completes it
        if not begun or not begun.isprintable() or begun.startswith(("-", "~")):
            continue
        if "'" in begun and quoted is _single:
            continue
        assert shell.entered(f"hpclaunch logs {quoted(begun, shell.name)}\t") == ["logs", name]
    assert sorted(os.listdir(shell.folder)) == before


@pytest.mark.parametrize("shell", ["zsh", "fish"], indirect=True)
def test_a_value_is_completed_behind_its_option(shell: Shell) -> None:
    assert shell.entered("hpclaunch submit --site=perl\t") == ["submit", "--site=perlmutter"]
    assert shell.entered("hpclaunch submit plain --set pla\tx") == ["submit", "plain", "--set", "plain=x"]
