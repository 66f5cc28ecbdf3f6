"""What checkpoints ask of the state of a training, whatever its framework; it needs none."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Iterable, Iterator, Mapping, Tuple

Arrays = dict
Named = Tuple[str, Any]
NOTHING: Mapping[str, Any] = MappingProxyType({})


class State:
    """The arrays of one rank: those that all ranks share, and its own.

    Here is the simplest kind: every rank holds all that is shared, in the same way, and reads it itself.
    """

    everywhere = True
    """Whether every rank reads what is shared; else one rank does, and `spread` gives it to the others."""

    def unite(self) -> None:
        """Let ranks that train apart have the same arrays, before they are saved. A collective."""

    def manifest(self) -> dict[str, Any]:
        """What the manifest says of the shared arrays (values for JSON)."""
        return {}

    def statistics(self) -> tuple[Arrays, Arrays]:
        """Arrays that are not trained: of all ranks alike, and of this rank alone. A collective."""
        return {}, {}

    def shared(self, common: Mapping[str, Any] = NOTHING, keep: bool = True) -> Iterator[Named]:
        """The arrays that all ranks share, with their names, and `common` of `statistics`; without `keep` none.

        To go through all may be a collective.
        """
        raise NotImplementedError

    def parts(self, common: Mapping[str, Any], keep: bool = True) -> Iterator[Named]:
        """What this rank writes of the arrays that not all ranks have."""
        return iter(())

    def part_facts(self, common: Mapping[str, Any]) -> dict[str, Any]:
        """What a manifest says of the parts (stored)."""
        return {}

    def own(self, metrics: bool) -> Arrays:
        """The arrays of this rank alone: random numbers and, with `metrics`, those of an interrupted epoch."""
        raise NotImplementedError

    def of_copy(self, arrays: Arrays) -> Arrays:
        """The arrays of all ranks that share this copy of the model."""
        return arrays

    def compare(self, path: str, facts: Mapping[str, Any]) -> None:
        """Raise TrainingError if the checkpoint is of another model or optimizer, as far as its manifest tells."""

    def splits(self) -> dict[str, Any]:
        """What this rank holds of the arrays that are split, by name."""
        return {}

    def held(self) -> set[str] | None:
        """The names of the shared arrays that this rank may have; None: all."""
        return None

    def put_shared(self, arrays: Arrays) -> None:
        """Restore what `shared` gave, after `compare`. Raises TrainingError for another model."""
        raise NotImplementedError

    def files_of_others(self, copies: int) -> range:
        """Of the ranks' files of a world of another size, `copies` of them, those that this rank reads."""
        return range(copies)

    def put_average(self, several: Iterable[Arrays]) -> None:
        """Take what the ranks' files of a world of another size have for all."""

    def spread(self) -> None:
        """Give every rank what one has read. A collective."""

    def put_own(self, arrays: Arrays) -> None:
        """Restore what `own` gave, after `spread`."""
        raise NotImplementedError

    def put_new_random(self, made: int) -> None:
        """Begin new random numbers, which this rank and `made`, the steps so far, determine."""
        raise NotImplementedError
