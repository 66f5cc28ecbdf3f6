"""The results of every study whose settings are those of its cases today: all that tables, pictures and the page show.

A case may leave a setting open (store.ANY), such as a tuned rate: its seeds then have that of the first one, so no
median is over runs that differ. A folder with results of `--small` holds those beside the full ones. Nothing runs here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "large_batch"))

import critical_batch_runs
import guidelines_cases
import hours_to_minutes_cases
import notebook3_cases
import parallel_cases
import results as large_batch_results
import sharpness_cases
import store
import universes_cases
from rows import BY_NAME, EPOCHS

LARGE_BATCH, LAW = "large_batch", critical_batch_runs.LAW
Found = dict[str, list[store.Result]]
Wanted = Mapping[str, Mapping[str, Any]]
"""Case → its settings."""
WANTED: Mapping[str, Callable[[bool], Wanted]] = {
    critical_batch_runs.STUDY: critical_batch_runs.wanted,
    guidelines_cases.STUDY: guidelines_cases.wanted,
    hours_to_minutes_cases.STUDY: hours_to_minutes_cases.wanted,
    notebook3_cases.STUDY: notebook3_cases.wanted,
    parallel_cases.STUDY: parallel_cases.wanted,
    sharpness_cases.STUDY: sharpness_cases.wanted,
    universes_cases.STUDY: universes_cases.wanted,
}
"""Study → its cases, in their order; the argument: those of `--small`."""

DERIVED: Mapping[str, Callable[[Found], Found]] = {
    hours_to_minutes_cases.STUDY: hours_to_minutes_cases.with_speed_up,
    notebook3_cases.STUDY: notebook3_cases.with_efficiency,
    parallel_cases.STUDY: parallel_cases.with_ratio,
    sharpness_cases.STUDY: sharpness_cases.with_ratio,
}
"""Study → what adds the values that follow from several results."""


def current(study: str, folder: Path = store.RESULTS) -> list[store.Result]:
    """The results of a study, in the order of its cases and seeds. `large_batch` has its own folder."""
    if study == LARGE_BATCH:
        return large_batch()
    return [one for some in by_case(study, folder).values() for one in some]


def by_case(study: str, folder: Path = store.RESULTS) -> Found:
    """The results of every case that has some, the seeds in their order, with the values that follow from others."""
    if study == LAW:
        runs = critical_batch_runs.by_batch(current(critical_batch_runs.STUDY, folder))
        return store.with_settings(study, {critical_batch_runs.FIT: critical_batch_runs.law_settings(runs)}, folder)
    found = store.with_settings(study, WANTED[study](False), folder)
    if folder != store.RESULTS:
        found = store.with_settings(study, WANTED[study](True), folder) | found
    derive = DERIVED.get(study)
    return derive(found) if derive else found


def cases_of(study: str) -> set[str]:
    """The names of a study's cases. Raises KeyError for a study that is not known."""
    if study == LARGE_BATCH:
        return set(BY_NAME)
    return {critical_batch_runs.FIT} if study == LAW else set(WANTED[study](False))


def large_batch() -> list[store.Result]:
    """The results of benchmarks/large_batch in the form of the other studies."""
    return [
        store.Result(
            study=LARGE_BATCH,
            case=run.row,
            seed=run.seed,
            settings={},
            measured={name: getattr(run, name) for name in ("training_accuracy", "test_accuracy", "training_loss")},
            date=run.date,
            machine=run.machine,
        )
        for run in large_batch_results.every(large_batch_results.RESULTS, EPOCHS)
    ]
