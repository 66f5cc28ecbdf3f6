"""What the module of a tool says about it: the files that its user writes, and the commands that its user types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cases import Case


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a case is run. folder: the project, in which all commands are typed; seen: the argument of program.py.

    python, programs: the Python and the folder of programs of the tool's own environment.
    """

    folder: Path
    seen: Path
    python: Path
    programs: Path
    program: Path

    def command(self, case: Case) -> list[str]:
        """What each rank runs."""
        return ["/usr/bin/python3", str(self.program), str(self.seen), *case.arguments]


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A tool. package: pinned requirements, the tool first; empty for this checkout.

    files: name → text of what a user writes once, before anything is measured. prepare: a command that a user
    types once for a project. submit: the command that is measured.
    dry_run: the command that shows the script, or None. shown: the script that it showed, from its output and the
    folder. run_names: regular expressions of the names that the tool gives to a run (an ID, a time). stays: the command
    ends with the job. cannot: why nothing, or a column, can be run, by the column's name ("" for all).
    """

    name: str
    package: str
    documentation: str
    files: Callable[[Case, Place], Mapping[str, str]]
    submit: Callable[[Case, Place], list[str]]
    prepare: Callable[[Case, Place], list[str]] | None = None
    dry_run: Callable[[Case, Place], list[str]] | None = None
    shown: Callable[[str, Place], str] = lambda output, place: output
    run_names: tuple[str, ...] = ()
    stays: bool = False
    cannot: Mapping[str, str] = field(default_factory=dict)

    @property
    def version(self) -> str:
        return self.package.partition(" ")[0].partition("==")[2]
