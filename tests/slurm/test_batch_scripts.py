"""Batch scripts of the kinds that centres teach: taken in, each asks for the same and says the same as with sbatch."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.slurm.desk import Desk, Submitted, until

pytestmark = pytest.mark.timeout(600)
SCRIPTS = Path(__file__).with_name("batch_scripts")
# One write each, as ranks of mpirun share a pipe.
SHOW = """import os, sys
rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("SLURM_PROCID")
place = f"{rank} {os.environ.get('SLURM_NTASKS', '1')} {os.path.basename(os.getcwd())}"
sys.stdout.write(f"out: {place} {sys.argv[1:]}\\n")
"""
RANKS = """import os, sys
place = f"{os.environ['RANK']} {os.environ['WORLD_SIZE']} {os.environ['LOCAL_RANK']}"
sys.stdout.write(f"out: {place} {sys.argv[1:]}\\n")
"""
FIELDS = ("JobName", "Partition", "NumNodes", "NumCPUs", "TimeLimit", "MinMemoryNode", "MinMemoryCPU", "Features")
FIELDS += ("OverSubscribe", "TresPerNode", "Comment")
TASKS = ("NumTasks", "CPUs/Task")
APPTAINER = """#!/bin/bash
# exec OPTIONS IMAGE COMMAND
while [ "$1" != images/pytorch.sif ]; do shift; done
shift
exec "$@"
"""


# As torchrun does it: the ranks of one node, of which each learns its number.
TORCHRUN = """#!/bin/bash
python=python3
while [[ $1 == -* ]]; do
  case $1 in --nproc_per_node=*) count=${1#*=} ;; --nnodes=*) nodes=${1#*=} ;; --no_python) python= ;; esac
  shift
done
for ((rank = 0; rank < count; rank++)); do
  export LOCAL_RANK=$rank RANK=$((SLURM_NODEID * count + rank)) WORLD_SIZE=$((nodes * count)) GROUP_RANK=$SLURM_NODEID
  $python "$@" &
done
for ((rank = 0; rank < count; rank++)); do wait -n || exit; done
"""


@pytest.fixture(scope="module")
def person(desk: Desk) -> Desk:
    """A desk with the scripts, and with what they start."""
    for script in SCRIPTS.iterdir():
        shutil.copy(script, desk.folder)
    (desk.folder / "show.py").write_text(SHOW)
    for folder in ("code", "setup", "programs", "images"):
        (desk.folder / folder).mkdir(exist_ok=True)
    (desk.folder / "code/ranks.py").write_text(RANKS)
    (desk.folder / "setup/profile.sh").write_text('module() { [ "$1" != load ] || export LOADED=$2; }\n')
    (desk.folder / "images/pytorch.sif").touch()
    desk.program("apptainer", APPTAINER)
    desk.program("torchrun", TORCHRUN)
    return desk


def asked(desk: Desk, job_id: str) -> dict[str, str]:
    """What Slurm holds of a job."""
    text = desk.slurm("scontrol", "show", "job", job_id)
    found = re.findall(r"(?:^|\s)([A-Za-z/]+)=(\S*)", text)
    return {name: value for name, value in found if name in (*FIELDS, *TASKS)}


def said(text: str) -> list[str]:
    return sorted(line for line in text.splitlines() if line.startswith("out: "))


def by_sbatch(desk: Desk, script: str) -> tuple[dict[str, str], list[str]]:
    """Submit a script with sbatch itself; return what was asked for, and what it said."""
    job_id = desk.slurm("sbatch", "--parsable", f"--output=by-sbatch-{script}.out", script).strip()
    run = Submitted(path=desk.folder, job_id=job_id)
    desk.wait(run)
    held = asked(desk, job_id)
    assert desk.ended(run) == "COMPLETED 0:0", (desk.folder / f"by-sbatch-{script}.out").read_text()
    return held, said((desk.folder / f"by-sbatch-{script}.out").read_text())


@pytest.mark.parametrize("name", ["mpi", "hybrid", "openmp", "gpu", "setup", "container", "mpirun"])
def test_a_batch_script_asks_for_the_same_and_says_the_same(person: Desk, name: str) -> None:
    script = f"{name}.slurm"
    held, words = by_sbatch(person, script)
    run = person.submit("--from-script", script)
    person.wait(run)
    taken = asked(person, run.job_id)
    assert person.ended(run) == "COMPLETED 0:0", run.log()
    assert taken == {**held, "JobName": held["JobName"].removesuffix(".slurm")}
    assert words and said(run.log()) == words, run.log()


def test_torchrun_gets_its_ranks_as_tasks_of_the_job(person: Desk) -> None:
    """The job is as large; but each rank is a task of it, which the words say."""
    held, words = by_sbatch(person, "torchrun.slurm")
    run = person.submit("--from-script", "torchrun.slurm")
    person.wait(run, seconds=240)
    taken = asked(person, run.job_id)
    assert person.ended(run) == "COMPLETED 0:0", run.log()
    assert {name: taken[name] for name in taken if name not in TASKS} == {
        name: held[name] for name in held if name not in TASKS
    }
    assert (held["NumTasks"], taken["NumTasks"]) == ("2", "4")
    assert len(words) == 4 and said(run.log()) == words


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("array", "array.slurm, line 3: --array=1-3%2 cannot be taken"),
        ("steps", "steps.slurm, line 6: it starts several steps (line 5: srun, line 6: srun)"),
    ],
)
def test_what_cannot_be_taken_is_named_and_nothing_is_queued(person: Desk, name: str, told: str) -> None:
    before = person.slurm("squeue", "--noheader", "--states=all")
    done = person.run("submit", "--from-script", f"{name}.slurm")
    assert (done.returncode, told in done.stderr, "--as-is" in done.stderr) == (1, True, True), done.stderr
    assert person.slurm("squeue", "--noheader", "--states=all") == before


def test_a_script_is_submitted_as_it_is(person: Desk) -> None:
    done = person.run("submit", "--as-is", "steps.slurm", "--json")
    assert done.returncode == 0, done.stderr
    run = person.newest()
    person.wait(run)
    assert said(run.log())[0] == f"out: {run.path}/code/steps.slurm is steps.slurm, in {person.folder}", run.log()
    assert len(said(run.log())) == 3
    assert (run.path / "code/steps.slurm").read_text() == (SCRIPTS / "steps.slurm").read_text()
    held = asked(person, run.job_id)
    assert (held["NumNodes"], held["NumTasks"], held["TimeLimit"]) == ("2", "2", "00:05:00")
    (state,) = json.loads(person.run("status", run.path.name, "--json").stdout)["runs"]
    assert (state["state"], state["exit_code"]) == ("COMPLETED", "0:0")
    assert "nothing is known about them" in state["reason"]
    assert person.run("wait", run.path.name).returncode == 0


def test_the_exit_code_of_a_script_that_is_submitted_as_it_is_counts(person: Desk) -> None:
    done = person.run("submit", "--as-is", "steps.slurm", "--name", "fails", "--", "7")
    assert done.returncode == 0, done.stderr
    assert person.run("wait", "fails").returncode != 0
    (state,) = json.loads(person.run("status", "fails", "--json").stdout)["runs"]
    assert (state["state"], state["exit_code"]) == ("FAILED", "7:0")


def test_a_signal_reaches_the_script_itself(person: Desk) -> None:
    (person.folder / "trap.sh").write_text(
        "#!/bin/bash\n#SBATCH --time=5 --signal=B:USR1@10\ntrap 'echo \"out: saved\"; exit 3' USR1\necho 'out: ready'\n"
        "while :; do sleep 0.2; done\n"
    )
    assert person.run("submit", "--as-is", "trap.sh").returncode == 0
    run = person.newest()
    until(lambda: "out: ready" in run.log(), "the script's first line")
    person.slurm("scancel", "--batch", "--signal=USR1", run.job_id)
    person.wait(run)
    assert said(run.log()) == ["out: ready", "out: saved"]
    assert person.ended(run) == "FAILED 3:0"


def test_a_run_of_a_foreign_script_starts_once(person: Desk) -> None:
    """Its job script, given to Slurm once more by hand, starts nothing: the run has completed."""
    assert person.run("submit", "--as-is", "steps.slurm", "--name", "once").returncode == 0
    run = person.newest()
    assert person.run("wait", "once").returncode == 0
    again = Submitted(path=run.path, job_id=person.slurm("sbatch", "--parsable", str(run.path / "job.sh")).strip())
    person.wait(again)
    assert len(said(run.log())) == 3, run.log()
