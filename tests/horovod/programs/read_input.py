"""Opens class folders, stages them to a node's disk, and streams one epoch; leaves what this rank has read."""

import argparse
import json
import os
import sys

from hpclaunch.training import datasets, failure, loading, node_storage, shards, streaming
from hpclaunch.training.start import start

data, local = sys.argv[1:]
with failure.reported():
    world = start("test", 1)
    asked = argparse.Namespace(synthetic=False, data_dir=data)
    shared = loading.open_source(world, asked, datasets.ImageSet("small", (8, 8, 3), 2, "small"))
    source = node_storage.staged(world, shared, local)
    shard = shards.training_shard(shards.shuffled(source.counts["train"], 1), world.rank, world.size)
    steps = shards.steps_per_epoch(len(shard.indices), 2)
    with streaming.damage_named(source, shard):
        batches = iter(streaming.training_stream(source, shard, 2, 1, world.rank))
        seen = [float(image[0, 0, 0]) * 255 for _ in range(steps) for image in next(batches)[0].numpy()]
    with open(os.path.join(world.run_dir, f"read-{world.rank}.json"), "w") as file:
        json.dump({"seen": seen, "steps": steps, "path": source.path}, file)
    world.gather("done")
