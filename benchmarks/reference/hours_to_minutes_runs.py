"""Makes one run of the article's study with the job chips, and tells what was measured."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "comparisons"))

from hours_to_minutes_cases import Case, Setup, is_pinned
from study import Outcome, outcome

ROOT = Path(__file__).resolve().parents[2]
CHECKED = ("shards-1", "shards-2", "shards-4")
"""The cases whose saved model is read again."""
LAYERS = (
    "import json, model, hpclaunch.training.exports.layers as e; print(json.dumps(e.layers_of(model.cnn(500, 255))))"
)


def measure(setup: Setup, case: Case, seed: int, out: Path) -> dict[str, Any]:
    """Run one case with one seed; what was measured. Raises RuntimeError if a program fails."""
    own = replace(case, name=f"{case.name}-{seed}", switches=(*case.switches, f"--seed={seed}"))
    size = {"image_size": setup.pixels, "samples": setup.photographs}
    options = SimpleNamespace(study="article", small=False, out=out, data_dir="", **size)
    found = outcome(options, own, setup.epochs, pinned=is_pinned(case))
    measured = {**of_training(found), **of_use(found)}
    if case.name in CHECKED:
        photographs = out / "article" / own.name / "made-up" / f"{setup.photographs}-{setup.pixels}-{seed}" / "test"
        measured |= read_again(out / "article" / own.name / "model", photographs)
    return measured


def of_training(found: Outcome) -> dict[str, Any]:
    """What metrics.jsonl says of a run; times and speeds are those of the epochs after the first, which is slower."""
    warm = found.epochs[1:] or found.epochs
    last = found.epochs[-1]
    names = ("loss", "accuracy", "val_loss", "val_accuracy")
    return {
        "seconds": found.seconds,
        "epoch_s": statistics.median(epoch["seconds"] for epoch in warm),
        "images_per_s": found.samples_per_s,
        **{name: last[name] for name in names},
        "curves": {name: [round(epoch[name], 5) for epoch in found.epochs] for name in names},
        "test_accuracy": found.end["test_accuracy"],
        "learning_rate": last["learning_rate"],
        **{name: found.start[name] for name in ("global_batch_size", "steps_per_epoch")},
        "training_images": found.start["data"]["samples"]["train"],
    }


def of_use(found: Outcome) -> dict[str, Any]:
    """The use of memory and cores over time, of all ranks together."""
    within = found.looks[len(found.looks) // 10 : -(len(found.looks) // 10) or None]
    return {
        "peak_pss_mb": round(found.peak_pss / 1e6),
        "mean_cores": round(statistics.mean(look.cores for look in within), 2),
        "use": {
            "at_s": [round(look.at, 1) for look in found.looks],
            "pss_mb": [round(look.pss / 1e6) for look in found.looks],
            "cores": [round(look.cores, 2) for look in found.looks],
        },
    }


def read_again(model: Path, photographs: Path) -> dict[str, Any]:
    """What the saved model gives on the test photographs, read by a program without hpclaunch."""
    program = Path(__file__).parent / "saved_chips.py"
    return dict(last_line([str(program), str(model), str(photographs)], Path(__file__).parent))


def layers() -> Sequence[Mapping[str, Any]]:
    """The layers of the article's network, with 500 x 500 pixels."""
    return list(last_line(["-c", LAYERS], ROOT / "jobs" / "chips"))


def last_line(arguments: list[str], folder: Path) -> Any:
    """Run Python in a folder, and read the last line that it prints as JSON. Raises RuntimeError if it fails."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)[:60]} ended with {done.returncode}: {done.stderr[-1000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def words(measured: Mapping[str, Any]) -> str:
    """A result in a line."""
    return (
        f"{measured['seconds']:.0f} s, an epoch {measured['epoch_s']:.2f} s, loss {measured['loss']:.3f}, "
        f"test accuracy {measured['test_accuracy']:.1%}"
    )
