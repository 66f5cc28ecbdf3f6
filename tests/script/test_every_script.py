"""All scripts that the bundled sites and jobs make: bash can read them, shellcheck finds nothing, each is one screen.

shellcheck reads the scripts with a golden file and, of the others, every eighth (the long tier: all). The fixture takes
seconds. So the tests of this file stay in one process (tests/conftest.py).
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from hpclaunch.render import render, whole_library
from tests.architecture.bars import GOLDEN
from tests.builders import ROOTS, a_job, planned
from tests.golden.test_golden import rendered, scripts_without_a_golden
from tests.tiers import LONG


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Every other script that the bundled sites and jobs make, written down; those that are refused left out."""
    folder, found = tmp_path_factory.mktemp("others"), []
    for site, name, typed in scripts_without_a_golden():
        suffix, text = rendered(site, typed)
        if suffix == ".sh":
            found.append(folder / f"{site}-{name}.sh")
            found[-1].write_text(text, encoding="utf-8")
    return found


def test_bash_can_read_every_script(others: list[Path]) -> None:
    for path in [*sorted(GOLDEN.glob("*/*.sh")), *sorted((ROOTS[-1][1] / "library").iterdir()), *others]:
        done = subprocess.run(["bash", "-n", path], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), path


def test_shellcheck_finds_nothing(tmp_path: Path, others: list[Path]) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("group shellcheck: install shellcheck")
    standalone = tmp_path / "standalone.sh"
    standalone.write_text(render(planned(job=a_job(restarts=5)), ROOTS, standalone=True))
    library = tmp_path / "hpclaunch.sh"  # its parts share variables
    library.write_text(whole_library(ROOTS))
    files = [*sorted(GOLDEN.glob("*/*.sh")), library, standalone, *(others if LONG else others[::8])]
    done = subprocess.run(["shellcheck", *files], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
