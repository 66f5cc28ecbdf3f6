"""The bundled job gpt on real ranks: however they share the model it trains alike, and as the plan says."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.frameworks.environments import ROOT, newer_torch_environment
from tests.frameworks.test_jobs import Started, start_program
from tests.tiers import LONG

pytestmark = pytest.mark.timeout(900)
JOB = ROOT / "jobs" / "gpt"
TINY = ("--layers=2", "--hidden=32", "--heads=2", "--context=16", "--vocabulary=300")
SAMPLES, EPOCHS = 64, 3
FIGURES = """
import json, sys
import torch
sys.path.insert(0, sys.argv[1])
from model import GPT, loss_of

def saved(recompute, batch):
    model = GPT(**sizes, recompute=recompute)
    tokens = torch.zeros(batch, sizes["context"], dtype=torch.int64)
    known = {one.untyped_storage().data_ptr() for one in model.parameters()}
    found = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            found[storage.data_ptr()] = storage.nbytes(), tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = loss_of(model, tokens, tokens + 1)
    return sum(size for size, _ in found.values())

sizes = json.loads(sys.argv[2])
parameters = sum(one.numel() for one in GPT(**sizes).parameters())
print(json.dumps([parameters, *(saved(again, 5) - saved(again, 3) for again in (False, True))]))
"""


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packed text of this project's own documents, as `data fetch gpt --from` packs it."""
    folder = tmp_path_factory.mktemp("text")
    source = folder / "documents"
    source.mkdir()
    for number in range(60):
        lines = [f"The {noun} number {number + step}." for step, noun in enumerate(("cat", "hat", "rat") * 20)]
        (source / f"{number}.txt").write_text("\n".join(lines))
    pack = [sys.executable, "-B", str(JOB / "pack.py"), str(folder / "packed"), "--from", str(source)]
    subprocess.run([*pack, "--vocabulary=300"], check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    return folder / "packed"


def trained(text: Path, run_dir: Path, size: int, *words: str) -> Started:
    batch = f"--batch-size-per-rank={SAMPLES // size}"
    fixed = (f"--data-dir={text}", *TINY, f"--train-samples={SAMPLES}", f"--epochs={EPOCHS}", batch)
    run = start_program("newer-torch", JOB / "train.py", run_dir, *fixed, *words, size=size)
    codes, told = run.ended()
    assert codes == [0] * size, told
    return run


def results(run: Started) -> list[float]:
    """Losses of the epochs, those of the validation, and that of the test."""
    epochs = run.events("epoch")
    return [line[name] for name in ("loss", "val_loss") for line in epochs] + [run.events("end")[0]["test_loss"]]


def test_a_gpt_trains_as_one_process_however_ranks_share_it(text: Path, tmp_path: Path) -> None:
    alone = trained(text, tmp_path / "alone", 1)
    expected = results(alone)
    assert len(expected) == 2 * EPOCHS + 1 and expected[EPOCHS - 1] < expected[0]
    (end,) = alone.events("end")
    record = json.loads((text / "tokens.json").read_text())["splits"]["test"]
    assert end["test_perplexity"] == pytest.approx(math.exp(end["test_loss"]))
    bits = end["test_loss"] / math.log(2) / (record["bytes"] / record["tokens"])
    assert end["test_bits_per_byte"] == pytest.approx(bits)
    assert end["test_tokens"] == (record["tokens"] - 1) // 16 * 16
    (sample,) = alone.events("sample")
    ways = {
        "weights": ("--shard-weights=true", "--recompute=true"),
        "state": ("--shard-optimizer=true", "--accumulation=2", f"--batch-size-per-rank={SAMPLES // 4}"),
    }
    for name in ways if LONG else ("weights",):
        run = trained(text, tmp_path / name, 2, *ways[name])
        assert results(run) == pytest.approx(expected, rel=1e-6), name
        assert run.events("sample")[0]["text"] == sample["text"], name


if LONG:

    def test_a_gpt_trains_with_the_settings_that_a_plan_prints(text: Path, tmp_path: Path) -> None:
        """Sixteen GPUs of 40 GB hold 1.3 billion parameters, four samples at a time, by a rung of the ladder."""
        asked = ["--site", "perlmutter", "--node-type", "gpu40", "--nodes", "4", "--recipe", "gpt-1b"]
        plan = [sys.executable, "-m", "hpclaunch", "plan", "gpt", *asked, "--set", "batch_size_per_rank=4", "--json"]
        printed = subprocess.run(plan, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
        found: dict[str, Any] = json.loads(printed)
        settings = dict([*found["rung_settings"], *found["settings"]])
        assert "--set precision=bfloat16" in found["command"] and found["rung_settings"], found["ladder"]
        words = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
        losses = [line["loss"] for line in trained(text, tmp_path / "run", 2, *words).events("epoch")]
        assert len(losses) == EPOCHS and losses[-1] < losses[0]


def test_the_formulas_of_gpt_are_those_of_its_model() -> None:
    sizes = {"layers": 3, "hidden": 48, "heads": 4, "context": 32, "vocabulary": 500}
    formulas = yaml.safe_load((JOB / "job.yaml").read_text())["training"]["formulas"]
    python = newer_torch_environment() / "bin" / "python"
    code = [str(python), "-c", FIGURES, str(JOB), json.dumps(sizes)]
    done = subprocess.run(code, capture_output=True, text=True, check=True)
    parameters, saved, kept = json.loads(done.stdout)
    figures = ("parameters", "saved_bytes_per_sample", "kept_bytes_per_sample")
    expected = [eval(formulas[name], {}, sizes) for name in figures]
    assert [parameters, saved / 2, kept / 2] == pytest.approx(expected, rel=1e-4)
    assert parameters == expected[0]
