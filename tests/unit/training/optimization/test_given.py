"""An optimizer of Keras that the program gives: what is refused and why, and what its copy has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

try:
    import horovod.tensorflow as hvd
    import tensorflow as tf
except ImportError:
    pytest.skip("group horovod: horovod is not installed (the extra `train` brings it)", allow_module_level=True)

from hpclaunch import training
from hpclaunch.training.optimization import given, reduction
from hpclaunch.training.rank.world import World

ALONE = World(rank=0, size=1, local_rank=0, local_size=1, host="n1", device="CPU", threads=1, run_dir="")
keras = tf.keras.optimizers
schedules = tf.keras.optimizers.schedules


class OfOnesOwn(keras.SGD):  # type: ignore[misc]
    """It inherits from one of Keras."""


class FromNothing(keras.Optimizer):  # type: ignore[misc]
    """It inherits from none of Keras's optimizers."""

    def __init__(self, learning_rate: float = 0.1, name: str = "FromNothing", **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        self._learning_rate = self._build_learning_rate(learning_rate)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "learning_rate": self._serialize_hyperparameter(self._learning_rate)}


class WithoutRate(FromNothing):
    """Its get_config() leaves out the learning rate."""

    def get_config(self) -> dict[str, Any]:
        return {"name": self.name}


def used() -> Any:
    optimizer = keras.SGD(0.1)
    optimizer.iterations.assign(7)
    return optimizer


def wrapped() -> Any:
    hvd.init()
    return reduction.distributed(keras.SGD(0.1), ALONE)


@pytest.mark.parametrize(
    ("make", "words", "message"),
    [
        (lambda: "adam", "", "optimizer='adam': an optimizer of Keras is expected, such as tf.keras.optimizers.Adam"),
        (lambda: keras.Adam, "", "an optimizer of Keras is expected"),
        (lambda: keras.Adam(schedules.ExponentialDecay(0.1, 9, 0.5)), "", "is a schedule of Keras: give a number"),
        (lambda: keras.legacy.Adam(schedules.ExponentialDecay(0.1, 9, 0.5)), "", "is a schedule of Keras"),
        (lambda: keras.legacy.SGD(lambda: 0.1), "", "is a schedule of Keras"),
        (lambda: keras.legacy.SGD(0.1, decay=0.01), "", "own decay counts steps: omit it, and use --decay"),
        (lambda: keras.SGD(0.1, use_ema=True), "", "set --ema-decay"),
        (WithoutRate, "", "WithoutRate has no learning_rate, which the settings scale and change"),
        (used, "", "has already made 7 steps, but a training begins with a new one"),
        (wrapped, "", "give the optimizer without hvd.DistributedOptimizer"),
        (lambda: tf.keras.mixed_precision.LossScaleOptimizer(keras.SGD(0.1)), "", "without LossScaleOptimizer"),
        (FromNothing, "--scale-learning-rate=adascale", "AdaScale knows Keras's optimizers, but not what FromNothing"),
        (keras.Adam, "--optimizer=adam", "--optimizer cannot change the optimizer that the program gives (tf.keras."),
        (keras.Adam, "--default=optimizer=lamb", "--optimizer cannot change"),
        (keras.AdamW, "--optimizer=adamw --weight-decay=0.1", "--optimizer, --weight-decay cannot change"),
        (keras.SGD, "--momentum-correction=true", "--momentum-correction cannot change"),
        (keras.Adam, "--exclude-vectors=true", "--exclude-vectors cannot change"),
        (lambda: keras.SGD(0.1, momentum=0.5), "--momentum=0.9", "--momentum cannot change the optimizer"),
        (keras.Adam, "--momentum=0.9", "--momentum cannot change the optimizer"),
        (lambda: keras.Adam(0.1), "--learning-rate=0.2", "--learning-rate cannot change the optimizer"),
    ],
)
def test_what_cannot_be_is_refused_with_one_reason(make: Callable[[], Any], words: str, message: str) -> None:
    (found,) = given.faults(make(), training.settings(words=words.split()))
    assert message in found


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (keras.Adam, "--decay=cosine --warmup-epochs=1 --scale-learning-rate=sqrt"),
        (lambda: keras.SGD(0.1, momentum=0.9), "--learning-rate=0.1 --momentum=0.9"),  # as the program passes them on
        (keras.legacy.Nadam, ""),  # its "decay" is that of its momentum
        (keras.legacy.SGD, ""),
        (FromNothing, ""),
        (OfOnesOwn, "--scale-learning-rate=adascale"),
    ],
)
def test_what_can_be(make: Callable[[], Any], words: str) -> None:
    assert given.faults(make(), training.settings(words=words.split())) == []


def test_all_reasons_are_listed_at_once() -> None:
    optimizer = keras.SGD(schedules.ExponentialDecay(0.1, 9, 0.5), use_ema=True)
    assert len(given.faults(optimizer, training.settings(words=[], optimizer="sgd"))) == 3


def test_the_settings_of_the_log_are_what_the_optimizer_has() -> None:
    asked = training.settings(words=["--epochs=3"])
    found = given.described(asked, keras.SGD(0.1, momentum=0.5))
    assert (found.optimizer, found.learning_rate, found.momentum) == ("tf.keras.optimizers.SGD", 0.1, 0.5)
    assert (found.weight_decay, found.epochs, asked.optimizer) == (0.0, 3, "adam")
    assert given.in_words(keras.legacy.Adam()) == "tf.keras.optimizers.legacy.Adam"
    assert given.in_words(OfOnesOwn()).endswith("test_given.OfOnesOwn")


def test_all_but_sgd_divide_by_the_size_of_the_gradient() -> None:
    assert [given.is_adaptive(one()) for one in (keras.SGD, keras.legacy.SGD, OfOnesOwn)] == [False] * 3
    assert [given.is_adaptive(one()) for one in (keras.Adam, keras.RMSprop, keras.legacy.Adam)] == [True] * 3


def test_a_copy_has_the_arguments_the_rate_and_the_exclusions_also_under_horovod() -> None:
    hvd.init()
    own = keras.AdamW(0.1, weight_decay=0.3, beta_1=0.7, global_clipnorm=2.0)
    own.exclude_from_weight_decay(var_names=["bias"])
    copied = given.made(own, 0.4)
    kernel, bias = (tf.Variable([1.0], name=name) for name in ("kernel", "bias"))
    for found in (copied, reduction.distributed(copied, ALONE)):
        config = found.get_config()
        assert (config["weight_decay"], config["beta_1"], config["global_clipnorm"]) == (0.3, 0.7, 2.0)
        assert float(config["learning_rate"]) == pytest.approx(0.4)
        assert (found._use_weight_decay(kernel), found._use_weight_decay(bias)) == (True, False)
    assert float(own.learning_rate) == pytest.approx(0.1)
