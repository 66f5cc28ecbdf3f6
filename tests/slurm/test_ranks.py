"""What the ranks get: all that was asked for, whatever the submitting shell holds (rows 1, 2, 3, 16, 24, 29)."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.desk import HPCLAUNCH, Desk, Submitted

pytestmark = pytest.mark.timeout(300)
LAUNCHERS = ("srun", "mpirun")
# Every job and every process has others of these.
OWN = re.compile(
    r"SLURM_(JOB_?ID|TASK_PID|LAUNCH_NODE_IPADDR|SRUN_COMM_PORT|STEP_LAUNCHER_PORT|PMIXP_ABORT_AGENT_PORT|.*NODELIST|TOPOLOGY.*"
    r"|SUBMIT_.*|SRUN_COMM_HOST|JOB_(START|END)_TIME)|SLURMD_NODENAME|PMIX.*|OMPI_(MCA_.*|FILE_LOCATION|ARGV)|HPCLAUNCH_(RUN_DIR|EXIT_FILE|CHECKPOINT_DIR|START(_DIR)?)"
    r"|PWD|OLDPWD|_|HOSTNAME|.*_PORT|MASTER_ADDR|JAX_COORDINATOR_ADDRESS"
)
HOSTILE_COMMENT = "a \"b\" 'c' \\ # $HOME `id` %j ; --nodes=3"


def lasting(rank: dict[str, Any]) -> dict[str, str]:
    return {name: value for name, value in rank["env"].items() if not OWN.fullmatch(name)}


def polluted(desk: Desk) -> dict[str, str]:
    """A shell in which much goes wrong: conda, stray paths and variables, exported functions, Slurm's own options."""
    fake = desk.folder / "conda" / "bin"
    fake.mkdir(parents=True, exist_ok=True)
    for name in ("srun", "mpirun", "python3", "bash"):
        (fake / name).write_text("#!/bin/sh\necho the wrong program\nexit 99\n")
        (fake / name).chmod(0o755)
    (desk.folder / "conda" / "poison.py").write_text("raise SystemExit(98)\n")
    (desk.folder / "conda" / "bash_env").write_text("export FROM_BASH_ENV=1\n")
    shell = desk.shell()
    return {
        **shell,
        "PATH": f"{fake}:{shell['PATH']}",
        "CONDA_PREFIX": str(fake.parent),
        "CONDA_DEFAULT_ENV": "wrong",
        "PYTHONPATH": str(fake.parent),
        "PYTHONSTARTUP": "/nowhere",
        "LD_LIBRARY_PATH": str(fake.parent),
        "OMP_NUM_THREADS": "999",
        "OMP_PROC_BIND": "close",
        "CUDA_VISIBLE_DEVICES": "9",
        "HOROVOD_FUSION_THRESHOLD": "0",
        "TF_CONFIG": "{}",
        "BASH_ENV": str(fake.parent / "bash_env"),
        "BASH_FUNC_srun%%": "() {  echo the wrong srun\n}",
        "BASH_FUNC_mpirun%%": "() {  echo the wrong mpirun\n}",
        "BASH_FUNC_python3%%": "() {  echo the wrong python\n}",
        "BASH_FUNC_wait%%": "() {  return 0\n}",
        "BASH_FUNC_cd%%": "() {  return 1\n}",
    }


SBATCH_OPTIONS = {
    "SBATCH_EXPORT": "ALL",
    "SBATCH_TIMELIMIT": "5",
    "SBATCH_GPUS_PER_TASK": "1",
    "SBATCH_NO_REQUEUE": "0",
    "SBATCH_OPEN_MODE": "truncate",
    "SBATCH_REQUEUE": "1",
}


@dataclass(frozen=True, slots=True)
class Jobs:
    clean: dict[str, Submitted]
    polluted: dict[str, Submitted]
    by_hand: Submitted
    some_gpus: Submitted
    chosen: Submitted


@pytest.fixture(scope="module")
def jobs(desk: Desk) -> Jobs:
    desk.job("probe")
    desk.job("gpus", resources={"cpus_per_task": 2})
    small = ("probe", "--nodes", "2", "--tasks-per-node", "2", "--launcher")
    shell = polluted(desk)
    made = Jobs(
        clean={name: desk.submit(*small, name) for name in LAUNCHERS},
        polluted={name: desk.submit(*small, name, env={**shell, **SBATCH_OPTIONS}) for name in LAUNCHERS},
        by_hand=by_hand(desk, small[:-1], shell),
        some_gpus=desk.submit("gpus", "--nodes", "2", "--tasks-per-node", "2"),
        chosen=desk.submit(
            *small[:-1],
            "--walltime=7m",
            f"--sbatch=--comment={HOSTILE_COMMENT}",
            "--sbatch=--nice=3",
            env=desk.shell(SBATCH_PARTITION="debug", SBATCH_ACCOUNT="physics", SBATCH_QOS="short", **SBATCH_OPTIONS),
        ),
    )
    desk.wait(*made.clean.values(), *made.polluted.values(), made.by_hand, made.some_gpus, made.chosen)
    return made


