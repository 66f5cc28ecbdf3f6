"""One rank's part in a run of the training script: it begins with `start`, and ends with the `with` block."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator

from hpclaunch.training import mlflow_log
from hpclaunch.training.metrics import MetricsLog, metrics_log
from hpclaunch.training.model_parallel.mesh import Division
from hpclaunch.training.optimization import techniques
from hpclaunch.training.program.settings import Settings
from hpclaunch.training.rank import failure, marks, watch
from hpclaunch.training.rank import start as starting
from hpclaunch.training.rank.world import World


@dataclass
class Run:
    """This rank in a run. name: the program's. world: its place among the ranks. log: metrics.jsonl, of rank 0.

    made: what the training has come to, for the last line of the log (epochs, seconds).
    """

    name: str
    settings: Settings
    world: World
    log: MetricsLog
    made: dict[str, Any] = field(default_factory=dict)

    @property
    def rank(self) -> int:
        """The number of this rank, from 0."""
        return self.world.rank

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.world.size

    @property
    def is_root(self) -> bool:
        """Whether this is rank 0, which prints and writes what all have in common."""
        return self.world.is_root

    @property
    def folder(self) -> str:
        """The run directory, the same on all ranks."""
        return self.world.run_dir

    def leave_if_superseded(self) -> None:
        """End this rank with 75 if a later start of the run has taken it over.

        The library does so before whatever it writes. Call it before you write a file of your own to the run directory.
        """
        failure.leave_if_superseded()

    def end(self, **results: Any) -> None:
        """Write the last line of the log, once: what the training has come to, and `results` (JSON-able)."""
        if self.made:
            self.log.write("end", **self.made, **results)
            self.made = {}


@contextlib.contextmanager
def start(settings: Settings, name: str = "") -> Iterator[Run]:
    """Start Horovod and this rank: ``with training.start(settings) as run:`` around the whole work of the program.

    name: of the program, and of its output folder under no launcher; without one it is the script's. Import TensorFlow
    inside the block: GPU and threads of this rank are set by then. An error in the block ends all ranks, with one
    message: that of TrainingError alone (wrong settings, data, world size), a traceback for every other one.
    """

    def begin(name: str) -> World:
        division = Division(  # not all jobs have these settings
            getattr(settings, "tensor_parallel", 1),
            getattr(settings, "pipeline_stages", 1),
            getattr(settings, "recompute", False),
            settings.update_groups,
        )
        world = starting.start(name, settings.seed, settings.strategy, settings.stall_minutes, division)
        techniques.check(settings, world)
        return world

    with running(settings, name, begin) as run:
        yield run


@contextlib.contextmanager
def running(settings: Settings, name: str, begin: Callable[[str], World]) -> Iterator[Run]:
    """The block of a run, whatever its framework. begin: starts this rank, for a program of this name."""
    name = name or program_name(sys.argv[0])
    with failure.reported():
        world = begin(name)
        also = mlflow_log.opened(world, name, settings.resume) if getattr(settings, "mlflow", False) else None
        run = Run(name, settings, world, metrics_log(world.run_dir, world.is_root, settings.synthetic, also))
        marks.begin(world)
        try:
            yield run
        except SystemExit as error:
            if error.code in (None, 0):  # the program itself says that nothing is left to do
                marks.end(world)
            raise
        run.end()
        if world.mesh is not None:  # a rank that has gone would end the collectives of a group that still works
            world.gather(None)
        marks.end(world)
        _watch_the_end(world)


def _watch_the_end(world: World) -> None:
    """Let the ranks wait for each other when the process ends: one that has gone cannot end the run of one that hangs.

    Until then they tell each other whether they progress, as the program may work on after the block.
    """
    watch.reached("the end of the program")
    if world.size == 1 or not world.has_rounds:  # nobody waits for it: it may stay idle, as in a notebook
        watch.this_rank.seconds = 0.0
    rounds = world.rounds()
    if rounds is not None:
        atexit.register(_meet, rounds)  # called before the exit handler of Horovod, which was registered first


def _meet(rounds: watch.Rounds) -> None:
    # A rank that has failed after the block ends at once, and so does one whose peer has gone.
    if not hasattr(sys, "last_value"):
        with contextlib.suppress(Exception):
            rounds.end()


def program_name(script: str) -> str:
    """The name of a program: of its file, or of its folder if the file is called train.py or main.py."""
    path = os.path.abspath(script)
    stem = os.path.splitext(os.path.basename(path))[0]
    return os.path.basename(os.path.dirname(path)) if stem in ("train", "main") else stem
