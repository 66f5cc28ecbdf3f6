"""submitit's executor, whose command submits the rendered script instead of a script of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpclaunch.schedulers.slurm.programs import leaking, with_address

if TYPE_CHECKING:
    from submitit import SlurmExecutor


def script_executor(folder: Path, options: Sequence[str], seconds: int) -> SlurmExecutor:
    """Return an executor for a folder, whose sbatch has further ``options`` and ends after ``seconds``."""
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
