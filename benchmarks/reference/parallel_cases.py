"""The trainings of the study of parallel training: how many ranks, samples per rank, which rate; it runs nothing."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import store

STUDY = "parallel_training"
BATCHES = (8, 32, 128, 512)
RANKS, BASE_BATCH, RATE, EPOCHS, SAMPLES = 4, 8, 0.001, 10, 50_000
"""The article's GPUs, the batch that its scaling starts at, its rate, its epochs; the images of CIFAR-10."""
EFFECTIVE_BATCH = 32
"""The global batch at which it compares one process with several."""
STEP_S, SAMPLE_S, JOINING_S, START_S = 2.5e-3, 2.0e-4, 1.5e-2, 20.0
"""For the estimate: a step of one core and of each sample, of several ranks, and a start; from the runs in results/."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One training. scaled: its rate is proportional to the global batch, else it is the article's for all batches.

    alone: it has the whole machine; else one core, and another run may have the other ones.
    """

    ranks: int
    per_rank: int
    scaled: bool = False
    alone: bool = True

    @property
    def name(self) -> str:
        rule = "scaled" if self.scaled else "constant"
        return f"{f'ranks-{self.ranks}x{self.per_rank}' if self.alone else f'batch-{self.per_rank}'}-{rule}"

    @property
    def batch(self) -> int:
        """The global batch: what the article calls the effective batch size."""
        return self.ranks * self.per_rank

    @property
    def learning_rate(self) -> float:
        return RATE * self.batch / BASE_BATCH if self.scaled else RATE

    @property
    def steps(self) -> int:
        """The steps of an epoch: each rank has an equal part of the images, and its last batch may be smaller."""
        return -(-(SAMPLES // self.ranks) // self.per_rank)

    def settings(self, setup: Setup, cores: int | None) -> dict[str, Any]:
        """What decides the outcome of a run, for its result. cores: those of the machine."""
        return {
            "ranks": self.ranks,
            "batch_size_per_rank": self.per_rank,
            "learning_rate": self.learning_rate,
            "epochs": setup.epochs,
            "cores": cores if self.alone else 1,
            "samples": setup.samples or SAMPLES,
        }

    def estimate_s(self, cores: int) -> float:
        """Seconds that a run may take, of all cores or of one."""
        share = max(1.0, self.ranks / (cores if self.alone else 1))
        step = share * (STEP_S + SAMPLE_S * self.per_rank) + (JOINING_S if self.ranks > 1 else 0.0)
        return EPOCHS * self.steps * step + START_S * share


@dataclass(frozen=True)
class Setup:
    """The size of all runs. samples: made-up images instead of CIFAR-10; 0: the real ones."""

    epochs: int = EPOCHS
    samples: int = 0


FULL, SMALL = Setup(), Setup(epochs=1, samples=512)
SWEEP = tuple(
    Case(ranks=1, per_rank=batch, scaled=scaled, alone=False) for scaled in (False, True) for batch in BATCHES
)
"""The article's two hyperparameter searches, at a constant and at a scaled rate: each run has one core."""
EQUAL = tuple(Case(ranks=ranks, per_rank=EFFECTIVE_BATCH // ranks) for ranks in (1, 2, RANKS))
"""One global batch on one, two and four ranks: equal curves, other times. The first is the single process."""
SCALED_RANKS = tuple(Case(ranks=RANKS, per_rank=batch, scaled=True) for batch in BATCHES)
"""The article's last experiment: the rate grows with the batch that the ranks have together."""
PARTS = {"sweep": SWEEP, "equal": EQUAL, "ranks": SCALED_RANKS}
SMALL_PARTS = {
    "sweep": (Case(ranks=1, per_rank=32, alone=False),),
    "equal": (Case(ranks=2, per_rank=16),),
    "ranks": (),
}


def wanted(small: bool) -> dict[str, dict[str, Any]]:
    """The settings of each case; the results may come from a machine with any number of cores."""
    setup, parts = (SMALL, SMALL_PARTS) if small else (FULL, PARTS)
    return {case.name: case.settings(setup, store.ANY) for part in parts.values() for case in part}


def arguments_of(case: Case, setup: Setup, seed: int) -> list[str]:
    """What `hpclaunch submit` gets: the article's settings, typed, in place of the recipe that the planner advises."""
    settings = {
        "batch_size_per_rank": case.per_rank,
        "learning_rate": f"{case.learning_rate:g}",
        "epochs": setup.epochs,
        "seed": seed,
    }
    made_up = ["--synthetic", "--set", f"synthetic_samples={setup.samples}"] if setup.samples else []
    typed = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    return ["--recipe", "job", "--nodes", "1", "--tasks-per-node", str(case.ranks), *typed, *made_up]


def measured(events: list[dict[str, Any]], *, diverged: bool = False) -> dict[str, Any]:
    """The figures of a run from its metrics.jsonl. Raises ValueError if it did not end.

    seconds: of the training. loss, accuracy: of the training, one value an epoch. test_accuracy: 0..1. images_per_s:
    the median epoch. A run that has diverged has no end: diverged = 1, and the whole epochs until then. Of several
    ranks: all_reduce_s and step_s (seconds, measured beside each other), their ratio
    communication_share, and communication_warned: 1 if the run has warned of it.
    """
    ends = [event for event in events if event["event"] == "end"]
    epochs = [event for event in events if event["event"] == "epoch"]
    if diverged:
        return {"diverged": 1, "loss": [round(epoch["loss"], 5) for epoch in epochs]}
    if not ends or not epochs:
        raise ValueError("its metrics.jsonl has no end")
    found: dict[str, Any] = {
        "seconds": ends[-1]["seconds"],
        "test_accuracy": ends[-1]["test_accuracy"],
        "training_accuracy": epochs[-1]["accuracy"],
        "training_loss": epochs[-1]["loss"],
        "images_per_s": statistics.median(epoch["images_per_s"] for epoch in epochs),
        "loss": [round(epoch["loss"], 5) for epoch in epochs],
        "accuracy": [round(epoch["accuracy"], 5) for epoch in epochs],
    }
    for event in events:
        if event["event"] == "communication":
            found |= {name: event[name] for name in ("all_reduce_s", "step_s")}
            found |= {"communication_share": event["share"], "communication_warned": int("warning" in event)}
    return found


def with_ratio(found: Mapping[str, Sequence[store.Result]]) -> dict[str, list[store.Result]]:
    """The results with `times_one_rank`: the seconds over those of one rank with 32 samples and the same seed.

    Absent where one of the two has no seconds, as a run that diverges at once.
    """
    times = {one.seed: one.measured.get("seconds") for one in found.get("ranks-1x32-constant", ())}
    alone = {seed: seconds for seed, seconds in times.items() if seconds}

    def derived(one: store.Result) -> store.Result:
        if one.seed not in alone or "seconds" not in one.measured:
            return one
        return replace(one, measured={**one.measured, "times_one_rank": one.measured["seconds"] / alone[one.seed]})

    return {case: [derived(one) for one in results] for case, results in found.items()}
