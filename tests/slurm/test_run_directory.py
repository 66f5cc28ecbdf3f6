"""The run directory holds what is needed, whatever happens around it (rows 7, 11, 12, 13, 21, 22)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.slurm.desk import PROBE, Desk, Submitted

pytestmark = pytest.mark.timeout(300)
ONE = ("--tasks-per-node", "1")


@dataclass(frozen=True, slots=True)
class Jobs:
    done: Submitted
    failed: Submitted
    edited: Submitted
    own_edited: Submitted


@pytest.fixture(scope="module")
def jobs(desk: Desk) -> Jobs:
    desk.job("probe")
    desk.job("fails", "print('it fails')\nraise SystemExit(4)")
    desk.job("edited", PROBE)
    (desk.folder / "own.sh").write_text("echo the old script; source helper.sh\n")
    (desk.folder / "helper.sh").write_text("echo the old helper\n")
    held = (*ONE, "--sbatch=--hold")
    made = Jobs(
        edited=desk.submit("edited", *held),
        own_edited=desk.submit("./own.sh", "--gpus-per-node", "0", *held),
        done=desk.submit("probe", *ONE),
        failed=desk.submit("fails", *ONE),
    )
    assert desk.states(made.edited, made.own_edited) == {
        made.edited.job_id: "PENDING",
        made.own_edited.job_id: "PENDING",
    }
    desk.job("edited", "raise SystemExit('the new code')", command=None)
    (desk.folder / "own.sh").write_text("echo the new script\n")
    desk.slurm("scontrol", "release", f"{made.edited.job_id},{made.own_edited.job_id}")
    desk.wait(made.done, made.failed, made.edited, made.own_edited)
    return made


def test_row_07_the_log_folder_is_there_before_the_job_is(desk: Desk) -> None:
    desk.job("probe")
    run = desk.submit("probe", *ONE, "--sbatch=--hold")
    try:
        assert desk.states(run) == {run.job_id: "PENDING"}
        assert (run.path / "logs").is_dir()
    finally:
        desk.slurm("scancel", run.job_id)


def test_a_secret_is_read_where_the_submitting_shell_has_it(desk: Desk) -> None:
    """The job starts without this shell's XDG_CONFIG_HOME (--export=NONE)."""
    secret = Path(desk.shell()["XDG_CONFIG_HOME"], "hpclaunch", "secrets", "TOKEN")
    secret.parent.mkdir(parents=True)
    secret.write_text("hunter2\n")
    secret.chmod(0o600)
    program = "import os\nprint(len(os.environ['TOKEN']), 'letters', os.environ.get('XDG_CONFIG_HOME'))"
    desk.job("private", program, secret_env=["TOKEN"])
    run = desk.submit("private", *ONE)
    desk.wait(run)
    assert run.log() == "7 letters None\n"


@pytest.mark.parametrize("folder", ["/tmp/hpclaunch-runs", "/dev/shm/hpclaunch-runs", "/tmp/../tmp/hpclaunch-runs"])
def test_row_07_a_folder_that_nodes_do_not_share_is_refused(desk: Desk, folder: str) -> None:
    desk.job("probe")
    done = desk.run("submit", "probe", "--runs-dir", folder)
    assert done.returncode == 1
    assert "which is local to each node of testcluster" in done.stderr
    assert not Path(folder).exists()


def test_row_11_nothing_is_requeued_and_the_log_is_appended_to(desk: Desk, jobs: Jobs) -> None:
    assert desk.field(jobs.done, "Requeue") == "0"
    script = (jobs.done.path / "job.sh").read_text()
    assert "#SBATCH --no-requeue\n" in script
    assert "#SBATCH --open-mode=append\n" in script


def test_row_11_a_job_that_asks_for_it_is_requeued_and_keeps_its_log(desk: Desk) -> None:
    desk.job(
        "again",
        "import os, time\nprint('attempt', os.environ.get('SLURM_RESTART_COUNT', '0'))\ntime.sleep(600)",
        sbatch=["--requeue"],
    )
    run = desk.submit("again", *ONE)
    try:
        assert desk.field(run, "Requeue") == "1"
        desk.wait_for_line(run, "attempt 0")
        desk.slurm("scontrol", "requeue", run.job_id)
        desk.wait_for_line(run, "attempt 1")
        assert "attempt 0" in run.log()
        assert sorted(path.name for path in (run.path / "attempts").iterdir()) == [f"{run.job_id}.0", f"{run.job_id}.1"]
    finally:
        desk.slurm("scancel", run.job_id)


