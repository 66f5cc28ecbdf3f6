"""Starts a rank: Horovod or a strategy of TensorFlow, its GPU, threads and seeds; it builds no model, reads no data."""

from __future__ import annotations

import os
import platform
import random
import socket
import sys
from dataclasses import replace
from typing import MutableMapping

from hpclaunch.training.input.shards import stream_seed
from hpclaunch.training.model_parallel import groups
from hpclaunch.training.model_parallel.mesh import Division
from hpclaunch.training.rank import allocator, keras_version, own_place, placement, stopping, strategies, watch
from hpclaunch.training.rank.failure import TrainingError
from hpclaunch.training.rank.horovod import hvd, load
from hpclaunch.training.rank.world import World

WHOLE = Division()


def start(
    job: str,
    seed: int,
    strategy: str = strategies.HOROVOD,
    stall_minutes: float = 0.0,
    division: Division = WHOLE,
) -> World:
    """Initialise this rank, and Horovod or a strategy of TensorFlow.

    job: the name of the output folder of a run without a launcher. seed: as typed. strategy: one of strategies.NAMES.
    stall_minutes: end the run when it has not progressed for so long (rank.watch), from now to its end; 0: never.
    division: how the ranks divide the model.
    Raises TrainingError if the world size is not the requested one, a promised GPU is missing, the ranks cannot be
    divided into groups that share a model, or the program has loaded Keras 3.
    """
    allocator.bound_arenas()
    stopping.watch()
    os.environ.setdefault(
        "TF_CPP_MIN_LOG_LEVEL", "1"
    )  # else a notice about CPU features from every rank hides the progress
    prefer_onednn(os.environ, platform.machine())
    _check_tensorflow()
    world = (
        _start_horovod(job, stall_minutes, division)
        if strategy == strategies.HOROVOD
        else _start_strategy(job, strategy, stall_minutes)
    )
    world.together(lambda: os.makedirs(world.run_dir, exist_ok=True))
    _report_untried(world)
    _set_seeds(seed, world.data_rank)
    return world


def _start_horovod(job: str, stall_minutes: float, division: Division) -> World:
    load("horovod.tensorflow")
    mesh = groups.start(hvd, division, os.environ)
    watch.begin(stall_minutes * 60)
    world = World(
        rank=hvd.rank(),
        size=hvd.size(),
        local_rank=hvd.local_rank(),
        local_size=hvd.local_size(),
        host=socket.gethostname(),
        device="",
        threads=own_place.threads(os.environ, hvd.local_size()),
        run_dir=own_place.run_dir(os.environ, job),
        mesh=mesh,
    )
    # Threads and GPU are set before the first collective, because TensorFlow reads them only once.
    _set_threads(world.threads)
    device = world.together(lambda: _device_of(world, hvd.mpi_built()))
    return replace(world, device=device)


def _start_strategy(job: str, strategy: str, stall_minutes: float) -> World:
    from hpclaunch.training.rank import strategy_ranks  # which tells `failure` that ranks end without Horovod

    place = strategy_ranks.place(os.environ, job)
    watch.begin(stall_minutes * 60)
    _set_threads(place["threads"])
    # Not together: the strategy's server must start before the first operation, and with it ranks can agree.
    device = _pin_gpus(place["local_rank"], place["local_size"], strategy)
    distribute = strategies.begin(strategy, place["rank"], place["size"], place["local_rank"])
    world = strategy_ranks.StrategyWorld(**place, device=device, distribute=distribute)
    strategy_ranks.begin(world)
    return world


def _check_tensorflow() -> None:
    try:
        import tensorflow as tf
    except ImportError as error:
        raise TrainingError("TensorFlow cannot be imported by {}: {}.".format(sys.executable, error)) from error
    # Horovod loads tf.keras, too. What it has loaded says nothing about the program, of which fit and loop will ask.
    if keras_version.is_loaded_keras_3(tf) and "horovod.tensorflow" not in sys.modules:
        raise TrainingError(keras_version.refusal(tf.__version__))


def _report_untried(world: World) -> None:
    import tensorflow as tf

    line = keras_version.untried(tf.__version__)
    if line and world.is_root:
        print("warning: " + line, file=sys.stderr, flush=True)


def _device_of(world: World, mpi_built: bool) -> str:
    placement.check_world_size(placement.expected_world_size(os.environ), world.size, mpi_built)
    return _pin_gpus(world.local_rank, world.local_size, strategies.HOROVOD)


def _pin_gpus(local_rank: int, local_size: int, strategy: str) -> str:
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    own_place.check_gpus(os.environ, len(gpus), "TensorFlow", tf.__version__)
    choose = placement.choose_gpu if strategy in strategies.ONE_GPU else placement.choose_gpus
    bound = placement.is_bound(os.environ, local_rank)
    choice = choose(len(gpus), local_rank, local_size, bound)
    own = [gpus[index] for index in choice.indices]
    if own:
        tf.config.set_visible_devices(own, "GPU")
    for gpu in own:
        tf.config.experimental.set_memory_growth(gpu, True)
    return choice.why


def _set_threads(threads: int) -> None:
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    # Two threads: one operation computes while another waits for Horovod or the input pipeline.
    tf.config.threading.set_inter_op_parallelism_threads(2)


def _set_seeds(seed: int, data_rank: int) -> None:
    import numpy as np
    import tensorflow as tf

    # Every rank draws different dropout masks, but those that share a model draw the same ones. The weights do not
    # depend on the rank: those of rank 0 are broadcast.
    own = stream_seed(seed, "rank", data_rank)
    random.seed(own)
    np.random.seed(own)
    tf.random.set_seed(own)
    # Layers such as Dropout then keep their random state in variables, which a checkpoint can contain.
    if keras_version.is_keras_2(tf):
        tf.keras.backend.experimental.enable_tf_random_generator()


def prefer_onednn(environ: MutableMapping[str, str], machine: str) -> None:
    """Let TensorFlow compute with oneDNN on every x86-64 processor; call this before TensorFlow is imported.

    By default TensorFlow uses it only on processors with AVX-512 VNNI (IsMKLEnabled in tsl/util/util.cc). On one with
    AVX2 the cifar job is 1.4 times as fast with it (docs/measurements.md). It changes nothing on a GPU. Sums are
    added in another order, so that the last digits of float32 differ. Other architectures, which are untested, keep
    TensorFlow's default.
    """
    if machine in ("x86_64", "AMD64"):
        environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
