"""``sites list|show``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from hpclaunch.cli import complete

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
Json = Annotated[bool, typer.Option("--json", help="Write JSON to stdout.")]


@app.command("list")
def list_(json: Json = False) -> None:
    """List the sites: the project's, yours, and the bundled ones."""
    from hpclaunch import console, shelf

    rows = shelf.list_sites(shelf.catalog())
    if json:
        console.write_json([dict(zip(("name", "origin", "status", "title"), row, strict=True)) for row in rows])
    else:
        console.table(("site", "from", "status", "what it is"), rows)


@app.command()
def show(
    site: Annotated[str, typer.Argument(metavar="SITE", autocompletion=complete.sites)], json: Json = False
) -> None:
    """Show a site's nodes, limits, launchers and sources."""
    from hpclaunch import console, shelf

    found, loaded = shelf.show_site(shelf.catalog(), site)
    if json:
        console.write_json({"path": str(found.path), "origin": found.origin, **asdict(loaded)})
    else:
        console.write(f"# {found.path} ({found.origin})\n{found.path.read_text(encoding='utf-8')}")
