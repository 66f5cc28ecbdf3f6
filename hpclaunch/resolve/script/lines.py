"""The lines of a run's script: directives, variables, the rank's command, and the launch line."""

from __future__ import annotations

import shlex
from dataclasses import replace

from hpclaunch.core.hardware import named_gpus
from hpclaunch.core.quoting import plain_word, shell_word
from hpclaunch.core.records import record
from hpclaunch.core.runtime_rows import ContainerCommand, ContainerRequest
from hpclaunch.core.spec import TENSORFLOW, Layout, Pairs, Step
from hpclaunch.core.spec_parts import Asked
from hpclaunch.launchers import LAUNCHERS
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.environment.broadcast import call_of
from hpclaunch.resolve.environment.containers import check_image, container_of, container_request
from hpclaunch.resolve.environment.framework import packages_of
from hpclaunch.resolve.environment.given_variables import check_given, kept_in_ranks
from hpclaunch.resolve.environment.software import Software
from hpclaunch.resolve.program.command import command_of, parameters_of
from hpclaunch.resolve.ranks.gpu_view import unbound_gpus_of
from hpclaunch.resolve.ranks.launch import (
    before_launch_of,
    launch_of,
    python_path_of,
    rank_identity_of,
    rank_number_of,
    rank_setup_of,
)
from hpclaunch.resolve.script.asked import asked_of
from hpclaunch.resolve.script.directives import directives_of, refuse_options
from hpclaunch.resolve.script.parts import Parts
from hpclaunch.resolve.strategies import needs_workers

_KERAS_VARIABLE = "TF_USE_LEGACY_KERAS"


@record
class Lines:
    """The lines of the script, each under the name of its field in ``core.spec.JobSpec``."""

    asked: Asked
    directives: Pairs
    environment: Pairs
    defaults: tuple[str, ...]
    steps: tuple[Step, ...]
    interpreter: str
    packages: tuple[str, ...]
    contained: bool
    rank_number: str
    rank_identity: tuple[str, ...]
    rank_setup: tuple[str, ...]
    command: tuple[str, ...]
    before_launch: tuple[str, ...]
    launch: tuple[str, ...]
    parameters: Pairs


def lines_of(case: Case, parts: Parts, decisions: Decisions) -> Lines:
    """Return the lines; every reason to refuse the request becomes a fault in the decisions."""
    sizing, launcher, software = parts.sizing, parts.launcher, parts.software
    layout = parts.rank_layout
    scheduler = case.site.scheduler_row
    environment = _environment(case, parts)
    defaults = _defaults(environment, software) if software.own_lines else ()
    exported = (*environment, *secrets_of(case), *_variables_of_the_job(parts), *keras_variable_of(case, parts))
    check_image(case, software.image, decisions)
    container = container_of(case.site, launcher, _container_request(case, parts, exported, environment), decisions)
    if parts.trials and (container.step_options or (container.prefix and LAUNCHERS[launcher].is_in_image)):
        what = "the workers of a search start outside of the container, which only the launcher of a rank enters"
        decisions.fault(what, where="container", next="hpclaunch submit --sweep, with a job for every combination")
    parameters = parameters_of(case.job, case.request, decisions)
    program = command_of(case, parts.strategy, software.python, parameters, decisions)
    asked = asked_of(case, parts, decisions)
    if scheduler.has_queue and not scheduler.directive:  # its template writes what is asked for
        directives: Pairs = ()
        refuse_options(case, parts, container, decisions)
    else:
        directives = directives_of(case, parts, asked, container, decisions)
    contained = bool(container.prefix or container.step_options)
    in_image = contained and LAUNCHERS[launcher].is_in_image
    interpreter = program[0]
    if contained:  # the Python is in the image; a launcher that enters it by an option needs no program here
        interpreter = container.prefix[0] if container.prefix else ""
    launch = launch_of(case, sizing, launcher, parts.gpu_view, container, exported)
    check_given(case, software.given, layout, launcher, launch, decisions)
    return Lines(
        asked=asked,
        directives=directives if scheduler.has_queue else (),
        environment=tuple(environment.items()),
        defaults=defaults,
        steps=_steps(software, defaults),
        interpreter=interpreter,
        packages=() if contained else packages_of(case),
        contained=contained,
        rank_number=rank_number_of(case, launcher, layout, decisions),
        rank_identity=rank_identity_of(layout, launcher),
        rank_setup=(
            *_kept_in_ranks(case, software),
            *rank_setup_of(case, replace(sizing, layout=layout), launcher, parts.gpu_view, _chosen_variables(software)),
            *python_path_of(case),
        ),
        command=program if in_image else (*container.prefix, *program),
        before_launch=(
            *keras_lines_of(case, parts),
            *([call_of(parts.broadcast)] if parts.broadcast else []),
            *before_launch_of(case, layout, launcher, parts.strategy),
            *unbound_gpus_of(case, sizing, parts.gpu_view),
            *_file_of(container),
        ),
        launch=launch,
        parameters=parameters.values,
    )


def secrets_of(case: Case) -> tuple[str, ...]:
    """Return the names of the job's secret variables: their values appear in no file that others can read."""
    return tuple(dict.fromkeys((*case.site.secret_env, *case.job.secret_env)))


