"""The place of a rank among the others, and how ranks agree on a value or a failure; it starts nothing."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any, Callable

from hpclaunch.training.rank import watch
from hpclaunch.training.rank.failure import AgreedError, TrainingError


@dataclass(frozen=True)
class World:
    """The place of this rank. device: its GPU or CPU in words; run_dir: the folder of the run's files.

    distribute: the tf.distribute.Strategy that averages gradients; None: Horovod does.
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

    @property
    def has_rounds(self) -> bool:
        """Whether ranks can tell each other of their progress in a thread, while the main thread works."""
        return True

    @property
    def is_root(self) -> bool:
        return self.rank == 0

    @property
    def replicas(self) -> int:
        """The number of model copies that train together: one per rank; under a TensorFlow strategy one per GPU."""
        return self.size if self.distribute is None else int(self.distribute.num_replicas_in_sync)

    @property
    def own_replicas(self) -> range:
        """The numbers of this rank's replicas."""
        here = self.replicas // self.size
        return range(self.rank * here, (self.rank + 1) * here)

    def gather(self, value: Any) -> list[Any]:
        """One picklable value of every rank, by rank, on every rank. A collective: every rank must call it."""
        if self.size == 1:
            return [value]
        values = self._gather_values(value)
        watch.this_rank.mark()
        return values

    def _gather_values(self, value: Any, name: str | None = None) -> list[Any]:
        import horovod.tensorflow as hvd

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
