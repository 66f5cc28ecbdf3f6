"""``data fetch``: stages a job's data set, from a copy or from the internet."""

from __future__ import annotations

from typing import Annotated

import typer

from hpclaunch.actions.requesting import typed_values
from hpclaunch.cli import flags, help_text, run_flags
from hpclaunch.cli.offers import offer

app = typer.Typer(
    cls=help_text.PlainGroup,
    help="Fetch data sets before a job is submitted.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _data() -> None:
    pass


@app.command()
def fetch(
    job: flags.Job,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="PATH",
            help="A file or folder with the data set, or with what it is made from [default: download or make it].",
        ),
    ] = None,
    set_: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            autocompletion=offer("settings"),
            help="A parameter of the data that the job makes; or dataset=NAME, where a job has several.",
        ),
    ] = [],  # noqa: B006
    data_dir: Annotated[str | None, typer.Option(help="The data folder [default: the same as for submit].")] = None,
    site: Annotated[str | None, typer.Option(help="The site whose data folder is used.")] = None,
    sha256: Annotated[str | None, typer.Option(help="The checksum that the --from file must have.")] = None,
    json: run_flags.Json = False,
) -> None:
    """Download, copy or make a job's data set in the data folder.

    The data set is checked, and appears in the folder only when it is complete. Fetch it where there is internet:
    compute nodes often have none.
    """
    from hpclaunch.actions.projects.datasets import fetch as fetch_dataset
    from hpclaunch.actions.projects.staging import DatasetSource
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console
    from hpclaunch.core.spec import Request

    request = Request(target=job, site=site, data_dir=data_dir, settings=typed_values.settings_of(set_))
    folder = fetch_dataset(System(tell=console.say), request, DatasetSource(path=source, sha256=sha256))
    if json:
        console.write_json("data", {"job": job, "folder": str(folder)})
    else:
        console.write(f"{folder}\n")
