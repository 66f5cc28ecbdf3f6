"""Learning rates and batches of published decoders by their size, with sources; it fits nothing."""

from __future__ import annotations

import math

from hpclaunch.core.records import record
from hpclaunch.guidelines.reasoning import positive

GPT_3 = "Brown et al. 2020 (GPT-3), arXiv 2005.14165, table 2.1"
LLAMA = "Touvron et al. 2023 (LLaMA), arXiv 2302.13971, table 2"
NEOX = "Black et al. 2022 (GPT-NeoX-20B), arXiv 2204.06745"
LLAMA_3 = "Grattafiori et al. 2024 (Llama 3), arXiv 2407.21783, table 3"


@record
class PublishedDecoder:
    """The rate of Adam or AdamW at which a decoder of ``parameters`` was trained, with ``tokens`` in a step."""

    name: str
    parameters: float
    rate: float
    tokens: float
    source: str


def _row(name: str, parameters: float, rate: float, tokens: float, source: str) -> PublishedDecoder:
    return PublishedDecoder(name=name, parameters=parameters, rate=rate, tokens=tokens, source=source)


DECODERS = (
    _row("GPT-3 Small", 125e6, 6e-4, 0.5e6, GPT_3),
    _row("GPT-3 Medium", 350e6, 3e-4, 0.5e6, GPT_3),
    _row("GPT-3 Large", 760e6, 2.5e-4, 0.5e6, GPT_3),
    _row("GPT-3 XL", 1.3e9, 2e-4, 1e6, GPT_3),
    _row("GPT-3 2.7B", 2.7e9, 1.6e-4, 1e6, GPT_3),
    _row("GPT-3 6.7B", 6.7e9, 1.2e-4, 2e6, GPT_3),
    _row("LLaMA-7B", 6.7e9, 3e-4, 4e6, LLAMA),
    _row("LLaMA-13B", 13e9, 3e-4, 4e6, LLAMA),
    _row("GPT-3 13B", 13e9, 1e-4, 2e6, GPT_3),
    _row("GPT-NeoX-20B", 20.6e9, 0.97e-4, 3.15e6, NEOX),
    _row("LLaMA-33B", 32.5e9, 1.5e-4, 4e6, LLAMA),
    _row("LLaMA-65B", 65.2e9, 1.5e-4, 4e6, LLAMA),
    _row("GPT-3", 175e9, 0.6e-4, 3.2e6, GPT_3),
    _row("Llama 3 405B", 405e9, 0.8e-4, 16e6, LLAMA_3),
)
"""By size. The largest batch of a row is the one that its rate was used with."""
CLASS = 2.0
"""Decoders whose parameters differ by at most this factor are of one class; at its edges the nearest row counts."""
TOO_HIGH = 2.0
"""Rates above this multiple of every published one of the class are warned of."""


def class_of(parameters: float) -> tuple[PublishedDecoder, ...]:
    """Return the published decoders of about this size, the nearest first; of another size, the nearest alone."""
    positive(parameters=parameters)
    nearest = sorted(DECODERS, key=lambda row: abs(math.log(row.parameters / parameters)))
    alike = [row for row in nearest if abs(math.log(row.parameters / parameters)) <= math.log(CLASS)]
    return tuple(alike) or (nearest[0],)


def usual_of(parameters: float) -> PublishedDecoder:
    """Return the published decoder to follow: of those of the class, the newest of the nearest size.

    Newer models took more tokens in a step, and higher rates with them.
    """
    alike = class_of(parameters)
    near = min(abs(math.log(row.parameters / parameters)) for row in alike)
    return max(
        (row for row in alike if abs(math.log(row.parameters / parameters)) <= near + math.log(1.1)),
        key=lambda row: row.tokens,
    )


def doubt_of(parameters: float, rate: float) -> str:
    """Return the warning about a rate of Adam that is far above all published ones of the class, or empty text.

    Of decoders that are smaller than any class nothing is said: their rates are higher, and not published.
    """
    if parameters < DECODERS[0].parameters / CLASS:
        return ""
    highest = max(class_of(parameters), key=lambda row: row.rate)
    if rate <= TOO_HIGH * highest.rate:
        return ""
    found = f"{highest.rate:g} with {highest.tokens / 1e6:g} million tokens a step ({highest.name}; {highest.source})"
    times = f"{rate / highest.rate:.2g} times the highest that was published for a decoder of this size"
    return f"a rate of {rate:.2g} is {times}: {found}"


NEWER_RULES = {
    "square root": "Adam's rate by the square root of the batch also follows from its stochastic differential equation"
    " (Malladi et al. 2022, arXiv 2205.10287), with 1 - beta growing as the batch does, which is left to the program;"
    " it holds below the critical batch, where noise dominates the gradient",
    "critical batch in tokens": "it grows with the tokens trained on, and hardly with the size of a decoder (Zhang et"
    " al. 2024, arXiv 2410.21676); not used here: its law is for one data set and its loss, so that the published"
    " batches of the class are the bound",
    "muP": "one rate for all widths, if the model is built for it (Yang et al. 2022, arXiv 2203.03466); not used here:"
    " the published rates of the class need no such model",
    "warm-up, stable, decay": "a constant rate that falls in the last tenth of the steps allows a training to go on, as"
    " a cosine does not (Hu et al. 2024, arXiv 2404.06395); it suits a decoder whose tokens are not fixed beforehand",
}
"""Rules of the last years: where they hold, and why they are used or not."""
TOKENS_PER_PARAMETER = 20.0
"""Hoffmann et al. 2022, arXiv 2203.15556: of so many tokens for every parameter a given compute makes most."""


def tokens_words(parameters: float, tokens: float) -> str:
    """Return how a training's tokens compare with those that its compute would make most of."""
    share = tokens / parameters
    most = f"about {TOKENS_PER_PARAMETER:g} make most of a given compute (Hoffmann et al. 2022, arXiv 2203.15556)"
    if share < TOKENS_PER_PARAMETER / 4:
        return f"{share:.2g} tokens for every parameter are few: {most}; a smaller model would learn more from them"
    if share > 4 * TOKENS_PER_PARAMETER:
        return f"{share:.3g} tokens for every parameter; {most}, more make a model that is cheaper to use"
    return f"{share:.2g} tokens for every parameter; {most}"
