"""Which run a typed name means, which runs a list has and in which order, and how the list is made anew."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpclaunch import runs
from hpclaunch.core.errors import NotFound
from hpclaunch.runs import Run, ended
from hpclaunch.runs import index as index_module
from hpclaunch.runs.ownership import new_token
from tests.builders import a_run


@dataclass
class Place:
    """A home with a list of runs, in which runs of this user and of others are."""

    folder: Path
    index: Path
    all: dict[str, Run] = field(default_factory=dict)

    def add(self, name: str, at: int, own: bool = True, listed: bool = True, **values: Any) -> Run:
        """Make a run directory; `at`: the second of its creation."""
        path = self.folder / name
        path.mkdir(parents=True)
        made = replace(a_run(self.folder), path=path, created=f"2026-01-01T00:00:{at:02}Z", token=new_token())
        made = runs.save(replace(made, state="FAILED", **values), durable=False)
        (path / "spec.json").write_text("{}")
        if listed:
            assert runs.remember(self.index, path) == ""
        if own:
            assert runs.list_own(self.index.parent, made) == ""
        self.all[name] = made
        return made

    def find(self, name: str | None) -> str:
        """The directory of the run that a name means, below the runs."""
        return os.path.relpath(runs.find(self.index, name, [self.folder]).path, self.folder)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """The list has them in this order; ``z`` is not in the list, only in the folder of the runs."""
    made = Place(tmp_path / "runs", tmp_path / "state/runs.txt")
    for part in ("elsewhere", "run-"):
        (tmp_path / part).mkdir()
    made.add("a-train-1", 1, job_id="11", earlier=("10",))
    made.add("sweep-2", 2, job_id="22", earlier=("20", "21"), tasks=12, parts=("0-5", "6-11", ""), offsets=(0, 6, 0))
    made.add("sweep-x-3", 3, job_id="33", tasks=3)
    made.add("z", 4, listed=False, job_id="44")
    made.add("plot-5", 5, own=False, job_id="11", earlier=("12",))
    monkeypatch.chdir(tmp_path / "elsewhere")
    return made


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        (None, "z"),
        ("@latest", "z"),
        ("@1", "z"),
        ("@2", "sweep-x-3"),
        ("@0004", "a-train-1"),
        ("@3/0011", "sweep-2/0011"),
        ("@latest/.", "z"),
        ("11", "a-train-1"),  # that of another user is newer
        ("10", "a-train-1"),
        ("12", "plot-5"),
        ("44", "z"),
        ("21", "sweep-2"),
        ("22_11", "sweep-2/0011"),
        ("20_3", "sweep-2/0003"),
        ("21_3", "sweep-2/0009"),
        ("33_0", "sweep-x-3/0000"),
        ("sweep-2/0003", "sweep-2/0003"),
        ("22/0003", "sweep-2/0003"),
        ("20/0011", "sweep-2/0011"),
        ("sweep-x/0002", "sweep-x-3/0002"),
        ("3/0002", "sweep-x-3/0002"),
        ("a", "a-train-1"),
        ("1", "a-train-1"),
        ("plo", "plot-5"),
        ("sweep-x", "sweep-x-3"),
        ("../runs/z", "z"),
        ("../runs/sweep-2/0003", "sweep-2/0003"),
    ],
)
def test_what_a_typed_name_means(place: Place, name: str | None, meant: str) -> None:
    assert place.find(name) == meant
    assert place.find(str(place.folder / meant)) == meant, "so does its path"


@pytest.mark.parametrize(
    ("name", "what", "allowed"),
    [
        ("@0", "'@0' names no run", "@latest, or @1 for the newest run, @2 for the one before it"),
        ("@x", "'@x' names no run", "@latest, or @1 for the newest run, @2 for the one before it"),
        ("@", "'@' names no run", "@latest, or @1 for the newest run, @2 for the one before it"),
        ("@٢", "'@٢' names no run", "@latest, or @1 for the newest run, @2 for the one before it"),
        ("@²", "'@²' names no run", "@latest, or @1 for the newest run, @2 for the one before it"),
        ("@5", "'@5' names no run: there are only 4", "@1 to @4"),
        ("22_12", "array 22 has no task 12", "0 to 11"),
        ("21_6", "array 21 has no task 6", "0 to 5"),
        ("sweep", "'sweep' matches 2 runs", "sweep-x-3, sweep-2"),
        ("sweep/0001", "'sweep' matches 2 runs", "sweep-x-3, sweep-2"),
        ("rain", "no run is called 'rain'; did you mean 'a-train-1'?", ""),
        ("99_1", "no run is called '99_1'", ""),
        ("11_3", "no run is called '11_3'", ""),  # a job, and no array
        ("22_x", "no run is called '22_x'", ""),
    ],
)
def test_a_name_of_no_run_is_said_with_what_is_allowed(place: Place, name: str, what: str, allowed: str) -> None:
    with pytest.raises(NotFound) as caught:
        place.find(name)
    (fault,) = caught.value.faults
    assert fault.what.rstrip("?") == what.rstrip("?") and fault.allowed == allowed
    assert fault.next


def test_all_names_without_a_run_are_told_together(place: Place) -> None:
    with pytest.raises(NotFound) as caught:
        runs.find_all(place.index, ["nothing", "z", "@9", "never"], [place.folder])
    words = ["'nothing'", "'@9'", "'never'"]
    assert [word in fault.what for word, fault in zip(words, caught.value.faults, strict=True)] == [True] * 3
    assert {fault.next for fault in caught.value.faults} == {"hpclaunch runs list"}


def test_a_new_home_says_how_to_make_a_run(tmp_path: Path) -> None:
    for name in ("@latest", "@3", None, "x"):
        with pytest.raises(NotFound) as caught:
            runs.find(tmp_path / "runs.txt", name)
        (fault,) = caught.value.faults
        assert (fault.what, fault.allowed) == ("no run is called 'x'" if name == "x" else "there is no run yet", "")
        assert fault.next == "hpclaunch submit JOB"


def test_where_no_run_is_ones_own_the_newest_of_others_is_meant(tmp_path: Path) -> None:
    place = Place(tmp_path / "runs", tmp_path / "state/runs.txt")
    for number in (1, 2):
        place.add(f"theirs-{number}", number, own=False)
    assert [place.find(name) for name in (None, "@latest", "@1", "@2")] == ["theirs-2"] * 3 + ["theirs-1"]
    with pytest.raises(NotFound, match="there are only 2"):
        place.find("@3")
    place.add("own-0", 0)
    assert [place.find(name) for name in (None, "@latest", "@1")] == ["own-0"] * 3


def test_in_the_folder_of_the_runs_a_name_is_a_path(place: Place, tmp_path: Path) -> None:
    """A copy of a run with the name of another one: here the copy is meant, elsewhere the run."""
    copy = tmp_path / "copies/sweep-2"
    copy.mkdir(parents=True)
    (copy / "run.json").write_text((place.folder / "sweep-x-3/run.json").read_text())
    os.chdir(copy.parent)
    assert runs.find(place.index, "sweep-2").path == copy
    assert runs.find(place.index, "sweep-2/0002").path == copy / "0002"
    os.chdir(tmp_path)
    assert runs.find(place.index, "sweep-2/0002").path == place.folder / "sweep-2/0002"


def test_a_folder_or_a_file_that_is_no_run_hides_no_run_of_its_name(place: Place) -> None:
    Path("z").mkdir()
    Path("a-train-1").write_text("a file")
    Path("plot-5").symlink_to("nowhere")
    assert [place.find(name) for name in ("z", "a-train-1", "plot-5")] == ["z", "a-train-1", "plot-5"]


def test_a_run_whose_directory_is_gone_or_damaged_is_named_with_the_reason(place: Place) -> None:
    (place.folder / "plot-5/run.json").write_text("{")
    with pytest.raises(NotFound) as damaged:
        place.find("plot-5")
    assert damaged.value.faults[0].where == str(place.folder / "plot-5/run.json")
    (place.folder / "plot-5").rename(place.folder.parent / "moved")
    with pytest.raises(NotFound) as gone:
        place.find("plot-5")
    (fault,) = gone.value.faults
    assert (fault.where, fault.what) == (str(place.folder / "plot-5"), "the directory of this run no longer exists")
    assert "hpclaunch runs rebuild" in fault.next


# --- the runs of a list


def keep_ended(place: Place, *names: str) -> None:
    entries = {place.all[name].path: (runs.stamp_of(place.all[name].path) or [], place.all[name], {}) for name in names}
    ended.keep_ended(place.index.parent, entries, [run.path for run in place.all.values()])


def test_names_mean_the_same_if_the_index_of_ended_runs_has_them(place: Place) -> None:
    """The record of one was changed since; another's directory is gone."""
    keep_ended(place, "a-train-1", "sweep-2", "sweep-x-3")
    runs.save(replace(place.all["a-train-1"], state="RUNNING"))
    assert runs.find(place.index, "10").state == "RUNNING", "as its directory has it now"
    assert place.find("21_3") == "sweep-2/0009"
    assert place.find("@2") == "sweep-x-3"
    (place.folder / "sweep-x-3").rename(place.folder.parent / "moved")
    assert [place.find(name) for name in ("@1", "@2", "@3")] == ["z", "sweep-2", "a-train-1"]


