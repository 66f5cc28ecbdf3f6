"""Files of a report: nothing of anybody else is replaced, and nothing is written through a link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpclaunch.core.errors import Refused
from hpclaunch.reports.page.files import (
    check_folder,
    check_page,
    csv_of,
    write_figures,
    write_page,
    write_tables,
)
from hpclaunch.reports.page.html import GENERATOR
from hpclaunch.reports.page.model import Figure, Page
from hpclaunch.reports.page.recorded import read_run
from hpclaunch.reports.page.run_page import run_page
from hpclaunch.runs import load
from tests import fabricated_runs as fabricated

TEXT = f"<!doctype html>{GENERATOR}<p>größer"


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    """A page with figures, of which the text is short: to draw them takes seconds."""
    monkeypatch.setattr("hpclaunch.reports.page.files.html_of", lambda page: TEXT)
    return run_page(read_run(load(fabricated.finished(tmp_path / "runs"))), 1800000000.0, "1.2.3")


def test_only_a_page_of_hpclaunch_is_replaced(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    check_page(path)
    size = write_page(page, path)
    assert path.read_text() == TEXT and path.stat().st_size == size == len(TEXT) + 2
    check_page(path)
    write_page(page, path)
    path.write_text("<!doctype html><p>mine")
    with pytest.raises(Refused, match="exists and is no page of hpclaunch report"):
        check_page(path)
    path.write_text("x" * 2000 + TEXT)
    with pytest.raises(Refused, match="exists and is no page"):
        check_page(path)


@pytest.mark.parametrize("kind", ["link", "link to nothing", "folder", "pipe"])
def test_a_page_is_no_link_and_nothing_but_a_file(page: Page, tmp_path: Path, kind: str) -> None:
    path, target = tmp_path / "page.html", tmp_path / "target.html"
    if kind == "link":
        write_page(page, target)
    {"folder": Path.mkdir, "pipe": os.mkfifo}.get(kind, lambda place: place.symlink_to(target))(path)
    with pytest.raises(Refused, match="is not a regular file, and is not overwritten") as caught:
        check_page(path)
    assert caught.value.faults[0].next == "name another file with -o"


def test_a_folder_that_is_missing_is_made_and_none_above_it(page: Page, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    check_folder(tmp_path / "new", "--csv")
    check_folder(tmp_path, "--csv")
    with pytest.raises(Refused, match="file is not a folder"):
        check_folder(tmp_path / "file", "--csv")
    with pytest.raises(Refused, match="a does not exist") as caught:
        check_folder(tmp_path / "a/b", "--csv")
    assert caught.value.faults[0].next == f"mkdir -p {tmp_path}/a"
    with pytest.raises(Refused):
        check_page(tmp_path / "a/page.html")
    written = write_tables(page, tmp_path / "new")
    assert [file.name for file in written] == [f"{figure.name}.csv" for figure in page.figures]
    assert [file.read_bytes().decode() for file in written] == [csv_of(figure) for figure in page.figures]
    write_tables(page, tmp_path / "new")


def test_a_link_is_replaced_by_a_figure_and_never_written_through(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpclaunch.reports.page.files.save_figure", lambda figure, path: path.write_text("drawn"))
    figure = page.figures[0]
    folder, outside = tmp_path / "figures", tmp_path / "outside"
    folder.mkdir()
    outside.write_text("theirs")
    (folder / f"{figure.name}.svg").symlink_to(outside)
    (folder / f"{figure.name}.csv").symlink_to(outside)
    written = write_figures(page, folder, ("svg", "png"))
    assert [file.name for file in written[:2]] == [f"{figure.name}.svg", f"{figure.name}.png"]
    assert len(written) == 2 * len(page.figures)
    write_tables(page, folder)
    assert outside.read_text() == "theirs"
    assert all(file.is_file() and not file.is_symlink() and file.stat().st_size for file in folder.iterdir())
    assert not [file for file in folder.iterdir() if file.name.startswith(".")]


def test_a_figure_that_cannot_be_drawn_leaves_no_draft(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(figure: Figure, path: Path) -> None:
        path.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hpclaunch.reports.page.files.save_figure", fail)
    with pytest.raises(Refused, match="No space left on device"):
        write_figures(page, tmp_path / "figures", ("svg",))
    assert list((tmp_path / "figures").iterdir()) == []


def test_what_cannot_be_written_is_said(page: Page, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for write in (
        lambda: write_page(page, tmp_path / "file/page.html"),
        lambda: write_tables(page, tmp_path / "file"),
        lambda: write_figures(page, tmp_path / "file", ("svg",)),
    ):
        with pytest.raises(Refused, match="file"):
            write()
