"""Trainings written by hand: a network's gradient, optimizers and learning rates as published, on arrays of any kind.

NumPy and jax.numpy have the same functions, so `m` is one of them. Weights are {"first": [3, 8], "last": [8, 1]}.
"""

import math

import numpy as np

SAMPLES, STEPS, RANKS = 23, 3, 2
"""Of an epoch: with two ranks one of them repeats a sample, and batches of 5 end with one of 2."""
BASE = 0.02
DECAYS = {
    "constant": ("--decay=constant",),
    "step": ("--decay=step", "--decay-epochs=1,2", "--decay-factor=0.5", "--scale-learning-rate=linear"),
    "exponential": ("--decay=exponential", "--decay-factor=0.7", "--scale-learning-rate=sqrt", "--warmup-epochs=1"),
    "inverse": ("--decay=inverse", "--decay-factor=0.7", "--scale-learning-rate=power23", "--warmup-steps=4"),
    "polynomial": ("--decay=polynomial", "--decay-power=2", "--warmup-epochs=1.5"),
    "cosine": ("--decay=cosine", "--scale-learning-rate=linear", "--warmup-epochs=0.5"),
}
EPOCHS = 3
OF_DECAYS = {  # of the epochs from the first step, and from the end of the warm-up; written out from DECAYS
    "constant": lambda epoch, since: 1.0,
    "step": lambda epoch, since: 1.0 if epoch < 1 else 0.5 if epoch < 2 else 0.25,
    "exponential": lambda epoch, since: 0.7**since,
    "inverse": lambda epoch, since: 1 / (1 + 0.7 * since),
    "polynomial": lambda epoch, since: (1 - since / 1.5) ** 2,
    "cosine": lambda epoch, since: (1 + math.cos(math.pi * since / 2.5)) / 2,
}
WARM_UPS = {"exponential": 1.0, "inverse": 4 / STEPS, "polynomial": 1.5, "cosine": 0.5}
SCALED = {"step": 2.0, "exponential": 2.0**0.5, "inverse": 2.0 ** (2 / 3), "cosine": 2.0}
"""Factors of two ranks. A warm-up begins at the rate of one, without scaling at half the rate."""


def rate(decay, made):
    """The learning rate of the step after `made` steps, on two ranks."""
    epoch, warm_up, full = made / STEPS, WARM_UPS.get(decay, 0.0), BASE * SCALED.get(decay, 1.0)
    begin = BASE if decay in SCALED else BASE / 2
    if epoch < warm_up:
        return begin + (full - begin) * epoch / warm_up
    return full * OF_DECAYS[decay](epoch, epoch - warm_up)


def begin(dtype):
    random = np.random.RandomState(3)
    return {"first": random.normal(size=(3, 8)).astype(dtype), "last": random.normal(size=(8, 1)).astype(dtype)}


def gradient(weights, inputs, targets):
    """The mean squared error of tanh(inputs @ first) @ last, and its gradient."""
    hidden = np.tanh(inputs @ weights["first"])
    wrong = (hidden @ weights["last"])[:, 0] - targets
    outer = (2 / len(targets) * wrong)[:, None]
    inner = outer @ weights["last"].T * (1 - hidden**2)
    return (wrong**2).mean(), {"first": inputs.T @ inner, "last": hidden.T @ outer}


def sgd(m, w, g, old, rate, t):
    return w - rate * g, ()


def momentum(m, w, g, old, rate, t):
    v = 0.9 * old[0] + g
    return w - rate * v, (v,)


def nesterov(m, w, g, old, rate, t):
    """Sutskever et al. 2013 in the form of PyTorch, with L2."""
    g = g + 0.01 * w
    v = 0.9 * old[0] + g
    return w - rate * (g + 0.9 * v), (v,)


def adam(m, w, g, old, rate, t, decay=0.0):
    """Kingma and Ba 2014, algorithm 1; `decay` as Loshchilov and Hutter 2017, algorithm 2."""
    first, second = 0.9 * old[0] + 0.1 * g, 0.999 * old[1] + 0.001 * g**2
    step = first / (1 - 0.9**t) / (m.sqrt(second / (1 - 0.999**t)) + 1e-8)
    return w - rate * (step + decay * w), (first, second)


def adamw(m, w, g, old, rate, t):
    return adam(m, w, g, old, rate, t, decay=0.1)


