"""The trainings of the study of updates: with gradient lag, and in groups that exchange weights; it starts nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

STUDY = "guidelines_updates"
RANKS, SEEDS = 2, (1, 2, 3)
RECIPE = {"optimizer": "adam", "scale_learning_rate": "sqrt", "warmup_epochs": 2, "decay": "cosine"}
"""What hpclaunch recommends for large batches of this job (benchmarks/large_batch)."""
FULL = {"epochs": 8, "batch_size_per_rank": 512}
SMALL = {"epochs": 3, "batch_size_per_rank": 8, "synthetic": True, "synthetic_samples": 64}
PLAIN = {"noise_scale": False, "validation_every": 0, "export_model": False, "checkpoint_minutes": 0}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One way of updating the weights; words: for the table; label: for the picture."""

    name: str
    label: str
    words: str
    switches: Mapping[str, Any]


CASES = (
    Case(name="base", label="synchronous", words="every step averages the gradients of both ranks", switches={}),
    Case(name="lag", label="gradient lag", words="gradient lag of one step", switches={"gradient_lag": True}),
    Case(
        name="groups",
        label="two groups",
        words="two groups of one rank, which average their weights every 8 steps",
        switches={"update_groups": 2, "group_steps": 8},
    ),
)
BY_NAME = {case.name: case for case in CASES}


def settings_of(case: Case, *, small: bool = False) -> dict[str, Any]:
    """What decides the outcome of a run, beside its seed."""
    return {**RECIPE, **(SMALL if small else FULL), **PLAIN, **case.switches}


def wanted(small: bool) -> dict[str, dict[str, Any]]:
    """The settings of each case."""
    return {case.name: settings_of(case, small=small) for case in CASES}


def arguments_of(settings: Mapping[str, Any]) -> list[str]:
    """The command line of the cifar job."""
    return [f"--{name.replace('_', '-')}={str(value).lower()}" for name, value in settings.items()]
