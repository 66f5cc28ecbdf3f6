"""Whole scripts as plain files that a person reads, one screen each: every bundled site x what makes another script.

At most sites a further node type, a further launcher and torchrun are shown as the lines (.diff) by which their script
differs from the site's cifar-1 or cifar-4, so that a person reads only what is new.

A missing file or one too many fails. After a change that is meant: ``pytest tests/golden --rewrite-golden``, then read
the diff. The library that every script needs is itself a plain file (templates/hpclaunch.sh). A golden shows no sum of
it, so a change of the library changes no golden.
"""

from __future__ import annotations

import difflib
import hashlib
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.actions.preparing.advice import advised
from hpclaunch.actions.queueing.shell import with_bash
from hpclaunch.config.catalog import JOB, SITE
from hpclaunch.config.fileformat import Environment
from hpclaunch.config.job import script_job
from hpclaunch.config.site import Container, LauncherOptions, Site
from hpclaunch.core.errors import Refused
from hpclaunch.core.runtime_rows import RUNTIMES
from hpclaunch.core.spec import PYTORCH, TENSORFLOW, JobSpec
from hpclaunch.render import ShellParts, library, render, render_shell, whole_library
from hpclaunch.resolve import spec_of
from hpclaunch.schedulers import scheduler_of
from tests.builders import BUNDLED, CONTEXT, ROOTS, a_case, a_context, a_job, a_site, bundled_job, bundled_site, planned

HERE = Path(__file__).parent
SUM = re.compile(r"^sha256=[0-9a-f]{64}\n", re.MULTILINE)
TITLE = "# --- The functions (say, check, need, begin, launch, ...) that scripts of this version share"
SCRIPT = "my train $(date).py"
EXAMPLES = ("frontier", "local")  # where a script of one's own and every job stand, beside cifar
ALIKE = ("mnist", "resnet50")  # with a scheduler their scripts differ from cifar's in a few words
WHOLE = ("frontier", "local", "lumi", "perlmutter", "testcluster")
"""The sites whose scripts are all shown whole; between them they have every launcher but ibrun."""
SWEPT = ("frontera", "local", "perlmutter", "testcluster")
STRATEGIES = ("frontier", "local", "lumi")
SWEEP = (("learning_rate", "0.1,0.01"), ("seed", "1..10"), ("stage_to", '"",/tmp/$USER'))
ARGUMENTS = ("--lr", "0.1", "it's", "a b", "$HOME", "", "two\nlines", "END_OF_RANK", "}", "#SBATCH --nodes=99")
Cases = Iterator[tuple[str, str, dict[str, Any]]]


def cases() -> Cases:
    """Yield (site, file name without .sh, what is typed) of every golden."""
    for site in (bundled_site(found.name) for found in BUNDLED.names(SITE)):
        for name, typed in _layouts(site):
            yield site.name, f"cifar-{name}", {"target": "cifar", **typed}
        for kind in site.node_types:
            if kind != site.defaults.node_type:
                yield site.name, f"cifar-1-{kind}", {"target": "cifar", "nodes": 1, "node_type": kind}
        if site.name in SWEPT:
            yield site.name, "cifar-sweep", {"target": "cifar", "nodes": 1, "sweep": SWEEP, "at_once": 4}
        if site.name in STRATEGIES:
            several = {"tasks_per_node": 2, "launcher": "mpirun"} if site.scheduler == "local" else {"nodes": 2}
            yield site.name, "cifar-mirrored", {"target": "cifar", "strategy": "mirrored"}
            yield site.name, "cifar-multiworker", {"target": "cifar", "strategy": "multiworker", **several}
        torchrun = (site.launchers.options if site.launchers else {}).get("torchrun", LauncherOptions())
        if site.launchers and "srun" in site.launchers.options and PYTORCH not in torchrun.missing_in:
            yield site.name, "script-4-torchrun", {"target": SCRIPT, "nodes": 4, "launcher": "torchrun"}
    yield from _examples()


