"""What differs between launchers, and between schedulers, stands in their rows: nobody else knows one by its name."""

from __future__ import annotations

import ast
import re
from dataclasses import fields, replace
from typing import Any

import pytest

from hpclaunch.config.catalog import bundled
from hpclaunch.config.settings import Mail, Settings
from hpclaunch.config.site import Defaults, LauncherOptions, Launchers, NodeType
from hpclaunch.core.job_request import JobRequest, job_request_of
from hpclaunch.core.scheduler_rows import REQUESTS, SCHEDULERS
from hpclaunch.core.spec import JobSpec
from hpclaunch.core.spec_parts import Predecessor
from hpclaunch.launchers import LAUNCHERS, NO_LAUNCHER
from hpclaunch.render import LIBRARY_PARTS, render
from hpclaunch.resolve import resolve
from hpclaunch.schedulers import Scheduler, scheduler_of
from tests.architecture.source_tree import (
    MODULES,
    PACKAGE,
    SYSTEM_EXCEPTIONS,
    parsed,
    place,
    systems_named,
    systems_named_elsewhere,
    systems_quoted,
)
from tests.builders import ROOTS, a_case, a_context, a_site

PARTS = {name: (bundled("templates") / f"library/{name}.sh").read_text(encoding="utf-8") for name in LIBRARY_PARTS}
FOR_ALL = "\n".join(text for name, text in PARTS.items() if name not in SCHEDULERS)
CALLED = set(re.findall(r"\$\{scheduler\}_(\w+)", FOR_ALL))
"""The functions of a scheduler that a script calls by its name."""
WITH_QUEUE = {"requeue", "resubmit", "skip_steps"}
TO_BROADCAST = {"send", "on_nodes", "memory"}
OF_GPUS = {"node_gpus"}


def test_no_other_module_and_no_template_names_a_scheduler_a_launcher_or_a_runtime() -> None:
    assert systems_named_elsewhere() == {}


def test_what_is_allowed_is_still_needed() -> None:
    found = {(place(path), name) for path in MODULES for name, _ in systems_named(parsed(path))}
    assert [entry for entry in SYSTEM_EXCEPTIONS if entry not in found] == []


def test_a_name_is_found_wherever_it_stands() -> None:
    tree = ast.parse('x == "slurm"\ny = {"mpirun": 1}\nz in ("srun", 2)')
    assert {name for name, _ in systems_named(tree)} == {"slurm", "mpirun", "srun"}
    assert systems_quoted("""{% if launcher == 'srun' %} {{ run("a") }} slurm""") == ["srun"]


