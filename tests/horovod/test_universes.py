"""The job universes: volumes that follow camb's spectrum, made once, by several runs, and read by cosmoflow."""

from __future__ import annotations

import argparse
import importlib
import io
import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

try:
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group horovod: tensorflow is not installed (the extra `train` brings it)", allow_module_level=True)

from hpclaunch.reports.exports.event_file import crc32c
from tests.horovod.conftest import ROOT, Ended, environment

JOB = ROOT / "jobs" / "universes"
NAMES = ("universe", "records", "simulate")
SMALL = {"train": 3, "validation": 2, "volume_size": 8, "voxel": 8.0, "per_file": 1, "part": 0, "parts": 1, "seed": 7}
PARAMETERS = np.array([0.31, 0.81, 0.96, 68.0])


def modules() -> list[ModuleType]:
    """The job's modules, which no other test finds under their short names."""
    sys.path.insert(0, str(JOB))
    try:
        return [importlib.import_module(name) for name in NAMES]
    finally:
        sys.path.remove(str(JOB))
        for name in NAMES:
            sys.modules.pop(name, None)


universe, records, simulate = modules()


@pytest.fixture(scope="module")
def spectrum() -> Any:
    pytest.importorskip("camb", reason="group camb: camb is not installed (the dependency group `dev` has it)")
    return universe.linear_spectrum(PARAMETERS)


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, spectrum: Any, tmp_path: Path) -> Callable[..., list[str]]:
    monkeypatch.syspath_prepend(str(JOB))  # the program imports what it needs when it begins to compute

    def run(**changed: Any) -> list[str]:
        asked = argparse.Namespace(folder=str(tmp_path), **{**SMALL, **changed})
        try:
            return [Path(path).name for path in simulate.make(asked, lambda line: None)]
        finally:
            for name in NAMES:
                sys.modules.pop(name, None)

    return run


