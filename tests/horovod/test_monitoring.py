"""Validation, early end, best epoch and Keras's callbacks on real ranks: by value, and alike on every rank."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group horovod: numpy is not installed (the extra `train` brings it)", allow_module_level=True)

from tests.horovod.conftest import PROGRAMS, ROOT, Ended
from tests.horovod.step_parts import SLOW, check_the_parts_of_a_step
from tests.tiers import LONG
from tests.unit.training.monitoring.test_records import scalars_of

PROGRAM = PROGRAMS / "monitored.py"
MNIST = (ROOT / "jobs/mnist/train.py", "--synthetic=true", "--export-model=false")
VALIDATION = 11


def write(folder: Path, validation: int = VALIDATION, train: int = 40) -> dict[str, Any]:
    random = np.random.RandomState(3)
    arrays = {}
    for split, count in (("train", train), ("validation", validation), ("test", 5)):
        features = random.normal(size=(count, 6)).astype("float32")
        arrays[f"x_{split}"], arrays[f"y_{split}"] = features, (features @ np.arange(6)).astype("float32")
    np.savez(folder / "houses.npz", **arrays)
    return arrays


def errors(ended: Ended, arrays: dict[str, Any], rank: int) -> Any:
    with np.load(ended.run_dir / f"weights-{rank}.npz") as held:
        kernel, bias = held["arr_0"], held["arr_1"]
    return (arrays["x_validation"] @ kernel + bias)[:, 0] - arrays["y_validation"]


@pytest.mark.parametrize(
    ("size", "validation"),
    [
        (3, 2),  # one rank has none
        # Shares of 6 and 5 samples, in batches of 4 and 2, and of 4 and 1, as where training ends early below.
        *([(2, VALIDATION)] if LONG else []),
    ],
)
def test_every_sample_of_every_rank_is_validated_once(size: int, validation: int, ranks, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    arrays = write(tmp_path, validation)
    ended = ranks(PROGRAM, f"--data-dir={tmp_path}/houses.npz", size=size)
    assert ended.code == 0, ended.text
    logs = [json.loads((ended.run_dir / f"logs-{rank}.json").read_text()) for rank in range(size)]
    assert all(one == logs[0] for one in logs) and len(logs[0]) == 3
    wrong = errors(ended, arrays, size - 1)
    assert logs[0][-1]["val_loss"] == pytest.approx((wrong**2).mean(), rel=1e-5)
    assert logs[0][-1]["val_mae"] == pytest.approx(np.abs(wrong).mean(), rel=1e-5)
    for line, told in zip(ended.events("epoch"), logs[0], strict=True):
        assert {name: line[name] for name in told if name != "rate"}.items() <= told.items() and line[
            "validation_s"
        ] > 0
    (start,) = ended.events("start")
    assert start["validation"] == {"split": "validation", "samples": validation}


if LONG:  # the early end of such a loop, below, needs its validation

    def test_a_loop_of_ones_own_is_validated_too(ranks, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
        arrays = write(tmp_path)
        ended = ranks(PROGRAM, f"--data-dir={tmp_path}/houses.npz", "--own-loop=true", "--validation-every=2")
        assert ended.code == 0, ended.text
        first, second, third = ended.events("epoch")
        assert "val_mse" not in first and second["val_mse"] > third["val_mse"]
        wrong = errors(ended, arrays, 1)
        assert third["val_mse"] == pytest.approx((wrong**2).mean(), rel=1e-5)
        assert third["val_mae"] == pytest.approx(np.abs(wrong).mean(), rel=1e-5)


@pytest.mark.long_tier
def test_a_bundled_job_is_validated_on_a_part_of_mixed_images(ranks) -> None:  # type: ignore[no-untyped-def]
    """Mixup's labels are vectors, those of the validation are classes."""
    options = ("--synthetic-samples=200", "--epochs=1", "--validation-part=0.25", "--mixup=0.2")
    ended = ranks(*MNIST, *options, "--accumulation=2", "--batch-size-per-rank=16")
    assert ended.code == 0, ended.text
    (line,) = ended.events("epoch")
    assert 0 <= line["val_accuracy"] <= 1 and line["val_loss"] > 0
    assert ended.events("start")[0]["validation"] == {"split": "validation", "samples": 50}


