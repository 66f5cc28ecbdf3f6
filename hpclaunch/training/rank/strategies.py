"""TensorFlow's own strategies instead of Horovod: the replicas of a rank, and how ranks find each other over gRPC.

Horovod is neither needed nor loaded (strategy_ranks).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import socket
from typing import Any, ContextManager, MutableMapping

from hpclaunch.training.rank import replica_data
from hpclaunch.training.rank.failure import AgreedError, TrainingError
from hpclaunch.training.rank.world import World

HOROVOD, MIRRORED, MULTIWORKER = "horovod", "mirrored", "multiworker"
CENTRAL_STORAGE, ONE_DEVICE = "central-storage", "one-device"
NAMES = (HOROVOD, MIRRORED, MULTIWORKER, CENTRAL_STORAGE, ONE_DEVICE)
ONE_PROCESS = (MIRRORED, CENTRAL_STORAGE, ONE_DEVICE)
ONE_GPU = (HOROVOD, ONE_DEVICE)  # of each process
_SERVERS = (
    "servers update the variables asynchronously and over gRPC, which the guidelines of distributed training decline "
    "on HPC; use horovod, or central-storage on one node"
)
IMPOSSIBLE = {  # the launcher refuses the same names (hpclaunch/resolve/strategies.py)
    "parameterserver": _SERVERS,
    "parameterservers": _SERVERS,
    "ps": _SERVERS,
    "tpu": "there are no TPUs at sites with Slurm; use horovod on GPUs or CPUs",
}
WORKERS_VARIABLE = "HPCLAUNCH_WORKERS"
WARNING = (
    "warning: multiworker's ranks communicate over gRPC (between GPUs, NCCL may carry the gradients): TCP sockets "
    "without the interconnect's RDMA, and ports of their own. "
    "The guidelines of distributed training decline it on HPC; it is here for comparison with --strategy=horovod"
)


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add --strategy to a job's parser."""
    parser.add_argument(
        "--strategy",
        type=_strategy_name,
        choices=NAMES,
        default=HOROVOD,
        help="what averages gradients: Horovod; MirroredStrategy, in one process with all GPUs of its node; "
        "MultiWorkerMirroredStrategy, over gRPC; or in one process CentralStorageStrategy, whose variables are in the "
        "node's memory, and OneDeviceStrategy, on one GPU",
    )


def _strategy_name(name: str) -> str:
    """The name as it is; raises ArgumentTypeError for a strategy that cannot be here."""
    plain = re.sub(r"strategy(v\d+)?$", "", re.sub(r"[-_\s]", "", name.rpartition(".")[2].lower()))
    if plain in IMPOSSIBLE:
        raise argparse.ArgumentTypeError("{}: {}".format(name, IMPOSSIBLE[plain]))
    return name


def begin(name: str, rank: int, size: int, local_rank: int) -> Any:
    """The tf.distribute.Strategy of this process, on the GPUs that it may use, else its CPUs. name: not HOROVOD.

    Call it before TensorFlow runs any operation, after which multiworker could not start its server any more.
    Raises TrainingError on the failing rank alone; the others would wait for it, but the launcher ends them.
    """
    if name in ONE_PROCESS and size > 1:
        raise AgreedError(
            "{} is one process with {} of its node, but {} ranks were started: start one task, or use "
            "--strategy=multiworker".format(name, "one GPU" if name in ONE_GPU else "all GPUs", size),
            speaks=rank == 0,  # every rank raises it
        )
    import tensorflow as tf

    replica_data.leave_untuned(tf)
    os.environ.pop("TF_CONFIG", None)  # one from elsewhere would make TensorFlow wait for its workers
    if name in ONE_PROCESS:
        return _one_process_strategy(name, tf)
    if rank == 0:
        print(WARNING, flush=True)
    if size > 1 or "," in os.environ.get(WORKERS_VARIABLE, ""):
        workers = workers_of(os.environ.get(WORKERS_VARIABLE, ""), size)
        check_place(workers, rank, local_rank, socket.gethostname())
        check_port(workers[rank])
        tell_tensorflow(os.environ, workers, rank)
    return tf.distribute.MultiWorkerMirroredStrategy()