def test_the_newest_ended_runs_are_listed_and_a_change_of_any_other_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path / "runs", tmp_path / "state/runs.txt")
    names = [f"r{number:02}" for number in range(60)]
    for number, name in enumerate(names):
        place.add(name, number, own=False)
    keep_ended(place, *names)
    found = runs.known(place.index, most_ended=3)
    assert [run.path.name for run in found.runs] == ["r59", "r58", "r57"]
    assert (len(found.ended), found.left_out) == (3, 57)
    for changed in ("r58", "r40", "r00"):
        runs.save(replace(place.all[changed], state="RUNNING"), durable=False)
        seen = []
        for number in range(57):  # where the look at the others begins is chosen at random
            monkeypatch.setattr("os.urandom", lambda size, number=number: (57 * 1000 + number).to_bytes(size, "big"))
            found = runs.known(place.index, most_ended=3)
            seen.append(changed in [run.path.name for run in found.runs if run.state == "RUNNING"])
            assert len(found.runs) + found.left_out == 60
        assert any(seen) and (changed != "r58" or all(seen))
        runs.save(place.all[changed], durable=False)
        keep_ended(place, changed)
    unchecked = runs.known(place.index, check=False)
    assert (len(unchecked.runs), unchecked.left_out) == (60, 0)


@given(
    st.lists(st.integers(0, 9), max_size=6), st.lists(st.integers(0, 9), max_size=4), st.randoms(use_true_random=False)
)
def test_runs_outside_of_the_list_have_their_places_by_their_times(
    listed: list[int], others: list[int], random: Any
) -> None:
    """The list is in the order of submission; `others` are found in folders."""

    def run(name: str, at: int) -> Run:
        usual = {"name": "x", "site": "x", "scheduler": "slurm", "job_id": "", "state": "FAILED"}
        return Run(path=Path("/runs") / name, created=f"2026-01-01T00:00:{at:02}Z", **usual)

    inside = [run(f"a{number}", at) for number, at in enumerate(listed)]
    outside = [run(f"b{number}", at) for number, at in enumerate(others)]
    shuffled = random.sample(outside, len(outside))
    merged = index_module._newest_first(inside, shuffled)
    assert [one for one in merged if one in inside] == inside, "also if a clock stepped back"
    assert sorted(one.path for one in merged) == sorted(one.path for one in [*inside, *outside])
    times = [one.created for one in merged if one in outside]
    assert times == sorted(times, reverse=True)
    if listed == sorted(listed, reverse=True):
        assert [one.created for one in merged] == sorted((one.created for one in merged), reverse=True)


