"""Shows the article's study as tables and pictures; `hours_to_minutes.py --report` calls it. It measures nothing."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import store
import studies
from hours_to_minutes_cases import ALL_CORES, MODEL, RATES, SAME_BATCH_RANKS, STUDY
from medians import spread
from series import medians_of

from hpclaunch.reports.charts import model_chart, study_chart
from hpclaunch.reports.charts.study_chart import Panel, Series

PICTURE, USE_PICTURE, MODEL_PICTURE = "hours-to-minutes.svg", "hours-to-minutes-use.svg", "chips-model.svg"
RANKS = (1, 2, 4)
ARTICLE = {"shards-1": 1.0, "shards-2": 2.0, "shards-4": 2.0}
"""The article's speed-up over one GPU: 75, 150 and 150 times its run without a GPU, with shards."""
SAME_BATCH = tuple(f"same-batch-{SAME_BATCH_RANKS}-{rule}" for rule in RATES)
DIVIDED = f"shards-{SAME_BATCH_RANKS}"
WORDS = {
    "none": "same batch, same rate",
    "linear": "same batch, rate x ranks",
    "sqrt": "same batch, rate x square root",
    "power23": "same batch, rate x power 2/3",
}
Found = Mapping[str, Sequence[store.Result]]


def report(folder: Path, pictures: Path) -> str:
    """Draw the pictures into a folder, and return the tables as Markdown. Raises SystemExit without results."""
    found = studies.by_case(STUDY, folder)
    if not any(case.startswith("shards") for case in found):
        raise SystemExit(
            f"no results in {store.path_of(STUDY, folder)}: run benchmarks/reference/hours_to_minutes.py first"
        )
    pictures.mkdir(parents=True, exist_ok=True)
    of_training = [speed_panel(found), curves_panel(found, "loss"), curves_panel(found, "val_loss")]
    of_training += [options_panel(found)] if any(case in found for case in SAME_BATCH) else []
    study_chart.draw(of_training, pictures / PICTURE, title=f"The job chips, drawn photographs: {size(found)}")
    study_chart.draw([use_panel(found, "pss_mb"), use_panel(found, "cores")], pictures / USE_PICTURE)
    if MODEL in found:
        draw_model(found[MODEL][0], pictures)
    tables = (times, losses, options, augmentation, saved, use)
    parts = [f"**{table.__doc__}**\n\n{markdown(rows)}" for table in tables if len(rows := table(found)) > 1]
    return "\n\n".join([f"The photographs are drawn (`--synthetic`), not the article's: {size(found)}.", *parts])


def draw_model(model: store.Result, pictures: Path) -> None:
    """Draw the network into a folder."""
    layers = [model_chart.DrawnLayer(**{**one, "shape": tuple(one["shape"])}) for one in model.measured["layers"]]
    title = f"The network of the job chips: {sum(layer.parameters for layer in layers):,} parameters"
    model_chart.draw(layers, pictures / MODEL_PICTURE, title=title)


def size(found: Found) -> str:
    """The size of the runs in words."""
    run = next(results[0] for case, results in found.items() if case.startswith("shards"))
    settings = run.settings
    images = run.measured["training_images"]
    return f"{settings['pixels']} pixels a side, {images} training images, {settings['epochs']} epochs"


def ranked(ranks: int) -> str:
    return "1 rank" if ranks == 1 else f"{ranks} ranks"


def shown(results: Sequence[store.Result], name: str, form: str) -> str:
    """The median of the seeds and their range; empty if a result has no such value."""
    return spread([one.measured[name] for one in results if name in one.measured], form)


def times(found: Found) -> list[list[str]]:
    """Time of training"""
    rows = [["run", "ranks", "images a rank", "seconds", "an epoch (s)", "images/s", "speed-up", "article", "runs"]]
    names = [f"{distribution}-{ranks}" for distribution in ("shards", "generator") for ranks in RANKS]
    for case in [*names, ALL_CORES]:
        if case in found:
            results = found[case]
            ranks = results[0].settings["ranks"]
            batch = results[0].measured["global_batch_size"] // ranks
            cells = [shown(results, name, ".1f") for name in ("seconds", "epoch_s", "images_per_s")]
            published = f"{ARTICLE[case]:g}" if case in ARTICLE else ""
            cells += [shown(results, "speed_up", ".2f"), published, str(len(results))]
            rows.append([case, str(ranks), str(batch), *cells])
    return rows


def losses(found: Found) -> list[list[str]]:
    """Equal loss on every number of ranks: shards have a global batch of 64, the generator 64 images on each rank"""
    every = [(distribution, ranks) for distribution in ("shards", "generator") for ranks in RANKS]
    return accuracies(found, {f"{kind}-{ranks}": f"{kind}, {ranked(ranks)}" for kind, ranks in every})


def options(found: Found) -> list[list[str]]:
    """Options of batch and rate"""
    names = dict(zip(SAME_BATCH, WORDS.values(), strict=True))
    return accuracies(found, {"shards-1": "one rank", DIVIDED: "divided batch, same rate", **names})


