"""Writes a scaling study as CSV, and as the paragraph and table of an allocation proposal; only measured figures.

All functions take results as ``hpclaunch scale --json`` has them (docs/scaling.md).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from hpclaunch.core.units import count
from hpclaunch.core.version import __version__

MILLI = 1e3
COLUMNS = (
    *("nodes", "ranks", "batch_per_rank", "accumulation", "global_batch", "repeats"),
    *("samples_per_s", "samples_per_s_low", "samples_per_s_high", "deviation"),
    *("speed_up", "speed_up_low", "speed_up_high", "efficiency", "step_s"),
    *("compute_s", "communication_s", "waiting_s", "input_s"),
    *("predicted", "predicted_low", "predicted_high", "prediction_error", "cost_of_epoch", "unit", "verdict"),
)


def csv_text(results: Mapping[str, Any]) -> str:
    """Return one line for every layout; unknown values are empty."""
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in results["rows"]:
        writer.writerow({**row, **(row["split"] or {}), "repeats": len(row["rates"])})
    return file.getvalue()


def markdown_text(results: Mapping[str, Any]) -> str:
    """Return the paragraph and the table in Markdown."""
    header, rows = proposal_table(results)
    lines = [_line(header), _line(["--:"] * len(header)), *map(_line, rows)]
    return f"## {_title(results)}\n\n{paragraph(results)}\n\n" + "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def latex_text(results: Mapping[str, Any]) -> str:
    """Return the paragraph and the table in LaTeX, which needs no package."""
    header, rows = proposal_table(results)
    body = "".join(f"    {' & '.join(map(_latex, row))} \\\\\n" for row in rows)
    return (
        f"\\paragraph{{{_latex(_title(results))}}} {_latex(paragraph(results))}\n\n"
        "\\begin{table}[htb]\n  \\centering\n"
        f"  \\caption{{{_latex(_title(results))}}}\n"
        f"  \\begin{{tabular}}{{{'r' * len(header)}}}\n    \\hline\n"
        f"    {' & '.join(map(_latex, header))} \\\\\n    \\hline\n{body}    \\hline\n"
        "  \\end{tabular}\n\\end{table}\n"
    )


_LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text)


def proposal_table(results: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return header and cells of the measured layouts; columns that nothing was measured for are left out."""
    measured = [row for row in results["rows"] if row["samples_per_s"] is not None]
    unit = next((row["unit"] for row in measured if row["cost_of_epoch"] is not None), "")
    columns: list[tuple[str, list[str]]] = [
        ("nodes", [str(row["nodes"]) for row in measured]),
        ("ranks", [str(row["ranks"]) for row in measured]),
        ("batch per rank", [_batch(row) for row in measured]),
        ("samples/s", [_rate(row) for row in measured]),
        ("speed-up", [_number(row["speed_up"], ".2f") for row in measured]),
        ("efficiency", [_number(row["efficiency"], ".0%") for row in measured]),
        ("step (ms)", [f"{MILLI * row['step_s']:.3g}" for row in measured]),
    ]
    for name, title in (
        ("compute_s", "compute (ms)"),
        ("communication_s", "communication (ms)"),
        ("waiting_s", "slowest rank (ms)"),
        ("input_s", "input (ms)"),
    ):
        columns.append(
            (title, [_number(MILLI * row["split"][name], ".3g") if row["split"] else "" for row in measured])
        )
    columns.append((f"{unit}s per epoch", [_number(row["cost_of_epoch"], ".3g") for row in measured]))
    kept = [(title, cells) for title, cells in columns if any(cells)]
    return [title for title, _ in kept], [list(cells) for cells in zip(*(cells for _, cells in kept), strict=True)]


def _batch(row: Mapping[str, Any]) -> str:
    return f"{row['batch_per_rank']}" + (f" x {row['accumulation']}" if row["accumulation"] > 1 else "")


def _rate(row: Mapping[str, Any]) -> str:
    spread = row["deviation"]
    rate = f"{row['samples_per_s']:.4g}"
    return rate if spread is None else f"{rate} ± {spread * row['samples_per_s']:.2g}"


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _title(results: Mapping[str, Any]) -> str:
    study = results["study"]
    return f"{study['mode'].capitalize()} scaling of {study['job']} at {study['site']}"