def test_only_the_schedulers_own_folder_imports_from_it() -> None:
    folders = [place(path) for path in MODULES if not place(path).startswith("schedulers/")]
    for name in folders:
        for node in ast.walk(ast.parse((PACKAGE / name).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert not (node.module or "").startswith("hpclaunch.schedulers."), name


@pytest.mark.parametrize("name", SCHEDULERS)
def test_the_module_that_a_row_names_is_below_schedulers_and_does_all(name: str) -> None:
    row, module = SCHEDULERS[name], scheduler_of(name)
    assert module.__name__ == f"hpclaunch.schedulers.{row.module}"  # type: ignore[attr-defined]
    assert all(callable(getattr(module, function)) for function in vars(Scheduler) if not function.startswith("_"))
    assert row.usual_launcher in LAUNCHERS


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_scheduler_has_the_functions_that_its_scripts_call(name: str) -> None:
    row = SCHEDULERS[name]
    defined = set(re.findall(rf"^{name}_(\w+)\(\)", PARTS[name], flags=re.MULTILINE))
    left_out = set() if row.has_queue else WITH_QUEUE
    left_out |= set() if row.broadcasts else TO_BROADCAST
    left_out |= set() if row.assigns_gpus else OF_GPUS
    assert defined == CALLED - left_out


def test_what_all_scripts_share_knows_no_scheduler_and_the_library_lists_what_each_defines() -> None:
    code = [line for line in FOR_ALL.splitlines() if not line.startswith("#")]
    names = "|".join(SCHEDULERS)
    known = rf"\b({names})_|= *({names})\b|SLURM_|\b(sbatch|squeue|scontrol|sacct|srun)\b"
    assert [line for line in code if re.search(known, line.partition(" # ")[0])] == []
    assert set(re.findall(r"NAME_(\w+)", PARTS["run"])) == CALLED > WITH_QUEUE | TO_BROADCAST


@pytest.mark.parametrize("name", LAUNCHERS)
def test_a_launchers_row_refers_to_rows_that_there_are(name: str) -> None:
    row = LAUNCHERS[name]
    assert row.scheduler in ("", *SCHEDULERS)
    assert {*row.started_by} <= {*SCHEDULERS} and {*row.started_by.values()} <= {*LAUNCHERS}
    assert "TERM" in row.signals, "how a run is ended reaches the ranks under every launcher"


_SWEPT: dict[str, Any] = {"sweep": (("seed", "1..3"),)}


def _after(**how: Any) -> dict[str, Any]:
    """The request that waits for job 7."""
    waited = Predecessor(**{"run": "7", "site": "", "state": "RUNNING", "jobs": ("7",), "is_run": False, **how})
    return {"context": a_context(predecessors=(waited,))}


ASKED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "account": ({"account": "m1"}, {}),
    "priority_class": ({"qos": "high"}, {}),
    "memory": ({"memory": 4096}, {}),
    "gpus_per_node": ({"node_type": "gpu", "gpus_per_node": 2}, {"node_type": "gpu", "gpus_per_node": 0}),
    "gpu_type": ({"node_type": "typed"}, {"node_type": "gpu"}),
    "gpu_part": ({"node_type": "parts", "gpus_per_node": 1}, {"node_type": "gpu", "gpus_per_node": 1}),
    "features": ({"node_type": "featured"}, {}),
    "array": (_SWEPT, {}),
    "at_once": ({**_SWEPT, "at_once": 2}, _SWEPT),
    "after_success": (_after(must_complete=True), {}),
    "after_end": (_after(must_complete=False), {}),
    "after_same_name": (_after(must_complete=True, jobs=(), is_same_name=True), {}),
    "requeue": ({"site": "requeue", "restarts": 3}, {"site": "resubmit", "restarts": 3}),
    "mail_to": ({"users": Settings(mail=Mail(to="ada@example.org"))}, {}),
}
"""What is asked for -> the keywords of `planned` that ask for it, and those of the same job without it."""


def _spec(scheduler: str, keywords: dict[str, Any]) -> tuple[JobSpec, list[str]]:
    """The spec at a site of this scheduler with a node type for everything that is asked of nodes, and the faults."""
    cpu = NodeType(title="x", nodes=4, cores_per_node=8, default_tasks_per_node=1)
    gpu = replace(cpu, gpus_per_node=4)
    site = a_site(
        scheduler=scheduler,
        defaults=Defaults(node_type="cpu", partition="batch", walltime=3600),
        node_types={
            "cpu": cpu,
            "featured": replace(cpu, constraint="fast"),
            "gpu": gpu,
            "typed": replace(gpu, gpu_type="a100"),
            "parts": replace(gpu, gpu_shards=4),
        },
        launchers=Launchers(default=NO_LAUNCHER, options={NO_LAUNCHER: LauncherOptions()}),
        restart=keywords.get("site", "resubmit"),
        qos={},
    )
    spec, faults = resolve(a_case(site, **{name: value for name, value in keywords.items() if name != "site"}))
    return spec, [fault.what for fault in faults]


def _directives(spec: JobSpec) -> list[str]:
    """The lines above the script's first command, but for those of people."""
    head = render(spec, ROOTS).partition("\nlibrary=")[0].splitlines()
    return [line for line in head if not line.startswith(("# ", "#!"))]


def test_whatever_may_be_asked_for_is_tried() -> None:
    assert REQUESTS.keys() == ASKED.keys() <= {one.name for one in fields(JobRequest)}


@pytest.mark.parametrize("asked", REQUESTS)
@pytest.mark.parametrize("name", [name for name, row in SCHEDULERS.items() if row.has_queue])
def test_a_script_asks_for_it_or_the_request_is_refused(name: str, asked: str) -> None:
    row, (keywords, without) = SCHEDULERS[name], ASKED[asked]
    spec, faults = _spec(name, keywords)
    if asked in row.writes:
        plain, _ = _spec(name, without)
        assert faults == [] and getattr(job_request_of(spec), asked) != getattr(job_request_of(plain), asked)
        assert [line for line in _directives(spec) if line not in _directives(plain)], render(spec, ROOTS)
    else:
        allowed = (f"hpclaunch cannot ask {row.title} for {REQUESTS[asked][0]}", f"let a job of {row.title} wait for")
        assert any(words in what for words in allowed for what in faults), faults
