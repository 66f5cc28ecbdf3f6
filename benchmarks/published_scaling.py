"""Predictions against published throughputs and epochs; needs no cluster and takes a few seconds.

    python benchmarks/published_scaling.py [--json]

1. Plans from defaults alone, against what notebooks and MLPerf logs published, and what was measured on one H200
   (`hpclaunch plan` itself).
2. Scaling: T1 and T3 are calibrated on their two smallest sizes, all other series on the smallest alone if they have
   two sizes and on two otherwise; then every larger size is predicted (in T1 and T3, from 8 nodes on), beside the
   straight line through the same two sizes.
3. The same series and those of PyTorch, calibrated on one node alone.
4. Epochs: the Pareto law, leaving out one CosmoFlow system at a time.

No constant is chosen for a single row. `CHOSEN` says in sight of which tables constants were chosen. Ends with 1 if a
bar does not hold.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import published_tables as tables
from published_tables import Series, Unmeasured

from hpclaunch.actions.measuring.plan import plan_job
from hpclaunch.actions.system import System
from hpclaunch.core.spec import Request
from hpclaunch.guidelines.calibration import Measured, calibrate
from hpclaunch.guidelines.choice import Objective
from hpclaunch.guidelines.efficiency import fit_pareto
from hpclaunch.guidelines.expected_timing import NOTHING, Prior, default_timing
from hpclaunch.guidelines.hardware import Compute
from hpclaunch.guidelines.intervals import spread
from hpclaunch.guidelines.reasoning import Reason
from hpclaunch.guidelines.throughput import Shape, throughput

ONE_MEDIAN, ONE_MEAN = 0.06, 0.10
T13_MEDIAN, T13_MEAN, REST_MEDIAN, REST_MEAN, EPOCHS_BAR = 0.03, 0.06, 0.06, 0.09, 0.06
COVERED = (0.75, 0.90)
MOST_OFF, INSIDE, H200_OFF = 2.0, 0.8, 1.5
SMALLEST_NODES = 8
CHOSEN = (
    "share of a GPU's peak, sweeps of its memory: 20 published single-GPU throughputs, in none of these tables",
    "bandwidth of an all-reduce (Horovod: 0.1 of a fast network, 0.85 of a slow one), its spread: T1, T3, T7",
    "NCCL of PyTorch: 0.7 of a fast network: nccl-tests, then checked on MPT, Transformer-XL and DLPerf",
    "PyTorch's launches, hidden by the GPU's work: in sight of ResNet-50 on an H200 (part 1)",
    "0.3 ms of NCCL: in sight of DLPerf and Transformer-XL",
    "1 ms + 10 us per operation: notebooks 3 and 4; Horovod's 3 ms: in sight of the rows of part 1",
    "60 MB/s decoded by a core: in sight of CosmoFlow on Cori GPU and Perlmutter (part 1); 2 GB/s read by a node: none",
    "decoders (guidelines.layouts), share of the peak: in sight of MPT (part 1) and of GPT on an H200",
    "decoders, tensor parallelism: in sight of Korthikanti et al. 2022; an MI250X: in sight of Dash et al. 2023",
    "30 % of error of a step that was not measured: in sight of notebooks 3 and 4",
    "slow-down on several nodes (median 5 %, a factor of e): in sight of T1, T3 and EfficientNet",
    "3 % of error of the model, 3 % for every doubling beyond what was measured: in sight of all rows of part 2",
    "30 % of the slow-down for every doubling: profile_accuracy.py (docs/measurements.md), then checked on all rows",
    "2 % variation of a rank's steps, and all factors of 2: hpclaunch's own, in sight of none",
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One prediction; errors are relative to what was measured. ``line_error``: None without a straight line."""

    table: str
    name: str
    ranks: int
    measured: float
    predicted: float
    low: float
    high: float
    error: float
    line_error: float | None
    covered: bool


def predictions(series: Series) -> list[Row]:
    """Predict the sizes of a series that it is not calibrated on; in T1 and T3 those of 8 nodes and more."""
    known = series.calibrating
    later = range(known, len(series.ranks))
    if series.table in ("T1", "T3"):
        later = [index for index in later if series.shape(index).nodes >= SMALLEST_NODES]
    rows = _rows(series, range(known), later)
    return rows if known > 1 else [replace(row, line_error=None) for row in rows]


def from_one_node(series: Series) -> list[Row]:
    """Predict the sizes of several nodes from the largest of one node."""
    one = series.on_one_node
    return _rows(series, [one], range(one + 1, len(series.ranks)))


