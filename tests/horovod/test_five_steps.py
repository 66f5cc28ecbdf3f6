"""The example of docs/horovod-in-five-steps.md on two ranks and on one process; the lines that the page names exist."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

try:
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group horovod: tensorflow is not installed (the extra `train` brings it)", allow_module_level=True)

from tests.horovod.conftest import ROOT, Ended

PAGE = ROOT / "docs" / "horovod-in-five-steps.md"
PROGRAM = ROOT / "tests" / "horovod" / "programs" / "five_steps.py"
LEGACY = {"TF_USE_LEGACY_KERAS": "1"} if tuple(map(int, tf.__version__.split(".")[:2])) >= (2, 16) else {}


def losses(ended: Ended, size: int) -> list[float]:
    assert ended.code == 0, ended.text
    assert f"ranks {size} with equal weights: True" in ended.text
    assert (ended.run_dir / "weights.npz").is_file()
    return [float(text) for text in re.findall(r"epoch \d+ loss (\S+)", ended.text)]


def test_the_documented_program_is_the_one_that_runs() -> None:
    (shown,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert shown == PROGRAM.read_text()


def test_the_library_has_every_line_that_the_page_names() -> None:
    rows = re.findall(r"^\| \d\. [^|]+\| `([^`]+)` \| `([^`]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == 5
    for file, line in rows:
        assert line in (ROOT / "hpclaunch" / "training" / file).read_text(), (file, line)


def test_two_ranks_train_as_one_process(ranks: Callable[..., Ended]) -> None:
    alone, both = (ranks(PROGRAM, size=size, **LEGACY) for size in (0, 2))
    found = losses(both, 2)
    assert len(found) == 5 and found[-1] < 0.6 * found[0]
    np.testing.assert_allclose(found, losses(alone, 1), rtol=1e-4)
