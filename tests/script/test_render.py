"""Rendered scripts and their parts, as bash reads and runs them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.config.fileformat import Environment
from hpclaunch.config.site import Container
from hpclaunch.core.spec import JobSpec
from hpclaunch.launchers import LAUNCHERS
from hpclaunch.render import argv, render
from tests.builders import ROOTS, a_job, a_site, everywhere, planned, with_library


def script(spec: JobSpec) -> str:
    return render(spec, ROOTS)


def test_a_long_command_is_broken_and_stays_one_command() -> None:
    words = [f"--option-{n}=a value" for n in range(40)]
    text = argv(["printf", "%s\\n", *words])
    assert max(map(len, text.splitlines())) <= 110
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == words


def test_row_18_the_script_ends_with_the_launchs_exit_code() -> None:
    assert script(planned(framework="none")).rstrip().endswith("\nfinish")
    done = with_library("scheduler=slurm overdue=no code=7 HPCLAUNCH_EXIT_FILE=/nonexistent; finish")
    assert (done.returncode, done.stderr) == (7, "")


def test_row_25_the_launcher_runs_in_the_background(tmp_path: Path) -> None:
    launcher = "trap 'exit 3' USR2; : > up; while :; do sleep 0.05; done"
    done = with_library(
        f"cd {tmp_path}; rank() {{ :; }}\n"
        "{ until [ -e up ]; do sleep 0.05; done; kill -s USR2 $$; } &\n"
        f'launch bash -c "{launcher}"; echo "$code"'
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


@pytest.mark.parametrize("launcher", sorted(set(LAUNCHERS) - {"direct"}))
@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("export", ["none", "all"])
@pytest.mark.parametrize("image", [None, "it's $HOME; #x"])
def test_bash_can_read_the_script_of_every_launcher(launcher: str, nodes: int, export: str, image: str | None) -> None:
    site = replace(everywhere(), export=export, container=Container(runtime="apptainer", options=("--bind", "/a b")))
    hostile = Environment(container=image, setup=("echo x",), variables={"A": "it's"})
    spec = planned(
        site, a_job(environment=hostile), launcher=launcher, nodes=nodes, framework="none", arguments=("it's", "$(x)")
    )
    done = subprocess.run(["bash", "-n"], input=script(spec), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_under_ibrun_the_ranks_command_stands_in_a_file(tmp_path: Path) -> None:
    assert "\nlaunch_file ibrun\n" in script(planned(everywhere(), launcher="ibrun"))
    stand_ins = 'rank() { echo "it\'s rank"; }; start_ranks() { echo "$@"; cat "$attempt/rank"; }'
    done = with_library(f"{stand_ins}; attempt={tmp_path}; launch_file ibrun")
    assert done.stdout.splitlines()[0] == f"ibrun bash {tmp_path}/rank"
    known = {**os.environ, "HPCLAUNCH_RUN_DIR": str(tmp_path)}
    ran = subprocess.run(["bash", tmp_path / "rank"], env=known, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "it's rank\n")


@pytest.mark.parametrize(
    ("job", "port"), [("4711", 24711), ("99999999", 29999), ("0812_3", 28123), ("4711.server", 24711), ("j", 20000)]
)
def test_the_port_where_torchruns_ranks_meet_is_one_that_users_may_open(job: str, port: int) -> None:
    all_are_free = "grep() { return 1; }"
    done = with_library(f"{all_are_free}; set_rendezvous; export -p", HOSTNAME="login1", job=job)
    told = [line.removeprefix("declare -x ") for line in done.stdout.splitlines() if "PET_RDZV" in line]
    assert told == [f'PET_RDZV_ENDPOINT="{os.uname().nodename}:{port}"', f'PET_RDZV_ID="{job}"']


def test_row_24_a_stray_of_the_submitting_shell_does_not_reach_what_follows() -> None:
    lines = script(planned(a_site(export="all"))).splitlines()
    unset = next(line for line in lines if line.startswith("unset "))
    done = subprocess.run(
        ["bash", "-c", f"{unset}; env"],
        env={"PYTHONPATH": "/stray", "LD_PRELOAD": "", "KEPT": "1", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "KEPT=1" in done.stdout.splitlines()
    assert "PYTHONPATH" not in done.stdout
