"""A model of which each rank has a stage, and its training step, which sends micro-batches through the stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import tensorflow as tf

from hpclaunch.training.model_parallel import groups
from hpclaunch.training.model_parallel.randomness import generators
from hpclaunch.training.model_parallel.schedule import FORWARD, one_forward_one_backward
from hpclaunch.training.model_parallel.transfer import Channel
from hpclaunch.training.optimization import metric_variables, precision, reduction
from hpclaunch.training.rank.failure import AgreedError, TrainingError
from hpclaunch.training.rank.horovod import hvd


@dataclass(frozen=True)
class Counts:
    """What a stage has: variables that are trained, others, and random generators."""

    trained: int
    others: int
    generators: int


class Pipelined(tf.keras.Model):
    """The stage of this rank. Calling it, a training step and a test step are collectives of the stages.

    stage: a functional model, which takes what the stage before it gives. entering: what passes between stages,
    [b, ...]. whole_again: makes the model of all stages. micro_batches: the parts of a batch, which follow one another
    through the stages; the result of a step is that of the whole batch. Calling the model gives the outputs of the last
    stage on every rank, and so do its metrics. To make it is a collective. Raises TrainingError for regularizers,
    AgreedError for a stage without weights to train.
    """

    def __init__(self, stage: Any, entering: tf.TensorSpec, whole_again: Callable[[], Any], **named: Any) -> None:
        super().__init__(**named)
        own = groups.own()
        if stage.losses:
            raise TrainingError(
                "a model in stages cannot have regularizers, whose losses are in other stages than the loss: use "
                "--weight-decay"
            )
        self.stage, self.whole_again = stage, whole_again
        self._autocast = False  # as a functional model: its layers cast what they take
        self.micro_batches = 1
        self._entering, self._group = entering, own.pipeline
        self._before = Channel(own.preceding, "pipeline.{}".format(own.pipeline.index - 1))
        self._after = Channel(own.following, "pipeline.{}".format(own.pipeline.index))
        self._all = Channel(own.pipeline, "pipeline.all")
        self._outputs: Any = None
        self.counts: list[Counts] = []
        self._learn_of_stages()
        self.built = True

    def _learn_of_stages(self) -> None:
        """Exchange what each stage has, and what the last one gives."""
        model = self.stage
        own = Counts(len(model.trainable_variables), len(model.non_trainable_variables), len(generators(model)))
        outputs = (tuple(model.outputs[0].shape[1:]), model.outputs[0].dtype.name)
        found = self.of_all_stages((own, outputs))
        self.counts = [counts for counts, _ in found]
        frozen = [number for number, one in enumerate(self.counts) if not one.trained]
        if frozen:
            raise AgreedError(
                "stage {} of {} has no weights that are trained: use fewer stages".format(frozen[0], len(found)),
                speaks=hvd.rank() == 0,
            )
        shape, kind = found[-1][1]
        self._outputs = tf.TensorSpec((None, *shape), kind)

    @property
    def is_first(self) -> bool:
        """Whether this rank's stage takes the samples."""
        return self._group.index == 0

    @property
    def is_last(self) -> bool:
        """Whether this rank's stage gives the outputs."""
        return self._group.index == self._group.size - 1

    @property
    def earlier(self) -> Counts:
        """What the stages before this one have."""
        before = self.counts[: self._group.index]
        return Counts(*(sum(getattr(one, name) for one in before) for name in vars(self.counts[0])))

    @property
    def trained(self) -> int:
        """The number of trained variables of all stages."""
        return sum(one.trained for one in self.counts)

    @property
    def outputs_spec(self) -> tf.TensorSpec:
        """What the last stage gives, [b, ...]."""
        return self._outputs

    @property
    def index(self) -> int:
        """The number of this rank's stage, from 0."""
        return self._group.index

    def of_all_stages(self, value: Any) -> list[Any]:
        """A picklable value of every stage, by stage. A collective of the stages."""
        return list(hvd.allgather_object(value, name="pipeline.of_all", process_set=self._group.process_set))

    def of_stage(self, stage: int, value: Any) -> Any:
        """The array of one stage, on all of them; the others give one of the same shape. A collective of the stages."""
        return self._all.from_rank(self._group.ranks[stage], tf.constant(value))

    # --- outside training

    def call(self, inputs: Any, training: Any = None) -> Any:
        samples = tf.shape(inputs)[0]
        # A graph may call the model twice, at the same time.
        graph = tf.compat.v1.get_default_graph()
        name = "call" if tf.executing_eagerly() else graph.unique_name("pipeline_call")
        outputs = self.stage(inputs if self.is_first else self.received(samples, name), training=training)
        if self.is_last:
            with tf.control_dependencies([self._all.send(outputs, name)]):
                return tf.identity(outputs)
        with tf.control_dependencies([self.send_on(outputs, name)]):
            return self._all.receive(self._group.ranks[-1], self._outputs, samples, name)

    # --- to and from the neighbours

    def received(self, samples: Any, name: str) -> Any:
        """What the stage before this one gives for `samples` samples."""
        return self._before.receive(self._group.ranks[self._group.index - 1], self._entering, samples, name)

    def send_on(self, outputs: Any, name: str) -> Any:
        """Give outputs to the next stage; returns the operation to wait for."""
        return self._after.send(outputs, name)

    def received_gradient(self, samples: Any, name: str) -> Any:
        """The gradient of this stage's outputs, from the next one."""
        return self._after.receive(self._group.ranks[self._group.index + 1], self._entering, samples, name)

    def send_back(self, gradient: Any, name: str) -> Any:
        """Give the gradient of what this stage has received to the stage before it."""
        return self._before.send(gradient, name)

    # --- a training step

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y, weight = tf.keras.utils.unpack_x_y_sample_weight(data)
        if not self.is_last:
            metric_variables.make(self, self._outputs, y)  # those of the last stage, also on the others
        variables = self.trainable_variables
        work = _Work(self, (x, y, weight))
        for what, number in one_forward_one_backward(self._group.index, self._group.size, self.micro_batches):
            if what == FORWARD:
                work.forward(number)
            else:
                work.backward(number)
        with tf.control_dependencies(work.sends + work.gradients):
            self._share_metrics()
            gradients = [tf.identity(one) for one in work.gradients]
        gradients = reduction.reduced(precision.unscaled(self.optimizer), gradients, variables)
        if hasattr(self.optimizer, "get_unscaled_gradients"):
            gradients = self.optimizer.get_unscaled_gradients(gradients)
        self.optimizer.apply_gradients(zip(gradients, variables))
        return {metric.name: metric.result() for metric in self.metrics}

    def _share_metrics(self) -> None:
        variables = [variable for metric in self.metrics for variable in metric.variables]
        if not variables:
            return
        own = [variable.read_value() for variable in variables]
        shared = self._all.share(own, self._group.ranks[-1], "metrics")
        sizes = [variable.shape.num_elements() for variable in variables]
        for variable, value in zip(variables, tf.split(tf.ensure_shape(shared, [sum(sizes)]), sizes)):
            variable.assign(tf.cast(tf.reshape(value, variable.shape), variable.dtype))


