"""``runs show --draw-model`` and the picture of a model: sizes, labels, and what a file of a run cannot do.

Drawn in this process, as matplotlib lists all fonts in every new home.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from hpclaunch import runs
from hpclaunch.actions.sharing.model_layers import layers_of
from hpclaunch.cli import run_directories
from hpclaunch.core.errors import InvalidRequest, Refused
from hpclaunch.reports.charts.model_chart import THINNEST, DrawnLayer, boxes_of, draw
from tests.cli.conftest import Desk
from tests.cli.test_plot import texts_of
from tests.cli.test_runs_kept import submit

if importlib.util.find_spec("matplotlib") is None:
    pytest.skip("group plot: needs matplotlib (the extra plot)", allow_module_level=True)


def layer(kind: str, *shape: int, parameters: int = 0) -> DrawnLayer:
    return DrawnLayer(name=kind.lower(), kind=kind, shape=shape, parameters=parameters)


LAYERS = (
    layer("Conv2D", 100, 64, 16, parameters=448),
    layer("MaxPooling2D", 25, 16, 16),
    layer("Conv3D", 4, 4, 4, 1),
    layer("Embedding", 25, 64),
    layer("Flatten", 6400),
    layer("Dense", 2, parameters=12802),
    layer("Masking"),
    layer("LSTM", 0, 8),
)


def test_sizes_follow_the_shapes() -> None:
    conv, pool, volume, tokens, flat, dense, unknown, _ = boxes_of(LAYERS)
    assert conv.height == pytest.approx(2 * pool.height) and conv.depth == pytest.approx(2 * pool.depth)
    assert conv.width == pool.width > volume.width > THINNEST
    assert tokens.depth == THINNEST and tokens.height == pool.height and tokens.width > conv.width
    assert flat.height == conv.height > dense.height and flat.width == THINNEST
    assert unknown.height == unknown.depth == unknown.width == THINNEST
    with pytest.raises(ValueError, match="without layers"):
        boxes_of([])


def test_every_layer_has_its_label_and_the_same_layers_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("first.svg", "second.svg"):
        draw(LAYERS, tmp_path / name, title="a network")
    texts = texts_of(tmp_path / "first.svg")
    assert {"a network", "Conv2D  100 x 64 x 16", "448 parameters", "Dense  2", "LSTM  ? x 8", "Masking  ?"} <= set(
        texts
    )
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "second.svg").read_bytes()


def about(run: Path, text: str) -> None:
    (run / "model").mkdir(exist_ok=True)
    (run / "model" / "model.json").write_text(text)


def listed(**changes: Any) -> str:
    one = {"name": "dense", "kind": "Dense", "shape": [2], "parameters": 258, **changes}
    return json.dumps({"layers": [one]})


def test_a_runs_model_is_drawn(cluster: Desk, tmp_path: Path) -> None:
    run = submit(cluster, 7)
    missing = cluster.type("runs", "show", "7", "--draw-model", "model.svg")
    assert missing.code == 1 and "has written no trained model" in missing.err and not missing.out
    about(run, listed(kind="$\\frac$"))  # text, not a formula
    run_directories._draw_model(runs.load_any(run), tmp_path / "model.svg")
    assert any("258 parameters" in text for text in texts_of(tmp_path / "model.svg"))
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(Refused, match="cannot be written"):
        run_directories._draw_model(runs.load_any(run), tmp_path / "folder.svg")
    with pytest.raises(InvalidRequest, match=r"--draw-model: 'model\.txt' has no known format"):
        run_directories._draw_model(runs.load_any(run), tmp_path / "model.txt")


def test_a_list_that_cannot_be_drawn_is_one_error(cluster: Desk) -> None:
    run = submit(cluster, 7)
    for text, words in {
        "{}": "there is no list of layers",
        "[" * 10_000: "there is no list of layers",
        json.dumps({"layers": [{}] * 3}): "cannot be read: 'shape'",
        json.dumps({"layers": ["a"]}): "cannot be read: string indices",
        listed(shape=["wide"]): "'wide' is not a whole number",
        listed(shape=[2**50]): "is not a whole number of at most",
        listed(parameters=-1): "-1 is not a whole number",
        listed(shape=[1] * 9): "a shape of 9 sides",
        json.dumps({"layers": [json.loads(listed())["layers"][0]] * 501}): "501 layers cannot be drawn",
    }.items():
        about(run, text)
        with pytest.raises(Refused, match=words):
            layers_of(runs.load_any(run))
