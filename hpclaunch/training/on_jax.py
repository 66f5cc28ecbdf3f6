"""The library of a rank that trains with JAX: ``from hpclaunch.training import on_jax as training``.

::

    settings = training.settings(epochs=5, learning_rate=0.01)
    with training.start(settings) as run:
        data = training.arrays(run, "houses.npz", inputs="features", targets="price")
        loop = training.loop(run, (np.zeros(8), np.zeros(())), data)
        for inputs, targets in loop:
            loop.step(*update(loop.state, inputs, targets, loop.learning_rate))
        training.evaluate(run, lambda inputs: predict(loop.own_state(), inputs), data)

`update` is a function under jax.jit, which returns the next state and the loss. It needs Python 3.8, NumPy and JAX
0.4.30 or newer (docs/training.md).
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

import jax
import numpy as np

from hpclaunch.training.checkpoints.jax_state import JaxState
from hpclaunch.training.exports import jax_files
from hpclaunch.training.input.own_shard import MicroBatch, OwnShard
from hpclaunch.training.input.source import ImageSet
from hpclaunch.training.monitoring.jax_proof import JaxProof
from hpclaunch.training.optimization import techniques
from hpclaunch.training.optimization.jax_average import JaxAverage
from hpclaunch.training.program import plain_loop, plain_model
from hpclaunch.training.program.plain_data import arrays, image_set
from hpclaunch.training.program.plain_loop import Validate
from hpclaunch.training.program.run import Run, running
from hpclaunch.training.program.settings import Settings
from hpclaunch.training.program.settings import plain_settings as settings
from hpclaunch.training.rank import jax_ranks, watch
from hpclaunch.training.rank.world import World

__all__ = [
    "ImageSet",
    "Loop",
    "Run",
    "Settings",
    "arrays",
    "evaluate",
    "image_set",
    "loop",
    "settings",
    "start",
    "value_and_grad",
]


@contextlib.contextmanager
def start(settings: Settings, name: str = "") -> Iterator[Run]:
    """Start this rank and jax.distributed: ``with training.start(settings) as run:`` around the work of the program.

    name: of the program, and of its output folder under no launcher; without one it is the script's. An error in the
    block ends all ranks, with one message: that of TrainingError alone (wrong settings, data), a traceback for every
    other one.
    """

    def begin(name: str) -> World:
        world = jax_ranks.start(name, settings.seed, settings.stall_minutes)
        techniques.check_plain(settings, world)
        return world

    with running(settings, name, begin) as run:
        yield run


class Loop(plain_loop.PlainLoop):
    """The batches of all epochs that are still to be made, as arrays of all ranks, [b * ranks, ...].

    Every rank holds its own part of a batch, so the gradient of a mean over the batch is the mean over all ranks.
    state: the tree of arrays that is trained, of which every rank holds a copy.
    """

    def __init__(
        self, run: Run, state: Any, data: OwnShard, validate: Validate | None, model: Callable[[Any], Any]
    ) -> None:
        self._model_of = model
        self._was_finite = jax_ranks.are_finite(state)
        self.state = state
        decay = getattr(run.settings, "ema_decay", 0.0)
        self._average = JaxAverage(run, decay, state, model) if decay else None
        self._saved = JaxState(run.world, run.settings.seed, self._tree)
        self._shard = data
        super().__init__(run, data, self._saved, validate)
        tree = self._tree() if self._saved.restored is None else self._saved.restored
        self._proof = JaxProof(run.world)
        self._proof.prove_given(tree)
        self._put_tree(tree)
        self._saved.restored = None
        self._rate_type = jax_ranks.type_of_rate(self.state)

    def _tree(self) -> Any:
        """What a checkpoint has: the state, and the average of its weights if there is one."""
        return {"average": self._average.arrays, "state": self.state} if self._average else self.state

    def _put_tree(self, tree: Any) -> None:
        tree = jax_ranks.on_all(self._run.world, tree)
        if self._average:
            self._average.arrays, tree = tree["average"], tree["state"]
        self.state = tree

    def _average_weights(self) -> None:
        if self._average:
            self._average.step_ended(self.state)

    def _take_average(self) -> None:
        if self._average:
            self.state = self._average.in_place(self.state)

    lag = 1  # JAX computes while Python goes on

    def step(self, state: Any, loss: Any) -> None:
        """End a step: the next state, and the loss of the batch of all ranks, for the log."""
        self.state = state
        self._end_step(loss)

    def _begin_reading(self, loss: Any) -> Callable[[], float]:
        if hasattr(loss, "copy_to_host_async"):
            loss.copy_to_host_async()
        return lambda: float(loss)

    def own_state(self) -> Any:
        """This rank's copy of the state, as NumPy arrays: for the evaluation, which every rank makes alone."""
        return jax_ranks.own_copy(self.state)

    def _micro_batches(self, epoch: int, first: int) -> Iterator[MicroBatch]:
        for step, batch in self._shard.batches(epoch, first):  # value_and_grad divides it
            yield MicroBatch(step, batch, len(batch[1]), 1.0, True)

    def _ready(self, micro: MicroBatch) -> Any:
        self.learning_rate = self._rate_type(self.learning_rate)  # a Python float is compiled as another type
        return jax_ranks.joined(self._run.world, micro.batch)

    @contextlib.contextmanager
    def _open_validation(self) -> Iterator[Validate]:
        state = self._average.in_place(self.state) if self._average else self.state
        own, validate = jax_ranks.own_copy(state), self._validate
        assert validate is not None
        yield lambda *batch: validate(own, *batch)

    def _export(self) -> dict[str, Any]:
        def arrays() -> Iterator[tuple[str, np.ndarray]]:
            return jax_files.named_arrays(self._model_of(self.own_state()))

        return plain_model.write(self._run, self._data.source, arrays, {}, {"jax": jax.__version__})

    def _take_restored(self) -> None:
        if self._saved.restored is not None:
            self._put_tree(self._saved.restored)

    def _is_sound(self) -> bool:
        now = jax_ranks.are_finite(self.state)
        return all(finite for finite, was in zip(now, self._was_finite) if was)  # a lowest loss may begin at infinity

    def _prove(self, when: str) -> None:
        self._proof.prove(self._tree(), when)


