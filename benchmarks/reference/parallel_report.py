"""Shows the study of parallel training as tables and one picture, beside what the article's text reports."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import store
import studies
from medians import spread
from parallel_cases import BATCHES, EPOCHS, EQUAL, SCALED_RANKS, STUDY, SWEEP, Case
from series import medians_of

from hpclaunch.reports.charts.study_chart import Panel, Series, draw

PICTURE = "parallel_training.svg"
ARTICLE_S = {EQUAL[0]: 73, EQUAL[-1]: 443}
"""The seconds in the article's text: one process, and four ranks at the same global batch of 32."""
ARTICLE_TIMES = "nearly 8"
"""How many times as long batch 8 takes as batch 512, in its words."""
CONSTANT, SCALED = SWEEP[: len(BATCHES)], SWEEP[len(BATCHES) :]

Runs = dict[str, list[store.Result]]


def report(folder: Path, pictures: Path) -> str:
    """Draw the picture into a folder; the three tables as Markdown. Raises SystemExit without runs."""
    runs = runs_of(folder)
    pictures.mkdir(parents=True, exist_ok=True)
    draw(panels_of(runs), pictures / PICTURE)
    return tables(runs)


def runs_of(folder: Path) -> Runs:
    """The finished runs, by case. Raises SystemExit without any."""
    runs = studies.by_case(STUDY, folder)
    if not runs:
        raise SystemExit(
            f"no runs in {store.path_of(STUDY, folder)}: run benchmarks/reference/parallel_training.py first"
        )
    return runs


def tables(runs: Runs) -> str:
    return "\n\n".join([sweep_table(runs), equal_table(runs), ranks_table(runs)])


def values(runs: Runs, case: Case, name: str) -> list[float]:
    """A figure of all seeds of a case, as far as they have it."""
    return [one.measured[name] for one in runs.get(case.name, []) if name in one.measured]


def test_accuracy(runs: Runs, case: Case) -> str:
    """The test accuracy, and how many runs have diverged, which have none."""
    diverged = sum(map(int, values(runs, case, "diverged")))
    parts = [spread(values(runs, case, "test_accuracy"), ".1%"), f"{diverged} diverged" if diverged else ""]
    return "; ".join(filter(None, parts))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def ratio(runs: Runs, case: Case, base: Case, name: str = "seconds") -> str:
    """How many times a case's median is that of another; empty if one of them is missing."""
    mine, other = values(runs, case, name), values(runs, base, name)
    return f"{statistics.median(mine) / statistics.median(other):.2g}" if mine and other else ""


def sweep_table(runs: Runs) -> str:
    """Time and accuracy by batch size, at both rates."""
    heads = ("batch", "steps", "seconds of one core", "times batch 512", "article", "test accuracy, rate 0.001")
    heads += ("training loss, rate 0.001", "test accuracy, scaled rate", "training loss, scaled rate")
    rows = []
    for constant, scaled in zip(CONSTANT, SCALED, strict=True):
        row = [str(constant.batch), f"{EPOCHS * constant.steps:,}", spread(values(runs, constant, "seconds"), ".0f")]
        row += [ratio(runs, constant, CONSTANT[-1]), ARTICLE_TIMES if constant is CONSTANT[0] else ""]
        for case in (constant, scaled):
            row += [test_accuracy(runs, case), spread(values(runs, case, "training_loss"), ".3f")]
        rows.append(row)
    return table(heads, rows)


def equal_table(runs: Runs) -> str:
    """One process against several ranks with the same global batch."""
    heads = ("ranks x samples", "seconds", "times one process", "article", "all-reduce, ms", "step, ms", "share")
    heads += ("training loss", "test accuracy")
    one, most = ARTICLE_S.values()
    article = {EQUAL[0]: f"{one} s", EQUAL[-1]: f"{most} s, {most / one:.1f} times"}
    rows = []
    for case in EQUAL:
        times = {name: [1e3 * value for value in values(runs, case, name)] for name in ("all_reduce_s", "step_s")}
        row = [f"{case.ranks} x {case.per_rank}", spread(values(runs, case, "seconds"), ".0f")]
        row += [ratio(runs, case, EQUAL[0]), article.get(case, "")]
        row += [spread(times["all_reduce_s"], ".2f"), spread(times["step_s"], ".2f")]
        row += [spread(values(runs, case, "communication_share"), ".0%")]
        row += [spread(values(runs, case, "training_loss"), ".3f"), test_accuracy(runs, case)]
        rows.append(row)
    return table(heads, rows)


