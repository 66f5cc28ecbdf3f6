"""What measuring the gradient noise scale costs a step: MNIST's CNN with and without it, in turns.

Run it on real ranks: horovodrun -np 2 python benchmarks/noise_scale.py [BATCH_SIZE_PER_RANK]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "jobs" / "mnist")]

from hpclaunch.training.rank.start import start  # noqa: E402

BLOCKS, STEPS = 12, 20


def main() -> None:
    world = start("benchmark", 1)
    import tensorflow as tf
    from model import cnn

    from hpclaunch.training import metrics
    from hpclaunch.training.optimization import noise_scale, optimizers, reduction

    batch = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    x = tf.random.uniform((batch, 28, 28, 1))
    y = tf.random.uniform((batch,), maxval=10, dtype=tf.int32)
    data = tf.data.Dataset.from_tensors((x, y)).repeat()
    fits = {}
    for measured in (False, True):
        model = cnn()
        reduction.broadcast_weights(model, world)
        optimizer = reduction.distributed(optimizers.make("adam", 1e-3), world)
        model.compile(optimizer, "sparse_categorical_crossentropy")
        log = metrics.metrics_log(tempfile.mkdtemp(), world.is_root, synthetic=True)
        callbacks = [noise_scale.NoiseScale(world, log)] if measured else []
        fits[measured] = lambda steps, model=model, callbacks=callbacks: model.fit(
            data, steps_per_epoch=steps, callbacks=callbacks, verbose=0
        )
        fits[measured](5)
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for block in range(2 * BLOCKS):
        measured = bool(block % 2)
        began = time.perf_counter()
        fits[measured](STEPS)
        seconds[measured].append((time.perf_counter() - began) / STEPS)
    if world.is_root:
        without, with_it = median(seconds[False]), median(seconds[True])
        more = median(b / a - 1 for a, b in zip(seconds[False], seconds[True], strict=True))
        print(f"{world.size} ranks, {batch} images each: {without * 1e3:.1f} ms without, {with_it * 1e3:.1f} ms with")
        print(f"median of {BLOCKS} pairs: {more:+.1%}")


if __name__ == "__main__":
    main()
