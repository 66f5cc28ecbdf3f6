"""``report``: the page of a run, of an array or of several runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpclaunch.cli import help_text, run_flags
from hpclaunch.cli.offers import offer
from hpclaunch.core.errors import Fault, InvalidRequest

if TYPE_CHECKING:
    from hpclaunch.actions.sharing.report import WrittenReport

app = typer.Typer()


@app.command("report")
def report(
    run: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN|ARRAY|SEARCH|STUDY...",
            autocompletion=offer("runs"),
            help="Names, directories, job IDs of runs, or @2 [default: the newest run]; or the folder of a study.",
        ),
    ] = None,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="RUN RUN", help="Compare two runs: differences of settings, curves over each other."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.html",
            help="The page to write [default: ./report-RUN.html].",
            rich_help_panel=help_text.OUTPUT,
        ),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write each figure as a file into this folder, too.")
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option("--format", metavar="FORMATS", help="Formats of --figures: png, svg, pdf. [default: svg]"),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write the data behind each figure as CSV into this folder.")
    ] = None,
    json: run_flags.Json = False,
) -> None:
    """Write a page about a run: what was asked, what it did, how well it used the machine, how to repeat it.

    The page is one HTML file that needs no network. It needs matplotlib.
    """
    from hpclaunch.actions.sharing import report as reporting
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console

    if compare is not None and run:
        raise InvalidRequest(Fault(where="--compare", what="takes its two runs itself", next="--compare RUN RUN"))
    if format_ is not None and figures is None:
        raise InvalidRequest(Fault(where="--format", what="needs a folder for figures", next="add --figures FOLDER"))
    system = System(warn=console.warn)
    files = reporting.ReportFiles(
        folder=Path(), page=output, figures=figures, formats=reporting.formats_of(format_), tables=csv
    )
    subject = reporting.find(system, compare or run or [])
    reporting.check_files(files, subject)
    page = reporting.comparison_of(system, subject.runs) if compare else reporting.page_of(system, subject)
    _show(reporting.write(page, files.page_for(subject), files), json)


def _show(written: WrittenReport, as_json: bool) -> None:
    from hpclaunch.cli.show import console

    page = written.page
    if as_json:
        values = {
            "page": str(written.path),
            "bytes": written.size,
            "title": page.title,
            "state": page.state,
            "key_figures": {fact.name: fact.value for fact in page.key_figures},
            "warnings": list(page.warnings),
            "figures": [{"name": figure.name, "title": figure.title} for figure in page.figures],
            "files": [str(path) for path in (*written.figures, *written.tables)],
        }
        console.write_json("report", values)
        return
    for text in page.warnings:
        console.say(f"  {text}")
    for paths, what in ((written.figures, "figures"), (written.tables, "tables")):
        if paths:
            console.say(f"  {len(paths)} {what} in {paths[0].parent}")
    console.write(f"{written.path}\n")