def state_of(desk: Desk, run: Submitted, path: str) -> tuple[str, str]:
    """What a fresh status says with another PATH; the record is put back as it was just after submission."""
    record = run.path / "run.json"
    told = json.loads(record.read_text())
    record.write_text(json.dumps({**told, "state": "PENDING", "exit_code": "", "reason": ""}))
    (run.path / "states.jsonl").unlink(missing_ok=True)
    done = desk.run("status", str(run.path), "--json", env=desk.shell(PATH=path))
    assert done.returncode == 0, done.stderr
    (said,) = json.loads(done.stdout)["runs"]
    return said["state"], said["exit_code"]


def test_row_12_without_accounting_and_after_slurm_forgot_the_job_its_marks_tell(desk: Desk, jobs: Jobs) -> None:
    nowhere = str(desk.folder / "empty")
    assert state_of(desk, jobs.done, nowhere) == ("COMPLETED", "0:0")
    assert state_of(desk, jobs.failed, nowhere) == ("FAILED", "4:0")


def test_row_12_without_squeue_sacct_tells_and_the_other_way_round(desk: Desk, jobs: Jobs) -> None:
    for program in ("squeue", "sacct"):
        folder = desk.folder / f"only-{program}"
        folder.mkdir()
        (folder / program).symlink_to(f"/usr/bin/{program}")
        assert state_of(desk, jobs.done, str(folder))[0] == "COMPLETED"
        assert state_of(desk, jobs.failed, str(folder))[0] == "FAILED"


def test_row_12_a_job_that_nobody_knows_is_unknown_and_not_failed(desk: Desk, jobs: Jobs) -> None:
    marks = [mark for name in ("exit-code", "completed") for mark in jobs.done.path.glob(f"attempts/*/{name}")]
    assert len(marks) == 2
    for mark in marks:
        mark.rename(mark.with_name(f"hidden-{mark.name}"))
    try:
        assert state_of(desk, jobs.done, "/nowhere") == ("UNKNOWN", "")
    finally:
        for mark in marks:
            mark.with_name(f"hidden-{mark.name}").rename(mark)


def test_row_13_other_peoples_output_formats_change_nothing(desk: Desk, jobs: Jobs) -> None:
    state_of(desk, jobs.done, "/nowhere")
    shell = desk.shell(
        SQUEUE_FORMAT="%j", SACCT_FORMAT="User", SQUEUE_STATES="PD", SLURM_TIME_FORMAT="relative", SQUEUE_SORT="P"
    )
    assert (
        json.loads(desk.run("status", jobs.done.job_id, "--json", env=shell).stdout)["runs"][0]["state"] == "COMPLETED"
    )


def test_row_21_a_script_that_is_not_there_is_refused_before_anything_is_queued(desk: Desk, jobs: Jobs) -> None:
    before = len(list((desk.folder / "runs").iterdir()))
    desk.job("hollow", script="missing.py")
    for target, place in (("./nowhere.py", "nowhere.py"), ("hollow", "missing.py")):
        done = desk.run("submit", target)
        assert done.returncode == 1
        assert place in done.stderr
        assert "does not exist" in done.stderr
    assert len(list((desk.folder / "runs").iterdir())) == before


def test_row_22_code_that_is_edited_while_the_job_waits_does_not_run(desk: Desk, jobs: Jobs) -> None:
    assert desk.ended(jobs.edited) == "COMPLETED 0:0", jobs.edited.log()
    assert len(jobs.edited.ranks()) == 1


def test_row_22_nor_does_an_edited_script_of_ones_own(desk: Desk, jobs: Jobs) -> None:
    assert desk.ended(jobs.own_edited) == "COMPLETED 0:0", jobs.own_edited.log()
    assert "the old script" in jobs.own_edited.log()
    assert (jobs.own_edited.path / "code" / "helper.sh").read_text() == "echo the old helper\n"
