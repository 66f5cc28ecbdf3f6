"""Batches on this rank's device; for a GPU they are copied from pinned memory while it computes the batch before."""

from __future__ import annotations

from typing import Any, Callable, Iterator

import numpy as np
import torch

from hpclaunch.training.input.own_shard import MicroBatch


class DeviceBatches:
    """Puts what a batch has, tensors, arrays, lists and dictionaries of them, on a device."""

    def __init__(self, device: Any) -> None:
        self._device = device
        self._copies = torch.cuda.Stream(device) if device.type == "cuda" else None

    def put(self, part: Any) -> Any:
        """A part of a batch on the device: an array, what has `to`, or lists and dictionaries of them."""
        return _map_parts(_map_parts(part, self._copy), self._move)

    def ahead(self, batches: Iterator[MicroBatch]) -> Iterator[MicroBatch]:
        """The same batches on the device; on a GPU, the next one is read and its copy begun before one is given."""
        if self._copies is None:
            for micro in batches:
                yield micro._replace(batch=self.put(micro.batch))
            return
        yield from self._copy_ahead(batches, self._copies)

    def _copy_ahead(self, batches: Iterator[MicroBatch], copies: Any) -> Iterator[MicroBatch]:
        coming = None
        for micro in batches:
            with torch.cuda.stream(copies):
                begun = micro._replace(batch=_map_parts(micro.batch, self._copy)), copies.record_event()
            if coming is not None:
                yield self._take(*coming)
            coming = begun
        if coming is not None:
            yield self._take(*coming)

    def _take(self, micro: MicroBatch, copied: Any) -> MicroBatch:
        computing = torch.cuda.current_stream(self._device)
        computing.wait_event(copied)

        def ready(one: Any) -> Any:
            if torch.is_tensor(one):
                one.record_stream(computing)  # else its memory could be used again while the step still reads it
                return one
            return self._move(one)

        return micro._replace(batch=_map_parts(micro.batch, ready))

    def _copy(self, one: Any) -> Any:
        """An array or a tensor on the device; its copy to a GPU may still go on. All else as it is."""
        if isinstance(one, np.ndarray):
            one = torch.from_numpy(one)
        if not torch.is_tensor(one) or one.device == self._device:
            return one
        if self._copies is not None and one.layout is torch.strided and not one.is_cuda:
            one = one.pin_memory()  # from other memory, the host would wait for the copy
        return one.to(self._device, non_blocking=True)

    def _move(self, one: Any) -> Any:
        return one if torch.is_tensor(one) or not hasattr(one, "to") else one.to(self._device)


def _map_parts(part: Any, function: Callable[[Any], Any]) -> Any:
    """The same lists and dictionaries, with function(one) for each thing in them."""
    if torch.is_tensor(part) or hasattr(part, "to"):  # such as a PackedSequence, which is a tuple
        return function(part)
    if isinstance(part, dict):
        return {name: _map_parts(one, function) for name, one in part.items()}
    if not isinstance(part, (list, tuple)):
        return function(part)
    own = [_map_parts(one, function) for one in part]
    return type(part)(*own) if hasattr(part, "_fields") else type(part)(own)
