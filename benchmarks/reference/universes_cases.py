"""What the study universes makes and trains: the settings of its data and of its trainings; it starts nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hpclaunch.config.documents import read_yaml

ROOT = Path(__file__).resolve().parents[2]
STUDY = "universes"
RECIPE = "universes-64"
FORMER = {("muon_weights", "matrices"): ("momentum", 0.95)}
"""Settings with the names that they had in the results until 2026-11-28: Muon took all matrices."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The settings of both jobs that are typed, and how long the data and a training are expected to take."""

    data: Mapping[str, int]
    training: Mapping[str, int] = field(default_factory=dict)
    data_seconds: float
    seed_seconds: float


FULL = Setup(data={"train": 1000, "validation": 200, "volume_size": 64}, data_seconds=930, seed_seconds=720)
SMALL = Setup(
    data={"train": 4, "validation": 4, "volume_size": 32, "per_file": 2},
    training={"volume_size": 32, "epochs": 1},
    data_seconds=20,
    seed_seconds=30,
)


def settings_of(setup: Setup) -> dict[str, Any]:
    """What decides the outcome of a training, except for the seed and the code."""
    recipe = read_yaml(ROOT / "jobs" / "cosmoflow" / "job.yaml")["recipes"][RECIPE]["settings"]
    named = dict(FORMER.get(setting, setting) for setting in recipe.items())
    return {"data": dict(setup.data), "recipe": {**named, **setup.training}}


def wanted(small: bool) -> dict[str, dict[str, Any]]:
    """The settings of each case."""
    settings = settings_of(SMALL if small else FULL)
    return {"data": settings["data"], "train": settings}
