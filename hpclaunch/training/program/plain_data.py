"""The samples of a program that trains with PyTorch or JAX: NumPy arrays in memory, divided among the ranks.

Its `data_folder` is that of TensorFlow, too.
"""

from __future__ import annotations

from typing import Any, Callable, TypeVar

from hpclaunch.training import options
from hpclaunch.training.input import loading, made_up, shards
from hpclaunch.training.input.array_file import ArrayFile
from hpclaunch.training.input.own_shard import OwnShard, RankSamples
from hpclaunch.training.input.source import ImageSet, Source
from hpclaunch.training.program import division
from hpclaunch.training.program.run import Run
from hpclaunch.training.rank import watch
from hpclaunch.training.rank.failure import AgreedError, leave_if_superseded

Samples = TypeVar("Samples", bound=RankSamples)
OPENING = "the opening of the data"


def image_set(run: Run, wanted: ImageSet) -> OwnShard:
    """The images of `wanted`, in the folder of the settings (data_dir) or made up (synthetic). A collective.

    Layouts: class folders (with Pillow), CIFAR-10's pickles, idx files, or an npz file with x_train, y_train, x_test,
    y_test.
    Raises AgreedError, with what was expected, if the data are missing or others.
    """
    watch.reached(OPENING)
    return divide_among_ranks(run, loading.open_source(run.world, run.settings, wanted), OwnShard)


def arrays(run: Run, path: str = "", inputs: str = "x", targets: str = "y", held_out: float = 0.1) -> OwnShard:
    """One's own arrays in an npz file, divided among the ranks. A collective.

    path: without one, the file that the settings name (data_dir). inputs, targets: the names of the arrays, [n, ...] of
    any number type: INPUTS_train, TARGETS_train, INPUTS_test and TARGETS_test, or INPUTS and TARGETS, of which
    `held_out` (0 to 1) is kept for the test, chosen by the seed. Whole-number targets [n] are classes; all others are
    numbers to predict. Raises AgreedError for a file that is missing or has other arrays.
    """
    watch.reached(OPENING)
    asked = run.settings
    refuse_synthetic(run)
    path = path or options.data_dir(asked.data_dir)
    source = loading.agreed(run.world, lambda: ArrayFile(path, (inputs, targets), held_out, asked.seed))
    return divide_among_ranks(run, source, OwnShard)


def data_folder(run: Run, made: tuple[Any, ...], write: Callable[[str], Any]) -> str:
    """The folder of the settings (data_dir); with synthetic=true one of the run, which `write` fills. A collective.

    made: everything that determines the synthetic data, such as their number and seed. write: takes the folder, and
    fills it on rank 0, unless it has been filled before (made_up.written_once).
    """
    if not run.settings.synthetic:
        return options.data_dir(run.settings.data_dir)
    folder = made_up.place(run.folder, *made)

    def on_root() -> None:
        leave_if_superseded()
        write(folder)

    loading.from_root(run.world, on_root)
    return folder


def source(run: Run, opens: Callable[[], Source]) -> Source:
    """The data set that `opens` opens, on every rank. A collective.

    Raises AgreedError if a rank cannot open it, or sees other data than rank 0.
    """
    watch.reached(OPENING)
    return loading.agreed(run.world, opens)


def data(run: Run, source: Source) -> OwnShard:
    """Divide an opened data set among the ranks: each has its own samples in memory. A collective.

    source: a Source (hpclaunch.training.input.source).
    """
    watch.reached(OPENING)
    return divide_among_ranks(run, source, OwnShard)


def refuse_synthetic(run: Run) -> None:
    """Raise AgreedError if the settings ask for made-up samples, which a program with data of its own has not."""
    if run.settings.synthetic:
        raise AgreedError("--synthetic=true has no effect: this program has no synthetic data", speaks=run.is_root)


def divide_among_ranks(run: Run, source: Source, make: Callable[..., Samples]) -> Samples:
    """This rank's part, which `make` makes as RankSamples; the log says what each rank reads. A collective."""
    asked, world = run.settings, run.world
    order = shards.shuffled(source.counts["train"], asked.seed, asked.train_samples)
    order, parts = division.divided(run, source, order)
    data = make(world, asked, source, order, parts)
    data.validation = division.validation_of(run, parts)
    run.log.write(
        "start",
        job=run.name,
        world_size=world.size,
        hosts=sorted(set(world.gather(world.host))),
        options=vars(asked),
        global_batch_size=asked.batch_size_per_rank * asked.accumulation * world.size,
        steps_per_epoch=data.steps,
        data={"path": source.path, "samples": source.counts},
    )
    loading.report_shards(world, data.shard, run.log, record=False)
    return data
