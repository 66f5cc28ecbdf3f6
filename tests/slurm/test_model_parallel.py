"""Models that fit no GPU of a real cluster whose GPUs pretend to be small: planned, trained, preempted, continued."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import shutil
from pathlib import Path

import pytest

from tests.slurm.desk import Desk, Submitted, until

JOB = Path(__file__).resolve().parents[2] / "jobs" / "transformer"
# Runs train.py with a note of every step's loss, in a file of its own for every start. At some steps the ranks wait to
# be asked to stop, so that this happens where the test expects it, however busy the machine is.
NOTING = """
import json, os, runpy, time
from hpclaunch import training
from hpclaunch.training.program.fit import fit
from hpclaunch.training.rank import stopping

folder = os.environ["HPCLAUNCH_RUN_DIR"]
start = os.environ["SLURM_JOB_ID"] + "-" + os.environ["HPCLAUNCH_RESTART_COUNT"]
waits = [int(step) for step in os.environ["TEST_WAITS_AT"].split()]


def noting(run, network, data, **wanted):
    import tensorflow as tf

    losses = []

    class Noting(tf.keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            losses.append(sum(run.world.gather(float(logs["loss"]))) / run.size)
            self.model.reset_metrics()  # else Keras's loss is the mean over the epoch
            if run.is_root:
                name = os.path.join(folder, "losses-" + start + ".json")
                with open(name + ".new", "w") as file:
                    json.dump(losses, file)
                os.replace(name + ".new", name)
            step = int(self.model.optimizer.iterations)
            if step in waits:
                open(os.path.join(folder, "waits-" + str(step)), "w").close()
                while not stopping.is_asked():
                    time.sleep(0.05)

    return fit(run, network, data, callbacks=[Noting()], **wanted)


training.fit = noting
runpy.run_path(os.path.join(os.path.dirname(__file__), "train.py"), run_name="__main__")
"""
MODEL = {"layers": 4, "heads": 4, "context": 8, "vocabulary": 512, "batch_size_per_rank": 2}
RECIPES = {
    "one-gpu": {"hidden": 32},
    "one-node": {"hidden": 136},
    "several-nodes": {"hidden": 136},
    "several-nodes-and-data": {"hidden": 136, "corpus_tokens": 10_000_000},
}
EPOCH = 16  # steps
MIDDLE, END = 6, 2 * EPOCH  # the steps of three epochs at which the ranks are asked to stop
TRAINED = ("--synthetic", "--walltime", "20m", "--set", "epochs=3", "--set", "synthetic_samples=16")
FOUR = ("--nodes", "4", *TRAINED)
pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def small(desk: Desk) -> Desk:
    """A desk with GPUs of 11 MB on nodes of 10 MB: one of them, or two, on every node; and with presets beside them."""
    import yaml

    gpus = {"node_types__gpu__stand_in_gpu_memory": "11M", "node_types__gpu__stand_in_node_memory": "10M"}
    for number in (1, 2):
        desk.site(f"small-{number}", node_types__gpu__gpus_per_node=number, **gpus)
    desk.site("large", node_types__gpu__gpus_per_node=1)
    shutil.copytree(JOB, desk.folder / "jobs" / "transformer", ignore=shutil.ignore_patterns("__pycache__"))
    (desk.folder / "jobs/transformer/noting.py").write_text(NOTING)
    job = yaml.safe_load((JOB / "job.yaml").read_text())
    recipes = {name: {"summary": "a test", "settings": {**MODEL, **own}} for name, own in RECIPES.items()}
    job |= {"script": "noting.py", "recipes": recipes}
    (desk.folder / "jobs/transformer/job.yaml").write_text(json.dumps(job))
    return desk


def reasons(desk: Desk, *arguments: str) -> list[str]:
    """Why the planner has the ranks hold the model as they do: three lines that submit -v shows."""
    done = desk.run("submit", "transformer", *FOUR, *arguments, "--dry-run", "-v")
    assert done.returncode == 0, done.stderr
    lines = [line.strip() for line in done.stderr.splitlines()]
    first = next(number for number, line in enumerate(lines) if "does not hold the model" in line)
    return lines[first : first + 3]


LAYOUTS = {
    "one-node": (
        "small-2",
        "tensor parallel: every 2 ranks of gpu hold a replica,",
        "data parallel: a replica needs one node, and the data set fits one node",
    ),
    "several-nodes": (
        "small-1",
        "model parallel: every 4 ranks of gpu hold a replica,",
        "model parallel: a replica needs several nodes, and the data set fits one node",
    ),
    "several-nodes-and-data": (
        "small-1",
        "model-data parallel: every 2 ranks of gpu hold a replica,",
        "model-data parallel: a replica needs several nodes, and the data set does not fit one node",
    ),
}
"""Preset -> the site, the beginning of the second line, and the third one. Nodes of small-2 have two GPUs."""


@pytest.mark.parametrize("preset", LAYOUTS)
def test_the_planner_says_in_three_lines_why_ranks_share_a_model(small: Desk, preset: str) -> None:
    site, held, kind = LAYOUTS[preset]
    lines = reasons(small, "--site", site, "--recipe", preset)
    assert lines[0].startswith("one rank of gpu does not hold the model: ")
    assert lines[1].startswith(held) and ("tensor_parallel=" in lines[1] or "pipeline_stages=" in lines[1])
    assert lines[2] == kind


def test_a_model_that_one_gpu_holds_is_data_parallel(small: Desk) -> None:
    done = small.run("submit", "transformer", *FOUR, "--site", "small-1", "--recipe", "one-gpu", "--dry-run", "-v")
    assert (
        "does not hold the model" not in done.stderr
        and "tensor-parallel" not in done.stdout
        and "pipeline-stages" not in done.stdout
    )
    assert "B = 8 = 4 ranks x 2 samples" in done.stderr


def test_no_layout_holds_a_model_that_is_too_large(small: Desk) -> None:
    typed = (*FOUR, "--site", "small-1", "--recipe", "several-nodes", "--set", "hidden=1024")
    done = small.run("submit", "transformer", *typed)
    assert done.returncode == 1 and "the model of transformer does not fit the memory of small-1" in done.stderr
    whole = small.run("submit", "transformer", *typed[:-2], "--set", "tensor_parallel=1", "--set", "pipeline_stages=1")
    assert whole.returncode == 1 and "does not fit" in whole.stderr


@dataclasses.dataclass(frozen=True)
class Case:
    """``site``: where the ladder must divide the model. Copies of the model, on four nodes and on the two that the run
    continues on; with as many, every copy keeps its samples. ``shared``: the ranks that share one, before and then."""

    site: str
    copies: int
    copies_on_two: int
    shared: tuple[int, int]

    @property
    def samples(self) -> int:
        """As many as make an epoch."""
        return EPOCH * self.copies * MODEL["batch_size_per_rank"]


CASES = {
    "several-nodes": Case("small-1", 1, 1, (4, 2)),
    "several-nodes-and-data": Case("small-1", 2, 1, (2, 2)),
    "one-node": Case("small-2", 4, 2, (2, 2)),
}


def test_two_nodes_share_a_model_and_train(small: Desk) -> None:
    if importlib.util.find_spec("horovod") is None:
        pytest.skip("group horovod: needs TensorFlow and Horovod (the extra train)")
    words = ("--nodes", "2", "--site", "small-1", "--set", "epochs=1")
    run = train(small, "several-nodes", CASES["several-nodes"], *words, waits=[])
    small.wait(run, seconds=600)
    assert small.ended(run) == "COMPLETED 0:0", run.log()
    (start,) = run.metrics("start")
    assert (start["world_size"], start["replicas"]) == (2, 1)
    assert start["options"]["tensor_parallel"] * start["options"]["pipeline_stages"] == 2
    ((*losses,),) = losses_of(run)
    assert len(losses) == EPOCH and losses[-1] < losses[0]


@pytest.mark.long_tier
@pytest.mark.parametrize("preset", CASES)
def test_it_is_preempted_goes_on_and_continues_on_half_of_the_nodes_with_the_same_losses(
    small: Desk, preset: str
) -> None:
    """Those of whole models on nodes of which each holds one, and which change their number at the same step."""
    if importlib.util.find_spec("horovod") is None:
        pytest.skip("group horovod: needs TensorFlow and Horovod (the extra train)")
    case = CASES[preset]
    changes = case.copies != case.copies_on_two
    run = train(small, preset, case, "--nodes", "4", "--site", case.site, "--restarts", "1", waits=[MIDDLE, END])
    whole = ("--nodes", str(case.copies), "--site", "large", "--restarts", "1")
    ask_to_stop(small, run, MIDDLE)
    ask_to_stop(small, run, END)
    small.wait(run, seconds=600)
    # Not earlier: it waits on nodes that the first one needs.
    expected = train(small, preset, case, *whole, waits=[MIDDLE, END] if changes else [])
    assert small.ended(run) == "FAILED 75:0", run.log()
    assert "saved; requeueing the job" in run.log() and "its limit is 1 restart" in run.log()
    run = resume(small, run, 2)
    if changes:
        ask_to_stop(small, expected, MIDDLE)
        ask_to_stop(small, expected, END)
        small.wait(expected, seconds=600)
        expected = resume(small, expected, case.copies_on_two)
    small.wait(run, expected, seconds=600)
    assert small.ended(run) == small.ended(expected) == "COMPLETED 0:0", run.log() + expected.log()
    starts = run.metrics("start")
    options = [start["options"] for start in starts]
    found = [each["tensor_parallel"] * each["pipeline_stages"] for each in options]
    assert found == [start["world_size"] // start["replicas"] for start in starts] == [case.shared[0], *case.shared]
    assert [start["replicas"] for start in starts] == [case.copies, case.copies, case.copies_on_two]
    assert all(start["replicas"] == start["world_size"] for start in expected.metrics("start"))
    losses = [loss for start in losses_of(run) for loss in start]
    assert losses == pytest.approx([loss for start in losses_of(expected) for loss in start], rel=1e-6)
    assert len(losses) == 3 * EPOCH
    assert sum(losses[-EPOCH:]) < sum(losses[:EPOCH])


def train(desk: Desk, preset: str, case: Case, *arguments: str, waits: list[int]) -> Submitted:
    steps = " ".join(map(str, waits))
    words = (*TRAINED, "--recipe", preset, "--env", f"TEST_WAITS_AT={steps}", *arguments)
    return desk.submit("transformer", *words, "--", f"--train-samples={case.samples}")


def resume(desk: Desk, run: Submitted, nodes: int) -> Submitted:
    done = desk.run("resume", run.path.name, "--nodes", str(nodes), "--json")
    assert done.returncode == 0, done.stderr
    return Submitted(path=run.path, job_id=json.loads(done.stdout)["job_id"])


def losses_of(run: Submitted) -> list[list[float]]:
    """The losses of each start, in the order of the starts."""
    files = sorted(run.path.glob("losses-*.json"), key=lambda file: file.stat().st_mtime)
    return [json.loads(file.read_text()) for file in files]


def ask_to_stop(desk: Desk, run: Submitted, step: int) -> None:
    """Send the signal of the walltime when the ranks wait for it at this step."""
    until((run.path / f"waits-{step}").exists, f"step {step}: {run.log()}", 600)
    desk.slurm("scancel", "--batch", "--signal=USR2", run.job_id)