def by_hand(desk: Desk, arguments: tuple[str, ...], shell: dict[str, str]) -> Submitted:
    """Render to a file, and give it to sbatch."""
    done = desk.run("render", *arguments, "-o", "by-hand.sh", "--json")
    assert done.returncode == 0, done.stderr
    said = subprocess.run(
        ["/usr/bin/sbatch", "--parsable", "by-hand.sh"],
        cwd=desk.folder,
        env=shell,
        capture_output=True,
        text=True,
        check=True,
    )
    return Submitted(path=Path(json.loads(done.stdout)["run_dir"]), job_id=said.stdout.strip())


def test_row_01_submitted_from_inside_another_job(desk: Desk) -> None:
    desk.job("gpus", resources={})
    inner = " ".join(map(shlex.quote, [HPCLAUNCH, "submit", "gpus", "--nodes", "4", "--json"]))
    outer = f"""#!/bin/bash
#SBATCH --ntasks=1
#SBATCH --gpus-per-task=1
#SBATCH --mem-per-cpu=100
#SBATCH --partition=debug
#SBATCH --account=physics
#SBATCH --output=outer.out
export SLURM_CPU_BIND=quiet,mask_cpu:0x1 SLURM_CPU_BIND_TYPE=mask_cpu: SBATCH_TIMELIMIT=1 SBATCH_PARTITION=debug
export SLURM_NTASKS=1 SRUN_CPUS_PER_TASK=7 PMI_RANK=0 OMPI_COMM_WORLD_SIZE=1
{inner} > inner.json
"""
    (desk.folder / "outer.sh").write_text(outer)
    desk.slurm("sbatch", "--wait", "outer.sh")
    told = json.loads((desk.folder / "inner.json").read_text())
    run = Submitted(path=Path(told["run_dir"]), job_id=told["job_id"])
    desk.wait(run)
    assert desk.ended(run) == "COMPLETED 0:0", run.log()
    ranks = run.ranks()
    assert len(ranks) == 16
    assert {rank["env"]["CUDA_VISIBLE_DEVICES"] for rank in ranks} == {"0,1,2,3"}
    assert {rank["env"]["SLURM_CPUS_PER_TASK"] for rank in ranks} == {"2"}
    leaked = {
        "SLURM_MEM_PER_CPU",
        "SLURM_GPUS_PER_TASK",
        "SBATCH_TIMELIMIT",
        "SBATCH_PARTITION",
        "SRUN_CPUS_PER_TASK",
        "PMI_RANK",
    }
    assert not any(leaked & set(rank["env"]) for rank in ranks)
    assert all("mask_cpu" not in rank["env"].get("SLURM_CPU_BIND", "") for rank in ranks)
    # Inside a job SBATCH_* and the job's own account are not what the user typed.
    assert desk.field(run, "Partition") == "batch"
    assert desk.field(run, "TimeLimit") == "00:30:00"


def test_row_02_every_task_gets_its_cpus(jobs: Jobs) -> None:
    assert {rank["env"]["SLURM_CPUS_PER_TASK"] for rank in jobs.some_gpus.ranks()} == {"2"}
    assert {rank["env"]["OMP_NUM_THREADS"] for rank in jobs.some_gpus.ranks()} == {"2"}


def test_rows_3_and_29_every_rank_sees_the_gpus_that_slurm_gave_its_node(jobs: Jobs) -> None:
    ranks = jobs.some_gpus.ranks()
    assert len(ranks) == 4
    assert all(len(rank["env"]["CUDA_VISIBLE_DEVICES"].split(",")) == 2 for rank in ranks)
    assert all(rank["env"]["CUDA_VISIBLE_DEVICES"] == rank["env"]["SLURM_JOB_GPUS"] for rank in ranks)
    assert "CUDA_VISIBLE_DEVICES" not in (jobs.some_gpus.path / "job.sh").read_text()


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_row_24_the_submitting_shell_changes_nothing(desk: Desk, jobs: Jobs, launcher: str) -> None:
    clean, other = jobs.clean[launcher], jobs.polluted[launcher]
    assert desk.ended(clean) == desk.ended(other) == "COMPLETED 0:0", other.log()
    for one, two in zip(clean.ranks(), other.ranks(), strict=True):
        assert lasting(one) == lasting(two)


