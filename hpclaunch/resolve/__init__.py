"""Site + Job + Request -> JobSpec: every decision is taken here, and every reason for a refusal is told at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hpclaunch.config.job import Job
from hpclaunch.config.settings import Settings
from hpclaunch.config.site import Site
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.spec import MULTIWORKER, Code, DataNeed, JobSpec, Layout, Request, Restarts, Surroundings, Sweep
from hpclaunch.resolve.command import command_of, values_of
from hpclaunch.resolve.containers import box_of
from hpclaunch.resolve.cost import cost_of
from hpclaunch.resolve.decisions import Ledger
from hpclaunch.resolve.directives import directives_of
from hpclaunch.resolve.folders import data_need, private_faults
from hpclaunch.resolve.marks import third_party_of, unverified_of
from hpclaunch.resolve.ranks import launch_of, launcher_of, rank_number_of, rank_setup_of
from hpclaunch.resolve.removal import unwanted_lines, without
from hpclaunch.resolve.restarts import restarts_of
from hpclaunch.resolve.sizing import Sizing, sizing_of
from hpclaunch.resolve.software import Software, software_of
from hpclaunch.resolve.strategies import strategy_of
from hpclaunch.resolve.sweep import restarts_in_array, sweep_of

TEMPLATES = {"slurm": "slurm.sh.j2", "local": "mpirun.sh.j2"}


def plan(site: Site, job: Job, request: Request, settings: Settings, around: Surroundings) -> JobSpec:
    """Return the complete spec. Raises Refused with every reason; precedence is flag, job, settings, site."""
    spec, faults = draft(site, job, request, settings, around)
    if faults:
        raise Refused(faults)
    return spec


def draft(
    site: Site, job: Job, request: Request, settings: Settings, around: Surroundings, planned_nodes: int | None = None
) -> tuple[JobSpec, list[Fault]]:
    """Return the spec and every reason for refusing it; a caller that knows more reasons tells them all together.

    ``planned_nodes``: what the planner found, for when neither the request nor the job says how many.
    """
    ledger = Ledger()
    unwanted = unwanted_lines(site, request, settings)
    site = replace(site, export="all") if "--export" in unwanted else site
    sized = sizing_of(site, job, request, settings, around, ledger, planned_nodes)
    kind, layout, placement = sized.kind, sized.layout, sized.placement
    launcher = launcher_of(site, job, request, settings, layout, around, ledger)
    software = software_of(site, kind, job, layout, launcher, settings, around, ledger)
    data = data_need(site, job, request, settings, around, ledger)
    private_faults(site, job, around, software.python, data, ledger)
    marks = third_party_of(site, kind, launcher, placement, software.image)
    marks += unverified_of(site, layout, request.accept_unverified, ledger)
    sweep = sweep_of(site, job, request, launcher, layout, ledger)
    strategy = strategy_of(job, request, layout, launcher, ledger)
    spec = JobSpec(
        name=job.name,
        target=request.target,
        site=site.name,
        site_status=site.status,
        node_type=kind,
        scheduler=site.scheduler,
        template=TEMPLATES[site.scheduler],
        launcher=launcher,
        layout=layout,
        account=placement.account,
        partition=placement.partition,
        qos=placement.qos,
        walltime=placement.walltime,
        cost=cost_of(site, kind, layout, placement, sweep.count if sweep else 1),
        run_dir=around.run_dir,
        created=around.now,
        version=around.version,
        shell="/bin/bash -l" if site.login_shell else "/bin/bash",
        chdir=around.cwd if job.source_only else around.run_dir,
        steps=software.steps,
        unset=software.unset,
        hosts=tuple(f"{host} slots={layout.tasks_per_node}" for host in around.hosts[: layout.nodes]),
        code=Code(folder=job.folder, entry=_entry(job), source_only=job.source_only),
        data=data,
        marks=tuple(marks),
        strategy=strategy,
        parameters=tuple(values_of(job, request).items()),
        **_lines(site, job, request, settings, around, sized, launcher, software, data, sweep, strategy, ledger),
        choices=tuple(ledger.choices),
        declined=tuple(ledger.declined),
        warnings=tuple(ledger.warnings),
    )
    spec, faults, warnings = without(spec, [item for item in unwanted if item != "--export"])
    return replace(spec, warnings=(*spec.warnings, *warnings)), [*ledger.faults, *faults]


def _lines(
    site: Site,
    job: Job,
    request: Request,
    settings: Settings,
    around: Surroundings,
    sized: Sizing,
    launcher: str,
    software: Software,
    data: DataNeed | None,
    sweep: Sweep | None,
    strategy: str,
    ledger: Ledger,
) -> dict[str, Any]:
    """Return what of the spec becomes lines of the script: directives, variables, the rank's command, the launch."""
    kind, layout, placement = sized.kind, sized.layout, sized.placement
    node, slurm = site.node_types[kind], site.scheduler == "slurm"
    folder = data.folder if data else ""
    restarts = restarts_of(site, launcher, sized.wish, placement.walltime, job, request, settings, ledger)
    restarts = restarts_in_array(site, restarts, sweep, ledger)
    usual = {"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": str(layout.cores_per_task)}
    environment = {**usual, **software.variables, **_contract(layout, folder, restarts)}
    swept = ("HPCLAUNCH_ARRAY_DIR", "HPCLAUNCH_SWEPT") if sweep else ()
    told = ("HPCLAUNCH_WORKERS",) if strategy == MULTIWORKER and layout.world_size > 1 else ()
    exported = (*environment, *_secrets(site, job), *swept, *told)
    seen = (around.run_dir, *([folder] if folder else []))
    start = around.cwd if job.source_only else around.run_dir
    box = box_of(site, node, software.image, seen, launcher, ledger, start, exported)
    command = command_of(job, request, strategy, software, around, ledger)
    directives = directives_of(
        site, kind, job, request, settings, layout, placement, restarts, box, around, sweep, ledger
    )
    words = (*box.prefix, *command)
    contained = bool(box.prefix or box.srun)
    return {
        "secrets": _secrets(site, job),
        "secrets_folder": f"{around.user_folder}/secrets" if _secrets(site, job) else "",
        "restarts": restarts,
        "directives": directives if slurm else (),
        "environment": tuple(environment.items()),
        "interpreter": command[0] if not contained else box.prefix[0] if box.prefix else "",
        "rank_number": rank_number_of(site, launcher, layout, job, settings, ledger),
        "rank_setup": rank_setup_of(node, layout, launcher, request, software.variables) if slurm else (),
        "command": words,
        "sweep": replace(sweep, position=len(words) - len(request.arguments)) if sweep else None,
        "launch": launch_of(site, node, launcher, layout, job, request, box, around, exported),
    }


def _entry(job: Job) -> str:
    """Return the file in the job's folder that must exist, or nothing where the command is a program of the site."""
    if job.script:
        return job.script
    inside = [word for word in job.command if word.startswith("{code}/")]
    return inside[0].removeprefix("{code}/") if inside else ""


def _secrets(site: Site, job: Job) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*site.secret_env, *job.secret_env)))


def _contract(layout: Layout, data: str, restarts: Restarts) -> dict[str, str]:
    """Return hpclaunch's contract with the ranks (docs/contract.md); the template adds what only the job knows."""
    variables = {
        "HPCLAUNCH_WORLD_SIZE": str(layout.world_size),
        "HPCLAUNCH_EXPECT_GPU": "1" if layout.gpus_per_node and not layout.stand_in_gpus else "0",
    }
    if restarts.most:
        variables["HPCLAUNCH_SIGNAL"] = restarts.signal
    return {**variables, **({"HPCLAUNCH_DATA_DIR": data} if data else {})}
