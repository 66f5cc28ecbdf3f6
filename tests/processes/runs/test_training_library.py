"""What a run's program imports from the archive of the training library that lies beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hpclaunch.core.spec import Code
from hpclaunch.runs.snapshot import choose, copy


def told_by(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """What a program that is copied with its library tells, in a Python without the packages of this one."""
    (folder / "job").mkdir()
    (folder / "job/train.py").write_text(program)
    copy(choose(Code(folder=str(folder / "job"), entry="train.py")), folder / "run")
    return subprocess.run([sys.executable, "-ES", folder / "run/train.py"], capture_output=True, text=True)


def test_a_program_imports_the_library_and_its_parameters_from_the_archive(tmp_path: Path) -> None:
    program = """
from hpclaunch.training import options
import hpclaunch.training.rank
print(options.__file__)
print(options.rows_of({"from": "training"})["epochs"]["type"])
"""
    told = told_by(tmp_path, program)
    assert told.stdout.split() == [f"{tmp_path}/run/hpclaunch/training.zip/training/options.py", "int"], told.stderr


def test_its_code_can_be_read_as_tensorflow_and_tracebacks_do(tmp_path: Path) -> None:
    program = """
import inspect, sys, traceback
from hpclaunch.training import options
print(inspect.getsource(options.of_job).splitlines()[0])
try:
    options.of_job("/no/such/folder/train.py")
except OSError:
    print(traceback.extract_tb(sys.exc_info()[2])[-1].line)
"""
    told = told_by(tmp_path, program)
    function, place = told.stdout.splitlines()
    assert (function, place[:10]) == ("def of_job(script: str) -> dict[str, Any]:", "with open("), told.stderr


def test_a_module_of_the_library_runs_as_a_program(tmp_path: Path) -> None:
    program = """
import subprocess, sys, os
here = os.path.dirname(__file__)
done = subprocess.run([sys.executable, "-ES", "-m", "hpclaunch.training.model_probe"], cwd=here, stderr=subprocess.PIPE)
print(done.stderr.decode())
"""
    told = told_by(tmp_path, program)
    assert "training.zip/training/model_probe.py" in told.stdout
