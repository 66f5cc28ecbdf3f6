"""The state of a training with PyTorch or JAX: arrays that the manifest describes, and the random numbers of ranks."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Iterator, Mapping

import numpy as np

from hpclaunch.training.checkpoints import folders, resuming
from hpclaunch.training.checkpoints.state import NOTHING, Arrays, Named, State
from hpclaunch.training.input import loading
from hpclaunch.training.input.epoch_order import Sampler
from hpclaunch.training.input.shards import stream_seed
from hpclaunch.training.rank.failure import TrainingError
from hpclaunch.training.rank.world import World

CONTENT = "content"
"""The key of the manifest under which it describes the shared arrays."""
BYTES = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_LOSSES, _COUNTS = "epoch-losses", "epoch-counts"


@dataclass(frozen=True)
class Leaf:
    """A shared array: its name in the program's terms, the name of its type, its shape, and what reads its values.

    read gives NumPy's array of that type; of a type that NumPy's files do not know (bfloat16, float8), its bits as
    whole numbers.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]

    @property
    def words(self) -> str:
        return _words([self.name, self.dtype, list(self.shape)])


class PlainState(State, ABC):
    """What a checkpoint of PyTorch or JAX has: `leaves` for all ranks; for each, its random numbers and its losses.

    losses, counts: of the steps of the epoch so far, and the samples of each.
    """

    framework = ""
    model = "model"
    """The program's word for what has the arrays."""

    def __init__(self, world: World, seed: int) -> None:
        self._world, self._seed, self._made = world, seed, 0
        self._random: Arrays = {}
        self._path = ""
        self._found: dict[str, Any] = {}
        self.losses: list[float] = []
        self.counts: list[int] = []

    @abstractmethod
    def leaves(self) -> list[Leaf]:
        """The arrays that all ranks share, in a fixed order."""

    def about(self) -> dict[str, Any]:
        """More of the manifest's content (values for JSON)."""
        return {}

    @abstractmethod
    def put(self, arrays: list[np.ndarray], about: Mapping[str, Any]) -> None:
        """Restore arrays, in the order of the checkpoint's leaves."""

    @abstractmethod
    def random(self) -> Arrays:
        """The states of all generators of this rank, each of them a short array."""

    @abstractmethod
    def put_random(self, arrays: Arrays) -> None:
        """Continue from what `random` gave."""

    @abstractmethod
    def seed_random(self, number: int) -> None:
        """Begin all generators at a seed, 0 to 2**32 - 1."""

    def begin_random(self) -> None:
        """Before the first step: this rank's own random numbers, or those of the checkpoint. A collective.

        Until then all ranks draw the same ones, so that weights are the same. They begin anew, from the steps so far,
        on another number of ranks, and where a generator has no state in the checkpoint: on a GPU after a CPU.
        """
        now = {name: (one.dtype, one.shape) for name, one in self.random().items() if not name.endswith("-next")}
        then = {name: (one.dtype, one.shape) for name, one in self._random.items() if not name.endswith("-next")}
        same = all(self._world.gather(now == then))
        if same:
            self.put_random(self._random)
        else:
            names = ("rank", self._world.data_rank) + ((self._made,) if self._made else ())
            self.seed_random(stream_seed(self._seed, *names))
        if self._made and not same and self._world.is_root:
            print(
                "random numbers begin again: the checkpoint has no state of them for this number of ranks", flush=True
            )
        self._random = {}

    def manifest(self) -> dict[str, Any]:
        arrays = [[leaf.name, leaf.dtype, list(leaf.shape)] for leaf in self.leaves()]
        return {CONTENT: {"framework": self.framework, "arrays": arrays, **self.about()}}

    def shared(self, common: Mapping[str, Any] = NOTHING, keep: bool = True) -> Iterator[Named]:
        for number, leaf in enumerate(self.leaves() if keep else []):
            yield name_of(number), leaf.read()

    def own(self, metrics: bool) -> Arrays:
        found = self.random()
        if metrics:
            found.update({_LOSSES: np.array(self.losses, np.float64), _COUNTS: np.array(self.counts, np.int64)})
        return found

    def compare(self, path: str, facts: Mapping[str, Any]) -> None:
        content = facts.get(CONTENT) or {"framework": "TensorFlow"}
        if content["framework"] != self.framework:
            raise TrainingError(
                "the checkpoint {} was saved by a program of {}, not of {}: start from the beginning "
                "(--resume=false)".format(path, content["framework"], self.framework)
            )
        different = self.difference(content)
        if different:
            raise TrainingError(
                "the checkpoint {} belongs to another model or optimizer: {}. Nothing was changed: resume with the one "
                "that it was saved with, or start from the beginning (--resume=false)".format(path, different)
            )
        self._path, self._found = path, content

    def difference(self, there: Mapping[str, Any]) -> str:
        """How the content of a checkpoint differs from this state, in words; empty if they fit."""
        return self.first_difference(there["arrays"], [leaf.words for leaf in self.leaves()])

    def first_difference(self, there: list[Any], here: list[str]) -> str:
        """The first array that has another name, type or shape, in words. there: of a manifest; here: `Leaf.words`."""
        held = [_words(one) for one in there]
        only_there = [one for one in held if one not in set(here)]
        only_here = [one for one in here if one not in set(held)]
        if only_there or only_here:
            return "it has {}, but the {} has {}".format(
                only_there[0] if only_there else "no " + only_here[0],
                self.model,
                _counterpart(only_there[0], only_here) if only_there else "it",
            )
        return "" if held == here else "it has {} arrays, but the {} has {}".format(len(held), self.model, len(here))

    def put_shared(self, arrays: Arrays) -> None:
        names = [name_of(number) for number in range(len(self._found["arrays"]))]
        if set(names) != set(arrays):
            raise TrainingError("{} has other arrays than its manifest says".format(self._path))
        self.put([arrays[name] for name in names], self._found)

    def put_own(self, arrays: Arrays) -> None:
        self.losses, self.counts = (list(arrays.get(name, np.array([])).tolist()) for name in (_LOSSES, _COUNTS))
        self._random = {name: array for name, array in arrays.items() if name not in (_LOSSES, _COUNTS)}

    def files_of_others(self, copies: int) -> range:
        return range(self._world.rank, copies, self._world.size)

    def put_average(self, several: Iterable[Arrays]) -> None:
        """Take the losses of an epoch that another number of ranks has begun: each is in the sum of one rank."""
        self.losses, self.counts = [], []
        for arrays in several:
            self.losses += arrays.get(_LOSSES, np.array([])).tolist()
            self.counts += arrays.get(_COUNTS, np.array([], np.int64)).tolist()

    def put_new_random(self, made: int) -> None:
        self._made = made


