"""What of a project may run on this machine: one question for a folder, and none for what the user named or made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import PATIENCE, Desk
from tests.cli.test_plan_model import FOUND, calls

PLAN = ("plan", "mine", "--site", "local", "--json")
SITE = """title: x
scheduler: local
defaults: {{node_type: x}}
node_types: {{x: {{title: x, cores_per_node: 1}}}}
"""
SETTINGS = "environment:\n  setup: ['echo > {}/set-up']\n"


@pytest.fixture
def project(desk: Desk) -> Desk:
    """A project that someone else wrote: a job with a model, whose Python and set-up are programs of the project."""
    python = desk.write(
        "stand-in",
        f'#!/bin/bash\necho "$*" >> {desk.spool}/calls\ncat {desk.spool}/found > "${{@: -1}}"\n',
        mode=0o755,
    )
    (desk.spool / "found").write_text(json.dumps(FOUND))
    desk.write("jobs/mine/train.py", "")
    desk.write("jobs/mine/model.py", "")
    content = {
        "summary": "mine",
        "script": "train.py",
        "parameters": {"epochs": 3, "batch_size_per_rank": 64},
        "training": {"samples": 50_000, "model": "model:make"},
        "environment": {"python": str(python), "setup": [f"echo > {desk.spool}/set-up"]},
    }
    desk.write("jobs/mine/job.yaml", json.dumps(content))
    return desk


def answer(desk: Desk, text: str, *words: str) -> tuple[int, str]:
    """Type a command on a terminal and answer its questions: (exit code, what it wrote to stderr)."""
    ours, theirs = os.openpty()
    os.write(ours, text.encode())
    process = subprocess.Popen(
        [sys.executable, "-m", "hpclaunch", *words],
        cwd=desk.project,
        env=desk.environment,
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(theirs)
    _, err = process.communicate(timeout=PATIENCE)
    os.close(ours)
    assert "Traceback" not in err, err
    return process.returncode, err


def started(desk: Desk) -> bool:
    return bool(calls(desk)) or (desk.spool / "set-up").exists()


def test_without_a_terminal_the_model_is_not_looked_at_and_the_plan_says_why(project: Desk) -> None:
    done = project.type(*PLAN)
    assert (done.code, done.json["known"], started(project)) == (0, False, False)
    assert f"{project.project} is not a trusted folder. This of it would run on this machine:" in done.err
    assert f"\n  job mine, environment.setup: echo > {project.spool}/set-up\n" in done.err
    assert "\n  the model model:make of " in done.err
    assert f"hpclaunch trust {project.project}" in done.out
    project.type("trust")
    done = project.type(*PLAN)
    assert (done.json["known"], started(project)) == (True, True)
    assert "trusted" not in done.err


def test_on_a_terminal_there_is_one_question_ever(project: Desk) -> None:
    code, err = answer(project, "n\n", *PLAN)
    assert (code, err.count("[y/N]"), started(project)) == (0, 1, False)
    code, err = answer(project, "y\n", *PLAN)
    assert (code, err.count("[y/N]"), started(project)) == (0, 1, True)
    (project.project / "jobs/mine/model.py").write_text("# other code, so that it is looked at again\n")
    project.write("hpclaunch.yaml", SETTINGS.format(project.spool))
    code, err = answer(project, "", *PLAN)
    assert (code, "[y/N]" in err, len(calls(project))) == (0, False, 2)


def test_a_job_that_the_user_made_is_trusted_and_its_neighbours_are_not(project: Desk) -> None:
    project.type("jobs", "new", "own")
    project.write("jobs/own/job.yaml", (project.project / "jobs/mine/job.yaml").read_text())
    project.write("jobs/own/model.py", "# own\n")
    assert project.type(*PLAN).json["known"] is False
    assert project.type("plan", "own", "--site", "local", "--json").json["known"] is True
    (project.spool / "set-up").unlink()
    project.write("hpclaunch.yaml", SETTINGS.format(project.spool))
    project.write("jobs/own/model.py", "# other code, so that it is looked at again\n")
    done = project.type("plan", "own", "--site", "local", "--json")
    assert (done.json["known"], (project.spool / "set-up").exists()) == (False, False)
    assert f"\n  hpclaunch.yaml, environment.setup: echo > {project.spool}/set-up\n" in done.err


def test_what_the_user_names_runs_without_a_question(desk: Desk) -> None:
    desk.write("hpclaunch.yaml", SETTINGS.format(desk.spool))
    desk.write("run.sh", f"echo > {desk.spool}/ran\n")
    done = desk.type("submit", "./run.sh", "--site", "local", "--wait")
    assert done.code == 0, done.err
    assert (desk.spool / "set-up").exists() and (desk.spool / "ran").exists()
    desk.write("jobs/mine/job.yaml", "summary: x\ncommand: [bash, '{code}/x.sh']\n")
    desk.write("jobs/mine/x.sh", f"echo > {desk.spool}/mine\n")
    assert desk.type("submit", "mine", "--site", "local", "--wait").code == 0
    assert (desk.spool / "mine").exists()


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("hpclaunch.yaml", SETTINGS),
        ("hpclaunch.yaml", "sites: {{local: {{environment: {{variables: {{BASH_ENV: '{}/x'}}}}}}}}\n"),
        ("site_configs/local.yaml", SITE),
        ("templates/local.sh.j2", "echo > {}/set-up\n"),
    ],
    ids=["settings", "variables", "site", "template"],
)
def test_a_job_from_elsewhere_takes_nothing_of_an_untrusted_project(desk: Desk, file: str, content: str) -> None:
    elsewhere = desk.write(str(desk.root / "elsewhere/run.sh"), "true\n")
    desk.write(file, content.format(desk.spool))
    done = desk.type("submit", str(elsewhere), "--site", "local", "--wait")
    assert (done.code, list(desk.project.glob("runs/*"))) == (1, [])
    assert f"nothing was started: {desk.project} is not a trusted folder" in done.err
    assert not (desk.spool / "set-up").exists()


def test_a_resumed_run_takes_nothing_new_of_an_untrusted_project(desk: Desk) -> None:
    elsewhere = desk.write(str(desk.root / "elsewhere/run.sh"), "exit 3\n")
    desk.type("submit", str(elsewhere), "--site", "local", "--wait")
    (run,) = desk.project.glob("runs/*")
    desk.write("hpclaunch.yaml", SETTINGS.format(desk.spool))
    done = desk.type("resume", run.name, "--walltime", "10m")
    assert (done.code, f"{desk.project} is not a trusted folder" in done.err) == (1, True), done.err
    assert "environment.setup" in done.err
    assert not (desk.spool / "set-up").exists()
    assert desk.type("resume", run.name).code == 0  # its own script
    assert desk.type("wait", run.name).code == 3
    assert not (desk.spool / "set-up").exists()
    desk.type("trust")
    assert desk.type("resume", run.name, "--walltime", "10m").code == 0
    assert desk.type("wait", run.name).code == 3
    assert (desk.spool / "set-up").exists()


def test_a_resumed_run_of_what_the_user_named_asks_nothing(desk: Desk) -> None:
    desk.write("run.sh", "exit 3\n")
    desk.write("hpclaunch.yaml", SETTINGS.format(desk.spool))
    desk.type("submit", "./run.sh", "--site", "local", "--wait")
    (run,) = desk.project.glob("runs/*")
    done = desk.type("resume", run.name, "--walltime", "10m")
    assert (done.code, "trusted" in done.err) == (0, False), done.err
    desk.type("wait", run.name)


def test_a_job_that_hides_a_bundled_one_is_not_what_the_user_named(desk: Desk) -> None:
    desk.write("jobs/cifar/job.yaml", "summary: x\ncommand: ['true']\n")
    done = desk.type("submit", "cifar", "--site", "local")
    assert (done.code, "is not a trusted folder" in done.err) == (1, True)
    desk.type("trust")
    assert desk.type("submit", "cifar", "--site", "local", "--wait").code == 0


def test_the_trusted_folders_are_listed_and_removed(desk: Desk) -> None:
    (desk.project / "link").symlink_to(desk.home)
    assert desk.type("trust", "--list").out == ""
    assert desk.type("trust").out == f"{desk.project}\n"
    assert desk.type("trust", "link", "--json").json["folders"] == [{"folder": str(desk.home), "trusted": True}]
    assert desk.type("trust").code == 0
    assert desk.type("trust", "--list").out.splitlines() == sorted(map(str, (desk.home, desk.project)))
    assert desk.type("trust", "--remove").out == f"{desk.project}\n"
    again = desk.type("trust", "--remove")
    assert (again.code, "is not a trusted folder" in again.err, "hpclaunch trust --list" in again.err) == (
        1,
        True,
        True,
    )
    assert desk.type("trust", "--list").out == f"{desk.home}\n"
    assert desk.type("trust", "nowhere").code == 1
    assert desk.type("trust", "--list", "--remove").code == 2


def test_a_folder_whose_name_has_a_newline_is_trusted_alone(desk: Desk) -> None:
    odd = desk.project / "a\n" / str(desk.home).lstrip("/")
    odd.mkdir(parents=True)
    desk.type("trust", str(odd))
    kept = (desk.home / ".local/state/hpclaunch/trusted-folders.txt").read_text()
    assert [Path(json.loads(line)) for line in kept.splitlines()] == [odd]
