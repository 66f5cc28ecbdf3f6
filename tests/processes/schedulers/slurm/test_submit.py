"""sbatch is called once: when a doubtful answer is looked up, and when it is called again."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.core.errors import Refused, SchedulerError, Unanswered
from hpclaunch.runs import Run, leases
from hpclaunch.schedulers import QueuedJob
from hpclaunch.schedulers.slurm import programs
from hpclaunch.schedulers.slurm import submit as module
from hpclaunch.schedulers.slurm.submit import search, submit
from tests.builders import a_run

UNREACHABLE = "sbatch: error: Batch job submission failed: Connection refused"
DOUBT = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
REFUSED = "sbatch: error: Batch job submission failed: Invalid qos specification"


class Slurm:
    """Programs on PATH. ``answers``: what sbatch says at each call; the last one stays. ``after``: the lookup at which
    squeue begins to list the job."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder / "bin"
        self.folder.mkdir()
        self.run = a_run(folder)
        self.pauses: list[float] = []
        sleep = time.sleep
        # What waits for a program sleeps for parts of a second.
        monkeypatch.setattr("time.sleep", lambda pause: self.pauses.append(pause) if pause >= 1 else sleep(pause))
        monkeypatch.setenv("PATH", f"{self.folder}:/usr/bin:/bin")
        self.put("scontrol", "")
        self.put("srun", "")
        self.put("sacct", "")
        self.lists()

    def put(self, name: str, text: str) -> None:
        (self.folder / name).write_text(f'#!/bin/sh\ncd {self.folder}\necho "{name} $*" >> calls\n{text}\n')
        (self.folder / name).chmod(0o755)

    def says(self, *answers: str) -> None:
        cases = "".join(
            f"{number}) echo '{text}' {'>&2; exit 1' if 'error' in text else ''} ;;\n"
            for number, text in enumerate(answers, 1)
        )
        last = answers[-1]
        rest = f"*) echo '{last}' {'>&2; exit 1' if 'error' in last else ''} ;;"
        self.put("sbatch", f"case $(grep -c '^sbatch' calls) in\n{cases}{rest}\nesac")

    def lists(self, *lines: str, after: int = 1, silent_from: int = 99) -> None:
        """Let squeue list these jobs (ID|STATE|NODES) from so many calls on, and fail from so many on."""
        text = "".join(
            f"echo '{job}|{state}|None|{nodes}|{self.run.path}'\n" for job, state, nodes in map(_parts, lines)
        )
        count = "n=$(grep -c '^squeue' calls)"
        self.put("squeue", f"{count}\n[ $n -lt {silent_from} ] || exit 1\n[ $n -ge {after} ] || exit 0\n{text}")

    def calls(self, name: str) -> list[str]:
        file = self.folder / "calls"
        return [line for line in file.read_text().splitlines() if line.startswith(name)] if file.exists() else []

    def submit(self, run: Run | None = None, text: str = "", options: Sequence[str] = ()) -> QueuedJob:
        return submit(run or self.run, text or f"#!/bin/sh\n#SBATCH --chdir={self.run.path}\n", 60, options)


def _parts(line: str) -> list[str]:
    return [*line.split("|"), "PENDING", ""][:3] if "|" not in line else [*line.split("|"), ""][:3]


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slurm:
    return Slurm(tmp_path, monkeypatch)


def test_a_job_id_is_the_answer_and_nothing_is_looked_up(slurm: Slurm) -> None:
    slurm.says("Submitted batch job 12")
    assert slurm.submit(options=("--exclude=n1",)) == QueuedJob(job_id="12")
    (call,) = slurm.calls("sbatch")
    assert "--exclude=n1" in call
    assert not slurm.calls("squeue") and not slurm.pauses
    (script,) = (slurm.run.path / "submitit").glob("*.sh")
    assert (script.name, script.read_text()) == ("12_submission.sh", f"#!/bin/sh\n#SBATCH --chdir={slurm.run.path}\n")


def test_a_refusal_is_looked_up_once_and_sbatch_is_not_called_again(slurm: Slurm) -> None:
    slurm.says(REFUSED)
    with pytest.raises(SchedulerError) as caught:
        slurm.submit()
    (fault,) = caught.value.faults
    assert (fault.where, fault.what) == ("sbatch", "Batch job submission failed: Invalid qos specification")
    assert "hpclaunch retry run-" in (fault.next or "")
    assert (len(slurm.calls("sbatch")), len(slurm.calls("squeue")), slurm.pauses) == (1, 1, [])
    assert not list((slurm.run.path / "submitit").glob("*_submission.sh"))


