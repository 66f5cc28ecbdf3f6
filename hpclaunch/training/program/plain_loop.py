"""A training loop of PyTorch or JAX: its epochs, learning rates, checkpoints and log; the program makes the steps."""

from __future__ import annotations

import collections
import contextlib
import math
import time
from abc import ABC, abstractmethod
from typing import Any, Callable, Iterator

import numpy as np

from hpclaunch.training import language, progress
from hpclaunch.training.checkpoints import plain_state
from hpclaunch.training.checkpoints.plain_state import PlainState
from hpclaunch.training.checkpoints.resuming import Place
from hpclaunch.training.checkpoints.save_points import SavePoints
from hpclaunch.training.input.own_shard import MicroBatch, RankSamples
from hpclaunch.training.metrics import VALIDATION_PREFIX
from hpclaunch.training.monitoring.best_epoch import BestEpoch, is_validated
from hpclaunch.training.optimization import learning_rate, techniques
from hpclaunch.training.program import means
from hpclaunch.training.program.best_weights import take_best
from hpclaunch.training.program.run import Run
from hpclaunch.training.rank import watch
from hpclaunch.training.rank.failure import AgreedError, TrainingError

Validate = Callable[..., Any]
CHECK_STEPS = 50
"""Steps between two checks for a loss or a weight that is not a finite number, as under TensorFlow."""
UNSOUND = "a weight is not a finite number"
DIVERGED = "{} at {}: training has diverged. Lower the learning rate, or lengthen the warm-up."


