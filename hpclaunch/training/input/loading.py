"""Opens the data on all ranks together, and reports what each rank reads; every function here is a collective."""

from __future__ import annotations

import os
import platform
import traceback
from typing import Any, Callable

import numpy as np

from hpclaunch.training import options
from hpclaunch.training.input import datasets
from hpclaunch.training.input.shards import Shard
from hpclaunch.training.input.source import DataError, ImageSet, Source
from hpclaunch.training.metrics import MetricsLog
from hpclaunch.training.rank.failure import AgreedError, TrainingError, leave_if_superseded
from hpclaunch.training.rank.horovod import load
from hpclaunch.training.rank.world import World


def open_source(world: World, asked: Any, wanted: ImageSet) -> Source:
    """The data set of the options; all ranks fail together if one cannot open it or has other data than rank 0."""
    if asked.synthetic:
        from hpclaunch.training.input.synthetic import Synthetic

        if world.is_root:
            print(
                "SYNTHETIC DATA: made-up images of {}'s shape; accuracy says nothing about the real set".format(
                    wanted.name
                )
            )
        return Synthetic(wanted, asked.synthetic_samples, asked.seed)
    return open_folder(world, options.data_dir(asked.data_dir), wanted)


def open_folder(world: World, folder: str, wanted: ImageSet) -> Source:
    """The data set in `folder` or below it; fails as open_source does."""
    return agreed(world, lambda: datasets.open_dataset(folder, wanted))


def agreed(world: World, opens: Callable[[], Source]) -> Source:
    """The data set that `opens` opens, on every rank; fails as open_source does."""
    # Only rank 0 lists the folders: listings of thousands of ranks would overload a shared file system.
    source: Source = from_root(world, lambda: _readable(opens))
    fingerprint = world.together(lambda: source.fingerprint if world.is_root else _readable(source.fingerprint_here))
    seen = world.gather((fingerprint, world.host))
    others = [rank for rank, (fingerprint, _) in enumerate(seen) if fingerprint != seen[0][0]]
    if others:
        # Shards are positions in a list. If the list differed on a rank, they would overlap without any message.
        raise AgreedError(
            "{}: rank {} on {} sees other data than rank 0 on {}: copy the same data to every node".format(
                source.path, others[0], seen[others[0]][1], seen[0][1]
            ),
            speaks=world.is_root,
        )
    return source


def _readable(work: Callable[[], Any]) -> Any:
    """Run `work`; raises DataError for a file or folder that cannot be read, such as a broken link."""
    try:
        return work()
    except OSError as error:
        raise DataError(
            "{}: {}\n  next: make it readable on this host, or name another folder with --data-dir".format(
                error.filename, error.strerror
            )
        ) from None


def from_root(world: World, work: Callable[[], Any]) -> Any:
    """Run `work` on rank 0 only, and give its (picklable) result to every rank; if it fails, all ranks fail."""
    result, problem = None, None
    if world.is_root:
        try:
            result = work()
        except TrainingError as error:
            problem = str(error)
        except Exception:
            problem = "unforeseen:\n" + traceback.format_exc()
    result, problem = world.gather((result, problem))[0]
    if problem:
        raise AgreedError(problem, speaks=world.is_root)
    return result


def report_start(world: World, log: MetricsLog, asked: Any, source: Source, **facts: Any) -> None:
    """Log the run's first line: the world, the options, the data and `facts` (JSON-able)."""
    import tensorflow as tf

    hosts = world.gather(world.host)
    log.write(
        "start",
        world_size=world.size,
        replicas=world.replicas,
        hosts=sorted(set(hosts)),
        options=vars(asked),
        global_batch_size=asked.batch_size_per_rank * world.replicas * asked.accumulation,
        data={
            "layout": source.layout,
            "path": source.path,
            "fingerprint": source.fingerprint,
            "samples": source.counts,
        },
        versions={"python": platform.python_version(), "tensorflow": tf.__version__, **_horovods_version(world)},
        **facts,
    )


def _horovods_version(world: World) -> dict[str, str]:
    return {} if world.distribute is not None else {"horovod": load("horovod").__version__}


def report_shards(world: World, shard: Shard, log: MetricsLog, record: bool) -> list[dict[str, Any]]:
    """Log one line on what each rank reads, and return it (a dictionary per rank, by rank).

    record: also write each rank's own sample numbers (int64) to shards/rank-NNNN.npy in the run directory.
    """
    if record:
        world.together(lambda: _record(world, shard))
    mine = {
        "rank": world.rank,
        "local_rank": world.local_rank,
        "host": world.host,
        "device": world.device,
        "threads": world.threads,
    }
    mine.update(shard.summary())
    rows = world.gather(mine)
    log.write("shards", shards=rows)
    if world.is_root:
        for row in rows:
            print(
                "rank {rank} on {host}, local rank {local_rank}, {device}, {threads} threads: {samples} samples".format(
                    **row
                ),
                flush=True,
            )
    return rows


def _record(world: World, shard: Shard) -> None:
    leave_if_superseded()
    folder = os.path.join(world.run_dir, "shards")
    os.makedirs(folder, exist_ok=True)
    np.save(os.path.join(folder, "rank-{:04d}.npy".format(world.rank)), shard.indices[: shard.samples])