def _examples() -> Cases:
    """Yield what is the same at every site but for what the other goldens show."""
    for site_name in EXAMPLES:
        yield site_name, "script-1", {"target": SCRIPT, "arguments": ARGUMENTS}
        left_out = {"cifar", *(() if site_name == "local" else ALIKE)}
        for job in sorted({found.name for found in BUNDLED.names(JOB)} - left_out):
            yield site_name, f"{job}-1", {"target": job, "nodes": 1, **required_of(job)}
    pair = {"target": SCRIPT, "tasks_per_node": 2}  # by the launcher local, which starts no Horovod jobs
    yield "local", "script-1-local", {**pair, "nodes": 1}
    yield "local", "script-4-local", {**pair, "nodes": 4, "hosts_file": "hosts"}
    for runtime in RUNTIMES:
        yield "perlmutter", f"cifar-4-in-{runtime}", {"target": "cifar", "nodes": 4, "runtime": runtime}
    yield "perlmutter", "script-64", {"target": SCRIPT, "nodes": 64, "venv": "/global/homes/a/ada/torch"}
    yield "perlmutter", "shell", {"target": "cifar", "nodes": 2, "shell": True}
    for site_name in ("local", "perlmutter"):
        yield site_name, "cifar-1-secret", {"target": "cifar", "nodes": 1, "secret": "WANDB_API_KEY"}
    two_types = {"node_type": "cpu", "nodes": 1, "further_nodes": (("gpu40", "4"),)}
    yield "perlmutter", "cifar-cpu-1-gpu40-4", {"target": "cifar", **two_types}


def required_of(job: str) -> dict[str, Any]:
    """What must be typed for a job: its required parameters."""
    settings = tuple((name, f"/data/{name}") for name, row in bundled_job(job).parameters.items() if row.required)
    return {"settings": settings} if settings else {}


def _layouts(site: Site) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield one node, four nodes, and every other launcher of the site: on four nodes where it reaches them."""
    if site.scheduler == "local":
        yield "1", {"nodes": 1}
        for launcher in _launchers(site):
            yield f"1-{launcher}", {"nodes": 1, "tasks_per_node": 2, "launcher": launcher}
            yield f"4-{launcher}", {"nodes": 4, "tasks_per_node": 2, "launcher": launcher, "hosts_file": "hosts"}
        return
    for nodes in (1, 4):
        yield f"{nodes}", {"nodes": nodes}
    for launcher in _launchers(site):
        nodes = 1 if launcher == "horovodrun" else 4
        yield f"{nodes}-{launcher}", {"nodes": nodes, "launcher": launcher}


def _launchers(site: Site) -> list[str]:
    """The launchers beside the default one; torchrun starts scripts of one's own, never the bundled Horovod jobs."""
    known = site.launchers
    return [name for name in known.options if name not in (known.default, "torchrun")] if known else []


def scripts_without_a_golden() -> Cases:
    """Yield what differs from a golden in nothing that a person need read: every job, on one node and four.

    And what is shown as a change of a golden only.
    """
    for site in (bundled_site(found.name) for found in BUNDLED.names(SITE)):
        for job in (found.name for found in BUNDLED.names(JOB)):
            for nodes in (1, 4) if site.scheduler == "slurm" else (1,):
                for launcher in (None, *_launchers(site)) if site.scheduler == "slurm" else (None,):
                    typed = {"target": job, "nodes": nodes, "launcher": launcher, **required_of(job)}
                    yield site.name, f"{job}-{nodes}-{launcher}", typed
        yield site.name, "script", {"target": SCRIPT, "arguments": ARGUMENTS}
    for name, (site_name, typed) in CASES.items():
        if base_of(name) and typed.get("launcher") in (None, "torchrun"):  # the other launchers are among the above
            yield site_name, f"golden-{name.partition('/')[2]}", typed


CASES = {f"{site}/{name}": (site, typed) for site, name, typed in cases()}


def base_of(name: str) -> str | None:
    """The golden from which that of a case is shown as a change; None: it is shown whole."""
    site, _, script = name.partition("/")
    if site in WHOLE or not re.match(r"cifar-1-|cifar-4-|script-4-torchrun$", script):
        return None
    return f"{site}/cifar-{'1' if script.startswith('cifar-1-') else '4'}"


def change(base: str, before: str, name: str, after: str) -> str:
    """The lines by which a script differs from another one."""
    files = (Path(f"{base}.sh").name, Path(f"{name}.sh").name)
    return "".join(difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), *files, n=0))


def golden(name: str) -> tuple[str, str]:
    """The suffix and the text of the golden of a case."""
    suffix, text = rendered(*CASES[name])
    base = base_of(name)
    if base is None or suffix != ".sh":
        return suffix, text
    base_suffix, before = rendered(*CASES[base])
    return (".diff", change(base, before, name, text)) if base_suffix == ".sh" else (suffix, text)