class PlainLoop(ABC):
    """The batches of all epochs that are still to be made: iterate over it, and end each step with a call of it.

    learning_rate: of the step that is made now, for all ranks together.
    """

    lag = 0
    """How many steps the losses are read behind, so that a device that computes by itself need not wait for the host.
    The first and the last step of an epoch are read at once, so that its times are those of the device."""
    shares_weights = False
    """Whether each rank has a part of the weights, so that every call of the model is a collective."""

    def __init__(self, run: Run, data: RankSamples, state: PlainState, validate: Validate | None = None) -> None:
        _check_validation(run, data, validate)
        self._validate = validate if data.validation else None
        self.learning_rate = 0.0
        self._run, self._data, self._state = run, data, state
        self._schedule = learning_rate.schedule(run.settings, run.size, data.steps)
        progress.report_warm_up(run.world, self._schedule)
        self._has_begun = False
        asked, steps = run.settings, data.steps
        place = plain_state.restore(run.world, state, asked, steps, run.log, data.source.fingerprint, data.sampler)
        self._place = place
        self._made = place.made  # steps of all attempts, each of one or several batches
        self._best = None
        if techniques.watches_best(run.settings):
            default, before = VALIDATION_PREFIX + "loss" if self._validate else "loss", place.epochs_facts.get("best")
            self._best = BestEpoch(run.world, run.log, run.settings, default, before)
        self._points = SavePoints(run.world, state, asked, steps, self._place, run.log)
        self._finite = 0  # losses of this epoch that were found finite
        self._unread: collections.deque[Callable[[], float]] = collections.deque()

    def __iter__(self) -> Iterator[Any]:
        """Yield this rank's batches, (inputs [b, ...], targets [b, ...]), from the place where training continues."""
        began, epochs = time.perf_counter(), self._run.settings.epochs
        watch.reached("the first step")
        self._state.begin_random()
        first, number = self._place.step, self._place.epoch
        while number < epochs and not (self._best and self._best.is_over(number)):
            yield from self._epoch(number, first)
            first, number = 0, number + 1
        self._run.made = {"epochs": number, "seconds": round(time.perf_counter() - began, 3)}
        if self._best and self._best.best:
            self._run.made.update(self._best.results)
            take_best(self._run, self._state, self._best.best, number, self._place.lineage)
            self._take_restored()
            self._prove("before the export")
        self._take_average()
        self._run.made.update(self._export())

    def _epoch(self, number: int, first: int) -> Iterator[Any]:
        world, data, state = self._run.world, self._data, self._state
        epoch = progress.Epoch(number, data.steps, data.samples, first, self._exchange_s)
        if number != self._place.epoch or not self._place.parts:  # else an earlier attempt has begun it
            state.losses, state.counts = [], []
        begun = self._finite = len(state.losses)
        for made, micro in enumerate(epoch.waited_for(self._micro_batches(number, first)), begun + 1):
            step = micro.step
            self.learning_rate = self._schedule.at(number + step / data.steps)
            state.counts.append(micro.samples)
            yield self._ready(micro)
            if len(state.losses) + len(self._unread) != made:
                raise TrainingError("the loop must end each of its steps once: see its method step")
            if not micro.is_last:
                continue
            self._made += 1
            self._average_weights()
            is_edge = step in (first, data.steps - 1)
            self._read_losses(0 if is_edge else self.lag)
            epoch.step_ended()
            watch.reached("training")
            if not self._has_begun:
                self._has_begun = True
                self._prove("after the first step")
                self._try_validation()
            if step + 1 == data.steps:
                break
            if (step + 1) % CHECK_STEPS == 0:
                self._stop_if_diverged("step {}".format(step + 1))
            due, stop = self._points.after_step(self._made)
            if due:
                self._stop_if_diverged("step {}".format(step + 1))
                self._prove("before the checkpoint")
                self._save(Place(number, step + 1, self._made), stop)
        self._stop_if_diverged("the end of epoch {}".format(number + 1))
        self._prove("at the end of epoch {}".format(number + 1))
        metrics = {"loss": progress.mean_loss(world, state.losses, state.counts)}
        validation_s = self._add_validation(number, metrics)
        epoch.report(world, self._run.log, metrics, validation_s)
        self._epoch_ended(number)
        done = bool(self._best and self._best.judge(number + 1, metrics)) or number + 1 == self._run.settings.epochs
        stop = self._points.look(self._made)[1] and not done
        self._save(Place(number + 1, 0, self._made), stop)

    def _add_validation(self, number: int, metrics: dict[str, float]) -> float | None:
        """Add what the validation after an epoch (from 0) gives; its seconds, None without one. A collective."""
        asked = self._run.settings
        if not self._validate or not is_validated(number + 1, asked.validation_every, asked.epochs):
            return None
        watch.reached("the validation after epoch {}".format(number + 1))
        began = time.perf_counter()
        found = self._measure()
        metrics.update((VALIDATION_PREFIX + name, value) for name, value in found.items())
        watch.reached("training")
        return time.perf_counter() - began

    def _try_validation(self) -> None:
        """Measure one batch after the first step, which shows whether it works, and whether there is the best's metric.

        A program that is wrong ends so before an epoch of hours. A collective.
        """
        names = ["loss"]
        if self._validate:
            kept = self._state.random()
            found = self._measure(most=1)
            self._state.put_random(kept)
            names += [VALIDATION_PREFIX + name for name in found]
        if self._best:
            self._best.check(names, bool(self._validate))

    def _measure(self, most: int | None = None) -> dict[str, float]:
        """The means over the samples of all ranks of what the program's `validate` gives. A collective.

        most: batches of each rank; None: all.
        """
        split = self._data.validation
        self._data.prepare(split)  # within `together` it would be a collective in another one
        with self._open_validation() as validate:
            return means.measured(self._run.world, self._data, split, validate, self.shares_weights, most)

    def _save(self, place: Place, stop: bool) -> None:
        """Save at `place`, and end all ranks with `stop`. A collective."""
        if self._best and not place.step:
            self._best.note_checkpoint(place.made, place.epoch)
        facts = {"best": self._best.facts if self._best else None, "rate_factor": 1.0, "stopped": False}
        self._points.save(place, stop, {**facts, "callbacks": []})

    def _stop_if_diverged(self, when: str) -> None:
        """Raise AgreedError on all ranks if a loss or a weight of any rank is not a finite number. A collective.

        It comes before every checkpoint, so that none without a use becomes the newest.
        """
        self._read_losses(0)
        new, self._finite = self._state.losses[self._finite :], len(self._state.losses)
        wrong = [loss for loss in new if not math.isfinite(loss)]
        found = ""
        if wrong:
            found = "the loss is {}".format(wrong[0])
        elif not self._is_sound():
            found = UNSOUND
        told = [one for one in self._run.world.gather(found) if one]
        if told:
            raise AgreedError(DIVERGED.format(told[0], when), speaks=self._run.is_root)

    def _epoch_ended(self, number: int) -> None:  # noqa: B027 (a loop of JAX has nothing to add)
        """Called after the line of an epoch (from 0); a subclass may add lines of its own."""

    def _exchange_s(self) -> float | None:
        """The seconds so far in which a step waited for the gradients of other ranks; None: a subclass cannot know."""
        return 0.0 if self._run.size == 1 else None  # what JAX compiles computes and exchanges in one function

    def _end_step(self, loss: Any) -> None:
        self._unread.append(self._begin_reading(loss))

    def _read_losses(self, left: int) -> None:
        """Take the losses of the steps so far, but for those of the last `left` batches."""
        while len(self._unread) > left:
            self._state.losses.append(self._unread.popleft()())

    def _begin_reading(self, loss: Any) -> Callable[[], float]:
        """What gives the loss as a number. It is called when the step was given to the device, which may compute it."""
        value = float(loss)
        return lambda: value

    @abstractmethod
    def _take_restored(self) -> None:
        """Go on with what the state has restored, at the end of the training."""

    @abstractmethod
    def _average_weights(self) -> None:
        """Take the weights after a step into their average, if the settings ask for one."""

    @abstractmethod
    def _take_average(self) -> None:
        """Let the average, if there is one, take the place of the weights, at the end of the training."""

    @abstractmethod
    def _export(self) -> dict[str, Any]:
        """Write the trained model (plain_model.write). A collective."""

    @abstractmethod
    def _open_validation(self) -> contextlib.AbstractContextManager[Validate]:
        """A block in which the model is evaluated: gives the program's function for a batch as the data have it."""

    @abstractmethod
    def _micro_batches(self, epoch: int, first: int) -> Iterator[MicroBatch]:
        """What the program gets, one after another, from the step `first` of an epoch on."""

    @abstractmethod
    def _ready(self, micro: MicroBatch) -> Any:
        """The batch as the framework has it; called before the program gets it."""

    @abstractmethod
    def _is_sound(self) -> bool:
        """Whether all numbers that are trained are finite on this rank."""

    @abstractmethod
    def _prove(self, when: str) -> None:
        """Raise AgreedError on all ranks unless they hold one model. A collective."""


