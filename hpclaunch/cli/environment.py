"""``environment make|list|show|remove``: environments that hpclaunch makes."""

# Annotations stay types here: Typer would compile the text of each at every start.
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from hpclaunch.actions.requesting import typed_times, typed_values
from hpclaunch.cli import flags, help_text, run_flags
from hpclaunch.cli.offers import offer, one_of
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.spec import Request

if TYPE_CHECKING:
    from hpclaunch.actions.environments.kept import KeptEnvironment
    from hpclaunch.actions.environments.make import PlannedBuild
    from hpclaunch.actions.system import System

app = typer.Typer(
    cls=help_text.PlainGroup,
    help="Make the software environment of a framework, and list those that were made.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


Made = Annotated[
    str,
    typer.Argument(
        metavar="NAME", autocompletion=offer("environments"), help="The name of an environment, or its folder."
    ),
]


@app.callback()
def _environment() -> None:
    pass


@app.command()
def make(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the new environment.")],
    framework: Annotated[
        str,
        typer.Option(
            "--framework",
            autocompletion=one_of("tensorflow", "pytorch", "jax"),
            help="What is installed: tensorflow, pytorch or jax.",
            rich_help_panel=help_text.RANKS,
        ),
    ],
    site: flags.Site = None,
    node_type: flags.NodeType = None,
    version: Annotated[
        str | None, typer.Option("--version", help="The framework's version [default: the site's, else a known one].")
    ] = None,
    package: Annotated[
        list[str], typer.Option("--package", metavar="REQUIREMENT", help="A further package for pip. Repeatable.")
    ] = [],  # noqa: B006
    horovod: Annotated[
        bool | None, typer.Option("--horovod/--no-horovod", help="Compile Horovod. [default: for tensorflow]")
    ] = None,
    nccl: Annotated[
        bool | None,
        typer.Option("--nccl/--no-nccl", help="Compile Horovod for NCCL, or RCCL. [default: where nodes have GPUs]"),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(
            help="The Python that makes it; with conda its version [default: the site's, else python3].",
            rich_help_panel=help_text.RANKS,
        ),
    ] = None,
    make_with: Annotated[
        str | None,
        typer.Option(
            "--make-with",
            autocompletion=one_of("venv", "virtualenv", "conda", "container"),
            help="venv, virtualenv, conda or container [default: the site's way, else venv].",
        ),
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(
            "--image",
            help="The image of a container, such as docker://NAME:TAG [default: the one that the site names].",
        ),
    ] = None,
    module: flags.Module = [],  # noqa: B006
    env: Annotated[
        list[str],
        typer.Option(
            "--env", metavar="NAME=VALUE", help="A variable for the build. Repeatable.", rich_help_panel=help_text.RANKS
        ),
    ] = [],  # noqa: B006
    index_url: Annotated[
        str | None,
        typer.Option(
            "--index-url", metavar="URL", help="The package index of the framework's wheels [default: pip's]."
        ),
    ] = None,
    find_links: Annotated[
        str | None,
        typer.Option("--find-links", metavar="DIR|URL", help="A place with wheels, beside pip's package index."),
    ] = None,
    wheelhouse: Annotated[
        str | None,
        typer.Option("--wheelhouse", metavar="DIR", help="A folder with all wheels; pip asks no package index."),
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option(
            "--prefix",
            metavar="DIR",
            help="The folder for environments [default: $HPCLAUNCH_ENVIRONMENTS, else the site's, else in your home].",
        ),
    ] = None,
    as_job: Annotated[
        bool | None,
        typer.Option("--as-job/--no-job", help="Build it in a job. [default: where the centre wants that]"),
    ] = None,
    doctor: Annotated[
        bool, typer.Option("--doctor", help="Test what was built here with a probe job, too: hpclaunch doctor.")
    ] = False,
    account: flags.Account = None,
    partition: flags.Partition = None,
    qos: flags.Qos = None,
    walltime: flags.Walltime = None,
    sbatch: flags.Sbatch = [],  # noqa: B006
    again: Annotated[
        bool, typer.Option("--again", help="Build it once more, and keep the present one for the runs that use it.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the script; build nothing.", rich_help_panel=help_text.START)
    ] = False,
    json: run_flags.Json = False,
) -> None:
    """Build an environment for a framework, as the centre teaches it.

    The script loads the modules, makes a virtual or conda environment, and installs the wheels. It compiles Horovod
    if that is asked for, and tests the result. submit --environment NAME uses it.
    """
    from hpclaunch.actions.environments import make as actions
    from hpclaunch.actions.environments.build_recipe import BuildRequest
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console

    system = System(warn=console.warn, tell=console.say)
    software = typed_values.software_of(None, None, None, None, module, env)
    request = BuildRequest(
        name=name,
        framework=framework,
        node_type=node_type,
        version=version,
        packages=tuple(package),
        python=python,
        make_with=make_with,
        modules=software["modules"],
        variables=software["variables"],
        horovod=horovod,
        nccl=nccl,
        index_url=index_url,
        find_links=find_links,
        wheels=wheelhouse,
        image=image,
    )
    download = bool(as_job) and not wheelhouse
    planned = actions.plan_build(system, request, site, prefix, download)
    download = download and planned.can_download
    _show_plan(planned)
    if dry_run:
        _show_script(planned, json)
        return
    actions.refuse_elsewhere(system, planned, "--dry-run to see the script")
    place = Request(
        target="",
        site=planned.recipe.site,
        node_type=planned.recipe.node_type,
        account=account,
        partition=partition,
        qos=qos,
        walltime=typed_times.seconds_of(walltime),
        sbatch=tuple(sbatch),
    )
    if as_job or (as_job is None and planned.recipe.in_job):
        from hpclaunch.actions.clusters.environment_job import build_in_job

        script = planned.folder / "build.sh"
        claim = partial(actions.claim, system, planned, again)
        build, run = build_in_job(system, name, script, place, claim, download)
        if not download and not wheelhouse and not planned.recipe.own_wheels:
            console.warn("the job needs the internet; where nodes have none, name a folder of wheels with --wheelhouse")
        console.say(f"submitted {run.label}; when it has ended: hpclaunch doctor --environment {name}")
        if json:
            console.write_json("environment", build.to_json())
        else:
            console.write(f"{run.path}\n")
        return
    actions.refuse_other_machine(planned)
    build = actions.build_here(system, actions.claim(system, planned, again), planned.recipe.login_shell)
    if doctor:
        _test(system, build, place)
    if json:
        console.write_json("environment", build.to_json())
        return
    console.say(f"to use it: hpclaunch submit JOB --environment {name}")
    console.write(f"{build.folder}\n")


@app.command("list")
def list_(json: run_flags.Json = False) -> None:
    """List the environments that were made, each with its state and its folder."""
    from hpclaunch.actions.environments import kept
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console

    found = kept.kept_environments(System(warn=console.warn))
    if json:
        console.write_json("environments", {"environments": [build.to_json() for build in found]})
        return
    rows = [
        (
            build.name,
            build.value("site"),
            build.value("framework"),
            str(build.built.get("version") or "-"),
            build.state,
            str(build.built.get("finished") or build.value("created"))[:10],
            str(build.folder),
        )
        for build in found
    ]
    console.table(("environment", "site", "framework", "version", "state", "built", "folder"), rows, state_column=4)


@app.command()
def show(name: Made, json: run_flags.Json = False) -> None:
    """Show how an environment was built, and what is in it."""
    from hpclaunch.actions.environments import kept
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console

    build = kept.find(System(warn=console.warn), name)
    if json:
        console.write_json("environment", build.to_json())
        return
    for label, value in _facts(build):
        if value:
            console.fact(label, value)


def _facts(build: "KeptEnvironment") -> list[tuple[str, str]]:
    """Return (label, value) of what is known of a build; a value that is not known is empty."""
    from hpclaunch.actions.environments import kept

    built = build.built
    packages = built.get("packages") or {}
    versions = [f"{name} {one.get('version')}" for name, one in packages.items() if isinstance(one, dict)]
    horovod = [name for name, there in (built.get("horovod") or {}).items() if there]
    log = build.path / kept.LOG
    return [
        ("environment", f"{build.name}, build {build.number}, {build.state}"),
        ("site", f"{build.value('site')}, node type {build.value('node_type')}"),
        ("framework", f"{build.value('framework')} {built.get('version') or ''}".strip()),
        ("Horovod", f"{build.value('horovod')} with {', '.join(horovod)}" if horovod else build.value("horovod")),
        ("image", build.value("image")),
        ("Python", str(built.get("python") or "")),
        ("modules", ", ".join(build.texts("modules"))),
        ("loaded", ", ".join(map(str, built.get("modules") or ()))),
        ("built", f"{built.get('finished') or '-'} on {built.get('host') or build.value('host')}"),
        ("by", f"hpclaunch {build.value('hpclaunch')}"),
        ("recipe", build.value("source")),
        ("packages", ", ".join(versions)),
        ("script", str(build.path / kept.SCRIPT)),
        ("log", str(log) if log.exists() else ""),
        ("folder", str(build.folder)),
    ]


@app.command()
def remove(
    name: Made,
    earlier: Annotated[
        bool, typer.Option("--earlier", help="Remove only earlier builds, which --again and failures leave.")
    ] = False,
    yes: run_flags.Yes = False,
    json: run_flags.Json = False,
) -> None:
    """Delete an environment that hpclaunch made. Runs that still wait for it would fail.

    It asks for confirmation first.
    """
    from hpclaunch.actions.environments import remove as actions
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console

    builds = actions.removable(System(warn=console.warn), name, earlier)
    paths = [str(build.path) for build in builds]
    for path in paths:
        console.say(path)
    if builds and not yes and not console.confirmed("delete this? [y/N]"):
        raise Refused(Fault(what="nothing was deleted", next="to delete without confirmation, add --yes"))
    actions.remove(builds)
    if json:
        console.write_json("removed_environment", {"removed": paths})
    elif not builds:
        console.say("there is no earlier build")
    else:
        console.say("deleted")


def _test(system: "System", build: "KeptEnvironment", place: Request) -> None:
    """Run doctor's probe in the environment; exits with 1 if a check failed."""
    from hpclaunch.actions.clusters import environment_job
    from hpclaunch.cli.show import console, doctor_report

    if not environment_job.can_probe(build):
        console.warn(f"doctor has no probe for {build.value('framework')} as it was built here")
        return
    report = environment_job.test_with_doctor(system, build, place)
    doctor_report.show_report(report, as_json=False)
    if not report.passed:
        raise typer.Exit(1)


def _show_plan(planned: "PlannedBuild") -> None:
    """Show where the environment will be, and whose recipe it is."""
    from hpclaunch.cli.show import console

    recipe = planned.recipe
    console.say(f"site {recipe.site} ({planned.choice.origin}), node type {recipe.node_type}")
    console.say(f"recipe: {recipe.source}")
    console.say(f"folder: {planned.folder} (from {planned.origin})")
    for remark in planned.remarks:
        console.warn(remark)


def _show_script(planned: "PlannedBuild", json: bool) -> None:
    from dataclasses import asdict

    from hpclaunch.cli.show import console

    if json:
        values = {"folder": str(planned.folder), "recipe": asdict(planned.recipe), "script": planned.text}
        console.write_json("environment_script", values)
    else:
        console.write(planned.text)