def augmentation(found: Found) -> list[list[str]]:
    """Shear and lens distortion"""
    return accuracies(found, {"shards-2": "six versions", "augmented-2": "also sheared and distorted, 0.2 each"})


def accuracies(found: Found, names: Mapping[str, str]) -> list[list[str]]:
    """Losses and accuracies after the last epoch of some cases, with their words."""
    heads = ["run", "global batch", "rate", "training loss", "validation loss", "training accuracy"]
    rows = [[*heads, "validation accuracy", "test accuracy", "runs"]]
    for case, words in names.items():
        if case in found:
            results = found[case]
            cells = [shown(results, name, ".3f") for name in ("loss", "val_loss")]
            cells += [shown(results, name, ".1%") for name in ("accuracy", "val_accuracy", "test_accuracy")]
            batch, rate = (results[0].measured[name] for name in ("global_batch_size", "learning_rate"))
            rows.append([words, str(batch), f"{rate:.3g}", *cells, str(len(results))])
    return rows


def saved(found: Found) -> list[list[str]]:
    """The saved model, read without hpclaunch"""
    rows = [["run", "logged test accuracy", "SavedModel", "Keras file", "runs"]]
    for case, results in found.items():
        if all("saved_model_accuracy" in one.measured for one in results):
            names = ("test_accuracy", "saved_model_accuracy", "keras_file_accuracy")
            rows.append([case, *(shown(results, name, ".1%") for name in names), str(len(results))])
    return rows


def use(found: Found) -> list[list[str]]:
    """Use of memory and cores"""
    rows = [["run", "peak memory of all ranks (MB)", "of one rank (MB)", "cores", "runs"]]
    for case, results in found.items():
        if case.startswith(("shards", "generator")):
            peak = statistics.median(one.measured["peak_pss_mb"] for one in results)
            each = f"{peak / results[0].settings['ranks']:.0f}"
            cells = [shown(results, "peak_pss_mb", ".0f"), each, shown(results, "mean_cores", ".2f")]
            rows.append([case, *cells, str(len(results))])
    return rows


def markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def speed_panel(found: Found) -> Panel:
    """The speed-up of both distributions, and the article's."""
    series = []
    for distribution in ("shards", "generator"):
        values = {str(ranks): speed_ups(found.get(f"{distribution}-{ranks}", ())) for ranks in RANKS}
        known = {ranks: some for ranks, some in values.items() if some}
        if known:
            series.append(medians_of(distribution, list(known), list(known.values())))
    published = [ARTICLE[f"shards-{ranks}"] for ranks in RANKS]
    series.append(Series(label="article, shards on GPUs", x=[str(ranks) for ranks in RANKS], y=published))
    return Panel(title="speed-up over one rank", x_label="ranks", y_label="times one rank", kind="bars", series=series)


def speed_ups(results: Sequence[store.Result]) -> list[float]:
    """Those of all seeds, as far as one rank was measured too."""
    return [one.measured["speed_up"] for one in results if "speed_up" in one.measured]


def curve(results: Sequence[store.Result], name: str, label: str) -> Series:
    """A value over the epochs: median of the seeds with their range."""
    by_epoch = list(zip(*(one.measured["curves"][name] for one in results), strict=True))
    return medians_of(label, list(range(1, len(by_epoch) + 1)), by_epoch)


def curves_panel(found: Found, name: str) -> Panel:
    """The training or validation loss over the epochs, for each number of ranks."""
    series = [curve(found[f"shards-{ranks}"], name, ranked(ranks)) for ranks in RANKS if f"shards-{ranks}" in found]
    if "augmented-2" in found:
        series.append(curve(found["augmented-2"], name, "2 ranks, sheared and distorted"))
    words = {"loss": "training loss", "val_loss": "validation loss"}[name]
    return Panel(title=f"{words}, global batch 64", x_label="epoch", y_label=words, series=series)


def options_panel(found: Found) -> Panel:
    """The training loss over the epochs for each option of batch and rate."""
    names = {DIVIDED: "divided batch, same rate", **dict(zip(SAME_BATCH, WORDS.values(), strict=True))}
    series = [curve(found[case], "loss", words) for case, words in names.items() if case in found]
    title = f"options of batch and rate, {SAME_BATCH_RANKS} ranks"
    return Panel(title=title, x_label="epoch", y_label="training loss", series=series)


def use_panel(found: Found, name: str) -> Panel:
    """The use of memory or cores over time of the first seed's runs."""
    series = []
    for ranks in RANKS:
        if f"shards-{ranks}" in found:
            use = found[f"shards-{ranks}"][0].measured["use"]
            series.append(Series(label=ranked(ranks), x=use["at_s"], y=use[name]))
    words = {"pss_mb": "memory of all ranks (PSS, MB)", "cores": "cores in use"}[name]
    return Panel(title=words, x_label="seconds since the start", y_label=words, series=series)
