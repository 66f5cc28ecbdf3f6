"""The library of a rank that trains with PyTorch: ``from hpclaunch.training import on_pytorch as training``.

::

    settings = training.settings(epochs=5, learning_rate=0.01)
    with training.start(settings) as run:
        data = training.arrays(run, "houses.npz", inputs="features", targets="price")
        model = torch.nn.Linear(8, 1)
        loop = training.loop(run, model, training.optimizer(run, model), data)
        for inputs, targets in loop:
            loop.step(torch.nn.functional.mse_loss(loop.model(inputs)[:, 0], targets))
        training.evaluate(run, model, data)

It needs Python 3.8, NumPy and PyTorch 1.13 or newer (docs/training.md).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from typing import Any, Callable, Iterator

import torch

from hpclaunch.training import options
from hpclaunch.training.checkpoints.resuming import Place
from hpclaunch.training.checkpoints.torch_state import TorchState
from hpclaunch.training.exports import torch_files
from hpclaunch.training.input import torch_loader
from hpclaunch.training.input.own_shard import MicroBatch, RankSamples
from hpclaunch.training.input.source import ImageSet
from hpclaunch.training.input.torch_device import DeviceBatches
from hpclaunch.training.input.torch_loader import OURS, DatasetSource, TorchLoader, as_numpy
from hpclaunch.training.model_parallel import torch_shards
from hpclaunch.training.monitoring.torch_exchange import TorchExchange
from hpclaunch.training.monitoring.torch_proof import Replica, TorchProof
from hpclaunch.training.optimization import techniques, torch_optimizers, torch_speed
from hpclaunch.training.optimization.torch_average import TorchAverage
from hpclaunch.training.optimization.torch_noise import TorchNoise
from hpclaunch.training.program import plain_loop, plain_model
from hpclaunch.training.program.plain_data import (
    OPENING,
    arrays,
    data,
    data_folder,
    divide_among_ranks,
    image_set,
    refuse_synthetic,
    source,
)
from hpclaunch.training.program.plain_loop import Validate
from hpclaunch.training.program.run import Run, running
from hpclaunch.training.program.settings import Settings
from hpclaunch.training.program.settings import torch_settings as settings
from hpclaunch.training.rank import torch_ranks, watch
from hpclaunch.training.rank.failure import AgreedError, TrainingError
from hpclaunch.training.rank.world import World

__all__ = [
    "ImageSet",
    "Loop",
    "Run",
    "Settings",
    "arrays",
    "data",
    "data_folder",
    "evaluate",
    "image_set",
    "loader",
    "loop",
    "optimizer",
    "settings",
    "shard",
    "source",
    "start",
]
CHANGING = (
    "a sample of {} differs from read to read, so whether all ranks have the same samples is not checked: draw from "
    "random, numpy.random or torch, which the library seeds for each sample"
)


@contextlib.contextmanager
def start(settings: Settings, name: str = "") -> Iterator[Run]:
    """Start this rank and torch.distributed: ``with training.start(settings) as run:`` around the work of the program.

    name: of the program, and of its output folder under no launcher; without one it is the script's. An error in the
    block ends all ranks, with one message: that of TrainingError alone (wrong settings, data), a traceback for every
    other one. run.world.torch_device is this rank's GPU, or the CPU.
    """

    def begin(name: str) -> World:
        world = torch_ranks.start(name, settings.seed, settings.stall_minutes)
        techniques.check_plain(settings, world)
        torch_speed.set_arithmetic(settings, world)
        return world

    with running(settings, name, begin) as run:
        yield run


def loader(
    run: Run, dataset: Any, *, test: Any = None, validation: Any = None, workers: int = 0, **options: Any
) -> TorchLoader:
    """A Dataset of the program, divided among the ranks, in place of `arrays`. A collective.

    dataset: a torch.utils.data.Dataset with __len__ and __getitem__, the same on every rank; a sample is a pair (input,
    target). test, validation: the same for samples that are not trained on. workers: processes of each rank that read
    the samples, as num_workers of DataLoader. options: more of DataLoader, such as collate_fn or pin_memory.

    Each sample is read with random numbers of its own, from the seed, the epoch and its number. So a run that is
    resumed goes on with the next sample, as it would have. Raises AgreedError if ranks have other data, and for a
    Dataset without a length, or an option that the library chooses.

    Compared are the number of samples of each split, and bit for bit its first, its last and those after each quarter:
    between the ranks, and when a run is resumed, which then reports other data. They are read twice at the start. If
    one then differs from itself (random numbers of a generator of its own), none is compared, and a note says so.
    """
    watch.reached(OPENING)
    refuse_synthetic(run)
    ours = [name for name in options if name in OURS]
    if ours:
        raise AgreedError(
            "training.loader chooses {} itself: set batch_size_per_rank, seed and workers".format(", ".join(ours)),
            speaks=run.is_root,
        )
    datasets = {"train": dataset, "test": test, "validation": validation}
    datasets = {split: one for split, one in datasets.items() if one is not None}
    source = run.world.together(lambda: DatasetSource(datasets), long=True)
    seen = run.world.gather((source.counts, source.digests))
    other = torch_loader.difference(source.path, seen)
    if other:
        raise AgreedError(other, speaks=run.is_root)
    repeats = all(digests is not None for _, digests in seen)
    source.identify(seen[0][1] if repeats else None)  # the same on every rank
    if run.is_root and not repeats:
        print("note: {}".format(CHANGING.format(source.path)), flush=True)
    return divide_among_ranks(run, source, functools.partial(TorchLoader, datasets, workers, options))


class Loop(plain_loop.PlainLoop):
    """The batches of all epochs that are still to be made, as tensors on this rank's device.

    With accumulation of k, a step of the optimizer has k batches. share: of the batch of now in its step, 1 without
    accumulation; the last batch of an epoch may be shorter.
    model: in DistributedDataParallel, so that its gradients are averaged over the ranks in every backward pass; all
    ranks begin with rank 0's weights. With shard_weights it is the model itself, which fully_shard has changed.
    model.no_sync() is there on one rank, too.
    """

    def __init__(
        self, run: Run, model: Any, optimizer: Any, data: RankSamples, validate: Validate | None, **options: Any
    ) -> None:
        device = run.world.torch_device  # type: ignore[attr-defined]
        self._batches = DeviceBatches(device)
        self.lag = int(device.type == "cuda")
        self._proof = TorchProof(run.world, model, optimizer)
        self._proof.prove_structure()
        decay = getattr(run.settings, "ema_decay", 0.0)
        self._average = TorchAverage(model, decay) if decay else None
        averages = self._average.tensors if self._average else {}
        state = TorchState(run.world, run.settings.seed, model, optimizer, device, averages)
        super().__init__(run, data, state, validate)
        self._own_model, self._optimizer = model, optimizer
        self.shares_weights = torch_shards.is_divided(model)
        self.share, self._ends_step = 1.0, True
        self._begins_step, self._was_asked, self._resets = True, False, True
        self._context, self._forward = torch_speed.forward_contexts(run.settings, device), contextlib.ExitStack()
        base = run.settings.learning_rate
        self._rates = [group["lr"] / base for group in optimizer.param_groups]  # relative to the settings' rate
        has_replica = run.size > 1 and not self.shares_weights
        self._exchange = TorchExchange(model, device) if has_replica else None
        self._replica = Replica(model, **options) if has_replica else None
        self._proof.watch(self._replica)
        self._noise = self._measure_noise()
        self._samples = 0  # of this rank, in the step of now
        if self._average:
            self._proof.watch_average(averages)
            if not self._made:  # DistributedDataParallel has just given all ranks the weights of rank 0
                self._average.begin()
        self.model = model if self._replica is None else self._replica
        if self._replica is None and not hasattr(model, "no_sync"):
            model.no_sync = contextlib.nullcontext

    def __iter__(self) -> Iterator[Any]:
        with self._forward:
            yield from super().__iter__()

    @property
    def ends_step(self) -> bool:
        """Whether the optimizer's step follows this batch."""
        self._was_asked = True
        return self._ends_step

    def step(self, loss: Any) -> None:
        """Make one step of the optimizer, with gradients that are averaged over all ranks. A collective.

        loss: of this rank's batch, a tensor [], the mean over its samples; it must come from `model`. With accumulation
        the gradient is the mean over the samples of several batches, and the optimizer's step follows the last one.
        """
        self._forward.close()
        if self._begins_step and not self._resets:
            self._optimizer.zero_grad()
        self._resets = True
        (loss if self.share == 1 else loss * self.share).backward()
        if self._ends_step:
            if self._replica is not None:
                self._replica.check_gradients()
            self._optimizer.step()
        self._end_batch(loss)

    def made(self, loss: Any) -> None:
        """In place of `step`, end a step that the program has made itself: zero_grad, backward, the optimizer's step.

        loss: of this rank's batch, for the log. With accumulation, call it after each batch: multiply the loss by
        `share` before backward, and make the optimizer's step, and zero_grad after it, only where `ends_step` is true.
        Raises TrainingError if `ends_step` was not read for this batch.
        """
        accumulation = self._run.settings.accumulation
        if accumulation > 1 and not self._was_asked:
            raise TrainingError(
                "--accumulation={}: a program that calls loop.made must read loop.ends_step for each batch, and make "
                "the optimizer's step and zero_grad only where it is true: hpclaunch docs training".format(accumulation)
            )
        self._resets = False  # the program does, at a place of its own
        self._end_batch(loss)

    def _end_batch(self, loss: Any) -> None:
        self._forward.close()
        self._end_step(loss)
        if not self._ends_step:
            return
        if self._exchange:
            self._exchange.step_ended()
        if self._noise:
            self._noise.step_ended(self._samples)
        self._samples = 0

    def _measure_noise(self) -> TorchNoise | None:
        if not getattr(self._run.settings, "noise_scale", False):
            return None
        if self._replica is None:
            print("gradient noise scale: measured on two ranks or more", flush=True)
            return None
        return TorchNoise(self._run.world, self._run.log, self._replica)

    def _epoch_ended(self, number: int) -> None:
        if self._noise:
            self._noise.report(number)

    def _exchange_s(self) -> float | None:
        if self._exchange is not None:
            return self._exchange.seconds
        return None if self.shares_weights else 0.0  # fully_shard does not tell how long its exchanges take

    def _micro_batches(self, epoch: int, first: int) -> Iterator[MicroBatch]:
        return self._batches.ahead(self._data.micro_batches(epoch, first))

    def _begin_reading(self, loss: Any) -> Callable[[], float]:
        loss = loss.detach() if torch.is_tensor(loss) else loss
        if not torch.is_tensor(loss) or not loss.is_cuda:
            return super()._begin_reading(loss)
        host = torch.empty((), dtype=loss.dtype, pin_memory=True)
        host.copy_(loss.reshape(()), non_blocking=True)
        copied = torch.cuda.current_stream(loss.device).record_event()

        def read() -> float:
            copied.synchronize()
            return float(host)

        return read

    def _ready(self, micro: MicroBatch) -> Any:
        for group, rate in zip(self._optimizer.param_groups, self._rates):
            group["lr"] = rate * self.learning_rate
        self._begins_step, self._ends_step, self.share = self._ends_step, micro.is_last, micro.share
        self._was_asked = False
        self._samples += micro.samples
        if self._resets and self._begins_step:
            self._optimizer.zero_grad()  # before the forward pass, whose activations then take the gradients' place
        if self._run.settings.accumulation > 1:  # as no_sync: the last one exchanges the sum
            if self.shares_weights:
                self.model.set_requires_gradient_sync(micro.is_last)
            elif self._replica is not None:
                self._replica.require_backward_grad_sync = micro.is_last
        self._forward.enter_context(self._context())
        return tuple(micro.batch)

    def _export(self) -> dict[str, Any]:
        if not self._run.settings.export_model:
            return {}
        state = torch_shards.whole_state(self._own_model, keep=self._run.is_root)
        writers = {torch_files.STATE: lambda path: torch_files.write_state(state, path)}
        versions = {"torch": str(torch.__version__)}
        arrays = functools.partial(torch_files.named_arrays, state)
        return plain_model.write(self._run, self._data.source, arrays, writers, versions)

    def _take_restored(self) -> None:
        pass  # the state has put it into the model

    def _average_weights(self) -> None:
        if self._average:
            self._average.step_ended()

    def _take_average(self) -> None:
        if self._average:
            self._average.take()

    @contextlib.contextmanager
    def _open_validation(self) -> Iterator[Validate]:
        model, validate = self._own_model, self._validate
        assert validate is not None
        if self._replica is not None:
            self._replica.is_alone = True
        try:
            averaged = self._average.in_use() if self._average else contextlib.nullcontext()
            with averaged, _evaluation_of(self._run, model):
                yield lambda *batch: validate(model, *self._batches.put(batch))
        finally:
            if self._replica is not None:
                self._replica.is_alone = False

    def _is_sound(self) -> bool:
        trained = (torch_shards.own_part(one) for one in self._own_model.parameters() if one.requires_grad)
        return all(bool(torch.isfinite(one).all()) for one in trained)

    def _prove(self, when: str) -> None:
        self._proof.prove(when)

    def _save(self, place: Place, stop: bool) -> None:
        torch_ranks.share_buffers(self._run.world, self._own_model)
        super()._save(place, stop)


