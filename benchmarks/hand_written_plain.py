"""The jobs ddp and jax, and the loops that one would write by hand in their place, for hand_written_loop.py."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import socket
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
JOBS = {"torch": "ddp", "jax": "jax"}


def places(ranks: int) -> list[dict[str, str]]:
    """The variables by which the ranks of PyTorch and JAX find each other, a dictionary for each rank."""
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        port = str(listener.getsockname()[1])
    shared = {"WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "NODE_RANK": 0, "MASTER_ADDR": "localhost"}
    # JAX takes the port of its coordinator from the number of the job, so each side needs its own.
    shared |= {"MASTER_PORT": port, "SLURM_JOB_ID": port, "SLURM_STEP_NODELIST": "localhost"}
    shared |= {"SLURM_NTASKS": ranks}
    own = [{"RANK": n, "LOCAL_RANK": n, "SLURM_PROCID": n, "SLURM_LOCALID": n} for n in range(ranks)]
    return [{name: str(value) for name, value in {**shared, **one}.items()} for one in own]


def job(framework: str, turns: Any, data_dir: str, batch_size: int) -> None:
    """Train as jobs/ddp/train.py or jobs/jax/train.py does, for more epochs."""
    training = importlib.import_module("hpclaunch.training.on_" + {"torch": "pytorch", "jax": "jax"}[framework])
    step = training.Loop.step

    def counted(loop: Any, *made: Any) -> None:
        step(loop, *made)
        turns.step_ended()

    training.Loop.step = counted
    words = [f"--data-dir={data_dir}", f"--batch-size-per-rank={batch_size}", "--epochs=100000", "--optimizer=adam"]
    name = JOBS[framework]
    settings = training.settings("", str(ROOT / "jobs" / name / "train.py"), words)
    with training.start(settings, name) as run:
        turns.begin()
        _program(framework).train(run)


def loop(framework: str, turns: Any, data_dir: str, batch_size: int) -> None:
    """The minimal loop."""
    {"torch": _loop_of_torch, "jax": _loop_of_jax}[framework](turns, data_dir, batch_size)


def _program(framework: str) -> Any:
    """The job's program, of which the loops have the model alone."""
    path = ROOT / "jobs" / JOBS[framework] / "train.py"
    spec = importlib.util.spec_from_file_location("train", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _samples(data_dir: str, rank: int, size: int) -> tuple[Any, Any]:
    import numpy as np

    with np.load(Path(data_dir, "cifar10.npz")) as file:
        images, labels = (file[name][rank::size] for name in ("x_train", "y_train"))
    return images, labels.reshape(-1).astype(np.int64)


def _loop_of_torch(turns: Any, data_dir: str, batch_size: int) -> None:
    import torch
    import torch.distributed as dist

    rank, size = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE"))
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // size))
    model = _program("torch").mini_resnet()
    if size > 1:
        dist.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), 0.001)
    images, labels = map(torch.from_numpy, _samples(data_dir, rank, size))
    total = 0.0
    turns.begin()
    while True:
        for own in torch.randperm(len(labels)).split(batch_size):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images[own]), labels[own])
            loss.backward()
            optimizer.step()
            total += float(loss.detach())
            turns.step_ended()


def _loop_of_jax(turns: Any, data_dir: str, batch_size: int) -> None:
    import jax
    import numpy as np

    size = int(os.environ["WORLD_SIZE"])
    if size > 1:
        jax.distributed.initialize()
    program, rank = _program("jax"), jax.process_index()
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("ranks",))
    every, part = (jax.sharding.PartitionSpec(*names) for names in ((), ("ranks",)))

    def averaged(*batch: Any) -> Any:
        return jax.lax.pmean(jax.value_and_grad(program._loss)(*batch), "ranks")

    both = jax.shard_map(averaged, mesh=mesh, in_specs=(every, part, part), out_specs=(every, every), check_vma=False)

    @functools.partial(jax.jit, donate_argnums=0)
    def update(state: Any, inputs: Any, targets: Any, rate: Any) -> Any:
        return program.adam(both, state, inputs, targets, rate)

    def placed(array: Any, places: Any) -> Any:
        return jax.make_array_from_process_local_data(jax.sharding.NamedSharding(mesh, places), array)

    images, labels = _samples(data_dir, rank, size)
    labels = labels.astype(np.int32)
    state = jax.tree_util.tree_map(lambda one: placed(one, every), program.begin(1337))
    random, total = np.random.RandomState(rank), 0.0
    turns.begin()
    while True:
        order = random.permutation(len(labels))
        for first in range(0, len(order), batch_size):
            own = order[first : first + batch_size]
            batch = placed(images[own], part), placed(labels[own], part)
            state, loss = update(state, *batch, np.float32(0.001))
            total += float(loss)
            turns.step_ended()
