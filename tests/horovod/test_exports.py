"""The files of a trained model are read without hpclaunch, and give the logged accuracy; so do other TensorFlows.

`make long` compares the table in docs/training.md with what each version reads. After a change that is meant:
``HPCLAUNCH_TIER=long pytest tests/horovod/test_exports.py --rewrite-golden``, then read the diff.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

try:
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group horovod: tensorflow is not installed (the extra `train` brings it)", allow_module_level=True)

from tests.horovod.conftest import ROOT, Ended
from tests.tiers import LONG

HERE = Path(__file__).parent / "exports"
DOCUMENT = ROOT / "docs" / "training.md"
BEGIN, END = "<!-- table of exported files: begin -->\n", "<!-- table of exported files: end -->\n"
FILES = ["model.keras", "model.h5", "saved_model", "weights.npz"]
# Version: its Python, and its packages; those in the second list without their dependencies.
VERSIONS: dict[str, tuple[str, list[str], list[str]]] = {
    "2.12": ("3.8", ["tensorflow-cpu==2.12.*"], []),
    "2.15": ("3.11", ["tensorflow-cpu==2.15.1"], []),
    "2.18": ("3.11", ["tensorflow-cpu==2.18.1"], ["tf-keras==2.18.*"]),
}
VERSION = tuple(int(number) for number in tf.__version__.split(".")[:2])
LEGACY = {"TF_USE_LEGACY_KERAS": "1"}
# Title: version, and the variables of the process.
WRITERS = {"2.12": ("2.12", {}), "2.15": ("2.15", {}), "2.18, tf-keras": ("2.18", LEGACY)}
READERS: dict[str, tuple[str, dict[str, str]]] = {**WRITERS, "2.18, Keras 3": ("2.18", {"TF_USE_LEGACY_KERAS": "0"})}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noisy images of three classes, hard enough that a trained model is right for some of them only."""
    random = np.random.RandomState(5)
    pattern = random.normal(size=(3, 12, 12, 3))
    arrays = {}
    for split, count in (("train", 480), ("test", 301)):
        labels = random.randint(0, 3, count)
        pixels = (
            128
            + 12 * pattern[labels]
            + 10 * (labels[:, None, None, None] - 1)
            + random.normal(0, 60, (count, 12, 12, 3))
        )
        arrays |= {f"x_{split}": pixels.clip(0, 255).astype("uint8"), f"y_{split}": labels}
    path = tmp_path_factory.mktemp("exports") / "images.npz"
    np.savez(path, **arrays)
    return path


@pytest.fixture(scope="module")
def trained(images: Path, ranks: Callable[..., Ended]) -> Ended:
    ended = ranks(HERE / "train.py", f"--data-dir={images}")
    assert ended.code == 0, ended.text
    return ended


def logged_accuracy(trained: Ended) -> float:
    (end,) = trained.events("end")
    assert 0.4 < end["test_accuracy"] < 1
    return float(end["test_accuracy"])


