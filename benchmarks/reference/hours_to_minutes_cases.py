"""The runs of the article's study: its ranks and distributions, its options of batch and rate, and augmentation."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "comparisons"))

import store
from cases import ARTICLE, Case

STUDY, MODEL = "hours_to_minutes", "model"
MODEL_SETTINGS = {"job": "chips", "pixels": 500}
GLOBAL_BATCH = 64
RATES = ("none", "linear", "sqrt", "power23")
SAME_BATCH_RANKS = 4
AUGMENTED = ("--shear=0.2", "--lens-distortion=0.2")
ALL_CORES = "shards-1-all-cores"
ONE_RANK = ("shards-1", "generator-1")


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The size of the study: square photographs with so many pixels a side, so many of them to train, epochs, ranks."""

    pixels: int
    photographs: int
    epochs: int
    most_ranks: int


FULL = Setup(pixels=96, photographs=200, epochs=10, most_ranks=4)
SMALL = Setup(pixels=32, photographs=24, epochs=2, most_ranks=2)


def _shards(ranks: int, name: str, *switches: str) -> Case:
    """A run with shards and the article's batch on every rank."""
    both = ("--distribution=shards", "--input=stream", *switches)
    return Case(name=name, job="chips", replicas=ranks, batch=GLOBAL_BATCH, switches=both)


def every_case(setup: Setup) -> tuple[Case, ...]:
    """All runs of a seed. Of the article's: shards divide a global batch of 64, the generator has 64 on every rank.

    Alike otherwise: the same batch on four ranks with each rule for the rate (option 1; option 2 is the shards' divided
    batch), shear and lens distortion on two ranks, and one rank that has the threads of all cores.
    """
    divided = f"--global-batch-size={GLOBAL_BATCH}"
    article = [
        replace(case, switches=(*case.switches, divided)) if case.name.startswith("shards") else case
        for case in ARTICLE
    ]
    ranks = min(SAME_BATCH_RANKS, setup.most_ranks)
    options = [_shards(ranks, f"same-batch-{ranks}-{rule}", f"--scale-learning-rate={rule}") for rule in RATES]
    others = [_shards(1, ALL_CORES), _shards(2, "augmented-2", divided, *AUGMENTED)]
    return tuple(case for case in (*article, *others, *options) if case.replicas <= setup.most_ranks)


def is_pinned(case: Case) -> bool:
    """Whether each rank has one core to itself, as in the article a GPU; four ranks share this machine's two."""
    return case.name != ALL_CORES


def settings_of(setup: Setup, case: Case) -> dict[str, Any]:
    """What decides the outcome of a run beside its seed."""
    return {
        "ranks": case.replicas,
        "batch_size_per_rank": case.batch,
        "switches": list(case.switches),
        "pinned": is_pinned(case),
        "pixels": setup.pixels,
        "photographs": setup.photographs,
        "epochs": setup.epochs,
    }


def wanted(small: bool) -> dict[str, dict[str, Any]]:
    """The settings of each case, and of the network's layers."""
    setup = SMALL if small else FULL
    return {**{case.name: settings_of(setup, case) for case in every_case(setup)}, MODEL: MODEL_SETTINGS}


def with_speed_up(found: Mapping[str, Sequence[store.Result]]) -> dict[str, list[store.Result]]:
    """The results with `speed_up`: times one rank of the same distribution and seed; absent where there is none."""
    alone = {(case, one.seed): one.measured["epoch_s"] for case in ONE_RANK for one in found.get(case, ())}

    def derived(one: store.Result) -> store.Result:
        measured = {name: value for name, value in one.measured.items() if name != "speed_up"}
        first = alone.get((f"{one.case.split('-')[0]}-1", one.seed))
        return replace(one, measured=measured | ({"speed_up": round(first / measured["epoch_s"], 3)} if first else {}))

    return {case: [derived(one) for one in results] for case, results in found.items()}


SECONDS_PER_PIXEL = 1.6e-6
"""Processor seconds to train on one pixel of one image: those of shards-1 in results/."""
START_S = 12.0
"""Processor seconds of one rank before and after its training, from the times of the same runs."""


def expected_seconds(setup: Setup, case: Case, cores: int) -> float:
    """An estimate of a run's time on so many cores; the six versions of 85 % of the photographs are trained on."""
    pixels = setup.epochs * 6 * 0.85 * setup.photographs * setup.pixels**2
    at_once = cores if case.name == ALL_CORES else min(case.replicas, cores)
    return SECONDS_PER_PIXEL * pixels / at_once + START_S * max(1.0, case.replicas / cores)
