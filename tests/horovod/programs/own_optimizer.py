"""Trains with an optimizer of Keras, --kind, in fit or (--own-loop=true) in a loop of its own, with a falling rate."""

from hpclaunch import training

KINDS = {
    "adam": lambda keras: keras.Adam(0.01),
    "adamw": lambda keras: keras.AdamW(0.01, weight_decay=0.1, clipnorm=1.0),
    "sgd": lambda keras: keras.SGD(0.01, momentum=0.9, nesterov=True),
    "older": lambda keras: keras.legacy.Adam(0.01),
    "nadam": lambda keras: keras.Nadam(0.01),
    "adafactor": lambda keras: keras.Adafactor(0.01),
}


def network():
    return tf.keras.Sequential(
        [tf.keras.layers.Input(6), tf.keras.layers.Dense(16, "relu"), tf.keras.layers.Dense(1, dtype="float32")]
    )


def optimizer():
    found = KINDS[settings.kind](tf.keras.optimizers)
    if settings.kind == "adamw":
        found.exclude_from_weight_decay(var_names=["bias"])
    return found


settings = training.settings(
    epochs=4,
    batch_size_per_rank=4,
    decay="cosine",
    export_model=False,
    kind={"default": "adam", "help": "a name of KINDS"},
    own_loop={"default": False, "help": "a loop of its own in place of fit"},
)
with training.start(settings) as run:
    import tensorflow as tf

    data = training.arrays(run, inputs="features", targets="price")
    if settings.own_loop:
        loop = training.loop(run, network, data, optimizer=optimizer())
        for inputs, targets in loop:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((loop.model(inputs, training=True)[:, 0] - targets) ** 2)
            loop.step(loss, tape.gradient(loss, loop.model.trainable_variables))
        model = loop.model
    else:
        model = training.fit(run, network, data, loss="mse", optimizer=optimizer())
    weights = run.world.gather([weight.tobytes() for weight in model.get_weights()])
    if any(others != weights[0] for others in weights):
        raise SystemExit("the ranks have different weights")
    training.evaluate(run, model, data)
