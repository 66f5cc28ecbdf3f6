"""What hpclaunch relies on in submitit: a new version that changes it is noticed here and not on a cluster."""

from __future__ import annotations

import inspect
from pathlib import Path

import submitit
from submitit.core.utils import JobPaths
from submitit.local.local import LocalExecutor


def parameters(function: object) -> list[str]:
    return list(inspect.signature(function).parameters)  # type: ignore[arg-type]


def test_the_slurm_executor_has_the_hook() -> None:
    executor = submitit.SlurmExecutor
    assert parameters(executor._make_submission_command) == ["self", "submission_file_path"]
    assert executor._make_submission_command(None, Path("/job.sh")) == ["sbatch", "/job.sh"]  # type: ignore[arg-type]


def test_the_local_executor_takes_a_command() -> None:
    assert parameters(LocalExecutor._submit_command) == ["self", "command"]
    assert "folder" in parameters(LocalExecutor.__init__)
    source = inspect.getsource(LocalExecutor._submit_command)
    for name in ("timeout_min", "tasks_per_node", "stderr_to_stdout"):
        assert f'"{name}"' in source


def test_local_logs_lie_where_the_run_directory_expects_them() -> None:
    assert JobPaths(Path("/logs"), "7", 0).stdout == Path("/logs/7_0_log.out")
