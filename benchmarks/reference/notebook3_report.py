"""Shows notebook 3's study as tables and a picture; `notebook3.py --report` calls it. It measures nothing."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import store
import studies
from medians import spread
from notebook3_cases import PUBLISHED, STUDY
from series import medians_of

from hpclaunch.core.units import count
from hpclaunch.reports.charts import study_chart
from hpclaunch.reports.charts.study_chart import Panel

PICTURE = "notebook3.svg"
V100 = {"horovod-1": "66,176 images/s", "horovod-2": "on 8: 486,914 images/s, 91 %"}
Found = Mapping[str, Sequence[store.Result]]


def report(folder: Path, pictures: Path) -> str:
    """Draw the picture into a folder, and return the tables as Markdown. Raises SystemExit without results."""
    found = studies.by_case(STUDY, folder)
    if not found:
        raise SystemExit(f"no results in {store.path_of(STUDY, folder)}: run benchmarks/reference/notebook3.py first")
    pictures.mkdir(parents=True, exist_ok=True)
    panels = [panel for panel in (speed_panel(found), *accuracy_panels(found)) if panel.series]
    if panels:
        study_chart.draw(panels, pictures / PICTURE, title="Notebook 3: strategies on this machine's cores")
    tables = (throughput, convergence, few)
    return "\n\n".join(f"**{table.__doc__}**\n\n{markdown(rows)}" for table in tables if len(rows := table(found)) > 1)


def shown(results: Sequence[store.Result], name: str, form: str) -> str:
    """The median of the seeds and their range."""
    return spread([one.measured[name] for one in results], form)


def middle(results: Sequence[store.Result], name: str) -> float:
    return float(statistics.median(one.measured[name] for one in results))


def throughput(found: Found) -> list[list[str]]:
    """Throughput and scaling efficiency, a core for each replica"""
    heads = ["images", "strategy", "replicas", "processes", "images a replica", "images/s", "scaling efficiency"]
    rows = [[*heads, "cores in use", "memory (MB)", "notebook (V100)", "runs"]]
    for _, results in in_order(found, "time-"):
        settings = results[0].settings
        part = spread([one.measured["efficiency"] for one in results if "efficiency" in one.measured], ".0%")
        cells = [shown(results, name, form) for name, form in (("mean_cores", ".2f"), ("peak_pss_mb", ".0f"))]
        speed = shown(results, "images_per_s", ".0f")
        key = f"{settings['strategy']}-{settings['replicas']}{suffix(results)}"
        rows.append([*names_of(results), speed, part, *cells, V100.get(key, ""), runs(results)])
    return rows


def convergence(found: Found) -> list[list[str]]:
    """Convergence: 8 epochs, Adam 0.001, not scaled"""
    # Without images/s: some of these runs shared the machine with others.
    heads = ["images", "strategy", "replicas", "processes", "images a replica", "steps an epoch", "loss", "accuracy"]
    rows = [[*heads, "test accuracy", "notebook (V100)", "runs"]]
    for case, results in in_order(found, "learn-"):
        cells = [shown(results, name, ".4f") for name in ("loss", "accuracy", "test_accuracy")]
        steps = str(results[0].measured["steps_per_epoch"])
        told = PUBLISHED.get(case)
        published = f"loss {told['loss']}, accuracy {told['accuracy']}" if told else ""
        rows.append([*names_of(results), steps, *cells, published, runs(results)])
    return rows


def few(found: Found) -> list[list[str]]:
    """Mirrored in float16 and float32, with few images"""
    rows = [["run", "images/s", "loss", "accuracy", "test accuracy", "runs"]]
    for case, results in in_order(found, "few-"):
        forms = (("images_per_s", ".1f"), ("loss", ".4f"), ("accuracy", ".4f"), ("test_accuracy", ".4f"))
        rows.append([case.removeprefix("few-"), *(shown(results, name, form) for name, form in forms), runs(results)])
    return rows


def in_order(found: Found, kind: str) -> list[tuple[str, Sequence[store.Result]]]:
    """The cases of one kind: MNIST before Fashion-MNIST, few replicas before many."""
    cases = [(case, results) for case, results in found.items() if case.startswith(kind)]
    return sorted(cases, key=lambda one: (suffix(one[1]), one[1][0].settings["replicas"], one[0]))


def data_of(results: Sequence[store.Result]) -> str:
    """The data set of a run."""
    switches = results[0].settings["switches"]
    return next(str(one).partition("=")[2] for one in switches if str(one).startswith("--dataset="))


def suffix(results: Sequence[store.Result]) -> str:
    """What the data set adds to the name of a case."""
    data = data_of(results)
    return "" if data == "mnist" else f"-{data}"


def names_of(results: Sequence[store.Result]) -> list[str]:
    """Data, strategy, replicas, processes and images a replica of a run."""
    settings = results[0].settings
    alone = settings["strategy"] in ("mirrored", "central-storage", "one-device")
    processes = 1 if alone else settings["replicas"]
    return [
        data_of(results).replace("_", "-"),
        settings["strategy"],
        *map(str, (settings["replicas"], processes, settings["batch_size_per_replica"])),
    ]


def runs(results: Sequence[store.Result]) -> str:
    return str(len(results))


def speed_panel(found: Found) -> Panel:
    """Images/s of MNIST with one and two cores, as bars."""
    series = []
    for replicas in (1, 2):
        cases = [
            (results[0].settings["strategy"], results)
            for _, results in in_order(found, "time-")
            if results[0].settings["replicas"] == replicas and not suffix(results)
        ]
        values = [[one.measured["images_per_s"] for one in results] for _, results in cases]
        if cases:
            names = [name.replace("-", "\n") for name, _ in cases]
            series.append(medians_of(count(replicas, "replica"), names, values))
    return Panel(title="MNIST, a core for each replica", x_label="", y_label="images/s", series=series, kind="bars")


def accuracy_panels(found: Found) -> list[Panel]:
    """The training accuracy after every epoch of the notebook's rows, MNIST and Fashion-MNIST."""
    panels = []
    for data, title in (("mnist", "MNIST"), ("fashion_mnist", "Fashion-MNIST")):
        series = []
        for _, results in in_order(found, "learn-"):
            if data_of(results) == data:
                curves = list(zip(*(one.measured["curves"]["accuracy"] for one in results), strict=True))
                _, strategy, replicas, _, batch = names_of(results)
                label = f"{strategy}, {replicas} x {batch}"
                series.append(medians_of(label, list(range(1, len(curves) + 1)), curves))
        published = {case: told["accuracy"] for case, told in PUBLISHED.items() if data == "mnist" and case in found}
        marks = [(f"notebook: {case.removeprefix('learn-')}", value) for case, value in published.items()]
        panels.append(
            Panel(title=f"{title}, 8 epochs", x_label="epoch", y_label="training accuracy", series=series, marks=marks)
        )
    return panels


def markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
