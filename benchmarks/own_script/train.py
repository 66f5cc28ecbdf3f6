"""A PyTorch program as many people write it: DistributedDataParallel on CPUs, and a line with its speed.

It knows nothing of hpclaunch. The images are random numbers, because only its speed is measured.
"""

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    """Train a small network, and print a line for every ten steps."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64, help="images of a rank in a step")
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    network = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(1024, 512), nn.ReLU()
    )
    model = DistributedDataParallel(nn.Sequential(network, nn.Linear(512, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    since = time.perf_counter()
    for step in range(1, options.steps + 1):
        images = torch.randn(options.batch_size, 3, 32, 32)
        labels = torch.randint(10, (options.batch_size,))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        if step % 10 == 0 and dist.get_rank() == 0:
            now = time.perf_counter()
            speed = 10 * options.batch_size * dist.get_world_size() / (now - since)
            print(f"step {step} loss {loss.item():.3f} {speed:.1f} images/s", flush=True)
            since = now
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
