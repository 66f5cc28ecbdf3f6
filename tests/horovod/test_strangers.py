"""Scripts of a stranger: ten statements at most, on real ranks like one process, resumed on another number of ranks."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group horovod: numpy is not installed (the extra `train` brings it)", allow_module_level=True)

from tests.horovod.conftest import PROGRAMS, Ended
from tests.tiers import LONG

SCRIPTS = sorted((Path(__file__).parent / "strangers").glob("*.py"))
WITH_LOSSES = PROGRAMS / "step_losses.py"
MOST_STATEMENTS = 10
NO_MODEL = "--export-model=false"  # the files of a trained model take seconds
SAMPLES = 40

each_script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
# The loop of one's own; photos are resumed below, and other tests train houses, and the layers of pipeline.
COMPARED = [script for script in SCRIPTS if LONG or script.stem == "own_loop"]
each_compared = pytest.mark.parametrize("script", COMPARED, ids=lambda script: script.stem)
# test_own_optimizer.py and test_updates.py resume loops and arrays of numbers.
RESUMED = [script for script in SCRIPTS if LONG or script.stem == "photos"]
each_resumed = pytest.mark.parametrize("script", RESUMED, ids=lambda script: script.stem)


def statements(body: list[ast.stmt]) -> int:
    """The statements of a script besides imports, docstrings, and the functions and classes of the model and data."""
    count = 0
    for one in body:
        if isinstance(one, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef):
            continue
        if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
            continue
        count += 1
        for inner in ("body", "orelse", "finalbody"):
            count += statements(getattr(one, inner, []))
    return count


@each_script
def test_a_script_has_at_most_ten_statements_besides_imports_and_the_model(script: Path) -> None:
    assert 0 < statements(ast.parse(script.read_text()).body) <= MOST_STATEMENTS


@pytest.fixture(scope="module")
def own_data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The data of each script, by its name."""
    import tensorflow as tf

    place = tmp_path_factory.mktemp("own-data")
    random = np.random.RandomState(3)
    features = random.normal(size=(44, 6)).astype("float32")
    price = (features @ random.normal(size=6)).astype("float32")
    np.savez(place / "houses.npz", features=features, price=price)

    for split, count in (("train", SAMPLES), ("test", 6)):
        for number in range(count):
            kind = ("dark", "light")[number % 2]
            height, width = 20 + number % 7, 30 + number % 5  # photographs of many sizes
            pixels = random.randint(0, 128, (height, width, 3)) + 127 * (number % 2)
            folder = place / "photos" / split / kind
            folder.mkdir(parents=True, exist_ok=True)
            encoded = tf.io.encode_png(tf.constant(pixels, tf.uint8)).numpy()
            (folder / f"{number:03}.png").write_bytes(encoded)

    (place / "signals").mkdir()
    for name, count in (("train-0", SAMPLES // 2), ("train-1", SAMPLES // 2), ("test-0", 9)):
        with tf.io.TFRecordWriter(str(place / "signals" / f"{name}.tfrecord")) as file:
            for number in range(count):
                wave = tf.train.Feature(float_list=tf.train.FloatList(value=random.normal(size=12)))
                kind_of = tf.train.Feature(int64_list=tf.train.Int64List(value=[number % 3]))
                features_of = tf.train.Features(feature={"wave": wave, "kind": kind_of})
                file.write(tf.train.Example(features=features_of).SerializeToString())
    houses = str(place / "houses.npz")
    return {
        "houses": houses,
        "own_loop": houses,
        "photos": str(place / "photos"),
        "signals": str(place / "signals"),
        "pipeline": "",
    }


def losses(ended: Ended) -> list[float]:
    found: list[float] = json.loads((ended.run_dir / "losses-0.json").read_text())
    return found


@each_compared
def test_two_ranks_have_the_losses_of_one_process(script: Path, own_data: dict[str, str], ranks) -> None:  # type: ignore[no-untyped-def]
    data = f"--data-dir={own_data[script.stem]}"
    exports = LONG or script.stem in ("own_loop", "houses")  # a model of layers, and one that is a class of its own
    both = ranks(WITH_LOSSES, str(script), data, *([] if exports else [NO_MODEL]))
    alone = ranks(WITH_LOSSES, str(script), data, "--alone=2", NO_MODEL, size=0)
    assert (both.code, alone.code) == (0, 0), both.text + alone.text
    assert len(losses(both)) == len(losses(alone)) == 20  # 4 epochs of 5 steps of 2 x 4 samples
    # The losses begin near 1. Later ones differ by what float32 rounds there, which other versions of TensorFlow show.
    assert losses(both) == pytest.approx(losses(alone), rel=1e-6, abs=2e-7)
    assert losses(both)[-1] != losses(both)[0]
    (end,) = both.events("end")
    assert end["epochs"] == 4 and end["test_samples"] > 0
    assert not exports or {"saved_model", "weights.npz"} <= set(end["model_files"])


@each_resumed
def test_a_preempted_run_is_resumed_on_three_ranks(script: Path, own_data: dict[str, str], ranks) -> None:  # type: ignore[no-untyped-def]
    data = f"--data-dir={own_data[script.stem]}"
    stopped = ranks(WITH_LOSSES, str(script), data, "--preempted-after=7")
    assert "asked to stop; saved" in stopped.text, stopped.text
    checkpoints = str(stopped.run_dir / "checkpoints")
    again = ranks(WITH_LOSSES, str(script), data, NO_MODEL, size=3, HPCLAUNCH_CHECKPOINT_DIR=checkpoints)
    assert again.code == 0, again.text
    (resumed,) = again.events("resume")
    assert (resumed["world_size"], resumed["world_size_before"]) == (3, 2)
    assert again.events("end")[0]["epochs"] == 4
