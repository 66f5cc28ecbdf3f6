"""The functions beside every script: named with their sum, refused where they are not the ones, put in on request."""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path

import pytest

from hpclaunch.render import whole_library
from tests.builders import ROOTS
from tests.cli.conftest import Desk, wait_for

SHIPPED = whole_library(ROOTS)


@pytest.fixture
def local(desk: Desk) -> Desk:
    desk.environment["HPCLAUNCH_SITE"] = "local"
    desk.write("run.sh", "echo it runs\n")
    return desk


def rendered(desk: Desk, *words: str) -> Path:
    """The run directory of a script that was rendered to job.sh."""
    done = desk.type("render", "./run.sh", "-o", "job.sh", *words)
    assert done.code == 0, done.err
    return Path(done.out.strip())


def started(desk: Desk, name: str = "job.sh") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", name], cwd=desk.project, env=desk.environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("site", ["local", "slurmsite"])
def test_a_script_names_the_library_beside_it_by_path_and_sum(local: Desk, cluster: Desk, site: str) -> None:
    run = rendered(cluster, "--site", site)
    text = (run / "job.sh").read_text()
    library = (run / "hpclaunch.sh").read_bytes()
    other = b"slurm" if site == "local" else b"local"
    assert b"\nclaim() {" in library and b"\n%s_job() {" % other not in library
    assert f"\nlibrary={run}/hpclaunch.sh\n" in text
    assert f"\nsha256={hashlib.sha256(library).hexdigest()}\n" in text
    assert (run / "hpclaunch.sh").stat().st_mode == (run / "job.sh").stat().st_mode


@pytest.mark.parametrize("damage", ["", "# another version\n", None])
def test_a_library_that_is_missing_or_different_stops_the_script_with_one_sentence(
    local: Desk, damage: str | None
) -> None:
    run = rendered(local)
    sum_of_it = hashlib.sha256((run / "hpclaunch.sh").read_bytes()).hexdigest()
    (run / "hpclaunch.sh").unlink()
    if damage is not None:
        (run / "hpclaunch.sh").write_text(damage)
    done = started(local)
    assert (done.returncode, done.stdout) == (78, "")
    missing = f"the library {run}/hpclaunch.sh is missing (a dry run makes no run directory)"
    assert done.stderr == f"hpclaunch: {missing}, or its SHA-256 is not {sum_of_it}\n"
    assert not list(run.glob("attempts/*"))


def test_a_dry_run_that_is_started_says_that_it_has_no_run_directory_and_makes_none(local: Desk) -> None:
    script = local.project / "shown.sh"
    script.write_text(local.type("submit", "./run.sh", "--dry-run", "--full").out)
    done = started(local, script.name)
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr.endswith("; a dry run makes none: hpclaunch render ... -o FILE does\n")
    assert not list(local.project.glob("runs/*"))


def test_a_standalone_script_needs_no_library_beside_it(local: Desk) -> None:
    run = rendered(local, "--standalone")
    assert (run / "job.sh").read_bytes() == (local.project / "job.sh").read_bytes()
    (run / "hpclaunch.sh").unlink()
    assert (started(local).returncode, started(local).returncode) == (0, 78)
    assert local.type("status", "--json").runs[0]["state"] == "COMPLETED"


def test_a_dry_run_shows_the_script_with_the_library_in_it_on_request(local: Desk) -> None:
    before = local.listing()
    short = local.type("submit", "./run.sh", "--dry-run").out
    full = local.type("submit", "./run.sh", "--dry-run", "--full").out
    assert local.listing() == before
    assert "\nclaim() {" not in short and "\nclaim() {" in full
    assert short.count("\n") < 50 and full.count("\n") > 300
    assert local.type("render", "./run.sh", "--standalone").out.count("\n") == full.count("\n")
    told = local.type("submit", "./run.sh", "--dry-run", "--full", "--json").json
    assert told["script"].count("\n") == full.count("\n")
    refused = local.type("submit", "./run.sh", "--full")
    assert (refused.code, "next: --dry-run --full" in refused.err) == (2, True)


def test_ones_own_library_takes_the_place_of_the_bundled_one_and_is_announced(local: Desk) -> None:
    own = local.write("templates/hpclaunch.sh", SHIPPED + "say() { printf 'mine: %s\\n' \"$1\" >&2; }\n")
    done = local.type("render", "./run.sh", "-o", "job.sh")
    assert f"warning: the template {own} replaces the bundled one" in done.err
    assert (Path(done.out.strip()) / "hpclaunch.sh").read_bytes() == own.read_bytes()
    assert started(local).returncode == 0
    again = started(local)
    assert (again.returncode, again.stderr[:6]) == (78, "mine: ")
    own.write_bytes(b"\xff")
    refused = local.type("submit", "./run.sh", "--dry-run")
    assert (refused.code, f"{own}: the library of the scripts cannot be read" in refused.err) == (1, True)


def test_one_function_can_be_defined_again_in_a_template(local: Desk) -> None:
    mine = "stop() { echo 'so it ends' >&2; exit 79; }"
    text = f'{{% extends "bundled/local.sh.j2" %}}{{% block library %}}{{{{ super() }}}}{mine}\n{{% endblock %}}'
    local.write("templates/local.sh.j2", text)
    rendered(local)
    assert started(local).returncode == 0
    done = started(local)
    assert (done.returncode, done.stderr) == (79, "so it ends\n")


def test_a_script_that_is_started_twice_runs_once_until_it_has_failed(local: Desk) -> None:
    local.write(
        "run.sh",
        'echo x >> "$HPCLAUNCH_RUN_DIR/starts"\n'
        'until [ -e "$HPCLAUNCH_RUN_DIR/go" ]; do sleep 0.1; done\n'
        'exit "$(cat "$HPCLAUNCH_RUN_DIR/go")"\n',
    )
    run = rendered(local)
    with subprocess.Popen(["bash", "job.sh"], cwd=local.project, env=local.environment) as first:
        wait_for((run / "starts").exists, "the first start")
        during = started(local)
        (run / "go").write_text("3")
    job = f"by-hand-{first.pid}"
    assert during.returncode == 78
    assert f"nothing was started: job {job} has this run directory and is RUNNING" in during.stderr
    assert f"hpclaunch cancel {run} ends it" in during.stderr
    assert (first.returncode, started(local).returncode) == (3, 3)
    (run / "go").write_text("0")
    assert started(local).returncode == 0
    after = started(local)
    assert (after.returncode, (run / "starts").read_text()) == (78, "x\nx\nx\n")
    assert re.search(rf"job by-hand-\d+ has completed this run. See hpclaunch results {run}", after.stderr)
    assert local.type("status", "--json").runs[0]["state"] == "COMPLETED"


def test_resuming_with_another_walltime_keeps_the_library_of_before(local: Desk) -> None:
    local.write("run.sh", 'echo "start $HPCLAUNCH_RESTART_COUNT"\nexit 75\n')
    run = Path(local.type("submit", "./run.sh", "--wait", "--json").json["run_dir"])
    assert local.type("resume", run.name).code == 0
    assert local.type("wait", run.name).code == 75
    before = (run / "hpclaunch.sh").read_text()
    local.write("templates/hpclaunch.sh", SHIPPED + "# newer\n")
    assert local.type("resume", run.name, "--walltime", "5m").code == 0
    assert local.type("wait", run.name).code == 75
    assert (run / "hpclaunch.2.sh").read_text() == before
    assert (run / "hpclaunch.sh").read_text().endswith("# newer\n")
    assert local.type("logs", run.name).out == "start 0\nstart 1\nstart 2\n"