def _rows(series: Series, known: Sequence[int], later: Sequence[int]) -> list[Row]:
    load = tables.work(series.parameters)
    prior = replace(NOTHING, joining_s=series.machine.links.library.joining_s)
    points = [Measured(shape=series.shape(index), samples_per_s=series.measured[index]) for index in known]
    timing = calibrate(points, load, series.machine, prior)
    rows = []
    for index in later:
        shape, measured = series.shape(index), series.measured[index]
        found = throughput(shape, load, series.machine, timing).samples_per_s
        rows.append(
            Row(
                table=series.table,
                name=series.name,
                ranks=series.ranks[index],
                measured=measured,
                predicted=found.middle,
                low=found.low,
                high=found.high,
                error=found.middle / measured - 1,
                line_error=line_through(series, index, known) / measured - 1,
                covered=found.low <= measured <= found.high,
            )
        )
    return rows


def line_through(series: Series, index: int, known: Sequence[int]) -> float:
    """Return the straight line through the known sizes, or through nothing and the only one."""
    (small, low), (large, high) = ((0, 0.0), *((series.ranks[one], series.measured[one]) for one in known))[-2:]
    return low + (high - low) / (large - small) * (series.ranks[index] - small)


@dataclass(frozen=True, kw_only=True)
class Guess:
    """A plan from defaults alone, against one published rate: the worst factor between them is ``off``."""

    name: str
    published: float
    predicted: float
    low: float
    high: float
    off: float
    covered: bool


def guesses() -> list[Guess]:
    """Predict the published rates of the bundled jobs with `hpclaunch plan`, from defaults alone."""
    with tempfile.TemporaryDirectory() as folder:
        sites = Path(folder) / "site_configs"
        sites.mkdir()
        (sites / "dgx1.yaml").write_text(tables.DGX_1_SITE)
        (sites / "a100.yaml").write_text(tables.A100_SITE)
        (sites / "h100.yaml").write_text(tables.H100_SITE)
        (sites / "h200.yaml").write_text(tables.H200_SITE)
        job = Path(folder) / "jobs" / "h200-resnet50"
        job.mkdir(parents=True)
        (job / "job.yaml").write_text(tables.H200_JOB)
        (job / "train.py").touch()
        environment = {"HOME": folder, "SCRATCH": folder, "PATH": ""}
        system = System(cwd=Path(folder), environment=environment)
        return [
            guess for row in (*tables.UNMEASURED, *tables.DECODERS, *tables.H200) for guess in _guesses_of(row, system)
        ]


def _guesses_of(row: Unmeasured, system: System) -> list[Guess]:
    request = Request(
        target=row.job,
        site=row.site,
        node_type=row.node_type,
        nodes=row.nodes,
        gpus_per_node=row.gpus,
        tasks_per_node=row.gpus,
        accept_unverified=True,
        settings=(
            ("batch_size_per_rank", str(row.per_rank)),
            ("precision", row.precision),
            *((name, str(value)) for name, value in row.settings),
        ),
    )
    chosen = plan_job(system, request, Objective()).chosen
    assert chosen is not None and chosen.throughput is not None
    found = chosen.throughput.samples_per_s
    return [
        Guess(
            name=row.name,
            published=rate,
            predicted=found.middle,
            low=found.low,
            high=found.high,
            off=max(found.middle / rate, rate / found.middle),
            covered=found.low <= rate <= found.high,
        )
        for rate in row.rates
    ]


def summary(rows: Sequence[Row]) -> dict[str, float]:
    """Median and mean of the absolute errors, and of the line's; the share of measured values inside the interval."""
    errors = [abs(row.error) for row in rows]
    beside = [row for row in rows if row.line_error is not None]
    lines = [abs(row.line_error or 0) for row in beside]
    found = {
        "predictions": len(rows),
        "median": statistics.median(errors),
        "mean": statistics.mean(errors),
        "worst": max(errors),
        "covered": statistics.mean(row.covered for row in rows),
    }
    if not lines:
        return found
    own = [abs(row.error) for row in beside]
    return found | {
        "beside_median": statistics.median(own),
        "beside_mean": statistics.mean(own),
        "line_median": statistics.median(lines),
        "line_mean": statistics.mean(lines),
    }


@dataclass(frozen=True, kw_only=True)
class Epochs:
    """Epochs to the target of one CosmoFlow system, measured and predicted."""

    name: str
    batch: int
    epochs: float
    predicted: float
    error: float