class _Work:
    """The micro-batches of one step in this stage, in the graph of the step.

    sends: the operations that end when everything is sent. gradients: of the mean loss of the batch (scaled under
    float16), for each trained variable.
    """

    def __init__(self, model: Pipelined, batch: tuple[Any, Any, Any]) -> None:
        self.sends: list[Any] = []
        self.gradients: list[Any] = []
        self._model, self._batch, self._variables = model, batch, model.trainable_variables
        self._samples = tf.shape(batch[0])[0]
        self._size = tf.maximum(1, -(-self._samples // model.micro_batches))
        self._changing = [*model.stage.non_trainable_variables, *(one.state for one in generators(model.stage))]
        self._kept: dict[int, tuple[Any, Any, Any]] = {}
        self._done: list[list[Any]] = [[], []]  # what the last two computations gave

    def forward(self, number: int) -> None:
        """Compute the outputs of a micro-batch, and send them on."""
        model, (x, y, weight) = self._model, self._batch
        begin, end, share = self._part(number)
        if model.is_first:
            entering = x[begin:end]
        else:
            # Not all at the beginning: each would need its memory from then on.
            with tf.control_dependencies(self._done[0]):
                entering = model.received(end - begin, "forward.{}".format(number))
        with tf.control_dependencies(self._done[1]), tf.GradientTape() as tape:
            if not model.is_first:
                tape.watch(entering)
            before = [] if number == 0 else [variable.read_value() for variable in self._changing]
            outputs = model.stage(entering, training=True)
            _keep_if(share > 0, self._changing, before)
            if model.is_last:
                target, weight = y[begin:end], None if weight is None else weight[begin:end]
                outputs = self._loss(entering, target, outputs, weight, share)
        self._kept[number] = (tape, entering, outputs)
        self._end([outputs])
        if not model.is_last:
            self.sends.append(model.send_on(outputs, "forward.{}".format(number)))

    def backward(self, number: int) -> None:
        """Compute the gradients of a micro-batch, and send that of what came in back."""
        model, (tape, entering, outputs) = self._model, self._kept.pop(number)
        upstream = None
        if not model.is_last:
            with tf.control_dependencies(self._done[0]):
                upstream = model.received_gradient(tf.shape(outputs)[0], "backward.{}".format(number))
        with tf.control_dependencies(self._done[1]):
            sources = self._variables if model.is_first else [*self._variables, entering]
            found = tape.gradient(outputs, sources, upstream, unconnected_gradients=tf.UnconnectedGradients.ZERO)
            own = [tf.convert_to_tensor(one) for one in found[: len(self._variables)]]
            self.gradients = [sum(pair) for pair in zip(self.gradients, own)] if self.gradients else own
        self._end(self.gradients)
        if not model.is_first:
            self.sends.append(model.send_back(found[-1], "backward.{}".format(number)))

    def _loss(self, x: Any, y: Any, outputs: Any, weight: Any, share: Any) -> Any:
        """The part of the batch's mean loss that comes from a micro-batch, which is counted in the metrics."""
        model = self._model
        variables = [variable for metric in model.metrics for variable in metric.variables]
        before = [variable.read_value() for variable in variables]
        loss = model.compute_loss(x, y, outputs, weight)
        model.compute_metrics(x, y, outputs, weight)
        _keep_if(share > 0, variables, before)
        loss = loss * tf.cast(share, loss.dtype)
        return model.optimizer.get_scaled_loss(loss) if hasattr(model.optimizer, "get_scaled_loss") else loss

    def _part(self, number: int) -> tuple[Any, Any, Any]:
        """Where a micro-batch begins and ends, and which share of the batch it is.

        If the samples do not suffice for all micro-batches, the last ones have one sample with a share of 0. It changes
        nothing: no gradient, metric, statistic or random generator.
        """
        begin = tf.minimum(number * self._size, self._samples - 1)
        count = tf.clip_by_value(self._samples - number * self._size, 0, self._size)
        share = tf.cast(count, tf.float64) / tf.cast(self._samples, tf.float64)
        return begin, begin + tf.maximum(1, count), share

    def _end(self, made: list[Any]) -> None:
        self._done = [self._done[1], made]


def _keep_if(condition: Any, variables: list[Any], before: list[Any]) -> None:
    """Let variables keep their values if the condition holds, else those of before."""
    for variable, value in zip(variables, before):
        variable.assign(tf.where(condition, variable.read_value(), value))
