"""The parts of the library: a script gets those that it calls, and each file that comes of them is complete."""

from __future__ import annotations

import itertools
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.core.errors import Refused
from hpclaunch.core.scheduler_rows import SCHEDULERS
from hpclaunch.core.spec import Broadcast, JobSpec
from hpclaunch.launchers import LAUNCHERS
from hpclaunch.render import LIBRARY_PARTS, ShellParts, library, render, render_shell, whole_library
from tests.builders import ROOTS, planned
from tests.golden.test_golden import cases, spec_for

FUNCTION = re.compile(r"^([a-z_]+)\(\) [{(](.*?)^[})]", re.MULTILINE | re.DOTALL)
GUARDED = {
    "samples=no": {"sample_rank", "count_rank", "find_sampler", "end_sampler"},
    "copies=()": {"in_copies", "leave_copies", "remove_copies"},
}
"""What keeps the part ``run`` from calling functions of a part that a script does not have."""
COPIES = Broadcast(source="", folder="/dev/shm", required=True)


def functions(text: str) -> dict[str, str]:
    """The functions of bash text, with what they do but for their comments."""
    return {name: re.sub(r"(^|\s)#\s.*", "", body) for name, body in FUNCTION.findall(text)}


def variants(scheduler: str, launcher: str) -> list[JobSpec]:
    """A script with and without samples and copies."""
    spec = replace(planned(), scheduler=scheduler, launcher=launcher)
    both = itertools.product((True, False), (COPIES, None))
    return [replace(spec, samples=samples, broadcast=broadcast) for samples, broadcast in both]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_library_has_every_function_that_its_functions_call(scheduler: str, launcher: str) -> None:
    everything = functions(whole_library(ROOTS))
    for spec in variants(scheduler, launcher):
        there = functions(library(spec, ROOTS))
        missing = set() if spec.samples else GUARDED["samples=no"]
        missing |= set() if spec.broadcast else GUARDED["copies=()"]
        for name, body in there.items():
            called = everything.keys() & set(re.findall(r"[a-z_]+", body))
            assert called - there.keys() <= missing, name


def calls_in(script: str) -> set[str]:
    """The words of a script at which a command begins."""
    commands = re.sub(r"(^|\s)#\s.*", "", script, flags=re.MULTILINE)
    return set(re.findall(r"(?:^|[;&|({])[ \t]*([a-z_]+)(?![a-z_=(])", commands, re.MULTILINE))


def test_a_library_has_every_function_that_the_scripts_of_its_site_call() -> None:
    everything = functions(whole_library(ROOTS)).keys()
    called_anywhere: set[str] = set()
    for site, name, typed in cases():
        if typed.get("shell"):  # a shell's file has its own functions
            continue
        try:
            spec = spec_for(site, typed)
        except Refused:
            continue
        called = everything & calls_in(render(spec, ROOTS))
        assert called <= functions(library(spec, ROOTS)).keys(), (site, name)
        called_anywhere |= called
    assert {
        "begin",
        "need",
        "broadcast",
        "launch",
        "launch_file",
        "set_rank",
        "array_task",
        "finish",
    } <= called_anywhere


def test_the_parts_hold_each_function_once() -> None:
    names = [name for name, _ in FUNCTION.findall(whole_library(ROOTS))]
    assert len(names) == len(set(names)) > 100
    files = {path.stem for path in (ROOTS[-1][1] / "library").iterdir()}
    assert files == {*LIBRARY_PARTS}


def test_a_script_gets_what_it_calls_and_a_standalone_one_gets_all() -> None:
    spec = planned()
    plain = functions(library(replace(spec, samples=False, broadcast=None), ROOTS)).keys()
    assert {"begin", "launch", "finish", "need", "slurm_state"} <= plain
    assert not plain & {"local_state", "spawn_ranks", "sample_rank", "broadcast"}
    assert "sample_rank" in functions(library(replace(spec, samples=True), ROOTS))
    assert "broadcast" in functions(library(replace(spec, broadcast=COPIES), ROOTS))
    on_a_desk = functions(library(replace(spec, scheduler="local", launcher="local"), ROOTS)).keys()
    assert {"spawn_ranks", "local_state"} <= on_a_desk and "slurm_state" not in on_a_desk
    by_torchrun = replace(spec, scheduler="local", launcher="torchrun")
    assert "spawn_ranks" in functions(library(by_torchrun, ROOTS))
    assert functions(render(spec, ROOTS, standalone=True)).keys() >= functions(whole_library(ROOTS)).keys()


@pytest.mark.parametrize("variables", [{}, {"sampler": "/x/sampler.py", "HPCLAUNCH_BROADCAST": "/x"}])
def test_without_their_parts_a_rank_has_no_sampler_and_no_copies(tmp_path: Path, variables: dict[str, str]) -> None:
    (tmp_path / "hpclaunch.sh").write_text(library(replace(planned(), samples=False, broadcast=None), ROOTS))
    (tmp_path / "samples").mkdir()
    text = f"source {tmp_path}/hpclaunch.sh\nscheduler=slurm samples=no HPCLAUNCH_EXIT_FILE={tmp_path}/failed\n"
    text += (
        'rank() { set_rank 1 0; echo "<$sampler$HPCLAUNCH_BROADCAST>"; }\n(eval "$(rank_program)")\nend_what_is_left'
    )
    environment = {"PATH": "/usr/bin:/bin", "HPCLAUNCH_RUN_DIR": str(tmp_path), **variables}
    done = subprocess.run(["bash", "-c", text], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "<>\n", "")
    assert not [*(tmp_path / "samples").iterdir()]


def test_a_shell_reads_the_checks_alone_and_does_not_end_where_a_job_would() -> None:
    text = render_shell(planned(), ShellParts(), ROOTS)
    checks = (ROOTS[-1][1] / "library/checks.sh").read_text().removeprefix("# shellcheck shell=bash\n")
    assert checks in text and "claim() {" not in text and text.count("\nstop() {") == 1
    lines = f"{text.partition('# --- Environment')[0]}need no-such-program; echo on"
    done = subprocess.run(
        ["bash", "-c", lines], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False
    )
    assert (done.stdout, "there is no program no-such-program" in done.stderr) == ("on\n", True)


def test_a_library_of_ones_own_replaces_all_parts(tmp_path: Path) -> None:
    (tmp_path / "hpclaunch.sh").write_text("begin() { :; }\n")
    roots = [("project", tmp_path), *ROOTS]
    assert library(planned(), roots) == whole_library(roots) == "begin() { :; }\n"
