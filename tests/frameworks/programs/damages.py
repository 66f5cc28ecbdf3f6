"""Damages checkpoints in many ways, and tells what a restore makes of each; a program gives the framework's part."""

import contextlib
import io
import json
import os
import random
import shutil
from argparse import Namespace

import numpy as np

from hpclaunch.training.checkpoints import folders, plain_state, writing
from hpclaunch.training.checkpoints.resuming import Place
from hpclaunch.training.metrics import MetricsLog
from hpclaunch.training.rank.failure import AgreedError

FILES = (folders.SHARED, "rank-0000.npz", folders.MANIFEST)


def flip(path, draw):
    """Change one bit of a file."""
    with open(path, "r+b") as file:
        at = draw.randrange(os.path.getsize(path))
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 1 << draw.randrange(8)]))


def truncate(path, draw):
    with open(path, "r+b") as file:
        file.truncate(draw.randrange(os.path.getsize(path)))


def lengthen(path, draw):
    with open(path, "ab") as file:
        file.write(bytes(draw.randrange(1, 100)))


def remove(path, draw):
    os.remove(path)


def garble(path, draw):
    """Change a block of a file, as one that never reached the disk."""
    begin = draw.randrange(os.path.getsize(path))
    with open(path, "r+b") as file:
        file.seek(begin)
        block = file.read(1 + draw.randrange(4096))
        file.seek(begin)
        file.write(bytes(255 - byte for byte in block))


def as_folder(path, draw):
    os.remove(path)
    os.mkdir(path)


def save_plain(world, state, step):
    """Save a state of PyTorch or JAX after a step; returns the checkpoint's path and the state's arrays."""
    facts = {"steps_per_epoch": 4, "metrics_bytes": 0, "data": "", "epochs": None}
    facts["options"] = {"batch_size_per_rank": 8, "accumulation": 1}
    folder = os.path.join(world.run_dir, "checkpoints")
    return writing.save(world, state, folder, Place(step // 4, step % 4, step), facts, 2), arrays(state)


def restore_plain(world, state):
    """Restore such a state from the newest checkpoint; returns the place, with this attempt's random numbers begun."""
    asked = Namespace(batch_size_per_rank=8, accumulation=1, scale_learning_rate="none", resume=True)
    place = plain_state.restore(world, state, asked, 8, MetricsLog(None, False), "")
    state.begin_random()
    return place


def arrays(state):
    return {leaf.name: leaf.read() for leaf in state.leaves()}


DAMAGES = (flip, flip, flip, truncate, lengthen, remove, garble, as_folder)


def without_digest(path, number):
    """The manifest of a version before formats with a digest."""
    manifest = os.path.join(path, folders.MANIFEST)
    with open(manifest, encoding="utf-8") as file:
        content = json.load(file)
    del content["sha256"]
    with open(manifest, "w", encoding="utf-8") as file:
        json.dump({**content, "format": number}, file)


def rewritten(path, **others):
    """Another manifest, as a version that knows such facts would write it."""
    manifest = os.path.join(path, folders.MANIFEST)
    with open(manifest, encoding="utf-8") as file:
        content = json.load(file)
    with open(manifest, "w", encoding="utf-8") as file:
        file.write(folders.manifest_text({**content, **others}))


def listing(folder):
    found = {}
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, folder)] = file.read()
    return found


def outcomes(argv, save, restore, arrays, other, others):
    """What came of each damage: a word of how it ended, or the text of the error.

    argv: the run directory, and how many damages by chance. save(step) -> its path and the saved arrays;
    restore(state) -> its place, and the arrays afterwards; arrays(state) -> those of a state, by name; other() -> a
    state with other numbers; others: states that do not fit, by name.
    """
    folder = os.path.join(argv[1], "checkpoints")
    found = {"damaged": []}

    def fresh():
        shutil.rmtree(folder, ignore_errors=True)
        return [save(step) for step in (8, 14)]

    def ended(make, saved):
        state, said = make(), io.StringIO()
        before, files = arrays(state), listing(folder)
        try:
            with contextlib.redirect_stdout(said):
                place, now = restore(state)
        except AgreedError as error:
            kept = listing(folder) == files
            unchanged = "" if equal(before, arrays(state)) else " CHANGED STATE"
            return "{}{}{}".format(error, unchanged, "" if kept else " CHANGED FILES")
        for path, held in saved:
            if place.path == path:
                words = "the newest" if path == saved[-1][0] else "the one before"
                told = said.getvalue().count("is damaged (") == (words == "the one before")
                return words if equal(held, now) and not equal(held, before) and told else f"{words}: WRONG"
        return f"WRONG PLACE {place}"

    saved = fresh()
    found["same"] = ended(other, saved)
    for number in range(int(argv[2])):
        saved, draw = fresh(), random.Random(number)
        damage, name = DAMAGES[number % len(DAMAGES)], FILES[number % len(FILES)]
        damage(os.path.join(saved[-1][0], name), draw)
        found["damaged"].append([f"{damage.__name__} {name}", ended(other, saved)])
    saved = fresh()
    rewritten(saved[-1][0], format=99)
    found["newer"] = ended(other, saved)
    saved = fresh()
    without_digest(saved[-1][0], 2)
    found["older"] = ended(other, saved)
    for name, make in others.items():
        found[name] = ended(make, fresh())
    saved = fresh()
    rewritten(saved[-1][0], content=None)  # as TensorFlow has it
    found["another framework"] = ended(other, saved)
    shutil.rmtree(folder)
    os.mkdir(folder)
    with open(os.path.join(folder, "state-start-2.pt"), "w"):
        pass
    found["one file"] = ended(other, [])
    return found


def equal(several, others):
    """Whether two dictionaries have the same arrays, bit by bit."""
    return several.keys() == others.keys() and all(same(several[name], others[name]) for name in several)


def same(one, other):
    """Whether two arrays have the same type, shape and bits."""
    one, other = np.asarray(one), np.asarray(other)
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
