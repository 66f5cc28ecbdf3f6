"""``trust``: the folders whose programs may run on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpclaunch.cli import run_flags
from hpclaunch.core.errors import Fault, InvalidRequest

app = typer.Typer()


@app.command("trust")
def trust(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="The folder of a project [default: this one].")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the trusted folders; change nothing.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Trust the folder no longer.")] = False,
    despite_group: Annotated[
        bool, typer.Option("--despite-group", help="Trust the folder and use its files although others can change it.")
    ] = False,
    json: run_flags.Json = False,
) -> None:
    """Allow what a project's files start on this machine.

    hpclaunch reads the files of any project that nobody else can change. Before a job's set-up or model runs here, it
    asks once for the folder.
    """
    from hpclaunch.actions.preparing import trust as trust_actions
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console

    if list_ and (remove or folder is not None):
        what = "changes nothing, so it excludes --remove and a folder"
        raise InvalidRequest(Fault(where="--list", what=what, next="hpclaunch trust --list"))
    if despite_group and (list_ or remove):
        what = "belongs to a folder that is trusted from now on, so it excludes --list and --remove"
        raise InvalidRequest(Fault(where="--despite-group", what=what, next="hpclaunch trust DIR --despite-group"))
    system = System()
    environment, place = system.environment, folder or system.cwd
    if list_:
        changed = trust_actions.trusted_folders(environment)
    elif remove:
        changed = [trust_actions.remove_trust(environment, place)]
    else:
        changed = [trust_actions.trust_folder(environment, place, despite_group)]
    if json:
        folders = [{"folder": str(path), "trusted": not remove} for path in changed]
        console.write_json("trust", {"folders": folders})
        return
    if not list_:
        console.say("no longer trusted:" if remove else "trusted; to undo this: hpclaunch trust --remove DIR")
    console.write("".join(f"{path}\n" for path in changed))
