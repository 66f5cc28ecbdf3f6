"""The data set of a job in its job file: its name, what is in its folder, and where it comes from."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated

from hpclaunch.config.fileformat import AtLeast, Line, Matching
from hpclaunch.config.parameters import ParameterName
from hpclaunch.core.records import record

Sha256 = Annotated[str, Matching(re.compile("[0-9a-f]{64}"), "64 hexadecimal digits")]
FileName = Annotated[str, Matching(re.compile("[A-Za-z0-9_][A-Za-z0-9_.-]*"), "letters, digits, '_', '.' and '-'")]


@record
class Fetch:
    """The address from which ``hpclaunch data fetch`` gets the data set, and the SHA-256 of that file.

    Of several files, ``url`` is the address of their folder, and ``files`` has the SHA-256 of each by its name.
    """

    url: Line
    sha256: Sha256 | None = None
    files: dict[FileName, Sha256] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.sha256 is None) == (not self.files):
            raise ValueError("give either 'sha256' (of the file at 'url') or 'files' (of those in this folder)")


@record
class Make:
    """A program of the job, a Python file in its folder, with which ``hpclaunch data fetch`` makes the data set.

    It gets the folder to write to, ``--from=PATH`` if that is typed, and the values of ``parameters`` as
    ``--name=value``.
    """

    program: Line
    parameters: tuple[ParameterName, ...] = ()

    def __post_init__(self) -> None:
        path = Path(self.program)
        if path.is_absolute() or ".." in path.parts or path.suffix != ".py":
            raise ValueError("'program' must be the path of a Python file inside the job's folder")


@record
class DataSet:
    """The data set that the job reads: one of ``layouts`` (paths in its folder) must exist at submission.

    ``*`` in a layout stands for any part of a name. It is downloaded (``fetch``), or made by the job (``make``).
    """

    name: Annotated[str, Matching(re.compile("[A-Za-z0-9_][A-Za-z0-9_.-]*"), "letters, digits, '_', '.' and '-'")]
    layouts: Annotated[tuple[Line, ...], AtLeast(1)]
    fetch: Fetch | None = None
    make: Make | None = None

    def __post_init__(self) -> None:
        if self.fetch and self.make:
            raise ValueError("give either 'fetch' (an address) or 'make' (a program of the job)")


def layout_in(folder: Path, layouts: Sequence[str]) -> Path | None:
    """Return the first of a data set's layouts that is in the folder, or None."""
    for layout in layouts:
        found = _matches(folder, layout) if "*" in layout else [layout]
        first = next((name for name in found if os.path.exists(folder / name)), None)
        if first is not None:
            return folder / first
    return None


def _matches(folder: Path, layout: str) -> Iterator[str]:
    from glob import iglob  # few layouts are patterns

    return iglob(re.sub(r"([\[?])", r"[\1]", layout), root_dir=folder)  # [ and ? stand for themselves in names
