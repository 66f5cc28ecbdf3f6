"""Draws every picture that a page of docs/ shows, from the results of the studies and by hpclaunch itself.

    python tools/docs_pictures.py [FOLDER]     FOLDER: docs/pictures, which git ignores

`make docs` calls it. It needs matplotlib (`pip install 'hpclaunch[plot]'`), no network, and some ten seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = ROOT / "benchmarks"
sys.path[:0] = [str(ROOT), str(BENCHMARKS / "reference"), str(BENCHMARKS / "large_batch")]

import critical_batch_report  # noqa: E402
import guidelines_report  # noqa: E402
import hours_to_minutes_report  # noqa: E402
import needs  # noqa: E402
import notebook3_report  # noqa: E402
import parallel_report  # noqa: E402
import report as large_batch_report  # noqa: E402
import results as large_batch_results  # noqa: E402
import rows as large_batch_rows  # noqa: E402
import sharpness_report  # noqa: E402
import store  # noqa: E402
import studies  # noqa: E402
import universes_report  # noqa: E402
from user_folders import of_a_new_user  # noqa: E402

from hpclaunch.cli import main as hpclaunch  # noqa: E402

FOLDER = ROOT / "docs" / "pictures"
PLAN = ("plan", "cosmoflow", "--site", "perlmutter", "--plot")
"""The command of docs/how-to/how-many-nodes.md, without its file."""


def draw(folder: Path) -> None:
    """Draw all pictures into a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    for study in (
        critical_batch_report,
        guidelines_report,
        hours_to_minutes_report,
        notebook3_report,
        parallel_report,
        sharpness_report,
    ):
        study.report(store.RESULTS, folder)
    universes_report.report(studies.current("universes"), folder)
    lines = large_batch_report.lines_of(
        large_batch_results.RESULTS, large_batch_rows.EPOCHS, list(large_batch_rows.SEEDS)
    )
    large_batch_report.plot(lines, folder / "large_batches.svg")
    draw_plan(folder / "plan-cosmoflow.svg")


def draw_plan(path: Path) -> None:
    """Draw the plan of the how-to page, whatever the person who runs this has measured."""
    with of_a_new_user():
        try:
            hpclaunch([*PLAN, str(path)])
        except SystemExit as ended:  # every command ends so; a code of 0 is its success
            if ended.code:
                raise


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help="default: docs/pictures")
    folder = parser.parse_args().folder.resolve()
    needs.matplotlib("docs_pictures.py")
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")):  # the reports' tables
        draw(folder)
    print(f"{len(list(folder.glob('*.svg')))} pictures in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