def amsgrad(m, w, g, old, rate, t):
    """Reddi et al. 2018, algorithm 2, with Adam's corrections as PyTorch has them."""
    first, second = 0.9 * old[0] + 0.1 * g, 0.999 * old[1] + 0.001 * g**2
    largest = m.maximum(old[2], second)
    return w - rate * first / (1 - 0.9**t) / (m.sqrt(largest / (1 - 0.999**t)) + 1e-8), (first, second, largest)


def adamax(m, w, g, old, rate, t):
    """Kingma and Ba 2014, algorithm 2; PyTorch adds 1e-8 to the gradient's size."""
    first, norm = 0.9 * old[0] + 0.1 * g, m.maximum(0.999 * old[1], abs(g) + 1e-8)
    return w - rate / (1 - 0.9**t) * first / norm, (first, norm)


def adagrad(m, w, g, old, rate, t):
    """Duchi et al. 2011."""
    total = old[0] + g**2
    return w - rate * g / (m.sqrt(total) + 1e-10), (total,)


def adadelta(m, w, g, old, rate, t):
    """Zeiler 2012, algorithm 1."""
    squares = 0.9 * old[0] + 0.1 * g**2
    step = m.sqrt(old[1] + 1e-6) / m.sqrt(squares + 1e-6) * g
    return w - rate * step, (squares, 0.9 * old[1] + 0.1 * step**2)


def rmsprop(m, w, g, old, rate, t):
    """Tieleman and Hinton 2012; centered, with momentum: Graves 2013, equations 38 to 42, in the form of PyTorch."""
    squares, mean = 0.99 * old[0] + 0.01 * g**2, 0.99 * old[1] + 0.01 * g
    v = 0.5 * old[2] + g / (m.sqrt(squares - mean**2) + 1e-8)
    return w - rate * v, (squares, mean, v)


def lion(m, w, g, old, rate, t):
    """Chen et al. 2023, program 1."""
    return w - rate * (m.sign(0.9 * old[0] + 0.1 * g) + 0.1 * w), (0.99 * old[0] + 0.01 * g,)


def lamb(m, w, g, old, rate, t):
    """You et al. 2019, algorithm 2."""
    first, second = 0.9 * old[0] + 0.1 * g, 0.999 * old[1] + 0.001 * g**2
    step = first / (1 - 0.9**t) / (m.sqrt(second / (1 - 0.999**t)) + 1e-6) + 0.01 * w
    return w - rate * m.sqrt((w**2).sum()) / m.sqrt((step**2).sum()) * step, (first, second)


def lars(m, w, g, old, rate, t):
    """You et al. 2017, algorithm 1, with a trust of 0.001."""
    local = 0.001 * m.sqrt((w**2).sum()) / (m.sqrt((g**2).sum()) + 0.01 * m.sqrt((w**2).sum()))
    v = 0.9 * old[0] + rate * local * (g + 0.01 * w)
    return w - v, (v,)


def muon(m, w, g, old, rate, t):
    """Jordan et al. 2024, with the step's size of Liu et al. 2025; every weight is a matrix."""
    v = 0.95 * old[0] + g
    x = g + 0.95 * v
    x = x / m.sqrt((x**2).sum())
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return w - rate * (0.2 * max(w.shape) ** 0.5 * x + 0.1 * w), (v,)


OPTIMIZERS = {
    one.__name__: (one, kept)
    for one, kept in (
        (sgd, 0),
        (momentum, 1),
        (nesterov, 1),
        (adam, 2),
        (adamw, 2),
        (amsgrad, 3),
        (adamax, 2),
        (adagrad, 1),
        (adadelta, 2),
        (rmsprop, 3),
        (lion, 1),
        (lamb, 2),
        (lars, 1),
        (muon, 1),
    )
}
"""Each function: (m, weight, gradient, old state, rate, number of the step from 1) -> (weight, state); its arrays."""


def trained(name, decay, steps, frozen=()):
    """One process, in float64, that trains on `steps`: of each the inputs and targets of all ranks together.

    frozen: names of weights that stay. Returns the weights.
    """
    update, kept = OPTIMIZERS[name]
    weights = begin(np.float64)
    state = {key: (np.zeros_like(one),) * kept for key, one in weights.items()}
    for made, (inputs, targets) in enumerate(steps):
        _, slopes = gradient(weights, inputs.astype(np.float64), targets.astype(np.float64))
        for key in [key for key in weights if key not in frozen]:
            now = rate(decay, made)
            weights[key], state[key] = update(np, weights[key], slopes[key], state[key], now, made + 1)
    return weights
