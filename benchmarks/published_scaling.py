"""Predictions of `hpclaunch.guidelines` against published scaling tables; needs no cluster and takes about a second.

    python benchmarks/published_scaling.py [--json]

Throughput: calibrated on the two smallest sizes of a series, then held against its sizes of 8 nodes and more, next to
the straight line through the two smallest sizes. Epochs: the Pareto law, leaving out one CosmoFlow system at a time.
Nothing is fitted to single rows; every constant is a default of `hpclaunch.guidelines`. "Others" are rows of the same
publisher that no constant was chosen in sight of: the same bars are printed for them, and they do not hold there. Ends
with 1 if a bar of the tables T1 to T8 does not hold.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from hpclaunch.guidelines.calibration import Measured, calibrate
from hpclaunch.guidelines.communication import Links
from hpclaunch.guidelines.efficiency import fit_pareto
from hpclaunch.guidelines.throughput import Machine, Shape, Timing, Work, throughput

MEDIAN_BAR, MEAN_BAR, EPOCHS_BAR = 0.03, 0.06, 0.06
FROM_NODES = 8

DGX_A100 = Machine(links=Links(gpu_gbytes_per_s=300, node_gbytes_per_s=200))
DGX_2H = Machine(links=Links(gpu_gbytes_per_s=150, node_gbytes_per_s=100))
DGX_1_P100 = Machine(links=Links(gpu_gbytes_per_s=80, node_gbytes_per_s=50))
P100_25GBE = Machine(links=Links(gpu_gbytes_per_s=80, node_gbytes_per_s=3.125))

BERT_LARGE, INCEPTION_V3, VGG_16 = 336.2e6, 23.82e6, 138.36e6
"""Parameters; gradients are float32."""


def work(parameters: float) -> Work:
    return Work(gradient_bytes=4 * parameters)


@dataclass(frozen=True, kw_only=True)
class Series:
    """One row of a table: samples/s by nodes (T6: GPUs of one node); global batch sizes, where gradients accumulate."""

    table: str
    name: str
    machine: Machine
    parameters: float
    per_rank: int
    ranks_per_node: int
    sizes: tuple[int, ...]
    measured: tuple[float, ...]
    batches: tuple[int, ...] = ()

    def shape(self, index: int) -> Shape:
        """How that run was spread; accumulation follows from the global batch size, never from a printed one."""
        size = self.sizes[index]
        if not self.batches:
            return Shape(nodes=1, ranks_per_node=size, per_rank=self.per_rank)
        ranks = size * self.ranks_per_node
        accumulation = self.batches[index] / (ranks * self.per_rank)
        return Shape(nodes=size, ranks_per_node=self.ranks_per_node, per_rank=self.per_rank, accumulation=accumulation)


def bert(
    table: str,
    name: str,
    machine: Machine,
    ranks: int,
    per_rank: int,
    batches: tuple[int, ...],
    sizes: tuple[int, ...],
    measured: tuple[float, ...],
) -> Series:
    """A multi-node series of BERT-Large."""
    return Series(
        table=table,
        name=name,
        machine=machine,
        parameters=BERT_LARGE,
        per_rank=per_rank,
        ranks_per_node=ranks,
        sizes=sizes,
        measured=measured,
        batches=batches if len(batches) > 1 else batches * len(sizes),
    )


N1, N3, GPUS = (1, 2, 8, 32), (1, 4, 16, 32), (1, 2, 4, 8)
B512 = (32768, 65536, 65536, 65536)

# NVIDIA/DeepLearningExamples @729963d, TensorFlow2/LanguageModeling/BERT (T1), TensorFlow/LanguageModeling/BERT (T3),
# README.md, multi-node pre-training; sequences a second.
T1 = (
    bert("T1", "TF2 A100-80 s128 AMP", DGX_A100, 8, 312, (79872,), N1, (3803.8, 7551.4, 29711, 110281)),
    bert("T1", "TF2 A100-80 s128 TF32", DGX_A100, 8, 176, (90112,), N1, (2063.0, 4084.8, 16134, 59570)),
    bert("T1", "TF2 A100-80 s512 AMP", DGX_A100, 8, 40, (30720,), N1, (749.7, 1491.9, 5870.8, 22506)),
    bert("T1", "TF2 A100-80 s512 TF32", DGX_A100, 8, 22, (33792,), N1, (431.9, 739.1, 2926.6, 11241)),
)
T3 = (
    bert("T3", "TF1 DGX-2H s128 AMP", DGX_2H, 16, 64, (65536,), N3, (3081.7, 13192, 48223, 86674)),
    bert("T3", "TF1 DGX-2H s128 FP32", DGX_2H, 16, 32, (65536,), N3, (761.9, 3389.8, 13218, 25142)),
    bert("T3", "TF1 A100-40 s128 AMP", DGX_A100, 8, 64, (65536,), N3, (2871.9, 11159, 41144, 77480)),
    bert("T3", "TF1 A100-40 s128 TF32", DGX_A100, 8, 64, (65536,), N3, (1889.7, 7532, 28606, 53586)),
    bert("T3", "TF1 A100-40 s512 AMP", DGX_A100, 8, 16, B512, N3, (572.1, 2197.4, 8723.1, 16705)),
    bert("T3", "TF1 A100-40 s512 TF32", DGX_A100, 8, 8, B512, N3, (316.5, 1268.4, 4903.4, 9463.8)),
)


# The same two documents, in none of the tables above: TF2 on DGX-2H, and TF1 on DGX-2H with sequences of 512.
OTHERS = (
    bert("oth", "TF2 DGX-2H s128 AMP", DGX_2H, 16, 60, (61440,), N3, (3528.51, 13370.21, 42697.42, 84223.16)),
    bert("oth", "TF2 DGX-2H s128 FP32", DGX_2H, 16, 32, (65536,), N3, (841.72, 3060.49, 10383.57, 20094.14)),
    bert("oth", "TF2 DGX-2H s512 AMP", DGX_2H, 16, 10, (30720,), N3, (678.35, 2678.29, 7834.72, 18786.93)),
    bert("oth", "TF2 DGX-2H s512 FP32", DGX_2H, 16, 4, (32768,), N3, (180, 646.76, 2204.72, 4196.15)),
    bert("oth", "TF1 DGX-2H s512 AMP", DGX_2H, 16, 8, (32768,), N3, (577.79, 2284.23, 8853.00, 17059.00)),
    bert("oth", "TF1 DGX-2H s512 FP32", DGX_2H, 16, 8, (32768,), N3, (173.26, 765.04, 3001.43, 5893.14)),
)


def one_node(name: str, parameters: float, per_rank: int, measured: tuple[float, ...]) -> Series:
    """A series on 1, 2, 4 and 8 GPUs of one node."""
    return Series(
        table="T6",
        name=name,
        machine=DGX_1_P100,
        parameters=parameters,
        per_rank=per_rank,
        ranks_per_node=8,
        sizes=GPUS,
        measured=measured,
    )


# tensorflow/docs r1/guide/performance/benchmarks.md: P100 DGX-1, synthetic images a second; not Horovod.
T6 = (
    one_node("Inception V3 b64", INCEPTION_V3, 64, (142, 284, 569, 1131)),
    one_node("ResNet-50 b64", 25.58e6, 64, (219, 422, 852, 1734)),
    one_node("ResNet-50 b32", 25.58e6, 32, (195, 368, 768, 1485)),
    one_node("ResNet-152 b64", 60.34e6, 64, (91.8, 181, 356, 716)),
    one_node("AlexNet b512", 62.38e6, 512, (2987, 5658, 10509, 17822)),
    one_node("VGG16 b64", VGG_16, 64, (154, 295, 584, 1081)),
    one_node("VGG16 b32", VGG_16, 32, (144, 281, 549, 820)),
)

# mlcommons/hpc_results_v0.7 @3edadef, closed division: global batch size, median epochs of the successful runs.
COSMOFLOW: dict[str, tuple[int, float]] = {
    "Cori GPU, 64 ranks": (64, 52.5),
    "HAL, 16 nodes": (64, 54.5),
    "Frontera RTX, 16 nodes": (64, 48.5),
    "Piz Daint, 128 nodes": (256, 70.0),
    "Piz Daint, 256 nodes": (512, 103.0),
    "ABCI, 512 ranks": (512, 98.5),
    "Fugaku, 512 nodes": (512, 102.5),
    "Fugaku, 8192 nodes": (512, 92.5),
    "Cori KNL, 512 nodes": (512, 110.5),
    "Cori KNL, 1024 nodes": (1024, 162.0),
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One prediction; errors are relative to what was measured."""

    table: str
    name: str
    size: int
    measured: float
    predicted: float
    low: float
    high: float
    error: float
    line_error: float
    covered: bool


