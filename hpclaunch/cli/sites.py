"""``sites list|show|compare|check|detect``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpclaunch.actions.requesting import typed_times, typed_values
from hpclaunch.cli import flags, help_text, run_flags
from hpclaunch.cli.offers import offer, one_of
from hpclaunch.core.errors import Fault, InvalidRequest
from hpclaunch.core.spec import Request

if TYPE_CHECKING:
    from hpclaunch.actions.clusters.detect import SiteDraft
    from hpclaunch.config.catalog import Found

_Site = Annotated[
    str | None,
    typer.Argument(
        metavar="[SITE]", autocompletion=offer("sites"), help="The name of a site [default: the detected one]."
    ),
]
app = typer.Typer(
    cls=help_text.PlainGroup,
    help="List and show clusters, or describe this one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list")
def list_(json: run_flags.Json = False) -> None:
    """List all sites: those of the project, your own, and the bundled ones."""
    from hpclaunch.actions.clusters import sites
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console

    known_sites = sites.list_sites(System().catalog)
    if json:
        console.write_json("sites", {"sites": [asdict(site) for site in known_sites]})
        return
    rows = [
        (
            site.name,
            site.origin,
            "unverified" if site.unverified and site.status == "production" else site.status,
            site.gpus or "-",
            site.launcher or "-",
            site.title,
        )
        for site in known_sites
    ]
    console.table(("site", "from", "status", "GPUs per node", "launcher", "title"), rows, state_column=2)


@app.command()
def show(
    site: _Site = None,
    yaml: Annotated[
        bool, typer.Option("--yaml", help="Print the site file unchanged, for a copy of your own.")
    ] = False,
    json: run_flags.Json = False,
) -> None:
    """Show the nodes, limits and launchers of a site, with sources."""
    from hpclaunch.actions.clusters import sites
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console
    from hpclaunch.sites.card.lines import lines_of

    if yaml and json:
        raise InvalidRequest(
            Fault(where="--yaml and --json", what="cannot be used together", next="leave one of them out")
        )
    system = System()
    if site is None:
        site, chosen_by = sites.usual_site(system)
        console.say(f"{site} ({chosen_by})")
    if yaml:
        content = sites.site_file(system.catalog, site).path.read_bytes()
        console.write(content.decode("utf-8", errors="surrogateescape"))
        return
    if json:
        console.write_json("site", sites.site_as_json(system.catalog, site, system.now().date(), system.environment))
        return
    sections = sites.site_card(system.catalog, site, system.now().date(), system.environment)
    console.show_lines(lambda width: lines_of(sections, width))


@app.command()
def compare(
    target: flags.Target,
    site: Annotated[
        list[str],
        typer.Option(autocompletion=offer("sites"), help="A cluster. Repeatable. [default: all in production]"),
    ] = [],  # noqa: B006
    nodes: flags.Nodes = None,
    tasks_per_node: flags.TasksPerNode = None,
    account: flags.Account = None,
    walltime: flags.Walltime = None,
    set_: flags.Set = [],  # noqa: B006
    recipe: flags.Recipe = None,
    framework: flags.Framework = None,
    accept_unverified: flags.AcceptUnverified = False,
    global_batch: flags.GlobalBatch = None,
    deadline: flags.Deadline = None,
    prefer: Annotated[
        str | None,
        typer.Option(autocompletion=one_of("time", "cost"), help="What matters more for the node count: time or cost."),
    ] = None,
    json: run_flags.Json = False,
) -> None:
    """Compare a job at several sites: nodes, time, cost and software.

    Each line is what plan recommends there. Costs are in the unit of each site. It submits nothing, and asks a queue
    only on the site's own machines.
    """
    from hpclaunch.actions.clusters.compare_sites import compare_sites
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console
    from hpclaunch.cli.show.site_estimates import show_estimates

    request = Request(
        target=target,
        nodes=nodes,
        tasks_per_node=tasks_per_node,
        account=account,
        walltime=typed_times.seconds_of(walltime),
        settings=typed_values.settings_of(set_),
        recipe=recipe,
        framework=framework,
        accept_unverified=accept_unverified,
    )
    objective = typed_values.objective_of(typed_times.seconds_of(deadline, "--deadline"), None, None, prefer)
    system = System(warn=console.warn, tell=console.say, confirm=console.confirmed)
    found = compare_sites(system, request, site, objective, global_batch)
    if json:
        console.write_json("sites_compared", {"target": target, "sites": [one.to_json() for one in found]})
    else:
        show_estimates(found)
    if all(one.refusals for one in found):
        raise typer.Exit(1)


@app.command()
def check(
    site: _Site = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write the corrected file to your own folder of sites.")
    ] = False,
    json: run_flags.Json = False,
) -> None:
    """Compare a site's file with what the site answers now.

    On a login node it asks Slurm, module avail and the file system, and prints what differs with a patch of the file.
    The exit code is 0 if all agrees, 1 if something differs, and 3 if nothing differs but not all could be asked.
    """
    from hpclaunch.actions.clusters import check_site
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, site_check

    system = System(warn=console.warn, tell=console.say)
    checked = check_site.check_site(system, site)
    if write and checked.patch:
        checked = check_site.write(system, checked)
    if json:
        console.write_json("site_check", checked.to_json())
    else:
        site_check.show_check(checked)
    raise typer.Exit(checked.exit_code)


@app.command()
def detect(
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Write a site file for this cluster, which is then the site NAME."),
    ] = None,
    file: Annotated[
        str | None, typer.Option("--write", metavar="FILE", help="Write a site file for this cluster to FILE.")
    ] = None,
    json: run_flags.Json = False,
) -> None:
    """Show which site this machine belongs to, or describe it.

    On an unknown Slurm cluster, or with --name or --write, it describes the cluster as a site file. Values that Slurm
    does not show are marked FILL IN; hpclaunch assumes nothing for them.
    """
    from hpclaunch.actions.clusters import detect
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console

    system = System(warn=console.warn)
    path = detect.check_output(system, name, file)
    known = detect.known_site(system)
    draft = detect.draft_site(system) if path or known is None else None
    if draft is not None and path is not None:
        draft = detect.write(draft, path)
    if json:
        console.write_json("detection", _detection_values(known, draft))
        return
    if known is not None:
        console.say(f"this machine belongs to the site {known.name} ({known.origin}: {known.path})")
    if draft is None:
        console.write(f"{known.name if known else ''}\n")
        return
    for gap in draft.described.gaps:
        console.say(f"to fill in: {gap.key} ({gap.why})")
    if draft.path is None:
        console.say(f"to use this as your own site: hpclaunch sites detect --name {draft.described.name}")
        console.write(draft.text)
        return
    if name is None:
        console.say("check this file, then copy it to a folder site_configs/ to use it as a site")
        console.say("the keys of the file: hpclaunch docs site-files")
    else:
        console.say(f"check this file, then test the site: hpclaunch doctor --site {name}")
    console.write(f"{draft.path}\n")


def _detection_values(known: Found | None, draft: SiteDraft | None) -> dict[str, Any]:
    """Return the JSON of ``sites detect``."""
    site = {"name": known.name, "origin": known.origin, "path": str(known.path)} if known else None
    described = draft.described if draft else None
    return {
        "known": site,
        "name": described.name if described else None,
        "path": str(draft.path) if draft and draft.path else None,
        "site": described.values if described else None,
        "fill_in": [asdict(gap) for gap in described.gaps] if described else [],
        "text": draft.text if draft else None,
    }