def _environment(case: Case, parts: Parts) -> dict[str, str]:
    """Return the variables that the script exports: defaults, those of the software, and the contract with the ranks.

    docs/contract.md lists the contract; the template adds the variables whose values are known only inside the job.
    """
    layout, restarts, data = parts.rank_layout, parts.restarts, parts.data
    variables = {"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": str(layout.cores_per_task), **parts.software.variables}
    variables["HPCLAUNCH_WORLD_SIZE"] = str(layout.world_size)
    variables["HPCLAUNCH_EXPECT_GPU"] = _expected_gpus(case, layout)
    hardware = case.context.hardware
    if parts.trials and parts.trials.gpus and hardware is not None and case.request.hosts_file is None:
        own = {**case.context.environment, **variables}
        variable, words = named_gpus(hardware, parts.sizing.layout.gpus_per_node, own)
        variables["HPCLAUNCH_SEARCH_GPUS"] = f"{variable}={','.join(words)}"
    if restarts.signal:
        variables["HPCLAUNCH_SIGNAL"] = restarts.signal
    if data and data.folder:
        variables["HPCLAUNCH_DATA_DIR"] = data.folder
    return variables


def _defaults(environment: dict[str, str], software: Software) -> tuple[str, ...]:
    """Return the variables that a person's own lines of set-up may export instead: those that no person gives."""
    named = {one.name for one in software.given if one.value is not None and not one.of_site}
    return tuple(name for name in environment if name not in named and not name.startswith("HPCLAUNCH_"))


def _steps(software: Software, defaults: tuple[str, ...]) -> tuple[Step, ...]:
    """Return the lines of set-up; a person's own begin without the defaults, so that what they export is seen."""
    if not defaults:
        return software.steps
    clear = Step(line=f"unset {' '.join(defaults)}", failure="unset")
    return (*software.steps[: -software.own_lines], clear, *software.steps[-software.own_lines :])


def _chosen_variables(software: Software) -> dict[str, str]:
    """Return the variables that a rank must not set: those of all levels, and those of lines of set-up."""
    return {**{one.name: "" for one in software.given}, **software.variables}


def _kept_in_ranks(case: Case, software: Software) -> tuple[str, ...]:
    """Return the lines with which a rank keeps what was given where the scheduler would set it again for its task."""
    if not case.site.scheduler_row.assigns_gpus:
        return ()
    kept = kept_in_ranks(software.variables, software.given)
    return tuple(f"export {name}={plain_word(text)}" for name, text in kept.items())


def _expected_gpus(case: Case, layout: Layout) -> str:
    """Return what a rank that sees no GPU does: ``1``, it stops; ``found``, it warns; ``0``, nothing.

    GPUs that were only found here stop no run: many a laptop has one, and a framework that was built for CPUs.
    """
    if not layout.gpus_per_node or layout.stand_in_gpus:
        return "0"
    asked = (case.request.gpus_per_node, case.job.resources.gpus_per_node)
    return "found" if case.context.hardware is not None and asked == (None, None) else "1"


def _variables_of_the_job(parts: Parts) -> tuple[str, ...]:
    """Return the names of the variables whose values are known only inside the job."""
    swept = ("HPCLAUNCH_ARRAY_DIR", "HPCLAUNCH_SWEPT") if parts.sweep else ()
    workers = ("HPCLAUNCH_WORKERS",) if needs_workers(parts.strategy, parts.rank_layout) else ()
    own_folder = ("HPCLAUNCH_START_DIR",) if parts.restarts.most else ()
    return (*swept, *workers, *own_folder)


def _file_of(container: ContainerCommand) -> tuple[str, ...]:
    """Return the lines that write the file which describes the container; none if it needs no file."""
    if not container.file:
        return ()
    path, *lines = map(shell_word, container.file)
    return (" \\\n  ".join([f"write_file {path}", *lines]), f"check {shell_word(f'writing {container.file[0]}')}")


def _container_request(
    case: Case, parts: Parts, exported: tuple[str, ...], environment: dict[str, str]
) -> ContainerRequest | None:
    if not parts.software.image:
        return None
    context, folder = case.context, parts.data.folder if parts.data else ""
    start = context.cwd if case.job.source_only else context.run_dir
    seen = [context.run_dir, folder, case.job.folder if case.job.script_in_place else ""]
    seen += [parts.broadcast.folder if parts.broadcast else ""]
    nodes = [case.node(one.node_type) for one in parts.sizing.components]
    node = next((one for one in nodes if one.gpus_per_node), nodes[0])  # its options for GPUs do no harm elsewhere
    asked = container_request(parts.software.image, tuple(filter(None, seen)), node, start, exported)
    # The site's own variables are for its network, whose hooks set them in a container that has an image of its own.
    own = {one.name for one in parts.software.given if not one.of_site}
    of_site = {*case.site.environment.variables} - own
    kept = ((name, value) for name, value in environment.items() if name not in of_site)
    values = tuple((name, value) for name, value in kept if not name.startswith("HPCLAUNCH_"))
    return replace(asked, values=values, run_dir=context.run_dir)


def keras_variable_of(case: Case, parts: Parts) -> tuple[str, ...]:
    """Return the name of the variable if the script sets it.

    It is not set if someone has chosen a value, nor for a container, whose Python only a rank can ask. There
    ``import hpclaunch.training`` sets it, which is too late only for a program that imports TensorFlow before.
    """
    software = parts.software
    is_needed = case.job.uses_library and software.framework == TENSORFLOW and not software.image
    return (_KERAS_VARIABLE,) if is_needed and _KERAS_VARIABLE not in software.variables else ()


def keras_lines_of(case: Case, parts: Parts) -> tuple[str, ...]:
    """Return the line that sets the variable, before the ranks start; the library asks their Python for the value."""
    python = shlex.quote(parts.software.python)
    return tuple(f"set_legacy_keras {python} # exports {name}" for name in keras_variable_of(case, parts))
