"""What is said when a run goes on with other options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

try:
    import numpy  # noqa: F401
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

from hpclaunch.training.checkpoints import resuming
from tests.unit.training.disk_calls import disk_calls
from tests.unit.training.optimization.test_learning_rate import asked


def changed(before: str, now: str) -> list[str]:
    then = json.loads(json.dumps(vars(asked(*before.split()))))
    return resuming.changed(vars(asked(*now.split())), then)


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ("", "--momentum=0.8", ["--momentum is now 0.8, but was 0.9"]),
        ("", "--steps-per-execution=4", ["--steps-per-execution is now 4, but was 1"]),  # the rate changes with these
        ("--decay=cosine", "--decay=cosine --epochs=20", ["--epochs is now 20, but was 12"]),
        ("--decay=step --decay-epochs=3,6", "--decay=step --decay-epochs=3,6", []),
        ("--decay=step --decay-epochs=3,6", "--decay=step --decay-epochs=3", ["--decay-epochs is now [3.0]"]),
        ("", "--export-model=false --mlflow=true", []),
        ("", "--epochs=20 --stage-to=/tmp --data-dir=/elsewhere --noise-scale=false", []),
    ],
)
def test_options_that_change_what_is_computed_are_told(before: str, now: str, said: list[str]) -> None:
    found = changed(before, now)
    assert len(found) == len(said)
    assert all(one.startswith(start) for one, start in zip(found, said, strict=True))


def of(batch: int, whole: int = 0) -> dict[str, object]:
    return {
        "batch_size_per_rank": batch,
        "accumulation": 1,
        "scale_learning_rate": "none",
        "global_batch_size": whole,
    }


@pytest.mark.parametrize(
    ("before", "then", "now", "size", "replicas", "said"),
    [
        ({"world_size": 2, "replicas": 2}, of(8), of(8), 2, 2, ""),
        ({"world_size": 2}, of(8), of(8), 2, 2, ""),  # a checkpoint of before there were strategies
        (
            {"world_size": 1},
            of(8),
            of(8),
            2,
            2,
            "world size 2 instead of 1: the batch size per rank stays, so the global batch is 16 instead of 8;",
        ),
        (
            {"world_size": 2, "replicas": 2},
            of(32, 64),
            of(16, 64),
            4,
            4,
            "world size 4 instead of 2: the batch size per rank is 16 instead of 32, so the global batch stays 64;",
        ),
        (
            {"world_size": 1, "replicas": 4},
            of(8),
            of(8),
            1,
            2,
            "2 replicas instead of 4: the batch size per rank stays, so the global batch is 16 instead of 32;",
        ),
        (
            {"world_size": 1, "replicas": 4},
            of(8),
            of(8),
            4,
            4,
            "world size 4 instead of 1: the batch size per rank stays, so the global batch stays 32;",
        ),
    ],
)
def test_another_number_of_ranks_or_replicas_is_told(
    before: dict[str, int],
    then: dict[str, object],
    now: dict[str, object],
    size: int,
    replicas: int,
    said: str,
) -> None:
    for begun, exact in ((0, False), (0, True), (3, False), (3, True)):
        facts = {**before, "options": then, "epoch_step": begun}
        found = resuming.another_size(now, facts, size, replicas, exact)
        assert found.startswith(said) and bool(found) == bool(said)
        if found:
            stay = replicas == before.get("replicas", before["world_size"])
            assert ("the shards stay" in found) == stay
            assert found.endswith("there are new shards") == (not stay and not begun)
            assert ("of the samples that it has left" in found) == (not stay and begun > 0 and exact)
            assert ("others not at all" in found) == (not stay and begun > 0 and not exact)


def test_a_divided_batch_has_not_changed() -> None:
    assert resuming.changed(of(16, 64), of(32, 64)) == []
    assert resuming.changed(of(16), of(32)) == ["--batch-size-per-rank is now 16, but was 32"]
    assert resuming.changed(of(16, 32), of(32, 64)) == ["--global-batch-size is now 32, but was 64"]


@pytest.mark.parametrize(
    ("now", "facts", "said"),
    [
        ("crc-1", {"data": "crc-1", "epoch_step": 3}, []),
        ("crc-1", {"epoch_step": 3}, []),  # a checkpoint that does not tell
        ("crc-2", {"data": "crc-1", "epoch_step": 0}, ["the data are not those of the checkpoint (crc-2, then crc-1)"]),
    ],
)
def test_other_data_are_told(now: str, facts: dict[str, object], said: list[str]) -> None:
    assert resuming.other_data(now, facts) == said


def test_the_lines_after_a_checkpoint_move_to_another_file(tmp_path: Path) -> None:
    log, repeated = tmp_path / "metrics.jsonl", tmp_path / "metrics-repeated.jsonl"
    resuming._cut(str(log), 3)
    assert not log.exists() and not repeated.exists()
    log.write_text("1\n2\n3\n")
    for size in (6, 7):
        resuming._cut(str(log), size)
        assert not repeated.exists()
    resuming._cut(str(log), 4)
    assert (log.read_text(), repeated.read_text()) == ("1\n2\n", "3\n")
    resuming._cut(str(log), 2)
    assert (log.read_text(), repeated.read_text()) == ("1\n", "3\n2\n")


def test_lines_that_this_attempt_has_written_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as that of its start: it is written before a checkpoint is looked for."""
    log, repeated = tmp_path / "metrics.jsonl", tmp_path / "metrics-repeated.jsonl"
    log.write_text("1\n2\n3\nnow\n")
    calls = disk_calls(monkeypatch)
    resuming._cut(str(log), 4, until=6)
    assert calls == [f"fsync {log}.new", f"rename {log}"], "the log is never without what it keeps"
    assert (log.read_text(), repeated.read_text()) == ("1\n2\nnow\n", "3\n")
    log.write_text("1\nnow\n")
    resuming._cut(str(log), 4, until=2)
    assert (log.read_text(), repeated.read_text()) == ("1\nnow\n", "3\n"), "of a shorter log nothing is repeated"


