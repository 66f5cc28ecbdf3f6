"""Reports of studies with their pictures. Not in `unit/`, because matplotlib starts a program that lists fonts."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.benchmarks import test_hours_to_minutes as hours_to_minutes
from tests.unit.benchmarks import test_notebook3 as notebook3
from tests.unit.benchmarks.conftest import reference  # noqa: F401

if importlib.util.find_spec("matplotlib") is None:
    pytest.skip("group plot: needs matplotlib (the extra plot)", allow_module_level=True)

Reference = Callable[[str], ModuleType]


def test_the_articles_tables_and_pictures_have_every_part(reference: Reference, tmp_path: Path) -> None:  # noqa: F811
    hours_to_minutes.write(reference, tmp_path)
    text = reference("hours_to_minutes_report").report(tmp_path, tmp_path / "pictures")
    for title in (
        "Time of training",
        "Equal loss",
        "Options of batch and rate",
        "Shear and lens",
        "saved model",
        "cores",
    ):
        assert re.search(rf"\*\*.*{title}.*\*\*", text), title
    assert "| shards-2 | 2 | 32 | 12.0 | 1.0 | 500.0 | 2.00 | 2 | 2 |" in text
    assert "| divided batch, same rate | 64 | 0.0005 | 0.333 | 0.367 | 91.5% (91.0% to 92.0%)" in text
    assert "| shards-1 | 91.5% (91.0% to 92.0%) | 91.5% (91.0% to 92.0%) | 91.5% (91.0% to 92.0%) | 2 |" in text
    assert "| shards-4 | 1600 | 400 | 3.60 | 2 |" in text
    names = ["chips-model.svg", "hours-to-minutes-use.svg", "hours-to-minutes.svg"]
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == names
    drawn = (tmp_path / "pictures" / "hours-to-minutes.svg").read_text()
    assert "<!-- same batch, rate x square root -->" in drawn and "<!-- article, shards on GPUs -->" in drawn


def test_the_notebooks_tables_show_medians(reference: Reference, tmp_path: Path) -> None:  # noqa: F811
    notebook3.results(reference, tmp_path)
    report = reference("notebook3_report")
    text = report.report(tmp_path, tmp_path / "pictures")
    lines = text.splitlines()
    (both,) = [line for line in lines if line.startswith("| fashion-mnist | horovod | 2 | 2 | 1024 |")]
    assert "| 180 (165 to 195) | 75% |" in both
    (mirrored,) = [line for line in lines if line.startswith("| mnist | mirrored | 8 | 1 | 512 |")]
    assert "0.9200 (0.9100 to 0.9300)" in mirrored and "accuracy 0.9748" in mirrored
    assert "| mirrored-2-float16 |" in text
    picture = (tmp_path / "pictures" / report.PICTURE).read_bytes()
    report.report(tmp_path, tmp_path / "again")
    assert picture.startswith(b"<?xml") and (tmp_path / "again" / report.PICTURE).read_bytes() == picture
