"""Trains a mini-ResNet on CIFAR-10 with PyTorch's DistributedDataParallel: every rank reads its own shard.

It runs under any launcher, and alone: python train.py --epochs=1 --synthetic=true
"""

import torch
from torch import nn

from hpclaunch.training import options, progress
from hpclaunch.training.input import own_shard
from hpclaunch.training.input.source import ImageSet
from hpclaunch.training.rank import failure, stopping, torch_ranks

CIFAR10 = ImageSet("cifar10", shape=(32, 32, 3), classes=10, job="ddp")
OPTIMIZERS = {"adam": torch.optim.Adam, "sgd": lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9)}


def _conv(into, out, size, stride=1):
    return nn.Sequential(nn.Conv2d(into, out, size, stride, size // 2), nn.BatchNorm2d(out))


class _Residual(nn.Module):
    def __init__(self, into, narrow, out, stride):
        super().__init__()
        path = [_conv(into, narrow, 1, stride), nn.ReLU(), _conv(narrow, narrow, 3), nn.ReLU(), _conv(narrow, out, 1)]
        self.path, self.shortcut = nn.Sequential(*path), _conv(into, out, 1, stride)

    def forward(self, x):
        return torch.relu(self.path(x) + self.shortcut(x))


def mini_resnet() -> nn.Module:
    """The network of the job cifar: images [b, 3, 32, 32], 0..1 -> scores [b, 10]; 490,378 parameters."""
    body = [_conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2), _Residual(64, 64, 256, 1), _Residual(256, 128, 512, 2)]
    return nn.Sequential(*body, nn.AvgPool2d(2), nn.Flatten(), nn.Linear(2048, 10))


def train(asked, world, device):
    """Run the whole training on one rank of `world`, on its GPU or CPU; all ranks hold the same weights."""

    def tensors(batch):  # images uint8 [b, 32, 32, 3] and labels int64 [b], as NumPy has them
        images, labels = (torch.from_numpy(array).to(device) for array in batch)
        return images.permute(0, 3, 1, 2) / 255.0, labels

    data = own_shard.OwnShard(world, asked, CIFAR10)
    model = mini_resnet().to(device)
    optimizer = OPTIMIZERS[asked.optimizer](model.parameters())
    schedule = progress.plain_schedule(world, asked)
    done = torch_ranks.restore(world, model, optimizer, data.steps)
    # All ranks begin with rank 0's weights; in every step their gradients are averaged.
    spread = nn.parallel.DistributedDataParallel(model) if world.size > 1 else model

    for number in stopping.epochs(world, done // data.steps, asked.epochs):
        epoch, losses = progress.Epoch(number, data.steps, data.samples, done % data.steps), []
        for step, batch in data.batches(number, done % data.steps):
            optimizer.param_groups[0]["lr"] = schedule.at(number + step / data.steps)
            images, labels = tensors(batch)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(spread(images), labels)
            loss.backward()
            optimizer.step()
            losses, done = [*losses, loss.item()], done + 1
            epoch.step_ended()
            if step + 1 < data.steps and stopping.agreed(world, done):
                torch_ranks.save(world, model, optimizer, done, data.steps)
                raise stopping.saved(world, done)
        torch_ranks.save(world, model, optimizer, done, data.steps)
        epoch.report(world, data.log, losses)

    model.eval()
    with torch.no_grad():
        right = [(model(images).argmax(1) == labels).cpu() for images, labels in map(tensors, data.test_batches())]
    progress.report_test(world, data.log, asked.epochs, right)


if __name__ == "__main__":
    typed, _ = options.parse(options.job_parser("Mini-ResNet on CIFAR-10, sharded over ranks of PyTorch.", __file__))
    with failure.reported():
        train(typed, *torch_ranks.start("ddp", typed.seed))
