"""Shows what the study has found: a table as text, Markdown or JSON, and a plot; medians over seeds, with their range.

images/s are those of the fastest epoch of short runs, `study.py --epochs 2`: all rows one after the other on one
machine, whatever machine the long runs had. A row without three long runs yet says so.

    python benchmarks/large_batch/report.py [--markdown | --json] [--plot FILE.svg]

The plot needs matplotlib (`pip install 'hpclaunch[plot]'`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "reference"))

import needs
import results
from rows import EPOCHS, ROWS, SEEDS, SPEED_EPOCHS, Row

from hpclaunch.core.units import count

HEADS = (
    "row",
    "data",
    "notebook",
    "its scripts here",
    "training accuracy",
    "test accuracy",
    "images/s",
    "memory",
    "runs",
)


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The median of some values, the least and the largest."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> Spread:
        return cls(median=statistics.median(values), low=min(values), high=max(values))


@dataclass(frozen=True, kw_only=True)
class Line:
    """A row with what its runs gave: accuracies in %, images/s of all ranks, memory in GB; empty without runs.

    seeds: of the long runs; timed: the number of the short ones.
    """

    row: Row
    seeds: list[int]
    timed: int
    found: dict[str, Spread]


def lines_of(folder: Path, epochs: int, seeds: list[int]) -> list[Line]:
    """A line for every row, with the results that are there and of the row as it is now."""
    lines, runs, short = [], results.every(folder, epochs), results.every(folder, SPEED_EPOCHS)
    for row in ROWS:
        known, timed = ([run for run in some if run.row == row.name and run.seed in seeds] for some in (runs, short))
        values = {
            "training_accuracy": [100 * run.training_accuracy for run in known],
            "test_accuracy": [100 * run.test_accuracy for run in known],
            "images_per_s": [run.images_per_s for run in timed],
            "peak_pss_gb": [run.peak_pss_mb / 1000 for run in known],
        }
        found = {key: Spread.of(numbers) for key, numbers in values.items() if numbers} if known else {}
        lines.append(Line(row=row, seeds=[run.seed for run in known], timed=len(timed), found=found))
    return lines


def cells(line: Line, seeds: int) -> list[str]:
    """The cells of a table's row, in the order of HEADS."""
    row = line.row

    def given(percent: float | None) -> str:
        return "" if percent is None else f"{percent:g} %"

    def shown(key: str, form: str, unit: str) -> str:
        if key not in line.found:
            return ""
        spread = line.found[key]
        text = f"{spread.median:{form}}{unit}"
        return text if spread.low == spread.high else f"{text} ({spread.low:{form}} to {spread.high:{form}})"

    return [
        f"`{row.name}`: {row.words}",
        "all one rank's" if row.ranks == 1 else "sharded" if row.sharded else "unsharded",
        given(row.published),
        given(row.repeated),
        shown("training_accuracy", ".1f", " %"),
        shown("test_accuracy", ".1f", " %"),
        shown("images_per_s", ".0f", "") + (f"; {count(line.timed, 'run')}" if 0 < line.timed < seeds else ""),
        shown("peak_pss_gb", ".1f", " GB"),
        f"{len(line.seeds)} of {seeds}",
    ]


def markdown(table: list[list[str]]) -> str:
    rows = [list(HEADS), ["---"] * len(HEADS), *table]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def text(table: list[list[str]]) -> str:
    rows = [list(HEADS), *table]
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEADS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def plot(lines: list[Line], path: Path) -> None:
    """Draw medians as bars and ranges as whiskers: accuracies, images/s and memory side by side."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "large_batch"  # the same file for the same results
    from matplotlib import pyplot

    known = [line for line in reversed(lines) if line.found]
    figure, (accuracy, speed, memory) = pyplot.subplots(1, 3, figsize=(12, 5), sharey=True, width_ratios=[3, 1, 1])
    bars(accuracy, known, "training_accuracy", 0.2, "training")
    bars(accuracy, known, "test_accuracy", -0.2, "test")
    for place, line in enumerate(known):
        if line.row.published is not None:
            accuracy.plot(line.row.published, place + 0.2, "k|", markersize=14)
    accuracy.plot([], [], "k|", label="notebook, training")
    accuracy.set(xlabel=f"accuracy after {EPOCHS} epochs, %", xlim=(0, 100), yticks=range(len(known)))
    accuracy.set_yticklabels([line.row.name for line in known])
    accuracy.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)  # over no bar
    bars(speed, known, "images_per_s", 0.0, "")
    speed.set(xlabel="images/s, all ranks")
    bars(memory, known, "peak_pss_gb", 0.0, "")
    memory.set(xlabel="peak memory of all ranks, GB")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def bars(axes: Any, lines: list[Line], key: str, shift: float, label: str) -> None:
    places = [place for place, line in enumerate(lines) if key in line.found]
    spreads = [lines[place].found[key] for place in places]
    axes.barh(
        [place + shift for place in places],
        [spread.median for spread in spreads],
        height=0.4 if shift else 0.6,
        xerr=[[s.median - s.low for s in spreads], [s.high - s.median for s in spreads]],
        capsize=2,
        label=label,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=results.RESULTS)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--plot", type=Path, help="write a plot (.svg, .png, .pdf)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true")
    form.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.plot:
        needs.matplotlib("--plot")
    lines = lines_of(options.results, options.epochs, options.seeds)
    if not any(line.found for line in lines):
        raise SystemExit(f"no results of real images in {options.results}: run benchmarks/large_batch/study.py first")
    if options.json:
        found = {
            line.row.name: {"seeds": line.seeds, **{k: v.__dict__ for k, v in line.found.items()}} for line in lines
        }
        print(json.dumps(found, indent=2))
    else:
        table = [cells(line, len(options.seeds)) for line in lines]
        print(markdown(table) if options.markdown else text(table))
    if options.plot:
        plot(lines, options.plot)
        print(f"wrote {options.plot}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
