"""What it takes two ranks to prove that they hold one model, beside their steps.

    python benchmarks/same_model.py [--framework tensorflow] [--epochs 6] [--steps 20]
    … --framework jax --python FOLDER/bin/python      PyTorch without --python: that of /usr/bin/python3

The model has 25.2 million parameters in six dense layers, with Adam; a rank has a batch of 64. It is trained without
the comparison in every second epoch, on the same ranks. So both have the same machine, as busy as it is. A table tells
the median seconds of a step, those of a comparison (the checkpoint that follows it is not counted), the share of the
comparisons in an epoch of `steps` steps and of 100, and the seconds of a checkpoint. Ends with 1 if the share in an
epoch of 100 steps is above 0.5 %.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import hand_written_plain

ROOT = Path(__file__).resolve().parents[1]
GLOORUN = [sys.executable, str(ROOT / "tests" / "horovod" / "programs" / "gloorun.py"), "--gloo", "-np", "2"]
FRAMEWORKS = ("tensorflow", "torch")  # and JAX, if --python has it
WIDTH, LAYERS, BATCH = 2048, 6, 64
LONG_EPOCH, BAR = 100, 0.005
DATA = "data.npz"
SYSTEM = "/usr/bin/python3"  # with Debian's python3-torch


class Times:
    """The seconds of comparisons and of checkpoints, and whether a comparison is made at all."""

    def __init__(self) -> None:
        self.proofs: list[float] = []
        self.saves: list[float] = []
        self.is_on = True

    def around(self, kind: type, name: str, found: list[float], may_be_off: bool = False) -> None:
        """Measure a method of a class; leave it out while `is_on` is false, if it may be."""
        whole = getattr(kind, name)

        def measured(*rest: Any, **named: Any) -> Any:
            if may_be_off and not self.is_on:
                return None
            began = time.perf_counter()
            result = whole(*rest, **named)
            found.append(time.perf_counter() - began)
            return result

        setattr(kind, name, measured)


def rank(framework: str, result: str, epochs: int) -> None:
    """Train on this rank; rank 0 writes what it measured to the file `result`."""
    from hpclaunch.training.rank.one_model import OneModel

    times = Times()
    times.around(OneModel, "prove", times.proofs, may_be_off=True)
    asked = {"epochs": epochs, "batch_size_per_rank": BATCH, "learning_rate": 1e-4}
    train = {"tensorflow": train_tensorflow, "torch": train_torch, "jax": train_jax}[framework]
    is_root, lengths = train(asked, str(Path(result).with_name(DATA)), times)
    if is_root:
        found = {"steps": lengths, "proofs": times.proofs, "saves": times.saves}
        Path(result).write_text(json.dumps(found))


def train_tensorflow(asked: Any, path: str, times: Times) -> tuple[bool, dict[str, list[float]]]:
    from hpclaunch import training

    settings = training.settings(**asked, optimizer="adam", export_model=False)
    with training.start(settings) as run:
        import tensorflow as tf

        from hpclaunch.training.checkpoints import saving

        times.around(saving, "save", times.saves)  # type: ignore[arg-type]

        class Clock(tf.keras.callbacks.Callback):  # type: ignore[misc,name-defined]
            lengths: dict[str, list[float]] = {"with": [], "without": []}

            def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
                times.is_on = epoch % 2 == 0

            def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
                self.began = time.perf_counter()

            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                if batch:  # the first step compiles
                    self.lengths["with" if times.is_on else "without"].append(time.perf_counter() - self.began)

        dense = tf.keras.layers.Dense
        layers = [tf.keras.Input([WIDTH]), *(dense(WIDTH, "relu") for _ in range(LAYERS)), dense(1)]
        data = training.arrays(run, path)
        training.fit(run, lambda: tf.keras.Sequential(layers), data, loss="mse", callbacks=[Clock()])
        return run.is_root, Clock.lengths


def train_torch(asked: Any, path: str, times: Times) -> tuple[bool, dict[str, list[float]]]:
    import torch

    from hpclaunch.training import on_pytorch as training
    from hpclaunch.training.checkpoints import writing

    times.around(writing, "save", times.saves)  # type: ignore[arg-type]
    settings = training.settings(**asked)
    lengths: dict[str, list[float]] = {"with": [], "without": []}
    with training.start(settings) as run:
        layers = [part for _ in range(LAYERS) for part in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
        model = torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 1))
        data = training.arrays(run, path)
        loop = training.loop(run, model, torch.optim.Adam(model.parameters(), settings.learning_rate), data)
        for made, (inputs, wanted) in enumerate(loop):
            times.is_on = made // data.steps % 2 == 0
            began = time.perf_counter()
            loop.step(torch.nn.functional.mse_loss(loop.model(inputs)[:, 0], wanted))
            if made % data.steps:
                lengths["with" if times.is_on else "without"].append(time.perf_counter() - began)
    return run.is_root, lengths


def train_jax(asked: Any, path: str, times: Times) -> tuple[bool, dict[str, list[float]]]:
    import jax
    import numpy as np

    from hpclaunch.training import on_jax as training
    from hpclaunch.training.checkpoints import writing

    times.around(writing, "save", times.saves)  # type: ignore[arg-type]
    lengths: dict[str, list[float]] = {"with": [], "without": []}
    over = jax.tree_util.tree_map

    def loss_of(weights: Any, inputs: Any, wanted: Any) -> Any:
        *hidden, (last, shift) = weights
        for kernel, bias in hidden:
            inputs = jax.nn.relu(inputs @ kernel + bias)
        return (((inputs @ last + shift)[:, 0] - wanted) ** 2).mean()

    with training.start(training.settings(**asked)) as run:
        random = np.random.default_rng(1)
        sizes = [WIDTH] * LAYERS + [1]
        weights = [
            (random.normal(0, WIDTH**-0.5, (WIDTH, n)).astype(np.float32), np.zeros(n, np.float32)) for n in sizes
        ]
        both = training.value_and_grad(run, loss_of)

        def update(state: Any, inputs: Any, wanted: Any, rate: Any) -> Any:
            weights, first, second, step = state
            loss, slopes = both(weights, inputs, wanted)
            first = over(lambda old, new: 0.9 * old + 0.1 * new, first, slopes)
            second = over(lambda old, new: 0.999 * old + 0.001 * new**2, second, slopes)
            rate = rate * jax.numpy.sqrt(1 - 0.999 ** (step + 1)) / (1 - 0.9 ** (step + 1))
            weights = over(lambda w, m, v: w - rate * m / (jax.numpy.sqrt(v) + 1e-8), weights, first, second)
            return (weights, first, second, step + 1), loss

        compiled = jax.jit(update, donate_argnums=0)
        zeros = over(np.zeros_like, weights)
        data = training.arrays(run, path)
        loop = training.loop(run, (weights, zeros, zeros, np.zeros((), np.float32)), data)
        for made, (inputs, wanted) in enumerate(loop):
            times.is_on = made // data.steps % 2 == 0
            began = time.perf_counter()
            loop.step(*compiled(loop.state, inputs, wanted, loop.learning_rate))
            if made % data.steps:
                lengths["with" if times.is_on else "without"].append(time.perf_counter() - began)
    return run.is_root, lengths


def measured(framework: str, python: str, epochs: int, steps: int) -> dict[str, Any]:
    """What rank 0 measured. Raises SystemExit with the end of the log."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "found.json")
        write_samples(Path(folder, DATA), steps)
        own = [__file__, "--rank", str(result), "--framework", framework, f"--epochs={epochs}", f"--steps={steps}"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "HPCLAUNCH_RUN_DIR": folder, "OMP_NUM_THREADS": "1"}
        environment["CUDA_VISIBLE_DEVICES"] = "-1"
        if framework == "tensorflow":
            commands = [([*GLOORUN, sys.executable, *own], environment)]
        else:
            commands = [([python, *own], {**environment, **place}) for place in hand_written_plain.places(2)]
        log = Path(folder, "log")
        with log.open("w") as file:
            processes = [
                subprocess.Popen(command, env=variables, cwd=folder, stdout=file, stderr=file)
                for command, variables in commands
            ]
            codes = [process.wait() for process in processes]
        if any(codes):
            raise SystemExit(log.read_text()[-3000:])
        return dict(json.loads(result.read_text()))


