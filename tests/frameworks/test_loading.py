"""A Dataset of a program's own is divided among the ranks, read by workers, and resumed at the right sample."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.frameworks.test_continuing import finals
from tests.frameworks.test_jobs import PROGRAMS, Started, start_program
from tests.tiers import LONG

pytestmark = pytest.mark.timeout(900)
VALIDATED = ("--accumulation=2", "--validation-part=0.2", "--restore-best=true")
"""Of 31 samples six are for the validation; each of two ranks has 13, in steps of 3 + 3, 3 + 3 and 1."""


def started(run_dir: Path, *arguments: str, size: int = 2) -> Started:
    return start_program("ddp", PROGRAMS / "loading_torch.py", run_dir, *arguments, size=size)


def read_by(run_dir: Path, size: int) -> list[list[Any]]:
    return [json.loads((run_dir / f"read-{rank}.json").read_text()) for rank in range(size)]


def test_killed_and_resumed_reads_the_same_samples_with_any_number_of_workers(tmp_path: Path) -> None:
    """The augmentation of a sample is the same, and so is all that follows, to the last bit."""
    whole = started(tmp_path / "whole", *VALIDATED)
    codes, text = whole.ended()
    assert codes == [0, 0], text
    for number, kill in enumerate((7, 3) if LONG else (7,)):
        codes, text = started(tmp_path / "parts", f"--workers={1 + number}", f"--die-after={kill}", *VALIDATED).ended()
        assert -9 in codes, text
    parts = started(tmp_path / "parts", "--workers=2", *VALIDATED)
    codes, text = parts.ended()
    assert codes == [0, 0] and text.count("resuming from") == 1, text
    expected, found = finals(tmp_path / "whole", 2), finals(tmp_path / "parts", 2)
    assert [float(abs(one - other).max()) for one, other in zip(expected, found, strict=True)] == [0.0] * len(found)
    for one, other in zip(read_by(tmp_path / "whole", 2), read_by(tmp_path / "parts", 2), strict=True):
        assert other == one[len(one) - len(other) :] and 0 < len(other) < len(one)
    lines = [[(line["loss"], line["val_loss"]) for line in run.events("epoch")] for run in (whole, parts)]
    assert lines[0] == lines[1] and len(lines[0]) == 3
    assert whole.events("end")[0]["test_mse"] == parts.events("end")[0]["test_mse"]


def test_ranks_read_every_sample_once_in_an_epoch_and_none_of_the_validation(tmp_path: Path) -> None:
    codes, text = started(tmp_path, "--validation-part=0.2", "--epochs=2", "--workers=1", "--count=30").ended()
    assert codes == [0, 0], text
    ranks = read_by(tmp_path, 2)
    steps = len(ranks[0]) // 2
    epochs = [
        [number for one in ranks for batch, _ in one[n * steps : (n + 1) * steps] for number in batch] for n in (0, 1)
    ]
    assert [len(set(one)) for one in epochs] == [len(one) for one in epochs] == [24, 24]
    assert set(epochs[0]) == set(epochs[1]) and epochs[0] != epochs[1]
    assert not {sum_ for one in ranks for _, sum_ in one[:steps]} & {sum_ for one in ranks for _, sum_ in one[steps:]}


NAMED = """
import torch
from hpclaunch.training import on_pytorch as training

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 9
    def __getitem__(self, number):
        return torch.tensor([number / 9]), float(number)

def named(samples):
    numbers = torch.tensor([number for _, number in samples])
    return torch.stack([inputs for inputs, _ in samples]), {"number": numbers, "double": 2 * numbers}

with training.start(training.settings(epochs=1, batch_size_per_rank=4, learning_rate=0.001)) as run:
    data = training.loader(run, Numbers(), validation=Numbers(), collate_fn=named)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.001)
    loop = training.loop(run, model, optimizer, data, validate=lambda model, inputs, targets: targets["number"].mean())
    for inputs, targets in loop:
        loop.step((loop.model(inputs)[:, 0] - targets["double"]).square().mean())
"""


def test_every_sample_counts_once_in_a_validation_with_targets_by_name(tmp_path: Path) -> None:
    """Rank 0 validates on batches of 4 samples and of 1, rank 1 on one of 4."""
    program = tmp_path / "named.py"
    program.write_text(NAMED)
    run = start_program("ddp", program, tmp_path, size=2)
    codes, text = run.ended()
    assert codes == [0, 0], text
    assert [line["val_loss"] for line in run.events("epoch")] == pytest.approx([4.0])  # the mean of 0 to 8


REFUSED = """
import sys, torch
from hpclaunch.training import on_pytorch as training
from hpclaunch.training.rank.failure import AgreedError, TrainingError

class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter([])

class Sized(Stream):
    def __len__(self):
        return 9

class Numbers(torch.utils.data.Dataset):
    def __init__(self, numbers):
        self.numbers = numbers
    def __len__(self):
        return len(self.numbers)
    def __getitem__(self, number):
        return {"number": torch.tensor(self.numbers[number])}, 0.0

class Short(torch.utils.data.Dataset):
    def __init__(self, sample, count=9):
        self.sample, self.count = sample, count
    def __len__(self):
        return self.count
    def __getitem__(self, number):
        return self.sample

