"""What slurmctld holds of a submitted job is read back once, recorded, and compared with what was asked for."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpclaunch import runs
from hpclaunch.actions.queueing.hand_over import hand_over
from hpclaunch.core.errors import Interrupted, SchedulerError
from hpclaunch.core.folders import state_folder
from hpclaunch.runs import Run
from hpclaunch.runs.ownership import new_token
from hpclaunch.schedulers import HeldRequest
from hpclaunch.schedulers.slurm.held import held
from hpclaunch.schedulers.slurm.states import states
from tests.builders import a_run

ASKED = [
    *(["partition", "regular"], ["qos", "normal"], ["account", "M1"], ["nodes", "2"], ["time", "01:59:30"]),
    ["constraint", "gpu"],
]


class Cluster:
    """Slurm's programs on PATH; ``lists`` is what squeue prints, with {folder} for the run's."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        self.put("sbatch", "echo Submitted batch job 4711")
        for name in ("scontrol", "sacct", "srun"):
            self.put(name, ":")
        monkeypatch.setenv("PATH", f"{folder}/bin:/usr/bin:/bin")
        monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
        rendered = replace(a_run(folder, state="RENDERED"), token=new_token())
        self.run = runs.save(replace(rendered, created="2026-01-02T03:04:05Z"), durable=False)
        runs.list_own(state_folder(os.environ), self.run)
        self.asks_for(ASKED)

    def put(self, name: str, text: str) -> None:
        program = self.folder / "bin" / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> {self.folder}/calls\n{text}\n')
        program.chmod(0o755)

    def asks_for(self, directives: list[list[str]]) -> None:
        (self.run.path / "spec.json").write_text(json.dumps({"directives": directives}))

    def lists(self, *lines: str) -> None:
        text = "".join(f"{line}\n" for line in lines).replace("FOLDER", str(self.run.path))
        (self.folder / "listed").write_text(text)
        self.put("squeue", f"cat {self.folder}/listed")

    def calls(self, name: str) -> list[str]:
        return [line for line in (self.folder / "calls").read_text().splitlines() if line.startswith(f"{name} ")]

    def submitted(self) -> Run:
        hand_over(self.run, f"#!/bin/bash\n#SBATCH --chdir={self.run.path}\n", 60)
        return runs.load(self.run.path)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster(tmp_path, monkeypatch)
    made.lists()
    return made


def asked_of(cluster: Cluster, *lines: str, **news: Any) -> HeldRequest:
    cluster.lists(*lines)
    return held(replace(cluster.run, job_id="4711", **news))


def test_what_is_held_as_asked_for_differs_in_nothing(cluster: Cluster) -> None:
    found = asked_of(cluster, "4711|2|2:00:00|m1|normal|regular|FOLDER")
    values = {"nodes": "2", "walltime": "02:00:00", "account": "m1", "qos": "normal", "partition": "regular"}
    assert found == HeldRequest(values=values)
    (call,) = cluster.calls("squeue")
    assert call == "squeue --noheader --states=all --jobs=4711 --format=%i|%D|%l|%a|%q|%P|%Z"


def test_everything_that_was_changed_is_named_with_what_was_asked_for(cluster: Cluster) -> None:
    found = asked_of(cluster, "4711|1|30:00|m2|low|preempt|FOLDER")
    assert found.differs == (
        "partition preempt, not regular; qos low, not normal; account m2, not M1; "
        "walltime 00:30:00, not 01:59:30; nodes 1, not 2"
    )


@pytest.mark.parametrize(
    ("held_partition", "asked", "differs"),
    [
        ("a,b", "a,b", ""),
        ("b", "a,b", ""),
        ("c", "a,b", "partition c, not a,b"),
        ("A", "a", "partition A, not a"),
        ("GPU nodes (nvidia)", "GPU nodes (nvidia)", ""),
    ],
)
def test_of_several_partitions_one_is_enough(cluster: Cluster, held_partition: str, asked: str, differs: str) -> None:
    cluster.asks_for([["partition", asked]])
    found = asked_of(cluster, f"4711|2|2:00:00|m1|normal|{held_partition}|FOLDER")
    assert (found.values["partition"], found.differs) == (held_partition, differs)


