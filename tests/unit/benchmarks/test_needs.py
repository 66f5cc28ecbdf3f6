"""What a study needs and does not find is one error, before anything is run, printed or written."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("group checkout: an sdist holds no benchmarks", allow_module_level=True)
try:
    import numpy as np
except ImportError:
    pytest.skip("group training: numpy is not installed (the extra `train` brings it)", allow_module_level=True)

Reference = Callable[[str], ModuleType]
DRAW = {
    "reference/critical_batch": "--report",
    "reference/guidelines": "report",
    "reference/hours_to_minutes": "--report",
    "reference/notebook3": "--report",
    "reference/parallel_training": "--report",
    "reference/sharpness": "--report",
    "reference/universes": "--report",
    "large_batch/report": "--plot",
}
TRAIN = {
    "reference/critical_batch": ("cifar10", ()),
    "reference/guidelines": ("cifar10", ("updates",)),
    "reference/notebook3": ("mnist", ()),
    "reference/parallel_training": ("cifar10", ()),
    "reference/sharpness": ("cifar10", ()),
    "large_batch/study": ("cifar10", ()),
}
LAYOUTS = ("class folders", "TFRecords", "tensorflow_datasets", ".npz with x_train, y_train, x_test, y_test")


@pytest.fixture
def ended(
    reference: Reference, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., str]:
    """Runs a program that must end with 1, and returns its error; it must print and write nothing else."""

    def run(program: str, *words: str) -> str:
        folder, name = program.split("/")
        monkeypatch.syspath_prepend(str(BENCHMARKS / folder))
        places = [word for flag in ("results", "out") for word in (f"--{flag}", str(tmp_path / flag))]
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *words, *(places if program in TRAIN else places[:2])])
        monkeypatch.chdir(tmp_path)
        monkeypatch.delitem(sys.modules, name, raising=False)  # there are two programs study.py
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(SystemExit) as error:
            reference(name).main()
        assert capsys.readouterr().out == ""
        assert sorted(tmp_path.rglob("*")) == before
        assert isinstance(error.value.code, str)  # Python prints it, and ends with 1
        return error.value.code

    return run


@pytest.mark.parametrize("program", DRAW)
def test_a_report_without_matplotlib_names_what_to_install(
    ended: Callable[..., str], monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    flag, name = DRAW[program], program.split("/")[1]
    error = ended(program, flag, *(["x.svg"] if flag == "--plot" else []))
    assert error == f"{name}: {flag}: matplotlib is not installed\n    next: pip install 'hpclaunch[plot]'"


@pytest.mark.parametrize("program", TRAIN)
def test_images_that_are_missing_are_named_with_their_layouts_and_the_next_step(
    ended: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str
) -> None:
    data, words = TRAIN[program]
    monkeypatch.delenv("HPCLAUNCH_DATA_DIR", raising=False)
    (tmp_path / "empty").mkdir()
    (tmp_path / "wrong" / data / "music").mkdir(parents=True)
    faults = {
        "": "--data-dir and HPCLAUNCH_DATA_DIR are empty: no data folder was given",
        "absent": f"{tmp_path}/absent (from --data-dir): does not exist",
        "empty": f"{tmp_path}/empty (from --data-dir): contains no data set of a known layout (found: nothing)",
        "wrong": f"{tmp_path}/wrong (from --data-dir): contains no data set of a known layout (found: {data})",
    }
    for folder, fault in faults.items():
        first, expected, following = ended(program, *words, "--data-dir", folder).splitlines()
        assert first == f"{program.split('/')[1]}: {fault}"
        assert expected.startswith(f"  expected: {data} as uint8 images of ")
        assert all(layout in expected for layout in LAYOUTS)
        job = {"cifar10": "cifar", "mnist": "mnist"}[data]
        assert following == f"  next: hpclaunch data fetch {job}, or name another folder with --data-dir"


@pytest.mark.parametrize("program", TRAIN)
def test_a_folder_of_the_variable_is_said_to_come_from_it(
    ended: Callable[..., str], monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setenv("HPCLAUNCH_DATA_DIR", "/nonexistent: no")
    error = ended(program, *TRAIN[program][1])
    assert error.startswith(f"{program.split('/')[1]}: /nonexistent: no (from HPCLAUNCH_DATA_DIR): does not exist\n")


def npz(path: Path, shape: tuple[int, ...], number: int = 20) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {f"x_{split}": np.zeros((number, *shape), np.uint8) for split in ("train", "test")}
    np.savez(path, **arrays, y_train=np.arange(number) % 10, y_test=np.arange(number) % 10)
    return path


def test_images_of_another_shape_and_too_few_are_refused(ended: Callable[..., str], tmp_path: Path) -> None:
    path = npz(tmp_path / "cifar10" / "digits.npz", (28, 28))
    error = ended("reference/guidelines", "updates", "--data-dir", ".")
    assert error.startswith(
        f"guidelines: {path} (from --data-dir): x_train is uint8 [20, 28, 28]\n  expected: cifar10 as"
    )
    npz(path, (32, 32, 3))
    error = ended("reference/sharpness", "--data-dir", ".")
    fault = "20 training images, and the study takes 4,096"
    assert error.startswith(f"sharpness: {path} (from --data-dir): {fault}\n  expected: cifar10 as")


def test_class_folders_with_images_of_another_size_are_refused(ended: Callable[..., str], tmp_path: Path) -> None:
    if importlib.util.find_spec("PIL") is None:
        pytest.skip("group plot: needs Pillow (the extra plot brings it)")
    from PIL import Image

    for split in ("train", "test"):
        for name in range(10):
            folder = tmp_path / "cifar10" / split / str(name)
            folder.mkdir(parents=True)
            Image.new("RGB", (64, 48)).save(folder / "1.png")
    error = ended("reference/guidelines", "updates", "--data-dir", "cifar10")
    where = f"{tmp_path}/cifar10/train/0/1.png (from --data-dir)"
    assert error.startswith(f"guidelines: {where}: the image is 48 x 64 x 3\n  expected: ")


def test_every_run_can_use_the_folder_that_was_named(
    reference: Reference, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A run has a folder of its own, from which a relative path leads elsewhere."""
    needs = reference("needs")
    npz(tmp_path / "data" / "cifar10" / "cifar10.npz", (32, 32, 3))
    npz(tmp_path / "data" / "mnist" / "mnist.npz", (28, 28))
    monkeypatch.chdir(tmp_path)
    assert needs.images("data", needs.CIFAR10, needs.MNIST, least=20) == str(tmp_path / "data")
    with pytest.raises(SystemExit, match="next: hpclaunch data fetch mnist --set dataset=fashion_mnist, or name"):
        needs.images("data", needs.FASHION_MNIST)


def test_the_images_are_those_of_the_jobs(reference: Reference, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorflow", reason="group training: tensorflow is not installed (the extra `train` has it)")
    needs, jobs = reference("needs"), BENCHMARKS.parent / "jobs"
    for job, names in (("cifar", ["CIFAR10"]), ("mnist", ["MNIST", "FASHION_MNIST"])):
        spec = importlib.util.spec_from_file_location(f"model_of_{job}", jobs / job / "model.py")
        assert spec is not None and spec.loader is not None
        model = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(model)
        assert [getattr(needs, name) for name in names] == [getattr(model, name) for name in names]
