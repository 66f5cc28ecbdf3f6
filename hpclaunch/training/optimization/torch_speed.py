"""What makes a step of PyTorch faster on its device: the format of its arithmetic, torch.compile, channels last."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, ContextManager

import torch

from hpclaunch.training.rank.failure import AgreedError

IMAGES = 4
"""Dimensions of the weights of a convolution over images, and of its batches."""


def set_arithmetic(asked: Any, world: Any) -> None:
    """Let matrix products of float32 use TF32, with precision=tf32. Raises AgreedError where no GPU could."""
    if getattr(asked, "precision", "float32") != "tf32":
        return
    device = world.torch_device
    can = device.type == "cuda" and (torch.version.cuda is None or torch.cuda.get_device_capability(device) >= (8, 0))
    if not all(world.gather(can)):
        raise AgreedError(
            "--precision=tf32 has an effect on NVIDIA's GPUs from Ampere (A100) on, and on AMD's from MI300 on: omit "
            "it here, or use --precision=bfloat16",
            speaks=world.is_root,
        )
    torch.set_float32_matmul_precision("high")


def forward_contexts(asked: Any, device: Any) -> Callable[[], ContextManager[Any]]:
    """Makes the block in which a model and its loss are computed: torch.autocast with precision=bfloat16."""
    if getattr(asked, "precision", "float32") != "bfloat16":
        return contextlib.nullcontext
    return lambda: torch.autocast(device.type, dtype=torch.bfloat16)


def prepare(asked: Any, world: Any, model: Any) -> None:
    """Change the model in place as compile and channels_last say; its state_dict keeps its names and shapes.

    Raises AgreedError where a setting can have no effect.
    """
    if getattr(asked, "channels_last", False):
        if not any(one.dim() == IMAGES for one in model.parameters()):
            raise AgreedError(
                "--channels-last=true has no effect: the model has no convolution over images", speaks=world.is_root
            )
        model.to(memory_format=torch.channels_last)
    if getattr(asked, "compile", False):
        if not hasattr(model, "compile"):
            raise AgreedError(
                "--compile=true needs PyTorch 2.2 or newer, and this is {}: omit it".format(torch.__version__),
                speaks=world.is_root,
            )
        model.compile()
