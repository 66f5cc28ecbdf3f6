"""What every decision reads: site, job, request, settings and context of one submission; it decides nothing."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from hpclaunch.config.fileformat import Environment
from hpclaunch.config.job import Job
from hpclaunch.config.settings import Settings
from hpclaunch.config.site import NodeType, Site
from hpclaunch.core.errors import Fault
from hpclaunch.core.records import record
from hpclaunch.core.spec import Context, Followers, Request, RunRecipe
from hpclaunch.core.spec_parts import PredictedRate
from hpclaunch.runs.code_folder import CodeFolders

if TYPE_CHECKING:
    from hpclaunch.config.program_options import ProgramOptions


@record
class Advice:
    """The planner's advice: the node count where neither the request nor the job names one, and the recipe.

    ``tasks_per_node``: those of a part of a shared node; None: as the request, the job or the site has it. ``why`` is
    the reason for the node count in one line; ``objections`` are reasons to refuse the request. The job of the case has
    the values of the ``recipe`` as its defaults; ``followers`` are those that differ between the runs of a sweep.
    ``node_type``: the one that holds the model, where none is named and the site's usual one does not. ``divides``: the
    recipe sets how the model is held, so that measurements without it do not count. ``predicted``: its speed.
    """

    nodes: int | None = None
    node_type: str | None = None
    divides: bool = False
    tasks_per_node: int | None = None
    why: str = ""
    objections: tuple[Fault, ...] = ()
    recipe: RunRecipe | None = None
    followers: Followers | None = None
    warnings: tuple[str, ...] = ()
    predicted: PredictedRate | None = None


@record
class Case:
    """One request at one site. Every function of ``resolve`` reads it; none changes it.

    ``needs_account``: whether a missing account is a fault where the site requires one. It is False for commands
    that submit nothing, such as ``plan``. ``interactive``: a person waits for a shell, so that partitions and QOS for
    interactive work come first. ``advice`` is empty where the planner was not asked. ``program_options``: what the
    source of a program without parameters says (None: it is not Python, or not here). ``space_file``: the file with the
    parameters of a search; empty if they were typed with ``--sweep``. ``made``: the environment that the request names
    and hpclaunch made. ``code_folders``: what the command has examined
    of its code, and has read of the program it was handed; it is carried along and never read here.
    """

    site: Site
    job: Job
    request: Request
    settings: Settings
    context: Context
    needs_account: bool = True
    interactive: bool = False
    advice: Advice = field(default_factory=Advice)
    calibration_key: str = ""
    program_options: ProgramOptions | None = None
    space_file: str = ""
    made: Environment | None = None
    code_folders: CodeFolders = field(default_factory=CodeFolders, compare=False, repr=False)

    @property
    def run_name(self) -> str:
        """The typed name of the run, else that of its job."""
        return self.request.name or self.job.name

    def node(self, node_type: str) -> NodeType:
        """Return a node type of the site by its name."""
        return self.site.node_types[node_type]