def predictions(series: Series, beyond: int) -> list[Row]:
    """Predict every size from ``beyond`` on, calibrated on the two smallest."""
    load = work(series.parameters)
    points = [Measured(shape=series.shape(index), samples_per_s=series.measured[index]) for index in (0, 1)]
    timing = calibrate(points, load, series.machine)
    return [
        _row(series, index, load, timing) for index, size in enumerate(series.sizes) if index > 1 and size >= beyond
    ]


def _row(series: Series, index: int, load: Work, timing: Timing) -> Row:
    measured = series.measured[index]
    found = throughput(series.shape(index), load, series.machine, timing).samples_per_s
    (small, large), (low, high) = series.sizes[:2], series.measured[:2]
    line = low + (high - low) / (large - small) * (series.sizes[index] - small)
    return Row(
        table=series.table,
        name=series.name,
        size=series.sizes[index],
        measured=measured,
        predicted=found.middle,
        low=found.low,
        high=found.high,
        error=found.middle / measured - 1,
        line_error=line / measured - 1,
        covered=found.low <= measured <= found.high,
    )


def summary(rows: Sequence[Row]) -> dict[str, float]:
    """Median and mean of the absolute errors, and of the line's; the share of measured values inside the interval."""
    errors, lines = [abs(row.error) for row in rows], [abs(row.line_error) for row in rows]
    return {
        "predictions": len(rows),
        "median": statistics.median(errors),
        "mean": statistics.mean(errors),
        "worst": max(errors),
        "line_median": statistics.median(lines),
        "line_mean": statistics.mean(lines),
        "covered": statistics.mean(row.covered for row in rows),
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
    for name, (batch, epochs) in COSMOFLOW.items():
        law = fit_pareto([run for other, run in COSMOFLOW.items() if other != name])
        found = law.epochs(batch)
        rows.append(Epochs(name=name, batch=batch, epochs=epochs, predicted=found, error=found / epochs - 1))
    return rows


def horovod_efficiency(rate_of_one: float, parameters: float) -> float:
    """T7: predicted efficiency on 128 nodes of 4 P100 from one GPU's images/s at batch 64 (T6) and defaults alone."""
    links = P100_25GBE.links
    timing = Timing(
        fixed_s=0.0,
        per_sample_s=1 / rate_of_one,
        inside=links.inside_bytes_per_s,
        between=links.between_bytes_per_s,
        uncertainty=0.5,
        origin="default",
    )
    shape = Shape(nodes=128, ranks_per_node=4, per_rank=64)
    return throughput(shape, work(parameters), P100_25GBE, timing).efficiency


@dataclass(frozen=True, kw_only=True)
class Doubling:
    """How much faster twice the nodes reach the target, by prediction and as observed."""

    name: str
    faster: float
    observed: float


def strong_scaling() -> list[Doubling]:
    """T8: what doubling the nodes of CosmoFlow does, by measured seconds an epoch and the law without these systems."""
    tables = (
        ("Cori KNL", ("Cori KNL, 512 nodes", "Cori KNL, 1024 nodes"), 279.5 / 152.3, 526.9 / 417.6),
        ("Piz Daint", ("Piz Daint, 128 nodes", "Piz Daint, 256 nodes"), 379.4 / 170.7, 461.9 / 304.6),
    )
    rows = []
    for name, (small, large), faster_epoch, observed in tables:
        law = fit_pareto([run for other, run in COSMOFLOW.items() if other not in (small, large)])
        predicted = faster_epoch * law.epochs(COSMOFLOW[small][0]) / law.epochs(COSMOFLOW[large][0])
        rows.append(Doubling(name=name, faster=predicted, observed=observed))
    return rows


def measure() -> dict[str, list[Row]]:
    """All predictions by table; T6 beyond two GPUs, the others at 8 nodes and more."""
    return {
        "T1": [row for series in T1 for row in predictions(series, FROM_NODES)],
        "T3": [row for series in T3 for row in predictions(series, FROM_NODES)],
        "T6": [row for series in T6 for row in predictions(series, 1)],
        "others": [row for series in OTHERS for row in predictions(series, FROM_NODES)],
    }


def show(tables: dict[str, list[Row]], bars: dict[str, bool]) -> None:
    """Print everything."""
    print(f"{'':<4}{'series':<24}{'size':>5}{'measured':>10}{'predicted':>10}{'error':>8}{'line':>8}  80 % interval")
    for row in [row for rows in tables.values() for row in rows]:
        inside = "" if row.covered else " missed"
        print(
            f"{row.table:<4}{row.name:<24}{row.size:>5}{row.measured:>10.0f}{row.predicted:>10.0f}{row.error:>+8.1%}"
            f"{row.line_error:>+8.1%}  {row.low:.0f} to {row.high:.0f}{inside}"
        )
    print()
    for name, rows in {"T1+T3": tables["T1"] + tables["T3"], "T6": tables["T6"], "others": tables["others"]}.items():
        told = summary(rows)
        print(
            f"{name}: {told['predictions']} predictions, median {told['median']:.1%}, mean {told['mean']:.1%}, worst"
            f" {told['worst']:.1%}; line: median {told['line_median']:.1%}, mean {told['line_mean']:.1%};"
            f" {told['covered']:.0%} inside the interval"
        )
    show_epochs()
    print()
    for bar, holds in {**bars, **reported(tables)}.items():
        print(f"{'holds ' if holds else 'BROKEN'} {bar}")


def show_epochs() -> None:
    """Print the CosmoFlow systems, and the directions of T7 and T8."""
    print()
    for one in left_out():
        print(
            f"{one.name:<26}B {one.batch:>4}  epochs {one.epochs:>5.1f}  predicted {one.predicted:>5.1f}"
            f"  error {one.error:+.1%}"
        )
    print(f"CosmoFlow, leaving one system out: mean error {epochs_error():.1%}\n")
    print(f"T7  512 P100, defaults alone: Inception V3 {inception():.0%} (published 90 %), VGG-16 {vgg():.0%} (68 %)")
    for pair in strong_scaling():
        print(
            f"T8  {pair.name}, twice the nodes: {pair.faster:.2f} x faster ({pair.observed:.2f} x measured),"
            f" {2 / pair.faster:.2f} x the node-hours ({2 / pair.observed:.2f} x)"
        )


def epochs_error() -> float:
    return statistics.mean(abs(one.error) for one in left_out())


def inception() -> float:
    return horovod_efficiency(142, INCEPTION_V3)


def vgg() -> float:
    return horovod_efficiency(154, VGG_16)


def throughput_bars(name: str, rows: Sequence[Row]) -> dict[str, bool]:
    """Which of the bars on throughput these rows keep."""
    found = summary(rows)
    return {
        f"{name}: median {found['median']:.1%}, at most {MEDIAN_BAR:.0%}": found["median"] <= MEDIAN_BAR,
        f"{name}: mean {found['mean']:.1%}, at most {MEAN_BAR:.0%}": found["mean"] <= MEAN_BAR,
        f"{name}: errors below the straight line's": found["mean"] < found["line_mean"]
        and found["median"] < found["line_median"],
    }


def reported(tables: dict[str, list[Row]]) -> dict[str, bool]:
    """The same bars for rows that are in none of the tables: told, and not counted."""
    return throughput_bars("others (reported)", tables["others"])


def held(tables: dict[str, list[Row]]) -> dict[str, bool]:
    """Which bars hold."""
    return {
        **throughput_bars("T1 and T3", tables["T1"] + tables["T3"]),
        f"CosmoFlow: mean {epochs_error():.1%}, at most {EPOCHS_BAR:.0%}": epochs_error() <= EPOCHS_BAR,
        "T7: VGG-16 scales worse than Inception V3": vgg() < inception(),
        "T8: faster, but less than twice, and dearer": all(1 < pair.faster < 2 for pair in strong_scaling()),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    tables = measure()
    bars = held(tables)
    if options.json:
        rows = [asdict(row) for found in tables.values() for row in found]
        epochs, doublings = [asdict(one) for one in left_out()], [asdict(pair) for pair in strong_scaling()]
        print(
            json.dumps(
                {"rows": rows, "epochs": epochs, "doublings": doublings, "bars": bars, "reported": reported(tables)},
                indent=2,
            )
        )
    else:
        show(tables, bars)
    return 0 if all(bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