def test_named_runs_have_the_order_that_all_have(tmp_path: Path) -> None:
    """The clock was set back before `two`; three runs are missing in the list, `far` is in no known folder either."""
    place = Place(tmp_path / "runs", tmp_path / "state/runs.txt")
    place.add("one", 5), place.add("two", 2)
    place.add("between", 3, listed=False), place.add("new", 9, listed=False)
    elsewhere = Place(tmp_path / "elsewhere", place.index)
    far = elsewhere.add("far", 7, listed=False)
    everything = runs.known(place.index, [place.folder]).runs
    assert [run.path.name for run in everything] == ["new", "between", "two", "one"]
    for named in itertools.permutations(everything):
        for number in range(1, 5):
            ordered = runs.newest_first(place.index, [place.folder], named[:number])
            assert ordered == [run for run in everything if run in named[:number]]
    ordered = runs.newest_first(place.index, [place.folder], [far, *everything])
    assert [run.path.name for run in ordered] == ["new", "far", "between", "two", "one"]


def test_only_folders_with_a_record_are_runs_and_links_are_none(place: Place) -> None:
    (place.folder / "empty").mkdir()
    (place.folder / "link").symlink_to(place.folder / "z")
    (place.folder / "file").touch()
    assert [path.name for path in runs.inside(place.folder)] == ["a-train-1", "plot-5", "sweep-2", "sweep-x-3", "z"]
    found = runs.known(place.index, [place.folder, place.folder, place.folder.parent / "nowhere"])
    assert [run.path.name for run in found.runs] == ["plot-5", "z", "sweep-x-3", "sweep-2", "a-train-1"]
    assert found.unreadable == found.newer == found.not_permitted == ()
    assert runs.inside(Path("a\0b")) == []