def test_what_was_not_asked_for_or_is_not_shown_cannot_differ(cluster: Cluster) -> None:
    cluster.asks_for([["partition", "regular"]])
    found = asked_of(cluster, "4711|2|UNLIMITED|(null)|N/A||FOLDER")
    assert found == HeldRequest(values={"nodes": "2", "walltime": "UNLIMITED"})
    cluster.asks_for([["time", "00:10:00"]])
    assert asked_of(cluster, "4711|2|UNLIMITED|a|b|c|FOLDER").differs == "walltime UNLIMITED, not 00:10:00"


@pytest.mark.parametrize(
    "line",
    [
        "4711|2|2:00:00|m1|normal|regular|/elsewhere",
        "4712|2|2:00:00|m1|normal|regular|FOLDER",
        "4711|PENDING|Priority||FOLDER",
        "",
    ],
)
def test_another_job_and_another_format_are_no_answer(cluster: Cluster, line: str) -> None:
    assert asked_of(cluster, line) == HeldRequest()


def test_a_folder_need_not_have_a_name_in_utf_8(cluster: Cluster) -> None:
    folder = cluster.folder / os.fsdecode(b"caf\xe9")
    (cluster.folder / "listed").write_bytes(b"4711|2|2:00:00|m1|normal|regular|" + os.fsencode(folder) + b"\n")
    cluster.put("squeue", f"cat {cluster.folder}/listed")
    assert held(replace(cluster.run, job_id="4711", path=folder)).values["nodes"] == "2"


def test_a_folder_may_have_the_character_that_divides_the_answer(cluster: Cluster) -> None:
    folder = cluster.folder / "a|b"
    cluster.lists(f"4711|2|2:00:00|m1|normal|regular|{folder}")
    assert held(replace(cluster.run, job_id="4711", path=folder)).values["nodes"] == "2"


def test_the_tasks_of_an_array_are_alike(cluster: Cluster) -> None:
    lines = [f"4711_{task}|2|2:00:00|m1|normal|{place}|FOLDER" for task, place in (("[1-9]", "regular"), ("0", "x"))]
    assert asked_of(cluster, *lines, tasks=10).values["partition"] == "regular"


def test_components_are_compared_one_by_one(cluster: Cluster) -> None:
    cluster.asks_for([*ASKED, ["hetjob", ""], ["partition", "cpu"], ["nodes", "3"]])
    lines = ("4711+1|4|2:00:00|m1|normal|cpu|FOLDER", "4711+0|2|2:00:00|m1|normal|regular|FOLDER")
    found = asked_of(cluster, *lines)
    assert found.values == {
        "nodes": "2+4",
        "walltime": "02:00:00",
        "account": "m1",
        "qos": "normal+normal",
        "partition": "regular+cpu",
    }
    assert found.differs == "nodes of component 1 4, not 3"


def test_a_component_is_named_although_only_one_is_listed(cluster: Cluster) -> None:
    """The others may have ended, or squeue may have been cut off."""
    cluster.asks_for([*ASKED, ["hetjob", ""], ["partition", "cpu"]])
    found = asked_of(cluster, "4711+0|2|2:00:00|m1|normal|preempt|FOLDER")
    assert found.differs == "partition of component 0 preempt, not regular"


def test_a_controller_that_does_not_answer_claims_nothing(cluster: Cluster) -> None:
    cluster.put("squeue", "exit 1")
    run = cluster.submitted()
    assert (run.job_id, run.state, run.held, run.differs, run.printed) == ("4711", "PENDING", {}, "", "")
    assert "held" not in run.to_json()


def test_the_record_keeps_what_is_held_and_what_was_said(cluster: Cluster) -> None:
    """A plugin moved the job and said so on stderr; a wrapper of the site prints a banner."""
    cluster.put("sbatch", "echo Welcome; echo; echo Submitted batch job 4711; echo 'sbatch: moved to preempt' >&2")
    cluster.lists("4711|2|2:00:00|m1|normal|preempt|FOLDER")
    run = cluster.submitted()
    assert (run.printed, run.submission) == ("Welcome\nsbatch: moved to preempt", "hpclaunch")
    assert (run.held["partition"], run.differs) == ("preempt", "partition preempt, not regular")
    assert run.to_json()["held"]["partition"] == "preempt"
    assert (len(cluster.calls("squeue")), len(cluster.calls("sbatch"))) == (1, 1)


