"""Runs a script of strangers/ as it is; RUN/losses-RANK.json gets the loss of every step, the mean of all ranks.

step_losses.py SCRIPT --alone=2 ...: in one process, on the batches of two ranks put together.
step_losses.py SCRIPT --preempted-after=7 ...: rank 0 gets SIGTERM after that step.
"""

import argparse
import contextlib
import functools
import json
import os
import runpy
import signal
import sys

from hpclaunch import training

parser = argparse.ArgumentParser()
parser.add_argument("script")
parser.add_argument("--alone", type=int, default=0)
parser.add_argument("--preempted-after", type=int, default=0)
asked, rest = parser.parse_known_args()


class Losses:
    def __init__(self, run):
        self.run, self.found = run, []

    def add(self, loss):
        self.found.append(sum(self.run.world.gather(float(loss))) / self.run.size)
        with open(os.path.join(self.run.folder, f"losses-{self.run.rank}.json"), "w") as file:
            json.dump(self.found, file)
        if len(self.found) == asked.preempted_after and self.run.is_root:
            os.kill(os.getpid(), signal.SIGTERM)


def fit(run, network, data, **wanted):
    import tensorflow as tf

    from hpclaunch.training.program.fit import fit as trained

    class StepLosses(tf.keras.callbacks.Callback):
        losses = Losses(run)

        def on_train_batch_end(self, batch, logs=None):
            self.losses.add(logs["loss"])
            self.model.reset_metrics()  # else Keras's loss is the mean over the epoch

    return trained(run, network, data, callbacks=[StepLosses()], **wanted)


def loop(run, network, data, **wanted):
    from hpclaunch.training.program.loop import loop as begun

    found, losses = begun(run, network, data, **wanted), Losses(run)
    step = found.step

    def noted(loss, gradients):
        step(loss, gradients)
        losses.add(loss)

    found.step = noted
    return found


def together(ranks, world, source, order, settings, augment, sharded=True):
    """In place of feeding.training_feed: the batches of `ranks` ranks, put together."""
    import tensorflow as tf

    from hpclaunch.training.input import feeding, shards

    size = settings.batch_size_per_rank
    held = [feeding._shard(world, source, order, settings, part, ranks) for part in range(ranks)]
    makers = [feeding._maker(world, source, shard, settings, size) for shard in held]
    steps = shards.steps_per_epoch(len(held[0].indices), size)

    @tf.autograph.experimental.do_not_convert  # that of TensorFlow 2.12 knows no strict
    def joined(*batches):
        return tuple(tf.concat(part, 0) for part in zip(*batches, strict=True))

    def batches_from(epoch, step):
        several = tuple(make(rank, epoch, step, augment=augment, as_pixels=True) for rank, make in enumerate(makers))
        return tf.data.Dataset.zip(several).map(joined)

    return feeding.Feed(shards.joined(held), steps, len(order), batches_from)


training.fit, training.loop = fit, loop
if asked.alone:
    started = training.start

    @contextlib.contextmanager
    def start(settings, name=""):
        with started(settings, name) as run:
            from hpclaunch.training.input import feeding

            feeding.training_feed = functools.partial(together, asked.alone)
            yield run

    training.start = start

sys.argv = [asked.script, *rest]
runpy.run_path(asked.script, run_name="__main__")
