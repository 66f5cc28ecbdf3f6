"""What squeue and sacct answer about runs: fakes on PATH."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.core.errors import SchedulerError
from hpclaunch.runs import Jobs, Run, identity_of
from hpclaunch.runs.job_identity import CLOCKS_S
from hpclaunch.schedulers import NEVER_BEGUN, UNOPENED_LOG, UNPROVEN, Status
from hpclaunch.schedulers.slurm import configuration, scheduler, states
from tests.builders import a_run, leave_proof

WHEN = 1800000000
"""When each job was submitted, in seconds of the epoch."""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH beside the system's shell; fake programs go there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "bash").symlink_to("/bin/bash")
    monkeypatch.setenv("PATH", str(folder))
    return folder


def fake(folder: Path, name: str, answer: str, code: int = 0) -> None:
    """Put a program on PATH that answers so; each job has the folder of its run (``a_run``) as its working folder."""
    lines = [line + "|" * (3 - line.count("|")) for line in answer.splitlines()]
    answer = "\n".join(f"{line}BETWEEN|{folder.parent}/run-{re.split('[|_+]', line)[0]}" for line in lines)
    between = 'case "$*" in *Cluster,Submit*) b="|lab|$WHEN" ;; *%V*) b="|$WHEN" ;; *) b= ;; esac'
    (folder / name).write_text(
        f"#!/bin/bash\nWHEN={WHEN}\n{between}\n"
        f"while read -r x; do echo \"${{x/BETWEEN/$b}}\"; done <<'EOF'\n{answer}\nEOF\nexit {code}\n"
    )
    (folder / name).chmod(0o755)


def told_of(runs: Sequence[Run]) -> dict[str, Status]:
    """The states of the runs by job ID."""
    return {job.job_id: status for job, status in states.states(Jobs(runs)).items()}


def test_row_12_each_run_is_answered_by_the_first_who_knows(tmp_path: Path, program: Path) -> None:
    fake(program, "squeue", "1|RUNNING|None\n2|COMPLETED|None")
    fake(program, "sacct", "2|COMPLETED|0:0\n3|NODE_FAIL|1:0\n1|FAILED|9:9")
    marked = a_run(tmp_path, "4")
    (marked.path / "attempts/4.0").mkdir(parents=True)
    (marked.path / "attempts/4.0/exit-code").write_text("5")
    ended = a_run(tmp_path, "5", state="CANCELLED")
    runs = [a_run(tmp_path, "1"), a_run(tmp_path, "2"), a_run(tmp_path, "3"), marked, ended, a_run(tmp_path, "6")]
    leave_proof(runs[1].path, "2.0")
    assert told_of(runs) == {
        "1": Status(state="RUNNING"),
        "2": Status(state="COMPLETED", exit_code="0:0"),
        "3": Status(state="NODE_FAIL", exit_code="1:0"),
        "4": Status(state="FAILED", exit_code="5:0"),
        "5": Status(state="CANCELLED"),
        "6": Status(state="UNKNOWN"),
    }


@pytest.mark.parametrize("source", ["squeue", "sacct"])
def test_what_slurm_calls_completed_is_not_while_the_proof_of_its_script_is_missing(
    tmp_path: Path, program: Path, source: str
) -> None:
    fake(program, "squeue", "1|COMPLETED|None" if source == "squeue" else "")
    fake(program, "sacct", "1|COMPLETED|0:0" if source == "sacct" else "")
    run = a_run(tmp_path, "1", state="RUNNING")
    history = run.path / "states.jsonl"
    history.touch()

    def told(recorded: str) -> Status:
        return told_of([replace(run, state=recorded)])["1"]

    os.utime(history, (0, 0))
    late = told("RUNNING")
    assert (late.state, late.exit_code) == ("COMPLETING", ""), "a shared file system may show it a minute later"
    os.utime(history)
    assert told("COMPLETING") == late
    os.utime(history, (0, 0))
    ended = told("COMPLETING")
    assert (ended.state, ended.reason) == ("FAILED", UNPROVEN)
    os.utime(history)
    (run.path / "attempts/1.0/ranks").mkdir(parents=True)
    (run.path / "attempts/1.0/exit-code").write_text("75")
    assert told("RUNNING") == late, "the files of a further start may be late, too"
    (run.path / "attempts/1.0/exit-code").write_text("0")
    assert told("RUNNING") == Status(state="FAILED", exit_code="0:0", reason=UNPROVEN)
    leave_proof(run.path, "1.0")
    assert told("RUNNING") == Status(state="COMPLETED", exit_code="0:0")


def test_the_nodes_of_an_ended_job_are_those_of_accounting(tmp_path: Path, program: Path) -> None:
    fake(program, "squeue", "")
    fake(program, "sacct", "1|FAILED|1:0|node[1-2]\n2|CANCELLED by 7|0:0|None assigned\n3|TIMEOUT|0:0|Nid001")
    told = told_of([a_run(tmp_path, job_id) for job_id in "123"])
    assert [told[job_id].nodes for job_id in "123"] == ["node[1-2]", "", "Nid001"]
    assert told["2"].state == "CANCELLED"


def test_an_exit_code_that_sacct_cuts_is_told_whole(tmp_path: Path, program: Path) -> None:
    fake(program, "squeue", "")
    fake(program, "sacct", "1|FAILED|9:0\n2|FAILED|9:0\n3|FAILED|0:9\n4|FAILED|9:0")
    runs = [a_run(tmp_path, job_id) for job_id in "1234"]
    for run, code in zip(runs[:3], ("137", "9", "137"), strict=True):
        (run.path / f"attempts/{run.job_id}.0").mkdir(parents=True)
        (run.path / f"attempts/{run.job_id}.0/exit-code").write_text(code)
    told = told_of(runs)
    assert [told[job_id].exit_code for job_id in "1234"] == ["137:0", "9:0", "0:9", "9:0"]


def test_row_12_a_run_that_may_have_been_queued_again_has_not_failed_while_squeue_is_silent(
    tmp_path: Path, program: Path
) -> None:
    fake(program, "sacct", "1|REQUEUED|0:0")
    runs = [a_run(tmp_path, job_id) for job_id in "123"]
    for run, most, code in zip(runs, (50, 0, 50), ("75", "75", "0"), strict=True):
        (run.path / f"attempts/{run.job_id}.0").mkdir(parents=True)
        (run.path / f"attempts/{run.job_id}.0/exit-code").write_text(code)
        (run.path / "spec.json").write_text(json.dumps({"restarts": {"most": most, "by": "requeue"}}))
    leave_proof(runs[2].path, "3.0")
    told = told_of(runs)
    assert [told[job_id].state for job_id in "123"] == ["UNKNOWN", "FAILED", "COMPLETED"]
    fake(program, "squeue", "")
    fake(program, "sacct", "")
    assert told_of(runs[:1])["1"].state == "FAILED", "squeue answers, and knows of no further start"


@pytest.mark.parametrize("accounting", ["1_0|FAILED|7:0\n1_2|PENDING|0:0", "1_0|FAILED|7:0\n1_[1-2]|PENDING|0:0"])
def test_a_task_that_was_cancelled_while_it_waited_is_known_before_accounting_hears_of_it(
    tmp_path: Path, program: Path, accounting: str
) -> None:
    fake(program, "squeue", "1_2|PENDING|Priority|")
    fake(program, "sacct", accounting)
    tasks = [replace(a_run(tmp_path, f"1_{index}"), index=index) for index in range(3)]
    tasks = [replace(task, path=tmp_path / "run-1" / task.path.name) for task in tasks]  # all have the array's folder
    assert told_of(tasks) == {
        "1_0": Status(state="FAILED", exit_code="7:0"),
        "1_1": NEVER_BEGUN,
        "1_2": Status(state="PENDING", reason="Priority"),
    }
    fake(program, "squeue", "", code=1)
    assert told_of(tasks[1:2])["1_1"].state != "CANCELLED", "a squeue that does not answer tells nothing"


@pytest.mark.parametrize("source", ["squeue", "sacct", "neither"])
def test_a_rank_that_got_too_much_memory_is_told_from_other_failures(
    tmp_path: Path, program: Path, source: str
) -> None:
    fake(program, "squeue", "1|FAILED|NonZeroExitCode\n2|FAILED|NonZeroExitCode" if source == "squeue" else "")
    fake(program, "sacct", "1|FAILED|9:0\n2|FAILED|9:0" if source == "sacct" else "")
    runs = [a_run(tmp_path, job_id) for job_id in "12"]
    for run in runs:
        (run.path / f"attempts/{run.job_id}.0").mkdir(parents=True)
        (run.path / f"attempts/{run.job_id}.0/exit-code").write_text("137")
        (run.path / "logs").mkdir()
    line = "Detected 1 oom_kill event in StepId=1.0"
    (runs[0].path / "logs/slurm-1.out").write_text(f"slurmstepd: error: {line}. Some of the step tasks have been ...\n")
    told = told_of(runs)
    assert told["1"] == Status(state="OUT_OF_MEMORY", exit_code="137:0", reason=line)
    assert told["2"].state == "FAILED"


def test_a_held_job_keeps_the_words_that_say_why(tmp_path: Path, program: Path) -> None:
    held = ["1|SPECIAL_EXIT|job requeued in special exit state", "2|REQUEUE_HOLD|JobHoldMaxRequeue"]
    held.append("3|RESV_DEL_HOLD|Reservation maint was deleted")
    fake(program, "squeue", "\n".join([*held, "4|RUNNING|None"]))
    fake(program, "sacct", "")
    told = told_of([a_run(tmp_path, job_id) for job_id in "1234"])
    assert [(told[job_id].state, told[job_id].reason) for job_id in "123"] == [
        tuple(line.split("|")[1:]) for line in held
    ]
    assert all(scheduler.explain(told[job_id].reason) for job_id in "123")
    assert told["4"] == Status(state="RUNNING")


def test_a_job_that_could_not_open_its_log_is_told_from_other_failures(tmp_path: Path, program: Path) -> None:
    fake(program, "squeue", "1|FAILED|None\n2|FAILED|None\n3|TIMEOUT|None")
    fake(program, "sacct", "")
    runs = [a_run(tmp_path, job_id) for job_id in "123"]
    (runs[1].path / "logs").mkdir()
    told = told_of(runs)
    assert [told[job_id].reason for job_id in "123"] == [UNOPENED_LOG, "", ""]


def test_a_job_of_the_same_number_elsewhere_is_named_where_nothing_else_is_known(tmp_path: Path, program: Path) -> None:
    fake(program, "squeue", "")
    fake(program, "sacct", "")
    unknown, ended = a_run(tmp_path, "1"), a_run(tmp_path, "2")
    leave_proof(ended.path, "2.0")
    (program / "squeue").write_text("#!/bin/bash\necho '1|RUNNING|None||5|/a/b'; echo '2|RUNNING|None||5|'\n")
    told = told_of([unknown, ended])
    assert (told["1"].state, told["2"]) == ("UNKNOWN", Status(state="COMPLETED", exit_code="0:0"))
    assert told["1"].reason == "job 1 is another one by now, with the working folder /a/b"


def test_a_job_of_which_slurm_says_too_little_is_not_called_another_one(tmp_path: Path, program: Path) -> None:
    run = replace(a_run(tmp_path, "1"), submitted=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(WHEN)))
    fake(program, "squeue", "")
    fake(program, "sacct", "")
    answers = {
        f"{WHEN}|": "job 1 may be another one by now: Slurm does not say its working folder",
        "|/a/b": "job 1 is another one by now, with the working folder /a/b",
    }
    for answer, reason in answers.items():
        (program / "squeue").write_text(f"#!/bin/bash\necho '1|RUNNING|None|n1|{answer}'\n")
        assert told_of([run]) == {"1": Status(state="UNKNOWN", reason=reason)}


@pytest.mark.parametrize("time_of_submission", ["", "N/A", "Unknown", "2026-11-21T10:00:00"])  # no seconds of the epoch
def test_an_answer_without_a_time_is_about_the_run_whose_folder_it_names(
    tmp_path: Path, program: Path, time_of_submission: str
) -> None:
    run = replace(a_run(tmp_path, "1"), submitted=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(WHEN)))
    fake(program, "squeue", "")
    fake(program, "sacct", "")
    line = f"1|PENDING|AssocMaxJobsLimit|||{run.path}".replace("|||", f"||{time_of_submission}|")
    (program / "squeue").write_text(f"#!/bin/bash\necho '{line}'\n")
    assert told_of([run]) == {"1": Status(state="PENDING", reason="AssocMaxJobsLimit")}
    (program / "squeue").write_text(f"#!/bin/bash\necho '1|{time_of_submission}|{run.path}'\n")
    assert [job.job_id for job in states.own_jobs(Jobs([run]))] == ["1"]
    (program / "squeue").write_text("#!/bin/bash\necho 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1\n")
    (program / "sacct").write_text(f"#!/bin/bash\necho '1|NODE_FAIL|1:0|n1|lab|{time_of_submission}|{run.path}'\n")
    assert told_of([run]) == {"1": Status(state="NODE_FAIL", exit_code="1:0", nodes="n1")}


def test_a_line_about_an_earlier_numbering_or_another_cluster_is_no_answer(tmp_path: Path, program: Path) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(WHEN + CLOCKS_S + 1))
    run = replace(a_run(tmp_path, "1"), submitted=now)
    fake(program, "squeue", "1|RUNNING|None|n1")
    fake(program, "sacct", "1|FAILED|1:0|n1")
    reason = "job 1 is another one by now, which was submitted before this run was"
    assert told_of([run]) == {"1": Status(state="UNKNOWN", reason=reason)}
    assert told_of([replace(run, submitted="")]) == {"1": Status(state="RUNNING", nodes="n1")}
    (program / "squeue").write_text(f"#!/bin/bash\necho '1|{WHEN}|{run.path}'\n")
    assert states.own_jobs(Jobs([run])) == []
    assert states.own_jobs(Jobs([replace(run, submitted="")])) != []
    fake(program, "squeue", "")
    (program / "scontrol").write_text("#!/bin/bash\necho 'ClusterName = lab'\n")
    (program / "scontrol").chmod(0o755)
    configuration._known.clear()
    known = replace(run, submitted="", cluster="lab")
    assert told_of([known]) == {"1": Status(state="FAILED", exit_code="1:0", nodes="n1")}
    assert told_of([replace(known, cluster="elsewhere")]) == {}
    unnamed = replace(a_run(tmp_path, "2"), cluster="")
    assert set(told_of([known, unnamed])) == {"1", "2"}, "a job of a cluster without a name may be here"


def test_two_runs_with_one_number_get_each_its_own_answer(tmp_path: Path, program: Path) -> None:
    (tmp_path / "other").mkdir()
    mine, other = a_run(tmp_path, "1"), a_run(tmp_path / "other", "1")
    fake(program, "squeue", "")
    (program / "sacct").write_text(
        f"#!/bin/bash\necho '1|COMPLETED|0:0|n1|lab|5|{mine.path}'; echo '1|FAILED|7:0|n2|lab|5|{other.path}'\n"
    )
    (program / "sacct").chmod(0o755)
    leave_proof(mine.path, "1.0")
    told = states.states(Jobs([mine, other]))
    assert (told[identity_of(mine)].state, told[identity_of(other)].state) == ("COMPLETED", "FAILED")


def test_the_jobs_of_a_run_are_found_by_its_folder_the_oldest_first(tmp_path: Path, program: Path) -> None:
    run, other = a_run(tmp_path, "1"), a_run(tmp_path, "2")
    lines = [f"12|PENDING|None||{run.path}", f"100_[0-3]|PENDING|None||{run.path}", f"7|FAILED|None||{run.path}"]
    (program / "squeue").write_text(f"#!/bin/bash\nprintf '%s\\n' {' '.join(map(repr, lines))}\n")
    (program / "sacct").write_text(f"#!/bin/bash\nprintf '%s\\n' '9|FAILED|1:0|n1|{run.path}' '8|FAILED|1:0|n1|/x'\n")
    for name in ("squeue", "sacct"):
        (program / name).chmod(0o755)
    found = scheduler.search([run, other])
    assert found.jobs == {run.path: ("9", "12", "100")}, "7 was refused, and 8 is a stranger's"
    assert (found.answered, found.certain) == (True, True)


def test_only_jobs_that_squeue_lists_with_the_runs_folder_are_its_own(tmp_path: Path, program: Path) -> None:
    runs = [a_run(tmp_path, job_id) for job_id in ("1", "2", "3", "4_1", "4_7", "5")]
    array = tmp_path / "run-4"
    array.mkdir()
    tasks = [replace(run, path=array / "0001", index=1) for run in runs[3:5]]
    whole = replace(runs[5], path=tmp_path / "run-5", tasks=9)
    (program / "squeue").write_text(
        "#!/bin/bash\nprintf '%s\\n' "
        f"'1|5|{runs[0].path}' '2|5|/elsewhere' '9|5|{runs[2].path}' '4_[0-5]|5|{array}' '4_7|5|/x' "
        f"'5_[3-8]|5|{whole.path}' 9\n"
    )
    (program / "squeue").chmod(0o755)
    assert [job.job_id for job in states.own_jobs(Jobs([*runs[:3], *tasks, whole]))] == ["1", "4_1", "5"]
    (program / "squeue").write_text(
        f"#!/bin/bash\necho '1|5|{runs[0].path}'\necho 'Invalid job id specified' >&2\nexit 1\n"
    )
    assert states.own_jobs(Jobs(runs[:2])) == [identity_of(runs[0])], "squeue does not know 2 any more"
    (program / "squeue").write_text("#!/bin/bash\necho 'Unable to contact slurm controller' >&2\nexit 1\n")
    with pytest.raises(SchedulerError, match="cannot confirm whose jobs these are: Unable to contact"):
        states.own_jobs(Jobs(runs[:1]))


def test_row_12_programs_that_are_not_there_are_no_traceback(tmp_path: Path, program: Path) -> None:
    reason = "squeue: is not on this machine"
    assert told_of([a_run(tmp_path, "1")]) == {"1": Status(state="UNKNOWN", reason=reason)}
    with pytest.raises(SchedulerError, match="scancel: not called, as squeue cannot confirm"):
        scheduler.cancel([a_run(tmp_path, "1")])
    with pytest.raises(SchedulerError, match="there is no sbatch on this machine"):
        scheduler.submit(a_run(tmp_path), "", 0)


def test_a_heterogeneous_job_is_its_first_component_with_the_nodes_of_all(tmp_path: Path, program: Path) -> None:
    lines = "7+1|RUNNING|None|node[3-4]\n7+0|RUNNING|None|node1\n9+0|PENDING|Resources|\n9+1|PENDING|Resources|"
    fake(program, "squeue", f"{lines}\n8+0|COMPLETED|None|node1\n8+1|COMPLETED|None|node2")
    fake(program, "sacct", "8+0|FAILED|7:0|node1\n8+1|FAILED|0:9|node2")
    assert told_of([a_run(tmp_path, "7"), a_run(tmp_path, "8"), a_run(tmp_path, "9")]) == {
        "7": Status(state="RUNNING", nodes="node1,node[3-4]"),
        "8": Status(state="FAILED", exit_code="7:0", nodes="node1,node2"),
        "9": Status(state="PENDING", reason="Resources"),
    }


def test_the_nodes_of_every_component_are_told(tmp_path: Path, program: Path) -> None:
    parts = [f"7+{number}|{{}}|node{number}" for number in (2, 0, 10, 1)]
    fake(program, "squeue", "\n".join(part.replace("{}", "RUNNING|None") for part in parts))
    assert told_of([a_run(tmp_path, "7")])["7"].nodes == "node0,node1,node2,node10"
    fake(program, "squeue", "")
    fake(program, "sacct", "\n".join(part.replace("{}", "FAILED|7:0") for part in parts))
    assert told_of([a_run(tmp_path, "7")])["7"].nodes == "node0,node1,node2,node10"


def test_what_slurms_programs_are_asked(tmp_path: Path, program: Path) -> None:
    """Each of these options decides what is in the answer."""
    run, other = a_run(tmp_path, "7"), a_run(tmp_path, "9_1")
    for name in ("squeue", "sacct"):
        (program / name).write_text(f'#!/bin/bash\nprintf "%s\\n" "$@" > {tmp_path}/{name}\n')
        (program / name).chmod(0o755)
    told_of([run, other])
    assert set((tmp_path / "squeue").read_text().splitlines()) == {
        *("--noheader", "--array", "--states=all", "--format=%i|%T|%r|%N|%V|%Z", "--jobs=7,9_1"),
    }
    assert set((tmp_path / "sacct").read_text().splitlines()) == {
        *("--noheader", "--parsable2", "--allocations", "--starttime=now-365days", "--jobs=7,9"),
        "--format=JobID,State,ExitCode,NodeList,Cluster,Submit,WorkDir",
    }
    states.own_jobs(Jobs([run]))
    assert set((tmp_path / "squeue").read_text().splitlines()) == {
        *("--noheader", "--states=all", "--format=%i|%V|%Z", "--jobs=7"),
    }


def test_a_line_that_is_none_hides_no_line_after_it(tmp_path: Path, program: Path) -> None:
    fake(program, "squeue", "slurm: a word of the site\n1|RUNNING|None|n1")
    fake(program, "sacct", "a word of the site\n2|FAILED|7:0|n2")
    told = told_of([a_run(tmp_path, "1"), a_run(tmp_path, "2")])
    assert [told[job_id].state for job_id in "12"] == ["RUNNING", "FAILED"]


def test_the_components_of_a_job_elsewhere_add_no_nodes(tmp_path: Path, program: Path) -> None:
    run = a_run(tmp_path, "7")
    lines = [f"7+0|RUNNING|None|node1|{WHEN}|{run.path}", f"7+1|RUNNING|None|node2|{WHEN}|/elsewhere"]
    for name, found in (("squeue", lines), ("sacct", [])):
        (program / name).write_text("#!/bin/bash\n" + "".join(f"echo '{line}'\n" for line in found))
        (program / name).chmod(0o755)
    assert told_of([run]) == {"7": Status(state="RUNNING", nodes="node1")}


def test_a_heterogeneous_job_is_cancelled_and_found_by_its_own_number(tmp_path: Path, program: Path) -> None:
    run = a_run(tmp_path, "7")
    (program / "squeue").write_text(f"#!/bin/bash\necho '7+0|5|{run.path}'; echo '7+1|5|{run.path}'\n")
    (program / "squeue").chmod(0o755)
    assert states.own_jobs(Jobs([run])) == [identity_of(run)]
    fake(program, "squeue", "7+0|RUNNING|None|node1\n7+1|RUNNING|None|node2")
    fake(program, "sacct", "7+0|RUNNING|0:0|node1\n7+1|RUNNING|0:0|node2")
    assert scheduler.search([run]).jobs == {run.path: ("7",)}


def test_while_squeue_is_silent_only_an_end_that_may_be_followed_by_a_start_is_doubted(
    tmp_path: Path, program: Path
) -> None:
    fake(program, "squeue", "", code=1)
    fake(program, "sacct", "1|PREEMPTED|0:0\n2|NODE_FAIL|0:0\n3|BOOT_FAIL|0:0\n4|TIMEOUT|0:0\n5|FAILED|7:0")
    told = told_of([a_run(tmp_path, job_id) for job_id in "12345"])
    assert [told[job_id].state for job_id in "12345"] == ["UNKNOWN"] * 3 + ["TIMEOUT", "FAILED"]
    assert told["1"].reason == "squeue: failed without a message"


def test_only_a_job_that_waits_has_a_reason(tmp_path: Path, program: Path) -> None:
    lines = ["1|PENDING|Priority", "2|PENDING|None", "3|RUNNING|Priority", "4|PENDING|", "5|pending|x", "6"]
    fake(program, "squeue", "\n".join(lines))
    fake(program, "sacct", "")
    told = told_of([a_run(tmp_path, job_id) for job_id in "123456"])
    assert [told[job_id] for job_id in "1234"] == [
        Status(state="PENDING", reason="Priority"),
        Status(state="PENDING"),
        Status(state="RUNNING"),
        Status(state="PENDING"),
    ]
    assert (told["5"].state, told["6"].state) == ("UNKNOWN", "UNKNOWN"), "lines that are no answer"


def test_a_job_that_squeue_does_not_know_any_more_is_no_silence(tmp_path: Path, program: Path) -> None:
    (program / "squeue").write_text("#!/bin/bash\necho 'slurm_load_jobs error: Invalid job id specified' >&2\nexit 1\n")
    (program / "squeue").chmod(0o755)
    fake(program, "sacct", "1|NODE_FAIL|0:0")
    assert told_of([a_run(tmp_path, "1")])["1"].state == "NODE_FAIL"
    assert told_of([a_run(tmp_path, "2")])["2"] == Status(state="UNKNOWN")


def test_a_failure_without_an_exit_code_yet_and_one_of_the_log_are_told_apart(tmp_path: Path, program: Path) -> None:
    fake(program, "squeue", "")
    fake(program, "sacct", "1|FAILED|0:0\n2|FAILED|0:53\n3|TIMEOUT|0:0\n4|FAILED|0:0\n5|FAILED|1:0")
    runs = [a_run(tmp_path, job_id) for job_id in "12345"]
    for run, code in ((runs[3], "7"), (runs[4], "129")):
        (run.path / f"attempts/{run.job_id}.0").mkdir(parents=True)
        (run.path / f"attempts/{run.job_id}.0/exit-code").write_text(code)
        (run.path / "logs").mkdir()
    (runs[0].path / "logs").mkdir()
    told = told_of(runs)
    assert [told[job_id].exit_code for job_id in "12345"] == ["", "0:53", "0:0", "7:0", "129:0"]
    assert [told[job_id].reason for job_id in "12345"] == ["", UNOPENED_LOG, "", "", ""]


@pytest.mark.parametrize(("code", "cut"), [("128", "0:0"), ("129", "1:0"), ("255", "127:0")])
def test_sacct_cuts_codes_from_128_on(tmp_path: Path, program: Path, code: str, cut: str) -> None:
    fake(program, "squeue", "")
    fake(program, "sacct", f"1|FAILED|{cut}")
    run = a_run(tmp_path, "1")
    (run.path / "attempts/1.0").mkdir(parents=True)
    (run.path / "attempts/1.0/exit-code").write_text(code)
    assert told_of([run])["1"].exit_code == f"{code}:0"


def test_the_state_of_accounting_is_its_first_word(tmp_path: Path, program: Path) -> None:
    fake(program, "squeue", "")
    fake(program, "sacct", "1|CANCELLED by 1000|0:15\n2|CANCELLED+|0:15\n3|OUT_OF_ME+|0:125\n4|12|0:0")
    told = told_of([a_run(tmp_path, job_id) for job_id in "1234"])
    assert [told[job_id].state for job_id in "1234"] == ["CANCELLED", "CANCELLED", "OUT_OF_ME", "UNKNOWN"]


def test_a_line_of_accounting_without_a_cluster_is_of_any(tmp_path: Path, program: Path) -> None:
    run = replace(a_run(tmp_path, "1"), cluster="lab")
    fake(program, "squeue", "")
    (program / "scontrol").write_text("#!/bin/bash\necho 'ClusterName = lab'\n")
    (program / "scontrol").chmod(0o755)
    configuration._known.clear()
    for name, state in (("", "FAILED"), ("lab", "FAILED"), ("other", "UNKNOWN")):
        (program / "sacct").write_text(f"#!/bin/bash\necho '1|FAILED|7:0|n1|{name}|5|{run.path}'\n")
        (program / "sacct").chmod(0o755)
        assert told_of([run])["1"].state == state


def test_a_folder_may_have_the_character_that_divides_the_answers(tmp_path: Path, program: Path) -> None:
    home = tmp_path / "a|b"
    home.mkdir()
    run = a_run(home, "1")
    (program / "squeue").write_text(
        f"#!/bin/bash\n[[ $* == *'%i|%V'* ]] && echo '1|5|{run.path}' || echo '1|RUNNING|None|n1|5|{run.path}'\n"
    )
    (program / "squeue").chmod(0o755)
    assert told_of([run])["1"] == Status(state="RUNNING", nodes="n1")
    assert states.own_jobs(Jobs([run])) == [identity_of(run)]
    fake(program, "squeue", "")
    (program / "sacct").write_text(f"#!/bin/bash\necho '1|TIMEOUT|0:0|n1|lab|5|{run.path}'\n")
    (program / "sacct").chmod(0o755)
    assert told_of([run])["1"].state == "TIMEOUT"


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        ("/a/b", "is another one by now, with the working folder /a/b"),
        ("", "may be another one by now: Slurm does not say its working folder"),
    ],
)
def test_a_stranger_is_named_by_its_folder(tmp_path: Path, program: Path, folder: str, words: str) -> None:
    fake(program, "sacct", "")
    (program / "squeue").write_text(f"#!/bin/bash\necho '1|RUNNING|None||5|{folder}'\n")
    (program / "squeue").chmod(0o755)
    told = told_of([a_run(tmp_path, "1")])["1"]
    assert told.reason == f"job 1 {words}"


def test_an_answer_has_room_for_a_line_about_each_job(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(states, "room_for", lambda jobs: asked.append(jobs) or 3)
    for name in ("squeue", "sacct"):
        (program / name).write_text("#!/bin/bash\necho '1|TIMEOUT|0:0|||'\n")
        (program / name).chmod(0o755)
    told = told_of([a_run(tmp_path, job_id) for job_id in "12"])
    assert (told["1"].state, asked) == ("UNKNOWN", [2, 2])
    assert "squeue: was ended, as its answer has more than" in told["1"].reason


def test_times_are_asked_for_in_seconds_of_the_epoch(tmp_path: Path, program: Path) -> None:
    for name in ("squeue", "sacct"):
        (program / name).write_text(f"#!/bin/bash\necho $SLURM_TIME_FORMAT >> {tmp_path}/formats\n")
        (program / name).chmod(0o755)
    run = a_run(tmp_path, "1")
    told_of([run])
    states.own_jobs(Jobs([run]))
    assert (tmp_path / "formats").read_text().split() == ["%s"] * 3
