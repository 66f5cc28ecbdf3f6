"""The command line: flags in, text and exit code out; the one place where an expected error becomes a message."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import NoReturn

import typer

from hpclaunch.cli.show import streams
from hpclaunch.cli.verbs import Verbs
from hpclaunch.core import waiting
from hpclaunch.core.errors import Fault, HpclaunchError, InvalidRequest, next_step_after
from hpclaunch.core.version import __version__

_BROKEN_PIPE = 141
"""The exit code that a shell shows for a program whose reader has ended (128 + SIGPIPE)."""
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""What the parser raises; its module is another one from Typer 0.27 on."""

app = typer.Typer(
    name="hpclaunch",
    cls=Verbs,
    help="From a training script to a correct, readable, multi-node Slurm run.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(requested: bool) -> None:
    if requested:
        print(f"hpclaunch {__version__}")
        raise typer.Exit


def _schema(requested: bool) -> None:
    if requested:
        from hpclaunch.cli.show import console, documents

        console.write(documents.schema_text())
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
    json_schema: bool = typer.Option(
        False, "--json-schema", callback=_schema, is_eager=True, help="Print the JSON Schema of what --json writes."
    ),
) -> None:
    pass


def main(argv: list[str] | None = None) -> None:
    """Run the command line. Arguments after the first ``--`` belong to the job and are not parsed."""
    words = sys.argv[1:] if argv is None else argv
    cut = words.index("--") if "--" in words else len(words)
    streams.occupy_closed()
    streams.fit_terminals()
    waiting.report_to(_tell)
    if words and words[0].startswith(("--install-completion", "--show-completion")):
        from hpclaunch.cli import shell_completion

        shell_completion.offer()
    try:
        if cut < len(words) and words[0] not in ("submit", "render", "search", "profile", "scale"):
            raise InvalidRequest(
                Fault(
                    what="only submit, render, search, profile and scale accept arguments after --",
                    next="leave out -- and what follows",
                )
            )
        _run(words[:cut], tuple(words[cut + 1 :]))
    except HpclaunchError as error:
        _fail(error, words[:cut])
    except BrokenPipeError:
        sys.exit(_BROKEN_PIPE)
    except OSError as error:
        # Errors that no caller handles: a missing folder, a file in the place of a folder, a full disk.
        _fail(HpclaunchError(_fault_of(error)), words[:cut])
    finally:
        streams.drop_rest()


def _run(words: list[str], arguments: tuple[str, ...]) -> None:
    try:
        with _activity(words):
            code = app(args=words, obj=arguments, prog_name="hpclaunch", standalone_mode=False)
    except _UsageError as refused:
        _refuse(refused, words, arguments)
    except typer.Abort:
        code = 1
    streams.finish()  # Python itself would report a full disk or a closed pipe with a traceback
    sys.exit(code or 0)


def _activity(words: list[str]) -> AbstractContextManager[None]:
    """Return what shows on a terminal that a silent command is at work."""
    if not streams.tells_a_terminal():
        return nullcontext()
    from hpclaunch.cli.show import activity

    return activity.shown(words)


def _refuse(refused: Exception, words: list[str], arguments: tuple[str, ...]) -> NoReturn:
    """Raise InvalidRequest for what the parser refuses; a group that was typed alone shows its help instead."""
    from hpclaunch.cli import usage

    if usage.needs_help(refused) and not _wants_json(words):
        streams.tell(f"{refused}\n".encode())
        sys.exit(InvalidRequest.exit_code)
    raise usage.error_of(refused, words, arguments) from None


def _tell(text: str) -> None:
    from hpclaunch.cli.show.console import say

    say(text)


def _fault_of(error: OSError) -> Fault:
    name = str(error.filename or "")
    next_step = "" if name in ("stdout", "stderr") else next_step_after(error)
    return Fault(where=name, what=error.strerror or str(error), next=next_step)


def _fail(error: HpclaunchError, words: list[str]) -> None:
    from hpclaunch.cli.show.console import show_error

    show_error(error, as_json=_wants_json(words))
    sys.exit(error.exit_code)


def _wants_json(words: list[str]) -> bool:
    return any(word.partition("=")[0] == "--json" for word in words)