def started(python: str, program: str, *arguments: object, **variables: str) -> str:
    """What a program of exports/ prints, under another Python; it finds no package of this checkout by itself."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TF_", "VIRTUAL_ENV"))}
    own = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2", **variables}
    command = [python, str(HERE / program), *map(str, arguments)]
    done = subprocess.run(command, env={**kept, **own}, cwd="/", capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def read(python: str, model: Path, images: Path, **variables: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(started(python, "read.py", model, images, **variables).splitlines()[-1])
    return found


def test_the_files_of_a_trained_model_give_its_test_accuracy_without_hpclaunch(trained: Ended, images: Path) -> None:
    (end,) = trained.events("end")
    written = FILES[1:] if VERSION == (2, 12) else FILES  # whose model.keras cannot be read again
    assert (end["model"], end["model_files"]) == ("model", written)
    model = trained.run_dir / "model"
    assert sorted(path.name for path in model.iterdir()) == sorted(["model.json", *written])
    assert not [path.name for path in trained.run_dir.iterdir() if path.name.startswith(".model")]
    assert "model.keras" not in written or zipfile.is_zipfile(model / "model.keras")
    about = json.loads((model / "model.json").read_text())
    assert about["inputs"] == {"shape": [None, 12, 12, 3], "type": "uint8"}
    assert list(about["missing"]) == [name for name in FILES if name not in written]
    found = read(sys.executable, model, images, **(LEGACY if VERSION >= (2, 16) else {}))
    expected = logged_accuracy(trained)
    assert found["results"] == {name: pytest.approx(expected, abs=1e-6) for name in written}
    assert found["tensorflow"] == tf.__version__


def environment(version: str) -> str:
    """The Python of an environment with this TensorFlow, made by uv on first use."""
    if tf.__version__.startswith(version + "."):
        return sys.executable
    kept = ROOT / ".cache" / f"tensorflow-{version}"
    python = kept / "bin" / "python"
    if (kept / "complete").is_file():
        return str(python)
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if not uv:
        pytest.skip("group tensorflow-versions: needs uv (make test installs it)")
    number, packages, alone = VERSIONS[version]
    found = subprocess.run([uv, "python", "find", "--no-python-downloads", number], capture_output=True, text=True)
    if found.returncode:
        pytest.skip(f"group tensorflow-versions: Python {number} is not installed")
    shutil.rmtree(kept, ignore_errors=True)
    kept.parent.mkdir(exist_ok=True)
    into = [uv, "--no-config", "pip", "install", "--quiet", "--python", str(python)]
    steps = [[uv, "--no-config", "venv", "--quiet", "--python", found.stdout.strip(), str(kept)], [*into, *packages]]
    for step in [*steps, [*into, "--no-deps", *alone]] if alone else steps:
        done = subprocess.run(step, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    (kept / "complete").touch()
    return str(python)


def written_by(title: str, trained: Ended, folder: Path) -> Path:
    """The model folder of a version: that of the training, or one with the same weights that this version writes."""
    version, variables = WRITERS[title]
    python = environment(version)
    if python == sys.executable:
        return trained.run_dir / "model"
    folder.mkdir()
    weights = trained.run_dir / "model" / "weights.npz"
    started(python, "write_again.py", weights, folder, **variables, PYTHONPATH=str(ROOT))
    return folder


def table(trained: Ended, images: Path, place: Path) -> str:
    """The rows of the table; a file that is read gives the logged accuracy."""
    expected = logged_accuracy(trained)
    lines = [f"| written by | file | read by {' | '.join(READERS)} |", "|---" * (2 + len(READERS)) + "|"]
    for number, writer in enumerate(WRITERS):
        model = written_by(writer, trained, place / str(number))
        found = {}
        for title, (version, variables) in READERS.items():
            found[title] = read(environment(version), model, images, **variables)
            assert found[title]["tensorflow"].startswith(version + ".")
        for name in FILES:
            cells = []
            for title in READERS:
                result = found[title]["results"].get(name, "not written")
                if isinstance(result, float):
                    assert result == pytest.approx(expected, abs=1e-6), f"{name} of {writer}, read by {title}"
                else:
                    print(f"{name} of {writer}, read by {title}: {result}")
                cells.append("yes" if isinstance(result, float) else "no" if (model / name).exists() else "not written")
            lines.append(f"| {writer} | `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if LONG and Path(sys.prefix).resolve() == (ROOT / ".venv").resolve():  # not where another TensorFlow runs this folder

    def test_the_table_says_which_tensorflow_reads_which_file(
        trained: Ended, images: Path, tmp_path: Path, pytestconfig: pytest.Config
    ) -> None:
        found = table(trained, images, tmp_path)
        text = DOCUMENT.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN)
        _, after = rest.split(END)
        expected = before + BEGIN + found + END + after
        if pytestconfig.getoption("rewrite_golden"):
            DOCUMENT.write_text(expected, encoding="utf-8")
        assert text == expected or pytestconfig.getoption("rewrite_golden")
