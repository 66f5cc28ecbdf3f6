"""The samples of a training, divided among the ranks: of a data set that is known by name, or of one's own images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

from hpclaunch.training import options
from hpclaunch.training.input import (
    augmentation,
    feeding,
    image_folders,
    loading,
    node_storage,
    shards,
)
from hpclaunch.training.input.augmentation import Augmentation
from hpclaunch.training.input.feeding import Feed
from hpclaunch.training.input.source import ImageSet, Source
from hpclaunch.training.optimization import techniques
from hpclaunch.training.program import division
from hpclaunch.training.program.held_out import HeldOut
from hpclaunch.training.program.run import Run
from hpclaunch.training.rank import watch
from hpclaunch.training.rank.failure import AgreedError

OPENING = "the opening of the data"


@dataclass(frozen=True)
class Data:
    """The opened data, and this rank's share of them.

    feed: the share of the training samples: its shard, and its batches from any step on. held_out: for a split such as
    "test", an iterable of this rank's batches, the same samples on no other rank. augment: the changes of training
    images, whose `loss` fits the labels. validation: the split on which the training is validated; empty if it is not.
    """

    source: Source
    augment: Augmentation
    feed: Feed
    held_out: HeldOut
    validation: str = ""


def data(run: Run, source: Source, augment: Augmentation | None = None, sharded: bool = True) -> Data:
    """Divide an opened data set among the ranks: each reads its own samples only. A collective.

    source: a Source (hpclaunch.training.input.source). augment: of the training images; without one, what the settings
    say. sharded: whether every rank has samples of its own; else each draws from all of them in an order of its own.
    """
    watch.reached(OPENING)
    asked, world = run.settings, run.world
    if augment is None:
        augment = _augmentation(run, source)
    order = shards.shuffled(source.counts["train"], asked.seed, asked.train_samples)
    order, parts = division.divided(run, source, order)
    feed = feeding.training_feed(world, source, order, asked, augment, sharded)
    return Data(source, augment, feed, HeldOut(run, source, parts), division.validation_of(run, parts))


def image_set(run: Run, wanted: ImageSet) -> Data:
    """The images of `wanted`, in the folder of the settings (data_dir) or made up (synthetic). A collective.

    Layouts: class folders, TFRecords, a folder of tensorflow_datasets, CIFAR-10's pickles, idx files, or an npz file
    with x_train, y_train, x_test, y_test.
    Raises AgreedError, with what was expected, if the data are missing or others.
    """
    watch.reached(OPENING)
    techniques.check_made_up(run.settings, run.world)
    found = loading.open_source(run.world, run.settings, wanted)
    return data(run, node_storage.staged(run.world, found, run.settings.stage_to))


def image_folder(run: Run, folder: str = "", size: tuple[int, int] = (224, 224), channels: int = 3) -> Data:
    """One's own images in class folders (FOLDER/train/CLASS/*.jpg|png, FOLDER/test/CLASS/...). A collective.

    folder: without one, that of the settings (data_dir). Images of any size become uint8 [height, width, channels] of
    `size` (height, width): the whole image is resized, so its proportions change with it. Labels are the places of the
    class folders among their sorted names, int64 [].
    """
    folder = own_path(run, folder)
    wanted = ImageSet(run.name, (*size, channels), classes=0, job=run.name, resized=True)
    return data(run, source(run, lambda: image_folders.opened(wanted, folder)))


def own_path(run: Run, typed: str) -> str:
    """The folder or file with a program's own data: the given one, or that of the settings (data_dir)."""
    refuse_settings(run, run.settings.synthetic, "--synthetic=true", "this program has no synthetic data")
    return typed or options.data_dir(run.settings.data_dir)


def refuse_settings(run: Run, found: bool, option: str, reason: str) -> None:
    """Raise AgreedError if a setting was `found` that would have no effect."""
    if found:
        raise AgreedError("{} has no effect: {}".format(option, reason), speaks=run.is_root)


def source(run: Run, opens: Callable[[], Source]) -> Source:
    """The data set that `opens` opens, on every rank: on its node's storage, if the settings stage it. A collective.

    Raises AgreedError if a rank cannot open it, or sees other data than rank 0.
    """
    watch.reached(OPENING)
    return node_storage.staged(run.world, loading.agreed(run.world, opens), run.settings.stage_to)


def _augmentation(run: Run, source: Source) -> Augmentation:
    """What the settings ask for. Raises AgreedError if it cannot be done with these samples."""
    if not hasattr(run.settings, "flip_horizontal"):  # a job whose parameters have no augmentation
        return Augmentation()
    found = augmentation.from_options(run.settings, source.wanted.classes)
    if found.changes and not source.has_images:
        raise AgreedError(
            "flips, crops, colours and mixing are for uint8 images [height, width, channels]; the samples of {} are "
            "{}: leave these settings out".format(source.path, _words(source)),
            speaks=run.is_root,
        )
    if found.mixes and source.is_weighted:
        raise AgreedError(
            "mixup and cutmix mix samples whose weights differ: leave one of them out", speaks=run.is_root
        )
    return found


def _words(source: Source) -> str:
    if source.several_inputs is not None:
        return "of several inputs"
    return "{} {}".format(source.sample_type, list(source.wanted.shape))
