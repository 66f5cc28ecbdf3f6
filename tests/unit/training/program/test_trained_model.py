"""The folder with the trained model: complete, replaced as a whole, and without the files that a model cannot have."""

from __future__ import annotations

import pytest

try:
    import horovod.tensorflow
    import tensorflow as tf
except ImportError:
    pytest.skip("group horovod: horovod is not installed (the extra `train` brings it)", allow_module_level=True)

import json
from pathlib import Path
from typing import Any

from hpclaunch import training
from hpclaunch.training.input.source import ImageSet, Source
from hpclaunch.training.metrics import metrics_log
from hpclaunch.training.program import trained_model
from hpclaunch.training.program.run import Run
from hpclaunch.training.program.sharded_data import Data
from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.world import World

assert horovod.tensorflow
ALL = ["model.keras", "model.h5", "saved_model", "weights.npz"]


class Features(Source):
    """Samples of four numbers."""

    sample_type = "float32"

    def __init__(self) -> None:
        super().__init__(ImageSet("features", (4,), classes=0, job="features"), "")

    def read(self, split: str, indices: Any) -> Any:
        raise NotImplementedError

    def files(self) -> list[str]:
        return []


class WithoutConfig(tf.keras.Model):  # type: ignore[misc]
    def __init__(self, size: int) -> None:
        super().__init__()
        self.dense = tf.keras.layers.Dense(size)

    def call(self, inputs: Any, training: bool = False) -> Any:
        return self.dense(inputs)

    def get_config(self) -> Any:
        raise NotImplementedError("no config")


DATA = Data(Features(), None, None, None)  # type: ignore[arg-type]


def run_in(folder: Path, **settings: Any) -> Run:
    world = World(rank=0, size=1, local_rank=0, local_size=1, host="", device="", threads=1, run_dir=str(folder))
    return Run("houses", training.settings(words=[], **settings), world, metrics_log(str(folder), True, False))


def model(bias: float = 0.0) -> Any:
    first = tf.keras.initializers.Constant(bias)
    return tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(1, bias_initializer=first)])


def test_a_later_model_replaces_an_earlier_one_as_a_whole(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    (tmp_path / ".model-partial").mkdir()  # of an attempt that was interrupted
    (tmp_path / ".model-partial/rubbish").touch()
    for bias in (1.0, 2.0):
        assert trained_model.write(run, model(bias), DATA) == {"model": "model", "model_files": ALL}
        found = tf.saved_model.load(str(tmp_path / "model/saved_model")).signatures["serving_default"]
        assert float(found(inputs=tf.zeros([1, 4]))["outputs"]) == bias
        assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == sorted(["model.json", *ALL])
    about = json.loads((tmp_path / "model/model.json").read_text())
    assert about["inputs"] == {"shape": [None, 4], "type": "float32"}
    assert (about["job"], about["files"], about["missing"]) == ("houses", ALL, {})
    layers = [(one["kind"], one["shape"], one["parameters"]) for one in about["layers"]]
    assert layers == [("InputLayer", [4], 0), ("Dense", [1], 5)]


def test_the_setting_turns_it_off(tmp_path: Path) -> None:
    assert trained_model.write(run_in(tmp_path, export_model=False), model(), DATA) == {}
    assert not list(tmp_path.iterdir())


def test_a_model_without_a_keras_file_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = WithoutConfig(1)
    made(tf.zeros([1, 4]))
    assert trained_model.write(run_in(tmp_path), made, DATA)["model_files"] == ALL[2:]
    reason = "NotImplementedError: no config"
    assert f"note: the trained model has no model.keras, model.h5: {reason}" in capsys.readouterr().out
    about = json.loads((tmp_path / "model/model.json").read_text())
    assert about["missing"] == dict.fromkeys(ALL[:2], reason) and about["own_classes"] == ["WithoutConfig"]
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == ["model.json", *ALL[2:]]


def test_a_folder_that_cannot_be_written_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        AgreedError, match=r"cannot write the trained model to .*Make room and resume the run, or leave"
    ):
        trained_model.write(run_in(tmp_path / "file"), model(), DATA)
