"""The means of what a program measures of its batches that are not trained on, over the samples of all ranks."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Iterable, Iterator

from hpclaunch.training.input.own_shard import RankSamples
from hpclaunch.training.rank import watch
from hpclaunch.training.rank.failure import AgreedError, TrainingError
from hpclaunch.training.rank.world import World

OTHER_METRICS = "validate gives {} for {}, but {} for {}: let it give the same metrics for every batch, on every rank"


def measured(
    world: World,
    data: RankSamples,
    split: str,
    measure: Callable[..., Any],
    shares_weights: bool,
    most: int | None = None,
) -> dict[str, float]:
    """The means over the samples of all ranks of a split, which is prepared. A collective.

    measure: measure(inputs, targets) gives the mean over the samples of a batch, or a dictionary of such means.
    shares_weights: whether every call of the model is a collective. most: batches of each rank; None: all. Raises
    AgreedError if it gives other metrics for another batch, or on another rank.
    """

    def add_up() -> tuple[dict[str, float], int]:
        sums: dict[str, float] = {}
        seen = 0
        batches = itertools.islice(data.held_out(split), most)
        for batch, samples in as_many(world, batches) if shares_weights else batches:
            found = measure(*batch)
            if not samples:
                continue
            found = found if isinstance(found, dict) else {"loss": found}
            if seen and set(found) != set(sums):
                raise TrainingError(OTHER_METRICS.format(_join_names(sums), "a batch", _join_names(found), "another"))
            for name, value in found.items():
                sums[name] = sums.get(name, 0.0) + float(value) * samples
            seen += samples
            watch.this_rank.mark()
        return sums, seen

    # An error ends this rank at once where the others wait for it in a call of the model.
    own = add_up() if shares_weights else world.together(add_up, long=True)
    totals = world.gather(own)
    named = [(rank, list(sums)) for rank, (sums, seen) in enumerate(totals) if seen]
    first, names = named[0] if named else (0, [])
    for rank, others in named:
        if set(others) != set(names):
            ranks = "rank {}".format(first), "rank {}".format(rank)
            text = OTHER_METRICS.format(_join_names(names), ranks[0], _join_names(others), ranks[1])
            raise AgreedError(text, speaks=world.is_root)
    samples = sum(seen for _, seen in totals)
    return {name: sum(sums[name] for sums, seen in totals if seen) / samples for name in names}


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "no metric"


def as_many(world: World, batches: Iterable[tuple[Any, int]]) -> Iterator[tuple[Any, int]]:
    """The batches of this rank with their samples, then others without, until no rank has any. A collective each time.

    So all ranks call a model of which each has a part equally often.
    """
    left = iter(batches)
    batch, samples = next(left, (None, 0))
    counts = world.gather(samples)
    if any(counts) and not all(counts):
        given = [one for one in world.gather(batch) if one is not None]
        batch = given[0] if batch is None else batch
    while any(counts):
        yield batch, samples
        following = next(left, None)
        # A rank without more of its own repeats the last one, which does not count.
        batch, samples = following if following is not None else (batch, 0)
        counts = world.gather(samples)