def _check_validation(run: Run, data: RankSamples, validate: Validate | None) -> None:
    """Raise AgreedError if settings ask for a validation, but the program cannot validate."""
    names = ("validation_part", "validation_every", "validate_on")
    chosen = [name for name in names if run.settings.is_chosen(name) and getattr(run.settings, name)]
    if data.validation and chosen and validate is None:
        raise AgreedError(
            "--{} has no effect: this program does not say how it is validated. Give training.loop the function "
            "validate: hpclaunch docs training".format(chosen[0].replace("_", "-")),
            speaks=run.is_root,
        )


def evaluate(
    run: Run,
    predict: Callable[[Any], Any],
    data: RankSamples,
    threshold: float | None = None,
    as_numpy: Callable[[Any], np.ndarray] = np.asarray,
    shares_weights: bool = False,
) -> dict[str, float]:
    """Evaluate on the test samples of all ranks, log the results as the run's last line, and print them. A collective.

    predict: takes inputs [b, ...] as the data are, a NumPy array; gives an array of scores [b, classes] for targets
    that are classes, else predictions of the targets' shape. as_numpy: makes an array of the targets of a batch.
    Sums are added over the ranks and divided once. Returns {"test_accuracy", "test_samples"}, or {"test_mae",
    "test_mse", "test_samples"} for numbers.

    One score, [b, 1] or [b], tells class 1 from class 0: it is 1 above `threshold`, which is 0 for logits and 0.5 for
    probabilities. Without it, scores outside 0 to 1 are logits; if there are none, AgreedError asks for it.
    """
    watch.reached("the evaluation")
    classes, sums, seen = data.source.has_classes, np.zeros(2), 0
    binary = False
    batches = ((batch, len(batch[1])) for batch in data.test_batches())
    for (inputs, batch), samples in means.as_many(run.world, batches) if shares_weights else batches:
        targets = as_numpy(batch)
        found = np.asarray(predict(inputs))
        if not samples:
            continue
        if classes and _is_one_score(found, targets):
            binary = True
            sums += _right_of_two(found.reshape(targets.shape), targets, threshold or 0.0)
        else:
            sums += _right(found, targets) if classes else _errors(found, targets)
        seen += len(targets)
        watch.this_rank.mark()
    totals = run.world.gather((sums.tolist(), seen, binary))
    samples = sum(count for _, count, _ in totals)
    first, second = (sum(own[place] for own, _, _ in totals) / max(1, samples) for place in (0, 1))
    if any(is_binary for _, _, is_binary in totals) and threshold is None and not second:
        raise AgreedError(
            "each sample has one score, all of them from 0 to 1: give evaluate threshold=0.5 if they are "
            "probabilities, or threshold=0.0 if they are logits",
            speaks=run.is_root,
        )
    results = {"test_accuracy": first} if classes else {"test_mae": first, "test_mse": second}
    results["test_samples"] = samples
    run.end(**results)
    if run.is_root:
        words = "accuracy" if classes else "mean absolute error"
        print("test {} {:.4f} on {} samples".format(words, first, samples), flush=True)
    return results


