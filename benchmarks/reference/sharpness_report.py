"""Shows the sharpness of small- and large-batch networks as a table and a picture; `sharpness.py --report` calls it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import store
import studies
from medians import spread, three_digits
from series import medians_of
from sharpness_cases import LOSS_ABOVE, LOSS_BELOW, STUDY

from hpclaunch.reports.charts.study_chart import Panel, Series, draw

PICTURE = "sharpness.svg"
HEADS = (
    "network",
    "batch",
    "epoch",
    "training loss",
    "training accuracy",
    "test accuracy",
    "gap",
    "largest eigenvalues",
    "seeds",
)
Found = dict[str, list[store.Result]]


def report(folder: Path, pictures: Path) -> str:
    """Draw the picture into a folder, and return the table as Markdown. Raises SystemExit without results."""
    found = studies.by_case(STUDY, folder)
    if not found:
        raise SystemExit(f"no results in {store.path_of(STUDY, folder)}: run benchmarks/reference/sharpness.py first")
    pictures.mkdir(parents=True, exist_ok=True)
    draw([eigenvalues_panel(found), accuracy_panel(found)], pictures / PICTURE)
    rows = [HEADS, ["---"] * len(HEADS), *(cells(case, results) for case, results in found.items())]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def cells(case: str, results: Sequence[store.Result]) -> list[str]:
    """A row of the table: medians of the seeds with their range."""

    def shown(name: str, form: str) -> str:
        return spread([one.measured[name] for one in results], form)

    return [
        label(case, results),
        str(results[0].measured["batch"]),
        shown("epoch", ".0f"),
        shown("training_loss", ".3f"),
        shown("training_accuracy", ".1%"),
        shown("test_accuracy", ".1%"),
        shown("generalization_gap", ".1%"),
        "; ".join(spread(values, three_digits) for values in eigenvalues(results)),
        ", ".join(str(one.seed) for one in results),
    ]


def eigenvalues(results: Sequence[store.Result]) -> list[list[float]]:
    """For every place among the largest eigenvalues, those of all seeds, the largest first."""
    in_order = (sorted(one.measured["eigenvalues"], key=abs, reverse=True) for one in results)
    return [list(values) for values in zip(*in_order, strict=True)]


def label(case: str, results: Sequence[store.Result]) -> str:
    """The name of a case for a reader."""
    batch = results[0].measured["batch"]
    where = {LOSS_ABOVE: ", loss above the large batch's", LOSS_BELOW: ", loss below the large batch's"}
    return f"batch {batch}{where.get(case, '')}"


def eigenvalues_panel(found: Found) -> Panel:
    """The largest eigenvalues, by their place: medians of the seeds with their range."""
    series = []
    for case, results in found.items():
        places = eigenvalues(results)
        series.append(medians_of(label(case, results), list(range(1, len(places) + 1)), places))
    return Panel(
        title="largest eigenvalues of the Hessian",
        x_label="place",
        y_label="eigenvalue of the training loss's Hessian",
        series=series,
        logarithmic="y" if are_positive(value for one in series for value in one.low) else "",
    )


def accuracy_panel(found: Found) -> Panel:
    """Test accuracy against sharpness, a point for every network."""
    series = [
        Series(
            label=label(case, results),
            x=[one.measured["sharpness"] for one in results],
            y=[100 * one.measured["test_accuracy"] for one in results],
            line="",
        )
        for case, results in found.items()
    ]
    return Panel(
        title="test accuracy against sharpness",
        x_label="largest eigenvalue",
        y_label="test accuracy, %",
        series=series,
        logarithmic="x" if are_positive(value for one in series for value in one.x) else "",
    )


def are_positive(eigenvalues: Iterable[float]) -> bool:
    """Whether a logarithmic axis can show them all: beside a minimum the Hessian has negative eigenvalues, too."""
    return all(value > 0 for value in eigenvalues)
