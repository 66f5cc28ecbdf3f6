"""Decoder language models as their engineers count them: parameters, operations of a token, utilization; pure."""

from __future__ import annotations

from hpclaunch.core.records import record
from hpclaunch.guidelines.reasoning import positive

SOURCE = "Chowdhery et al. 2022 (PaLM), arXiv 2204.02311, appendix B"
TWO_MATRICES = 8
"""Parameters of a block's dense part, in squares of the hidden size: to four times the size, and back."""


@record
class Decoder:
    """The shape of a decoder: blocks, hidden size, attention heads, tokens of a sample, and of the vocabulary.

    ``parameters``: all of them. ``key_heads``: heads of keys and values (0: as many as ``heads``). ``dense``:
    parameters of the matrices of a block's dense part (0: 8 hidden^2), of each of its ``experts``, of which a token
    passes ``active_experts``.
    """

    layers: int
    hidden: int
    heads: int
    context: int
    vocabulary: int
    parameters: float
    key_heads: int = 0
    dense: float = 0.0
    experts: int = 1
    active_experts: int = 1

    def __post_init__(self) -> None:
        positive(
            layers=self.layers,
            hidden=self.hidden,
            heads=self.heads,
            context=self.context,
            vocabulary=self.vocabulary,
            parameters=self.parameters,
            experts=self.experts,
            active_experts=self.active_experts,
        )

    @property
    def key_share(self) -> float:
        """The size of keys, or of values, relative to the hidden size."""
        return (self.key_heads or self.heads) / self.heads

    @property
    def dense_parameters(self) -> float:
        """Parameters of one block's dense part, or of one of its experts."""
        return self.dense or TWO_MATRICES * self.hidden**2

    @property
    def expert_parameters(self) -> float:
        """Parameters of all experts of all blocks; 0 for a model without experts."""
        return self.layers * self.experts * self.dense_parameters if self.experts > 1 else 0.0

    @property
    def active_parameters(self) -> float:
        """The parameters that a token meets."""
        return self.parameters - self.layers * (self.experts - self.active_experts) * self.dense_parameters

    @property
    def multiplied_parameters(self) -> float:
        """The active parameters that are factors of a matrix product: not the table that tokens are looked up in."""
        attention = self.hidden**2 * (2 + 2 * self.key_share)
        block = attention + self.active_experts * self.dense_parameters
        return self.layers * block + self.vocabulary * self.hidden

    @property
    def model_flops(self) -> float:
        """Operations of a trained token by which model FLOP utilization is counted: 6 N + 12 L h s. Source: PaLM.

        N: the active parameters, L: blocks, h: hidden size, s: tokens of a sample. Recomputation does not count.
        """
        return 6 * self.active_parameters + 12 * self.layers * self.hidden * self.context

    @property
    def executed_flops(self) -> float:
        """Operations of a trained token without recomputation; a causal attention computes half of its square."""
        return 6 * self.multiplied_parameters + 6 * self.layers * self.hidden * self.context

    @property
    def saved_bytes(self) -> float:
        """Bytes of a token that a block saves for the backward pass in 16 bits, without those of attention's square.

        34 h, of which keys and values are 4 h with all their heads. Source: Korthikanti et al. 2022, arXiv 2205.05198.
        """
        return self.hidden * (30 + 4 * self.key_share)

    @property
    def square_bytes(self) -> float:
        """Bytes of a token that a block saves in addition if attention keeps its square: 5 a s (the same source)."""
        return 5.0 * self.heads * self.context


def utilization(decoder: Decoder, tokens_per_s: float, ranks: int, peak: float) -> float:
    """Return the model FLOP utilization: the share of the ranks' ``peak`` (TFLOP/s each). Source: PaLM."""
    positive(ranks=ranks, peak=peak)
    return decoder.model_flops * tokens_per_s / (ranks * peak * 1e12)