with training.start(training.settings(words=[])) as run:
    for dataset, options in (
        (Stream(), {}), (Sized(), {}), (Short(torch.ones(3)), {}), (Short((1.0, 2.0), 0), {}),
        (Short((1.0, 2.0)), {"shuffle": True}),
    ):
        try:
            training.loader(run, dataset, **options)
        except AgreedError as error:
            print(error)
    data = training.loader(run, Short((torch.ones(3), 2.0)))
    run.settings.accumulation = 2
    model = torch.nn.Linear(3, 1)
    try:
        training.loop(run, model, torch.optim.SGD(model.parameters(), 0.001), data, static_graph=True)
    except AgreedError as error:
        print(error)
    try:
        list(data.test_batches())
    except AgreedError as error:
        print(error)
    try:
        training.loader(run, Short((1.0, 2.0), 9 + run.rank))
    except AgreedError as error:
        print(error)
    for split in ("train", "test"):
        own = Numbers([0, 1, 2, 3, 4 - run.rank])
        whole = {"train": Numbers([0, 1, 2, 3, 4]), split: own}
        try:
            training.loader(run, whole["train"], test=whole.get("test"))
        except AgreedError as error:
            print(error)
"""


def test_what_cannot_be_divided_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "refused.py"
    program.write_text(REFUSED)
    codes, text = start_program("ddp", program, tmp_path, size=2).ended()
    assert codes == [0, 0], text
    for told in (
        "Sized has no length or no samples by number, so ranks cannot divide it",
        "the Dataset Numbers: sample 4 of train on rank 1 is not that of rank 0: make the same Dataset on every rank",
        "the Dataset Numbers: sample 4 of test on rank 1 is not that of rank 0",
        "Stream has no length or no samples by number, so ranks cannot divide it",
        "a sample of the Dataset Short is Tensor, not a pair (input, target)",
        "the Dataset Short has no samples\n",
        "static_graph=True needs an exchange in each backward pass: omit it or --accumulation",
        "training.loader chooses shuffle itself: set batch_size_per_rank, seed and workers",
        "the Dataset Short has no samples for test: give training.loader test=",
        "the Dataset Short: rank 1 has {'train': 10} samples, rank 0 {'train': 9}: make the same Dataset on every rank",
    ):
        assert text.count(told) == 2, (told, text)


ORDINARY = """
import collections, random, torch
from hpclaunch.training import on_pytorch as training
from hpclaunch.training.rank.failure import TrainingError

Pair = collections.namedtuple("Pair", "left right")

class Samples(torch.utils.data.Dataset):
    def __init__(self, make):
        self.make = make
    def __len__(self):
        return 8
    def __getitem__(self, number):
        return self.make(number)

with training.start(training.settings(words=[], batch_size_per_rank=4)) as run:
    def opened(make, **options):
        samples = Samples(make)
        return training.loader(run, samples, test=samples, **options)
    def batch_of(data):
        model = torch.nn.Linear(1, 1)
        return next(iter(training.loop(run, model, torch.optim.SGD(model.parameters(), 0.001), data)))

    def half(number):
        return torch.ones(2, dtype=torch.bfloat16) * number, torch.tensor(1.0, dtype=torch.bfloat16, requires_grad=True)
    data = opened(half)
    print("types", data.source.wanted.shape, data.source.sample_type, data.source.has_classes)
    print("evaluated", training.evaluate(run, torch.nn.Linear(2, 1).bfloat16(), data)["test_samples"])
    inputs, targets = batch_of(opened(lambda number: (Pair(torch.ones(1), 2.0), {"a": 1})))
    print("kept", type(inputs).__name__, inputs.left.shape, targets["a"].tolist())
    def packed(samples):
        return torch.nn.utils.rnn.pack_sequence([one for one, _ in samples]), torch.ones(len(samples))
    inputs, _ = batch_of(opened(lambda number: (torch.ones(3), 1.0), collate_fn=packed))
    print("packed", type(inputs).__name__, inputs.data.shape)
    class Own:
        def to(self, device):
            return "moved to " + device.type
    print("own", batch_of(opened(lambda number: (1.0, 1.0), collate_fn=lambda samples: (Own(), torch.ones(4))))[0])
    data = opened(lambda number: (torch.ones(1), {"a": torch.tensor(1)}))
    print("no array", data.source.has_classes, [sorted(targets) for _, targets in data.test_batches()])
    try:
        training.evaluate(run, torch.nn.Linear(1, 1), data)
    except TrainingError as error:
        print(error)
    one, other, again = (
        opened(lambda number, of=of: ([torch.tensor(number == of), "text"], 1.0)).source.fingerprint for of in (4, 2, 4)
    )
    print("told apart", one != other, one == again)
    drawn = opened(lambda number: (random.random() + torch.rand(1), 1.0)).source.fingerprint
    print("seeded", drawn == opened(lambda number: (random.random() + torch.rand(1), 1.0)).source.fingerprint)
    print("own numbers")
    own = random.Random()
    opened(lambda number: (own.random(), 1.0))
"""


def test_the_samples_of_ordinary_datasets_are_taken(tmp_path: Path) -> None:
    program = tmp_path / "ordinary.py"
    program.write_text(ORDINARY)
    codes, text = start_program("ddp", program, tmp_path, size=1).ended()
    assert codes == [0], text
    for told in (
        "types (2,) bfloat16 False\n",
        "evaluated 8\n",
        "kept Pair torch.Size([4, 1]) [1, 1, 1, 1]\n",
        "packed PackedSequence torch.Size([12])\n",
        "own moved to cpu\n",
        "no array False [['a'], ['a']]\n",
        "training.evaluate needs outputs and targets that are tensors, not dict: measure these in the",
        "told apart True True\n",
        "seeded True\n",
    ):
        assert text.count(told) == 1, (told, text)
    before, after = text.split("own numbers\n")
    assert "differs from read to read" not in before
    assert after.count("note: a sample of the Dataset Samples differs from read to read") == 1
