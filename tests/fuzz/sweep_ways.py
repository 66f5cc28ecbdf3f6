"""Hostile sweeps: what ``--sweep`` says, and the files of an array of runs."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from hpclaunch import runs
from hpclaunch.actions.requesting import typed_values
from hpclaunch.cli.show import run_details, run_tables
from hpclaunch.config.parameters import Parameter
from hpclaunch.core.spec import Sweep
from hpclaunch.runs import array_parts, arrays, sweep_values
from tests.builders import a_job, planned
from tests.fuzz.data_ways import edited, edits
from tests.fuzz.scene import Scene, Way
from tests.fuzz.text_ways import a_record, as_yaml, changed, changes, screen, words

JOBS = [
    a_job(),
    a_job(
        parameters={
            "epochs": Parameter(default=3),
            "rate": Parameter(default=0.1, choices=(0.1, 1.0)),
            "optimizer": Parameter(default="adam"),
            "mixed": Parameter(default=False),
        }
    ),
]
"""A program of one's own, and one that declares its parameters."""
NAMES = ["epochs", "rate", "optimizer", "mixed", "lr", "learning-rate", "synthetic", "a.b", "-x", "", "{lr}"]
PIECES = [
    "1",
    "2",
    "0.1",
    "1.0",
    "1..3",
    "1..",
    "..3",
    "3..1",
    "-2..2",
    "1..100000",
    "0..999999999999999999",
    "1..2..3",
    "1:2:0",
]
PIECES += [
    '"',
    '""',
    '"a,b"',
    '"a""b"',
    ",",
    ",,",
    " ",
    "adam",
    "true",
    "yes",
    "1e999",
    "nan",
    "9" * 5000,
    "\u00b2",
    "\u0663",
    "\\",
]
FITTING = {"epochs": ["1", "2", "5..7", "-3"], "rate": ["0.1", "1.0"], "mixed": ["true", "false"]}
FITTING |= {"optimizer": ["adam", '"a,b"', '"a""b"', "\u00e9 x", "\\0", "\\0411", "\x7f\t", "1..3", "-x"]}
odd = st.lists(st.one_of(st.sampled_from(PIECES), words), max_size=4)
fitting = st.sampled_from(sorted(FITTING)).flatmap(
    lambda name: st.tuples(st.just(name), st.lists(st.sampled_from(FITTING[name]), min_size=1, max_size=3, unique=True))
)
some = st.one_of(
    st.lists(fitting, min_size=1, max_size=3, unique_by=lambda one: one[0]),
    st.lists(st.tuples(st.one_of(st.sampled_from(NAMES), words), odd), min_size=1, max_size=2),
)
specifications = st.one_of(
    some.map(lambda made: [f"{name}={','.join(values)}" for name, values in made]),
    st.lists(words, min_size=1, max_size=2),
)
limits = st.tuples(st.one_of(st.none(), st.integers(-1, 2000)), st.integers(-1, 50))

ARRAY = a_record(Path(), state="RUNNING", job_id="9", earlier=["7", "8"], tasks=4, parts=["", "0-1,3", "2"], edition=2)
ARRAY |= {"offsets": [0, 0, 2], "nodes": "n[1-2]"}
STATES = {"0": ["9_0", "RUNNING", "", "", "n1"], "3": ["8_3", "FAILED", "1:0", "NonZeroExitCode", "n2"]}
VALUES = "".join(f"{index}\t--rate=0.{index}\t--default=note=a\\\\b\\0011\n" for index in range(4)).encode()
listed = st.lists(
    st.one_of(
        st.sampled_from(["0", "1-3", "0-999999999", "3-1", "1:0", "0-8:2", "%4", "%", ",", "-", "9" * 30]), words
    ),
    max_size=4,
).map(",".join)
named = st.one_of(words, st.sampled_from(["0", "3", "4", "03", "\u00b2", "\u0663", "9" * 300]))


def feed_sweep(scene: Scene, typed: list[str], sizes: Any, given: dict[str, Any]) -> None:
    """One sweep that is typed, and one array that is read."""
    outcomes, folder = [], scene.place / "project"
    typed = [text.encode("utf-8", "replace").decode() for text in typed]  # a shell passes no others
    for job in JOBS:
        with scene.met(folder):
            check_sweep(folder, planned(job=job, sweep=typed_values.axes_of(typed)).sweep, *sizes)
        outcomes.append(scene.outcome)
    path = scene.place / "project/runs/train-9"
    (path / "attempts").mkdir(parents=True)
    try:
        (path / "run.json").write_bytes(as_yaml(changed(ARRAY, given["record"])))
        (path / "states.json").write_bytes(as_yaml(changed(STATES, given["states"])))
        (path / "values").write_bytes(edited(VALUES, given["values"]) + given["line"].encode("utf-8", "surrogatepass"))
        (path / "spec.json").write_text("{}")
        with contextlib.redirect_stdout(screen()), scene.met(path):
            read_array(path, given["listed"], given["named"])
        outcomes.append(scene.outcome)
    finally:
        shutil.rmtree(path)
    scene.outcome = "result" if "result" in outcomes else "refused"


def check_sweep(folder: Path, sweep: Sweep | None, largest: int | None, at_once: int) -> None:
    """What is written for the ranks is read again as it was typed; a division into arrays has every run once."""
    assert sweep is not None and sweep.count >= 1
    parts = array_parts.divide(range(min(sweep.count, 3000)), largest and max(1, largest), max(0, at_once))
    assert sorted(index for part in parts for index in part.indices) == list(range(min(sweep.count, 3000)))
    assert at_once <= 0 or len(parts) > at_once or sum(part.at_once for part in parts) <= at_once
    if sweep.count > 300:
        return
    sweep_values._lines.cache_clear()
    sweep_values.write_values(folder, sweep)
    last = sweep_values.values_at(folder, sweep.count - 1)
    assert last == {name.replace("-", "_"): values[-1] for name, values in sweep.axes}, (last, sweep.axes)


def read_array(path: Path, text: str, name: str) -> None:
    """``status --all``, ``runs show``, ``results``, and a run of the array by its index."""
    sweep_values._lines.cache_clear()
    array = runs.load(path)
    assert all(0 <= index < 4 for index in arrays.numbers(text, 4))
    tasks = runs.each([array])
    run_tables.show_status([array], as_json=False)
    run_tables.show_status(tasks[:50], as_json=True)
    for task in tasks[:4]:
        json.dumps(arrays.swept(task))
        run_details.show_everything(task, as_json=True)
    arrays.current_jobs(array)
    arrays.record_tasks(array, dict(enumerate(tasks[:2])) if array.tasks else {})
    arrays.load_any(path / name.replace("\0", "").encode("utf-8", "replace").decode())


SWEEP_WAYS = {
    "sweeps and arrays": Way(
        st.tuples(
            specifications,
            limits,
            st.fixed_dictionaries(
                {
                    "record": st.one_of(st.just([]), changes),
                    "states": changes,
                    "values": edits,
                    "line": words,
                    "listed": listed,
                    "named": named,
                }
            ),
        ),
        feed_sweep,
    )
}
