"""Fails on rank 1 alone, as asked: `exit 7` while the others are in a collective, or `together` where ranks agree."""

import sys
import time

from hpclaunch.training.rank import failure
from hpclaunch.training.rank.start import start


def broken_on_rank_1():
    if world.rank == 1:
        raise failure.TrainingError("the disk of this rank is gone")


with failure.reported():
    world = start("test", 1)
    if sys.argv[1] == "together":
        world.together(broken_on_rank_1)
    if sys.argv[1] == "follow" and world.rank == 0:
        time.sleep(60)
    if world.rank == 1:
        sys.exit(7)
    world.gather("waiting for rank 1")