def name_of(number: int) -> str:
    """The name of shared array `number` in the file of a checkpoint."""
    return "array-{:05d}".format(number)


def _words(array: Any) -> str:
    name, dtype, shape = array
    return "{} {} {}".format(name, dtype, shape)


def _counterpart(wanted: str, several: list[str]) -> str:
    """Of arrays in words, that of the same name, else the first one."""
    name = wanted.split(" ", 1)[0]
    same = [one for one in several if one.split(" ", 1)[0] == name]
    return (same or several or ["not"])[0]


def restore(
    world: World, state: PlainState, asked: Any, steps: int, log: Any, data: str, sampler: Sampler | None = None
) -> resuming.Place:
    """As resuming.restore. Raises AgreedError if there is a checkpoint of an older version of hpclaunch alone."""
    folder = resuming.folder_of(world)
    if asked.resume:
        loading.from_root(world, lambda: _refuse_one_file(folder))
    place = resuming.restore(world, state, asked, steps, log, data, sampler)
    state.put_new_random(place.made)
    return place


def _refuse_one_file(folder: str) -> None:
    """Raise TrainingError for state.pt and state.npz, which versions up to 0.1 wrote in place of folders."""
    try:
        names = sorted(
            name for name in os.listdir(folder) if name.startswith("state") and name.endswith((".pt", ".npz"))
        )
    except (FileNotFoundError, NotADirectoryError):
        return
    if names and not folders.existing(folder):
        raise TrainingError(
            "{} was written by an older version of hpclaunch, and this one cannot read it. Nothing was changed: resume "
            "with the older version, or start from the beginning (--resume=false)".format(
                os.path.join(folder, names[-1])
            )
        )
