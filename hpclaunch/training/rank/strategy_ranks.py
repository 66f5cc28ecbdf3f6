"""Ranks under a strategy of TensorFlow, which need no Horovod: their place, and how they agree on a value."""

from __future__ import annotations

import atexit
import base64
import pickle
import sys
from dataclasses import dataclass
from typing import Any, Mapping, MutableMapping

from hpclaunch.training.rank import own_place, placement
from hpclaunch.training.rank.failure import TrainingError
from hpclaunch.training.rank.world import World

PIECE = 2**24
"""Characters of a message of gRPC, which has an upper limit."""

_BY_HAND = {  # of horovodrun and of Open MPI's mpirun, where no script of hpclaunch has set ours
    "RANK": ("HOROVOD_RANK", "OMPI_COMM_WORLD_RANK"),
    "WORLD_SIZE": ("HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE"),
    "LOCAL_RANK": ("HOROVOD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
    "LOCAL_WORLD_SIZE": ("HOROVOD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
}


class Exchange:
    """How a rank tells the others of a value: by the table of texts of `service`, in which to read waits for a text.

    service: of TensorFlow's context, whose coordination service keeps the table in rank 0.
    """

    def __init__(self, service: Any, rank: int, size: int) -> None:
        self._service, self._rank, self._size = service, rank, size
        self._counts: dict[str, int] = {}

    def gather(self, value: Any, name: str) -> list[Any]:
        """One picklable value of every rank, by rank. A collective of all that have this name."""
        count = self._counts[name] = self._counts.get(name, 0) + 1
        self._write(self._key(name, count, self._rank), value)
        ranks = range(self._size)
        values = [value if rank == self._rank else self._read(self._key(name, count, rank)) for rank in ranks]
        # All ranks have written again, so all have read what they wrote the last time.
        self._service.delete_config_key_value(self._key(name, count - 1, self._rank))
        return values

    def end(self) -> None:
        """Wait in rank 0 for the other ranks: with it ends the service, without which each of them would abort."""
        if self._rank:
            self._service.set_config_key_value(self._key("ended", 0, self._rank), "yes")
            return
        for rank in range(1, self._size):
            self._service.get_config_key_value(self._key("ended", 0, rank))

    @staticmethod
    def _key(name: str, count: int, rank: int) -> str:
        return "hpclaunch/{}/{}/{}".format(name, count, rank)

    def _write(self, key: str, value: Any) -> None:
        text = base64.b64encode(pickle.dumps(value, protocol=4)).decode("ascii")
        pieces = [text[begin : begin + PIECE] for begin in range(0, len(text), PIECE)]
        for number, piece in enumerate(pieces):
            self._service.set_config_key_value("{}/{}".format(key, number), piece)
        self._service.set_config_key_value("{}/pieces".format(key), str(len(pieces)))

    def _read(self, key: str) -> Any:
        count = int(self._service.get_config_key_value("{}/pieces".format(key)))
        text = "".join(self._service.get_config_key_value("{}/{}".format(key, number)) for number in range(count))
        return pickle.loads(base64.b64decode(text))


class _Here:
    """What this process is in; a class, so that a function can change it."""

    exchange: Exchange | None = None


@dataclass(frozen=True)
class StrategyWorld(World):
    """The place of a rank under a strategy of TensorFlow.

    Ranks of multiworker exchange values through TensorFlow's coordination service, in which MultiWorkerMirroredStrategy
    lets them meet.
    """

    def _gather_values(self, value: Any, name: str | None = None) -> list[Any]:
        assert _Here.exchange is not None
        return _Here.exchange.gather(value, name or "values")


def place(environ: MutableMapping[str, str], job: str) -> dict[str, Any]:
    """The fields of a World (own_place.place), also under horovodrun and mpirun by hand.

    Raises TrainingError if a number is wrong, or the world is not as large as requested.
    """
    for ours, theirs in _BY_HAND.items():
        found = next((environ[name] for name in theirs if environ.get(name)), "")
        if found:
            environ.setdefault(ours, found)
    fields = own_place.place(environ, job)
    _check_size(environ, fields["size"])
    return fields


def _check_size(environ: Mapping[str, str], size: int) -> None:
    expected = placement.expected_world_size(environ)
    if expected not in (None, size):
        raise TrainingError(
            "the world has {} rank{}, but {} were requested (HPCLAUNCH_WORLD_SIZE). Every rank needs RANK and "
            "WORLD_SIZE, which the scripts of hpclaunch submit set.".format(size, "" if size == 1 else "s", expected)
        )


def begin(world: World) -> None:
    """Let ranks agree on values from now on, until they end together. Call it after the strategy has begun.

    Raises TrainingError with a TensorFlow whose strategy has no coordination service.
    """
    if world.size == 1:
        return
    import tensorflow as tf
    from tensorflow.python.eager import context

    service = context.context()
    if getattr(service, "coordination_service", None) is None:
        raise TrainingError(
            "multiworker needs the coordination service of a newer TensorFlow than {}: use one of 2.12 or later, or "
            "--strategy=horovod".format(tf.__version__)
        )
    _Here.exchange = Exchange(service, world.rank, world.size)
    atexit.register(_end_unless_failed)


def end() -> None:
    """End the exchange of values, together with the other ranks; a single rank has none."""
    exchange, _Here.exchange = _Here.exchange, None
    if exchange is not None:
        exchange.end()


def _end_unless_failed() -> None:
    if not hasattr(sys, "last_value"):
        end()
