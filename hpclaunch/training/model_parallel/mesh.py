"""The ranks of a split model as data x pipeline x tensor: which ranks form which groups; it needs no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple

Ranks = Tuple[int, ...]


@dataclass(frozen=True)
class Division:
    """How a model is divided. tensor_parallel: the ranks that share each layer. stages: those of a pipeline.

    recompute: blocks keep their inputs alone, and compute their activations again in the backward pass.
    update_groups: the groups of ranks that average gradients among themselves alone; of whole models.
    """

    tensor_parallel: int = 1
    stages: int = 1
    recompute: bool = False
    update_groups: int = 1

    @property
    def ranks(self) -> int:
        """The ranks that hold one copy of the model."""
        return self.tensor_parallel * self.stages


@dataclass(frozen=True)
class Mesh:
    """The place of `rank` in a world of data x pipeline x tensor ranks: rank = (d * pipeline + p) * tensor + t.

    So the ranks that share a layer follow one another, and lie in one node if they fit there; the ranks that hold one
    copy of the model follow one another, too. data: the copies of the model.
    """

    data: int
    pipeline: int
    tensor: int
    rank: int

    @property
    def size(self) -> int:
        """The number of ranks of the world."""
        return self.data * self.pipeline * self.tensor

    @property
    def data_index(self) -> int:
        """The number of the copy of the model that this rank belongs to."""
        return self.rank // (self.pipeline * self.tensor)

    @property
    def stage(self) -> int:
        """The number of the pipeline's stage that this rank computes."""
        return self.rank // self.tensor % self.pipeline

    @property
    def tensor_index(self) -> int:
        """The number of the part that this rank has of each layer."""
        return self.rank % self.tensor

    @property
    def part(self) -> int:
        """The number of the part of a model that this rank holds."""
        return self.stage * self.tensor + self.tensor_index

    @property
    def first_of_copy(self) -> int:
        """The first rank of this rank's copy of the model."""
        return self.data_index * self.pipeline * self.tensor

    @property
    def tensor_group(self) -> Ranks:
        """The ranks that share the layers of this rank's stage and copy."""
        first = self.rank - self.tensor_index
        return tuple(range(first, first + self.tensor))

    @property
    def pipeline_group(self) -> Ranks:
        """The ranks that have the same part of the layers of each stage of this copy, by stage."""
        first = self.first_of_copy + self.tensor_index
        return tuple(range(first, first + self.pipeline * self.tensor, self.tensor))

    @property
    def next_pair(self) -> Ranks:
        """This rank and that of the next stage, to which it sends its outputs; no ranks in the last stage."""
        return () if self.stage + 1 == self.pipeline else (self.rank, self.rank + self.tensor)

    @property
    def data_group(self) -> Ranks:
        """The ranks that have the same part of other copies: they average their gradients."""
        inside = self.pipeline * self.tensor
        return tuple(range(self.rank % inside, self.size, inside))

    def at(self, rank: int) -> Mesh:
        """The place of another rank."""
        return Mesh(self.data, self.pipeline, self.tensor, rank)

    def groups(self) -> list[Ranks]:
        """The groups of all ranks, each once, in the same order on every rank; without single ranks and the world.

        Horovod refuses two equal process sets, and one that is the whole world.
        """
        places = [self.at(rank) for rank in range(self.size)]
        found = [
            group
            for place in places
            for group in (place.tensor_group, place.data_group, place.pipeline_group, place.next_pair)
        ]
        return [group for group in dict.fromkeys(found) if 1 < len(group) < self.size]


def update_groups(size: int, count: int) -> list[Ranks]:
    """The ranks of each of `count` equal groups of a world of `size` ranks; empty if there are no such groups.

    The ranks of a group follow one another, so that they lie in one node, or in neighbours.
    """
    each = size // count
    return [] if size % count else [tuple(range(first, first + each)) for first in range(0, size, each)]


def update_groups_fault(size: int, count: int) -> str:
    """Why `size` ranks cannot be `count` equal groups; empty if they can."""
    if update_groups(size, count):
        return ""
    return "--update-groups={} does not divide the {}: use a multiple of {} ranks, or {}".format(
        count, _ranks(size), count, _divisors("--update-groups", size)
    )


def fault(size: int, local_size: int, division: Division) -> str:
    """Why `size` ranks, `local_size` on each node, cannot divide a model like this; empty if they can."""
    tensor, stages = division.tensor_parallel, division.stages
    if size % tensor:
        return "--tensor-parallel={} does not divide the {}: use a multiple of {} ranks, or {}".format(
            tensor, _ranks(size), tensor, _divisors("--tensor-parallel", size)
        )
    if size % division.ranks:
        return "--pipeline-stages={} does not divide the {}: use a multiple of {} ranks, or {}".format(
            stages,
            _ranks(size) if tensor == 1 else "{} groups of {}".format(size // tensor, _ranks(tensor)),
            division.ranks,
            _divisors("--pipeline-stages", size // tensor),
        )
    if max(local_size, tensor) % min(local_size, tensor):
        return (
            "--tensor-parallel={} does not fit nodes of {}: some layers would be shared between two nodes; use {}, or "
            "another number of ranks on a node".format(
                tensor, _ranks(local_size), _divisors("--tensor-parallel", local_size)
            )
        )
    return ""


def _ranks(number: int) -> str:
    return "1 rank" if number == 1 else "{} ranks".format(number)


def _divisors(option: str, number: int) -> str:
    found = [str(one) for one in range(1, number + 1) if number % one == 0]
    return "{}={}".format(option, " or ".join([", ".join(found[:-1]), found[-1]] if found[1:] else found))
