"""``report``: the page, its figures and its data, on fabricated run directories. Drawing starts a program (fc-list)."""

from __future__ import annotations

import csv
import importlib.util
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from hpclaunch.reports.charts.study_chart import Panel, Series
from hpclaunch.reports.page.drawing import inline_svg
from hpclaunch.reports.page.files import csv_of, write_figures
from hpclaunch.reports.page.html import LARGEST, html_of
from hpclaunch.reports.page.model import Figure, Page
from hpclaunch.reports.page.recorded import read_run
from hpclaunch.reports.page.run_page import run_page
from hpclaunch.runs import load
from tests import fabricated_runs as fabricated
from tests.cli.conftest import Desk

if importlib.util.find_spec("matplotlib") is None:
    pytest.skip("group plot: needs matplotlib (the extra plot)", allow_module_level=True)
import matplotlib

CACHE = {"MPLCONFIGDIR": matplotlib.get_cachedir()}
"""The list of fonts that is there already: matplotlib would make it again in every new home."""
ALLOWED = {"svg", "g", "path", "text", "tspan", "defs", "clippath", "rect", "use", "image", "lineargradient", "stop"}
EMPTY = {"meta", "path", "rect", "use", "image", "link", "br", "stop"}


class Reader(HTMLParser):
    """Collects the elements, attributes and texts of a page, and fails where elements are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: list[tuple[str, str, str]] = []
        self.identifiers: list[str] = []
        self.texts: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.identifiers += [value or "" for name, value in attrs if name == "id"]
        if tag not in EMPTY:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in EMPTY:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in EMPTY:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    return reader


def page_of(path: Path) -> Page:
    return run_page(read_run(load(path)), fabricated.NOW, "1.2.3")


def test_a_page_needs_no_script_and_no_network(tmp_path: Path) -> None:
    html = html_of(page_of(fabricated.finished(tmp_path)))
    page = read(html)
    assert len(html.encode()) <= LARGEST
    assert page.names.isdisjoint({"script", "link", "iframe", "object", "embed", "form", "base"})
    addresses = [value for _, name, value in page.attributes if name in ("src", "href", "xlink:href")]
    assert addresses
    assert all(address.startswith(("#", "data:image/png;base64,")) for address in addresses)
    assert "url(" not in re.sub(r"url\(#\w+\)", "", html)
    assert "Content-Security-Policy" in html
    assert len(set(page.identifiers)) == len(page.identifiers)
    targets = {value[1:] for _, name, value in page.attributes if name in ("href", "xlink:href") and value[0] == "#"}
    assert targets <= set(page.identifiers)


def test_every_figure_has_a_title_a_description_and_a_table(tmp_path: Path) -> None:
    made = page_of(fabricated.finished(tmp_path))
    page = read(html_of(made))
    drawn = [value for tag, name, value in page.attributes if (tag, name) == ("svg", "aria-labelledby")]
    assert drawn == [f"title-{figure.name} words-{figure.name}" for figure in made.figures]
    tables = [value for _, name, value in page.attributes if name == "aria-label" and value.startswith("Data of ")]
    assert len(tables) == len(made.figures)


def test_what_users_and_logs_wrote_stays_text(tmp_path: Path) -> None:
    html = html_of(page_of(fabricated.hostile(tmp_path)))
    page = read(html)
    assert not {name for name in page.names if name == "script"}
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert "alert(1)" in "".join(page.texts)
    assert "\x1b" not in html
    assert "\u202e" not in html
    inside = re.findall(r"<svg\b.*?</svg>", html, re.DOTALL)
    assert inside
    assert all(set(re.findall(r"<([a-zA-Z]+)", text.lower())) <= ALLOWED for text in inside)


def test_the_same_run_gives_the_same_page(tmp_path: Path) -> None:
    page = page_of(fabricated.failed(tmp_path))
    assert html_of(page) == html_of(page)


def test_colours_are_those_of_the_page(tmp_path: Path) -> None:
    figures = page_of(fabricated.preempted(tmp_path)).figures
    assert len(figures) == 6
    for figure in (one for one in figures if isinstance(one.drawings[0], Panel)):
        inner = inline_svg(figure).inner
        assert "var(--s1)" in inner
        assert set(re.findall(r"(?:fill|stroke): (#\w+)", inner)) <= {"#ffffff", "#000000"}


def test_a_page_with_too_many_figures_stays_below_one_megabyte(tmp_path: Path) -> None:
    path = fabricated.finished(tmp_path)
    long = {f"metric {number} {'x' * 500}": 1.0 for number in range(300)}
    fabricated.write_metrics(path, [{"event": "epoch", "epoch": n, **long} for n in range(2000)])
    (path / "job.sh").write_text("<&>'" * 200_000)
    assert len(html_of(page_of(path)).encode()) <= LARGEST


def test_long_series_are_drawn_with_few_points_and_written_with_all() -> None:
    values = [float(place % 977) for place in range(20_000)]
    series = Series(label="x", x=list(range(20_000)), y=values)
    panel = Panel(title="t", x_label="epoch", y_label="y", series=(series,))
    figure = Figure(
        name="long", title="Long", words="w", drawings=(panel,), columns=("=x", "y"), rows=tuple(enumerate(values))
    )
    rows = list(csv.reader(csv_of(figure).splitlines()))
    assert len(rows) == 20_001
    assert rows[0] == ["'=x", "y"]


def test_figures_are_files_for_a_paper(tmp_path: Path) -> None:
    page = page_of(fabricated.failed(tmp_path / "runs"))
    paths = write_figures(page, tmp_path / "figures", ("png", "svg", "pdf"))
    assert len(paths) == 3 * len(page.figures)
    begins = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
    contents = {path: path.read_bytes() for path in paths}
    assert all(content.startswith(begins[path.suffix]) for path, content in contents.items())
    write_figures(page, tmp_path / "figures", ("png", "svg", "pdf"))
    assert {path: path.read_bytes() for path in paths} == contents


def test_typed(desk: Desk) -> None:
    path = fabricated.finished(desk.project / "runs")
    done = desk.type(
        "report", path.name, "--csv", "data", "--figures", "drawn", "--format", "svg,png", "--json", **CACHE
    )
    assert done.code == 0, done.err
    page = desk.project / f"report-{path.name}.html"
    assert done.json["page"] == page.name
    assert done.json["bytes"] == page.stat().st_size <= LARGEST
    names = [figure["name"] for figure in done.json["figures"]]
    assert sorted(file.name for file in (desk.project / "data").iterdir()) == sorted(f"{name}.csv" for name in names)
    assert len(list((desk.project / "drawn").iterdir())) == 2 * len(names)
    assert any("straggler" in warning for warning in done.json["warnings"])
    again = desk.type("report", str(path), **CACHE)
    assert (again.code, again.out) == (0, f"{page.name}\n")
    assert "straggler" in again.err


def test_arrays_several_runs_and_comparisons(desk: Desk) -> None:
    folder = desk.project / "runs"
    array, first, second = fabricated.array(folder), fabricated.preempted(folder), fabricated.failed(folder)
    typed = [("report", array.name), ("report", first.name, second.name), ("report", f"{array.name}/0003")]
    typed += [("report", fabricated.study(folder).name), ("report", fabricated.search(folder).name)]
    typed.append(("report", "--compare", first.name, second.name))
    for words in typed:
        done = desk.type(*words, "-o", "page.html", "--json", **CACHE)
        assert done.code == 0, done.err
        assert done.json["figures"]
    assert done.json["title"] == f"{first.name} and {second.name}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-o", "mine.html"), "exists and is no page of hpclaunch report"),
        (("-o", "no/page.html"), "its folder does not exist"),
        (("-o", "."), "is not a regular file"),
        (("--format", "png"), "needs a folder for figures"),
        (("--figures", "x", "--format", "gif"), "unknown format of figures 'gif'"),
        (("--figures", "mine.html"), "is not a folder"),
        (("--csv", "no/such/folder"), "does not exist"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(desk: Desk, words: tuple[str, ...], message: str) -> None:
    path = fabricated.not_started(desk.project / "runs")
    desk.write("mine.html", "<p>mine</p>")
    before = desk.listing()
    done = desk.type("report", path.name, *words, **CACHE)
    assert done.code in (1, 2)
    assert message in done.err
    assert "next:" in done.err
    assert desk.listing() == before


def test_what_cannot_be_compared(desk: Desk) -> None:
    folder = desk.project / "runs"
    array, run = fabricated.array(folder), fabricated.failed(folder)
    for words, message in (
        (("--compare", run.name, run.name), "needs two different runs"),
        (("--compare", run.name, array.name), "one of these is an array"),
        ((run.name, "--compare", run.name, run.name), "takes its two runs itself"),
        (("--compare", run.name), "--compare needs 2 values"),
    ):
        done = desk.type("report", *words, **CACHE)
        assert done.code == 2
        assert message in done.err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("layout", {"nodes": "two", "tasks_per_node": [4], "cpus_per_task": {}, "gpus_per_node": "4"}),
        ("layout", {"nodes": 1e308, "tasks_per_node": -1, "cpus_per_task": 10**400, "gpus_per_node": None}),
        ("parameters", [["epochs", "\ud800"], [["a"], 1e308]]),
        ("recipe", {"name": "\udc80", "why": ["\ud800"]}),
    ],
)
def test_a_record_with_strange_values_is_drawn(tmp_path: Path, name: str, value: object) -> None:
    path = fabricated.finished(tmp_path)
    (path / "spec.json").write_text(json.dumps({**fabricated.spec(), name: value}))
    assert html_of(page_of(path)).encode()


@pytest.mark.parametrize("losses", [(1e308, -1e308), (1.7e308, 5e-324), ("\ud800", 1.0), (10**400, math.inf)])
def test_losses_at_the_end_of_numbers_are_drawn(tmp_path: Path, losses: tuple[object, object]) -> None:
    path = fabricated.finished(tmp_path)
    epochs = [{**fabricated.epoch(n), "loss": losses[n % 2], "\udfff": losses[n % 2]} for n in range(1, 9)]
    fabricated.write_metrics(path, epochs)
    page = page_of(path)
    assert html_of(page).encode()
    assert all(csv_of(figure).encode() for figure in page.figures)
