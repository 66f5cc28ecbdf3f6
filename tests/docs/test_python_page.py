"""The programs of docs/python.md and the notebook run, against the local site; the notebook holds no outputs."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.downloaded import folder_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
NOTEBOOK = ROOT / "docs" / "notebooks" / "live_run.ipynb"
TRAINING = """\
import json, os
with open(os.environ["HPCLAUNCH_RUN_DIR"] + "/metrics.jsonl", "w") as file:
    print(json.dumps({"event": "epoch", "epoch": 1, "loss": 0.5, "time": 1.0}), file=file)
"""
EXECUTE = """
import sys
import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
nbformat.validate(notebook)
NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
nbformat.write(notebook, "executed.ipynb")
"""


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HPCLAUNCH", "SBATCH"))}
    return {**kept, "HOME": str(home), "HPCLAUNCH_SITE": "local"}


def examples() -> list[str]:
    """The page's programs, but those that are marked as another machine's."""
    return re.findall(r"(?<!-->\n)```python\n(.*?)```", PAGE, re.DOTALL)


def test_every_program_of_the_page_is_python() -> None:
    programs = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(programs) - len(examples()) == PAGE.count("<!-- another machine's") == 2
    for program in programs:
        ast.parse(program)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder outside /tmp, which the nodes of Perlmutter do not share."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        yield Path(name)


def test_the_programs_of_the_page_run_one_after_the_other(folder: Path) -> None:
    (folder / "train.py").write_text(TRAINING)
    program = "\n".join(
        [
            *examples(),
            "assert losses == [0.5] and same == run and 'hello' in run.log()",
            "assert dry.script.startswith('#!/bin/bash') and dry.command.startswith('hpclaunch submit cifar --nodes')",
        ]
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment(folder), capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done.stderr


def cells() -> list[dict[str, Any]]:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    return list(notebook["cells"])


def test_the_notebook_holds_no_outputs_and_no_path_of_a_machine() -> None:
    found = cells()
    assert len({cell["id"] for cell in found}) == len(found)
    assert all(
        cell["outputs"] == [] and cell["execution_count"] is None for cell in found if cell["cell_type"] == "code"
    )
    assert not re.search(r"/(home|root|work|var|tmp|usr)/", NOTEBOOK.read_text(encoding="utf-8"))


@pytest.mark.timeout(1200)
def test_the_notebook_runs_and_shows_the_run_live(tmp_path: Path) -> None:
    packages = folder_of("notebook", "nbclient", "ipykernel", apart=True)
    places = [packages, os.environ.get("PYTHONPATH", "") or str(ROOT)]
    variables = {
        **environment(tmp_path),
        "PYTHONPATH": os.pathsep.join(places),
        "IPYTHONDIR": str(tmp_path / "ipython"),
    }
    variables["JUPYTER_PATH"] = f"{packages}/share/jupyter"
    done = subprocess.run(
        [sys.executable, "-c", EXECUTE, str(NOTEBOOK)], cwd=tmp_path, env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    executed = json.loads((tmp_path / "executed.ipynb").read_text(encoding="utf-8"))
    outputs = {cell["id"]: cell["outputs"] for cell in executed["cells"] if cell["cell_type"] == "code"}
    (view, state) = outputs["live"]
    html = "".join(view["data"]["text/html"])
    assert "COMPLETED" in html and "12 of 12" in html and "<polyline" in html
    assert "".join(state["data"]["text/plain"]) == "'COMPLETED'"
    assert "epoch 12" in "".join(line for output in outputs["result"] for line in output["text"])