def test_a_further_submission_forgets_what_was_said_before(cluster: Cluster) -> None:
    cluster.put("sbatch", "echo hello; echo Submitted batch job 4711")
    cluster.lists("4711|2|2:00:00|m1|normal|preempt|FOLDER")
    first = cluster.submitted()
    assert first.printed and first.differs
    ended = runs.change(first, state="FAILED")
    cluster.put("sbatch", "echo Submitted batch job 4712")
    cluster.lists()
    again = hand_over(ended, f"#!/bin/bash\n#SBATCH --chdir={first.path}\n", 60, earlier=("4711",))
    assert (again.job_id, again.printed, again.held, again.differs) == ("4712", "", {}, "")


def test_a_refused_submission_has_nothing_of_the_one_before(cluster: Cluster) -> None:
    cluster.put("sbatch", "echo hello; echo Submitted batch job 4711")
    cluster.lists("4711|2|2:00:00|m1|normal|preempt|FOLDER")
    ended = runs.change(cluster.submitted(), state="FAILED")
    cluster.put("sbatch", "exit 1")
    cluster.lists()
    with pytest.raises(SchedulerError):
        hand_over(ended, f"#!/bin/bash\n#SBATCH --chdir={ended.path}\n", 60, earlier=("4711",))
    run = runs.load(ended.path)
    assert (run.state, run.printed, run.held, run.differs) == ("NOT_SUBMITTED", "", {}, "")


def test_all_tasks_of_an_array_may_be_listed_where_one_is_asked_for(cluster: Cluster) -> None:
    """100 bytes a task, and 20,000 tasks: more than an answer about one job may have."""
    array = replace(cluster.run, job_id="4711", tasks=20_000, earlier=("4700",))
    tasks = runs.ArrayTasks(array, {7: runs.TaskState("4711_7", "PENDING", "", "", "")})
    jobs = runs.Jobs([replace(cluster.run, job_id="4712")], [tasks])
    assert jobs.lines == 1 + 2 * 20_000
    line = f"4711_%.0f|RUNNING|None|{'n' * 100}|1800000000|{array.path}"
    cluster.put("squeue", f"seq -f '{line}' 0 19999")
    assert {job.job_id: status.state for job, status in states(jobs).items()}["4711_7"] == "RUNNING"


def test_a_user_who_does_not_wait_for_the_answer_has_the_job_all_the_same(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.put("squeue", "cat > /dev/null; kill -INT $PPID; exec sleep 600")  # once its end is waited for
    with pytest.raises(Interrupted, match="was submitted as job 4711"):
        cluster.submitted()
    run = runs.load(cluster.run.path)
    assert (run.job_id, run.state, run.held) == ("4711", "PENDING", {})


def test_a_job_that_status_found_meanwhile_still_gets_what_is_held(cluster: Cluster) -> None:
    """Another process records the job while squeue answers."""
    cluster.lists("4711|2|2:00:00|m1|normal|preempt|FOLDER")
    record = cluster.run.path / "run.json"
    change = 's/"job_id": ""/"job_id": "4711"/; s/"state": "SUBMITTING"/"state": "PENDING"/'
    history = 'echo \'{"time": "2026-01-02T03:04:05Z", "state": "PENDING", "job_id": "4711", "edition": 9}\''
    edition = 's/"edition": [0-9]*/"edition": 9/'
    found = f"sed -i '{change}; {edition}' {record}\n{history} >> {cluster.run.path}/states.jsonl"
    cluster.put("squeue", f"{found}\ncat {cluster.folder}/listed")
    run = cluster.submitted()
    assert (run.job_id, run.state, run.differs) == ("4711", "PENDING", "partition preempt, not regular")


def test_a_damaged_value_of_the_record_is_left_out(cluster: Cluster) -> None:
    record = cluster.run.path / "run.json"
    for value, read in (("[1]", {}), ('{"nodes": 3}', {"nodes": "3"})):
        values = json.loads(record.read_text())
        record.write_text(json.dumps({**values, "held": json.loads(value)}))
        assert runs.load(cluster.run.path).held == read
