"""What differs between launchers, and between schedulers, stands in their rows: nobody else knows one by its name."""

from __future__ import annotations

import ast
import re

import pytest

from hpclaunch.config.catalog import bundled
from hpclaunch.core.scheduler_rows import SCHEDULERS
from hpclaunch.launchers import LAUNCHERS
from hpclaunch.render import LIBRARY_PARTS
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
