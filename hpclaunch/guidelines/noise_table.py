"""Published noise scales beside critical batch sizes: how well the one predicts the other; it measures nothing."""

from __future__ import annotations

from hpclaunch.core.records import record


@record
class NoiseRow:
    """A task's mean gradient noise scale and mean critical batch size, in samples (text: tokens; games: frames)."""

    task: str
    noise: float
    critical: float


TABLE = (
    NoiseRow(task="MNIST", noise=900, critical=200),
    NoiseRow(task="SVHN", noise=4_000, critical=500),
    NoiseRow(task="CIFAR-10", noise=2_000, critical=900),
    NoiseRow(task="ImageNet", noise=30_000, critical=15_000),
    NoiseRow(task="Autoencoder", noise=2, critical=40),
    NoiseRow(task="VAE", noise=10, critical=200),
    NoiseRow(task="Billion Word", noise=150_000, critical=100_000),
    NoiseRow(task="Dota 1v1", noise=300_000, critical=3_000_000),
)
"""Means over the training, as the project knows the table of McCandlish et al. 2018, arXiv 1812.06162. They were not
looked up again; a second source confirms MNIST's noise scale only."""
