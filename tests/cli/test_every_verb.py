"""Every verb with every bundled job, on this machine and on two clusters: no traceback, and a sensible exit code."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from hpclaunch.cli import app
from hpclaunch.config.catalog import bundled
from tests.cli.conftest import Desk, Done, make_desk, with_slurm

JOBS = sorted(path.parent.name for path in bundled("jobs").glob("*/job.yaml"))
PLACES = {
    "local": ({}, ""),
    "perlmutter": ({"NERSC_HOST": "perlmutter"}, "--account m1_g --site perlmutter"),
    "lumi": ({"HPCLAUNCH_SITE": "lumi"}, "--account p1 --site lumi --accept-unverified"),
}
"""Site -> the variables by which it is recognized, and the options that a submission needs there."""
NEEDED = {"universes": "--set folder=volumes"}
"""Job -> the options that its program cannot do without."""
OF_A_JOB = {
    "submit": ("{job} --dry-run {site} {set}", "{job} --nodes 1 --dry-run --json {site} {set}"),
    "render": ("{job} {site} {set}",),
    "shell": ("{job} --dry-run {site}",),
    "search start": ("{job} --space space.yaml --dry-run {site} {set}",),
    "plan": ("{job} --explain {site} {set}",),
    "profile": ("{job} --dry-run {site} {set}",),
    "scale": ("{job} --nodes 1,2 --dry-run {site} {set}",),
    "data fetch": ("{job} --data-dir data --from nothing",),
    "jobs show": ("{job}", "{job} --json"),
    "sites compare": ("{job} --site perlmutter --site local {set}",),
}
"""Verb -> what is typed behind it, for every job."""
OF_A_RUN = {
    **dict.fromkeys(("status", "logs", "efficiency", "results", "runs show"), ("{run}", "{run} --json")),
    **dict.fromkeys(("retry", "resume", "report", "search cancel", "search resume", "cancel"), ("{run}",)),
    **dict.fromkeys(("runs forget", "runs clean"), ("{run} --yes",)),
    "rerun": ("{run} --dry-run",),
    "runs repair": ("{run} --state FAILED --reason why",),
    "runs compare": ("{run} {run}",),
    "runs export": ("{run} --to ro-crate", "{run} --to mlflow", "{run} --to tensorboard"),
}
"""Verb -> what is typed behind it, for a run of every job at two clusters."""
ALONE = {
    **dict.fromkeys(("search status", "search results", "search recipe", "runs rebuild", "sites detect"), ("",)),
    **dict.fromkeys(("runs list", "jobs list", "sites list", "sites show", "docs"), ("", "--json")),
    "runs adopt": ("nothing",),
    "sites check": ("", "--json", "perlmutter"),
    "jobs new": ("fresh", "fresh"),
    "doctor": ("--from nothing",),
    "trust": ("", "--list", "--remove"),
    "bundle": ("--machine nothing",),
    "environment make": ("mine --framework jax --dry-run", "mine --framework jax --dry-run --json"),
    "environment list": ("", "--json"),
    **dict.fromkeys(("environment show", "environment remove"), ("nothing", "nothing --json")),
}
"""Verb -> what is typed behind it once at each place."""
ELSEWHERE = ("wait", "watch")
"""They follow a run to its end: tests/cli/test_watch.py."""
FINDINGS = "sites check"
"""A verb whose exit code is also what it found: 1 for a difference, 3 where it could not ask."""
REFUSED = {
    ("shell", "local"): "has no scheduler",
    ("scale", "local"): "is a single machine",
    ("search start", "universes"): "has no parameter 'epochs'",
    ("profile", "universes"): "has no 'training' section",
    ("scale", "universes"): "has no 'training' section",
    ("data fetch", "universes"): "reads no data set",
    ("data fetch", ""): "does not exist",
}
"""(verb, place or job; empty: all) -> why it is refused, in the words of the error."""


def verbs(command: Any = None, words: str = "") -> Iterator[str]:
    """All verbs, with their second word if they have one."""
    command = typer.main.get_group(app) if command is None else command
    inner = getattr(command, "commands", {})
    for word in inner:
        yield from verbs(inner[word], f"{words} {word}".strip())
    if not inner:
        yield words


def test_every_verb_is_typed_here() -> None:
    assert sorted(verbs()) == sorted((*OF_A_JOB, *OF_A_RUN, *ALONE, *ELSEWHERE))


@pytest.fixture
def desk(request: pytest.FixtureRequest) -> Iterator[Desk]:
    """A desk on a machine of the place, with fakes of Slurm's programs; not in /tmp, which sites refuse."""
    folder, place = Path(tempfile.mkdtemp(dir="/var/tmp")), request.getfixturevalue("place")
    desk = make_desk(folder)
    if place != "local":
        with_slurm(desk)
        del desk.environment["HPCLAUNCH_SITE"]
        (folder / "slurm.conf").write_text(f"ClusterName={place}\n")
    desk.environment.update(PLACES[place][0])
    desk.write("space.yaml", "parameters: {epochs: [1, 2]}\n")
    for name in ("data", "volumes"):
        (desk.project / name).mkdir()
    yield desk
    shutil.rmtree(folder)


def _typed(desk: Desk, words: str) -> Done:
    """Type it; what ends well says something, and what is refused says why."""
    done = desk.type(*words.split())
    assert done.code in ((0, 1, 3) if words.startswith(FINDINGS) else (0, 1, 2)), f"{words}: {done.code}\n{done.err}"
    assert done.out or done.err, words
    if words.startswith(FINDINGS):
        return done
    said = '"document": "error"' in done.out if "--json" in words else "error: " in done.err
    assert said == (done.code != 0), f"{words}: {done.code}\n{done.out[:500]}\n{done.err}"
    return done


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("place", PLACES)
def test_every_verb_of_a_job(desk: Desk, place: str, job: str) -> None:
    for verb, typed in OF_A_JOB.items():
        for words in typed:
            made = words.format(job=job, site=PLACES[place][1], set=NEEDED.get(job, ""))
            done = _typed(desk, f"{verb} {made}")
            why = next((REFUSED[key] for key in ((verb, job), (verb, place), (verb, "")) if key in REFUSED), "")
            assert done.code == bool(why), f"{verb} {made}\n{done.err}"
            assert why in done.err


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("place", ["perlmutter", "lumi"])
def test_every_verb_of_a_run(desk: Desk, place: str, job: str) -> None:
    options = f"{PLACES[place][1]} {NEEDED.get(job, '--synthetic')}"
    assert _typed(desk, f"submit {job} --nodes 1 --runs-dir runs {options}").code == 0
    (run,) = (desk.project / "runs").iterdir()
    for verb, typed in OF_A_RUN.items():
        for words in typed:
            _typed(desk, f"{verb} {words.format(run=run.name)}")


@pytest.mark.parametrize("place", PLACES)
def test_every_verb_without_a_job(desk: Desk, place: str) -> None:
    for verb, typed in ALONE.items():
        for words in typed:
            _typed(desk, f"{verb} {words}")
