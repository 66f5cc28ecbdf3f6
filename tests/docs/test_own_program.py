"""The programs that docs/training.md shows are run, by tests in tests/horovod or tests/frameworks."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = (
    ROOT / "tests" / "horovod" / "strangers",
    ROOT / "tests" / "horovod" / "programs",
    ROOT / "tests" / "frameworks" / "programs",
)


def test_every_program_in_the_docs_is_one_that_is_run() -> None:
    shown = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "training.md").read_text(), re.DOTALL)
    run = [textwrap.dedent(path.read_text()) for folder in FOLDERS for path in folder.glob("*.py")]
    assert len(shown) >= 2
    for program in shown:
        assert any(program in text or textwrap.indent(program, "    ") in text for text in run), program
