"""Asserts in which order batches are copied and given, with streams that only note what is done to them."""

import contextlib

import numpy as np
import torch

from hpclaunch.training.input.own_shard import MicroBatch
from hpclaunch.training.input.torch_device import DeviceBatches

happened = []


class Stream:
    def record_event(self):
        happened.append("copy begun")
        return len([one for one in happened if one == "copy begun"])

    def wait_event(self, event):
        happened.append(f"step waits for copy {event}")


class Packed(tuple):
    def to(self, device):
        happened.append("moved")
        return self


def batches():
    for number in range(3):
        happened.append(f"read {number + 1}")
        inputs = {"image": np.full((2, 2), number), "pair": [torch.ones(1) * number, Packed()]}
        yield MicroBatch(number, (inputs, "name"), 2, 1.0, True)


cpu = torch.device("cpu")
plain = [one.batch for one in DeviceBatches(cpu).ahead(batches())]
happened.clear()
torch.cuda.stream, torch.cuda.current_stream = contextlib.nullcontext, lambda device: Stream()
torch.Tensor.record_stream = lambda self, stream: happened.append("kept for the step")
gpu = DeviceBatches(cpu)
gpu._copies = Stream()
given = []
for micro in gpu.ahead(batches()):
    happened.append("given")
    given.append(micro.batch)

parts = ["kept for the step"] * 2
first = ["step waits for copy 1", *parts, "moved", "given"]
second, third = [[f"step waits for copy {n}", *parts, "moved", "given"] for n in (2, 3)]
begun = [[f"read {n}", "copy begun"] for n in (1, 2, 3)]
assert happened == [*begun[0], *begun[1], *first, *begun[2], *second, *third], happened
for one, other in zip(plain, given, strict=True):
    assert torch.equal(one[0]["image"], other[0]["image"]) and torch.equal(one[0]["pair"][0], other[0]["pair"][0])
    assert type(other[0]["pair"][1]) is Packed and other[1] == "name"
assert len(given) == len(plain) == 3
