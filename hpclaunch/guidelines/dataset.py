"""Whether a data set is large enough for a model, held against projects that converged; it reads no data."""

from __future__ import annotations

import math
from typing import Literal

from hpclaunch.core.records import record
from hpclaunch.guidelines.reasoning import GUIDELINES, Number, Reason, positive

Verdict = Literal["as large", "smaller", "small"]
SOURCE = f"{GUIDELINES}, how large dataset is required"


@record
class Project:
    """A project that converged: parameters of its model, samples that it was trained on (duplicates counted)."""

    name: str
    model: str
    parameters: float
    samples: int
    note: str = ""


PROJECTS = (
    Project(name="Etalumis (15 million)", model="3DCNN+LSTM", parameters=171e6, samples=15_000_000),
    Project(name="Etalumis (3 million)", model="3DCNN+LSTM", parameters=156.96e6, samples=3_000_000),
    Project(
        name="CosmoFlow",
        model="3DCNN",
        parameters=7e6,
        samples=2 * 99_456,
        note="99,456 subvolumes of 128^3 voxels, each twice",
    ),
    Project(name="ImageNet", model="ResNet-50", parameters=25e6, samples=1_280_000),
)
"""The table of the guidelines."""

WAYS_TO_MORE = (
    "run more simulations",
    "augment images: horizontal flips, random crops and scales, colour jitter",
    "augment images: random mixes of translation, rotation, stretching, shearing, lens distortion",
)
"""Guidelines, "how to increase dataset size"; which augmentations are right depends on the data's invariances."""


@record
class DatasetAdvice:
    """``nearest``: the known project whose model is nearest in size; ``advice`` where the data set is smaller."""

    verdict: Verdict
    nearest: Project
    advice: tuple[str, ...]
    reason: Reason


def judge_dataset(samples: int, parameters: float) -> DatasetAdvice:
    """Return how a data set (samples) compares with the known projects, for a model of that many parameters.

    "as large": at least the samples of the project with the nearest model (in the logarithm). "smaller": fewer, but
    for every parameter at least as many as the project that had the fewest (Etalumis, 0.019). "small": neither.
    Source: guidelines' table; the comparison by parameters is hpclaunch's own reading of it.
    """
    positive(samples=samples, parameters=parameters)
    nearest = min(PROJECTS, key=lambda one: abs(math.log(one.parameters / parameters)))
    fewest = min(one.samples / one.parameters for one in PROJECTS)
    share = samples / parameters
    if samples >= nearest.samples:
        verdict: Verdict = "as large"
        text = f"as large as {nearest.name}, whose model is nearest in size, and which converged"
    elif share >= fewest:
        verdict = "smaller"
        text = f"smaller than {nearest.name}, but with enough samples for every parameter: more would help"
    else:
        verdict = "small"
        text = f"smaller than {nearest.name}, and with fewer samples for a parameter than any project that converged"
    return DatasetAdvice(
        verdict=verdict,
        nearest=nearest,
        advice=() if verdict == "as large" else WAYS_TO_MORE,
        reason=Reason(
            rule="the larger the data set, the better",
            numbers=(
                Number(name="N", value=samples, unit="samples", origin="given"),
                Number(name="parameters", value=parameters, origin="given"),
                Number(name=f"samples of {nearest.name}", value=nearest.samples, unit="samples", origin="default"),
                Number(name="samples per parameter", value=share),
                Number(name="fewest that converged", value=fewest, origin="default"),
            ),
            verdict=text,
            source=SOURCE,
            warning=f"the data set is small for {parameters:.3g} parameters" if verdict == "small" else "",
        ),
    )
