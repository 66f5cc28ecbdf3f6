"""Trains a linear model with a train_step of its own (--step); RUN/own-step-RANK.json has its samples and weights.

Every step sees all samples, so the order of the samples does not matter.
"""

import json
import os

from hpclaunch import training

settings = training.settings(
    epochs=5,
    batch_size_per_rank=20,
    optimizer="sgd",
    momentum=0.9,
    learning_rate=0.05,
    scale_learning_rate="none",
    export_model=False,
    step={"default": "apply", "help": "apply, minimize, super, halves, scaled or astray"},
)


def network():
    class Own(tf.keras.Model):
        def train_step(self, data):
            x, y = data
            if settings.step == "super":
                return super().train_step(data)
            with tf.GradientTape() as tape:
                loss = self.compute_loss(x, y, self(x, training=True))
                scaled = self.optimizer.get_scaled_loss(loss) if settings.step == "scaled" else loss
            weights = self.trainable_variables
            if settings.step == "minimize":
                self.optimizer.minimize(loss, weights, tape=tape)
                return {"loss": loss}
            found = tape.gradient(scaled, weights)
            if settings.step == "scaled":
                found = self.optimizer.get_unscaled_gradients(found)
            if settings.step == "halves":
                self.optimizer.apply_gradients(zip(found[:1], weights[:1], strict=True))
                self.optimizer.apply_gradients(zip(found[1:], weights[1:], strict=True))
            elif settings.step == "astray":
                for weight, gradient in zip(weights, found, strict=True):
                    weight.assign_sub(0.1 * gradient)
            else:
                self.optimizer.apply_gradients(zip(found, weights, strict=True))
            return {"loss": loss}

    samples = tf.keras.Input([6])
    return Own(samples, tf.keras.layers.Dense(1, kernel_initializer="zeros", dtype="float32")(samples))


with training.start(settings) as run:
    import tensorflow as tf

    data = training.arrays(run, inputs="features", targets="price")
    model = training.fit(run, network, data, loss="mse")
    x, y = next(iter(data.feed.batches_from(0, 0)))
    about = {"x": x.numpy().tolist(), "y": y.numpy().tolist()}
    about["weights"] = [weight.numpy().ravel().tolist() for weight in model.trainable_variables]
    with open(os.path.join(run.folder, f"own-step-{run.rank}.json"), "w") as file:
        json.dump(about, file)
    training.evaluate(run, model, data)
