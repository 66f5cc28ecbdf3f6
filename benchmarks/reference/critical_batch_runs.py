"""The runs of the study of the critical batch: their settings, command lines and results; it starts nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import store
from batch_law import DRAWS, WITHIN, predicted_critical_batch
from one_rank import Event, data_of, of_kind
from rate_search import STEP
from target import Target

STUDY, LAW, FIT = "critical_batch", "critical_batch_law", "fit"
BASE_RATE, BASE_BATCH = 0.001, 512
"""The notebook's, from which the square-root rule begins."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What all runs of a study have in common. samples: of an epoch, a multiple of every batch size.

    most_rates: a tuning that has tried so many takes the best of them, between two others or not; None: no limit.
    """

    sizes: tuple[int, ...]
    target: Target
    samples: int
    most_epochs: int
    most_in_a_part: int = 256
    most_rates: int | None = None
    synthetic: bool = False


FULL = Setup(
    sizes=(64, 128, 256, 512, 1024, 2048, 4096),
    target=Target(loss=1.5, every=4096),
    samples=49_152,
    most_epochs=40,
)
SMALL = Setup(
    sizes=(16, 64),
    target=Target(loss=2.25, every=64),
    samples=256,
    most_epochs=12,
    most_in_a_part=16,
    most_rates=2,
    synthetic=True,
)


def parts(setup: Setup, batch: int) -> int:
    """Parts of an accumulated step; at least two, because the noise scale compares a part with the whole."""
    return max(2, batch // setup.most_in_a_part)


def rate_of(batch: int, power: int) -> float:
    """The rate of the square-root rule, times a power of the tuning's step."""
    return float(BASE_RATE * (batch / BASE_BATCH) ** 0.5 * STEP**power)


def settings_of(setup: Setup, batch: int, power: int) -> dict[str, Any]:
    """What decides the outcome of a run, beside its seed."""
    return {
        "optimizer": "adam",
        "batch": batch,
        "parts": parts(setup, batch),
        "learning_rate": rate_of(batch, power),
        "batch_norm": "none",
        "train_samples": setup.samples,
        "target_loss": setup.target.loss,
        "every": setup.target.every,
        "looks": setup.target.looks,
        "synthetic": setup.synthetic,
    }


def wanted(small: bool) -> dict[str, dict[str, Any]]:
    """The settings of each case; its rate is tuned."""
    setup = SMALL if small else FULL
    return {f"batch-{batch}": {**settings_of(setup, batch, 0), "learning_rate": store.ANY} for batch in setup.sizes}


def by_batch(results: Iterable[store.Result]) -> dict[int, list[store.Result]]:
    """The runs that reached the target, by batch size."""
    found: dict[int, list[store.Result]] = {}
    for result in results:
        if result.measured["reached"]:
            found.setdefault(result.measured["batch"], []).append(result)
    return dict(sorted(found.items()))


def law_settings(runs: Mapping[int, list[store.Result]]) -> dict[str, Any]:
    """What decides the outcome of the fit: the runs themselves, and how its ranges are made."""
    samples = {str(batch): [one.measured["samples"] for one in found] for batch, found in runs.items()}
    return {"samples_to_the_target": samples, "draws": DRAWS, "within": WITHIN}


def arguments_of(setup: Setup, settings: Mapping[str, Any], seed: int, most_samples: int) -> list[str]:
    """The command line of a run: a constant rate, no warm-up and no validation, since only the steps count."""
    data = (
        ["--synthetic=true", f"--synthetic-samples={setup.samples}"]
        if setup.synthetic
        else [f"--train-samples={setup.samples}"]
    )
    return [
        *data,
        f"--optimizer={settings['optimizer']}",
        f"--batch-size-per-rank={settings['batch'] // settings['parts']}",
        f"--accumulation={settings['parts']}",
        f"--learning-rate={settings['learning_rate']:.9g}",
        f"--batch-norm={settings['batch_norm']}",
        f"--target-loss={settings['target_loss']}",
        f"--every={settings['every']}",
        f"--most-samples={most_samples}",
        f"--epochs={setup.most_epochs + 1}",
        f"--seed={seed}",
        "--checkpoint-minutes=0",
        "--validation-every=0",
        "--export-model=false",
    ]


def measured(settings: Mapping[str, Any], events: list[Event], most_samples: int) -> dict[str, Any]:
    """What a result holds (see the module), from the lines of a run's metrics.jsonl."""
    looks, crossing = of_kind(events, "look"), of_kind(events, "crossing")[0]
    batch, found = settings["batch"], crossing["samples"]
    curve = {name: [look.get(name) for look in looks] for name in ("samples", "seconds", "loss", "accuracy")}
    curve["steps"] = [look["samples"] // batch for look in looks]
    curve |= {name: [look.get(name) for look in looks] for name in ("noise_scale", "low", "high")}
    known = [look["noise_scale"] for look in looks if look.get("noise_scale")]
    result: dict[str, Any] = {
        "batch": batch,
        "learning_rate": settings["learning_rate"],
        "reached": found is not None,
        "diverged": crossing["diverged"],
        "most_samples": most_samples,
        "accuracy": crossing["accuracy"],
        "data": data_of(events),
        "curve": {name: [rounded(value) for value in values] for name, values in curve.items()},
    }
    if crossing["seconds"] > 0:
        result["images_per_s"] = round((crossing["seen"] - batch) / crossing["seconds"], 1)  # without the first step
    if found is not None:
        result |= {"samples": round(found, 1), "steps": round(found / batch, 2), "seconds": crossing["seconds"]}
    if known:
        steps = settings["every"] / batch
        result["noise_scale"] = rounded(known[-1])
        result["predicted_critical_batch"] = rounded(
            predicted_critical_batch([(steps, noise) for noise in known], batch)
        )
    return result


def rounded(value: float | None) -> float | None:
    return value if value is None or isinstance(value, int) else float(f"{value:.5g}")


def words(found: Mapping[str, Any]) -> str:
    """A finished run in words."""
    if not found["reached"]:
        return "diverged" if found["diverged"] else f"not at the target within {found['most_samples']} samples"
    noise = f", noise scale {found['noise_scale']:.0f}" if "noise_scale" in found else ""
    return f"{found['steps']:.0f} steps, {found['samples']:.0f} samples, {found['seconds']:.0f} s{noise}"


def whole(setup: Setup) -> int:
    """Samples after which a run that is compared with no other gives up."""
    return setup.most_epochs * setup.samples
