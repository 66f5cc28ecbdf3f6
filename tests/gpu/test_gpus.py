"""This machine's GPUs with real PyTorch or JAX: found, used, measured, planned for (make gpu)."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.conftest import Machine

HALF = Path(__file__).with_name("half.py").read_text(encoding="utf-8")
PLAIN = Path(__file__).with_name("plain.py").read_text(encoding="utf-8")
COUNT = {
    "torch": "import torch; print('GPUs', torch.cuda.device_count())",
    "jax": "import jax; print('GPUs', len(jax.devices()))",
}
SETTINGS: dict[str, tuple[str, ...]] = {
    "float32": (),
    "bfloat16": ("--set", "precision=bfloat16"),
    "compiled": ("--set", "compile=true"),
}
SAMPLES = ("--set", "synthetic_samples=50000")
DDP = ("ddp", "--synthetic", "--nodes", "1", *SAMPLES)


def rates(run: str) -> list[float]:
    """The images per second of every epoch."""
    events: list[dict[str, Any]] = [json.loads(line) for line in (Path(run) / "metrics.jsonl").read_text().splitlines()]
    return [event["images_per_s"] for event in events if event.get("images_per_s")]


def test_the_machine_is_found_as_the_framework_sees_it(machine: Machine) -> None:
    found = machine.json("sites", "show", "local")["found"]
    assert len(found["gpus"]) == machine.seen["gpus"]
    models = [gpu["model"] for gpu in found["gpus"]]
    assert sorted(models) == sorted(machine.seen["models"]) or machine.seen["framework"] == "jax"
    for gpu, size in zip(found["gpus"], machine.seen["memory"], strict=False):
        assert gpu["memory"] == pytest.approx(size, rel=0.05)
    machine.figures["found"] = found["how"]


@pytest.mark.parametrize("limit", [None, "0"])
def test_a_run_sees_the_gpus_of_the_shell(machine: Machine, limit: str | None) -> None:
    own = os.environ.get("CUDA_VISIBLE_DEVICES")
    if limit is not None and own is not None:
        limit = own.split(",")[0]
    variables = {} if limit is None else {"CUDA_VISIBLE_DEVICES": limit}
    words = ("submit", "--tasks-per-node", "1", "--wait", "--", "python3", "-c", COUNT[machine.seen["framework"]])
    done = machine.type(*words, **variables)
    assert f"GPUs {machine.seen['gpus'] if limit is None else 1}\n" in done.stderr


def test_a_run_that_asks_for_no_gpu_sees_none(of_torch: Machine) -> None:
    words = ("submit", "--gpus-per-node", "0", "--wait", "--", "python3", "-c", COUNT["torch"])
    assert "GPUs 0\n" in of_torch.type(*words).stderr


def test_ddp_trains_on_every_gpu_without_a_word_of_pytorch(of_torch: Machine) -> None:
    run = of_torch.type("submit", *DDP, "--set", "epochs=3", "--wait").stdout.strip()
    log = of_torch.log(run)
    assert "Warning" not in log
    spec = json.loads((Path(run) / "spec.json").read_text())
    assert spec["layout"]["tasks_per_node"] == of_torch.seen["gpus"]
    assert "local rank 0, GPU 0" in log and "CPU (no GPU" not in log
    of_torch.figures["ddp, images/s by epoch"] = rates(run)
    found = of_torch.json("efficiency", run)["runs"][0]
    (gpu,) = [one for one in found["quantities"] if one["name"] == "GPU"]
    assert (gpu["share"] is None) == (gpu.get("seconds", 0.0) < 60), "a share only of a minute or more"
    assert not any("computed nothing" in one["words"] for one in found["suggestions"])
    of_torch.figures["ddp, efficiency"] = {"GPU": gpu, "energy": found["energy"]}


def test_the_use_of_a_gpu_is_that_of_a_load_that_knows_its_own(of_torch: Machine) -> None:
    """The load computes for two seconds and waits for two, and writes down how long it really did."""
    (of_torch.project / "half.py").write_text(HALF)
    run = of_torch.type("submit", "./half.py", "--tasks-per-node", "1", "--gpus-per-node", "1", "--wait").stdout.strip()
    truth = json.loads(re.findall(r"^load (\{.*\})$", of_torch.log(run), re.MULTILINE)[-1])
    found = of_torch.json("efficiency", run)["runs"][0]
    (gpu,) = [one for one in found["quantities"] if one["name"] == "GPU"]
    assert gpu["seconds"] >= 60 and gpu["samples"] > gpu["seconds"] / 2
    measured, expected = gpu["used"], truth["busy"] / gpu["seconds"]
    of_torch.figures["half load"] = {"measured": measured, "expected": expected, "samples": gpu["samples"]}
    assert measured == pytest.approx(expected, abs=0.03)


def test_doctor_names_the_gpus(of_torch: Machine) -> None:
    report = of_torch.json("doctor", "--framework", "pytorch")
    (check,) = [one for one in report["checks"] if one["name"] == "GPUs"]
    assert check["verdict"] == "PASS" and "every rank sees" in check["what"]
    of_torch.figures["doctor"] = check["what"]


def test_a_plan_knows_the_gpu_and_then_what_was_measured(of_torch: Machine) -> None:
    asked = ("plan", "ddp", "--nodes", "1", *SAMPLES)  # a measurement counts for the same parameters
    before = of_torch.json(*asked)
    of_torch.type("profile", *DDP, "--steps", "30")
    after = of_torch.json(*asked)
    headlines = ["; ".join(str(line) for line in plan["headlines"]) for plan in (before, after)]
    of_torch.figures["plan"] = {"before": before["summary"], "after": after["summary"]}
    assert "measured" in json.dumps(after) and headlines[0] != headlines[1]


def test_a_loop_of_on_pytorch_beside_a_plain_one(of_torch: Machine) -> None:
    """No bar: the figures are for docs/measurements.md, and a GPU in use by others would fail any."""
    (of_torch.project / "plain.py").write_text(PLAIN)
    run = of_torch.type(
        "submit", "./plain.py", "--tasks-per-node", "1", "--gpus-per-node", "1", "--wait"
    ).stdout.strip()
    plain = json.loads(re.findall(r"^rates (\{.*\})$", of_torch.log(run), re.MULTILINE)[-1])
    ours = {}
    for name in plain:
        words = ("submit", *DDP, "--tasks-per-node", "1", *SETTINGS[name], "--set", "epochs=3", "--wait")
        run = of_torch.type(*words).stdout.strip()
        ours[name] = rates(run)[-1]
    assert all(rate > 0 for rate in (*plain.values(), *ours.values()))
    of_torch.figures["ddp's model, images/s"] = {"plain loop": plain, "ddp": ours}