def left_out() -> list[Epochs]:
    """Predict every CosmoFlow system's epochs by the law fitted to the other nine."""
    rows = []
    for name, (batch, epochs) in tables.COSMOFLOW.items():
        law = fit_pareto([run for other, run in tables.COSMOFLOW.items() if other != name])
        found = law.epochs(batch)
        rows.append(Epochs(name=name, batch=batch, epochs=epochs, predicted=found, error=found / epochs - 1))
    return rows


def epochs_error() -> float:
    """Return the mean error of the epochs."""
    return statistics.mean(abs(one.error) for one in left_out())


def horovod_efficiency(rate_of_one: float, parameters: float) -> float:
    """T7: predicted efficiency on 128 nodes of 4 P100 from one GPU's images/s at batch 64 (T6) and defaults alone."""
    reason = Reason(rule="published", verdict="images/s of one GPU", source="T6")
    known = Compute(sample_s=spread(1 / rate_of_one, 0.5), reason=reason)
    prior = Prior(compute=known, fixed_s=0.0, fixed_spread=NOTHING.fixed_spread)
    shape = Shape(nodes=128, ranks_per_node=4, per_rank=64)
    machine = tables.P100_25GBE
    return throughput(shape, tables.work(parameters), machine, default_timing(prior, machine)).efficiency


@dataclass(frozen=True, kw_only=True)
class Doubling:
    """How much faster twice the nodes reach the target, by prediction and as observed."""

    name: str
    faster: float
    observed: float


def strong_scaling() -> list[Doubling]:
    """T8: what doubling the nodes of CosmoFlow does, by measured seconds an epoch and the law without these systems."""
    systems = (
        ("Cori KNL", ("Cori KNL, 512 nodes", "Cori KNL, 1024 nodes"), 279.5 / 152.3, 526.9 / 417.6),
        ("Piz Daint", ("Piz Daint, 128 nodes", "Piz Daint, 256 nodes"), 379.4 / 170.7, 461.9 / 304.6),
    )
    rows = []
    for name, (small, large), faster_epoch, observed in systems:
        law = fit_pareto([run for other, run in tables.COSMOFLOW.items() if other not in (small, large)])
        predicted = faster_epoch * law.epochs(tables.COSMOFLOW[small][0]) / law.epochs(tables.COSMOFLOW[large][0])
        rows.append(Doubling(name=name, faster=predicted, observed=observed))
    return rows


def measure() -> dict[str, list[Row]]:
    """Return all predictions of scaling by table."""
    found: dict[str, list[Row]] = {}
    for series in tables.SERIES:
        found.setdefault(series.table, []).extend(predictions(series))
    return found


def measure_one_node() -> dict[str, list[Row]]:
    """Return all predictions of several nodes from one, by what reduces the gradients."""
    found: dict[str, list[Row]] = {}
    for series in tables.SERIES:
        if series.ranks[0] <= series.ranks_per_node < series.ranks[-1]:
            found.setdefault(series.machine.links.library.name, []).extend(from_one_node(series))
    return found


def grouped(measured: dict[str, list[Row]]) -> tuple[list[Row], list[Row]]:
    """Return the rows of T1 and T3, and all other rows."""
    first = [row for table in ("T1", "T3") for row in measured[table]]
    rest = [row for table, rows in measured.items() if table not in ("T1", "T3") for row in rows]
    return first, rest


def held(measured: dict[str, list[Row]], guessed: Sequence[Guess]) -> dict[str, bool]:
    """Return which bars hold."""
    first, rest = grouped(measured)
    covered = summary([*first, *rest])["covered"]
    off, inside = max(guess.off for guess in guessed), statistics.mean(guess.covered for guess in guessed)
    alone = max(guess.off for guess in guessed if guess.name.startswith("H200"))
    inception, vgg = horovod_efficiency(142, tables.INCEPTION_V3), horovod_efficiency(154, tables.VGG_16)
    return {
        f"defaults: off by at most a factor of {off:.2f}, at most {MOST_OFF:g}": off <= MOST_OFF,
        f"defaults: {inside:.0%} inside, at least {INSIDE:.0%}": inside >= INSIDE,
        f"one H200: off by at most a factor of {alone:.2f}, at most {H200_OFF:g}": alone <= H200_OFF,
        **_throughput_bars("T1 and T3", first, T13_MEDIAN, T13_MEAN),
        **_throughput_bars("the rest", rest, REST_MEDIAN, REST_MEAN),
        **_throughput_bars("PyTorch from one node", measure_one_node()["NCCL"], ONE_MEDIAN, ONE_MEAN),
        f"all rows: {covered:.0%} inside, {COVERED[0]:.0%} to {COVERED[1]:.0%}": COVERED[0] <= covered <= COVERED[1],
        f"CosmoFlow: mean {epochs_error():.1%}, at most {EPOCHS_BAR:.0%}": epochs_error() <= EPOCHS_BAR,
        f"T7: VGG-16 ({vgg:.0%}, published 68 %) scales worse than Inception V3 ({inception:.0%}, 90 %)": vgg
        < inception,
        "T8: faster, but less than twice, and dearer": all(1 < pair.faster < 2 for pair in strong_scaling()),
    }