def test_a_run_in_a_folder_of_any_bytes_is_listed(tmp_path: Path) -> None:
    place = Place(tmp_path / os.fsdecode(b"caf\xe9"), tmp_path / "state/deeper/runs.txt")
    run = place.add("r1", 1)
    assert runs.indexed(place.index) == [run.path]
    assert runs.known(place.index).runs == (run,)


def test_a_list_that_cannot_be_written_is_told_and_loses_no_run(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file in the place of the folder")
    told = runs.remember(tmp_path / "state/runs.txt", tmp_path / "r1")
    assert told == f"{tmp_path}/state/runs.txt: the list of runs cannot be written: File exists"
    runs.forget(tmp_path / "new/runs.txt", [tmp_path / "r1"])
    assert (tmp_path / "new/runs.txt").read_text() == "", "to forget in an empty home is no error"


# --- rebuild


def test_a_rebuilt_list_has_what_exists_in_its_order_and_says_what_it_dropped(place: Place, tmp_path: Path) -> None:
    newer = place.add("newer-6", 6)
    (newer.path / "run.json").write_text('{"format": 99}')
    damaged, gone = place.add("damaged-7", 7), place.add("gone-8", 8)
    (damaged.path / "run.json").write_text("{")
    (gone.path).rename(tmp_path / "elsewhere/moved")
    keep_ended(place, "a-train-1")
    other = Place(tmp_path / "more", place.index)
    other.add("m-9", 0, listed=False)

    def folders() -> Iterator[Path]:
        yield tmp_path / "more"
        runs.remember(place.index, tmp_path / "late-9")  # another process submits a run: the list was read before

    rebuilt = runs.rebuild(place.index, folders())
    names = ["newer-6", "m-9", "a-train-1", "sweep-2", "sweep-x-3", "z", "plot-5", "late-9"]
    assert [path.name for path in rebuilt.paths] == names
    assert runs.indexed(place.index) == list(rebuilt.paths)
    assert rebuilt.forgotten == (damaged.path, gone.path)
    assert rebuilt.not_permitted == ()
    assert not (place.index.parent / ended.FILE).exists()