def evaluate_means(
    run: Run, measure: Callable[..., Any], data: RankSamples, shares_weights: bool = False
) -> dict[str, float]:
    """As `evaluate`, by what the program measures: means.measured. A collective.

    Returns "test_" and the name of each metric, and "test_samples"; of text with a loss, also "test_perplexity",
    "test_bits_per_byte" and "test_tokens". Raises AgreedError if there are no test samples.
    """
    watch.reached("the evaluation")
    source = data.source
    samples = source.counts.get("test", 0)
    if not samples:
        raise AgreedError("{} has no test samples: leave training.evaluate out".format(source.path), speaks=run.is_root)
    data.prepare("test")
    found = means.measured(run.world, data, "test", measure, shares_weights)
    results: dict[str, float] = {"test_" + name: value for name, value in found.items()}
    is_text = bool(source.token_bytes) and "loss" in found
    if is_text:
        results["test_perplexity"] = language.perplexity(found["loss"])
        results["test_bits_per_byte"] = language.bits_per_byte(found["loss"], source.token_bytes["test"])
        results["test_tokens"] = samples * math.prod(source.label_shape)
    results["test_samples"] = samples
    run.end(**results)
    if run.is_root:
        named = ", ".join("{} {:.4f}".format(name, value) for name, value in found.items())
        words = "test {} on {} samples".format(named, samples)
        print(language.in_words("test", results) if is_text else words, flush=True)
    return results


def _is_one_score(scores: np.ndarray, targets: np.ndarray) -> bool:
    return scores.shape == targets.shape or (scores.shape[-1:] == (1,) and scores.shape[:-1] == targets.shape)


def _right_of_two(scores: np.ndarray, targets: np.ndarray, threshold: float) -> np.ndarray:
    """The number of samples whose one score is right, and of those whose score cannot be a probability."""
    if targets.size and targets.max() > 1:
        raise TrainingError(
            "the model gives one score for a sample, which tells class 0 from class 1, but there is a class {}: let it "
            "give a score for each class".format(targets.max())
        )
    right = (scores > threshold) == (targets == 1)
    return np.array([float(right.sum()), float(((scores < 0) | (scores > 1)).sum())])


def _right(scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
    if scores.shape[:-1] != targets.shape:
        raise TrainingError("scores {} do not fit targets {}".format(list(scores.shape), list(targets.shape)))
    return np.array([float((scores.argmax(-1) == targets).sum()), 0.0])


def _errors(found: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The sums over the samples of their mean absolute and mean squared error.

    found: of the targets' shape, or with a last axis of length 1 more.
    """
    if targets.shape not in (found.shape, found.shape[:-1]) or found.size != targets.size:
        raise TrainingError("predictions {} do not fit targets {}".format(list(found.shape), list(targets.shape)))
    wrong = (found.reshape(targets.shape).astype(np.float64) - targets).reshape(len(targets), -1)
    return np.array([np.abs(wrong).mean(1).sum(), (wrong**2).mean(1).sum()])
