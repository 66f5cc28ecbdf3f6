"""Compares what trained networks answer for the held-out universes with the true values, as a table and a picture.

python report.py RUN... [--picture FILE.png] [--json]; RUN is a run directory of the job cosmoflow, or that of a sweep.
It needs no TensorFlow; the picture needs matplotlib.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
from typing import Any, Dict, List

Answers = Dict[str, Any]
FILE = "answers.json"
HEAD = ("parameter", "mean absolute error", "always the mean", "ratio")


class Refused(Exception):
    """A folder that has no answers, or a picture that cannot be drawn, with the next step."""


def runs_of(folders: list[str]) -> list[str]:
    """The run directories among `folders`: themselves, or the runs of a sweep below them. Raises Refused."""
    found: List[str] = []
    for folder in folders:
        if os.path.exists(os.path.join(folder, FILE)):
            found.append(folder)
            continue
        inner = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        below = [os.path.join(folder, name) for name in inner if os.path.exists(os.path.join(folder, name, FILE))]
        if not below:
            raise Refused(
                "{}: neither this folder nor one in it has {}\n  next: name the directory of a run of cosmoflow "
                "that has ended (hpclaunch status shows it)".format(folder, FILE)
            )
        found += below
    return found


def read(run: str) -> Answers:
    """The answers of a run, and with them its seed, epochs and training volumes, if its metrics.jsonl has them."""
    path = os.path.join(run, FILE)
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        if not (found["targets"] and found["true"] and len(found["true"]) == len(found["answered"])):
            raise KeyError("rows")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refused("{}: no answers of cosmoflow ({})".format(path, error)) from None
    return {**found, "run": run, **_about(os.path.join(run, "metrics.jsonl"))}


def errors(answers: Answers) -> list[dict[str, Any]]:
    """A row for each parameter: its mean absolute error, and that of always answering the mean, in its own unit.

    The mean is that of the true values of the same volumes, which no network knows: the comparison favours it.
    """
    rows = []
    for place, target in enumerate(answers["targets"]):
        half = (target["high"] - target["low"]) / 2
        true = [row[place] for row in answers["true"]]
        answered = [row[place] for row in answers["answered"]]
        mean = math.fsum(true) / len(true)
        error = half * math.fsum(abs(a - b) for a, b in zip(true, answered)) / len(true)
        constant = half * math.fsum(abs(a - mean) for a in true) / len(true)
        rows.append({"parameter": target["name"], "error": error, "always_the_mean": constant})
    return rows


def summary(every: list[Answers]) -> dict[str, Any]:
    """The median over the runs for each parameter, and what each run has."""
    each = [errors(answers) for answers in every]
    rows = []
    for place, first in enumerate(each[0]):
        ratios = [run[place]["error"] / run[place]["always_the_mean"] for run in each]
        row = {key: statistics.median(run[place][key] for run in each) for key in ("error", "always_the_mean")}
        rows.append({"parameter": first["parameter"], **row, "ratio": statistics.median(ratios), "ratios": ratios})
    told = ("seed", "epochs", "train_samples", "world_size")
    runs = [{"held_out": len(one["true"]), **{name: one[name] for name in told if name in one}} for one in every]
    return {"parameters": rows, "runs": runs}


def table(found: dict[str, Any]) -> str:
    """The summary as text: a line for each parameter, below them a line for each run."""
    lines = [HEAD] + [
        (row["parameter"], *("{:.4g}".format(row[name]) for name in ("error", "always_the_mean")), _ratios(row))
        for row in found["parameters"]
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    text = ["  ".join(word.ljust(width) for word, width in zip(line, widths)).rstrip() for line in lines]
    for run in found["runs"]:
        text.append("run: " + ", ".join("{} {}".format(name.replace("_", " "), run[name]) for name in run))
    return "\n".join(text)


def draw(every: list[Answers], path: str) -> None:
    """A panel for each parameter: the answers over the true values, in its own unit, a colour for each run."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        raise Refused(
            "the picture needs matplotlib\n  next: {} -m pip install matplotlib".format(sys.executable)
        ) from None
    targets = every[0]["targets"]
    figure, panels = pyplot.subplots(1, len(targets), figsize=(4 * len(targets), 4), layout="constrained")
    for place, (target, panel) in enumerate(zip(targets, panels)):
        low, high = target["low"], target["high"]
        for number, answers in enumerate(every):
            columns = [[row[place] for row in answers[name]] for name in ("true", "answered")]
            true, answered = [[low + (value + 1) * (high - low) / 2 for value in column] for column in columns]
            panel.plot(true, answered, ".", markersize=3, label="seed {}".format(answers.get("seed", number)))
        panel.plot([low, high], [low, high], color="black", linewidth=0.8)
        panel.set(title=target["name"], xlabel="true", ylabel="answered", xlim=(low, high))
    panels[0].legend(fontsize="small")
    figure.savefig(path, dpi=100)


def _ratios(row: dict[str, Any]) -> str:
    ratio = "{:.2f}".format(row["ratio"])
    several = len(row["ratios"]) > 1
    return ratio + (" (runs: {})".format(" ".join("{:.2f}".format(one) for one in row["ratios"])) if several else "")


def _about(path: str) -> dict[str, Any]:
    found: Dict[str, Any] = {}
    try:
        with open(path, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        for line in lines:
            if line.get("event") == "start":
                found = {"seed": line["options"]["seed"], "epochs": line["options"]["epochs"]}
                found.update(train_samples=line["data"]["samples"]["train"], world_size=line["world_size"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # a copy of the answers alone
    return found


def main() -> None:
    """Print the table or its values as JSON, and draw the picture if one is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--picture", metavar="FILE", help="draw the answers over the true values")
    parser.add_argument("--json", action="store_true", help="print the values as JSON")
    typed = parser.parse_args()
    every = [read(run) for run in runs_of(typed.runs)]
    if any(one["targets"] != every[0]["targets"] for one in every):
        raise Refused("these runs predict different parameters, or the same in different ranges")
    found = summary(every)
    print(json.dumps(found, indent=1) if typed.json else table(found))
    if typed.picture:
        draw(every, typed.picture)


if __name__ == "__main__":
    try:
        main()
    except (Refused, OSError) as fault:
        sys.exit("report: {}".format(fault))
