"""``bundle``: one file that installs hpclaunch where there is no internet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpclaunch.cli import help_text, run_flags

app = typer.Typer()


@app.command("bundle")
def bundle(
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="The new file [default: hpclaunch-VERSION-pythonX.Y-MACHINE.sh].",
            rich_help_panel=help_text.OUTPUT,
        ),
    ] = None,
    python: Annotated[
        str | None, typer.Option(metavar="X.Y", help="The Python of the cluster [default: that of this command].")
    ] = None,
    machine: Annotated[
        str | None, typer.Option(help="The cluster's machine, x86_64 or aarch64 [default: this one].")
    ] = None,
    extra: Annotated[
        list[str] | None, typer.Option(help="Optional packages: plot, search or mlflow; may be repeated.")
    ] = None,
    json: run_flags.Json = False,
) -> None:
    """Make one file that installs hpclaunch on a cluster without internet.

    Type it on a machine with internet, copy the file to the cluster, and type there: sh FILE [FOLDER]
    """
    from hpclaunch.actions.sharing import bundle as bundle_actions
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console

    target = bundle_actions.target_of(python, machine, extra or ())
    path = output or Path(target.file_name)
    size = bundle_actions.make_bundle(System(warn=console.warn, tell=console.say), target, path)
    console.say(f"{console.show_bytes(size)}; copy it to the cluster, and type there: sh {path.name} [FOLDER]")
    if json:
        console.write_json("bundle", {"file": str(path), "bytes": size})
    else:
        console.write(f"{path}\n")
