"""Lets two ranks of TensorFlow drift apart in the ways that --ways names (drift_ways)."""

from hpclaunch import training
from tests.frameworks.programs import drift_ways

settings = training.settings(
    epochs=1,
    batch_size_per_rank=10,
    learning_rate=0.05,
    scale_learning_rate="none",
    **drift_ways.SETTINGS,
)


def network(kind=None, units=4):
    samples = tf.keras.Input([6])
    hidden = tf.keras.layers.Dense(units, "relu")(samples)
    return (kind or tf.keras.Model)(samples, tf.keras.layers.Dense(1)(hidden))


def own_step(step):
    """A model whose train_step computes gradients, and gives them to `step`(model, gradients)."""

    class Own(tf.keras.Model):
        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = self.compute_loss(x, y, self(x, training=True))
            step(self, tape.gradient(loss, self.trainable_variables))
            return {"loss": loss}

    return lambda: network(Own)


def after_steps(change, last=False):
    """A callback that calls `change`(model) on rank 1 alone: after each step, or at the end of an epoch."""

    class Nudge(tf.keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if run.rank == 1 and not last:
                change(self.model)

        def on_epoch_end(self, epoch, logs=None):
            if run.rank == 1 and last:
                change(self.model)

    return Nudge()


def own_loop(step):
    """A loop of the program; `step`(loop, loss, gradients) makes its steps."""
    loop = training.loop(run, network, data)
    for x, y in loop:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((loop.model(x, training=True)[:, 0] - y) ** 2)
        step(loop, loss, tape.gradient(loss, loop.model.trainable_variables))


def fit(made=network, **more):
    more.setdefault("optimizer", tf.keras.optimizers.legacy.SGD(settings.learning_rate, momentum=0.9))
    training.fit(run, made, data, loss="mse", **more)


def step_without_ranks():
    def step(model, gradients):
        for weight, gradient in zip(model.trainable_variables, gradients, strict=True):
            weight.assign_sub(0.1 * gradient)

    fit(own_step(step))


def second_optimizer():
    other = tf.keras.optimizers.SGD(0.01)
    fit(
        own_step(lambda model, gradients: other.apply_gradients(zip(gradients, model.trainable_variables, strict=True)))
    )


def noise_in_the_step():
    def step(model, gradients):
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        first = model.trainable_variables[0]
        first.assign_add(tf.random.stateless_normal(first.shape, [1, run.rank]) * 1e-3)

    fit(own_step(step))


def clipped_on_one_rank():
    def step(model, gradients):
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        for weight in model.trainable_variables if run.rank else ():
            weight.assign(tf.clip_by_value(weight, -1e-2, 1e-2))

    fit(own_step(step))


def half_of_the_gradients():
    other = tf.keras.optimizers.Adam(0.01)

    def step(model, gradients):
        pairs = list(zip(gradients, model.trainable_variables, strict=True))
        model.optimizer.apply_gradients(pairs[:2])
        other.apply_gradients(pairs[2:])

    fit(own_step(step))


def nudged_weight():
    fit(callbacks=[after_steps(lambda model: model.trainable_variables[1].assign_add([0.0, 0.0, 1e-7, 0.0]))])


def exchanged_weights():
    def change(model):
        weight = model.trainable_variables[0]
        weight.assign(tf.reverse(weight, [0]))

    fit(callbacks=[after_steps(change)])


def sign_of_zero():
    def change(model):
        model.trainable_variables[3].assign([-0.0])

    class Zero(tf.keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.trainable_variables[3].assign([0.0])

    fit(callbacks=[Zero(), after_steps(change)])


def own_weights_at_the_epoch():
    """As a callback that returns to the epoch that its own rank's loss calls the best."""
    fit(callbacks=[after_steps(lambda model: model.set_weights([0.9 * one for one in model.get_weights()]), last=True)])


def rate_of_the_rank():
    def change(model):
        model.optimizer.learning_rate = 0.5

    class Rate(tf.keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if run.rank:
                change(self.model)

    fit(callbacks=[Rate()])


def optimizer_of_the_rank():
    class Ranked(tf.keras.optimizers.legacy.SGD):
        def _resource_apply_dense(self, grad, var, apply_state=None):
            return super()._resource_apply_dense(grad * (1.0 + run.rank), var, apply_state)

    fit(optimizer=Ranked(settings.learning_rate))


def moments_of_the_rank():
    def change(model):
        model.optimizer.get_slot(model.trainable_variables[0], "momentum").assign(tf.ones([6, 4]))

    fit(callbacks=[after_steps(change, last=True)])


def weight_in_a_layer():
    class Counting(tf.keras.layers.Layer):
        def build(self, shape):
            self.mean = self.add_weight(name="mean", shape=(6,), trainable=True)

        def call(self, inputs):
            self.mean.assign(0.9 * self.mean + 0.1 * tf.reduce_mean(inputs, 0))
            return inputs + self.mean

    def made():
        samples = tf.keras.Input([6])
        return tf.keras.Model(samples, tf.keras.layers.Dense(1)(Counting()(samples)))

    fit(made)


def other_width():
    fit(lambda: network(units=4 + run.rank))


def loop_beside_step():
    def step(loop, loss, gradients):
        loop.step(loss, gradients)
        loop.model.trainable_variables[1].assign_sub(0.1 * gradients[1])

    own_loop(step)


def loop_without_average():
    def step(loop, loss, gradients):
        loop.model.optimizer.apply_gradients(zip(gradients, loop.model.trainable_variables, strict=True))
        loop.step(loss, [tf.zeros_like(one) for one in gradients])

    own_loop(step)


def loop_of_one_rank():
    def step(loop, loss, gradients):
        loop.step(loss, gradients)
        if run.rank == 1 and float(loss) > 0:
            loop.model.trainable_variables[3].assign([0.25])

    own_loop(step)


with training.start(settings) as run:
    import tensorflow as tf

    data = training.arrays(run, inputs="features", targets="price")
    drift_ways.run_all(run, settings, globals())
