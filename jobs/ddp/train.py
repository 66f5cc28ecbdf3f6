"""Trains a mini-ResNet on CIFAR-10 with PyTorch's DistributedDataParallel: every rank reads its own shard.

It runs under any launcher, and alone: python train.py --epochs=1 --synthetic=true
"""

import torch
from torch import nn

from hpclaunch.training import on_pytorch as training

CIFAR10 = training.ImageSet("cifar10", shape=(32, 32, 3), classes=10, job="ddp")


def _conv(into, out, size, stride=1):
    return nn.Sequential(nn.Conv2d(into, out, size, stride, size // 2), nn.BatchNorm2d(out))


class _Residual(nn.Module):
    def __init__(self, into, narrow, out, stride):
        super().__init__()
        path = [_conv(into, narrow, 1, stride), nn.ReLU(), _conv(narrow, narrow, 3), nn.ReLU(), _conv(narrow, out, 1)]
        self.path, self.shortcut = nn.Sequential(*path), _conv(into, out, 1, stride)

    def forward(self, x):
        return torch.relu(self.path(x) + self.shortcut(x))


class _Pixels(nn.Module):
    def forward(self, images):
        return images.permute(0, 3, 1, 2) / 255.0


def mini_resnet() -> nn.Module:
    """The network of the job cifar: images uint8 [b, 32, 32, 3] -> scores [b, 10]; 490,378 parameters."""
    body = [
        _Pixels(),
        _conv(3, 64, 7, 2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2),
        _Residual(64, 64, 256, 1),
        _Residual(256, 128, 512, 2),
    ]
    return nn.Sequential(*body, nn.AvgPool2d(2), nn.Flatten(), nn.Linear(2048, 10))


def measure(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> dict:
    """The means over the images of a batch, for the validation."""
    found = model(images)
    return {"loss": nn.functional.cross_entropy(found, labels), "accuracy": (found.argmax(1) == labels).float().mean()}


def train(run: training.Run) -> None:
    """Run the whole training on one rank, on its GPU or CPU; all ranks hold the same weights."""
    data, model = training.image_set(run, CIFAR10), mini_resnet()
    loop = training.loop(run, model, training.optimizer(run, model), data, validate=measure)
    for images, labels in loop:
        loop.step(nn.functional.cross_entropy(loop.model(images), labels))
    training.evaluate(run, model, data)


if __name__ == "__main__":
    asked = training.settings("Mini-ResNet on CIFAR-10, sharded over ranks of PyTorch.", __file__)
    with training.start(asked, "ddp") as this_run:
        train(this_run)
