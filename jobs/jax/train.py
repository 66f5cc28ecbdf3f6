"""Trains a CNN on CIFAR-10 with JAX, data parallel: every rank reads its own shard, and all hold the same weights.

It runs under srun and mpirun, and alone: python train.py --epochs=1 --synthetic=true
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from hpclaunch.training import on_jax as training

CIFAR10 = training.ImageSet("cifar10", shape=(32, 32, 3), classes=10, job="jax")
KERNELS = ((3, 3, 3, 32), (3, 3, 32, 64), (3, 3, 64, 128), (2048, 10))
over = jax.tree_util.tree_map


def begin(seed):
    """The weights, their gradients' running mean and mean square, and the step: the same on every rank."""
    random = np.random.RandomState(seed)
    kernels = [random.normal(0, np.sqrt(2 / np.prod(shape[:-1])), shape).astype(np.float32) for shape in KERNELS]
    weights = [(kernel, np.zeros(kernel.shape[-1], np.float32)) for kernel in kernels]
    return weights, over(np.zeros_like, weights), over(np.zeros_like, weights), np.zeros((), np.float32)


def scores(weights, images):
    """Images uint8 [b, 32, 32, 3] -> [b, 10]: three convolutions, each with a pool, and a dense layer."""
    x, (kernel, bias) = images / jnp.float32(255), weights[-1]
    for one, shift in weights[:-1]:
        x = jax.lax.conv_general_dilated(x, one, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.nn.relu(x + shift).reshape(len(x), x.shape[1] // 2, 2, x.shape[2] // 2, 2, -1).max((2, 4))
    return x.reshape(len(x), -1) @ kernel + bias


def _loss(weights, images, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(scores(weights, images)), labels[:, None], 1).mean()


def adam(loss_and_gradients, state, images, labels, rate):
    """One step, with the mean loss over the images of all ranks, and its gradient."""
    weights, first, second, step = state
    loss, gradients = loss_and_gradients(weights, images, labels)
    first = over(lambda old, new: 0.9 * old + 0.1 * new, first, gradients)
    second = over(lambda old, new: 0.999 * old + 0.001 * new**2, second, gradients)
    rate = rate * jnp.sqrt(1 - 0.999 ** (step + 1)) / (1 - 0.9 ** (step + 1))
    weights = over(lambda w, m, v: w - rate * m / (jnp.sqrt(v) + 1e-7), weights, first, second)
    return (weights, first, second, step + 1), loss


@jax.jit
def measure(state, images, labels):
    """The means over the images of a batch, for the validation."""
    accuracy = (scores(state[0], images).argmax(1) == labels).mean()
    return {"loss": _loss(state[0], images, labels), "accuracy": accuracy}


def train(run):
    """Run the whole training on one rank; all ranks hold the same weights."""
    data = training.image_set(run, CIFAR10)
    loop = training.loop(run, begin(run.settings.seed), data, validate=measure, model=lambda state: state[0])
    update = jax.jit(functools.partial(adam, training.value_and_grad(run, _loss)), donate_argnums=0)
    for images, labels in loop:
        loop.step(*update(loop.state, images, labels, loop.learning_rate))
    training.evaluate(run, jax.tree_util.Partial(scores, loop.own_state()[0]), data)


if __name__ == "__main__":
    with training.start(training.settings("A CNN on CIFAR-10, on ranks of JAX.", __file__), "jax") as this_run:
        train(this_run)
