"""Whole scripts as plain files: every bundled site x job, and a script of one's own. One missing or too many fails.

After a change that is meant: ``pytest tests/golden --rewrite-golden``, then read the diff.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.config.catalog import JOB, SITE
from hpclaunch.config.fileformat import Environment
from hpclaunch.config.job import script_job
from hpclaunch.config.site import Container, Site
from hpclaunch.core.errors import Refused
from hpclaunch.render import render
from hpclaunch.resolve.containers import RUNTIMES
from tests.builders import BUNDLED, CONTEXT, ROOTS, a_context, bundled_job, bundled_site, planned

HERE = Path(__file__).parent
SCRIPT = "my train $(date).py"
EVERYWHERE = ("cifar", "mnist")  # with every launcher of a site, on one node and on four; other jobs once
SWEPT = ("frontera", "local", "perlmutter", "testcluster")
STRATEGIES = ("frontier", "local", "lumi", "perlmutter", "testcluster")
SWEEP = (("learning_rate", "0.1,0.01"), ("seed", "1..10"), ("stage_to", '"",/tmp/$USER'))
ARGUMENTS = ("--lr", "0.1", "it's", "a b", "$HOME", "", "two\nlines", "END_OF_RANK", "#SBATCH --nodes=99")


def cases() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield (site, file name without .sh, what is typed)."""
    jobs = [found.name for found in BUNDLED.names(JOB)]
    for site in (bundled_site(found.name) for found in BUNDLED.names(SITE)):
        for job in jobs:
            for name, typed in _layouts(site) if job in EVERYWHERE else [("1", {})]:
                yield site.name, f"{job}-{name}", {"target": job, **typed}
        for kind in site.node_types:
            if kind != site.defaults.node_type:
                yield site.name, f"cifar-1-{kind}", {"target": "cifar", "node_type": kind}
        if site.name in SWEPT:
            yield site.name, "cifar-sweep", {"target": "cifar", "nodes": 1, "sweep": SWEEP, "at_once": 4}
        if site.name in STRATEGIES:
            several = {"tasks_per_node": 2, "launcher": "mpirun"} if site.scheduler == "local" else {"nodes": 2}
            yield site.name, "cifar-mirrored", {"target": "cifar", "strategy": "mirrored"}
            yield site.name, "cifar-multiworker", {"target": "cifar", "strategy": "multiworker", **several}
        yield site.name, "script-1", {"target": SCRIPT, "arguments": ARGUMENTS}
        if site.launchers and "srun" in site.launchers.options:
            yield site.name, "script-4-torchrun", {"target": SCRIPT, "nodes": 4, "launcher": "torchrun"}
    for runtime in RUNTIMES:
        yield "perlmutter", f"cifar-4-in-{runtime}", {"target": "cifar", "nodes": 4, "runtime": runtime}


def _layouts(site: Site) -> Iterator[tuple[str, dict[str, Any]]]:
    if site.scheduler == "local":
        yield "1", {}
        for launcher in site.launchers.options if site.launchers else ():
            yield f"1-{launcher}", {"tasks_per_node": 2, "launcher": launcher}
            yield f"4-{launcher}", {"nodes": 4, "tasks_per_node": 2, "launcher": launcher, "hosts_file": "hosts"}
        return
    for nodes in (1, 4):
        yield f"{nodes}", {"nodes": nodes}
        for launcher in _launchers(site):
            yield f"{nodes}-{launcher}", {"nodes": nodes, "launcher": launcher}


def _launchers(site: Site) -> list[str]:
    """The launchers beside the default one; torchrun starts scripts of one's own, never the bundled Horovod jobs."""
    known = site.launchers
    return [name for name in known.options if name not in (known.default, "torchrun")] if known else []


CASES = {f"{site}/{name}": (site, typed) for site, name, typed in cases()}


def rendered(site_name: str, typed: dict[str, Any]) -> tuple[str, str]:
    """The script for a fixed context (.sh); where the site takes no such request, the reasons (.txt)."""
    site = bundled_site(site_name)
    is_script, runtime = typed["target"] == SCRIPT, typed.get("runtime")
    typed = {key: value for key, value in typed.items() if key != "runtime"}
    job = script_job(Path(CONTEXT.cwd, SCRIPT)) if is_script else bundled_job(typed["target"])
    if runtime:  # as if the site ran containers so
        modules = ("gpu", "nccl-plugin") if runtime == "shifter" else ()
        site = replace(site, container=Container(runtime=runtime, modules=modules, mpi="pmi2"))
        job = replace(job, environment=Environment(container="$SCRATCH/images/tensorflow.sif"))
    variables = {"SCRATCH": "/scratch/ada"}
    context = replace(a_context(environment=variables), hosts=("node-a", "node-b", "node-c", "node-d"))
    if site.scheduler == "slurm":
        typed = {"account": "m1234", "accept_unverified": True, **typed}
    try:
        return ".sh", render(planned(site, job, context=context, **typed), ROOTS)
    except Refused as refusal:
        return ".txt", f"{refusal}\n"


@pytest.fixture(scope="session", autouse=True)
def rewrite(request: pytest.FixtureRequest) -> None:
    """Write all goldens anew if that was asked for."""
    if not request.config.getoption("--rewrite-golden"):
        return
    for folder in HERE.iterdir():
        if folder.is_dir():
            shutil.rmtree(folder)
    for name, (site, typed) in CASES.items():
        suffix, text = rendered(site, typed)
        path = HERE / f"{name}{suffix}"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_there_is_a_golden_for_every_case_and_no_other() -> None:
    there = sorted(str(path.relative_to(HERE).with_suffix("")) for path in HERE.glob("*/*") if path.suffix != ".pyc")
    assert there == sorted(CASES), "pytest tests/golden --rewrite-golden"


@pytest.mark.parametrize("name", CASES)
def test_a_script_is_the_golden_one(name: str) -> None:
    site, typed = CASES[name]
    suffix, text = rendered(site, typed)
    assert text == (HERE / f"{name}{suffix}").read_text(encoding="utf-8")


def test_every_golden_passes_bash_n() -> None:
    for path in sorted(HERE.glob("*/*.sh")):
        done = subprocess.run(["bash", "-n", path], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), path


def test_shellcheck_finds_nothing() -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("group shellcheck: install shellcheck")
    files = sorted(HERE.glob("*/*.sh"))
    done = subprocess.run(["shellcheck", *files], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
