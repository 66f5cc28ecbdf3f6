"""The bundled jobs of PyTorch and JAX, on real ones: they train, share the data, and continue where they stopped."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.frameworks.environments import ROOT, jax_environment, newer_torch_environment, torch_environment
from tests.tiers import LONG

pytestmark = pytest.mark.timeout(900)
MAKERS = {"ddp": torch_environment, "jax": jax_environment, "newer-torch": newer_torch_environment}
SMALL = ("--synthetic=true", "--synthetic-samples=640", "--batch-size-per-rank=64")
PROGRAMS = ROOT / "tests" / "frameworks" / "programs"


@dataclass(frozen=True)
class Started:
    """The ranks of a job that run at the same time, and their run directory."""

    processes: tuple[subprocess.Popen[str], ...]
    run_dir: Path

    def ended(self) -> tuple[list[int], str]:
        """Wait: the exit codes by rank, and what all have said."""
        texts = [process.communicate(timeout=600)[0] for process in self.processes]
        return [process.returncode for process in self.processes], "".join(texts)

    def events(self, kind: str) -> list[dict[str, Any]]:
        path = self.run_dir / "metrics.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [line for line in lines if line["event"] == kind]


def free_port() -> str:
    """A port that nobody uses now: other tests, also of another checkout, may run beside these."""
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return str(listener.getsockname()[1])


def start(job: str, run_dir: Path, *arguments: str, size: int = 1, **extra: str) -> Started:
    """Start the ranks of a job as the script of a run does. extra: more variables."""
    return start_program(job, ROOT / "jobs" / job / "train.py", run_dir, *SMALL, *arguments, size=size, **extra)


def start_program(job: str, program: Path, run_dir: Path, *arguments: str, size: int, **extra: str) -> Started:
    """Start ranks in the environment of a job; they need nothing but the variables of the contract."""
    python = MAKERS[job]() / "bin" / "python"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HPCLAUNCH_", "SLURM_", "OMPI_"))}
    processes = []
    port = free_port()
    for rank in range(size):
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "NODE_RANK": 0}
        told = {
            **{name: str(number) for name, number in place.items()},
            "MASTER_ADDR": "localhost",
            "MASTER_PORT": port,
            "JAX_COORDINATOR_ADDRESS": f"localhost:{port}",
        }
        own = {"HPCLAUNCH_RUN_DIR": str(run_dir), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        processes.append(
            subprocess.Popen(
                [str(python), str(program), *arguments],
                env={**kept, **told, **own, **extra},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    return Started(tuple(processes), run_dir)


@pytest.mark.parametrize(("job", "size"), [("ddp", 2), ("jax", 1)])
def test_a_job_trains_and_every_rank_reads_its_own_images(job: str, size: int, tmp_path: Path) -> None:
    run = start(job, tmp_path, "--epochs=3", size=size)
    codes, text = run.ended()
    assert codes == [0] * size, text
    (begun,) = run.events("start")
    assert (begun["job"], begun["world_size"], begun["global_batch_size"]) == (job, size, 64 * size)
    (told,) = run.events("shards")
    assert sum(row["samples"] for row in told["shards"]) == 640
    assert len({row["sha256"] for row in told["shards"]}) == size
    losses = [line["loss"] for line in run.events("epoch")]
    assert len(losses) == 3 and losses[-1] < losses[0]
    for line in run.events("epoch"):
        parts, own = line["step_seconds"], line["step_seconds_by_rank"]
        assert len(own) == size and (parts["communication"] > 0) == (size > 1)
        assert parts["compute"] + parts["input"] == pytest.approx(sum(own) / size, abs=1e-5)
    (end,) = run.events("end")
    assert end["test_samples"] == 160 and end["test_accuracy"] > 0.2


# On the cluster tests/slurm/test_frameworks.py asks a run of ddp to stop, too. An epoch of jax takes long.
@pytest.mark.long_tier
@pytest.mark.parametrize(("job", "size", "epochs"), [("ddp", 2, 12), ("jax", 1, 6)])
def test_a_job_that_is_asked_to_stop_saves_and_continues_like_one_that_was_not(
    job: str, size: int, epochs: int, tmp_path: Path
) -> None:
    whole = start(job, tmp_path / "whole", f"--epochs={epochs}", size=size)
    assert whole.ended()[0] == [0] * size
    run = start(job, tmp_path / "parts", f"--epochs={epochs}", size=size)
    while not run.events("epoch"):
        assert run.processes[0].poll() is None, run.ended()
        time.sleep(0.02)
    run.processes[-1].send_signal(signal.SIGTERM)  # one rank is enough: they agree
    codes, text = run.ended()
    assert set(codes) == {75} and text.count("asked to stop; saved") == 1, text
    before = len(run.events("epoch"))
    assert before < epochs
    codes, text = start(job, tmp_path / "parts", f"--epochs={epochs}", size=size).ended()
    assert set(codes) == {0} and text.count("resuming from") == 1, text
    losses = {line["epoch"]: line["loss"] for line in run.events("epoch")}
    assert sorted(losses) == list(range(1, epochs + 1))
    # The order of the images, the weights and the optimizer are those of the run that was never asked.
    expected = {line["epoch"]: line["loss"] for line in whole.events("epoch")}
    later = [epoch for epoch in losses if epoch > before + 1]  # the resumed epoch reports the rest of its steps
    assert [losses[epoch] for epoch in later] == pytest.approx([expected[epoch] for epoch in later], rel=1e-3)


@pytest.mark.parametrize(("job", "size"), [("ddp", 2), pytest.param("jax", 1, marks=pytest.mark.long_tier)])
def test_a_job_that_comes_back_while_a_later_start_trains_changes_nothing(job: str, size: int, tmp_path: Path) -> None:
    def start_number(number: int) -> Started:
        (tmp_path / "claims" / str(number)).touch()
        failure = tmp_path / f"failure-{number}"
        variables = {"HPCLAUNCH_START": str(number), "HPCLAUNCH_EXIT_FILE": str(failure)}
        return start(job, tmp_path, "--epochs=4", size=size, **variables)

    def content() -> dict[str, bytes]:
        files = [tmp_path / "metrics.jsonl", *(tmp_path / "checkpoints").glob("step-*/*")]
        return {str(path.relative_to(tmp_path)): path.read_bytes() for path in files}

    (tmp_path / "claims").mkdir()
    first = start_number(1)
    while not first.events("checkpoint"):
        assert first.processes[0].poll() is None, first.ended()
        time.sleep(0.02)
    for process in first.processes:  # its node is cut off
        process.send_signal(signal.SIGSTOP)
    later = start_number(2)
    codes, text = later.ended()
    assert set(codes) == {0} and "resuming from" in text, text
    before = content()
    for process in first.processes:
        process.send_signal(signal.SIGCONT)
    codes, text = first.ended()
    assert (codes, (tmp_path / "failure-1").read_text()) == ([75] * size, "75\n"), text
    assert text.count("start 1 of this run ends here and writes nothing more") == 1 and "Traceback" not in text, text
    assert content() == before and len(before) == 1 + 2 * (2 + size)  # the log, and the later start's checkpoints
    epochs = [line["epoch"] for line in later.events("epoch")]
    assert len(epochs) == len(set(epochs)) and epochs[-1] == 4
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("train")) == ["trained", "training"]
    whole = start(job, tmp_path / "whole", "--epochs=4", size=size)
    assert whole.ended()[0] == [0] * size
    expected = {line["epoch"]: line["loss"] for line in whole.events("epoch")}
    assert [line["loss"] for line in later.events("epoch")] == pytest.approx([expected[n] for n in epochs], rel=1e-3)


@pytest.mark.parametrize(("job", "size"), [("ddp", 2), ("jax", 1)])
def test_a_program_of_ones_own_trains_on_its_own_arrays(job: str, size: int, tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    features = random.normal(size=(200, 3)).astype(np.float32)
    price = features @ np.array([1.0, -2.0, 0.5], np.float32) + 3
    np.savez(tmp_path / "houses.npz", features=features, price=price)
    program = PROGRAMS / ("houses_torch.py" if job == "ddp" else "houses_jax.py")
    run = start_program(job, program, tmp_path, f"--data-dir={tmp_path / 'houses.npz'}", size=size)
    codes, text = run.ended()
    assert codes == [0] * size, text
    (begun,), (end,) = run.events("start"), run.events("end")
    assert (begun["job"], begun["world_size"]) == (program.stem, size)
    assert end["test_samples"] == 20 and end["test_mae"] < 0.1 and end["test_mse"] < 0.02, end


PHASES = [("step", "wait", "the first step")]
if LONG:
    PHASES += [
        ("data", "stop", "the opening of the data"),
        ("evaluation", "stop", "the evaluation"),
        ("exit", "wait", "the end of the program"),
    ]


@pytest.mark.parametrize(("place", "how", "phase"), PHASES)
def test_a_rank_of_pytorch_that_hangs_ends_the_run(place: str, how: str, phase: str, tmp_path: Path) -> None:
    run = start_program("ddp", PROGRAMS / "hanging.py", tmp_path, place, how, size=2)
    other, hanging = run.processes
    text = other.communicate(timeout=300)[0]
    assert (tmp_path / "hangs").exists(), text
    hanging.kill()
    hanging.communicate()
    assert (other.returncode, f"in {phase}: a rank hangs" in text) == (1, True), text


@pytest.mark.parametrize("group", ["own", pytest.param("default", marks=pytest.mark.long_tier)])
def test_a_rank_of_pytorch_ends_well_while_gloo_still_holds_tensors(group: str, tmp_path: Path) -> None:
    codes, text = start_program("ddp", PROGRAMS / "late_worker.py", tmp_path, group, size=2).ended()
    assert codes == [0, 0], text  # 134 (SIGABRT) without the handler of torch_ranks


def test_the_figures_of_ddp_are_those_of_its_model() -> None:
    figures = yaml.safe_load((ROOT / "jobs" / "ddp" / "job.yaml").read_text())["training"]["figures"]
    code = (
        "import json, sys; sys.path.insert(0, sys.argv[1]); from train import mini_resnet; model = mini_resnet(); "
        "buffers = [b for b in model.buffers() if b.is_floating_point()]; "
        "print(json.dumps([sum(p.numel() for p in model.parameters()), sum(b.numel() for b in buffers), "
        "max(sum(p.numel() for p in m.parameters(recurse=False)) for m in model.modules())]))"
    )
    python = torch_environment() / "bin" / "python"
    done = subprocess.run(
        [str(python), "-c", code, str(ROOT / "jobs" / "ddp")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    names = ("parameters", "fixed_parameters", "largest_layer")
    assert json.loads(done.stdout) == [figures[name] for name in names]
