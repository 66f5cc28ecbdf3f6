"""A job that has saved its state starts again, whatever its program: rows 8, 9, 10, 11 of docs/slurm-facts.md."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.desk import HPCLAUNCH, PATIENCE_S, PROBE_JOB, Desk, Submitted, until

# Any program that keeps the contract of docs/contract.md: goes on from its checkpoint, and saves when it is asked to.
COUNTER = """
import os, signal, sys, time
rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("SLURM_PROCID") or "0"
last, code = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
place = os.path.join(os.environ["HPCLAUNCH_CHECKPOINT_DIR"], "count-" + rank)
notes = os.open(os.environ["HPCLAUNCH_RUN_DIR"] + "/notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
asked = []
for name in ("TERM", os.environ.get("HPCLAUNCH_SIGNAL") or "USR2"):
    signal.signal(getattr(signal, "SIG" + name), lambda number, frame: asked.append(signal.Signals(number).name))
def note(text):
    os.write(notes, f"rank {rank} {text}\\n".encode())
    print(f"rank {rank} {text}\\n", end="")  # at once: without a buffer print writes its words one by one
def notes_of_all():
    with open(os.environ["HPCLAUNCH_RUN_DIR"] + "/notes") as file:
        return file.read()
def all_have_saved():
    said = notes_of_all()
    ranks = range(int(os.environ["HPCLAUNCH_WORLD_SIZE"]))
    return all(said.count(f"rank {one} saved") >= said.count(f"rank {rank} saved") for one in ranks)
def save():
    with open(place + ".new", "w") as file:
        file.write(str(count))
    os.replace(place + ".new", place)
count = int(open(place).read()) if os.path.exists(place) else 0
start = os.environ["HPCLAUNCH_RESTART_COUNT"]
note(f"start {start} at {count}")
if start != "0" and "endless" not in sys.argv:
    last = count + 5
while count < last:
    time.sleep(0.1)
    count += 1
    if asked:
        save()
        note(f"saved {count} on {asked[0]}")
        # All ranks save before the first one ends, as a barrier would see to. mpirun alone asks some of them only when
        # another one has ended, if Slurm's SIGTERM reached that one and not mpirun itself.
        if "OMPI_COMM_WORLD_RANK" in os.environ and asked[0] == "SIGTERM":
            time.sleep(0.5)
        else:
            while not all_have_saved():
                time.sleep(0.1)
        sys.exit(75)
save()
note("done")
while code and notes_of_all().count("done") < int(os.environ.get("SLURM_NTASKS") or 1):
    time.sleep(0.1)  # the first rank to fail ends the others: all have said their last word
sys.exit(code)
"""
JOB: dict[str, Any] = {**PROBE_JOB, "restarts": 3, "summary": "counts"}
RANKS = range(4)
TWO = ("--nodes", "2", "--tasks-per-node", "2", "--walltime", "2h")
# So many steps that none is done before it is asked to save, however late that is.
LONG = str(10**9)
LAUNCHERS = ("srun", "mpirun")
pytestmark = pytest.mark.timeout(600)


def notes(run: Submitted) -> str:
    file = run.path / "notes"
    return file.read_text() if file.exists() else ""


def wait_for_note(run: Submitted, text: str, times: int) -> None:
    until(lambda: notes(run).count(text) >= times, f"{text!r} {times} times: {notes(run)}\n{run.log()}")


@pytest.fixture(scope="module")
def counter(desk: Desk) -> Desk:
    desk.job(
        "counter", COUNTER, **{key: value for key, value in JOB.items() if key not in PROBE_JOB or key == "summary"}
    )
    return desk


def went_on(run: Submitted, signal: str) -> None:
    """Every rank saved once and went on from there, and the run completed."""
    text = notes(run)
    for rank in RANKS:
        saved = [line.split()[3] for line in text.splitlines() if line.startswith(f"rank {rank} saved")]
        assert len(saved) == 1, text
        assert f"rank {rank} saved {saved[0]} on {signal}" in text
        assert f"rank {rank} start 1 at {saved[0]}\n" in text
        assert f"rank {rank} done\n" in text
    assert "saved; requeueing the job" in run.log()


def every_rank_is_heard(desk: Desk, run: Submitted) -> None:
    """A rank's own log has all that it noted at every start and nothing else; the job's log has all of them."""
    in_all = desk.run("logs", run.path.name).stdout.splitlines()
    for rank in RANKS:
        noted = [line for line in notes(run).splitlines() if line.startswith(f"rank {rank} ")]
        own = desk.run("logs", run.path.name, "--rank", str(rank)).stdout.splitlines()
        # The first rank to end lets mpirun end the others: bash says so of a Python that was ending by itself.
        assert [line for line in own if line != "Terminated"] == noted
        assert [line for line in in_all if line.startswith(f"rank {rank} ")] == noted


@pytest.fixture(scope="module")
def running(counter: Desk) -> dict[str, Submitted]:
    """All wait in the queue and run at the same time."""
    runs = {}
    for launcher in LAUNCHERS:
        runs[launcher] = counter.submit("counter", *TWO, "--launcher", launcher, "--", LONG)
    runs["cancelled"] = counter.submit("counter", "--nodes", "1", "--tasks-per-node", "1", "--", LONG)
    runs["own error"] = counter.submit("counter", "--nodes", "1", "--tasks-per-node", "1", "--", "3", "7")
    runs["limit"] = counter.submit(
        "counter", "--nodes", "1", "--tasks-per-node", "1", "--restarts", "1", "--", LONG, "0", "endless"
    )
    return runs


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_row_10_any_command_saves_at_the_signal_and_is_requeued(
    counter: Desk, running: dict[str, Submitted], launcher: str
) -> None:
    run = running[launcher]
    wait_for_note(run, "start 0", 4)
    counter.slurm("scancel", "--batch", "--signal=USR2", run.job_id)
    wait_for_note(run, "done", 4)
    counter.wait(run)
    went_on(run, "SIGUSR2")
    every_rank_is_heard(counter, run)
    assert counter.ended(run) == "COMPLETED 0:0"


def test_row_10_a_cancelled_job_stays_cancelled(counter: Desk, running: dict[str, Submitted]) -> None:
    run = running["cancelled"]
    wait_for_note(run, "start 0", 1)
    counter.slurm("scancel", run.job_id)
    counter.wait(run)
    assert counter.ended(run).startswith("CANCELLED")
    assert "start 1" not in notes(run)


def test_row_11_a_programs_own_error_is_never_started_again(counter: Desk, running: dict[str, Submitted]) -> None:
    run = running["own error"]
    counter.wait(run)
    assert counter.ended(run) == "FAILED 7:0"
    assert "start 1" not in notes(run)


def test_row_10_it_is_started_again_as_often_as_was_asked_for(counter: Desk, running: dict[str, Submitted]) -> None:
    run = running["limit"]
    for start in range(2):
        wait_for_note(run, f"start {start} at", 1)
        counter.slurm("scancel", "--batch", "--signal=USR2", run.job_id)
    counter.wait(run)
    assert counter.ended(run) == "FAILED 75:0"
    assert "saved; not started again: its limit is 1 restart" in run.log()
    assert f"hpclaunch resume {run.path}" in run.log()


def test_row_09_a_signal_before_the_job_begins_is_refused_and_the_usual_one_is_shortened(counter: Desk) -> None:
    short = ("submit", "counter", "--nodes", "1", "--walltime", "2m", "--dry-run")
    refused = counter.run(*short, "--signal", "USR2@120")
    assert refused.returncode == 1
    assert "--signal USR2@30" in refused.stderr
    assert "#SBATCH --signal=B:USR2@30\n" in counter.run(*short).stdout


def after_preemption(desk: Desk) -> dict[str, str]:
    """Launcher -> the exit code of the program's second start. Slurm 24.11 itself would start one that fails again."""
    return {"srun": "0" if desk.is_newer() else "3", "mpirun": "0"}


@pytest.fixture(scope="module")
def preempted(counter: Desk) -> dict[str, Submitted]:
    """Both in the partition that makes room, and a job of another partition that wants all nodes for some seconds."""
    low = ("--partition", "preempt", *TWO, "--sbatch", "--exclusive")
    runs = {
        name: counter.submit("counter", *low, "--launcher", name, "--", LONG, code)
        for name, code in after_preemption(counter).items()
    }
    for run in runs.values():
        wait_for_note(run, "start 0", 4)
    counter.slurm("sbatch", "--nodes=4", "--exclusive", "--output=/dev/null", "--wrap=sleep 1")
    return runs


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_row_08_a_preempted_run_saves_in_its_grace_and_goes_on(
    counter: Desk, preempted: dict[str, Submitted], launcher: str
) -> None:
    run = preempted[launcher]
    wait_for_note(run, "done", 4)
    counter.wait(run)
    # Its own error is not taken for what the preemption before this start brought about.
    assert counter.ended(run) == ("FAILED 3:0" if after_preemption(counter)[launcher] == "3" else "COMPLETED 0:0")
    assert "start 2" not in notes(run)
    # Slurm 24.11 queues the job once more after its second start, which has completed the run.
    nothing_left = f"nothing was started: job {run.job_id} has completed this run"
    assert (nothing_left in run.log()) is counter.is_newer()
    # Slurm sends SIGTERM to srun's steps, and to the daemons of mpirun on the other nodes. Those of Open MPI 5 kill
    # their ranks a quarter of a second later, saved or not.
    if launcher == "mpirun" and counter.is_newer():
        assert all(notes(run).count(f"rank {rank} {text}") == 1 for rank in RANKS for text in ("start 1 at", "done"))
        assert "; requeueing the job" in run.log()
    else:
        went_on(run, "SIG")


def test_row_10_where_the_site_requeues_nothing_the_script_submits_its_successor(counter: Desk) -> None:
    counter.site("chained", restart="resubmit")
    script = counter.folder / "chained.sh"
    made = counter.run("render", "counter", *TWO, "--site", "chained", "-o", str(script), "--json", "--", LONG)
    # As hpclaunch retry does: --exclude stands on sbatch's command line, not in the script.
    job_id = counter.slurm("sbatch", "--parsable", "--exclude=node2", str(script)).strip()
    run = Submitted(path=Path(json.loads(made.stdout)["run_dir"]), job_id=job_id)
    wait_for_note(run, "start 0", 4)
    follow = [HPCLAUNCH, "logs", "-f", run.path.name]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True, "cwd": counter.folder, "env": counter.shell()}
    following = [subprocess.Popen([*follow, *rank], **pipes) for rank in ((), ("--rank", "2"))]
    counter.slurm("scancel", "--batch", "--signal=USR2", run.job_id)
    wait_for_note(run, "done", 4)
    assert "saved; submitting a successor" in run.log()
    assert counter.ended(run) == "FAILED 75:0"
    [mark] = run.path.glob("attempts/*/next-job")
    told = json.loads(counter.run("wait", run.path.name, "--json").stdout)["runs"]
    successor = Submitted(path=run.path, job_id=mark.read_text().strip())
    assert (told[0]["state"], told[0]["job_id"]) == ("COMPLETED", successor.job_id)
    assert counter.field(successor, "ExcNodeList") == "node2"
    every_rank_is_heard(counter, run)
    # Who followed the logs from the first job on has heard all of the second one, too.
    merged, one = (process.communicate(timeout=PATIENCE_S)[0].splitlines() for process in following)
    assert sorted(line for line in merged if line.startswith("rank ")) == sorted(notes(run).splitlines())
    assert one == [line for line in notes(run).splitlines() if line.startswith("rank 2 ")]
