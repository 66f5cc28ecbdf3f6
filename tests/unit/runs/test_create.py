"""The folder of run directories: who may make runs in it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpclaunch import runs
from hpclaunch.core.spec import LIBRARY, SAMPLER, Code, Script, Sweep
from hpclaunch.runs.create import create as create_run
from hpclaunch.runs.snapshot import FROM_OUTSIDE, choose
from tests.builders import planned


@pytest.fixture(autouse=True)
def _usual_mask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def make_run(folder: Path, announce: Callable[[runs.Run], None] = lambda run: None) -> runs.Run:
    code = Code(folder=str(folder.parent / "none"), entry="")
    spec = replace(planned(), run_dir=str(folder / "train-1"), code=code)
    return create_run(spec, Script(text="", library=""), choose(code), runs.Submission(host="host"), announce)


@pytest.mark.parametrize(
    ("around", "expected"), [(0o700, 0o755), (0o755, 0o755), (0o770, 0o1775), (0o775, 0o1775), (0o777, 0o1777)]
)
def test_who_may_write_into_the_project_may_make_runs_and_remove_only_their_own(
    tmp_path: Path, around: int, expected: int
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    project.chmod(around)
    make_run(project / "runs")
    assert stat.S_IMODE((project / "runs").stat().st_mode) == expected


def test_a_folder_of_runs_that_exists_keeps_its_permissions(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "runs").mkdir(parents=True)
    project.chmod(0o777)
    make_run(project / "runs")
    assert stat.S_IMODE((project / "runs").stat().st_mode) == 0o755


def test_folders_that_are_missing_on_the_way_are_made(tmp_path: Path) -> None:
    run = make_run(tmp_path / "scratch" / "ada" / "runs")
    assert (tmp_path / "scratch" / "ada" / "runs" / "train-1" / "run.json").is_file()
    assert (run.state, run.tasks, run.index) == ("RENDERED", 0, -1)


def test_a_run_is_announced_when_it_has_a_record_and_nothing_else(tmp_path: Path) -> None:
    seen: list[tuple[str, list[str]]] = []

    def announce(run: runs.Run) -> None:
        seen.append((runs.load(run.path).state, sorted(path.name for path in run.path.iterdir())))

    made = make_run(tmp_path / "runs", announce)
    assert seen == [("INCOMPLETE", ["run.json", "states.jsonl"])] and made.state == "RENDERED"


def create(folder: Path, script: Script, submission: runs.Submission, code: Code | None = None, **changes: Any) -> Path:
    code = code or Code(folder=str(folder.parent / "none"), entry="")
    spec = replace(planned(), run_dir=str(folder / "train-1"), code=code, **changes)
    return create_run(spec, script, choose(code), submission, lambda run: None).path


def facts(path: Path) -> dict[str, Any]:
    found = json.loads((path / "environment.json").read_text())
    assert isinstance(found, dict)
    return found


def test_what_is_in_a_new_run_directory(tmp_path: Path) -> None:
    script = Script(text="echo hello\n", library="run() { :; }\n", sampler="print()\n")
    path = create(tmp_path / "runs", script, runs.Submission(host="login", request={"target": "train"}))
    assert [path.name for path in sorted(path.iterdir()) if path.is_dir()] == [
        "attempts",
        "checkpoints",
        "code",
        "logs",
    ]
    assert (path / "job.sh").read_text() == script.text
    assert (path / LIBRARY).read_text() == script.library and (path / SAMPLER).read_text() == script.sampler
    assert json.loads((path / "request.json").read_text()) == {"target": "train"}
    assert json.loads((path / "spec.json").read_text())["run_dir"] == str(path)
    assert not (path / "hosts").exists()


def test_only_what_a_run_needs_is_in_its_directory(tmp_path: Path) -> None:
    script = Script(text="", library="")
    sweep = Sweep(axes=(("lr", ("1", "2")),))
    path = create(tmp_path / "runs", script, runs.Submission(host="login"), sweep=sweep, hosts=("n1", "n2"))
    assert (path / "hosts").read_text() == "n1\nn2\n"
    assert not (path / SAMPLER).exists()
    folders = [entry.name for entry in sorted(path.iterdir()) if entry.is_dir()]
    assert folders == ["code", "logs"], "each run of an array has its own checkpoints"


def test_the_facts_of_a_submission_are_recorded_without_other_variables(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/train.py").write_text("print()")
    environment = {"VIRTUAL_ENV": "/venv", "TOKEN": "secret"}
    submission = runs.Submission(host="login", folder="/project", environment=environment)
    code = Code(folder=str(tmp_path / "own"), entry="train.py")
    found = facts(create(tmp_path / "runs", Script(text="", library=""), submission, code))
    assert (found["host"], found["folder"], found["variables"]) == ("login", "/project", {"VIRTUAL_ENV": "/venv"})
    assert found["code_files"] == ["train.py"] and FROM_OUTSIDE not in found
    in_place = create(tmp_path / "more", Script(text="", library=""), submission, replace(code, in_place=True))
    assert facts(in_place)["code_files"] == []


def test_files_that_a_link_led_to_are_recorded(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "shared.py").write_text("")
    (tmp_path / "own/shared.py").symlink_to("../shared.py")
    code = Code(folder=str(tmp_path / "own"), entry="shared.py", source_only=True)
    path = create(tmp_path / "runs", Script(text="", library=""), runs.Submission(host="login"), code)
    assert facts(path)[FROM_OUTSIDE] == ["shared.py"]


def test_a_user_without_a_name_is_recorded_by_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])  # as for a user ID of a container
    path = create(tmp_path / "runs", Script(text="", library=""), runs.Submission(host="login"))
    assert facts(path)["user"] == str(os.getuid())