def loop(
    run: Run,
    state: Any,
    data: OwnShard,
    *,
    validate: Validate | None = None,
    model: Callable[[Any], Any] = lambda state: state,
) -> Loop:
    """The training loop of a state, from its newest checkpoint on, if there is one. A collective.

    state: a tree of arrays, the same on every rank: weights, the optimizer's moments, a step number. The ranks prove
    it here, after the first step, after each epoch and before a checkpoint; typed keys may differ. validate:
    validate(own_state, inputs, targets) gives the mean loss over the samples of a batch, NumPy arrays of this rank, or
    a dictionary of such means ({"loss": ..., "accuracy": ...}). It is called for the samples of the validation, if
    there are any, and gives val_loss and so on. model: what of the state is the trained model, for model/ in the run
    directory, and for the average of the weights (ema_decay); without it, all.
    """
    watch.reached("the making of the model")
    return Loop(run, state, data, validate, model)


def value_and_grad(run: Run, loss: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    """As jax.value_and_grad(loss), a batch of the settings at a time, to be called inside jax.jit.

    loss: loss(weights, inputs, targets) is the mean over its samples, a scalar. The function that is returned takes the
    same, with the inputs and targets of a step as the loop gives them, and returns the mean over all their samples, and
    its gradient: the sum over the batches of a rank, which the ranks then exchange once. So the activations of
    batch_size_per_rank samples are in memory, not those of accumulation times as many.
    """
    return jax_ranks.value_and_grad(run.world, loss, run.settings.batch_size_per_rank)


def evaluate(
    run: Run, predict: Callable[[Any], Any], data: OwnShard, threshold: float | None = None
) -> dict[str, float]:
    """Evaluate on the test samples, log the results as the run's last line, and print them. A collective.

    predict: takes this rank's inputs [b, ...], a NumPy array; gives scores [b, classes] for targets that are classes,
    else predictions of the targets' shape. threshold: of one score, [b, 1] or [b], for two classes: 0.0 for logits, 0.5
    for probabilities; it may be left out if some scores are no probabilities. Returns {"test_accuracy",
    "test_samples"}, or {"test_mae", "test_mse", "test_samples"} for numbers.
    """
    return plain_loop.evaluate(run, predict, data, threshold)
