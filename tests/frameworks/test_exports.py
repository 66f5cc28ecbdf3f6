"""The trained model of PyTorch and JAX is read without hpclaunch, and has the weights that were evaluated."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.frameworks.environments import ROOT
from tests.frameworks.test_equal import trained
from tests.frameworks.test_jobs import MAKERS, start_program

pytestmark = pytest.mark.timeout(900)
READS = {
    "ddp": """
import sys, numpy as np, torch
file = np.load(sys.argv[2])
model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
model.load_state_dict(torch.load(sys.argv[1] + "/weights.pt", weights_only=True))
arrays = np.load(sys.argv[1] + "/weights.npz")
assert all((arrays[name] == one.detach().numpy()).all() for name, one in model.named_parameters())
found = model(torch.from_numpy(file["features_test"]))[:, 0].detach().numpy()
print(((found - file["price_test"]) ** 2).mean())
""",
    "jax": """
import sys, numpy as np
file, weights = np.load(sys.argv[2]), np.load(sys.argv[1] + "/weights.npz")
found = np.tanh(file["features_test"] @ weights["first"]) @ weights["last"]
print(((found - file["price_test"]) ** 2).mean())
""",
}
OWN = ("--validation-part=0.3", "--restore-best=true", "--patience=2", "--epochs=30", "--learning-rate=0.3")


def said_by(job: str, code: str, *arguments: str, path: str = "") -> str:
    """What a program says in the environment of a job, without hpclaunch unless `path` has it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HPCLAUNCH_", "PYTHONPATH"))}
    command = [str(MAKERS[job]() / "bin" / "python"), "-c", code, *arguments]
    done = subprocess.run(command, env={**kept, "PYTHONPATH": path}, cwd="/", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("job", "size", "files"), [("ddp", 2, ["weights.pt", "weights.npz"]), ("jax", 1, ["weights.npz"])]
)
def test_the_exported_weights_are_those_of_the_best_epoch_that_were_evaluated(
    job: str, size: int, files: list[str], tmp_path: Path
) -> None:
    _, lines = trained(job, tmp_path / "run", size, 23, f"--batch-size-per-rank={16 // size}", *OWN)
    end = lines[-1]
    assert (end["model"], end["model_files"]) == ("model", files) and end["best_epoch"] < end["epochs"]
    model = tmp_path / "run" / "model"
    about = json.loads((model / "model.json").read_text())
    assert about["sha256"] == {name: hashlib.sha256((model / name).read_bytes()).hexdigest() for name in files}
    assert sorted(path.name for path in model.iterdir()) == sorted([*files, "model.json"])
    found = float(said_by(job, READS[job], str(model), str(tmp_path / "run" / "houses.npz")))
    assert found == pytest.approx(end["test_mse"], rel=1e-12)


OF_THE_JOB = """
import json, os, sys, numpy as np, torch
sys.path.insert(0, sys.argv[1])
from train import mini_resnet
from hpclaunch.training.checkpoints import folders

run_dir = sys.argv[2]
saved = torch.load(run_dir + "/model/weights.pt", weights_only=True)
(name,) = [name for name in os.listdir(run_dir + "/checkpoints") if name.endswith(sys.argv[3])]
checkpoint = run_dir + "/checkpoints/" + name
with np.load(checkpoint + "/shared.npz") as arrays:
    named = enumerate(folders.facts_of(checkpoint)["content"]["arrays"])
    kept = {name: arrays["array-%05d" % number] for number, (name, _, _) in named}
assert all((kept["model." + name] == one.numpy()).all() for name, one in saved.items())
model = mini_resnet()
model.load_state_dict(saved)
model.eval()
with np.load(run_dir + "/cifar10.npz") as file, torch.no_grad():
    labels = torch.from_numpy(file["y_test"]).long()
    scores = model(torch.from_numpy(file["x_test"]))
found = {"loss": float(torch.nn.functional.cross_entropy(scores.double(), labels))}
found["right"] = int((scores.argmax(1) == labels).sum())
print(json.dumps(found))
"""


