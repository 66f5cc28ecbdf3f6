"""A secret is read where the submitting shell has it, whatever the job's own environment says."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Desk

JOB = (
    "summary: x\nscript: run.sh\nsecret_env: [TOKEN]\nenvironment: {python: /bin/bash}\nresources: {cpus_per_task: 1}\n"
)


@pytest.fixture
def elsewhere(desk: Desk) -> Path:
    """The user's folder under an XDG_CONFIG_HOME of his own, and a job that needs a secret."""
    desk.environment["HPCLAUNCH_SITE"] = "local"
    desk.write("jobs/private/job.yaml", JOB)
    desk.write("jobs/private/run.sh", 'echo "it has ${#TOKEN} letters"\n')
    config = desk.root / "it's config"
    desk.environment["XDG_CONFIG_HOME"] = str(config)
    return config / "hpclaunch"


def started(desk: Desk, **environment: str) -> subprocess.CompletedProcess[str]:
    """The rendered script, started where another environment is."""
    desk.type("render", "private", "-o", "job.sh")
    env = {name: value for name, value in desk.environment.items() if name != "XDG_CONFIG_HOME"} | environment
    return subprocess.run(["bash", "job.sh"], cwd=desk.project, env=env, capture_output=True, text=True)


def test_preflight_and_job_look_at_the_same_file(desk: Desk, elsewhere: Path) -> None:
    refused = desk.type("submit", "private", "--wait")
    assert (refused.code, str(elsewhere / "secrets/TOKEN") in refused.err) == (1, True)
    desk.write(str(elsewhere / "secrets/TOKEN"), "hunter2\n", 0o600)
    assert desk.type("submit", "private", "--wait").code == 0
    for other in ({}, {"XDG_CONFIG_HOME": "/nowhere"}, {"HOME": "/nowhere"}):
        done = started(desk, **other)
        assert (done.returncode, done.stdout) == (0, "it has 7 letters\n"), done.stderr


def test_a_file_of_the_jobs_own_environment_is_not_taken(desk: Desk, elsewhere: Path) -> None:
    desk.write(str(desk.config / "secrets/TOKEN"), "another\n", 0o600)
    done = started(desk)
    assert done.returncode == 78
    assert f"there is no file {elsewhere / 'secrets/TOKEN'} that holds it" in done.stderr


def test_the_path_is_recorded_and_never_the_value(desk: Desk, elsewhere: Path) -> None:
    desk.write(str(elsewhere / "secrets/TOKEN"), "hunter2\n", 0o600)
    done = desk.type("submit", "private", "--wait", "--json")
    run = Path(done.json["run_dir"])
    assert (done.code, desk.type("logs").out) == (0, "it has 7 letters\n")
    assert json.loads((run / "spec.json").read_text())["secrets_folder"] == str(elsewhere / "secrets")
    assert not [path for path in run.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