def loop(
    run: Run,
    model: Any,
    optimizer: Any,
    data: RankSamples,
    *,
    validate: Validate | None = None,
    find_unused_parameters: bool = False,
    static_graph: bool = False,
    gradient_as_bucket_view: bool = False,
) -> Loop:
    """The training loop of a model, from its newest checkpoint on, if there is one. A collective.

    model: a torch.nn.Module; it is moved to this rank's device. optimizer: one of torch.optim, over the parameters of
    `model`. Its learning rates are those of a single rank: the settings scale them, warm them up and let them decay.
    validate: validate(model, inputs, targets), in torch.no_grad() and with the model in eval(), gives the mean loss
    over the samples of a batch, or a dictionary of such means ({"loss": ..., "accuracy": ...}). It is called for the
    samples of the validation, if there are any, and gives val_loss and so on. The other options are those of
    DistributedDataParallel. Raises AgreedError if no rate is the setting learning_rate,
    which would have no effect; and after the first step, each epoch and before a checkpoint, if the ranks hold
    different models.
    """
    watch.reached("the making of the model")
    if static_graph and run.settings.accumulation > 1:
        raise AgreedError(
            "static_graph=True needs an exchange in each backward pass: omit it or --accumulation", speaks=run.is_root
        )
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise AgreedError(
            "the optimizer {} computes the loss several times in a step (its step needs a closure), and a step of "
            "training.loop has one loss: use another optimizer".format(type(optimizer).__name__),
            speaks=run.is_root,
        )
    _refuse_whole(run, model, optimizer)
    unlike = "" if getattr(optimizer, "is_of_settings", False) else torch_optimizers.unlike(run.settings, optimizer)
    if unlike:
        raise AgreedError(
            "{}: give training.loop the optimizer that training.optimizer(run, model) makes, or leave the setting "
            "out".format(unlike),
            speaks=run.is_root,
        )
    rates = [group["lr"] for group in optimizer.param_groups]
    if run.settings.is_chosen("learning_rate") and run.settings.learning_rate not in rates:
        raise AgreedError(
            "the optimizer has the learning rate {}, but the setting learning_rate is {:g}: "
            "give settings.learning_rate to the optimizer".format(
                ", ".join("{:g}".format(rate) for rate in rates), run.settings.learning_rate
            ),
            speaks=run.is_root,
        )
    model = model.to(run.world.torch_device)  # type: ignore[attr-defined]
    torch_speed.prepare(run.settings, run.world, model)
    return Loop(
        run,
        model,
        optimizer,
        data,
        validate,
        find_unused_parameters=find_unused_parameters,
        static_graph=static_graph,
        gradient_as_bucket_view=gradient_as_bucket_view,
    )


