"""A small, fixed share of the fuzzing: 25 inputs by every way in, with the limits of `make fuzz`."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tests.architecture.test_commands import COMMANDS
from tests.fuzz.command_lines import ELSEWHERE, FLAGS, UNKNOWN, VALUES, VERBS
from tests.fuzz.feeding import Child, Tally, feed_many
from tests.fuzz.parts import page_part, record, recorded
from tests.fuzz.ways import WAYS

NEEDS = {
    **dict.fromkeys(("checkpoints", "pickles", "npz files", "IDX files"), "numpy"),
    **dict.fromkeys(("TFRecords", "tensorflow_datasets folders"), "tensorflow"),
}
QUICK = 25


@pytest.mark.parametrize("way", WAYS)
def test_hostile_input_is_refused_or_read(way: str) -> None:
    if way in NEEDS and importlib.util.find_spec(NEEDS[way]) is None:
        pytest.skip(f"group training: {NEEDS[way]} is not installed")
    tally = feed_many(way, QUICK, seed=0)
    assert tally.failed == []
    assert tally.outcomes.total() == QUICK and set(tally.outcomes) <= {"result", "refused"}


def test_the_options_of_command_lines_are_those_of_today() -> None:
    assert {"--sweep", "--here", "--no-broadcast", "--after-any", *UNKNOWN} <= set(FLAGS)
    assert set(VALUES) <= set(FLAGS) and not set(ELSEWHERE) & set(FLAGS)
    built = {option for command in COMMANDS.values() for parameter in command.params for option in parameter.opts}
    assert set(ELSEWHERE) <= built
    assert all(" ".join(["hpclaunch", *verb[:1]]) in COMMANDS for verb in VERBS if verb)


def test_an_input_that_ends_the_process_or_raises_is_counted() -> None:
    child = Child("host patterns")
    assert child.feed(([("a", 1)], "b")) == ("result", "")
    assert child.feed("no arguments")[0] == "traceback"
    child._process.kill()
    assert child.feed(([("a", 1)], "b"))[0] == "crash"
    child.close()


def test_parts_add_up_and_the_same_batch_counts_once(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    tally = Tally(seconds=2.0)
    for outcome in ("result", "refused", "crash"):
        tally.add((), outcome, "words")
    for way, seed in (("pickles", 1), ("pickles", 2), ("pickles", 2), ("npz files", 1)):
        record(way, seed, tally, results)
    assert [(line["way"], line["seed"]) for line in recorded(results)] == [
        ("pickles", 1),
        ("pickles", 2),
        ("npz files", 1),
    ]
    text = page_part(recorded(results))
    assert "| pickles | 6 | 2 | 0 | 0 | 2 | 4 |" in text and "9 inputs of the goal of 300,000" in text
    assert "Crashes: 3." in text


def test_every_batch_names_what_it_was_measured_on() -> None:
    assert all(re.match(r"\d{4}-\d\d-\d\d, hpclaunch \d", line["measured"]) for line in recorded())
