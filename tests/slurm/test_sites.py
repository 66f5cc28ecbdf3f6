"""What a site file promises, on a real Slurm: GPUs, tasks, containers, launchers (rows 3, 5, 16, 23, 28, 29)."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from tests.slurm.desk import PROBE, Desk, Submitted
from tests.slurm.test_typed_text import HOSTILE

pytestmark = pytest.mark.timeout(300)

ORDER = {"CUDA_VISIBLE_DEVICES": "3,2,1,0"}
WAYS: dict[str, dict[str, str]] = {
    "by-task": {"directive": "gpus-per-task", "srun": "gpus-per-task"},
    "by-gpus": {"directive": "gpus"},
    "by-gres": {"directive": "gres"},
    "by-nothing": {"directive": "none"},
}
IMAGE = "/images/one of ours.sif"
# A container runtime that is none: it writes down what it was called with, and runs what stands after the image.
APPTAINER = """#!/bin/bash
printf '%s\\0' "$SLURM_PROCID" "$SLURM_STEP_ID" "$@" > "$HPCLAUNCH_RUN_DIR/box-$SLURM_PROCID"
while [ "$1" != "/images/one of ours.sif" ]; do shift || exit 90; done
shift
exec env INSIDE_THE_BOX=yes "$@"
"""
# A torchrun that starts as many ranks as it is told to, and nothing else of PyTorch's.
TORCHRUN = """#!/bin/bash
printf '%s\\0' "$@" > "$HPCLAUNCH_RUN_DIR/torchrun-$SLURM_NODEID"
while [ "$1" != --no_python ]; do
  case "$1" in
    --nproc_per_node=*) here=${1#*=} ;;
    --nnodes=*) nodes=${1#*=} ;;
  esac
  shift || exit 90
done
shift
export WORLD_SIZE=$((here * nodes)) LOCAL_RANK
for ((LOCAL_RANK = 0; LOCAL_RANK < here; LOCAL_RANK++)); do
  RANK=$((SLURM_NODEID * here + LOCAL_RANK)) "$@" &
  children+=($!)
done
for child in "${children[@]}"; do wait "$child" || exit $?; done
"""
# As TACC's user guides tell of ibrun: nodes and tasks are the job's. The command line is put together as text.
IBRUN = """#!/bin/bash
[ -n "$SLURM_NNODES" ] && [ -n "$SLURM_NTASKS" ] || exit 91
echo "TACC: starting up job $SLURM_JOB_ID"
eval "srun --nodes=$SLURM_NNODES --ntasks=$SLURM_NTASKS --mpi=pmix $*"
"""
TORCH_PROBE = PROBE.replace('"SLURM_PROCID"', '"RANK"') + 'print(f"rank {rank} is here\\n", end="")\n'


@dataclass(frozen=True, slots=True)
class Jobs:
    all_gpus: Submitted
    some_gpus: Submitted
    ways: dict[str, Submitted]
    bare: Submitted
    boxed: Submitted
    torchrun: Submitted
    ibrun: Submitted


@pytest.fixture(scope="module")
def jobs(desk: Desk) -> Jobs:
    desk.job("probe")
    desk.job("gpus", resources={"cpus_per_task": 1})
    desk.job("boxed", environment={"container": IMAGE, "python": "/usr/bin/python3"})
    desk.job("torch", code=TORCH_PROBE)
    two_by_two = ("--nodes", "2", "--tasks-per-node", "2")
    desk.site("reversed", node_types__gpu__whole_node={"variables": ORDER})
    for name, way in WAYS.items():
        # Where a job says its GPUs as one number, Slurm may give four as three and one: so whole nodes.
        desk.site(name, gpus=way, node_types__gpu__whole_nodes=way["directive"] == "gpus")
    # What a site without tasks in directives has besides (ARCHER2): whole nodes.
    desk.site("bare", task_directives=[], node_types__gpu__whole_nodes=True, sbatch=["--exclusive"])
    desk.settings(
        sites={
            "bare": {
                "mail": {"to": "someone@example.org", "events": ["END", "TIME_LIMIT_80"]},
                "sbatch": ["--comment=said by the project"],
                "remove": ["--no-requeue", "PYTHONUNBUFFERED"],
            }
        }
    )
    desk.site("boxes", container={"runtime": "apptainer"}, environment__setup=[desk.program("apptainer", APPTAINER)])
    desk.site("torches", environment__setup=[desk.program("torchrun", TORCHRUN)])
    desk.site(
        "tacc",
        launchers={"default": "ibrun", "options": {"ibrun": {}}},
        task_directives=["ntasks", "ntasks-per-node"],
        environment__setup=[desk.program("ibrun", IBRUN)],
    )
    made = Jobs(
        bare=desk.submit("probe", "--site", "bare", *two_by_two),
        all_gpus=desk.submit("gpus", "--site", "reversed", "--nodes", "2"),
        some_gpus=desk.submit("gpus", "--site", "reversed", *two_by_two),
        ways={name: desk.submit("gpus", "--site", name, *two_by_two) for name in WAYS},
        boxed=desk.submit("boxed", "--site", "boxes", *two_by_two, "--", "two words", "$HOME"),
        torchrun=desk.submit("torch", "--site", "torches", "--launcher", "torchrun", *two_by_two, "--", "two words"),
        ibrun=desk.submit("probe", "--site", "tacc", *two_by_two, "--", *HOSTILE),
    )
    desk.wait(made.all_gpus, made.some_gpus, *made.ways.values(), made.bare, made.boxed, made.torchrun, made.ibrun)
    return made


def visible(run: Submitted) -> list[str | None]:
    """CUDA_VISIBLE_DEVICES of every rank, by rank."""
    return [rank["env"].get("CUDA_VISIBLE_DEVICES") for rank in run.ranks()]


def test_row_29_all_gpus_of_a_node_are_seen_in_the_sites_order(desk: Desk, jobs: Jobs) -> None:
    assert desk.ended(jobs.all_gpus) == "COMPLETED 0:0", jobs.all_gpus.log()
    assert visible(jobs.all_gpus) == ["3,2,1,0"] * 8


def test_row_29_with_some_gpus_of_a_node_the_order_is_left_out(desk: Desk, jobs: Jobs) -> None:
    assert desk.ended(jobs.some_gpus) == "COMPLETED 0:0", jobs.some_gpus.log()
    seen = visible(jobs.some_gpus)
    assert seen == [rank["env"]["SLURM_STEP_GPUS"] for rank in jobs.some_gpus.ranks()]
    assert [len(str(devices).split(",")) for devices in seen] == [2] * 4


def test_rows_3_and_28_gpus_by_the_task_are_hidden_from_no_rank_of_the_node(desk: Desk, jobs: Jobs) -> None:
    """They see those of their job on the node, and none of other jobs, also without a cgroup (decision 65)."""
    run = jobs.ways["by-task"]
    assert desk.ended(run) == "COMPLETED 0:0", run.log()
    assert desk.tres(run).endswith("gres/gpu=4")
    seen = [(str(rank["env"]["SLURM_NODEID"]), rank["env"].get("CUDA_VISIBLE_DEVICES")) for rank in run.ranks()]
    assert [node for node, _ in seen] == ["0", "0", "1", "1"]
    assert all(len(set(str(devices).split(","))) == 2 for _, devices in seen), seen
    assert len(set(seen)) == 2, "ranks of a node see other GPUs than each other"


def test_row_03_gpus_by_the_job_are_all_of_its_whole_nodes_for_every_rank(desk: Desk, jobs: Jobs) -> None:
    run = jobs.ways["by-gpus"]
    assert desk.ended(run) == "COMPLETED 0:0", run.log()
    assert "#SBATCH --gpus=8\n" in (run.path / "job.sh").read_text()
    assert desk.tres(run).endswith("gres/gpu=8")
    assert visible(run) == ["0,1,2,3"] * 4


def test_row_03_gpus_by_gres_are_seen_by_all_ranks_of_the_node(desk: Desk, jobs: Jobs) -> None:
    run = jobs.ways["by-gres"]
    assert desk.ended(run) == "COMPLETED 0:0", run.log()
    assert "#SBATCH --gres=gpu:2\n" in (run.path / "job.sh").read_text()
    assert desk.tres(run).endswith("gres/gpu=4")
    seen = visible(run)
    assert [len(str(devices).split(",")) for devices in seen] == [2] * 4
    assert seen[0] == seen[1] and seen[2] == seen[3]


def test_row_28_where_gpus_come_with_the_nodes_the_script_asks_for_none(desk: Desk, jobs: Jobs) -> None:
    """Here they do not come with the nodes, so that the ranks see what they would see at such a site without any."""
    run = jobs.ways["by-nothing"]
    assert desk.ended(run) == "COMPLETED 0:0", run.log()
    assert not re.search("--(gpu|gres)", (run.path / "job.sh").read_text())
    assert "gres/gpu" not in desk.tres(run)
    assert visible(run) == [None] * 4


def test_row_16_without_tasks_in_directives_srun_alone_makes_the_same_ranks(desk: Desk, jobs: Jobs) -> None:
    assert desk.ended(jobs.bare) == "COMPLETED 0:0", jobs.bare.log()
    assert not re.search("#SBATCH --(ntasks|cpus)", (jobs.bare.path / "job.sh").read_text())
    ranks = jobs.bare.ranks()
    hosts = [rank["host"] for rank in ranks]
    assert hosts[0] == hosts[1] != hosts[2] == hosts[3] and len(ranks) == 4
    assert [rank["env"]["SLURM_LOCALID"] for rank in ranks] == ["0", "1", "0", "1"]
    assert {rank["env"]["SLURM_CPUS_PER_TASK"] for rank in ranks} == {"1"}


def test_row_16_what_settings_add_and_remove_reaches_slurm(desk: Desk, jobs: Jobs) -> None:
    told = desk.slurm("scontrol", "show", "job", jobs.bare.job_id)
    assert "MailUser=someone@example.org MailType=END,TIME_LIMIT_80" in told
    assert "   Comment=said by the project \n" in told
    assert desk.field(jobs.bare, "Requeue") == "1"
    assert not any("PYTHONUNBUFFERED" in rank["env"] for rank in jobs.bare.ranks())


def test_row_05_horovodrun_on_several_nodes_is_refused_with_what_works_instead(desk: Desk, jobs: Jobs) -> None:
    before = sorted((desk.folder / "runs").iterdir())
    done = desk.run("submit", "probe", "--nodes", "2", "--launcher", "horovodrun")
    assert done.returncode == 1
    assert "horovodrun needs ssh between nodes" in done.stderr
    assert "next: --launcher srun" in done.stderr
    assert sorted((desk.folder / "runs").iterdir()) == before


def test_row_23_every_rank_goes_through_the_container_which_srun_starts(desk: Desk, jobs: Jobs) -> None:
    """The runtime is a stand-in: a real one needs an image. What is shown is who starts whom, and with which words."""
    run = jobs.boxed
    assert desk.ended(run) == "COMPLETED 0:0", run.log()
    ranks = run.ranks()
    assert [rank["env"]["INSIDE_THE_BOX"] for rank in ranks] == ["yes"] * 4
    assert [rank["argv"] for rank in ranks] == [["two words", "$HOME"]] * 4
    inside = ["/usr/bin/python3", f"{run.path}/code/probe.py", "two words", "$HOME"]
    for number in range(4):
        process, step, *words = (run.path / f"box-{number}").read_text().split("\0")[:-1]
        assert (process, step) == (str(number), "0")  # srun's own: the runtime is a task of its first step
        assert words == ["exec", "--bind", str(run.path), IMAGE, *inside]


def test_torchrun_is_started_once_on_every_node_and_all_meet_at_one_place(desk: Desk, jobs: Jobs) -> None:
    """torchrun is a stand-in, so that PyTorch need not be there."""
    run = jobs.torchrun
    assert desk.ended(run) == "COMPLETED 0:0", run.log()
    calls = [file.read_text().split("\0")[:-1] for file in sorted(run.path.glob("torchrun-*"))]
    assert len(calls) == 2
    for call in calls:
        assert call[:6] == ["--nnodes=2", "--nproc_per_node=2", "--rdzv_backend=c10d", "--no_python", "bash", "-c"]
    ranks = run.ranks()
    assert [rank["env"]["LOCAL_RANK"] for rank in ranks] == ["0", "1", "0", "1"]
    assert [rank["argv"] for rank in ranks] == [["two words"]] * 4
    meeting = f"{desk.field(run, 'BatchHost')}:{20000 + int(run.job_id) % 10000}"
    assert {rank["env"]["PET_RDZV_ENDPOINT"] for rank in ranks} == {meeting}
    assert {rank["env"]["PET_RDZV_ID"] for rank in ranks} == {run.job_id}
    assert [desk.run("logs", run.path.name, "--rank", str(rank)).stdout for rank in range(4)] == [
        f"rank {rank} is here\n" for rank in range(4)
    ]


def test_row_17_arguments_reach_every_rank_through_an_ibrun_that_splits_words(desk: Desk, jobs: Jobs) -> None:
    """ibrun is a stand-in that evaluates its words a second time; TACC's own is not to be had elsewhere."""
    run = jobs.ibrun
    assert desk.ended(run) == "COMPLETED 0:0", run.log()
    assert "TACC: starting up job" in run.log()
    ranks = run.ranks()
    assert len({rank["host"] for rank in ranks}) == 2
    assert [rank["argv"] for rank in ranks] == [HOSTILE] * 4
    assert not list(desk.folder.rglob("sneaked-in"))
