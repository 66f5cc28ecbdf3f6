"""The software that a job's ranks have around them, for a program that is no rank and runs on this machine."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import field, replace

from hpclaunch.core.records import record
from hpclaunch.core.spec import Step
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.containers import container_of, container_request
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.ranks import launcher_of
from hpclaunch.resolve.sizing import sizing_of
from hpclaunch.resolve.software import software_of


@record
class PythonEnvironment:
    """Set-up, variables, and the ``words`` that start Python.

    ``container``: the folders that must be seen -> the words before Python's. ``closed``: why the environment cannot be
    entered from here.
    """

    words: tuple[str, ...]
    steps: tuple[Step, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    shell: tuple[str, ...] = ("/bin/bash",)
    container: Callable[[tuple[str, ...]], tuple[str, ...]] = lambda folders: ()
    closed: str = ""

    def command(self, folders: tuple[str, ...]) -> tuple[str, ...]:
        """Return the words that start Python where it sees these folders."""
        return (*self.container(folders), *self.words)

    def script(self, command: str) -> str:
        """Return a script that sets everything up and becomes the command; it says what failed."""
        lines = [f"unset {' '.join(self.unset)}"] if self.unset else []
        for step in self.steps:
            lines += [step.line, f"[ $? -eq 0 ] || {{ echo {shlex.quote(f'{step.failure}: failed')} >&2; exit 78; }}"]
        lines += [f"export {name}={shlex.quote(value)}" for name, value in self.variables.items()]
        return "\n".join([*lines, f"exec {command}", ""])


def python_environment_of(case: Case) -> PythonEnvironment:
    """Return what one rank of the job would have around it on one node."""
    decisions = Decisions()  # what is wrong with a run does not matter to a look at its software
    case = replace(case, request=replace(case.request, nodes=1), needs_account=False)
    sizing = sizing_of(case, decisions)
    node = case.node(sizing.node_type)
    launcher = launcher_of(case, sizing.layout, decisions)
    software = software_of(case, sizing, launcher, decisions)

    def container(folders: tuple[str, ...]) -> tuple[str, ...]:
        asked = container_request(software.image, folders, node) if software.image else None
        return container_of(case.site, launcher, asked, Decisions()).prefix

    can_enter = not software.image or bool(container(()))
    return PythonEnvironment(
        words=(software.python,),
        steps=software.steps,
        variables=software.variables,
        unset=software.unset,
        shell=("/bin/bash", "-l") if case.site.login_shell else ("/bin/bash",),
        container=container,
        closed="" if can_enter else f"the container {software.image} can only be entered in a job",
    )
