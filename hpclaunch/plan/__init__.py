"""Site + Job + Request -> JobSpec: every decision is taken here, and every reason for a refusal is told at once."""

from __future__ import annotations

from hpclaunch.errors import Refused
from hpclaunch.job import Job
from hpclaunch.plan.command import command_of
from hpclaunch.plan.directives import directives_of
from hpclaunch.plan.folders import data_need, private_faults
from hpclaunch.plan.layout import exclusive_warnings, layout_of, node_type_of
from hpclaunch.plan.ledger import Ledger
from hpclaunch.plan.placement import placement_of
from hpclaunch.plan.ranks import launch_of, launcher_of
from hpclaunch.plan.software import Software, software_of
from hpclaunch.settings import Settings
from hpclaunch.site import Site
from hpclaunch.spec import Code, JobSpec, Layout, Request, Surroundings

TEMPLATES = {"slurm": "slurm.sh.j2", "local": "mpirun.sh.j2"}


def plan(site: Site, job: Job, request: Request, settings: Settings, around: Surroundings) -> JobSpec:
    """Return the complete spec. Raises Refused with every reason; precedence is flag, job, user settings, site."""
    ledger = Ledger()
    kind = node_type_of(site, job, request, ledger)
    layout = layout_of(site, kind, job, request, around, ledger)
    placement = placement_of(site, kind, layout, job, request, settings, around, ledger)
    launcher = launcher_of(site, job, request, layout, ledger)
    software = software_of(site, job, layout, around, ledger)
    data = data_need(site, job, request, settings, around, ledger)
    command = command_of(job, request, software, around, ledger)
    directives = directives_of(site, site.node_types[kind], job, request, layout, placement, around, ledger)
    private_faults(site, job, around, software, data, ledger)
    exclusive_warnings(site.node_types[kind], layout, ledger)
    if ledger.faults:
        raise Refused(ledger.faults)
    environment = {**software.variables, **_own_variables(layout, software, data.folder if data else "")}
    return JobSpec(
        name=job.name,
        target=request.target,
        site=site.name,
        site_status=site.status,
        node_type=kind,
        scheduler=site.scheduler,
        template=TEMPLATES[site.scheduler],
        launcher=launcher,
        layout=layout,
        walltime=placement.walltime,
        run_dir=around.run_dir,
        created=around.now,
        version=around.version,
        shell="/bin/bash -l" if site.login_shell else "/bin/bash",
        chdir=around.cwd if job.source_only else around.run_dir,
        directives=directives if site.scheduler == "slurm" else (),
        steps=software.steps,
        environment=tuple(environment.items()),
        unset=software.unset,
        interpreter=command[0],
        command=command,
        launch=launch_of(site, launcher, layout, job, request, around, tuple(environment)),
        hosts=tuple(f"{host} slots={layout.tasks_per_node}" for host in around.hosts[: layout.nodes]),
        code=Code(folder=job.folder, entry=_entry(job), source_only=job.source_only),
        data=data,
        choices=tuple(ledger.choices),
        warnings=tuple(ledger.warnings),
    )


def _entry(job: Job) -> str:
    """Return the file in the job's folder that must exist, or nothing where the command is a program of the site."""
    if job.script:
        return job.script
    inside = [word for word in job.command if word.startswith("{code}/")]
    return inside[0].removeprefix("{code}/") if inside else ""


def _own_variables(layout: Layout, software: Software, data: str) -> dict[str, str]:
    """Return hpclaunch's contract with the ranks (docs/contract.md); the template adds run directory and exit file."""
    variables = {
        "HPCLAUNCH_WORLD_SIZE": str(layout.world_size),
        "HPCLAUNCH_EXPECT_GPU": "1" if layout.gpus_per_node and not layout.stand_in_gpus else "0",
    }
    if data:
        variables["HPCLAUNCH_DATA_DIR"] = data
    if "OMP_NUM_THREADS" not in software.variables:
        variables["OMP_NUM_THREADS"] = str(layout.cores_per_task)
    return variables
