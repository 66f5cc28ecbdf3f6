"""submitit's executor, whose command submits the rendered script instead of a script of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hpclaunch.schedulers.slurm.programs import leaking, with_address

if TYPE_CHECKING:
    from submitit import SlurmExecutor

_LOG_LEVEL = "SUBMITIT_LOG_LEVEL"


def script_executor(folder: Path, options: Sequence[str], seconds: int) -> SlurmExecutor:
    """Return an executor for a folder, whose sbatch has further ``options`` and ends after ``seconds``."""
    with _logging_left_alone():
        import submitit  # loads asyncio and more, which only a submission has to pay for

    class ScriptExecutor(submitit.SlurmExecutor):
        def _make_submission_command(self, submission_file_path: Path) -> list[str]:
            command = ["env"]
            for name in leaking(os.environ):
                command += ["-u", name]
            if shutil.which("timeout"):
                command += ["timeout", "--kill-after=5", str(seconds)]
            sbatch, *rest = super()._make_submission_command(submission_file_path)
            return [*command, *with_address([sbatch, *options, *rest])]

    return ScriptExecutor(folder=folder)


@contextmanager
def _logging_left_alone() -> Iterator[None]:
    """Keep submitit's import from configuring the logging of the whole process.

    It would close the log files of a program that uses hpclaunch, and end with a ValueError for an unknown level.
    """
    before = os.environ.get(_LOG_LEVEL)
    os.environ[_LOG_LEVEL] = "NOCONFIG"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_LOG_LEVEL]
        else:
            os.environ[_LOG_LEVEL] = before