@pytest.mark.parametrize(("then", "is_exact"), [("crc-1", True), ("crc-2", False), ("", True)])
def test_what_is_left_of_an_epoch_is_known_only_of_the_same_data(then: str, is_exact: bool) -> None:
    """Older checkpoints do not tell which data they come from."""
    facts = {"options": vars(asked()), "data": then, "epoch_parts": [[2, 12]]}
    assert resuming._is_exact(asked(), facts, "crc-1") is is_exact


FACTS = {"epoch": 1, "epoch_step": 3, "steps_per_epoch": 6, "step": 9, "metrics_bytes": 0, "world_size": 2}
FILES = [{"name": name} for name in ("shared.npz", "rank-0000.npz", "rank-0001.npz")]
WHOLE = {**FACTS, "files": FILES, "options": {"batch_size_per_rank": 4, "accumulation": 1}}
NOT_PARTS = "epoch_parts are not numbers"


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (None, ""),
        ([[2, 12]], ""),
        ([[3, 4], [2, 4]], ""),
        ([], "epoch_parts do not end with what its own ranks have read"),
        ([[3, 4]], "epoch_parts do not end with what its own ranks have read"),
        ([[0, 4], [2, 4]], NOT_PARTS),
        ([[2, 0]], NOT_PARTS),
        ([[2, True]], NOT_PARTS),
        ([[2, 2**31]], NOT_PARTS),
        ([[2, 4, 1]], NOT_PARTS),
        ([2], NOT_PARTS),
        ({"2": 4}, NOT_PARTS),
    ],
)
def test_a_manifest_with_other_parts_of_the_epoch_is_damaged(parts: object, said: str) -> None:
    found = resuming.fault_in({**WHOLE, "epoch_parts": parts})
    assert said in found and bool(found) == bool(said)


def test_at_an_epochs_end_no_part_of_it_was_read() -> None:
    ended = {**WHOLE, "epoch_step": 0}
    assert resuming.fault_in({**ended, "epoch_parts": []}) == resuming.fault_in(ended) == ""
    assert "do not end with" in resuming.fault_in({**ended, "epoch_parts": [[2, 4]]})


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ("--gradient-lag=true", "", "--gradient-lag=true"),
        ("", "--gradient-lag=true", "--gradient-lag=false"),
        ("--optimizer=muon --muon-exclude=a/*", "--optimizer=muon --muon-exclude=b/*", "--muon-exclude=a/*"),
        ("--optimizer=muon", "--optimizer=muon --muon-weights=matrices", "--muon-weights=hidden"),
        ("--optimizer=muon --muon-exclude=a/*", "--optimizer=muon --muon-exclude=a/*", ""),
        ("--momentum=0.8", "", ""),
    ],
)
def test_options_that_cannot_change_are_named_with_their_former_value(before: str, now: str, said: str) -> None:
    assert resuming.refused(asked(*now.split()), vars(asked(*before.split()))) == said


