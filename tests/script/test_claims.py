"""Who may start in a run directory: the library's claims, with stand-ins for Slurm's programs and real processes."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.builders import with_library

HERE = os.uname().nodename
SILENT = "squeue() { echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; return 1; }; sleep() { :; }"
FORGOTTEN = "squeue() { echo 'slurm_load_jobs error: Invalid job id specified' >&2; return 1; }"


def says(state: str) -> str:
    """A squeue that knows the job in this state, and an accounting that knows nothing."""
    return f"squeue() {{ echo {state}; }}; sacct() {{ :; }}"


def claimed(run: Path, start: str, stand_ins: str = "sacct() { :; }", scheduler: str = "slurm") -> tuple[int, str]:
    """The exit code and the words of a start that claims the directory."""
    job, _, restart = start.rpartition(".")
    known = f"job={job} restart={restart} scheduler={scheduler} HPCLAUNCH_RUN_DIR={shlex.quote(str(run))}"
    done = with_library(f"{stand_ins}\n{known}; claim")
    return done.returncode, done.stderr


def claims(run: Path) -> list[str]:
    """The starts that have claimed the directory, oldest first."""
    files = sorted((run / "claims").glob("[0-9]*"), key=lambda file: int(file.name))
    return [file.read_text().split()[0] for file in files]


def left(run: Path, start: str, claim: str = "", **marks: str) -> None:
    """A start of before: its claim, and the marks that it left. A job that waits has only a claim."""
    folder = run / "claims"
    folder.mkdir(exist_ok=True)
    (folder / str(len(claims(run)) + 1)).write_text(f"{claim or f'{start} node1 1 1'}\n")
    if claim == start:
        return
    attempt = run / "attempts" / start
    (attempt / "ranks").mkdir(parents=True, exist_ok=True)
    for name, text in marks.items():
        (attempt / name.replace("_", "-")).write_text(f"{text}\n")


def variables_of(job: str, restart: int) -> dict[str, str]:
    """What Slurm sets in a job, or in a task ARRAY_TASK of an array."""
    array, _, task = job.partition("_")
    of_task = {"SLURM_ARRAY_JOB_ID": array, "SLURM_ARRAY_TASK_ID": task} if task else {}
    return {"SLURM_JOB_ID": array, "SLURM_RESTART_COUNT": str(restart), **of_task}


def test_the_first_start_takes_the_directory(tmp_path: Path) -> None:
    assert claimed(tmp_path, "7.0") == (0, "")
    words = (tmp_path / "claims/1").read_text().split()
    assert (words[:2], words[2].isdigit(), words[3].isdigit()) == (["7.0", HERE], True, True)
    assert [file.name for file in (tmp_path / "claims").iterdir()] == ["1"]


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "COMPLETING", "SUSPENDED", "REQUEUE_HOLD"])
def test_while_its_job_goes_on_another_start_is_refused_and_told_what_to_type(tmp_path: Path, state: str) -> None:
    left(tmp_path, "7.0")
    code, said = claimed(tmp_path, "8.0", says(state))
    assert code == 78
    assert f"nothing was started: job 7 has this run directory and is {state}" in said
    assert f"hpclaunch status {tmp_path}" in said and f"hpclaunch cancel {tmp_path} ends it" in said
    assert claims(tmp_path) == ["7.0"]


def test_while_slurm_is_silent_it_is_asked_again_and_then_the_start_is_refused(tmp_path: Path) -> None:
    left(tmp_path, "7.0", exit_code="1")
    code, said = claimed(tmp_path, "8.0", SILENT)
    assert (code, said.count("trying again in ")) == (78, 5)
    assert "it is not known whether it has ended" in said and f"echo free > {tmp_path}/claims/2, and" in said
    twice = "squeue() { [ -e x ] || { : > x; return 1; }; echo FAILED; }; sleep() { :; }"
    assert claimed(tmp_path, "8.0", f"cd {tmp_path}; {twice}")[0] == 0


@pytest.mark.parametrize("answer", [says("COMPLETED"), says("FAILED"), says(""), FORGOTTEN])
@pytest.mark.parametrize("marks", [{"completed": "7.0 4", "exit_code": "0"}, {"completed": "7.0 4"}])
def test_after_it_completed_a_start_is_refused(tmp_path: Path, answer: str, marks: dict[str, str]) -> None:
    left(tmp_path, "7.0", **marks)
    code, said = claimed(tmp_path, "8.0", answer)
    assert (code, claims(tmp_path)) == (78, ["7.0"])
    assert f"job 7 has completed this run. See hpclaunch results {tmp_path}" in said
    assert said.endswith(f"To start this one again anyway: echo free > {tmp_path}/claims/2\n")


@pytest.mark.parametrize("answer", [says("COMPLETED"), f"{FORGOTTEN}; sacct() {{ echo COMPLETED; }}"])
@pytest.mark.parametrize("completed", ["", "7.1 4", "17.0 4", "7.0x 4"], ids=["no", "of 7.1", "of 17.0", "of 7.0x"])
def test_neither_an_exit_code_nor_slurm_proves_a_success(tmp_path: Path, answer: str, completed: str) -> None:
    left(tmp_path, "7.0", exit_code="0", **({"completed": completed} if completed else {}))
    assert claimed(tmp_path, "8.0", answer) == (0, "")


@pytest.mark.parametrize(
    ("has_ranks", "mark", "code", "is_complete"),
    [(False, True, "0", True), (True, True, "0", False), (False, False, "0", False), (False, True, "1", False)],
)
def test_the_empty_mark_of_an_older_hpclaunch_counts_beside_its_exit_code(
    tmp_path: Path, has_ranks: bool, mark: bool, code: str, is_complete: bool
) -> None:
    left(tmp_path, "7.0", exit_code=code)
    start = tmp_path / "attempts/7.0"
    if mark:
        (start / "completed").touch()
    if not has_ranks:
        (start / "ranks").rmdir()
    assert claimed(tmp_path, "8.0", FORGOTTEN)[0] == (78 if is_complete else 0)


@pytest.mark.parametrize("answer", [says(state) for state in ("FAILED", "TIMEOUT", "NODE_FAIL", "''")] + [FORGOTTEN])
@pytest.mark.parametrize("mark", ["", "1", "75"])
def test_after_a_failure_the_next_start_takes_the_directory(tmp_path: Path, answer: str, mark: str) -> None:
    left(tmp_path, "7.0", **({"exit_code": mark} if mark else {}))
    assert claimed(tmp_path, "8.0", f"{answer}; sacct() {{ :; }}") == (0, "")
    assert claims(tmp_path) == ["7.0", "8.0"]
    assert claimed(tmp_path, "9.0", says("RUNNING"))[0] == 78


def test_a_requeued_job_keeps_the_directory_whatever_its_last_start_left(tmp_path: Path) -> None:
    left(tmp_path, "7.0", exit_code="75")
    assert claimed(tmp_path, "7.1", "squeue() { exit 1; }") == (0, "")
    left(tmp_path, "7.1", claim=(tmp_path / "claims/2").read_text().strip(), exit_code="3")
    assert claimed(tmp_path, "7.2", "squeue() { exit 1; }") == (0, "")


@pytest.mark.parametrize("job", ["7", "7_1"])
def test_a_job_that_is_queued_again_after_it_completed_starts_nothing_and_ends_with_0(tmp_path: Path, job: str) -> None:
    """As Slurm 24.11 queues it: a failure would replace its state COMPLETED."""
    left(tmp_path, f"{job}.1", exit_code="0", completed=f"{job}.1 1")
    for restart in (2, 3):
        variables = variables_of(job, restart)
        of_array = "export HPCLAUNCH_ARRAY_DIR=$HPCLAUNCH_RUN_DIR; " if "SLURM_ARRAY_JOB_ID" in variables else ""
        done = with_library(f"{of_array}begin slurm; echo begun", HPCLAUNCH_RUN_DIR=str(tmp_path), **variables)
        assert (done.returncode, done.stdout) == (0, "")
        assert f"nothing was started: job {job} has completed this run" in done.stderr
        assert f"To start this one again anyway: echo free > {tmp_path}/claims/2" in done.stderr
    assert claims(tmp_path) == os.listdir(tmp_path / "attempts") == [f"{job}.1"]


def test_a_completed_job_that_is_queued_again_by_hand_starts_without_its_claims(tmp_path: Path) -> None:
    left(tmp_path, "7.0", exit_code="0", completed="7.0 1")
    shutil.rmtree(tmp_path / "claims")
    assert claimed(tmp_path, "7.1", SILENT) == (0, "")
    assert [file.name for file in (tmp_path / "claims").iterdir()] == ["4"], "higher than that of any start before"
    assert claimed(tmp_path, "8.0", says("FAILED")) == (0, "")
    assert (tmp_path / "claims/5").read_text().startswith("8.0 ")


@pytest.mark.parametrize(("code", "skipped"), [("", 6), ("69", 6), ("75", 0), ("1", 0), ("0", 0)])
def test_ranks_that_outlive_a_start_do_not_share_a_step_number_with_the_next(
    tmp_path: Path, code: str, skipped: int
) -> None:
    """Slurm counts the steps of a requeued job from 0 again, and ends the step whose number an old one had."""
    left(tmp_path, "7.0", exit_code="75")
    left(tmp_path, "7.2", **({"exit_code": code} if code else {}))
    programs = f'scontrol() {{ :; }}; timeout() {{ shift; echo "$*" >> {tmp_path}/steps; }}'
    done = with_library(
        f"{programs}; begin slurm restarts=9", HPCLAUNCH_RUN_DIR=str(tmp_path), **variables_of("7", restart=3)
    )
    assert (done.returncode, claims(tmp_path)[-1]) == (0, "7.3"), done.stderr
    made = (tmp_path / "steps").read_text().splitlines() if (tmp_path / "steps").exists() else []
    assert [line.split()[0] for line in made] == ["srun"] * skipped


def test_a_new_job_counts_its_own_steps(tmp_path: Path) -> None:
    left(tmp_path, "7.0")
    programs = f"{says('NODE_FAIL')}; scontrol() {{ :; }}; timeout() {{ : > {tmp_path}/steps; }}"
    done = with_library(f"{programs}; begin slurm restarts=9", HPCLAUNCH_RUN_DIR=str(tmp_path), **variables_of("8", 0))
    assert (done.returncode, (tmp_path / "steps").exists()) == (0, False), done.stderr


def test_a_requeued_job_that_another_start_has_followed_is_refused(tmp_path: Path) -> None:
    left(tmp_path, "7.0", exit_code="1")
    left(tmp_path, "8.0")
    code, said = claimed(tmp_path, "7.1", says("RUNNING"))
    assert (code, "job 8 has this run directory" in said) == (78, True)


@pytest.mark.parametrize("answer", ["8\n", "8;cluster\n"])
def test_a_successor_that_the_script_submitted_follows_at_once_and_nobody_else_does(
    tmp_path: Path, answer: str
) -> None:
    left(tmp_path, "7.0", exit_code="75", next_job=answer.strip())
    code, said = claimed(tmp_path, "9.0", says("PENDING"))
    assert (code, "job 8 has this run directory and is PENDING" in said) == (78, True)
    assert claimed(tmp_path, "8.0", SILENT) == (0, "")


def test_after_a_successor_that_was_cancelled_the_next_start_takes_the_directory(tmp_path: Path) -> None:
    left(tmp_path, "7.0", exit_code="75", next_job="8")
    assert claimed(tmp_path, "9.0", says("CANCELLED")) == (0, "")


def test_what_hpclaunch_starts_again_needs_no_answer_of_slurms(tmp_path: Path) -> None:
    left(tmp_path, "7.0", exit_code="0", completed="7.0 1")
    left(tmp_path, "free", claim="free")
    assert claimed(tmp_path, "8.0", SILENT) == (0, "")


def test_a_job_that_hpclaunch_has_queued_is_the_first_to_start(tmp_path: Path) -> None:
    left(tmp_path, "7.0", claim="7.0")
    code, said = claimed(tmp_path, "8.0", says("PENDING"))
    assert (code, "job 7 has this run directory and is PENDING" in said) == (78, True)
    assert claimed(tmp_path, "7.0", SILENT) == (0, "")


def test_every_task_of_an_array_has_claims_of_its_own(tmp_path: Path) -> None:
    for task in ("0", "1"):
        (tmp_path / task).mkdir()
        assert claimed(tmp_path / task, f"7_{task}.0") == (0, "")
    code, said = claimed(tmp_path / "1", "8_1.0", says("RUNNING"))
    assert (code, "job 7_1 has this run directory" in said) == (78, True)


def test_an_empty_claim_is_nobodys_and_refused(tmp_path: Path) -> None:
    left(tmp_path, "7.0", claim=" ")
    code, said = claimed(tmp_path, "8.0", FORGOTTEN)
    assert (code, "it is not known whether it has ended" in said) == (78, True)


def test_a_run_directory_that_cannot_be_written_is_a_clear_stop(tmp_path: Path) -> None:
    (tmp_path / "claims").write_text("")
    code, said = claimed(tmp_path, "7.0")
    assert (code, f"the run directory {tmp_path} cannot be written on " in said) == (78, True)


@pytest.mark.parametrize("scheduler", ["slurm", "local"])
def test_of_starts_at_the_same_moment_one_takes_the_directory(tmp_path: Path, scheduler: str) -> None:
    known = f"scheduler={scheduler} HPCLAUNCH_RUN_DIR={tmp_path}"
    one = "( start=by-hand-$BASHPID.0; job=${start%.*}; claim && echo took; wait ) 2>> said & "
    left(tmp_path, "by-hand-1.0", claim=f"by-hand-1.0 {HERE} 1 1", exit_code="1")  # all of them see one that has ended
    done = with_library(f"cd {tmp_path}; {known}; {one * 8} wait")
    assert done.stdout == "took\n"
    assert (tmp_path / "said").read_text().count("nothing was started") == 7
    assert len(claims(tmp_path)) == 2


@pytest.mark.parametrize("ended", [False, True])
def test_where_links_are_not_known_a_claim_is_created_exclusively(tmp_path: Path, ended: bool) -> None:
    assert claimed(tmp_path, "7.0", "ln() { return 1; }") == (0, "")
    code, _ = claimed(tmp_path, "8.0", f"ln() {{ return 1; }}; {says('FAILED' if ended else 'RUNNING')}")
    assert (code, claims(tmp_path)) == ((0, ["7.0", "8.0"]) if ended else (78, ["7.0"]))


@pytest.fixture
def living() -> object:
    process = subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL)
    yield process
    process.kill()
    process.wait()


def began(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]


def test_without_a_scheduler_a_process_that_lives_has_the_directory(
    tmp_path: Path, living: subprocess.Popen[bytes]
) -> None:
    left(tmp_path, "5.0", claim=f"5.0 {HERE} {living.pid} {began(living.pid)}")
    code, said = claimed(tmp_path, "6.0", scheduler="local")
    assert (code, "job 5 has this run directory and is RUNNING" in said) == (78, True)


def test_a_process_with_the_number_of_an_ended_one_is_another(tmp_path: Path, living: subprocess.Popen[bytes]) -> None:
    left(tmp_path, "5.0", claim=f"5.0 {HERE} {living.pid} 1")
    assert claimed(tmp_path, "6.0", scheduler="local") == (0, "")


def test_a_script_that_was_killed_has_the_directory_as_long_as_a_rank_of_it_lives(tmp_path: Path) -> None:
    left(tmp_path, "5.0", claim=f"5.0 {HERE} {os.getpid()} 1")
    mark = {"HPCLAUNCH_EXIT_FILE": f"{tmp_path}/attempts/5.0/first-failure", "PATH": os.environ["PATH"]}
    with subprocess.Popen(["sleep", "1000"], env=mark) as rank:
        code, said = claimed(tmp_path, "6.0", scheduler="local")
        rank.kill()
    assert (code, "job 5 has this run directory and is RUNNING" in said) == (78, True)
    assert claimed(tmp_path, "6.0", scheduler="local") == (0, "")


def test_of_another_machine_nobody_knows(tmp_path: Path) -> None:
    left(tmp_path, "5.0", claim="5.0 elsewhere 1 1", exit_code="1")
    code, said = claimed(tmp_path, "6.0", scheduler="local")
    assert (code, "it is not known whether it has ended" in said) == (78, True)


def test_two_starts_in_one_allocation_are_told_apart_by_their_processes(
    tmp_path: Path, living: subprocess.Popen[bytes]
) -> None:
    left(tmp_path, "7.0", claim=f"7.0 {HERE} {living.pid} {began(living.pid)}")
    assert claimed(tmp_path, "7.0", SILENT)[0] == 78
    (tmp_path / "claims/1").write_text(f"7.0 {HERE} {living.pid} 1\n")
    assert claimed(tmp_path, "7.0", SILENT) == (0, "")
    assert claims(tmp_path) == ["7.0", "7.1"]


def test_a_job_number_that_slurm_gives_again_starts_no_completed_run(tmp_path: Path) -> None:
    left(tmp_path, "7.0", exit_code="0", completed="7.0 1")
    code, said = claimed(tmp_path, "7.0", SILENT)
    assert (code, "job 7 has completed this run" in said) == (78, True)


def test_a_start_with_the_number_of_an_earlier_one_has_a_name_of_its_own(
    tmp_path: Path, living: subprocess.Popen[bytes]
) -> None:
    """Else the first failure of the one before would be this one's exit code."""
    left(tmp_path, "7.0", claim=f"7.0 {HERE} {os.getpid()} 1", first_failure="3")
    assert claimed(tmp_path, "7.0", SILENT) == (0, "")
    assert claims(tmp_path) == ["7.0", "7.1"]
    left(tmp_path, "7.1", claim=f"7.1 {HERE} {living.pid} {began(living.pid)}")
    assert claimed(tmp_path, "7.1", SILENT)[0] == 78, "the number in its name may be no restart of Slurm's"
