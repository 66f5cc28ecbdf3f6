"""What submitit and hpclaunch do with a script: a fake sbatch on PATH keeps what it is given."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hpclaunch.schedulers import QueuedJob
from hpclaunch.schedulers.slurm.submit import submit
from tests.builders import a_run

SBATCH = '#!/bin/bash\nprintf "%s\\n" "$@" > "{folder}/given"\ncat "${{@: -1}}" > "{folder}/script"\necho "{answer}"\n'


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a fake sbatch, scontrol and srun on PATH."""
    for name in ("sbatch", "scontrol", "srun"):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        answer = "Submitted batch job 4711 on cluster x" if name == "sbatch" else ""
        path.write_text(SBATCH.format(folder=tmp_path if name == "sbatch" else "/dev/null", answer=answer))
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    return tmp_path


def test_the_script_is_submitted_and_the_job_id_is_read(slurm: Path) -> None:
    text = "#!/bin/bash\n#SBATCH --nodes=2\necho ü\n"
    assert submit(a_run(slurm), text, 0) == QueuedJob(job_id="4711", cluster="x")
    assert (slurm / "script").read_text(encoding="utf-8") == text
    assert len((slurm / "given").read_text().splitlines()) == 1


def test_options_are_sbatchs_and_not_the_scripts(slurm: Path) -> None:
    """What follows the script on sbatch's line is given to the script."""
    submit(a_run(slurm), "#!/bin/bash\n", 0, ["--hold", "--array=0-3"])
    *options, script = (slurm / "given").read_text().splitlines()
    assert options == ["--hold", "--array=0-3"] and script.endswith(".sh")


def test_variables_of_another_job_or_that_override_the_script_do_not_reach_sbatch(
    slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped = (
        "SLURM_CLUSTERS",
        "SBATCH_PARTITION",
        "SLURM_JOB_ID",
        "SLURM_NTASKS",
        "SALLOC_QOS",
        "SRUN_DEBUG",
        "PMI_RANK",
        "OMPI_X",
    )
    kept = ("SLURM_CONF", "MINE")
    for name in (*dropped, *kept):
        monkeypatch.setenv(name, "x")
    program = slurm / "bin/sbatch"
    program.write_text(program.read_text().replace("\n", f'\nenv > "{slurm}/seen"\n', 1))
    submit(a_run(slurm), "#!/bin/bash\n", 0)
    seen = {line.partition("=")[0] for line in (slurm / "seen").read_text().splitlines()}
    assert seen.isdisjoint(dropped) and seen.issuperset(kept)


def test_submitits_own_states_are_not_asked_for(slurm: Path) -> None:
    """submitit asks sacct alone; hpclaunch asks squeue first. Submitting starts neither."""
    submit(a_run(slurm), "", 0)
    assert not list(slurm.rglob("*.pkl"))


def test_the_same_script_given_by_hand_is_the_same_to_sbatch(slurm: Path) -> None:
    text = "#!/bin/bash\ntrue\n"
    (slurm / "job.sh").write_text(text)
    submit(a_run(slurm), text, 0)
    submitted = (slurm / "script").read_bytes()
    subprocess.run(["sbatch", slurm / "job.sh"], check=True, capture_output=True)
    assert (slurm / "script").read_bytes() == submitted


def test_submitit_leaves_the_logging_of_its_caller_alone(tmp_path: Path) -> None:
    code = (
        "import logging, os; from pathlib import Path\n"
        "logging.basicConfig(filename='own.log', filemode='w', level='INFO'); logging.info('before')\n"
        "from hpclaunch.schedulers.slurm.executor import script_executor\n"
        "script_executor(Path('x'), (), 9); logging.info('after')\n"
        "print(logging.getLogger('submitit').handlers, os.environ['SUBMITIT_LOG_LEVEL'])\n"
    )
    variables = {**os.environ, "SUBMITIT_LOG_LEVEL": "no level"}
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path, env=variables
    )
    assert done.stdout == "[] no level\n"
    assert (tmp_path / "own.log").read_text().splitlines() == ["INFO:root:before", "INFO:root:after"]


def test_submitit_is_loaded_by_a_submission_alone_and_as_it_is(slurm: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from hpclaunch.schedulers.slurm.executor import script_executor\n"
        "print('submitit' in sys.modules)\n"
        "print(*script_executor(Path('x'), ('--hold',), 9)._make_submission_command(Path('job.sh')))\n"
        "assert all(sys.modules[n].__spec__.name == n for n in ('asyncio', 'importlib.metadata'))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=slurm)
    loaded, command = done.stdout.splitlines()
    assert loaded == "False" and command.endswith("sbatch --hold job.sh") and done.stderr == ""
