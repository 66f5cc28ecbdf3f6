"""A program's own Dataset of PyTorch, divided among the ranks and read by DataLoader, with workers if asked."""

from __future__ import annotations

import contextlib
import hashlib
from typing import Any, Iterator, Mapping, Sequence

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

    digests: hashes of a few samples of each split, read twice with the same random numbers; None if they differ from
    read to read. The fingerprint comes with `identify`. sample_type: of NumPy, or the name of one that it lacks; None
    if an input is no array. Raises TrainingError for what is no such Dataset.
    """

    layout = "a Dataset of PyTorch"
    has_images = False

    def __init__(self, datasets: Mapping[str, Any]) -> None:
        names = {split: type(one).__name__ for split, one in datasets.items()}
        super().__init__(ImageSet(names["train"], (), classes=0, job=""), "the Dataset " + names["train"])
        for split, one in datasets.items():
            is_stream = isinstance(one, torch.utils.data.IterableDataset)
            if is_stream or not hasattr(one, "__len__") or not hasattr(one, "__getitem__"):
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
        shape, self.sample_type = _shape_and_type(sample[0])
        self.wanted = ImageSet(names["train"], shape or (), classes=0, job="")
        shape, kind = _shape_and_type(sample[1])
        self.label_shape = shape or ()
        self.label_type = kind if isinstance(kind, np.dtype) else np.object_  # no class
        self._known = [sorted(names.items()), sorted(self.counts.items())]
        self.digests = _digests(datasets, self.counts)

    def identify(self, digests: Mapping[str, str] | None) -> None:
        """Make the fingerprint: the names of the classes, the numbers of samples, and `digests` of rank 0, if any."""
        text = repr([*self._known, sorted(digests.items()) if digests else None])
        self.fingerprint = "dataset-" + hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]

    def read(self, split: str, indices: Any) -> tuple[Any, Any]:
        raise NotImplementedError  # DataLoader reads it

    def files(self) -> list[str]:
        return []


def _shape_and_type(one: Any) -> tuple[tuple[int, ...], Any]:
    """Of an array, or a number: its shape and its type, the name of it if NumPy lacks it; ((), None) of all else."""
    if torch.is_tensor(one):
        name = str(one.dtype).replace("torch.", "")
        try:
            return tuple(one.shape), np.dtype(name)
        except TypeError:
            return tuple(one.shape), name
    if isinstance(one, (np.ndarray, np.generic, int, float)):
        array = np.asarray(one)
        return array.shape, array.dtype
    return (), None


def _digests(datasets: Mapping[str, Any], counts: Mapping[str, int]) -> dict[str, str] | None:
    """Hashes of samples of each split: the first, the last, those after each quarter; None if they do not repeat."""
    found = {}
    for split, dataset in datasets.items():
        chosen = {counts[split] * part // 4 for part in range(4)} | {counts[split] - 1}
        for number in sorted(chosen) if counts[split] else ():
            first, again = _digest(dataset, number), _digest(dataset, number)
            if first != again:
                return None
            found["sample {} of {}".format(number, split)] = first
    return found


def _digest(dataset: Any, number: int) -> str:
    digest = hashlib.sha256()
    with random_numbers_of(0):
        _add(digest, dataset[number])
    return digest.hexdigest()


def _add(digest: Any, one: Any) -> None:
    """Add a sample to the digest. Of what it cannot look into, it adds the type alone."""
    digest.update("{}.".format(type(one).__name__).encode("utf-8"))
    if torch.is_tensor(one):
        digest.update(repr((str(one.dtype), tuple(one.shape))).encode("utf-8"))
        if one.layout is torch.strided and not one.is_quantized:
            plain = one.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
            digest.update(plain.view(torch.uint8).numpy().tobytes())
    elif isinstance(one, (np.ndarray, np.generic)):
        digest.update(repr((str(one.dtype), one.shape)).encode("utf-8"))
        if one.dtype.hasobject:
            _add(digest, one.tolist())
        else:
            digest.update(one.tobytes())
    elif isinstance(one, Mapping):
        _add(digest, list(one.items()))
    elif isinstance(one, (list, tuple)):
        digest.update(str(len(one)).encode("utf-8"))
        for part in one:
            _add(digest, part)
    elif isinstance(one, (int, float, complex, str, bytes, type(None))):
        digest.update(repr(one).encode("utf-8", "backslashreplace"))
    elif hasattr(one, "tobytes"):  # an image of Pillow
        digest.update(one.tobytes())


def difference(path: str, seen: Sequence[Any]) -> str:
    """How the data of ranks differ, in words; empty if nothing does. seen: (counts, digests) by rank."""
    counts, digests = seen[0]
    for rank, (own, of_samples) in enumerate(seen):
        what = ""
        if own != counts:
            what = "rank {} has {} samples, rank 0 {}".format(rank, own, counts)
        elif digests and of_samples:
            others = [name for name, one in of_samples.items() if one != digests[name]]
            what = "{} on rank {} is not that of rank 0".format(others[0], rank) if others else ""
        if what:
            return "{}: {}: make the same Dataset on every rank, in the same order (os.listdir has none)".format(
                path, what
            )
    return ""


def as_numpy(one: Any) -> np.ndarray:
    """A tensor as an array of NumPy, of float32 if NumPy lacks its type. Raises TrainingError for what is none."""
    if torch.is_tensor(one):
        own = one.detach().cpu()
        return np.asarray((own.float() if own.dtype == torch.bfloat16 else own).numpy())
    if isinstance(one, np.ndarray):
        return one
    raise TrainingError(
        "training.evaluate needs outputs and targets that are tensors, not {}: measure these in the function validate "
        "of training.loop".format(type(one).__name__)
    )


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

    def held_out(self, split: str) -> Iterator[tuple[Any, int]]:
        if split not in self.source.counts and split not in self._held:
            raise AgreedError(
                "{0} has no samples for {1}: give training.loader {1}=".format(self.source.path, split),
                speaks=self._world.is_root,
            )
        part = self._own_part(split)
        own = part.positions.tolist()
        batches = [own[begin : begin + self._batch] for begin in range(0, len(own), self._batch)]
        for numbers, batch in zip(batches, self._loader(part.split, _NOT_TRAINED, batches)):
            yield batch, len(numbers)

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
