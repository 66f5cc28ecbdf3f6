"""A plain loop over the model of the job ddp, on generated images: images/s in float32, with bfloat16, and compiled."""

import importlib.util
import json
import shutil
import time

import torch
from torch import nn

from hpclaunch.config.catalog import bundled

BATCH, STEPS = 512, 60


def job():
    """The module of the bundled job ddp."""
    spec = importlib.util.spec_from_file_location("ddp", bundled("jobs") / "ddp" / "train.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rate(bfloat16, compiled):
    """Images per second of the steps after the first ones."""
    torch.manual_seed(0)
    model = job().mini_resnet().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    images = torch.randint(0, 256, (BATCH, 32, 32, 3), dtype=torch.uint8, device="cuda")
    labels = torch.randint(0, 10, (BATCH,), device="cuda")
    forward = torch.compile(model) if compiled else model
    for step in range(STEPS + 20):
        if step == 20:
            torch.cuda.synchronize()
            began = time.monotonic()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=bfloat16):
            loss = nn.functional.cross_entropy(forward(images), labels)
        loss.backward()
        optimizer.step()
    torch.cuda.synchronize()
    return round(STEPS * BATCH / (time.monotonic() - began))


found = {"float32": rate(False, False), "bfloat16": rate(True, False)}
if shutil.which("gcc") or shutil.which("cc"):  # torch.compile calls it
    found["compiled"] = rate(False, True)
print("rates", json.dumps(found), flush=True)
