"""What hpclaunch relies on in submitit: a new version that changes it is noticed here and not on a cluster."""

from __future__ import annotations

import inspect
import subprocess
from pathlib import Path

import pytest
import submitit
from submitit.core.utils import JobPaths
from submitit.local.local import LocalExecutor

from hpclaunch.schedulers.slurm.submit import _executor
from tests.builders import a_run

SBATCH = '#!/bin/bash\nprintf "%s\\n" "$@" > "{folder}/given"\ncat "${{@: -1}}" > "{folder}/script"\necho "{answer}"\n'


def parameters(function: object) -> list[str]:
    return list(inspect.signature(function).parameters)  # type: ignore[arg-type]


def test_the_slurm_executor_has_the_two_hooks() -> None:
    executor = submitit.SlurmExecutor
    assert parameters(executor._make_submission_file_text) == ["self", "command", "uid"]
    assert parameters(executor._make_submission_command) == ["self", "submission_file_path"]
    assert parameters(executor._submit_command) == ["self", "command"]


def test_the_local_executor_takes_a_command() -> None:
    assert parameters(LocalExecutor._submit_command) == ["self", "command"]
    assert "folder" in parameters(LocalExecutor.__init__)
    source = inspect.getsource(LocalExecutor._submit_command)
    for name in ("timeout_min", "tasks_per_node", "stderr_to_stdout"):
        assert f'"{name}"' in source


def test_local_logs_lie_where_the_run_directory_expects_them() -> None:
    assert JobPaths(Path("/logs"), "7", 0).stdout == Path("/logs/7_0_log.out")


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a fake sbatch and srun on PATH."""
    for name in ("sbatch", "srun"):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(SBATCH.format(folder=tmp_path, answer="Submitted batch job 4711 on cluster x"))
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    return tmp_path


def test_the_hooks_are_called_and_the_job_id_is_read(slurm: Path) -> None:
    text = "#!/bin/bash\n#SBATCH --nodes=2\necho ü\n"
    job = _executor(a_run(slurm), text, ())._submit_command("ignored")
    assert job.job_id == "4711"
    assert (slurm / "script").read_text(encoding="utf-8") == text
    assert len((slurm / "given").read_text().splitlines()) == 1


def test_submitits_own_states_are_not_asked_for(slurm: Path) -> None:
    """submitit asks sacct alone; hpclaunch asks squeue first. Submitting starts neither."""
    _executor(a_run(slurm), "", ())._submit_command("")
    assert not list(slurm.glob("*.pkl"))


def test_the_same_script_given_by_hand_is_the_same_to_sbatch(slurm: Path) -> None:
    text = "#!/bin/bash\ntrue\n"
    (slurm / "job.sh").write_text(text)
    _executor(a_run(slurm), text, ())._submit_command("")
    submitted = (slurm / "script").read_bytes()
    subprocess.run(["sbatch", slurm / "job.sh"], check=True, capture_output=True)
    assert (slurm / "script").read_bytes() == submitted
