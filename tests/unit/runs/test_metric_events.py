"""A metrics.jsonl of any length: thinned in a stream, the first and the last kept, and counted."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import pytest

from hpclaunch.core.errors import Refused
from hpclaunch.runs import load, metric_events
from hpclaunch.runs.metric_events import LARGEST, Thinned
from tests import fabricated_runs as fabricated


@pytest.mark.parametrize("count", [0, 1, 2, 9, 10, 11, 1000, 12_345])
def test_the_first_and_the_last_are_kept_at_even_distances(count: int) -> None:
    thinned: Thinned[int] = Thinned(most=10, room=10**9)
    for number in range(count):
        thinned.add(number, 1)
    kept = thinned.kept()
    assert thinned.seen == count and len(kept) <= 10
    assert all(place == item for place, item in kept)
    if count:
        assert kept[0][0] == 0 and kept[-1][0] == count - 1
        steps = {after - before for (before, _), (after, _) in itertools.pairwise(kept[:-1])}
        assert len(steps) <= 1
    assert len(kept) == count or len(kept) >= 5


def test_the_room_limits_what_is_kept() -> None:
    thinned: Thinned[int] = Thinned(most=10**6, room=100)
    for number in range(1000):
        thinned.add(number, 10)
        assert thinned._size <= 110
    assert thinned.kept()[0][0] == 0 and thinned.kept()[-1][0] == 999
    assert len(thinned.kept()) >= 5, "and half of it is used"


@pytest.mark.parametrize(("sizes", "places"), [((5, 5, 5), [0, 1, 2]), ((5, 5, 6), [0, 2]), ((16, 1), [0, 1])])
def test_members_are_kept_until_the_room_is_exceeded(sizes: tuple[int, ...], places: list[int]) -> None:
    thinned: Thinned[str] = Thinned(room=15)
    for size in sizes:
        thinned.add("x", size)
    assert [place for place, _ in thinned.kept()] == places


def test_epochs_and_other_events_are_thinned_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_events, "Thinned", lambda *_: Thinned(most=10))
    path = fabricated.make(tmp_path, "run")
    events = [{"event": "start", "world_size": 8}]
    events += [{"event": "epoch", "epoch": n, "loss": 1 / n} for n in range(1, 1001)]
    events += [{"event": "mine"}, {"event": "end", "epochs": 1000}]
    fabricated.write_metrics(path, events)
    found = metric_events.metric_events(load(path))
    assert (found.epochs[0]["epoch"], found.epochs[-1]["epoch"]) == (1, 1000)
    assert [event["event"] for event in found.others] == ["start", "end"]
    assert (len(found.epochs) <= 10, found.epochs_seen, found.others_seen) == (True, 1000, 2)
    assert f"{len(found.epochs)} of 1,000 epochs, the first, the last" in found.note()
    assert found.everything == [*found.others, *found.epochs]


def test_the_other_events_that_are_left_out_are_counted_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_events, "Thinned", lambda *_: Thinned(most=10))
    path = fabricated.make(tmp_path, "run")
    kinds = ("start", *(("checkpoint", "noise_scale") * 500), "end")
    fabricated.write_metrics(path, [{"event": kind, "step": step} for step, kind in enumerate(kinds)])
    found = metric_events.metric_events(load(path))
    steps = [event["step"] for event in found.others]
    assert (steps == sorted(steps), steps[0], steps[-1]) == (True, 0, 1001), "in the order of the file, whatever kind"
    assert (len(steps) <= 22, found.others_seen) == (True, 1002)
    assert f"{len(steps)} of 1,002 other events" in found.note()


def test_long_events_are_thinned_by_their_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_events, "Thinned", lambda *_: Thinned(room=2000))
    path = fabricated.make(tmp_path, "run")
    kinds = [kind for number in range(1, 31) for kind in ("epoch", "checkpoint")]
    events = [{"event": kind, "epoch": number, "x": "x" * 200} for number, kind in enumerate(kinds)]
    fabricated.write_metrics(path, events)
    found = metric_events.metric_events(load(path))
    assert (found.epochs_seen, found.others_seen) == (30, 30)
    assert all(2 < len(some) <= 2000 // 200 + 1 for some in (found.epochs, found.others))


def test_a_short_file_is_whole(tmp_path: Path) -> None:
    run = load(fabricated.finished(tmp_path))
    found = metric_events.metric_events(run)
    assert len(found.epochs) == found.epochs_seen == fabricated.EPOCHS and found.note() == ""
    assert [event["event"] for event in found.others] == ["start", *["noise_scale"] * fabricated.EPOCHS, "end"]


def test_lines_of_a_superseded_start_and_damaged_ones_are_left_out(tmp_path: Path) -> None:
    path = fabricated.make(tmp_path, "run")
    lines = [{"event": "epoch", "epoch": n, "start_number": start} for n, start in ((1, 1), (2, 2), (3, 1), (3, 2))]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (path / "metrics.jsonl").write_text(f"{text}{{damaged\n[1]\n\n")
    found = metric_events.metric_events(load(path))
    assert [event["epoch"] for event in found.epochs] == [1, 2, 3]
    assert not any("start_number" in event for event in found.epochs)


def test_a_file_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    path = fabricated.make(tmp_path, "run")
    (path / "metrics.jsonl").touch()
    os.truncate(path / "metrics.jsonl", LARGEST + 1)
    with pytest.raises(Refused, match="at most 1 GB of metrics are read"):
        metric_events.metric_events(load(path))


def test_no_file_and_a_link_are_no_events(tmp_path: Path) -> None:
    path = fabricated.make(tmp_path, "run")
    assert metric_events.metric_events(load(path)) == metric_events.MetricEvents()
    (tmp_path / "other").write_text('{"event": "epoch", "epoch": 1}\n')
    (path / "metrics.jsonl").symlink_to(tmp_path / "other")
    assert metric_events.metric_events(load(path)) == metric_events.MetricEvents()
