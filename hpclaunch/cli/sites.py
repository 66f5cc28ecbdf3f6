"""``sites list|show``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from hpclaunch.cli import complete
from hpclaunch.errors import Fault, InvalidRequest

app = typer.Typer(help="The clusters that hpclaunch knows.", no_args_is_help=True, rich_markup_mode=None)
Json = Annotated[bool, typer.Option("--json", help="Write JSON to stdout.")]


@app.command("list")
def list_(json: Json = False) -> None:
    """List the sites: the project's, yours, and the bundled ones."""
    from hpclaunch import console, shelf

    sites = shelf.list_sites(shelf.catalog())
    if json:
        console.write_json([asdict(site) for site in sites])
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
        for site in sites
    ]
    console.table(("site", "from", "status", "GPUs a node", "launcher", "what it is"), rows, state_column=2)


@app.command()
def show(
    site: Annotated[
        str | None, typer.Argument(metavar="[SITE]", autocompletion=complete.sites, help="[default: detected]")
    ] = None,
    yaml: Annotated[bool, typer.Option("--yaml", help="Print the site file as it is, to copy and change.")] = False,
    json: Json = False,
) -> None:
    """Show a site's nodes, limits and launchers, each value with its sources."""
    from hpclaunch import console, shelf
    from hpclaunch.sitecard.lines import lines_of

    if yaml and json:
        raise InvalidRequest(Fault(where="--yaml and --json", what="exclude each other", next="leave one of them out"))
    catalog = shelf.catalog()
    if site is None:
        site, chosen_by = shelf.usual_site()
        console.say(f"{site} ({chosen_by})")
    if yaml:
        console.write_bytes(shelf.site_file(catalog, site).path.read_bytes())
        return
    if json:
        console.write_json(shelf.site_as_json(catalog, site))
        return
    sections = shelf.site_card(catalog, site)
    console.show_lines(lambda width: lines_of(sections, width))