def write_samples(path: Path, steps: int) -> None:
    """As many samples as two ranks train on in an epoch, and a few for the test."""
    import numpy as np

    x = np.random.default_rng(1).normal(size=(2 * BATCH * (steps + 1), WIDTH)).astype(np.float32)
    first = 2 * BATCH * steps
    np.savez(path, x_train=x[:first], y_train=x[:first, 0], x_test=x[first:], y_test=x[first:, 0])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--framework", choices=[*FRAMEWORKS, "jax"], action="append")
    parser.add_argument("--python", default=SYSTEM, help="that has PyTorch or JAX")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    asked, _ = parser.parse_known_args()
    if asked.rank:
        sys.argv = sys.argv[:1]  # the training reads none of it
        rank(asked.framework[0], asked.rank, asked.epochs)
        return 0
    worst = 0.0
    print(
        f"{'framework':<12}{'step with':>11}{'without':>9}{'comparison':>12}{'of ' + str(asked.steps) + ' steps':>14}",
        end="",
    )
    print(f"{'of 100 steps':>14}{'checkpoint':>12}")
    for framework in asked.framework or FRAMEWORKS:
        found = measured(framework, asked.python, asked.epochs, asked.steps)
        with_, without = (statistics.median(found["steps"][name]) for name in ("with", "without"))
        proof, save = (statistics.median(found[name]) for name in ("proofs", "saves"))
        short, long = (proof / (steps * without) for steps in (asked.steps, LONG_EPOCH))
        worst = max(worst, long)
        print(
            f"{framework:<12}{with_:>9.3f} s{without:>7.3f} s{proof:>10.3f} s{short:>14.2%}{long:>14.2%}{save:>10.3f} s"
        )
    return 1 if worst > BAR else 0


if __name__ == "__main__":
    sys.exit(main())
