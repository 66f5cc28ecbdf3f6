"""What reduces the gradients of a job, and what it makes of a network before anything is measured; it sends nothing."""

from __future__ import annotations

from dataclasses import replace

from hpclaunch.core.records import record


@record
class Collectives:
    """A library that reduces gradients.

    ``share``: the part of a node's fast network (100 GB/s and more) that an all-reduce reaches. ``joining_s``: its own
    seconds for every step of several ranks.
    """

    name: str
    share: float
    joining_s: float
    source: str

    @property
    def words(self) -> str:
        """What it makes of the network, in a line."""
        return (
            f"{self.name} reaches {self.share:.0%} of a fast network, and takes {self.joining_s * 1e3:g} ms for a step"
            f" of several ranks ({self.source})"
        )


HOROVOD = Collectives(
    name="Horovod",
    share=0.1,
    joining_s=3e-3,
    source="in sight of BERT on DGX A100 and DGX-2H, and of two notebooks",
)
"""Its fusion copies, negotiation and cycle are included."""
NCCL = Collectives(
    name="NCCL",
    share=0.7,
    joining_s=0.3e-3,
    source="nccl-tests; compared with MPT, Transformer-XL, BERT and ResNet-50 of PyTorch",
)
"""As PyTorch and JAX call it: without negotiation, and beside the backward pass."""
RCCL = replace(NCCL, name="RCCL", source="as NCCL; compared with no table")
GLOO = Collectives(name="Gloo", share=0.1, joining_s=0.3e-3, source="as Horovod on a network; compared with no table")
