"""The software that a job's ranks have around them, for a program that is no rank and runs on this machine."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import field, replace

from hpclaunch.config.job import Job
from hpclaunch.config.settings import Settings
from hpclaunch.config.site import Site
from hpclaunch.core.records import record
from hpclaunch.core.spec import Request, Step, Surroundings
from hpclaunch.resolve.containers import box_of
from hpclaunch.resolve.decisions import Ledger
from hpclaunch.resolve.ranks import launcher_of
from hpclaunch.resolve.sizing import sizing_of
from hpclaunch.resolve.software import software_of


@record
class Interior:
    """Set-up, variables, and the ``words`` that start Python; ``box``: folders that must be seen -> words before it.

    ``closed``: why it cannot be entered from here.
    """

    words: tuple[str, ...]
    steps: tuple[Step, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    shell: tuple[str, ...] = ("/bin/bash",)
    box: Callable[[tuple[str, ...]], tuple[str, ...]] = lambda folders: ()
    closed: str = ""

    def inside(self, folders: tuple[str, ...]) -> tuple[str, ...]:
        """Return the words that start Python where it sees these folders."""
        return (*self.box(folders), *self.words)

    def script(self, command: str) -> str:
        """Return a script that sets everything up and becomes the command; it says what failed."""
        lines = [f"unset {' '.join(self.unset)}"] if self.unset else []
        for step in self.steps:
            lines += [step.line, f"[ $? -eq 0 ] || {{ echo {shlex.quote(f'{step.failure}: failed')} >&2; exit 78; }}"]
        lines += [f"export {name}={shlex.quote(value)}" for name, value in self.variables.items()]
        return "\n".join([*lines, f"exec {command}", ""])


def interior_of(site: Site, job: Job, request: Request, settings: Settings, around: Surroundings) -> Interior:
    """Return what one rank of the job would have around it on one node."""
    ledger = Ledger()  # what speaks against a run does not speak against a look
    request = replace(request, nodes=1, account=request.account or "any")
    sized = sizing_of(site, job, request, settings, around, ledger)
    node = site.node_types[sized.kind]
    launcher = launcher_of(site, job, request, settings, sized.layout, around, ledger)
    software = software_of(site, sized.kind, job, sized.layout, launcher, settings, around, ledger)

    def box(folders: tuple[str, ...]) -> tuple[str, ...]:
        return box_of(site, node, software.image, folders, launcher, Ledger()).prefix

    entered = not software.image or bool(box(()))
    return Interior(
        words=(software.python,),
        steps=software.steps,
        variables=software.variables,
        unset=software.unset,
        shell=("/bin/bash", "-l") if site.login_shell else ("/bin/bash",),
        box=box,
        closed="" if entered else f"the container {software.image} can only be entered in a job",
    )
