"""Linear regression of known noise scale under model.fit at a rate of 0: the callback must find that scale.

y = x w*, x ~ N(0, C) with C diagonal, label noise of variance v, weights w* + d. Per sample g = x (x.d + e):
G = C d, and by Isserlis tr(Sigma) = tr(C) d'Cd + |Cd|^2 + v tr(C). Arguments: CASES to run; leaves RUN/found-RANK.json.
"""

import json
import os
import sys

from hpclaunch.training.rank import failure
from hpclaunch.training.rank.start import start

N = 200
C = [0.5 + n / N for n in range(N)]
D = [0.1 * (-1) ** n * (1 + n % 3) for n in range(N)]  # |d|^2 = 9.3
V = 1.0
CASES = {
    "uneven": {"batch": 320, "last": 160},  # every other batch is smaller, as the last one of an epoch is
    "float16": {"batch": 256, "float16": True},
    "parts": {"batch": 510, "parts": 4},  # 128, 128, 128, 126
}
STEPS, EPOCHS = 200, 2


def truth():
    """The noise scale and |G|^2."""
    norm = sum((c * d) ** 2 for c, d in zip(C, D, strict=True))
    along = sum(c * d * d for c, d in zip(C, D, strict=True))
    return (sum(C) * along + norm + V * sum(C)) / norm, norm


def measured(batch, last=0, parts=1, float16=False):
    """The callback's estimate over EPOCHS x STEPS steps."""
    from hpclaunch.training import metrics
    from hpclaunch.training.optimization import noise_scale, optimizers, precision, reduction, training_step

    tf.keras.backend.clear_session()
    image = tf.keras.layers.Input((len(C),))
    model = tf.keras.Model(image, tf.keras.layers.Dense(1, use_bias=False)(image))
    model = training_step.in_parts(model, parts)
    model.set_weights([np.array(D, "float32")[:, None]])  # w* = 0

    def halved(y, predicted):
        return 0.5 * tf.square(predicted - y)

    optimizer = reduction.distributed(optimizers.make("sgd", 1e-30), world)
    optimizer = precision.scaled(optimizer, "float16" if float16 else "float32")
    model.compile(optimizer, loss=halved, steps_per_execution=20)

    def one_batch(step):
        size = tf.where(step % 2 == 0, batch, last or batch)
        x = tf.random.stateless_normal((size, len(C)), (world.rank, 2 * step)) * np.sqrt(C).astype("float32")
        return x, tf.random.stateless_normal((size, 1), (world.rank, 2 * step + 1)) * V**0.5

    batches = tf.data.Dataset.range(EPOCHS * STEPS).map(one_batch)
    log = metrics.metrics_log(world.run_dir, world.is_root, synthetic=True)
    callback = noise_scale.NoiseScale(world, log, span=float("inf"))
    model.fit(batches, epochs=EPOCHS, steps_per_epoch=STEPS, callbacks=[callback], verbose=0)
    return callback.result()


with failure.reported():
    world = start("test", 1)
    import numpy as np
    import tensorflow as tf

    found = dict(zip(("truth", "norm"), truth(), strict=True))
    for case in sys.argv[1:]:
        found[case] = vars(measured(**CASES[case]))
    with open(os.path.join(world.run_dir, f"found-{world.rank}.json"), "w") as file:
        json.dump(found, file)
