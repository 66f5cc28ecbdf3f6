"""The software environment of a job's ranks, for a program that runs on this machine and is not a rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace

from hpclaunch.core.quoting import plain_word
from hpclaunch.core.records import record
from hpclaunch.core.spec import Step
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.environment.containers import container_of, container_request
from hpclaunch.resolve.environment.framework import framework_of
from hpclaunch.resolve.environment.software import software_of
from hpclaunch.resolve.nodes.sizing import sizing_of
from hpclaunch.resolve.ranks.launch import launcher_of


@record
class PythonEnvironment:
    """Set-up, variables, and the ``words`` that start Python.

    ``container`` takes the folders that Python must see and returns the words that enter the container. ``closed`` is
    why the environment cannot be entered on this machine (empty: it can).
    """

    words: tuple[str, ...]
    steps: tuple[Step, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    shell: tuple[str, ...] = ("/bin/bash",)
    container: Callable[[tuple[str, ...]], tuple[str, ...]] = lambda folders: ()
    closed: str = ""

    def command(self, folders: tuple[str, ...]) -> tuple[str, ...]:
        """Return the command line that starts Python with these folders visible."""
        return (*self.container(folders), *self.words)

    def script(self, command: str) -> str:
        """Return a bash script that sets the environment up, names a step that fails, and then runs the command."""
        lines = [f"unset {' '.join(self.unset)}"] if self.unset else []
        for step in self.steps:
            lines += [step.line, f"[ $? -eq 0 ] || {{ echo {plain_word(f'{step.failure}: failed')} >&2; exit 78; }}"]
        lines += [f"export {name}={plain_word(value)}" for name, value in self.variables.items()]
        return "\n".join([*lines, f"exec {command}", ""])


def python_environment_of(case: Case) -> PythonEnvironment:
    """Return the environment of a rank of the job on one node."""
    decisions = Decisions()  # its faults are dropped: nothing is submitted
    case = replace(case, request=replace(case.request, nodes=1), needs_account=False)
    sizing = sizing_of(case, decisions)
    node = case.node(sizing.node_type)
    launcher = launcher_of(case, sizing.layout, decisions)
    framework = framework_of(case, sizing.layout, launcher, decisions)
    software = software_of(case, sizing, framework, decisions)

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
