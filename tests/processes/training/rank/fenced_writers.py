"""Lets each writer of the library write twice into a run directory: before and after a later start claims it.

fenced_writers.py FOLDER prints a line of JSON for each: whether it wrote before the claim, how it ended after it,
and what it said, changed and added then. Each has a process and a run directory of its own.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from hpclaunch import training
from hpclaunch.training.checkpoints import folders, resuming
from hpclaunch.training.checkpoints.folders import Lineage
from hpclaunch.training.input import loading
from hpclaunch.training.metrics import MetricsLog, metrics_log
from hpclaunch.training.mlflow_log import MlflowLog
from hpclaunch.training.monitoring import scalars, trace
from hpclaunch.training.program import confusion, trained_model
from hpclaunch.training.program.run import Run
from hpclaunch.training.rank import marks
from hpclaunch.training.rank.world import World

START, EXIT_FILE = 3, "first-failure"
LONGEST_S = 120  # of a writer that hangs


class Place(NamedTuple):
    run_dir: Path
    world: World

    @property
    def checkpoints(self) -> str:
        return str(self.run_dir / "checkpoints")

    def run(self) -> Run:
        return Run("job", training.settings(words=[]), self.world, MetricsLog(None, False))

    def claim(self) -> None:
        (self.run_dir / "claims" / str(START + 1)).touch()


class Writer(NamedTuple):
    """The work before the claim of a later start, and the work after it; claims: the second makes the claim itself.

    adds: beginnings of what the second may add to the run directory, which it wrote before the claim.
    """

    before: Callable[[], Any]
    late: Callable[[], Any]
    claims: bool = False
    adds: str = ""


def after(module: Any, name: str, then: Callable[[], Any]) -> None:
    """From now on do `then` after each call of a function that all modules call by its module."""
    original = getattr(module, name)

    def called(*arguments: Any, **options: Any) -> Any:
        result = original(*arguments, **options)
        then()
        return result

    setattr(module, name, called)


def checkpoint(place: Place, step: int, keep: int = 9) -> None:
    partial = folders.begin(place.checkpoints, step, START)
    files = [folders.write(partial, folders.SHARED, {"a": np.zeros(2)}.items())]
    folders.commit(partial, step, files, {"epoch": 1}, keep, Lineage(START))


def metrics_line(place: Place) -> Writer:
    log = metrics_log(str(place.run_dir), True, False)
    return Writer(lambda: log.write("epoch", loss=1.0), lambda: log.write("epoch", loss=2.0))


def metrics_copied(place: Place) -> Writer:
    path = place.run_dir / "metrics.jsonl"
    return Writer(lambda: path.write_text("one\n"), lambda: metrics_log(str(place.run_dir), True, False))


def checkpoint_begun(place: Place) -> Writer:
    return Writer(lambda: checkpoint(place, 10), lambda: folders.begin(place.checkpoints, 20, START))


def checkpoint_file_of_a_rank(place: Place) -> Writer:
    partial = folders.begin(place.checkpoints, 20, START)
    write = [lambda n=n: folders.write(partial, folders.own_file(n), {"a": np.zeros(2)}.items()) for n in range(2)]
    return Writer(*write)


def checkpoint_renamed(place: Place) -> Writer:
    def late() -> None:
        partial = folders.begin(place.checkpoints, 20, START)
        files = [folders.write(partial, folders.SHARED, {"a": np.zeros(2)}.items())]
        after(folders, "sync_folder", place.claim)  # the last thing that is done before
        folders.commit(partial, 20, files, {"epoch": 1}, 1, Lineage(START))

    return Writer(lambda: checkpoint(place, 10), late, True, "checkpoints/.partial-00000020-start-3")


def checkpoints_pruned(place: Place) -> Writer:
    def late() -> None:
        after(os, "rename", place.claim)
        checkpoint(place, 20, keep=1)

    return Writer(
        lambda: [checkpoint(place, 5), checkpoint(place, 10)], late, True, "checkpoints/step-00000020-start-3"
    )


def checkpoint_set_aside(place: Place) -> Writer:
    for step in (10, 20):
        checkpoint(place, step)
    aside = [lambda n=n: folders.set_aside(folders.path_of(place.checkpoints, n, START)) for n in (10, 20)]
    return Writer(*aside)


def metrics_cut(place: Place) -> Writer:
    path = place.run_dir / "metrics.jsonl"
    path.write_text("one\ntwo\nthree\n")
    return Writer(lambda: resuming._cut(str(path), 8), lambda: resuming._cut(str(path), 4))


def export(place: Place) -> Writer:
    run, model = place.run(), tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(1)])
    source = Namespace(wanted=Namespace(shape=(4,)), sample_type=np.float32, several_inputs=None, classes=())
    data: Any = Namespace(source=source)
    return Writer(lambda: trained_model.write(run, model, data), lambda: trained_model.write(run, model, data))


def export_renamed(place: Place) -> Writer:
    whole = export(place)

    def late() -> None:
        after(json, "dump", place.claim)  # of model.json, the last file
        whole.late()

    return Writer(whole.before, late, True, ".model-partial")


def confusion_matrix(place: Place) -> Writer:
    data: Any = Namespace(source=Namespace(classes=()))
    write = [lambda n=n: confusion.write(place.run(), data, "test", np.full((2, 2), n)) for n in range(2)]
    return Writer(*write)


def tensorboard(place: Place) -> Writer:
    writer = scalars.Scalars(str(place.run_dir / "tensorboard"))
    return Writer(lambda: writer._write("train", 0, {"loss": 1.0}), lambda: writer._write("train", 1, {"loss": 2.0}))


def profile(place: Place) -> Writer:
    made = trace.Trace(str(place.run_dir / "profile"), 0, 1, 1, MetricsLog(None, False))

    def begin() -> None:
        made.on_epoch_begin(0)
        made.on_train_batch_begin(0)
        (place.run_dir / "begun").touch()  # the profiler itself writes at its end

    return Writer(begin, lambda: made.on_train_batch_end(0))


def mlflow(place: Place) -> Writer:
    log = MlflowLog.__new__(MlflowLog)  # without MLflow, which is not installed everywhere
    log._run_dir = str(place.run_dir)
    work = [lambda n=n: log._attempt((place.run_dir / n).touch) for n in ("one", "two")]
    return Writer(*work)


def shards(place: Place) -> Writer:
    shard: Any = [Namespace(indices=np.arange(5), samples=count) for count in (3, 2)]
    return Writer(lambda: loading._record(place.world, shard[0]), lambda: loading._record(place.world, shard[1]))


def made_up_data(place: Place) -> Writer:
    run = place.run()
    run.settings.synthetic = True
    make = [lambda n=n: training.data_folder(run, (n,), os.makedirs) for n in range(2)]
    return Writer(*make)


def mark_of_the_beginning(place: Place) -> Writer:
    return Writer(lambda: marks.end(place.world), lambda: marks.begin(place.world))


def mark_of_the_end(place: Place) -> Writer:
    return Writer(lambda: marks.begin(place.world), lambda: marks.end(place.world))


def file_of_a_program(place: Place) -> Writer:
    run = place.run()

    def write(name: str) -> None:
        run.leave_if_superseded()
        (place.run_dir / name).touch()

    return Writer(lambda: write("one"), lambda: write("two"))


WRITERS = {
    make.__name__: make
    for make in (
        metrics_line,
        metrics_copied,
        checkpoint_begun,
        checkpoint_file_of_a_rank,
        checkpoint_renamed,
        checkpoints_pruned,
        checkpoint_set_aside,
        metrics_cut,
        export,
        export_renamed,
        confusion_matrix,
        tensorboard,
        profile,
        mlflow,
        shards,
        made_up_data,
        mark_of_the_beginning,
        mark_of_the_end,
        file_of_a_program,
    )
}


def tree(folder: Path) -> dict[str, str]:
    """The files of a run directory with their content, and its folders."""
    paths = [path for path in folder.rglob("*") if "claims" not in path.parts and not path.name.startswith(EXIT_FILE)]
    return {str(path.relative_to(folder)): path.read_bytes().hex() if path.is_file() else "" for path in paths}


def write_twice(name: str, place: Place, notes: Path) -> None:
    empty = tree(place.run_dir)
    writer = WRITERS[name](place)
    writer.before()
    first = tree(place.run_dir)
    notes.write_text(json.dumps({"wrote": first != empty, "first": first, "adds": writer.adds}))
    if not writer.claims:
        place.claim()
    writer.late()


def observed(name: str, root: Path) -> dict[str, Any]:
    run_dir, notes, said = root / name, root / f"{name}.json", root / f"{name}.said"
    (run_dir / "claims").mkdir(parents=True)
    (run_dir / "claims" / str(START)).touch()
    failure = run_dir / "attempts" / "7.2" / EXIT_FILE
    failure.parent.mkdir(parents=True)
    os.environ.update(HPCLAUNCH_RUN_DIR=str(run_dir), HPCLAUNCH_START=str(START), HPCLAUNCH_EXIT_FILE=str(failure))
    child = os.fork()
    if not child:
        signal.alarm(LONGEST_S)
        output = os.open(said, os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        try:
            write_twice(name, Place(run_dir, World(0, 1, 0, 1, "n1", "CPU", 1, str(run_dir))), notes)
        except BaseException:
            traceback.print_exc()
            os._exit(99)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    known = json.loads(notes.read_text()) if notes.exists() else {"wrote": False, "first": {}, "adds": ""}
    first, now = known["first"], tree(run_dir)
    return {
        "name": name,
        "wrote": known["wrote"],
        "adds": known["adds"],
        "code": os.waitstatus_to_exitcode(status),
        "recorded": failure.read_text() if failure.exists() else "",
        "said": said.read_text(),
        "changed": sorted(path for path in first if first[path] != now.get(path)),
        "added": sorted(set(now) - set(first)),
    }


if __name__ == "__main__":
    for one in WRITERS:
        print(json.dumps(observed(one, Path(sys.argv[1]))), flush=True)
