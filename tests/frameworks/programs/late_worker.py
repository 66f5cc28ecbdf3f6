"""Ends while Gloo's worker thread waits for Python's lock, to free the tensors of the last collective.

late_worker.py own|default: the group of the collective. Python switches between threads only where it must, so that
what is otherwise rare happens on every rank.
"""

import sys
import time

import torch
import torch.distributed as dist

from hpclaunch.training.rank import failure, torch_ranks

with failure.reported():
    world = torch_ranks.start("late", 0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))  # a global name: it lives to the end
    model(torch.ones(2, 4)).sum().backward()
    world.gather("ready")
    sys.setswitchinterval(1000)
    if world.is_root:
        time.sleep(1)
    parts = [torch.zeros(3) for _ in range(world.size)]
    group = torch_ranks._own_groups[0] if sys.argv[1] == "own" else None
    work = dist.all_gather(parts, torch.ones(3), group=group, async_op=True)
    del parts, work  # the worker holds them alone
    end = time.monotonic() + 2
    while time.monotonic() < end:  # holds the lock
        pass
