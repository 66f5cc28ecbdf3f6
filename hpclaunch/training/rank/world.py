"""The place of a rank among the others, and how ranks agree on a value or a failure; it starts nothing."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any, Callable

from hpclaunch.training.model_parallel.mesh import Mesh
from hpclaunch.training.rank import watch
from hpclaunch.training.rank.failure import AgreedError, TrainingError


@dataclass(frozen=True)
class World:
    """The place of this rank. device: its GPU or CPU in words; run_dir: the folder of the run's files.

    distribute: the tf.distribute.Strategy that averages gradients; None: Horovod does. mesh: which ranks share the
    model, if it is split; None: every rank has all of it.
    """

    rank: int
    size: int
    local_rank: int
    local_size: int
    host: str
    device: str
    threads: int
    run_dir: str
    distribute: Any = None
    mesh: Mesh | None = None

    @property
    def has_rounds(self) -> bool:
        """Whether ranks can tell each other of their progress in a thread, while the main thread works."""
        return True

    @property
    def is_root(self) -> bool:
        return self.rank == 0

    @property
    def data_size(self) -> int:
        """The number of parts into which the samples are divided: one per rank, or per group that shares a model."""
        return self.size if self.mesh is None else self.mesh.data

    @property
    def data_rank(self) -> int:
        """The number of this rank's part of the samples; ranks that share a model have the same."""
        return self.rank if self.mesh is None else self.mesh.data_index

    @property
    def leads_copy(self) -> bool:
        """Whether this is the first of the ranks that share a model; true if none do."""
        return self.mesh is None or self.rank == self.mesh.first_of_copy

    @property
    def replicas(self) -> int:
        """The number of model copies that train together: data_size; under a TensorFlow strategy one per GPU."""
        return self.data_size if self.distribute is None else int(self.distribute.num_replicas_in_sync)

    @property
    def own_replicas(self) -> range:
        """The numbers of this rank's replicas."""
        here = self.replicas // self.data_size
        return range(self.data_rank * here, (self.data_rank + 1) * here)

    def gather(self, value: Any) -> list[Any]:
        """One picklable value of every rank, by rank, on every rank. A collective: every rank must call it."""
        if self.size == 1:
            return [value]
        values = self._gather_values(value)
        watch.this_rank.mark()
        return values

    def _gather_values(self, value: Any, name: str | None = None) -> list[Any]:
        from hpclaunch.training.rank.horovod import hvd

        return list(hvd.allgather_object(value, name=name))

    def rounds(self) -> watch.Rounds | None:
        """Let the other ranks know that this one progresses, until `end`; None if nobody watches. A collective."""
        if self.size == 1 or not watch.this_rank.seconds or not self.has_rounds:
            return None
        return watch.Rounds(lambda value: self._gather_values(value, "rounds"))

    def together(self, work: Callable[[], Any], long: bool = False) -> Any:
        """Run `work` on every rank and return this rank's result; if it fails on any, all fail with one message.

        If one rank ended alone, the others would wait for it in their next collective. This is a collective itself.
        long: ranks that have finished wait for as long as any other progresses, not only for the stall time.
        """
        result, problem = None, None
        rounds = self.rounds() if long else None
        try:
            result = work()
        except TrainingError as error:
            problem = str(error)
        except Exception:
            problem = "unforeseen:\n" + traceback.format_exc()
        answers = self.gather(problem) if rounds is None else rounds.end(problem)
        problems = [(rank, text) for rank, text in enumerate(answers) if text]
        if not problems:
            return result
        rank, text = problems[0]
        prefix = (
            ""
            if len(problems) == self.size
            else "{} of {} ranks, first rank {}: ".format(len(problems), self.size, rank)
        )
        raise AgreedError(prefix + text, speaks=self.is_root)
