"""``shell``: an interactive allocation with the environment of a job."""

# Annotations stay types here: Typer would compile the text of each at every start.
import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from hpclaunch.actions.requesting import typed_values
from hpclaunch.cli import flags, help_text
from hpclaunch.cli.offers import offer
from hpclaunch.core.errors import Fault, InvalidRequest, Refused

if TYPE_CHECKING:
    from hpclaunch.actions.queueing.shell import InteractiveShell

app = typer.Typer()


@app.command("shell")
@flags.of_request("shell")
def shell(
    *,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="JOB|SCRIPT",
            autocompletion=offer("jobs"),
            help="The job or script whose environment the shell gets [default: that of a command of your own].",
        ),
    ] = None,
    typed: flags.Typed,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Print the command and the file that the shell reads; start nothing.",
            rich_help_panel=help_text.START,
        ),
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="With --dry-run: write JSON to stdout.", rich_help_panel=help_text.OUTPUT)
    ] = False,
) -> None:
    """Open a shell in an allocation, with the environment of a job.

    It waits for the nodes, and opens bash on the first. When that ends, so does the allocation.
    """
    from hpclaunch.actions.preparing.preflight import check_resolved
    from hpclaunch.actions.queueing.shell import open_shell, prepare_shell
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, streams, submission

    if json and not dry_run:
        raise InvalidRequest(Fault(where="--json", what="works only with --dry-run", next="--dry-run --json"))
    system = System(warn=console.warn, tell=console.say, confirm=console.confirmed)
    request = typed_values.request_of(system, typed, target=target or "")
    opened = prepare_shell(system, request)
    prepared = opened.prepared
    submission.show_choices(prepared.spec, prepared.case.context.site_origin)
    submission.warn_of((*prepared.spec.unverified, *prepared.notices))
    if dry_run:
        check_resolved(prepared)
        if json:
            console.write_json("shell", {"command": list(opened.command), "text": opened.text})
        else:
            console.write(_as_text(opened))
        return
    if not (streams.has_keyboard() and streams.is_terminal()):
        what = "a shell needs a terminal, and stdin or stdout is none here"
        raise Refused(Fault(what=what, next="type it at a prompt; hpclaunch submit runs a job without one"))
    open_shell(system, opened)


def _as_text(opened: "InteractiveShell") -> str:
    """Return the file that the shell reads, with the command that opens it as its first line."""
    return f"# {shlex.join(opened.command)}\n{opened.text}"
