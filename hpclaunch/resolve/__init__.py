"""Case -> JobSpec: every decision is taken here, and every reason for a refusal is found at once.

`sizing` is the first half, size and place, which the planner asks for every node count. Each further module decides
one part of a run (`parts`) and writes choices, faults and warnings to `decisions`; `lines` makes the script's lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from hpclaunch.config.job import Job
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.spec import HOROVOD, Choice, Code, JobSpec, Sweep
from hpclaunch.core.spec_parts import Component, TrialLayout
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.environment.folders import is_synthetic
from hpclaunch.resolve.nodes.cost import cost_of
from hpclaunch.resolve.nodes.sizing import Sizing
from hpclaunch.resolve.program.division import check_batch
from hpclaunch.resolve.script.asked import refuse_unwritten
from hpclaunch.resolve.script.lines import Lines, lines_of, secrets_of
from hpclaunch.resolve.script.parts import Parts, parts_of
from hpclaunch.resolve.script.remove import remove_lines, unwanted_lines


def resolve(case: Case) -> tuple[JobSpec, list[Fault]]:
    """Return the complete spec and every reason for refusing it; precedence is flag, job, settings, site.

    The parameters of a recipe are defaults of the case's job here: what is typed or swept stands above them.

    It continues after a fault with the nearest sensible value, so that a caller that knows more reasons can raise all
    of them together.
    """
    decisions = Decisions()
    unwanted = unwanted_lines(case)
    if "--export" in unwanted:
        case = replace(case, site=replace(case.site, export="all"))
        decisions.choices.append(Choice(key="removed", value="--export", origin=unwanted.pop("--export")))
    parts = parts_of(case, decisions)
    lines = lines_of(case, parts, decisions)
    lines = remove_lines(lines, unwanted, decisions)
    if not case.advice.objections:  # the planner has looked at the batch as well
        check_batch(case, parts.rank_layout, parts.sweep, decisions)
    spec = _spec_of(case, parts, lines, decisions)
    refuse_unwritten(spec, decisions)
    return spec, [*case.advice.objections, *decisions.faults]


def spec_of(case: Case) -> JobSpec:
    """Return the complete spec. Raises Refused with every reason."""
    spec, faults = resolve(case)
    if faults:
        raise Refused(faults)
    return spec


def _spec_of(case: Case, parts: Parts, lines: Lines, decisions: Decisions) -> JobSpec:
    """Assemble the spec, when all is decided."""
    site, job, context = case.site, case.job, case.context
    layout, placement, sweep = parts.sizing.layout, parts.sizing.placement, parts.sweep
    secrets = secrets_of(case)
    followers = {name for name, _ in sweep.followers.values} if sweep and sweep.followers else set()
    return JobSpec(
        name=job.name,
        target=case.request.target,
        site=site.name,
        site_status=site.status,
        node_type=parts.sizing.node_type,
        scheduler=site.scheduler,
        template=site.scheduler_row.template,
        launcher=parts.launcher,
        layout=layout,
        account=placement.account,
        partition=placement.partition,
        qos=placement.qos,
        walltime=placement.walltime,
        cost=None if context.allocation else cost_of(site, parts.sizing, sweep.count if sweep else 1),
        run_dir=context.run_dir,
        created=context.now,
        version=context.version,
        shell="/bin/bash -l" if site.login_shell else "/bin/bash",
        chdir=context.cwd if job.source_only else context.run_dir,
        asked=lines.asked,
        directives=lines.directives,
        steps=lines.steps,
        environment=lines.environment,
        defaults=lines.defaults,
        address_suffix=site.address_suffix or "",
        unset=parts.software.unset,
        interpreter=lines.interpreter,
        rank_number=lines.rank_number,
        rank_identity=lines.rank_identity,
        rank_setup=lines.rank_setup,
        command=lines.command,
        before_launch=lines.before_launch,
        launch=lines.launch,
        hosts=tuple(f"{host} slots={layout.tasks_per_node}" for host in context.hosts[: layout.nodes]),
        secrets=secrets,
        secrets_folder=f"{context.user_folder}/secrets" if secrets else "",
        restarts=parts.restarts,
        code=_code_of(case),
        data=parts.data,
        unverified=parts.unverified,
        sweep=_place_words(sweep, lines.command, case.request.arguments) if sweep else None,
        strategy=parts.strategy,
        parameters=tuple((name, text) for name, text in lines.parameters if name not in followers),
        recipe=case.advice.recipe,
        predicted=case.advice.predicted,
        calibration_key=_calibration_key(case),
        after=tuple(run.run for run in context.predecessors),
        further=_further_components(parts.sizing),
        trials=_place_trials(parts.trials, lines.command, case.request.arguments),
        broadcast=parts.broadcast,
        samples=parts.samples,
        clusters=parts.clusters,
        packages=lines.packages,
        contained=lines.contained,
        python_folder=parts.software.folder,
        choices=(
            *decisions.choices,
            *_choices_of_settings(case, dict(lines.directives)),
            *_choices_of_the_recipe(case),
        ),
        declined=tuple(decisions.declined),
        warnings=(*decisions.warnings, *case.advice.warnings, *filter(None, [decisions.way_on])),
        way_on=decisions.way_on,
    )


def _further_components(sizing: Sizing) -> tuple[Component, ...]:
    return tuple(
        Component(node_type=one.node_type, partition=one.placement.partition, qos=one.placement.qos)
        for one in sizing.further
    )


def _code_of(case: Case) -> Code:
    """Return the code of the run; that of a typed command is whatever is in the folder where it was typed."""
    job, entry = case.job, _entry(case.job)
    folder = job.folder if entry or not job.in_place else case.context.cwd
    return Code(
        folder=folder,
        entry=entry,
        source_only=job.source_only,
        in_place=job.in_place,
        include=() if job.recorded else case.request.include,
        recorded=job.recorded,
    )


def _place_words(sweep: Sweep, command: Sequence[str], arguments: Sequence[str]) -> Sweep:
    """Return the sweep with the place of a run's own words: before the typed arguments if the job declares parameters.

    Otherwise they are last, as many programs read their options after a word such as ``train``.
    """
    position = len(command) if sweep.free else len(command) - len(arguments)
    return replace(sweep, position=position, arguments=len(arguments))


def _place_trials(trials: TrialLayout | None, command: Sequence[str], arguments: Sequence[str]) -> TrialLayout | None:
    """Return the trials with the place of their own words, which is that of a sweep's words."""
    if trials is None:
        return None
    position = len(command) if trials.free else len(command) - len(arguments)
    return replace(trials, position=position, arguments=len(arguments))


