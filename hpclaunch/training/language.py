"""What the mean cross-entropy of a token says of a model of text, in the measures by which models are compared."""

from __future__ import annotations

import math

MOST_EXPONENT = 700.0  # the exponential of more is no number


def perplexity(loss: float) -> float:
    """The exponential of a mean cross-entropy of a token, in nats."""
    return math.exp(loss) if loss < MOST_EXPONENT else math.inf


def bits_per_byte(loss: float, token_bytes: float) -> float:
    """A mean cross-entropy of a token, in nats, for a byte of text: it does not depend on the vocabulary.

    token_bytes: the bytes of text of a token. Source: Gao et al. 2020, arXiv 2101.00027, section 3.1.
    """
    return loss / math.log(2) / token_bytes


def in_words(split: str, results: dict[str, float]) -> str:
    """The results of a split in one line: SPLIT_loss, SPLIT_perplexity, SPLIT_bits_per_byte and SPLIT_tokens."""
    return "{0} loss {1:.4f} per token, perplexity {2:.2f}, {3:.4f} bits per byte, on {4} tokens".format(
        split, *(results[split + name] for name in ("_loss", "_perplexity", "_bits_per_byte", "_tokens"))
    )
