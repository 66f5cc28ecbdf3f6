"""Writes a page, its figures and its data as files; only what hpclaunch report wrote before is replaced."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from hpclaunch.core.errors import Fault, Refused, unwritable, without_folder
from hpclaunch.core.files import write_text
from hpclaunch.core.quoting import shell_word, spreadsheet_text
from hpclaunch.reports.page.drawing import save_figure
from hpclaunch.reports.page.html import GENERATOR, html_of
from hpclaunch.reports.page.model import Figure, Page

FORMATS = ("png", "svg", "pdf")


def check_page(path: Path) -> None:
    """Raise Refused if the page cannot be written to ``path``, or if that is a file which is no page of hpclaunch."""
    name_it = "name another file with -o"
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise Refused(Fault(where=str(path), what="is not a regular file, and is not overwritten", next=name_it))
    if path.exists():
        with path.open("rb") as file:
            if GENERATOR.encode() not in file.read(2000):
                raise Refused(Fault(where=str(path), what="exists and is no page of hpclaunch report", next=name_it))
    elif not path.absolute().parent.is_dir():
        raise without_folder(path)


def check_folder(path: Path, flag: str) -> None:
    """Raise Refused if files cannot be written into this folder; it is made if only the last part is missing."""
    if path.exists() and not path.is_dir():
        raise Refused(Fault(where=flag, what=f"{path} is not a folder", next=f"{flag} FOLDER"))
    if not path.exists() and not path.absolute().parent.is_dir():
        raise Refused(
            Fault(where=flag, what=f"{path.parent} does not exist", next=f"mkdir -p {shell_word(str(path.parent))}")
        )


def write_page(page: Page, path: Path) -> int:
    """Write the page; return its size in bytes. Raises Refused."""
    text = html_of(page)
    try:
        write_text(path, text, durable=False)
    except OSError as error:
        raise unwritable(path, error) from None
    return len(text.encode("utf-8"))


def write_figures(page: Page, folder: Path, formats: tuple[str, ...]) -> list[Path]:
    """Write every figure in every format as ``FOLDER/NAME.FORMAT``; return the paths. Raises Refused."""
    paths = [(figure, folder / f"{figure.name}.{kind}") for figure in page.figures for kind in formats]
    try:
        folder.mkdir(exist_ok=True)
        for figure, path in paths:
            _replace_by(path, partial(save_figure, figure))
    except OSError as error:
        raise unwritable(folder, error) from None
    return [path for _, path in paths]


def _replace_by(path: Path, write: Callable[[Path], None]) -> None:
    """Write a new file and give it the name, so that a link of that name is replaced and never written through."""
    draft = path.with_name(f".hpclaunch-{os.urandom(8).hex()}{path.suffix}")
    try:
        draft.touch(exist_ok=False)
        write(draft)
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def write_tables(page: Page, folder: Path) -> list[Path]:
    """Write the complete data of every figure as ``FOLDER/NAME.csv``; return the paths. Raises Refused."""
    paths = []
    try:
        folder.mkdir(exist_ok=True)
        for figure in page.figures:
            path = folder / f"{figure.name}.csv"
            write_text(path, csv_of(figure), durable=False)
            paths.append(path)
    except OSError as error:
        raise unwritable(folder, error) from None
    return paths


def csv_of(figure: Figure) -> str:
    """Return the data of a figure as CSV (RFC 4180), numbers with all their digits; nothing for what is missing."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([spreadsheet_text(column) for column in figure.columns])
    for row in figure.rows:
        writer.writerow([spreadsheet_text(value) if isinstance(value, str) else value for value in row])
    return text.getvalue()
