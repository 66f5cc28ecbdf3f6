"""Trains a CNN on CIFAR-10 with JAX, data parallel: every rank reads its own shard, and all hold the same weights.

It runs under srun and mpirun, and alone: python train.py --epochs=1 --synthetic=true
"""

import jax
import jax.numpy as jnp
import numpy as np

from hpclaunch.training import options, progress
from hpclaunch.training.input import own_shard
from hpclaunch.training.input.source import ImageSet
from hpclaunch.training.rank import failure, jax_ranks, stopping

CIFAR10 = ImageSet("cifar10", shape=(32, 32, 3), classes=10, job="jax")
KERNELS = ((3, 3, 3, 32), (3, 3, 32, 64), (3, 3, 64, 128), (2048, 10))
over = jax.tree_util.tree_map


def begin(seed):
    """The weights, their gradients' running mean and mean square, and the step: the same on every rank."""
    random = np.random.RandomState(seed)
    scales = [np.sqrt(2 / np.prod(shape[:-1])) for shape in KERNELS]
    kernels = [random.normal(0, scale, shape).astype(np.float32) for scale, shape in zip(scales, KERNELS)]
    weights = [(kernel, np.zeros(kernel.shape[-1], np.float32)) for kernel in kernels]
    return weights, over(np.zeros_like, weights), over(np.zeros_like, weights), np.zeros((), np.float32)


def scores(weights, images):
    """Images uint8 [b, 32, 32, 3] -> [b, 10]: three convolutions, each with a pool, and a dense layer."""
    x, (kernel, bias) = images / jnp.float32(255), weights[-1]
    for one, shift in weights[:-1]:
        x = jax.lax.conv_general_dilated(x, one, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.nn.relu(x + shift)
        x = x.reshape(len(x), x.shape[1] // 2, 2, x.shape[2] // 2, 2, -1).max((2, 4))
    return x.reshape(len(x), -1) @ kernel + bias


def _loss(weights, images, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(scores(weights, images)), labels[:, None], 1).mean()


def adam(state, images, labels, rate):
    """One step. The images of all ranks are one array here, so the gradient is the mean over all of them."""
    weights, first, second, step = state
    loss, gradients = jax.value_and_grad(_loss)(weights, images, labels)
    first = over(lambda old, new: 0.9 * old + 0.1 * new, first, gradients)
    second = over(lambda old, new: 0.999 * old + 0.001 * new**2, second, gradients)
    rate = rate * jnp.sqrt(1 - 0.999 ** (step + 1)) / (1 - 0.9 ** (step + 1))
    weights = over(lambda w, m, v: w - rate * m / (jnp.sqrt(v) + 1e-7), weights, first, second)
    return (weights, first, second, step + 1), loss


def train(asked, world):
    """Run the whole training on one rank of `world`."""
    data, schedule = own_shard.OwnShard(world, asked, CIFAR10), progress.plain_schedule(world, asked)
    state, done = jax_ranks.restore(world, begin(asked.seed), data.steps)
    state, update = jax_ranks.on_all(world, state), jax.jit(adam, donate_argnums=0)
    for number in stopping.epochs(world, done // data.steps, asked.epochs):
        epoch, losses = progress.Epoch(number, data.steps, data.samples, done % data.steps), []
        for step, batch in data.batches(number, done % data.steps):
            rate = np.float32(schedule.at(number + step / data.steps))
            state, loss = update(state, *jax_ranks.joined(world, batch), rate)
            losses, done = [*losses, float(loss)], done + 1
            epoch.step_ended()
            if step + 1 < data.steps and stopping.agreed(world, done):
                jax_ranks.save(world, state, done, data.steps)
                raise stopping.saved(world, done)
        jax_ranks.save(world, state, done, data.steps)
        epoch.report(world, data.log, losses)
    weights = jax_ranks.own_copy(state[0])
    right = [np.asarray(scores(weights, images)).argmax(1) == labels for images, labels in data.test_batches()]
    progress.report_test(world, data.log, asked.epochs, right)


if __name__ == "__main__":
    typed, _ = options.parse(options.job_parser("A CNN on CIFAR-10, sharded over ranks of JAX.", __file__))
    with failure.reported():
        train(typed, jax_ranks.start("jax"))