def test_row_24_nor_does_it_for_a_script_given_to_sbatch_by_hand(desk: Desk, jobs: Jobs) -> None:
    assert desk.ended(jobs.by_hand) == "COMPLETED 0:0", jobs.by_hand.log()
    for one, two in zip(jobs.clean["srun"].ranks(), jobs.by_hand.ranks(), strict=True):
        assert lasting(one) == lasting(two)


def test_row_01_the_shells_account_partition_and_qos_are_used_and_its_other_options_are_not(
    desk: Desk, jobs: Jobs
) -> None:
    run = jobs.chosen
    assert desk.field(run, "Partition") == "debug"
    assert desk.field(run, "Account") == "physics"
    assert desk.field(run, "QOS") == "short"
    assert desk.field(run, "TimeLimit") == "00:07:00"
    assert desk.field(run, "Requeue") == "0"
    shown = desk.run("submit", "probe", "--dry-run", env=desk.shell(SBATCH_PARTITION="debug"))
    assert re.search(r"partition +debug +\(SBATCH_PARTITION\)", shown.stderr)
    assert "#SBATCH --partition=debug\n" in shown.stdout


def test_row_16_the_job_has_the_scripts_directives_and_no_others(desk: Desk, jobs: Jobs) -> None:
    script = (jobs.clean["srun"].path / "job.sh").read_text()
    names = re.findall(r"^#SBATCH --([a-z-]+)", script, re.MULTILINE)
    assert names == (
        [
            "job-name",
            "partition",
            "nodes",
            "ntasks-per-node",
            "cpus-per-task",
            "time",
            "chdir",
            "output",
            "open-mode",
            "no-requeue",
            "export",
        ]
    )
    told = desk.slurm("scontrol", "show", "job", jobs.clean["srun"].job_id)
    for word in (
        "Requeue=0",
        "NumNodes=2 NumCPUs=4 NumTasks=4 CPUs/Task=1",
        "NtasksPerN:B:S:C=2:0:*:*",
        "Features=(null)",
    ):
        assert word in told
    # Newer versions show --cpus-per-task in this way as well.
    assert re.findall(r"TresPer\w+=\S+", told) == (["TresPerTask=cpu=1"] if desk.is_newer() else [])
    assert "Comment=" not in told and "Nice=0" in told


def test_row_16_a_job_sent_by_hand_is_the_same_job(desk: Desk, jobs: Jobs) -> None:
    """Compare what Slurm knows of both, apart from what every job has of its own."""
    runs = (jobs.clean["srun"], jobs.by_hand)
    told = [desk.slurm("scontrol", "show", "job", run.job_id).replace(str(run.path), "RUN").split() for run in runs]
    own = re.compile(
        r"(JobId|\w*Time|LastSchedEval|SchedNodeList|NodeList|BatchHost|AllocNode:Sid|Command|Priority|Scheduler|StdOut|StdErr)="
    )
    one, two = ([word for word in words if not own.match(word)] for words in told)
    assert one == two


def test_rows_16_and_17_any_other_option_of_sbatch_arrives_as_it_was_typed(desk: Desk, jobs: Jobs) -> None:
    assert f"   Comment={HOSTILE_COMMENT} \n" in desk.slurm("scontrol", "show", "job", jobs.chosen.job_id)
    assert desk.field(jobs.chosen, "NumNodes") == "2"
    assert "Nice=3" in desk.slurm("scontrol", "show", "job", jobs.chosen.job_id)


def test_row_16_what_hpclaunch_writes_itself_is_refused(desk: Desk, jobs: Jobs) -> None:
    before = len(list((desk.folder / "runs").iterdir()))
    for option in ("--nodes=9", "--export=ALL", "--comment=a\n#SBATCH --nodes=9", "comment=x", "-N9"):
        done = desk.run("submit", "probe", f"--sbatch={option}")
        assert done.returncode == 1, option
        assert "--nodes" in done.stderr or "--export" in done.stderr or "is not a single sbatch option" in done.stderr
    assert len(list((desk.folder / "runs").iterdir())) == before


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_ranks_of_each_node_are_listed_for_its_sampler_with_the_kernels_account(jobs: Jobs, launcher: str) -> None:
    run = jobs.clean[launcher]
    files = sorted((run.path / "samples").glob(f"*-{run.job_id}.0.ranks"))
    words = [[line.split()[:2] for line in file.read_text().splitlines()] for file in files]
    assert [sorted(map(tuple, one)) for one in words] == [
        [("begin", first), ("begin", second), ("end", first), ("end", second)]
        for first, second in (("0", "1"), ("2", "3"))
    ]