def test_a_gaussian_field_has_the_spectrum_of_camb(spectrum: Any) -> None:
    """The power in shells of wave numbers. A mean over n modes has a relative error of sqrt(2 / n), n counted twice."""
    side, length = 64, 256.0
    modes = universe.density_modes(universe.random_of(1, 0), spectrum, side, length)
    power = np.abs(modes) ** 2 * length**3 / side**6
    wave_numbers = universe.wave_number(side, length)
    counted = np.full(modes.shape, 2.0)  # the other half of the modes is the complex conjugate of this one
    counted[:, :, [0, -1]] = 1
    edges = 2 * np.pi / length * np.arange(2, side // 2, 3)
    for low, high in itertools.pairwise(edges):
        shell = (wave_numbers >= low) & (wave_numbers < high)
        weight = counted[shell]
        ratio = np.sum(weight * power[shell] / spectrum.at(wave_numbers[shell])) / weight.sum()
        assert abs(ratio - 1) < 4 * np.sqrt(2 / weight.sum()), (low, ratio)


def test_the_spectrum_has_the_sigma_8_that_was_asked_for(spectrum: Any) -> None:
    """sigma_8^2 is the integral of k^2 P W^2 / 2 pi^2 with a top hat of 8 Mpc/h (Peebles 1980, section 26)."""
    k = spectrum.wave_numbers
    window = 3 * (np.sin(8 * k) - 8 * k * np.cos(8 * k)) / (8 * k) ** 3
    values = k**3 * spectrum.power * window**2 / (2 * np.pi**2)
    variance = np.sum((values[1:] + values[:-1]) / 2 * np.diff(np.log(k)))
    assert np.sqrt(variance) == pytest.approx(PARAMETERS[1], rel=0.01)


def test_it_grows_as_the_growth_factor(spectrum: Any) -> None:
    """D(a) is proportional to H(a) times the integral of da / (a H)^3 (Heath 1977), without radiation."""
    omega_m = PARAMETERS[0]

    def growth(redshift: float) -> float:
        a = np.linspace(1e-4, 1 / (1 + redshift), 20_000)
        hubble = np.sqrt(omega_m / a**3 + 1 - omega_m)
        values = 1 / (a * hubble) ** 3
        return float(hubble[-1] * np.sum((values[1:] + values[:-1]) / 2 * np.diff(a)))

    expected = [growth(redshift) / growth(0) for redshift in universe.REDSHIFTS]
    np.testing.assert_allclose(spectrum.growth, expected, rtol=0.01)


def test_the_matter_follows_the_linear_density_on_large_scales(spectrum: Any) -> None:
    """Where the contrast is small, the counts divided by their mean are 1 + growth x contrast."""
    size, length, growth = 32, 512.0, 1.0
    side = universe.PARTICLES * size
    modes = universe.density_modes(universe.random_of(2, 0), spectrum, side, length)
    counts = universe.counts(universe.displacements(modes, side, length), growth, size, length)
    assert counts.sum() == side**3, "no particle is lost"
    found = np.fft.rfftn(counts / counts.mean() - 1) / size**3
    large = (universe.wave_number(side, length) < 6 * 2 * np.pi / length).nonzero()
    places = tuple(np.where(axis >= side // 2, axis - side, axis) for axis in large)
    expected = growth * modes[large] / side**3
    slope = np.vdot(expected, found[places]) / np.vdot(expected, expected)
    # A mode of the grid is that of the corners of cells, a mode of the counts that of voxels: a phase, which is small.
    assert abs(slope) == pytest.approx(1, abs=0.1)


def test_a_universe_depends_on_its_seed_and_its_number_alone(spectrum: Any) -> None:
    first, parameters = universe.volume_of(7, 3, 8, 8.0)
    again, same = universe.volume_of(7, 3, 8, 8.0)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(parameters, same)
    assert (first.shape, first.dtype) == ((8, 8, 8, 4), np.int16)
    assert first.sum(axis=(0, 1, 2)).tolist() == [16**3] * 4
    for seed, number in ((7, 4), (8, 3)):
        assert not np.array_equal(universe.volume_of(seed, number, 8, 8.0)[0], first)


def test_parameters_are_scaled_to_their_ranges() -> None:
    low, high = np.transpose(universe.RANGES)
    np.testing.assert_allclose(
        [universe.scaled(one) for one in (low, (low + high) / 2, high)],
        np.outer([-1, 0, 1], np.ones(4)),
        atol=1e-6,
    )
    drawn = np.array([universe.scaled(universe.drawn_parameters(universe.random_of(1, n))) for n in range(400)])
    assert np.abs(drawn).max() <= 1
    np.testing.assert_allclose(drawn.std(axis=0), np.sqrt(1 / 3), rtol=0.1)


@pytest.mark.parametrize("size", [0, 5, 127, 128, 300, 70_000, 300_000])
def test_tensorflow_reads_the_records(size: int, tmp_path: Path) -> None:
    """Sizes on both sides of a varint's second and third byte, and of the sums that are computed in parts."""
    content = np.random.RandomState(size).bytes(size)
    path = tmp_path / "x.tfrecord"
    with path.open("wb") as file:
        for number in range(2):
            records.write_record(file, records.example(content, [number, -0.5]))
    for number, record in enumerate(tf.data.TFRecordDataset(str(path))):  # it verifies the sums
        features = tf.train.Example.FromString(record.numpy()).features.feature
        assert list(features["x"].bytes_list.value) == [content]
        assert list(features["y"].float_list.value) == [number, -0.5]


def test_a_sum_of_the_publication() -> None:
    """RFC 3720, appendix B.4: 32 bytes of 0, of 255, and 0 to 31."""
    known = {bytes(32): 0x8A9136AA, b"\xff" * 32: 0x62A8AB43, bytes(range(32)): 0x46DD794E}
    assert {text: records.crc32c(text) for text in known} == known
    file = io.BytesIO()
    records.write_record(file, b"")
    assert len(file.getvalue()) == 16


def test_the_launchers_sums_are_those_of_the_job() -> None:
    """Both write records of TensorFlow: the launcher events without NumPy, the job volumes."""
    for length in (0, 1, 7, 64, 1000, 70_000):
        content = np.random.default_rng(length).bytes(length)
        assert crc32c(content) == records.crc32c(content)


def test_each_part_makes_its_own_files_once(make: Callable[..., list[str]], tmp_path: Path) -> None:
    folder = tmp_path / "cosmoflow"
    assert make(part=1, parts=2) == ["train-00001.tfrecord", "validation-00000.tfrecord"]
    assert make(part=1, parts=2) == []
    kept = (folder / "train-00001.tfrecord").stat().st_mtime_ns
    rest = ["train-00000.tfrecord", "train-00002.tfrecord", "validation-00001.tfrecord"]
    assert make() == rest, "other parts are those that are missing"
    assert (folder / "train-00001.tfrecord").stat().st_mtime_ns == kept
    before = (folder / "validation-00001.tfrecord").read_bytes()
    (folder / "validation-00001.tfrecord").unlink()
    for left in ("tfrecord", "json"):
        (folder / f".partial-{left}-validation-00001-of_a_killed_run").write_bytes(before[:9])
    assert make(part=4, parts=5) == ["validation-00001.tfrecord"]
    assert (folder / "validation-00001.tfrecord").read_bytes() == before
    assert not list(folder.glob(".partial*"))
    record = json.loads((folder / "universes.json").read_text())
    assert (record["seed"], record["train"], [one["name"] for one in record["targets"]]) == (7, 3, list(universe.NAMES))
    about = json.loads((folder / "validation-00001.json").read_text())
    assert set(about["universes"]) == {"4"}
    np.testing.assert_allclose(
        list(about["universes"]["4"].values()), universe.drawn_parameters(universe.random_of(7, 4))
    )


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"seed": 8}, "made with another seed"),
        ({"train": 4}, "made with another train, files"),
        ({"folder": ""}, "no folder for the volumes"),
        ({"part": 2, "parts": 2}, "part 2 of 2 parts: parts are numbered from 0 to 1"),
    ],
)
def test_what_cannot_be_made_is_refused(
    make: Callable[..., list[str]], tmp_path: Path, changed: dict[str, Any], told: str
) -> None:
    make(parts=5)
    asked = argparse.Namespace(**{"folder": str(tmp_path), **SMALL, **changed})
    sys.path.insert(0, str(JOB))
    with pytest.raises(simulate.Refused, match=told):
        simulate.make(asked, print)


