"""The line that lets tf.keras be Keras 2: in the scripts of programs that use the library, and of no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpclaunch.config.fileformat import Environment
from hpclaunch.config.job import script_job
from hpclaunch.render import render
from tests.builders import ROOTS, a_desk, a_job, bundled_job, planned

LINE = "set_legacy_keras python3 # exports TF_USE_LEGACY_KERAS"


@pytest.mark.parametrize(
    ("text", "has_line"),
    [
        ("from hpclaunch import training\n", True),
        ("import tensorflow as tf\nimport hpclaunch.training as training\n", True),
        ("import tensorflow as tf\n", False),  # which may use Keras 3
        ("from hpclaunch import training\nimport torch\n", True),
        ("from hpclaunch.training import on_pytorch as training\nimport torch\n", False),
    ],
)
def test_a_script_that_imports_the_library_has_it(tmp_path: Path, text: str, has_line: bool) -> None:
    (tmp_path / "train.py").write_text(text)
    spec = planned(job=script_job(tmp_path / "train.py"))
    assert spec.before_launch == ((LINE,) if has_line else ())
    assert (f"\n{LINE}\nlaunch" in render(spec, ROOTS)) is has_line


@pytest.mark.parametrize(("name", "has_line"), [("cifar", True), ("resnet50", True), ("ddp", False), ("jax", False)])
def test_a_job_has_it_if_its_script_imports_the_library_for_tensorflow(name: str, has_line: bool) -> None:
    assert (
        any(line.startswith("set_legacy_keras ") for line in planned(job=bundled_job(name)).before_launch) is has_line
    )


def test_a_chosen_value_is_kept() -> None:
    job = a_job(uses_library=True, environment=Environment(variables={"TF_USE_LEGACY_KERAS": "0"}))
    spec = planned(job=job)
    assert spec.before_launch == () and ("TF_USE_LEGACY_KERAS", "0") in spec.environment


def test_a_launcher_that_is_told_which_variables_to_pass_on_passes_it_on() -> None:
    spec = planned(a_desk(), a_job(uses_library=True), launcher="mpirun", tasks_per_node=2)
    assert "TF_USE_LEGACY_KERAS" in spec.launch