def test_the_job_of_pytorch_reports_what_the_saved_model_gives(tmp_path: Path) -> None:
    """Each rank has its own statistics of batch norm, until the ranks share those that are saved."""
    random = np.random.default_rng(5)
    labels = {"train": np.arange(203) % 10, "test": np.arange(331) % 10}
    arrays = {f"y_{split}": labels[split].astype(np.int64) for split in labels}
    for split, own in labels.items():
        noise = random.integers(0, 200, (len(own), 32, 32, 3))
        arrays[f"x_{split}"] = (noise + 5 * own[:, None, None, None]).astype(np.uint8)
    np.savez(tmp_path / "cifar10.npz", **arrays)
    own_settings = ("--epochs=2", "--batch-size-per-rank=16", "--validate-on=test", "--restore-best=true")
    program = ROOT / "jobs" / "ddp" / "train.py"
    data = f"--data-dir={tmp_path / 'cifar10.npz'}"
    codes, text = (run := start_program("ddp", program, tmp_path, data, *own_settings, size=2)).ended()
    assert codes == [0, 0], text
    (end,) = run.events("end")
    steps = f"{end['best_epoch'] * 7:08}"  # an epoch has seven
    code = said_by("ddp", OF_THE_JOB, str(program.parent), str(tmp_path), steps, path=str(ROOT))
    found = json.loads(code)
    assert end["test_samples"] == 331
    assert end["test_accuracy"] * 331 == pytest.approx(found["right"], abs=1e-9)
    assert end["best_value"] == pytest.approx(found["loss"], rel=1e-5)
    best = run.events("epoch")[end["best_epoch"] - 1]
    assert (best["val_loss"], best["val_accuracy"]) == (end["best_value"], pytest.approx(end["test_accuracy"]))


def test_no_model_is_written_if_the_settings_say_so(tmp_path: Path) -> None:
    _, lines = trained("ddp", tmp_path / "run", 1, 8, "--batch-size-per-rank=4", "--export-model=false")
    assert "model" not in lines[-1] and not (tmp_path / "run" / "model").exists()


def test_what_pytorch_cannot_read_without_running_code_is_left_out(tmp_path: Path) -> None:
    code = """
import sys, torch
from hpclaunch.training.exports import torch_files

class Own(torch.nn.Linear):
    def __init__(self, kept):
        super().__init__(2, 2)
        self.register_buffer("low", torch.full([2], 1.5, dtype=torch.bfloat16))
        self.kept = kept
    def get_extra_state(self):
        return self.kept
    def set_extra_state(self, state):
        pass

for number, kept in enumerate(({"names": ["a"]}, slice(3))):
    torch_files.write_state(Own(kept).state_dict(), f"{sys.argv[1]}/{number}.pt")
    print(sorted(torch.load(f"{sys.argv[1]}/{number}.pt", weights_only=True)))
print({name: str(one.dtype) for name, one in torch_files.named_arrays(Own(None).state_dict())})
"""
    first, note, second, types = said_by("ddp", code, str(tmp_path), path=str(ROOT)).splitlines()
    assert first == "['_extra_state', 'bias', 'low', 'weight']" and second == "['bias', 'low', 'weight']"
    assert note.startswith("note: weights.pt has no _extra_state: ")
    assert types == "{'weight': 'float32', 'bias': 'float32', 'low': 'float32'}"


def test_the_arrays_of_jax_have_the_names_of_their_places(tmp_path: Path) -> None:
    code = """
import collections, sys, numpy as np, jax
from hpclaunch.training.exports import jax_files
Pair = collections.namedtuple("Pair", "kernel bias")
tree = {"dense": Pair(np.ones((2, 3), np.float32), jax.numpy.ones(3, jax.numpy.bfloat16)), "key": jax.random.key(3)}
np.savez(sys.argv[1], **dict(jax_files.named_arrays([tree, np.int32(5)])))
print([name for name, _ in jax_files.named_arrays(np.ones(2))])
"""
    assert said_by("jax", code, str(tmp_path / "own.npz"), path=str(ROOT)).strip() == "['state']"
    with np.load(tmp_path / "own.npz") as arrays:
        found = {name: (str(arrays[name].dtype), arrays[name].shape) for name in arrays.files}
    assert found == {"0/dense/kernel": ("float32", (2, 3)), "0/dense/bias": ("float32", (3,)), "1": ("int32", ())}
