"""A decoder-only transformer (GPT-2) in PyTorch whose size is a setting; ranks can share its weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

SPREAD = 0.02  # of the first weights, as in GPT-2


class Attention(nn.Module):
    """Causal attention of [b, context, hidden], by PyTorch's flash attention where the device has it."""

    def __init__(self, hidden: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.width, self.dropout = hidden // heads, dropout
        # The outputs are head by head, each with its query, key and value.
        self.inputs, self.outputs = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)

    def forward(self, x: Any) -> Any:
        batch, context, _ = x.shape
        parts = self.inputs(x).view(batch, context, -1, 3, self.width).transpose(1, 2)
        query, key, value = parts.unbind(3)
        dropout = self.dropout if self.training else 0.0
        found = functional.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=True)
        return self.outputs(found.transpose(1, 2).reshape(batch, context, -1))


class Block(nn.Module):
    """Attention and two dense layers, each after a normalization and added to what comes in."""

    def __init__(self, hidden: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.first_norm, self.second_norm = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attention = Attention(hidden, heads, dropout)
        self.wide, self.narrow = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Any) -> Any:
        x = x + self.dropout(self.attention(self.first_norm(x)))
        dense = self.narrow(functional.gelu(self.wide(self.second_norm(x))))
        return x + self.dropout(dense)


class GPT(nn.Module):
    """Tokens [b, context] -> logits of the next tokens [b, context, vocabulary].

    It has 12 layers hidden^2 + 13 layers hidden + (vocabulary + context + 2) hidden parameters. As GPT-2 (Radford et
    al. 2019): normalization before attention and before the dense layers, learned positions, GELU, one table for the
    tokens of the input and of the output; the weights of what is added to the residual stream begin smaller by the root
    of the additions. recompute: keep the inputs of the blocks alone, and compute the rest again for the gradients.
    """

    def __init__(
        self,
        layers: int = 2,
        hidden: int = 128,
        heads: int = 4,
        context: int = 64,
        vocabulary: int = 1024,
        dropout: float = 0.0,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        self.recompute = recompute
        self.tokens, self.positions = nn.Embedding(vocabulary, hidden), nn.Embedding(context, hidden)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList([Block(hidden, heads, dropout) for _ in range(layers)])
        self.norm = nn.LayerNorm(hidden)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=SPREAD)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)
        for block in self.blocks:
            for added in (block.attention.outputs, block.narrow):
                nn.init.normal_(added.weight, std=SPREAD / (2 * layers) ** 0.5)

    def forward(self, tokens: Any) -> Any:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.tokens(tokens.long()) + self.positions(places))
        recomputes = self.recompute and self.training
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if recomputes else block(x)
        return functional.linear(self.norm(x), self.tokens.weight)


def loss_of(model: nn.Module, tokens: Any, targets: Any) -> Any:
    """The mean cross-entropy of the next tokens, a tensor []. tokens, targets: [b, context]."""
    logits = model(tokens)
    return functional.cross_entropy(logits.flatten(0, 1), targets.long().flatten())


def continued(model: nn.Module, tokens: Any, length: int, context: int, device: Any) -> list[int]:
    """Tokens [n] with `length` more, each the most probable one after those before it; the same in every run.

    context: the tokens of a sample. A collective of ranks that share the model's weights.
    """
    found = [int(token) for token in tokens]
    was_training = model.training
    model.eval()
    with torch.no_grad():
        for _ in range(length):
            window = found[-context:]
            padded = torch.tensor([window + [0] * (context - len(window))], device=device)
            logits = model(padded)
            found.append(int(logits[0, len(window) - 1].argmax()))
    model.train(was_training)
    return found