def test_a_job_that_a_refusing_sbatch_has_queued_is_found(slurm: Slurm) -> None:
    slurm.says(REFUSED)
    slurm.lists("12")
    assert slurm.submit().job_id == "12"


def test_after_a_refusal_that_cannot_be_looked_up_the_controller_is_asked_three_times(slurm: Slurm) -> None:
    slurm.says(REFUSED)
    slurm.lists(silent_from=1)
    with pytest.raises(Unanswered, match="it is unknown whether run- was queued"):
        slurm.submit()
    assert (len(slurm.calls("squeue")), slurm.pauses) == (2, [1.0])


def test_only_a_controller_that_was_not_reached_lets_sbatch_be_called_again(slurm: Slurm) -> None:
    slurm.says(UNREACHABLE, UNREACHABLE, "Submitted batch job 12")
    assert slurm.submit().job_id == "12"
    assert (len(slurm.calls("sbatch")), slurm.pauses) == (3, [1.0, 2.0])


def test_a_controller_that_stays_away_is_called_three_times(slurm: Slurm) -> None:
    slurm.says(UNREACHABLE)
    slurm.lists(silent_from=1)
    with pytest.raises(SchedulerError, match="Connection refused"):
        slurm.submit()
    assert (len(slurm.calls("sbatch")), slurm.pauses) == (3, [1.0, 2.0, 4.0])


def test_a_doubtful_answer_is_looked_up_three_times_and_never_repeated(slurm: Slurm) -> None:
    slurm.says(DOUBT)
    with pytest.raises(Unanswered):
        slurm.submit()
    assert (len(slurm.calls("sbatch")), len(slurm.calls("squeue")), slurm.pauses) == (1, 3, [1.0, 2.0, 4.0])


@pytest.mark.parametrize(("after", "pauses"), [(1, [1.0]), (2, [1.0, 2.0]), (3, [1.0, 2.0, 4.0])])
def test_a_job_that_appears_late_is_found(slurm: Slurm, after: int, pauses: list[float]) -> None:
    slurm.says(DOUBT)
    slurm.lists("12", after=after)
    assert slurm.submit().job_id == "12"
    assert (len(slurm.calls("sbatch")), slurm.pauses) == (1, pauses)


def test_a_controller_that_falls_silent_is_not_asked_on(slurm: Slurm) -> None:
    slurm.says(DOUBT)
    slurm.lists(silent_from=2)
    with pytest.raises(Unanswered):
        slurm.submit()
    assert (len(slurm.calls("squeue")), slurm.pauses) == (2, [1.0, 2.0])


def test_a_script_without_a_folder_of_its_own_cannot_be_looked_up(slurm: Slurm) -> None:
    slurm.says(DOUBT)
    slurm.lists("12")
    with pytest.raises(Unanswered):
        slurm.submit(text="#!/bin/sh\n")
    assert not slurm.calls("squeue") and not slurm.pauses


@pytest.mark.parametrize(("words", "is_sure"), [(REFUSED, True), ("the site says no: error 7", False)])
def test_a_refusal_of_a_script_without_a_folder_counts_only_in_sbatchs_own_words(
    slurm: Slurm, words: str, is_sure: bool
) -> None:
    """A wrapper of the site may say anything; its job could not be found by the folder."""
    slurm.says(words)
    with pytest.raises(SchedulerError if is_sure else Unanswered):
        slurm.submit(text="#!/bin/sh\n")
    assert len(slurm.calls("squeue")) == is_sure, "to hear whether the controller hears us"
    assert len(slurm.calls("sbatch")) == 1 and not slurm.pauses