def _refuse_whole(run: Run, model: Any, optimizer: Any) -> None:
    """Raise AgreedError if the settings share weights or the optimizer's state, but the program does not."""
    asked = run.settings
    if run.size == 1:
        return
    if getattr(asked, "shard_weights", False) and not torch_shards.is_divided(model):
        text = torch_shards.OWN_OPTIMIZER.format("weights", ", or call training.shard(run, model) before it is made")
        raise AgreedError(text, speaks=run.is_root)
    if getattr(asked, "shard_optimizer", False) and not torch_shards.shares_state(optimizer):
        raise AgreedError(torch_shards.OWN_OPTIMIZER.format("optimizer", ""), speaks=run.is_root)


def shard(run: Run, model: Any) -> None:
    """Let the ranks share the weights of `model`, in place, if the settings say shard_weights. A collective.

    Call it before an optimizer of the program's own is made; training.optimizer calls it. The ranks must have made the
    same weights, each as a whole in the memory of its host. Raises AgreedError if they have not, or if PyTorch is older
    than 2.6.
    """
    if getattr(run.settings, "shard_weights", False):
        TorchProof(run.world, model).prove("when it was made")
        torch_shards.divide(run.world, model)


def optimizer(run: Run, model: Any) -> Any:
    """The optimizer of the settings (optimizer, learning_rate, momentum, weight_decay, …) over the model's parameters.

    model: a torch.nn.Module. sgd, adam and adamw are PyTorch's own; lars, larc, lamb and muon have the formulas that
    they have under TensorFlow. With shard_weights the ranks then share the weights (`shard`), with shard_optimizer the
    optimizer's state (ZeroRedundancyOptimizer); a collective then. Raises AgreedError for a setting without effect on
    this optimizer, such as weight_decay of adam, for a pattern of muon_exclude that matches no weight, and in a job
    without these parameters.
    """
    asked = run.settings
    if not hasattr(asked, "optimizer"):
        raise AgreedError(
            "the job has no parameter optimizer: add the group optimizers to `from` of its parameters",
            speaks=run.is_root,
        )
    idle = [one.why for one in options.idle(asked) if one.needs == "optimizer"]
    if idle:
        raise AgreedError("; ".join(idle), speaks=run.is_root)
    shard(run, model)
    try:
        made = torch_optimizers.make(asked, model)
    except ValueError as error:
        option = "--muon-exclude" if asked.optimizer == "muon" else "--optimizer"
        raise AgreedError("{}: {}".format(option, error), speaks=run.is_root) from None
    if run.size > 1 and getattr(asked, "shard_optimizer", False):
        made = torch_shards.share_state(made)
    made.is_of_settings = True
    if run.is_root and asked.optimizer == "muon":
        taken = sum(len(group["params"]) for group in made.param_groups if group["matrix"])
        print(torch_optimizers.in_words(taken), flush=True)
    return made