def _throughput_bars(name: str, rows: Sequence[Row], median: float, mean: float) -> dict[str, bool]:
    found = summary(rows)
    below = found["beside_mean"] < found["line_mean"] and found["beside_median"] < found["line_median"]
    return {
        f"{name}: median {found['median']:.1%}, at most {median:.0%}": found["median"] <= median,
        f"{name}: mean {found['mean']:.1%}, at most {mean:.0%}": found["mean"] <= mean,
        f"{name}: errors below the straight line's": below,
    }


def show(measured: dict[str, list[Row]], guessed: Sequence[Guess], bars: dict[str, bool]) -> None:
    """Print everything."""
    print(f"{'from defaults alone':<36}{'published':>10}{'plan':>10}{'off by':>8}  80 % interval")
    for guess in guessed:
        missed = "" if guess.covered else " missed"
        print(
            f"{guess.name:<36}{guess.published:>10.0f}{guess.predicted:>10.0f}{guess.off:>8.2f}"
            f"  {guess.low:.0f} to {guess.high:.0f}{missed}"
        )
    print(f"\n{'':<8}{'series':<24}{'ranks':>6}{'measured':>10}{'predicted':>10}{'error':>8}{'line':>8}  80 % interval")
    for row in [row for rows in measured.values() for row in rows]:
        line = "" if row.line_error is None else f"{row.line_error:+.1%}"
        print(
            f"{row.table:<8}{row.name:<24}{row.ranks:>6}{row.measured:>10.0f}{row.predicted:>10.0f}{row.error:>+8.1%}"
            f"{line:>8}  {row.low:.0f} to {row.high:.0f}{'' if row.covered else ' missed'}"
        )
    first, rest = grouped(measured)
    print()
    for name, rows in {"T1+T3": first, "rest": rest, **measured, "all": [*first, *rest]}.items():
        print(_sentence(name, summary(rows)))
    for name, rows in measure_one_node().items():
        print(_sentence(f"from one node, {name}", summary(rows)))
    _show_epochs()
    print("\nconstants, and in sight of what they were chosen:")
    for text in CHOSEN:
        print(f"  {text}")
    print()
    for bar, holds in bars.items():
        print(f"{'holds ' if holds else 'BROKEN'} {bar}")


def _sentence(name: str, found: dict[str, float]) -> str:
    line = ""
    if "line_mean" in found:
        line = f"; line: median {found['line_median']:.1%}, mean {found['line_mean']:.1%}"
        line += f" (beside it {found['beside_median']:.1%}, {found['beside_mean']:.1%})"
    return (
        f"{name}: {found['predictions']} predictions, median {found['median']:.1%}, mean {found['mean']:.1%},"
        f" worst {found['worst']:.1%}{line}; {found['covered']:.0%} inside"
    )


def _show_epochs() -> None:
    print()
    for one in left_out():
        print(
            f"{one.name:<26}B {one.batch:>4}  epochs {one.epochs:>5.1f}  predicted {one.predicted:>5.1f}"
            f"  error {one.error:+.1%}"
        )
    for pair in strong_scaling():
        print(
            f"T8  {pair.name}, twice the nodes: {pair.faster:.2f} x faster ({pair.observed:.2f} x measured),"
            f" {2 / pair.faster:.2f} x the node-hours ({2 / pair.observed:.2f} x)"
        )


def main() -> int:
    """Measure, print, and tell whether every bar holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    measured, guessed = measure(), guesses()
    bars = held(measured, guessed)
    if as_json:
        rows = {table: [asdict(row) for row in rows] for table, rows in measured.items()}
        plans, epochs = [asdict(guess) for guess in guessed], [asdict(one) for one in left_out()]
        print(json.dumps({"plans": plans, "rows": rows, "epochs": epochs, "bars": bars, "chosen": CHOSEN}, indent=2))
    else:
        show(measured, guessed, bars)
    return 0 if all(bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