def _choices_of_settings(case: Case, written: Mapping[str, str]) -> Iterator[Choice]:
    """Yield what settings files add to the ``written`` directives: nothing that was typed shows it.

    What was typed instead, or is removed, is not among them.
    """
    origin, mail = case.settings.offer("mail", case.site.name)
    if mail is not None and written.get("mail-user") == mail.to:
        yield Choice(key="mail", value=f"{written.get('mail-type', '')} to {mail.to}", origin=origin)
    for origin, level in reversed(case.settings.levels(case.site.name)):
        for option in level.sbatch:
            name, _, value = option.removeprefix("--").partition("=")
            if written.get(name) == value:
                yield Choice(key="sbatch", value=option, origin=origin)


def _choices_of_the_recipe(case: Case) -> list[Choice]:
    """Return the parameters that have their values from the recipe, as choices with this origin."""
    recipe = case.advice.recipe
    if recipe is None:
        return []
    return [
        Choice(key=f"parameters.{name}", value=text, origin=f"recipe {recipe.name}") for name, text in recipe.applied
    ]


def _calibration_key(case: Case) -> str:
    """Return the key under which a later plan finds this run's measurements; empty where no plan would choose the run.

    A plan knows no arguments, sbatch options, launchers, strategies other than Horovod, sweeps, synthetic samples or
    nodes of several types.
    """
    request = case.request
    unknown = (
        request.arguments
        or request.sbatch
        or request.launcher
        or request.framework
        or is_synthetic(case)
        or request.sweep
        or request.search
        or request.further_nodes
    )
    return "" if unknown or request.strategy not in (None, HOROVOD) else case.calibration_key


def _entry(job: Job) -> str:
    """Return the file in the job's folder that must exist; empty where the command is a program of the site."""
    if job.script:
        return job.script
    inside = [word for word in job.command if word.startswith("{code}/")]
    return inside[0].removeprefix("{code}/") if inside else ""