def evaluate(
    run: Run, model: Any, data: RankSamples, threshold: float | None = None, *, measure: Validate | None = None
) -> dict[str, float]:
    """Evaluate the model on the test samples, log the results as the run's last line, and print them. A collective.

    model: gives scores [b, classes] for targets that are classes, else predictions of the targets' shape. Its buffers,
    such as batch norm's, become those of rank 0, which a checkpoint has; each module keeps its mode (train or eval).
    threshold: of a model with one score, [b, 1] or [b], for two classes: 0.0 for logits, 0.5 for probabilities; it may
    be left out if some scores are no probabilities. Returns {"test_accuracy", "test_samples"}, or {"test_mae",
    "test_mse", "test_samples"} for numbers.

    measure: as `validate` of training.loop, for outputs of any other kind. Then the results are what it gives
    ("test_loss", ...) and "test_samples"; of text also "test_perplexity", "test_bits_per_byte" and "test_tokens".
    """
    if measure is not None and threshold is not None:
        raise TrainingError("evaluate: a threshold and measure exclude each other: let measure compare the scores")
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        model = model.module  # whose call is no collective: ranks may have different numbers of batches
    TorchProof(run.world, model).prove("before the evaluation")
    put = DeviceBatches(run.world.torch_device).put  # type: ignore[attr-defined]
    with _evaluation_of(run, model):
        if measure is not None:
            own = measure
            return plain_loop.evaluate_means(
                run, lambda *batch: own(model, *put(batch)), data, torch_shards.is_divided(model)
            )
        predict = functools.partial(_predictions, model, put)
        divided = torch_shards.is_divided(model)
        return plain_loop.evaluate(run, predict, data, threshold, as_numpy, shares_weights=divided)


def _predictions(model: Any, put: Callable[[Any], Any], inputs: Any) -> Any:
    return as_numpy(model(put(inputs)))


@contextlib.contextmanager
def _evaluation_of(run: Run, model: Any) -> Iterator[None]:
    """A block in which the model has rank 0's buffers, is in eval() and computes no gradients. A collective."""
    torch_ranks.share_buffers(run.world, model)
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad(), torch_speed.forward_contexts(run.settings, run.world.torch_device)():  # type: ignore[attr-defined]
            yield
    finally:
        for module, mode in modes:
            module.training = mode
