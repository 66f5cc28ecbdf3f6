"""The weights of a trained model of PyTorch: its state_dict as PyTorch reads it, and named arrays of NumPy."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

import numpy as np
import torch

STATE = "weights.pt"


def write_state(of_model: Mapping[str, Any], path: str) -> None:
    """Write a state_dict to `path`, on the CPU; torch.load(path, weights_only=True) reads it.

    What a module keeps in get_extra_state is left out, with a note, if PyTorch reads it only by running code.
    """
    state = {name: one.detach().cpu() if torch.is_tensor(one) else one for name, one in of_model.items()}
    torch.save(state, path)
    try:
        torch.load(path, weights_only=True)
    except Exception as error:  # of whatever the extra state is
        others = [name for name, one in state.items() if not torch.is_tensor(one)]
        if not others:
            raise
        torch.save({name: one for name, one in state.items() if name not in others}, path)
        reason = "{}: {}".format(type(error).__name__, str(error).strip().split("\n")[0][:300])
        print("note: {} has no {}: {}".format(STATE, ", ".join(others), reason), flush=True)


def named_arrays(of_model: Mapping[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
    """The tensors of a state_dict by name; those of types that NumPy lacks (bfloat16) as float32."""
    for name, one in of_model.items():
        if not torch.is_tensor(one):
            continue
        own = one.detach().cpu()
        try:
            yield name, np.asarray(own.numpy())
        except TypeError:
            yield name, np.asarray(own.float().numpy())
