"""The best epoch and the early end, by the values that epochs have; on one rank, Horovod not started."""

from __future__ import annotations

import pytest

try:
    import horovod.tensorflow as hvd
    import tensorflow as tf
except ImportError:
    pytest.skip("group horovod: horovod is not installed (the extra `train` brings it)", allow_module_level=True)

from typing import Any

from hpclaunch import training
from hpclaunch.training.checkpoints.resuming import Place
from hpclaunch.training.metrics import MetricsLog
from hpclaunch.training.monitoring.best import WatchBest
from hpclaunch.training.monitoring.best_epoch import is_growing
from hpclaunch.training.monitoring.kept import Kept
from hpclaunch.training.optimization import techniques
from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.world import World

ALONE = World(0, 1, 0, 1, "here", "CPU", 1, "")
assert hvd is not None


class Validates:
    """In place of the callback that validates."""

    default = "val_loss"

    def names(self, model: Any) -> list[str]:
        return ["val_loss", "val_accuracy"]


def watcher(*words: str, before: Any = None) -> WatchBest:
    asked = training.settings(words=list(words))
    found = WatchBest(ALONE, MetricsLog(None, False), asked, Validates(), before)  # type: ignore[arg-type]
    found.set_model(tf.keras.Sequential())
    return found


def last_epoch(watch: WatchBest, values: list[float | None], name: str = "val_loss", first: int = 0) -> int:
    """The epoch (from 1) after which training stops: at the latest the last one."""
    for epoch, value in enumerate(values, first):
        watch.on_epoch_end(epoch, {} if value is None else {name: value})
        if watch.model.stop_training:
            return epoch + 1
    return first + len(values)


@pytest.mark.parametrize(
    ("words", "values", "stops", "best"),
    [
        (["--patience=2"], [3, 2, 2.5, 2, 1], 4, 2),  # an equal value is not better
        (["--patience=2"], [3, 2, 2.5, 1.9, 3, 4, 5], 6, 4),
        (["--patience=2", "--min-delta=0.5"], [3, 2.6, 2.4, 2.3, 2.2], 5, 3),
        (["--patience=2", "--monitor-mode=max"], [3, 2, 2.5, 2, 4], 3, 1),
        (["--patience=2"], [3, None, 2, None, 2.5, 1], 5, 3),  # validated every second epoch
        (["--keep-best=true"], [1, 2, 3, 4], 4, 1),
        (["--patience=1"], [float("nan"), 2, 1], 3, 3),
    ],
)
def test_training_ends_when_no_epoch_is_better(words: list[str], values: list[Any], stops: int, best: int) -> None:
    watch = watcher(*words)
    assert last_epoch(watch, values) == stops
    assert watch.best is not None and watch.best.epoch == best


@pytest.mark.parametrize("interrupted", [1, 2, 3, 4])
def test_patience_and_the_best_value_survive_an_interruption(interrupted: int) -> None:
    values: list[Any] = [3, 2, 2.5, 2.2, 2.1]
    first = watcher("--patience=3", "--keep-best=true")
    assert last_epoch(first, values[:interrupted]) == interrupted
    assert first.best is not None
    first.note_checkpoint(10 * first.best.epoch, first.best.epoch)
    again = watcher("--patience=3", "--keep-best=true", before=first.facts)
    assert not again.is_over(interrupted)
    assert last_epoch(again, values[interrupted:], first=interrupted) == 5 and again.is_over(5)
    assert again.best is not None and again.best.epoch == 2
    assert again.best.step == (20 if interrupted >= 2 else 0)
    assert not watcher("--patience=4", before=again.facts).is_over(5)  # more patience: training goes on


def test_only_an_epoch_that_is_judged_ends_a_training_that_goes_on() -> None:
    before = {"metric": "val_loss", "value": 1.0, "epoch": 2, "step": 0}
    words = ("--patience=1", "--epochs=7")

    def ends(*more: str, **other: Any) -> list[int]:
        watch = watcher(*words, *more, before={**before, **other})
        kept = Kept(ALONE, None, watch, [], Place())
        found = []
        for kept.epochs in range(2, 8):
            found += [kept.epochs] if kept.is_over else []
        return found

    assert ends("--validation-every=2") == [4, 6, 7]
    assert ends("--validation-every=1") == [3, 4, 5, 6, 7]
    assert ends("--validation-every=2", "--monitor=loss", metric="loss") == [3, 4, 5, 6, 7]
    assert ends("--validation-every=0") == []


def test_a_best_epoch_of_another_metric_or_without_a_checkpoint_is_forgotten(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = {"metric": "loss", "value": 1.0, "epoch": 3, "step": 0}
    assert watcher("--patience=2", before=before).best is None
    assert watcher("--restore-best=true", "--monitor=loss", before=before).best is None
    assert capsys.readouterr().out.count("the best epoch by loss before, 3, is forgotten") == 2
    assert watcher("--patience=2", "--monitor=loss", before=before).best is not None


@pytest.mark.parametrize(
    ("metric", "mode", "grows"),
    [
        ("val_loss", "auto", False),
        ("val_accuracy", "auto", True),
        ("auc", "auto", True),
        ("val_mae", "auto", False),
        ("val_mae", "max", True),
        ("accuracy", "min", False),
    ],
)
def test_whether_large_values_are_good_follows_from_the_name(metric: str, mode: str, grows: bool) -> None:
    assert is_growing(metric, mode) == grows


def test_a_metric_that_does_not_exist_is_named_after_the_first_step() -> None:
    watch = watcher("--patience=2", "--monitor=val_acuracy")
    with pytest.raises(AgreedError, match="no such metric; this training has loss, accuracy, val_loss, val_accuracy"):
        watch.on_train_batch_end(0, {"loss": 1.0, "accuracy": 0.5})


@pytest.mark.parametrize("option", ["--monitor=val_loss", "--min-delta=0.1", "--monitor-mode=max"])
def test_an_option_without_effect_is_refused(option: str) -> None:
    asked = training.settings(words=[option])
    text = "{} has an effect only with --patience, --keep-best=true or --restore-best=true".format(
        option.partition("=")[0]
    )
    assert techniques.faults(asked) == [text]
    assert techniques.faults(training.settings(words=[option, "--patience=3"])) == []
