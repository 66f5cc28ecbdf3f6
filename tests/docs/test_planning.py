"""The pages on planning: their outputs are those of today's plans, their code exists, their commands can be typed.

After a change that is meant: ``pytest tests/docs/test_planning.py --rewrite-golden``, then read the diff.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpclaunch.planner.values import Forecast, Headline
from tests.cli.conftest import Desk, desk  # noqa: F401
from tests.unit.planner.questions import plan_of

PATH = Path(__file__).resolve().parents[2] / "docs" / "planning.md"
DETAILS = PATH.with_name("planning-details.md")
MOST_WORDS = 3000
BLOCK = re.compile(r"<!-- output: (?P<command>.+?); (?P<part>[^;]+?) -->\n```\n(?P<shown>.*?)```", re.DOTALL)
VERDICTS = {"followed", "declined"}


def page() -> str:
    return PATH.read_text(encoding="utf-8")


def rows_of(heading: str) -> list[list[str]]:
    """The rows of the last table below a heading of the details, without its two head lines."""
    section = DETAILS.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:] if not line.startswith("|-")]


def part_of(out: str, err: str, part: str) -> str:
    """``all`` of stdout, ``lines A to B`` of it, or ``N lines from WORDS`` of stderr."""
    if part == "all":
        return out
    if found := re.fullmatch(r"lines (\d+) to (\d+)", part):
        return "".join(out.splitlines(keepends=True)[int(found[1]) - 1 : int(found[2])])
    found = re.fullmatch(r"(\d+) lines from (.+)", part)
    assert found, part
    lines = err.splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if found[2] in line)
    return "".join(lines[first : first + int(found[1])])


def outputs() -> Iterator[tuple[str, str, str]]:
    for found in BLOCK.finditer(page()):
        yield found["command"], found["part"], found["shown"]


@pytest.mark.parametrize(("command", "part", "shown"), list(outputs()))
def test_every_output_is_that_of_its_command(
    desk: Desk,  # noqa: F811
    command: str,
    part: str,
    shown: str,
    request: pytest.FixtureRequest,
) -> None:
    example = re.search(r"<!-- example: calibration -->\n```json\n(.+?)```", page(), re.DOTALL)
    assert example and json.loads(example[1])
    desk.write("cifar.json", example[1])
    done = desk.type(*shlex.split(command)[1:], SCRATCH="/scratch", HPCLAUNCH_RUNS_DIR="/shared/runs")
    assert done.code == 0, done.err
    printed = part_of(done.out, done.err, part)
    if request.config.getoption("--rewrite-golden"):
        head = f"<!-- output: {command}; {part} -->\n```\n"
        PATH.write_text(page().replace(f"{head}{shown}```", f"{head}{printed}```"), encoding="utf-8")
        return
    assert printed == shown


def test_a_person_reads_the_page_to_its_end() -> None:
    assert len(page().split()) <= MOST_WORDS


def test_nothing_is_said_twice() -> None:
    """No sentence of a dozen words stands on both pages, nor twice on one."""
    text = re.sub(r"```.*?```", "", page() + DETAILS.read_text(encoding="utf-8"), flags=re.DOTALL)
    sentences = [" ".join(words.split()) for words in re.split(r"[.:|]\s", text)]
    long = [sentence for sentence in sentences if len(sentence.split()) >= 12]
    assert len(long) > 50
    assert sorted({one for one in long if long.count(one) > 1}) == []


def test_the_example_shows_a_profile_a_plan_and_a_submission() -> None:
    example = page().partition("## From profile to submission")[2].partition("\n## ")[0]
    assert [command.split()[1] for command, _, _ in outputs()] == ["plan", "plan", "submit"]
    assert example.index("hpclaunch profile cifar") < example.index("hpclaunch plan cifar")
    assert example.index("hpclaunch plan cifar") < example.index("output: hpclaunch submit cifar")


def exists(place: str) -> bool:
    module, name = place.strip("`").split(":")
    return hasattr(importlib.import_module(f"hpclaunch.{module}"), name)


@pytest.mark.parametrize("heading", ["Where every number comes from", "The guidelines, rule by rule"])
def test_every_rule_names_code_that_exists(heading: str) -> None:
    rows = rows_of(heading)
    assert len(rows) > 10
    assert [row for row in rows if not exists(row[-1])] == []


def test_every_rule_of_the_guidelines_has_a_verdict_and_what_is_declined_stays_visible() -> None:
    rows = rows_of("The guidelines, rule by rule")
    assert {row[1] for row in rows} == VERDICTS
    visible = {passed.name.split()[0].lower() for section in plan_of().sections for passed in section.declined}
    visible -= {"grpc"}  # the guidelines' own recommendation
    words = {"mesh-tensorflow", "asynchronous", "lag-synchronous", "hybrid", "pipelined", "cray", "horovod-mlsl"}
    assert visible == words
    declined = " ".join(row[0].lower() for row in rows if row[1] == "declined")
    for word in ("mesh-tensorflow", "asynchronous", "lag", "hybrid", "pipelining", "cray", "horovod-mlsl"):
        assert word in declined


def test_the_commands_of_the_page_have_existing_options(desk: Desk) -> None:  # noqa: F811
    blocks = "\n".join(re.findall(r"```\n(hpclaunch .*?)```", page(), re.DOTALL))
    commands = [line.split(" #")[0].split() for line in blocks.splitlines() if line.startswith("hpclaunch ")]
    assert {words[1] for words in commands} == {"plan", "profile", "submit"}
    for verb in {words[1] for words in commands}:
        known = desk.type(verb, "--help-all", COLUMNS="300").out
        used = {word for words in commands if words[1] == verb for word in words if word.startswith("--")}
        assert {option for option in used if not re.search(rf"{option}\b", known)} == set()


def test_the_table_of_the_json_names_the_fields_of_a_plan() -> None:
    rows = rows_of("A plan as JSON")
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    fields = {field.name for field in dataclasses.fields(Forecast)} | {"feasible"}
    assert named <= fields
    assert fields - named == {"parallelism", "unit", "precision_words", "trust"}
    headline = next(row[2] for row in rows if row[0] == "`headlines`")
    assert {field.name for field in dataclasses.fields(Headline)} == set(re.findall(r"`(\w+)`", headline))