def test_a_checkpoint_of_the_first_version_had_muon_on_all_matrices() -> None:
    assert resuming.refused(asked("--optimizer=muon"), {}) == "--muon-weights=matrices"
    assert not resuming.refused(asked("--optimizer=muon", "--muon-weights=matrices"), {})


MOST = 2**53 - 1
BEST = {"metric": "loss", "value": 0.5, "epoch": 0, "step": 0}
EPOCHS = {"best": BEST, "rate_factor": 1.0, "stopped": False, "callbacks": [["EarlyStopping", {"wait": 3}]]}
HELD = {"shape": [4, 6], "axis": 1}
"""An array that two ranks hold, three columns each."""


def of_a_divided_model(stages: int = 1, **about: Any) -> dict[str, Any]:
    """The facts of a checkpoint of two ranks that share one model, and of one array of it."""
    array = {**HELD, **about}
    names = ["shared.npz", "rank-0000.npz", *(f"part-{number:04d}.npz" for number in range(2 * stages))]
    parts = {"count": 2, "arrays": {"weight-000": array}, **({"stages": stages} if stages > 1 else {})}
    return {**WHOLE, "world_size": 2 * stages, "copies": 1, "files": [{"name": name} for name in names], "parts": parts}


SOUND: dict[str, dict[str, Any]] = {
    "the least of every number": {**WHOLE, "epoch": 0, "epoch_step": 0, "steps_per_epoch": 1, "step": 0},
    "the most of every number": {**WHOLE, "epoch": MOST, "step": MOST, "metrics_bytes": MOST, "steps_per_epoch": MOST},
    "the last step of an epoch": {**WHOLE, "epoch_step": 5},
    "a sample in each step": {**WHOLE, "options": {"batch_size_per_rank": 1, "accumulation": 1}},
    "one replica": {**WHOLE, "replicas": 1},
    "one copy": {**WHOLE, "copies": 1, "files": FILES[:2]},
    "as many copies as ranks": {**WHOLE, "copies": 2},
    "earlier starts": {**WHOLE, "earlier_starts": {"0": 0, "1" * 9: MOST}},
    "a part of the epoch": {**WHOLE, "epoch_parts": [[2**31 - 1, 1], [2, 2**31 - 1]]},
    "facts of the epochs": {**WHOLE, "epochs": EPOCHS},
    "no best epoch": {**WHOLE, "epochs": {**EPOCHS, "best": None, "rate_factor": 0, "callbacks": []}},
    "the largest best epoch": {**WHOLE, "epochs": {**EPOCHS, "best": {**BEST, "epoch": MOST, "step": MOST}}},
    "a divided array": of_a_divided_model(),
    "a divided array, by rows": of_a_divided_model(axis=0),
    "an array of the second stage": of_a_divided_model(2, stage=1),
    "an undivided array of the second stage": of_a_divided_model(2, stage=1, axis=None),
    "lengths of one": of_a_divided_model(shape=[1, 2]),
}


@pytest.mark.parametrize("facts", SOUND.values(), ids=list(SOUND))
def test_a_training_continues_from_facts_up_to_their_bounds(facts: dict[str, Any]) -> None:
    assert resuming.fault_in(facts) == ""


