"""The pages of ``report`` in Debian's chromium, opened from a file, without network.

``HPCLAUNCH_PICTURES=write`` stores the pictures again: look at each before you commit it.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.reports.page.comparison_page import comparison_page
from hpclaunch.reports.page.html import LARGEST, html_of
from hpclaunch.reports.page.model import Page
from hpclaunch.reports.page.recorded import read_run
from hpclaunch.reports.page.run_page import run_page
from hpclaunch.reports.page.runs_page import runs_page
from hpclaunch.reports.page.study_page import study_page
from hpclaunch.runs import load, tasks_of
from hpclaunch.runs.scaling_study import load_study
from tests import fabricated_runs as fabricated
from tests.browser import axe, devtools

if devtools.program() is None:
    pytest.skip("group browser: needs chromium (apt install chromium)", allow_module_level=True)
Image = pytest.importorskip("PIL.Image", reason="group browser: needs Pillow, which comes with matplotlib")

PICTURES = Path(__file__).parent / "pictures"
PHONE, DESK = 390, 1440
NAMES = ("finished", "preempted", "failed", "not_started", "hostile", "array", "comparison", "study")
STORED = (
    *(("finished", DESK, False), ("finished", PHONE, True), ("preempted", PHONE, False)),
    *(("failed", DESK, True), ("array", DESK, False), ("comparison", DESK, False), ("study", PHONE, True)),
)
SCALES = {PHONE: 1.0, DESK: 0.6}
"""The size of the stored pictures to that of the page: letters can be read, and the files stay small."""
MOST_DIFFERENT, MOST_ON_AVERAGE = 0.02, 3.0
"""The share of blocks of 4 x 4 pixels that differ by a fifth, and the mean difference of all (of 255)."""
DRAWN = """[...document.querySelectorAll('figure svg')].map(svg => {
  const box = svg.getBoundingClientRect();
  const marks = [...svg.querySelectorAll('path, use, image')].filter(one => one.getBoundingClientRect().width > 0);
  return [Math.round(box.width), Math.round(box.height), marks.length, svg.querySelectorAll('text').length];
})"""


def _page(name: str, folder: Path) -> Page:
    now, version = fabricated.NOW, "1.2.3"
    if name == "array":
        array = load(fabricated.array(folder))
        return runs_page(read_run(array), [read_run(run) for run in tasks_of(array)], now, version)
    if name == "comparison":
        two = [read_run(load(make(folder))) for make in (fabricated.finished, fabricated.preempted)]
        differences = [("--learning-rate", ["0.004", "0.002"]), ("git", ["9be6c0233d27", "1f2e3d4c5b6a"])]
        return comparison_page(two, differences, now, version)
    if name == "study":
        study = load_study(fabricated.study(folder))
        return study_page(study, json.loads((study.path / "results.json").read_text()), now, version)
    return run_page(read_run(load(getattr(fabricated, name)(folder))), now, version)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Page]]:
    """Every page as a file; the folder of its runs has the same name in every test session."""
    folder = tmp_path_factory.mktemp("pages")
    made = {}
    for name in NAMES:
        page = _page(name, folder / name)
        html = html_of(page).replace(str(folder / name), "/home/ada/project/runs")
        assert len(html.encode()) <= LARGEST
        (folder / f"{name}.html").write_text(html, encoding="utf-8")
        made[name] = (folder / f"{name}.html", page)
    return made


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[devtools.Browser]:
    with devtools.browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_drawn_without_a_message_and_without_scrolling_sideways(
    pages: dict[str, tuple[Path, Page]], chromium: devtools.Browser, name: str, width: int
) -> None:
    path, page = pages[name]
    chromium.open(path, width, dark=width == PHONE)
    assert chromium.messages == []
    assert {address for address in chromium.requests if not address.startswith("data:image/png;")} == {path.as_uri()}
    assert chromium.run("document.documentElement.scrollWidth") == width
    drawn = chromium.run(DRAWN)
    assert len(drawn) == len(page.figures)
    assert all(box >= 200 and height >= 60 and marks >= 4 and texts >= 3 for box, height, marks, texts in drawn), drawn


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_axe_finds_nothing_serious(
    pages: dict[str, tuple[Path, Page]], chromium: devtools.Browser, name: str, dark: bool
) -> None:
    script = axe.script()
    chromium.open(pages[name][0], PHONE if dark else DESK, dark=dark)
    chromium.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    chromium.run(script + "; 1")
    found: list[dict[str, Any]] = json.loads(chromium.run("axe.run().then(found => JSON.stringify(found.violations))"))
    bad = [(one["id"], one["impact"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found]
    assert [one for one in bad if one[1] in ("serious", "critical")] == []


def test_the_first_key_leads_to_the_content(pages: dict[str, tuple[Path, Page]], chromium: devtools.Browser) -> None:
    chromium.open(pages["finished"][0], DESK)
    for kind in ("keyDown", "keyUp"):
        chromium.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
    assert chromium.run("document.activeElement.textContent") == "Skip to the content"
    assert chromium.run("document.activeElement.getBoundingClientRect().left") >= 0


def test_dark_and_light_have_their_own_colours(pages: dict[str, tuple[Path, Page]], chromium: devtools.Browser) -> None:
    colours = []
    for dark in (False, True):
        chromium.open(pages["failed"][0], DESK, dark=dark)
        curve = "getComputedStyle(document.querySelector('#figure-loss svg [style*=\"var(--s1)\"]')).stroke"
        colours.append((chromium.run("getComputedStyle(document.body).backgroundColor"), chromium.run(curve)))
    assert colours == [("rgb(255, 255, 255)", "rgb(11, 98, 173)"), ("rgb(13, 17, 23)", "rgb(108, 182, 255)")]


def test_on_paper_the_tables_are_unfolded_and_the_page_is_light(
    pages: dict[str, tuple[Path, Page]], chromium: devtools.Browser
) -> None:
    chromium.open(pages["finished"][0], 800, dark=True, media="print")
    assert chromium.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert chromium.run("document.querySelector('nav').getBoundingClientRect().height") == 0
    hidden = "[...document.querySelectorAll('details table')].filter(one => !one.checkVisibility()).length"
    assert chromium.run(hidden) == 0
    assert chromium.run("document.documentElement.scrollWidth") == 800


@pytest.mark.parametrize(("name", "width", "dark"), STORED)
def test_a_page_looks_like_the_stored_picture(
    pages: dict[str, tuple[Path, Page]], chromium: devtools.Browser, name: str, width: int, dark: bool
) -> None:
    chromium.open(pages[name][0], width, dark=dark)
    shot = Image.open(io.BytesIO(chromium.picture(SCALES[width]))).convert("RGB")
    stored = PICTURES / f"{name}-{width}-{'dark' if dark else 'light'}.png"
    if os.environ.get("HPCLAUNCH_PICTURES") == "write":
        shot.quantize(96).save(stored, optimize=True)
    before = Image.open(stored).convert("RGB")
    assert shot.width == before.width
    assert abs(shot.height - before.height) <= 0.02 * before.height
    different, average = _differences(shot, before)
    assert different <= MOST_DIFFERENT, (different, average)
    assert average <= MOST_ON_AVERAGE, (different, average)


def _differences(first: Any, second: Any) -> tuple[float, float]:
    """Return the share of blocks that differ visibly, and the mean difference."""
    from PIL import ImageChops

    size = (first.width // 4, min(first.height, second.height) // 4)
    box = (0, 0, size[0] * 4, size[1] * 4)
    small = [one.crop(box).convert("L").resize(size, Image.Resampling.BOX) for one in (first, second)]
    counted = ImageChops.difference(*small).histogram()
    total = sum(counted)
    return sum(counted[51:]) / total, sum(value * number for value, number in enumerate(counted)) / total
