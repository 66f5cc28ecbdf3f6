"""Which samples of a source are trained on, and which are kept for validation and test; it reads none of them."""

from __future__ import annotations

from typing import Any, Mapping

import numpy as np

from hpclaunch.training.input.shards import Part
from hpclaunch.training.input.source import VALIDATION, Source
from hpclaunch.training.program.run import Run
from hpclaunch.training.rank.failure import AgreedError


def divided(run: Run, source: Source, order: Any) -> tuple[Any, dict[str, Part]]:
    """Divide a source into what is trained on and what is not: the order of the training samples, the other parts.

    order: of the training samples (shards.shuffled), of which the setting validation_part takes the first for the
    validation. So they are the same samples on every rank, and on any number of ranks. Raises AgreedError if the
    settings ask for a validation that these data do not have.
    """
    part = getattr(run.settings, "validation_part", 0.0)
    others = [split for split, count in source.counts.items() if split != "train" and count]
    parts = {split: Part(split, np.arange(source.counts[split], dtype=np.int64)) for split in others}
    if part and VALIDATION not in parts:
        count = round(len(order) * part)
        if not 0 < count < len(order):
            raise _refusal(
                run, "--validation-part={} of {} training samples is {} of them".format(part, len(order), count)
            )
        parts[VALIDATION] = Part("train", np.sort(order[:count]))
        order = order[count:]
    elif part and not source.divides_validation:
        raise _refusal(
            run,
            "--validation-part={} has no effect: {} has {} samples for validation. Leave the setting or these samples "
            "out".format(part, source.path, source.counts[VALIDATION]),
        )
    _check(run, source, parts)
    return order, parts


def _check(run: Run, source: Source, parts: Mapping[str, Part]) -> None:
    chosen = [name for name in ("validation_every", "validate_on") if run.settings.is_chosen(name)]
    if validation_of(run, parts) or not chosen or not run.settings.validation_every:
        return
    raise _refusal(
        run,
        "--{} has no effect: {} has no samples for it. Set --validation-part=0.1, which takes a tenth of the training "
        "samples, or give validation samples with the data".format(chosen[0].replace("_", "-"), source.path),
    )


def _refusal(run: Run, message: str) -> AgreedError:
    return AgreedError(message, speaks=run.is_root)


def validation_of(run: Run, parts: Mapping[str, Part]) -> str:
    """The split on which the training is validated after its epochs; empty if it is not validated."""
    if not getattr(run.settings, "validation_every", 0):
        return ""
    return run.settings.validate_on if run.settings.validate_on in parts else ""