def test_a_python_without_camb_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "camb.py").write_text("raise ImportError(\"No module named 'camb'\")\n")
    done = subprocess.run(
        [sys.executable, str(JOB / "simulate.py"), f"--folder={tmp_path / 'data'}"],
        env={**environment(tmp_path, {}), "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "cannot make volumes: No module named 'camb'\n  next: " in done.stderr
    assert "-m pip install camb" in done.stderr
    assert len(done.stderr.splitlines()) == 2
    assert not (tmp_path / "data").exists()


def test_two_runs_may_make_the_same_file(tmp_path: Path) -> None:
    """The first to end removes what the other has written; the other needs it no more."""
    path = tmp_path / "train-00000.tfrecord"

    def interrupted(file: Any) -> None:
        file.write(b"same")
        simulate._write(str(path), lambda other: other.write(b"same"))

    simulate._write(str(path), interrupted)
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [(path.name, b"same")]


def test_cosmoflow_trains_on_them_and_its_answers_are_reported(
    make: Callable[..., list[str]], ranks: Callable[..., Ended], tmp_path: Path
) -> None:
    make(volume_size=32, validation=3)
    train = ROOT / "jobs" / "cosmoflow" / "train.py"
    small = ("--epochs=1", "--batch-size-per-rank=1", "--warmup-epochs=0", "--symmetries=true", "--first-weights=data")
    ended = ranks(train, f"--data-dir={tmp_path}", "--volume-size=32", *small)
    assert ended.code == 0, ended.text
    answers = json.loads((ended.run_dir / "answers.json").read_text())
    assert np.shape(answers["true"]) == np.shape(answers["answered"]) == (3, 4)
    expected = [universe.scaled(universe.drawn_parameters(universe.random_of(7, number))) for number in (3, 4, 5)]
    np.testing.assert_allclose(answers["true"], sorted(one.tolist() for one in expected), atol=1e-6)
    (end,) = ended.events("end")
    assert np.abs(np.subtract(answers["true"], answers["answered"])).mean() == pytest.approx(end["test_mae"], rel=1e-4)
    report = [sys.executable, str(ROOT / "jobs/cosmoflow/report.py"), str(ended.run_dir)]
    told = subprocess.run([*report, "--picture", "x.png"], cwd=tmp_path, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    assert "omega_m" in told.stdout and "run: held out 3, seed 1, epochs 1, train samples 3" in told.stdout
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_missing_files_and_another_size_are_told(make: Callable[..., list[str]], tmp_path: Path) -> None:
    from hpclaunch.training.input.source import DataError, ImageSet

    make(parts=2)
    sys.path.insert(0, str(ROOT / "jobs" / "cosmoflow"))
    try:
        volumes = importlib.import_module("volumes")
    finally:
        sys.path.remove(str(ROOT / "jobs" / "cosmoflow"))
        sys.modules.pop("volumes", None)
    wanted = [ImageSet("cosmoflow", (size, size, size, 4), 0, "cosmoflow") for size in (8, 16)]
    with pytest.raises(
        DataError, match=r"2 of 5 files are missing, the first is train-00001\.tfrecord\n  next: submit"
    ):
        volumes.open_volumes(str(tmp_path), wanted[0])
    make()
    assert volumes.open_volumes(str(tmp_path), wanted[0]).counts == {"train": 3, "test": 2}
    with pytest.raises(DataError, match=r"volumes of 8 x 8 x 8\n  next: --set volume_size=8"):
        volumes.open_volumes(str(tmp_path), wanted[1])