def damaged() -> list[tuple[dict[str, Any], str]]:
    """Facts of which one is beyond its bounds, with what is said."""
    found: list[tuple[dict[str, Any], str]] = []
    for name, least in {**dict.fromkeys(FACTS, 0), "steps_per_epoch": 1, "world_size": 1}.items():
        said = f"its {name} is not a whole number from {least}"
        found += [({**WHOLE, name: value}, said) for value in (least - 1, 2**53, True, 1.0, None)]
    found += [({**WHOLE, "epoch_step": step}, "its epoch_step is not below its steps_per_epoch") for step in (6, 7)]
    said = "its copies are not a whole number from 1 to its world size"
    found += [({**WHOLE, "copies": copies}, said) for copies in (0, 3, True, None, "1")]
    said = "its earlier starts are not numbers with their last steps"
    for earlier in ([], {"1": -1}, {"1": 2**53}, {"1": True}, {"1" * 10: 1}, {"one": 1}, {"²": 1}):
        found.append(({**WHOLE, "earlier_starts": earlier}, said))
    found += [({**WHOLE, "options": options}, "it does not name the options") for options in (None, [])]
    for name in ("batch_size_per_rank", "accumulation"):
        said = f"its option {name} is not a whole number from 1"
        found += [({**WHOLE, "options": {**WHOLE["options"], name: value}}, said) for value in (0, True, None, 1.0)]  # type: ignore[dict-item]
    found += [({**WHOLE, "replicas": value}, "its replicas are not a whole number from 1") for value in (0, True, "1")]
    found.append(({**WHOLE, "files": FILES[:2]}, "it has 2 files, not one for each of 2 ranks and a shared one"))
    found.append(({**WHOLE, "files": FILES[:2] + FILES[1:2]}, "it does not name rank-0001.npz"))
    lacking = of_a_divided_model()
    said = "it has 3 files, not one for each of 1 ranks and a shared one and one for each of 2 parts"
    found.append(({**lacking, "files": lacking["files"][:-1]}, said))
    found.append(({**lacking, "files": lacking["files"][:-1] * 2}, "it has 6 files"))
    return found + of_epochs() + of_parts()


def of_epochs() -> list[tuple[dict[str, Any], str]]:
    changes: list[tuple[dict[str, Any], str]] = []
    said = "its factor of the learning rate is not a number from 0"
    changes += [({"rate_factor": value}, said) for value in (-1e-9, 1e308, True, "1", None)]
    changes += [({"stopped": value}, "it does not say whether training was stopped") for value in (0, 1, None)]
    said = "its callbacks are not names with numbers"
    for callbacks in ({}, [[]], [["a", {}, 1]], [[1, {}]], [["a", []]], [["a", {"wait": True}]], [("a", {})]):
        changes.append(({"callbacks": callbacks}, said))
    said = "its best epoch is not epoch, metric, step, value"
    for best in ([], {}, {**BEST, "other": 1}, {**BEST, "metric": 1}):
        changes.append(({"best": best}, said))
    said = "its best epoch or step is not a whole number from 0"
    for name in ("epoch", "step"):
        changes += [({"best": {**BEST, name: value}}, said) for value in (-1, 2**53, True, 1.0)]
    said = "the value of its best epoch is not a finite number"
    changes += [({"best": {**BEST, "value": value}}, said) for value in (1e308, -1e308, float("nan"), True, "1")]
    said = "its facts of the epochs are not best, callbacks, rate_factor, stopped"
    found = [({**WHOLE, "epochs": {**EPOCHS, **change}}, said) for change, said in changes]
    return [*found, *(({**WHOLE, "epochs": epochs}, said) for epochs in ([], {}, {**EPOCHS, "other": 1}))]


def of_parts() -> list[tuple[dict[str, Any], str]]:
    said = "its array weight-000 has no shape that can be divided into 2 parts"
    arrays: list[dict[str, Any]] = [{"shape": [4, 5]}, {"shape": [4, 0]}, {"shape": [0, 4]}, {"shape": [2**53, 4]}]
    arrays += [{"shape": [True, 2]}, {"shape": [2.0, 2]}, {"axis": 2}, {"axis": -1}, {"axis": True}, {"other": 1}]
    arrays += [{"axis": None}, {"stage": 1}, {"stage": -1}, {"stage": False}]
    found = [(of_a_divided_model(**array), said) for array in arrays]
    return [*found, *((of_a_divided_model(2, **array), said) for array in ({"stage": 2}, {"axis": None, "stage": 0}))]


@pytest.mark.parametrize(("facts", "said"), damaged())
def test_a_fact_beyond_its_bounds_is_damage_and_is_named(facts: dict[str, Any], said: str) -> None:
    assert resuming.fault_in(facts).startswith(said)
