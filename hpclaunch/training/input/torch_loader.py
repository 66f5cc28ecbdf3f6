"""A program's own Dataset of PyTorch, divided among the ranks and read by DataLoader, with workers if asked."""

from __future__ import annotations

import contextlib
import hashlib
from typing import Any, Iterator, Mapping

import numpy as np
import torch

from hpclaunch.training.checkpoints import random_states
from hpclaunch.training.input.own_shard import MicroBatch, RankSamples
from hpclaunch.training.input.shards import Part, stream_seed
from hpclaunch.training.input.source import ImageSet, Source
from hpclaunch.training.rank.failure import AgreedError, TrainingError
from hpclaunch.training.rank.world import World

OURS = ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last", "generator", "dataset", "num_workers")
"""Options of DataLoader that the library chooses."""
_NOT_TRAINED = -1  # in place of the epoch


class DatasetSource(Source):
    """What is known of Datasets with `__len__` and `__getitem__`, by split; a sample is a pair (input, target).

    Raises TrainingError if one of them is none.
    """

    layout = "a Dataset of PyTorch"
    has_images = False

    def __init__(self, datasets: Mapping[str, Any]) -> None:
        names = {split: type(one).__name__ for split, one in datasets.items()}
        super().__init__(ImageSet(names["train"], (), classes=0, job=""), "the Dataset " + names["train"])
        for split, one in datasets.items():
            if not hasattr(one, "__len__") or not hasattr(one, "__getitem__"):
                raise TrainingError(
                    "{} has no length or no samples by number, so ranks cannot divide it: give training.loader a "
                    "Dataset with __len__ and __getitem__, no IterableDataset".format(names[split])
                )
            self.counts[split] = len(one)
        if not self.counts["train"]:
            raise TrainingError("{} has no samples".format(self.path))
        with random_numbers_of(0):
            sample = datasets["train"][0]
        if not isinstance(sample, (tuple, list)) or len(sample) != 2:
            raise TrainingError(
                "a sample of {} is {}, not a pair (input, target)".format(self.path, type(sample).__name__)
            )
        inputs, target = (np.asarray(one) if _is_array(one) else None for one in sample)
        if inputs is not None:
            self.wanted = ImageSet(names["train"], inputs.shape, classes=0, job="")
            self.sample_type = inputs.dtype
        if target is not None:
            self.label_type, self.label_shape = target.dtype, target.shape
        text = repr((sorted(names.items()), sorted(self.counts.items())))
        self.fingerprint = "dataset-" + hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]

    def read(self, split: str, indices: Any) -> tuple[Any, Any]:
        raise NotImplementedError  # DataLoader reads it

    def files(self) -> list[str]:
        return []


def _is_array(one: Any) -> bool:
    return torch.is_tensor(one) or isinstance(one, (np.ndarray, np.generic, int, float))


class SeededSamples(torch.utils.data.Dataset):
    """The samples of a Dataset, each with random numbers of its own: from the seed, the epoch and its number.

    So augmentation is the same in a resumed run, with any number of workers, on any number of ranks.
    """

    def __init__(self, dataset: Any, seed: int, epoch: int) -> None:
        self._dataset, self._seed, self._epoch = dataset, seed, epoch

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, position: int) -> Any:
        with random_numbers_of(stream_seed(self._seed, "sample", self._epoch, position)):
            return self._dataset[position]


@contextlib.contextmanager
def random_numbers_of(number: int) -> Iterator[None]:
    """A block in which Python, NumPy and PyTorch on the CPU draw from the seed `number`; those of the model go on."""
    is_model = torch.utils.data.get_worker_info() is None  # a worker has no others
    kept = (random_states.states(), torch.get_rng_state()) if is_model else None
    random_states.seed(number)
    torch.default_generator.manual_seed(number)  # torch.manual_seed would change those of a GPU
    try:
        yield
    finally:
        if kept is not None:
            random_states.put(kept[0])
            torch.set_rng_state(kept[1])


class TorchLoader(RankSamples):
    """The samples of a rank, as DataLoader reads them while they are needed.

    datasets: by split, as those of a DatasetSource. workers: processes of this rank that read; 0: the rank itself.
    options: more of DataLoader, such as collate_fn, pin_memory and prefetch_factor.
    """

    def __init__(
        self,
        datasets: Mapping[str, Any],
        workers: int,
        options: Mapping[str, Any],
        world: World,
        asked: Any,
        source: Source,
        order: Any,
        held: Mapping[str, Part],
    ) -> None:
        super().__init__(world, asked, source, order, held)
        self._datasets, self._seed = datasets, asked.seed
        self._options = {**options, "num_workers": workers}

    def micro_batches(self, epoch: int, first: int) -> Iterator[MicroBatch]:
        positions = self._positions(epoch)
        plan = []
        for step in range(first, self.steps):
            whole = positions[step * self._step : (step + 1) * self._step]
            for begin in range(0, len(whole), self._batch):
                own = whole[begin : begin + self._batch].tolist()
                plan.append((step, own, len(own) / len(whole), begin + len(own) == len(whole)))
        loader = self._loader("train", epoch, [own for _, own, _, _ in plan])
        for (step, own, share, is_last), batch in zip(plan, loader):
            yield MicroBatch(step, batch, len(own), share, is_last)

    def held_out(self, split: str) -> Iterator[Any]:
        if split not in self.source.counts and split not in self._held:
            raise AgreedError(
                "{0} has no samples for {1}: give training.loader {1}=".format(self.source.path, split),
                speaks=self._world.is_root,
            )
        part = self._own_part(split)
        own = part.positions.tolist()
        batches = [own[begin : begin + self._batch] for begin in range(0, len(own), self._batch)]
        yield from self._loader(part.split, _NOT_TRAINED, batches)

    def test_batches(self) -> Iterator[tuple[Any, np.ndarray]]:
        for inputs, targets in self.held_out("test"):
            yield inputs, targets.numpy()

    def _positions(self, epoch: int) -> np.ndarray:
        """This rank's samples of a whole epoch, in its order (those of steps before a resumed one may be others)."""
        rest = self.sampler.rest(epoch, self._world.rank)
        if rest is None:
            return self.shard.indices[self.sampler.places(epoch, self._world.rank)]
        return rest[self.sampler.numbered(rest)] if len(rest) else rest

    def _loader(self, split: str, epoch: int, batches: list[list[int]]) -> Any:
        samples = SeededSamples(self._datasets[split], self._seed, epoch)
        # With a generator of its own, DataLoader draws no random number from that of the model.
        return torch.utils.data.DataLoader(
            samples, batch_sampler=batches, generator=torch.Generator().manual_seed(0), **self._options
        )