def test_a_strategy_of_tensorflow_is_validated_on_each_rank_alone(ranks) -> None:  # type: ignore[no-untyped-def]
    options = ("--synthetic-samples=64", "--epochs=1", "--validate-on=test", "--strategy=mirrored")
    ended = ranks(*MNIST, *options, size=0)
    assert ended.code == 0, ended.text
    (line,), (end,) = ended.events("epoch"), ended.events("end")
    assert (line["val_loss"], line["val_accuracy"]) == (end["test_loss"], end["test_accuracy"])


def weights_error(ended: Ended, arrays: dict[str, Any], rank: int) -> float:
    return float((errors(ended, arrays, rank) ** 2).mean())


def steps_kept(ended: Ended) -> list[str]:
    return sorted(path.name for path in (ended.run_dir / "checkpoints").iterdir())


# The loss falls, so by --monitor-mode=max the first epoch is the best. An epoch of two ranks has 5 steps.
FIRST_IS_BEST = ("--patience=2", "--monitor-mode=max", "--restore-best=true", "--keep-checkpoints=1", "--epochs=9")


# Callbacks of model.fit end its training early below.
@pytest.mark.parametrize("how", ["--own-loop=true", *(["--own-loop=false"] if LONG else [])])
def test_training_ends_early_with_the_weights_of_the_best_epoch(how: str, ranks, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    arrays = write(tmp_path)
    ended = ranks(PROGRAM, f"--data-dir={tmp_path}/houses.npz", *FIRST_IS_BEST, *SLOW, how)
    assert ended.code == 0, ended.text
    check_the_parts_of_a_step(ended, size=2)
    (end,), (stop,) = ended.events("end"), ended.events("early_stop")
    assert len(ended.events("epoch")) == end["epochs"] == stop["after"] == 3 and end["best_epoch"] == 1
    assert end["best_value"] == pytest.approx(weights_error(ended, arrays, 1), rel=1e-5)
    assert weights_error(ended, arrays, 0) == weights_error(ended, arrays, 1)
    assert steps_kept(ended) == ["step-00000005", "step-00000015"]


@pytest.mark.long_tier
def test_patience_and_best_epoch_survive_a_preemption_on_another_number_of_ranks(ranks, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    arrays = write(tmp_path)
    options = (f"--data-dir={tmp_path}/houses.npz", *FIRST_IS_BEST)
    stopped = ranks(PROGRAM, *options, "--preempted-in=2")
    assert "asked to stop; saved" in stopped.text, stopped.text
    checkpoints = str(stopped.run_dir / "checkpoints")
    again = ranks(PROGRAM, *options, size=3, HPCLAUNCH_CHECKPOINT_DIR=checkpoints)
    assert again.code == 0, again.text
    (end,) = again.events("end")
    assert (end["epochs"], end["best_epoch"]) == (3, 1)
    assert end["best_value"] == stopped.events("epoch")[0]["val_loss"]
    assert end["best_value"] == pytest.approx(weights_error(again, arrays, 2), rel=1e-5)
    over = ranks(PROGRAM, *options, HPCLAUNCH_CHECKPOINT_DIR=checkpoints)  # as after an end during the evaluation
    assert over.code == 0 and over.events("epoch") == [], over.text
    assert over.events("end")[0]["test_mse"] == pytest.approx(end["test_mse"], rel=1e-6)


OF_KERAS = ("--keras=true", "--epochs=9")
RATES = {1: 0.01, 2: 0.01, 3: 0.01, 4: 0.005, 5: 0.005}  # the first epoch, and the patience of four


def rates(*several: Ended) -> dict[int, float]:
    return {line["epoch"]: line["learning_rate"] for ended in several for line in ended.events("epoch")}


def same_logs(ended: Ended) -> list[Any]:
    first, second = (json.loads((ended.run_dir / f"logs-{rank}.json").read_text()) for rank in range(2))
    assert first == second
    return list(first)


def test_callbacks_of_keras_decide_alike_and_go_on_after_a_preemption(ranks, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    write(tmp_path)
    options = (f"--data-dir={tmp_path}/houses.npz", *OF_KERAS)
    stopped = ranks(PROGRAM, *options, "--preempted-in=4")
    assert "asked to stop; saved" in stopped.text, stopped.text
    assert [path.name for path in stopped.run_dir.glob("*.h5")] == ["epoch-1.h5"]
    lines = (stopped.run_dir / "epochs.csv").read_text().splitlines()  # of rank 0 alone
    assert len(lines) == 1 + len(stopped.events("epoch"))
    assert stopped.text.count("epoch 3 of rank 1") == 1

    again = ranks(PROGRAM, *options, HPCLAUNCH_CHECKPOINT_DIR=str(stopped.run_dir / "checkpoints"))
    assert again.code == 0, again.text
    assert rates(stopped, again) == pytest.approx(RATES)
    assert 1 <= len(same_logs(again)) == len(again.events("epoch")) <= 2  # epochs 4 and 5, or 5 alone
    assert again.events("end")[0]["epochs"] == 5 and not list(again.run_dir.glob("*.h5"))


if LONG:  # the one above makes the same five epochs in two parts

    def test_callbacks_of_keras_decide_alike(ranks, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
        write(tmp_path)
        whole = ranks(PROGRAM, f"--data-dir={tmp_path}/houses.npz", *OF_KERAS)
        assert whole.code == 0, whole.text
        assert len(same_logs(whole)) == 5 and rates(whole) == pytest.approx(RATES)
        assert [path.name for path in whole.run_dir.glob("*.h5")] == ["epoch-1.h5"]
        assert len((whole.run_dir / "epochs.csv").read_text().splitlines()) == 6
        assert whole.text.count("epoch 5 of rank 1") == 1


# The one that is found last, when the model has its metrics.
WRONG = [("--monitor=val_acuracy", "--monitor=val_acuracy: there is no such metric; this training has loss, mae")]
if LONG:
    WRONG += [
        ("--validation-part=0.2", "--validation-part=0.2 has no effect"),
        ("--top-k=3", "--top-k needs targets that are classes; these are numbers"),
        ("--profile-first=3 --profile-rank=2", "--profile-rank=2: the ranks of this run are 0 to 1"),
    ]


@pytest.mark.parametrize(("option", "message"), WRONG)
def test_a_wrong_setting_is_one_error(option: str, message: str, ranks, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    write(tmp_path)
    ended = ranks(PROGRAM, f"--data-dir={tmp_path}/houses.npz", "--patience=2", *option.split())
    assert ended.code != 0 and ended.speakers(message) == ["0"], ended.text


def test_rank_0_writes_for_tensorboard_and_another_rank_is_traced(ranks) -> None:  # type: ignore[no-untyped-def]
    options = ("--synthetic-samples=160", "--epochs=2", "--batch-size-per-rank=16")
    records = ("--tensorboard=true", "--profile-first=2", "--profile-steps=3", "--profile-rank=1", "--top-k=3")
    ended = ranks(*MNIST, *options, *records, "--confusion-matrix=true", "--validate-on=test")
    assert ended.code == 0, ended.text
    for run, names in (("train", ["accuracy", "learning_rate", "loss"]), ("validation", ["accuracy", "loss"])):
        found = scalars_of(ended.run_dir / "tensorboard" / run)
        assert sorted(found) == [f"epoch_{name}" for name in names] and all(len(one) == 2 for one in found.values())
    assert [path.parts[-5] for path in ended.run_dir.glob("profile/**/*.xplane.pb")] == ["rank-0001"]
    (end,) = ended.events("end")
    assert end["test_accuracy"] <= end["test_top_3_accuracy"] <= 1 and end["test_confusion"] == "confusion-test.csv"
    lines = (ended.run_dir / "confusion-test.csv").read_text().splitlines()[1:]
    assert sum(int(cell) for line in lines for cell in line.split(",")[1:]) == end["test_samples"] == 40


def test_the_time_of_an_all_reduce_is_measured_once_beside_that_of_a_step(ranks, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    write(tmp_path, train=800)  # 400 steps are just enough
    options = ("--batch-size-per-rank=1", "--epochs=1", "--validation-every=0")
    ended = ranks(PROGRAM, f"--data-dir={tmp_path}/houses.npz", *options)
    assert ended.code == 0, ended.text
    (line,) = ended.events("communication")
    assert (line["epoch"], line["gradient_bytes"]) == (1, 28)
    assert line["all_reduce_s"] > 0 and line["step_s"] > 0
    assert ("warning" in line) == ("warning: the 2 ranks spend most of a step" in ended.text)