def paragraph(results: Mapping[str, Any]) -> str:
    """Return machine, job, date, method, uncertainties and the main figures, in sentences."""
    measured = [row for row in results["rows"] if row["samples_per_s"] is not None]
    if not measured:
        return "Nothing has been measured yet."
    return " ".join([*_method(results, measured), *_figures(results, measured)])


def _method(results: Mapping[str, Any], measured: Sequence[Mapping[str, Any]]) -> list[str]:
    study = results["study"]
    nodes = _enumerate([str(number) for number in sorted({row["nodes"] for row in measured})])
    where = f"{study['site']} (node type {study['node_type']}; a rank computes on: {study['device']})"
    kept = f"The global batch of {study['batch']} samples was the same in all layouts."
    if study["mode"] == "weak":
        kept = f"The batch of {study['batch']} samples per rank was the same in all layouts."
    repeats = sorted({len(row["rates"]) for row in measured})
    times = f"{repeats[0]} to {repeats[-1]} times" if len(repeats) > 1 else f"{repeats[0]} times"
    times = "once" if repeats[-1] == 1 else times
    spread = "± is the standard deviation over the runs."
    if repeats[-1] == 1:
        spread = "Each layout was measured once, so the spread between runs is not known."
    data = " The samples were made up, so reading them from the file system is not part of the figures."
    begun = f"in a study begun on {study['created'][:10]}, with hpclaunch {__version__}."
    first = f"The training {study['job']} was measured on {nodes} {'node' if nodes == '1' else 'nodes'} of {where},"
    length = f"in epochs of at most {count(study['steps'], 'step')}; the first epoch of a run does not count."
    speed = "The speed of a run is the median over its other epochs, and that of a layout the median over its runs."
    made_up = data if results.get("synthetic") else ""
    many = len(results.get("disturbed", ()))
    varied = f" In {count(many, 'run')} the epochs differed by more than 25 % in speed." if many else ""
    return [f"{first} {begun}", f"{kept} Every layout ran {times}, {length}", f"{speed} {spread}{varied}{made_up}"]


def _figures(results: Mapping[str, Any], measured: Sequence[Mapping[str, Any]]) -> list[str]:
    alone = next((row for row in measured if row["ranks"] == 1), None)
    widest = max(measured, key=lambda row: (row["ranks"], row["nodes"]))
    if alone is None or widest is alone:
        return [f"{_layout(row)} trains {_rate(row)} samples/s." for row in measured]
    between = "" if widest["speed_up_low"] == widest["speed_up_high"] else _range_of(widest)
    rates = f"One process trains {_rate(alone)} samples/s, and {_layout(widest)} train {_rate(widest)} samples/s:"
    gained = f"a speed-up of {widest['speed_up']:.2f}{between}, and an efficiency of {widest['efficiency']:.0%}."
    found = [f"{rates} {gained}"]
    if widest["split"]:
        found.append(_parts(widest))
    if widest["cost_of_epoch"] is not None and alone["cost_of_epoch"] is not None:
        found.append(
            f"An epoch of {results['study']['samples']} samples at this speed is charged "
            f"{widest['cost_of_epoch']:.3g} {widest['unit']}s, and {alone['cost_of_epoch']:.3g} with one process."
        )
    return found


def _range_of(row: Mapping[str, Any]) -> str:
    return f" ({row['speed_up_low']:.2f} to {row['speed_up_high']:.2f} over all pairs of runs)"


def _layout(row: Mapping[str, Any]) -> str:
    return "one process" if row["ranks"] == 1 else f"{row['ranks']} ranks on {count(row['nodes'], 'node')}"


def _parts(row: Mapping[str, Any]) -> str:
    split, step = row["split"], sum(row["split"].values())
    named = {
        "computing": split["compute_s"],
        "communication": split["communication_s"],
        "waiting for the slowest rank": split["waiting_s"],
        "waiting for input": split["input_s"],
    }
    shares = [f"{seconds / step:.0%} {name}" for name, seconds in named.items()] if step else []
    return f"Its step of {MILLI * step:.3g} ms consists of {_enumerate(shares)}." if shares else ""


def _enumerate(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
