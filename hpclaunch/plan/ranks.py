"""Which launcher starts the ranks, whether it can here, and its command line."""

from __future__ import annotations

from hpclaunch.job import Job
from hpclaunch.launchers import LAUNCHERS, Launch
from hpclaunch.plan.ledger import Ledger
from hpclaunch.site import LauncherOptions, Site
from hpclaunch.spec import Layout, Request, Surroundings

_TO_THE_SCRIPT = ("--signal=B:", "--signal=RB:")


def launcher_of(site: Site, job: Job, request: Request, layout: Layout, ledger: Ledger) -> str:
    """Return the launcher's name; what it cannot do here is a fault. One rank without a scheduler needs none."""
    alone = site.scheduler == "local" and layout.world_size == 1 and request.hosts_file is None
    asked = ledger.pick(
        "launcher",
        ("--launcher", request.launcher),
        ("job", job.launcher),
        ("one rank needs none", "direct" if alone else None),
        (f"site {site.name}", site.launchers.default),
    )
    launcher = asked or site.launchers.default
    if launcher not in (*site.launchers.options, "direct"):
        ledger.fault(
            f"launcher {launcher!r} is not one that {site.name} has",
            allowed=", ".join(site.launchers.options),
            next="leave --launcher out for the site's own",
        )
    _check_reach(site, launcher, layout, ledger)
    if launcher != "srun":
        _check_signals(launcher, (*site.sbatch, *job.sbatch, *request.sbatch), ledger)
    return launcher


def _check_reach(site: Site, launcher: str, layout: Layout, ledger: Ledger) -> None:
    if launcher == "direct" and layout.world_size > 1:
        ledger.fault(f"launcher 'direct' starts one rank, and {layout.world_size} were asked for")
    if launcher == "horovodrun" and layout.nodes > 1 and site.scheduler == "slurm":
        ledger.fault(
            f"horovodrun knows nothing of {site.scheduler}'s nodes and needs ssh to each; it is for one node here",
            next=f"leave --launcher out for the site's own ({site.launchers.default})",
        )
    if launcher == "srun" and site.scheduler == "local":
        ledger.fault("srun needs a Slurm site", next="hpclaunch sites list")


def _check_signals(launcher: str, sbatch: tuple[str, ...], ledger: Ledger) -> None:
    """Slurm signals its steps: under mpirun the ranks of the first node are children of the script, in no step."""
    for option in sbatch:
        if option.startswith("--signal=") and not option.startswith(_TO_THE_SCRIPT):
            ledger.fault(
                f"under {launcher} {option} would miss the ranks on the first node, which are in no step of Slurm's",
                next="say --signal=B:…: then the script gets it, and passes it on to every rank",
            )


def launch_of(
    site: Site,
    launcher: str,
    layout: Layout,
    job: Job,
    request: Request,
    around: Surroundings,
    names: tuple[str, ...],
) -> tuple[str, ...]:
    """Return the launcher's argv; ``names`` are the variables that the script exports."""
    options = site.launchers.options.get(launcher, LauncherOptions())  # type: ignore[call-overload]
    hosts = f"{around.run_dir}/hosts" if request.hosts_file is not None else ""
    launch = Launch(
        layout=layout,
        exported=("PATH", "LD_LIBRARY_PATH", "HPCLAUNCH_RUN_DIR", "HPCLAUNCH_EXIT_FILE", *names),
        mpi=options.mpi or "",
        cpu_bind=options.cpu_bind or "",
        gpu_bind=options.gpu_bind or "",
        extra=options.extra,
        exit_wait=job.resources.exit_wait,
        hosts_file=hosts,
    )
    return LAUNCHERS[launcher](launch)