def test_an_sbatch_that_does_not_end_is_ended_and_what_it_said_counts(
    slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no timeout(1), which ends it otherwise."""
    monkeypatch.setattr(module, "_SBATCH_SECONDS", 1)
    monkeypatch.setattr(module, "_SECONDS_TO_END", 0)
    for name in ("env", "sleep"):
        (slurm.folder / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(slurm.folder))
    slurm.put("sbatch", "echo $$ > number; echo Submitted batch job 4711; exec sleep 1000")
    assert slurm.submit().job_id == "4711"
    assert not Path("/proc", (slurm.folder / "number").read_text().strip()).exists()


def test_the_submission_gives_a_sign_of_life_before_each_call(slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    signs: list[str] = []
    lease = leases.take(slurm.run)
    assert lease
    monkeypatch.setattr(module.leases, "renew", lambda path: signs.append(str(path)) or True)
    slurm.says(DOUBT)
    with pytest.raises(Unanswered):
        slurm.submit()
    assert signs == [str(slurm.run.path)] * 4


def test_a_submission_that_was_given_up_for_lost_calls_no_sbatch(slurm: Slurm) -> None:
    lease = leases.take(slurm.run)
    assert lease
    leases.end(lease, leases.NOT_SUBMITTED)
    slurm.says("Submitted batch job 12")
    with pytest.raises(Refused, match="was given up for lost by another process"):
        slurm.submit()
    assert not slurm.calls("sbatch")


def again(slurm: Slurm) -> Run:
    """The run at its second submission, after one that was called NOT_SUBMITTED."""
    first = leases.take(slurm.run)
    assert first
    leases.end(first, leases.NOT_SUBMITTED)
    assert leases.take(slurm.run)
    return slurm.run


def test_a_job_of_an_earlier_submission_is_found_before_sbatch_is_called(slurm: Slurm) -> None:
    slurm.says("Submitted batch job 12")
    slurm.lists("11")
    assert slurm.submit(again(slurm)).job_id == "11"
    assert not slurm.calls("sbatch")


def test_of_an_earlier_submission_an_old_job_is_none(slurm: Slurm) -> None:
    slurm.says("Submitted batch job 12")
    slurm.lists("11")
    assert slurm.submit(replace(again(slurm), earlier=("11",))).job_id == "12"


def test_while_slurm_is_silent_about_an_earlier_submission_sbatch_is_not_called(slurm: Slurm) -> None:
    slurm.says("Submitted batch job 12")
    slurm.lists(silent_from=1)
    with pytest.raises(SchedulerError, match="unknown whether an earlier submission of run- queued a job") as caught:
        slurm.submit(again(slurm))
    assert caught.value.faults[0].next == "when Slurm answers again: hpclaunch retry run-"
    assert not slurm.calls("sbatch")


@pytest.mark.parametrize(
    ("next_job", "job_id"), [("", "11"), ("10\n", "12"), (None, "12")], ids=["no number", "a number", "none asked for"]
)
def test_a_successor_that_the_last_script_asked_for_is_found(slurm: Slurm, next_job: str | None, job_id: str) -> None:
    for start, text in (("4.0", "5"), ("5.0", next_job)):
        folder = slurm.run.path / "attempts" / start
        folder.mkdir(parents=True)
        (folder / "started").touch()
        if text is not None:
            (folder / "next-job").write_text(text)
    slurm.says("Submitted batch job 12")
    slurm.lists("11")
    assert slurm.submit(replace(slurm.run, earlier=("4", "5"))).job_id == job_id


def test_without_sbatch_or_with_a_controller_that_is_down_nothing_is_submitted(
    slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(slurm.folder))
    with pytest.raises(SchedulerError, match="there is no sbatch on this machine"):
        slurm.submit()
    monkeypatch.undo()
    monkeypatch.setenv("PATH", f"{slurm.folder}:/usr/bin:/bin")
    slurm.says("Submitted batch job 12")
    slurm.put("scontrol", "echo 'Slurmctld(primary) at ctl is DOWN'")
    programs._answers.clear()
    for run in (slurm.run, again(slurm)):
        with pytest.raises(SchedulerError, match=r"controller is down \(ctl\), so run- was not submitted"):
            slurm.submit(run)
    assert not slurm.calls("sbatch") and not slurm.calls("squeue"), "each program would wait for the controller"


def test_jobs_are_found_by_their_folder_the_oldest_first(slurm: Slurm) -> None:
    slurm.lists("100|PENDING", "9|RUNNING|n1", "8|FAILED", "7|FAILED|n1", "20_[0-3]|PENDING", "x|PENDING")
    slurm.put("sacct", f"echo '6|FAILED|1:0|None assigned|{slurm.run.path}'; echo '9|RUNNING|0:0|n1|{slurm.run.path}'")
    assert search([slurm.run]).jobs == {slurm.run.path: ("7", "9", "20", "100")}, "6 and 8 were never queued"
    assert search([replace(slurm.run, path=Path("/elsewhere"))]).jobs == {}


def test_a_search_asks_for_all_states_from_the_day_before_the_oldest_run(slurm: Slurm) -> None:
    runs = [replace(slurm.run, created=f"2026-03-{day:02}T01:00:00Z") for day in (9, 1, 20)]
    search(runs)
    (squeue,), (sacct,) = slurm.calls("squeue"), slurm.calls("sacct")
    assert squeue == f"squeue --noheader --states=all --user={os.getuid()} --format=%i|%T|%r|%N|%Z"
    assert sacct == (
        "sacct --noheader --parsable2 --allocations --format=JobID,State,ExitCode,NodeList,WorkDir "
        f"--user={os.getuid()} --starttime=2026-02-28"
    )
    for created in ("", "damaged", "0001-01-01T00:00:00Z"):
        search([replace(slurm.run, created=created)])
        assert slurm.calls("sacct")[-1].endswith("--starttime=now-7days")


@pytest.mark.parametrize(("squeue", "sacct"), [(0, 0), (1, 0), (0, 1)])
def test_a_search_is_certain_if_both_answer(slurm: Slurm, squeue: int, sacct: int) -> None:
    slurm.put("squeue", f"echo down >&2; exit {squeue}")
    slurm.put("sacct", f"exit {sacct}")
    found = search([slurm.run])
    assert (found.answered, found.certain) == (not squeue, not squeue and not sacct)
    assert found.words == ("squeue: down" if squeue else "")


def test_a_folder_need_not_have_a_name_in_utf_8(slurm: Slurm, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    (slurm.folder / "listed").write_bytes(b"9|RUNNING|None|n1|" + os.fsencode(folder) + b"\n")
    slurm.put("squeue", "cat listed")
    slurm.put("sacct", "")
    assert search([replace(slurm.run, path=folder)]).jobs == {folder: ("9",)}


def test_a_folder_may_have_a_bar_in_its_name(slurm: Slurm, tmp_path: Path) -> None:
    folder = tmp_path / "a|b|c"
    (slurm.folder / "listed").write_text(f"9|RUNNING|None|n1|{folder}\n")
    slurm.put("squeue", "cat listed")
    assert search([replace(slurm.run, path=folder)]).jobs == {folder: ("9",)}


def test_where_others_can_exchange_the_run_directory_sbatch_reads_a_copy_that_they_cannot(
    slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "weak_around", lambda path: True)
    slurm.put("sbatch", 'for last; do :; done; dirname "$last" > seen; echo Submitted batch job 12')
    assert slurm.submit().job_id == "12"
    folder = Path((slurm.folder / "seen").read_text().strip())
    assert folder.name.startswith("hpclaunch-") and slurm.run.path not in folder.parents
    assert not folder.exists()


@pytest.mark.parametrize("missing", ["room", "srun"])
def test_an_sbatch_that_cannot_be_called_is_a_refusal_with_the_reason(
    slurm: Slurm, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    slurm.says("Submitted batch job 12")
    if missing == "room":
        (slurm.run.path / "submitit").write_text("a file is where the folder should be")
    else:
        (slurm.folder / "srun").unlink()
        monkeypatch.setenv("PATH", f"{slurm.folder}:{_without_srun(slurm.folder.parent)}")
    with pytest.raises(SchedulerError, match="sbatch was not called: "):
        slurm.submit()
    assert not slurm.calls("sbatch")


def _without_srun(folder: Path) -> Path:
    """A folder with the programs that the fake ones need."""
    programs = folder / "programs"
    programs.mkdir()
    for name in ("sh", "grep", "cat", "dirname"):
        (programs / name).symlink_to(f"/bin/{name}")
    return programs


def test_lines_of_other_folders_and_what_is_no_job_are_left_out_of_a_search(slurm: Slurm) -> None:
    here = slurm.run.path
    lines = f"8|RUNNING|None|n1|/elsewhere\nx8|RUNNING|None|n1|{here}\n10_3|RUNNING|None|n1|{here}\n"
    (slurm.folder / "listed").write_text(f"{lines}9|FAILED|None||{here}\n7|FAILED|None|n1|{here}\n7|damaged\n")
    slurm.put("squeue", "cat listed")
    assert search([slurm.run]).jobs == {here: ("7", "10")}