def _one_process_strategy(name: str, tf: Any) -> Any:
    """The strategy of a single process, on its GPUs or on its CPU devices."""
    if name == MIRRORED:
        return tf.distribute.MirroredStrategy()
    devices = [one.name for one in tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")]
    if name == ONE_DEVICE:
        return tf.distribute.OneDeviceStrategy(devices[0])
    # Several replicas read the variables from the processor's memory; a single GPU holds them itself.
    return tf.distribute.experimental.CentralStorageStrategy(
        compute_devices=devices, parameter_device="/CPU:0" if len(devices) > 1 else devices[0]
    )


def workers_of(addresses: str, size: int) -> list[str]:
    """HOST:PORT of every rank, by rank, from HPCLAUNCH_WORKERS; raises TrainingError unless there is one for each."""
    workers = addresses.split(",") if addresses else []
    if len(workers) != size or len(set(workers)) != size or not all(re.fullmatch(r"[^:,\s]+:\d+", w) for w in workers):
        raise TrainingError(
            "multiworker needs an address for each of {} ranks: {}={!r} should be HOST:PORT,HOST:PORT,… by rank, "
            "all different. The scripts of hpclaunch submit --strategy multiworker set it.".format(
                size, WORKERS_VARIABLE, addresses
            )
        )
    return workers


def check_place(workers: list[str], rank: int, local_rank: int, host: str) -> None:
    """Raise TrainingError unless `workers` (HOST:PORT by rank) has the order in which the launcher has placed ranks.

    host: this machine's name. It is used only if another rank's host has that name: a machine may have several names.
    """
    hosts = [worker.rsplit(":", 1)[0] for worker in workers]
    short, own = [name.partition(".")[0] for name in hosts], host.partition(".")[0]
    if own in short and short[rank] != own:
        raise TrainingError(
            "rank {} is on {}, but {} says that it is on {}: the launcher uses the hosts in another order. Submit "
            "with another --launcher.".format(rank, host, WORKERS_VARIABLE, hosts[rank])
        )
    meant = hosts[:rank].count(hosts[rank])
    if meant != local_rank:
        raise TrainingError(
            "rank {} is local rank {} on its host, but {} says local rank {} on {}: the launcher does not fill one "
            "host after the other. Submit with another --launcher, or one task per node.".format(
                rank, local_rank, WORKERS_VARIABLE, meant, hosts[rank]
            )
        )


def tf_config(workers: list[str], rank: int) -> str:
    """TF_CONFIG of a rank: all are workers, the first is TensorFlow's chief (TFConfigClusterResolver)."""
    return json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}})


def tell_tensorflow(environ: MutableMapping[str, str], workers: list[str], rank: int) -> None:
    """Set the variables of TensorFlow and gRPC: TF_CONFIG, and the hosts to reach without a proxy.

    For all other hosts gRPC uses http_proxy, which many centres set on their nodes: ranks would wait for ever (gRPC's
    environment_variables.md: no_grpc_proxy, else no_proxy).
    """
    environ["TF_CONFIG"] = tf_config(workers, rank)
    environ["no_grpc_proxy"] = ",".join(dict.fromkeys(worker.rsplit(":", 1)[0] for worker in workers))


def check_port(worker: str) -> None:
    """Raise TrainingError if this rank cannot listen at the port of `worker` (HOST:PORT): TensorFlow would abort."""
    port = int(worker.rsplit(":", 1)[1])
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            raise TrainingError(
                "port {} of {} cannot be used ({}): another program uses it. Submit the job again: it gets "
                "other ports".format(port, socket.gethostname(), error.strerror)
            ) from None


def scope(world: World) -> ContextManager[Any]:
    """The scope in which model and optimizer are made: the strategy's, so that every replica has its own variables."""
    return contextlib.nullcontext() if world.distribute is None else world.distribute.scope()


def faults(asked: Any) -> list[str]:
    """Why these options do not work with a strategy of TensorFlow, one sentence each: they need Horovod's gradients."""
    if asked.strategy == HOROVOD:
        return []
    horovods = [
        (asked.accumulation > 1, "--accumulation above 1"),
        (asked.xla, "--xla=true"),
        (asked.adasum, "--adasum=true"),
        (asked.shard_optimizer, "--shard-optimizer=true"),
        (getattr(asked, "tensor_parallel", 1) > 1, "--tensor-parallel above 1"),
        (getattr(asked, "pipeline_stages", 1) > 1, "--pipeline-stages above 1"),
        (asked.compression != "none", "--compression"),
        (asked.scale_learning_rate == "adascale", "--scale-learning-rate=adascale"),
        (getattr(asked, "gradient_lag", False), "--gradient-lag=true"),
        (getattr(asked, "ema_decay", 0.0) > 0, "--ema-decay"),
        (getattr(asked, "update_groups", 1) > 1, "--update-groups above 1"),
        (getattr(asked, "batch_norm", "none") in ("ghost", "synchronized"), "--batch-norm=ghost or synchronized"),
    ]
    found = ["{} needs --strategy=horovod".format(option) for used, option in horovods if used]
    if asked.precision != "float32" and asked.strategy == CENTRAL_STORAGE:
        found.append(
            "Keras has no mixed precision for --strategy=central-storage: use --precision=float32, or "
            "--strategy=mirrored"
        )
    return found


def alone(model: Any, world: World) -> Any:
    """A model with the same weights that belongs to no strategy, for work that each rank does alone. A collective.

    A model of a strategy averages batch norm's statistics over all replicas in every call, so ranks with different
    numbers of test batches would wait for ever.
    """
    if world.distribute is None:
        return model
    import tensorflow as tf

    copy = tf.keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    return copy
