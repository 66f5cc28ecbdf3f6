"""What is said when a run goes on with other options."""

from __future__ import annotations

import json
from pathlib import Path

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
