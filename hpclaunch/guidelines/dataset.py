"""Whether a data set is large enough for a model, compared with projects that converged; it reads no data."""

from __future__ import annotations

import math
from typing import Literal

from hpclaunch.core.records import record
from hpclaunch.guidelines.published_decoders import tokens_words
from hpclaunch.guidelines.reasoning import GUIDELINES, Number, Reason, positive

Verdict = Literal["as large", "smaller", "small"]
SOURCE = f"{GUIDELINES}, how large dataset is required"


@record
class Project:
    """A project that converged: the parameters of its model, and its training samples (duplicates counted)."""

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

LEAST_TRAINED = 1_281_167 / 304.4e6
"""Samples for each parameter with which a model was trained from random weights without other data: ViT-L on ImageNet
(Touvron et al. 2022, DeiT III, arXiv 2204.07118)."""
FEWEST_TOKENS = 103e6 / 257e6
"""Tokens for each parameter with which a decoder was trained from random weights without other text: Transformer-XL
Large on WikiText-103 (Dai et al. 2019, arXiv 1901.02860)."""
WAYS_TO_MORE = (
    "run more simulations",
    "augment images: horizontal flips, random crops and scales, colour jitter",
    "augment images: random mixes of translation, rotation, stretching, shearing, lens distortion",
)
"""Source: guidelines, "how to increase dataset size". Which augmentations are right depends on the invariances of the
data."""


@record
class DatasetAdvice:
    """``nearest`` is the project whose model is nearest in size; ``advice`` is given where the data set is smaller."""

    verdict: Verdict
    nearest: Project
    advice: tuple[str, ...]
    reason: Reason


def judge_dataset(samples: int, parameters: float) -> DatasetAdvice:
    """Return how a data set of ``samples`` compares with known projects, for a model of ``parameters``.

    "as large": at least the samples of the project whose model is nearest in the logarithm. "smaller": fewer, but at
    least as many samples per parameter as the project that had the fewest (Etalumis, 0.019). "small": neither. A
    warning is given only below ``LEAST_TRAINED``.
    Source: guidelines' table; the comparison by parameters is hpclaunch's own interpretation.
    """
    positive(samples=samples, parameters=parameters)
    nearest = min(PROJECTS, key=lambda project: abs(math.log(project.parameters / parameters)))
    fewest = min(project.samples / project.parameters for project in PROJECTS)
    share = samples / parameters
    if samples >= nearest.samples:
        verdict: Verdict = "as large"
        text = f"as large as that of {nearest.name}, which converged and whose model is nearest in size"
    elif share >= fewest:
        verdict = "smaller"
        text = f"smaller than that of {nearest.name}, but with enough samples per parameter: more data would help"
    else:
        verdict = "small"
        text = f"smaller than that of {nearest.name}, with fewer samples per parameter than any project that converged"
    size = f"{parameters / 1e6:,.1f} million"
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
            warning=f"the data set is small for {size} parameters"
            if verdict == "small" and share < LEAST_TRAINED
            else "",
        ),
    )


def judge_text(tokens: float, parameters: float) -> Reason:
    """Return how many ``tokens`` a text has for a decoder of which each meets ``parameters``.

    The table of the guidelines has no text, and counts samples. A warning is given only below ``FEWEST_TOKENS``.
    Source: Hoffmann et al. 2022; the comparison with Transformer-XL is hpclaunch's own interpretation.
    """
    positive(tokens=tokens, parameters=parameters)
    share = tokens / parameters
    return Reason(
        rule="a text needs tokens in proportion to the parameters of the model",
        numbers=(
            Number(name="tokens", value=tokens, unit="tokens", origin="given"),
            Number(name="parameters", value=parameters, origin="given"),
            Number(name="tokens per parameter", value=share),
            Number(name="fewest that were trained on", value=FEWEST_TOKENS, origin="default"),
        ),
        verdict=tokens_words(parameters, tokens),
        source="Hoffmann et al. 2022, arXiv 2203.15556; Dai et al. 2019, arXiv 1901.02860",
        warning=f"the text is small for {parameters / 1e6:,.1f} million parameters" if share < FEWEST_TOKENS else "",
    )