def ranks_table(runs: Runs) -> str:
    """Four ranks with a rate that grows with their global batch."""
    heads = ("ranks x samples", "global batch", "rate", "seconds", "training loss", "test accuracy")
    rows = []
    for case in SCALED_RANKS:
        row = [f"{case.ranks} x {case.per_rank}", str(case.batch), f"{case.learning_rate:g}"]
        row += [spread(values(runs, case, "seconds"), ".0f"), spread(values(runs, case, "training_loss"), ".3f")]
        rows.append([*row, test_accuracy(runs, case)])
    return table(heads, rows)


def panels_of(runs: Runs) -> list[Panel]:
    """The article's pictures in its order, as far as there are runs."""
    both = {"rate 0.001": CONSTANT, "rate grows with the batch": SCALED}
    time_of_batch = bars(runs, "seconds", {"rate 0.001": CONSTANT}, batch_of)
    panels = [
        Panel(
            title="ten epochs on one core", x_label="batch size", y_label="seconds", series=time_of_batch, kind="bars"
        ),
        accuracy_panel("one process", "batch size", bars(runs, "test_accuracy", both, batch_of)),
        loss_panel("one process, rate 0.001", curves(runs, CONSTANT, batch_of)),
        loss_panel("one process, rate grows with the batch", curves(runs, SCALED, batch_of)),
        loss_panel("a global batch of 32, rate 0.001", curves(runs, EQUAL, shape_of)),
        Panel(
            title="the same: ten epochs on this machine",
            x_label="ranks x samples per rank",
            y_label="seconds",
            series=beside_the_article(bars(runs, "seconds", {"here": EQUAL}, shape_of)),
            kind="bars",
        ),
        loss_panel("four ranks, rate grows with the batch", curves(runs, SCALED_RANKS, shape_of)),
        accuracy_panel("the same", "ranks x samples", bars(runs, "test_accuracy", {"here": SCALED_RANKS}, shape_of)),
    ]
    return [panel for panel in panels if panel.series]


def beside_the_article(measured: list[Series]) -> list[Series]:
    """The times of this study and those of the article's text; nothing without a run of this study."""
    published = Series(label="article", x=[shape_of(case) for case in ARTICLE_S], y=list(ARTICLE_S.values()))
    return [*measured, published] if measured else []


def batch_of(case: Case) -> str:
    return str(case.per_rank)


def shape_of(case: Case) -> str:
    return f"{case.ranks} x {case.per_rank}"


def loss_panel(title: str, series: Sequence[Series]) -> Panel:
    return Panel(title=title, x_label="epoch", y_label="training loss", series=series)


def accuracy_panel(title: str, x_label: str, series: Sequence[Series]) -> Panel:
    return Panel(title=title, x_label=x_label, y_label="test accuracy", series=series, kind="bars")


def curves(runs: Runs, cases: Sequence[Case], label: Callable[[Case], str]) -> list[Series]:
    """The training loss by epoch: the median of the seeds, and their range."""
    series = []
    for case in cases:
        # A run that has diverged has fewer epochs than the others; the tables count it, even if it has none.
        known = [one.measured["loss"] for one in runs.get(case.name, []) if one.measured["loss"]]
        by_epoch = list(zip(*known, strict=False))
        if by_epoch:
            series.append(medians_of(label(case), [epoch + 1 for epoch in range(len(by_epoch))], by_epoch))
    return series


def bars(runs: Runs, name: str, groups: Mapping[str, Sequence[Case]], place: Callable[[Case], str]) -> list[Series]:
    """A figure by case: the median of the seeds, and their range; bars of one colour for every group."""
    series = []
    for label, cases in groups.items():
        found = {place(case): values(runs, case, name) for case in cases}
        known = {where: figures for where, figures in found.items() if figures}
        if known:
            series.append(medians_of(label, list(known), list(known.values())))
    return series