def rendered(site_name: str, typed: dict[str, Any]) -> tuple[str, str]:
    """The script for a fixed context (.sh); where the site takes no such request, the reasons (.txt).

    Of a shell: the command that opens it, and the file that it reads (.rc).
    """
    if typed.get("shell"):
        site = bundled_site(site_name)
        return ".rc", shell_of(site, **{key: value for key, value in typed.items() if key != "shell"})
    try:
        return ".sh", SUM.sub(f"sha256={'0' * 64}\n", render(spec_for(site_name, typed), ROOTS))
    except Refused as refusal:
        return ".txt", f"{refusal}\n"


def spec_for(site_name: str, typed: dict[str, Any]) -> JobSpec:
    """The spec of a script for a fixed context. Raises Refused."""
    site = bundled_site(site_name)
    is_script, runtime, secret = typed["target"] == SCRIPT, typed.get("runtime"), typed.get("secret")
    typed = {key: value for key, value in typed.items() if key not in ("runtime", "secret")}
    job = script_job(Path(CONTEXT.cwd, SCRIPT)) if is_script else bundled_job(typed["target"])
    if runtime:  # as if the site ran containers so
        modules = ("gpu", "nccl-plugin") if runtime == "shifter" else ()
        site = replace(site, container=Container(runtime=runtime, modules=modules, mpi="pmi2"))
        job = replace(job, environment=Environment(container="$SCRATCH/images/tensorflow.sif"))
    if secret:
        job = replace(job, secret_env=(secret,))
    variables = {"SCRATCH": "/scratch/ada"}
    context = replace(a_context(environment=variables), hosts=("node-a", "node-b", "node-c", "node-d"))
    if site.scheduler == "slurm":
        typed = {"account": "m1234", "accept_unverified": True, **typed}
    return spec_of(advised(a_case(site, job, context=context, **typed)))


def shell_of(site: Site, **typed: Any) -> str:
    job = with_bash(bundled_job(typed["target"]), TENSORFLOW)
    case = replace(a_case(site, job, account="m1234", name="shell", **typed), interactive=True)
    spec = spec_of(replace(case, context=replace(case.context, run_dir=case.context.cwd)))
    command = scheduler_of(site.scheduler).shell_command(spec, ["/bin/bash"])
    file = render_shell(spec, ShellParts(program="/opt/hpc/bin/hpclaunch"), ROOTS)
    return f"# {shlex.join(command)}\n{file}"


@pytest.fixture(scope="session", autouse=True)
def rewrite(request: pytest.FixtureRequest) -> None:
    """Write all goldens anew if that was asked for."""
    if not request.config.getoption("--rewrite-golden"):
        return
    for folder in HERE.iterdir():
        if folder.is_dir():
            shutil.rmtree(folder)
    for name in CASES:
        suffix, text = golden(name)
        path = HERE / f"{name}{suffix}"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_there_is_a_golden_for_every_case_and_no_other() -> None:
    there = sorted(str(path.relative_to(HERE).with_suffix("")) for path in HERE.glob("*/*") if path.suffix != ".pyc")
    assert there == sorted(CASES), "pytest tests/golden --rewrite-golden"


@pytest.mark.parametrize("name", CASES)
def test_a_script_is_the_golden_one(name: str) -> None:
    suffix, text = golden(name)
    assert text == (HERE / f"{name}{suffix}").read_text(encoding="utf-8")


def test_the_library_is_the_one_that_the_scripts_name() -> None:
    """A golden shows no sum: here it is compared."""
    spec = planned()
    assert f"\nsha256={hashlib.sha256(library(spec, ROOTS).encode()).hexdigest()}\n" in render(spec, ROOTS)


def test_a_standalone_script_is_the_same_with_the_library_in_it() -> None:
    spec = planned(a_site(), a_job(restarts=5))
    short, full = render(spec, ROOTS), render(spec, ROOTS, standalone=True)
    functions = whole_library(ROOTS).removeprefix("# shellcheck shell=bash\n")
    before, _, after = full.partition(functions)
    head, _, rest = short.partition(TITLE)
    assert before.startswith(head) and before.removeprefix(head).count("\n") == 1
    assert after.endswith(rest.partition('\nsource "$library"\n')[2]) and "sha256" not in before + after
