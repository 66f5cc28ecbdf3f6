"""Hostile files of data: YAML and JSON, metrics and logs, checkpoints, pickles, npz files, TFRecords."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import pickle
import shutil
import struct
import zipfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from hpclaunch import runs
from hpclaunch.actions.following import inspect
from hpclaunch.actions.queueing import wait
from hpclaunch.cli.show import console, submission
from hpclaunch.config.documents import read_yaml
from hpclaunch.config.host_patterns import host_pattern
from hpclaunch.config.plain_files import read_json
from hpclaunch.training.checkpoints import folders
from hpclaunch.training.checkpoints.state import State
from tests.fuzz.scene import Scene, Way
from tests.fuzz.text_ways import a_record, as_yaml, changed, changes, screen, words

NUMBERS = [0, 1, 127, 128, 255, 2**15 - 1, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1]
numbers = st.builds(
    lambda number, width, order: (number & (1 << 8 * width) - 1).to_bytes(width, order),
    st.one_of(st.sampled_from(NUMBERS), st.integers(0, 2**64 - 1)),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from(["little", "big"]),
)
pieces = st.one_of(st.binary(max_size=8), numbers)
edits = st.lists(
    st.tuples(st.sampled_from(["set", "set", "flip", "insert", "cut", "end", "copy"]), st.integers(0, 2**20), pieces),
    max_size=4,
)
LONGEST = 300_000


def edited(content: bytes, changes: list[tuple[str, int, bytes]]) -> bytes:
    """The bytes with some of them replaced, removed, repeated or cut off."""
    for how, place, piece in changes:
        at = place % (len(content) + 1)
        if how == "set":
            content = content[:at] + piece + content[at + len(piece) :]
        elif how == "flip" and at < len(content):
            content = content[:at] + bytes([content[at] ^ (1 << len(piece) % 8)]) + content[at + 1 :]
        elif how == "insert":
            content = content[:at] + piece + content[at:]
        elif how == "cut":
            content = content[:at] + content[at + place % 97 :]
        elif how == "end":
            content = content[:at]
        elif how == "copy":
            content = content[:at] + content[at : at + place % 97] * 2 + content[at + place % 97 :]
    return content[:LONGEST]


# --- YAML and JSON

YAML_MARKS = ["[", "{", "]", "}", "- ", "? ", ": ", ", ", "a: ", "b", "\n", " ", "  ", "\t", "&x ", "*x", "!!binary "]
YAML_MARKS += ["!!python/object/apply:os.system [x]", '"', "'", "|", ">", "|9\n", "#", "%YAML 9.9\n", "%TAG ! !\n"]
YAML_MARKS += ["---\n", "...\n", "<<: ", "\r", "\x85", "\u2028", "\ufeff", "\\x", "1e999", "0x", "9" * 5000, "~", "\0"]
YAML_MARKS += ['"a": ', "null", "true", "NaN", '"\\ud800"', "[[", "[{", "{a: ", "a:\n "]
yaml_texts = st.lists(
    st.tuples(
        st.one_of(st.sampled_from(YAML_MARKS), st.text(max_size=3)), st.sampled_from([1, 1, 1, 2, 9, 300, 60_000])
    ),
    max_size=8,
)


def feed_document(scene: Scene, parts: list[tuple[str, int]], indented: bool) -> None:
    text = "".join((piece * min(times, LONGEST))[:LONGEST] if len(piece) < 99 else piece for piece, times in parts)
    text = text[:LONGEST]
    if indented:
        text = "\n".join(" " * place + line for place, line in enumerate(text.split("\n")[:700]))[:LONGEST]
    file = scene.place / "project/document.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    outcomes = set()
    for read in (read_yaml, read_json):
        with scene.met():
            read(file)
        outcomes.add(scene.outcome)
    scene.outcome = "result" if "result" in outcomes else "refused"


# --- patterns for host names

PATTERN_MARKS = ["a", ".", "\\.", "\\d", "\\w", "*", "+", "?", "(", ")", "(?:", "(?=", "|", "[a-z]", "[^a]", "[", "]"]
PATTERN_MARKS += ["{2}", "{1,3}", "{999}", "{0}", "^", "$", "\\1", "-", "\u00e9", "(a+)+", "(a|a)*", ".*.*.*"]


def feed_pattern(scene: Scene, parts: list[tuple[str, int]], name: str) -> None:
    scene.expected = (ValueError,)
    with scene.met():
        pattern = host_pattern("".join(piece * times for piece, times in parts))
        for host in (name, "a" * 255, "login1.example.org"):
            pattern.matches(host)


# --- metrics, logs

METRICS = [
    {"event": "start", "time": 1.0, "synthetic": False, "global_batch_size": 64},
    {"event": "epoch", "epoch": 1, "seconds": 2.5, "samples_per_second": 100.0, "step_spread": 0.01},
    {"event": "noise_scale", "noise_scale": 10.0, "low": 5.0, "high": 20.0, "steps": 100},
    {"event": "end", "accuracy": 0.5, "synthetic": False},
]


def feed_metrics(scene: Scene, lines: list[tuple[int, Any, int]], changes: Any, log: bytes) -> None:
    path = scene.place / "project/runs/train-5"
    (path / "logs").mkdir(parents=True)
    try:
        (path / "run.json").write_text(json.dumps(a_record(path, state="COMPLETED", job_id="5")))
        content = b"".join(as_yaml(changed(METRICS[which], news)) * times + b"\n" for which, news, times in lines)
        (path / "metrics.jsonl").write_bytes(edited(content, changes))
        (path / "logs/slurm-5.out").write_bytes(log)
        with contextlib.redirect_stdout(screen()), contextlib.redirect_stderr(screen()), scene.met():
            run = runs.load(path)
            submission.show_end(run, as_json=False)
            submission.show_end(run, as_json=True)
            inspect.numbers(run)
            assert len(b"".join(iter(wait.Tail(run).read, b""))) == len(log)
            assert b"\x1b" not in console._escape_terminal_controls(log)
    finally:
        shutil.rmtree(path)


# --- files that ranks read


def prepare_training(scene: Scene) -> None:
    """Import NumPy, and make one good file of each layout."""
    import numpy as np

    from hpclaunch.training.checkpoints import folders
    from hpclaunch.training.input import cifar_pickles, datasets, npz_file, plain_pickle, source
    from hpclaunch.training.rank.failure import TrainingError

    scene.expected = (TrainingError,)
    random = np.random.RandomState(0)
    images = {split: random.randint(0, 256, (3, 4, 4, 3)).astype(np.uint8) for split in ("train", "test")}
    small = source.ImageSet("small", shape=(4, 4, 3), classes=3, job="cifar")
    data = scene.place / "data"
    data.mkdir()
    arrays = {f"x_{split}": held for split, held in images.items()} | {
        f"y_{split}": np.arange(3) for split in ("train", "test")
    }
    for name, save in (("plain", np.savez), ("packed", np.savez_compressed)):
        with io.BytesIO() as made:
            save(made, **arrays)
            scene.store[f"npz {name}"] = made.getvalue()
    cifar = source.ImageSet("cifar10", shape=(32, 32, 3), classes=10, job="cifar")
    batches = data / "cifar-10-batches-py"
    batches.mkdir()
    content = {"data": random.randint(0, 256, (2, 3072)).astype(np.uint8), "labels": [1, 2], "filenames": ["a.png"]}
    scene.store["pickles"] = [pickle.dumps(content, protocol=protocol) for protocol in (2, 4, 5)]
    for name in ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"):
        (batches / name).write_bytes(scene.store["pickles"][0])
    checkpoints = data / "checkpoints"
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.int64(3)}
    for step in (5, 10):
        partial = folders.begin(str(checkpoints), step)
        folders.commit(partial, step, [folders.write(partial, name, arrays.items()) for name in CHECKPOINT], FACTS, 2)
    scene.store.update(small=small, cifar=cifar, np=np, open=datasets.open_dataset)
    scene.store["read pickle"] = plain_pickle.read
    assert batches.name == cifar_pickles.FOLDER and npz_file.SPLITS == ("train", "test")


CHECKPOINT = ["shared.npz", "rank-0000.npz"]
FACTS = {"epoch": 1, "epoch_step": 2, "steps_per_epoch": 5, "metrics_bytes": 10, "world_size": 1, "replicas": 1}
FACTS |= {"options": {"batch_size_per_rank": 8, "accumulation": 1, "epochs": 3}, "data": "x"}  # type: ignore[dict-item]


class NoModel(State):
    """In place of a model's state: it takes whatever a checkpoint has."""

    everywhere = False

    def put_shared(self, arrays: Any) -> None:
        pass

    put_own = put_new_random = put_shared

    def shared(self, common: Any = None, keep: bool = True) -> Any:
        return iter(())

    def own(self, metrics: bool) -> dict[str, Any]:
        return {}


def feed_checkpoint(scene: Scene, which: int, bytes_edits: Any, facts_edits: Any, mended: bool) -> None:
    folder = scene.place / "data/checkpoints"
    path = folder / "step-00000010"
    names = [*CHECKPOINT, "checkpoint.json"]
    kept = {name: (path / name).read_bytes() for name in names}
    try:
        manifest = json.loads(kept["checkpoint.json"])
        if which < 2:
            content = edited(kept[names[which]], bytes_edits)
            (path / names[which]).write_bytes(content)
            if mended:  # gets further than the first check
                entry = next(entry for entry in manifest["files"] if entry["name"] == names[which])
                entry.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
        else:
            manifest = changed(manifest, facts_edits)
        with contextlib.suppress(TypeError, ValueError, RecursionError):  # so that it gets further than the first check
            manifest = json.loads(folders.manifest_text(manifest))
        text = as_yaml(manifest)
        (path / "checkpoint.json").write_bytes(edited(text, bytes_edits) if which == 3 else text)
        resumed = ""
        with contextlib.redirect_stdout(screen()), scene.met(folder):
            resumed = resume_from(folder)
        # A manifest that cannot be used gives way to the checkpoint before, and ends no rank; a newer one is refused.
        assert resumed or (which < 2 and mended) or is_newer(path / "checkpoint.json")
        scene.outcome = "result" if resumed == str(path) else "refused"
    finally:
        shutil.rmtree(folder / "unused-step-00000010", ignore_errors=True)
        path.mkdir(exist_ok=True)
        for name, content in kept.items():
            (path / name).write_bytes(content)


def is_newer(manifest: Path) -> bool:
    """Whether a manifest has the number of a format that this version does not know."""
    try:
        number = json.loads(manifest.read_bytes()).get("format")
    except (ValueError, AttributeError):
        return False
    return isinstance(number, int | float) and number > 4


def resume_from(folder: Path) -> str:
    """The path of the checkpoint from which one rank has restored its state."""
    from hpclaunch.training.checkpoints import resuming
    from hpclaunch.training.metrics import MetricsLog
    from hpclaunch.training.rank.failure import AgreedError
    from hpclaunch.training.rank.world import World

    options = {"batch_size_per_rank": 8, "accumulation": 1, "scale_learning_rate": "linear", "resume": True}
    world = World(0, 1, 0, 1, "host", "CPU", 1, str(folder.parent))
    asked, log = argparse.Namespace(**options), MetricsLog(None, False)
    try:
        return resuming.restore(world, NoModel(), asked, 5, log).path  # type: ignore[arg-type]
    except AgreedError as error:
        assert "unforeseen" not in str(error), error
        raise


OPCODES = [
    bytes([code]) for code in b"(.012FGIJKLMNPQRSTUVX]abcdeghijlopqrstu}\x80\x81\x85\x86\x87\x88\x89\x8a\x8b\x8c"
]
OPCODES += [bytes([code]) for code in b"\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97\x98"]
OPCODES += [b"cos\nsystem\n", b"cnumpy\ndtype\n", b"cnumpy\nndarray\n", b"cnumpy.core.multiarray\n_reconstruct\n"]
OPCODES += [
    b"c_codecs\nencode\n",
    b"U\x02u1",
    b"X\x06\x00\x00\x00latin1",
    b"U\x04data",
    b"U\x06labels",
    b"K\x01",
    b"h\x00",
]
steps = st.lists(
    st.tuples(st.one_of(st.sampled_from(OPCODES), pieces), st.sampled_from([1, 1, 1, 2, 40, 5000])), max_size=12
)


def feed_pickle(scene: Scene, which: int, changes: Any, parts: Any) -> None:
    content = b"".join(piece * times for piece, times in parts)
    if which < 3:  # in a good file; else a program of its own
        good = scene.store["pickles"][which]
        at = len(content) * 7 % len(good)
        content = edited(good[:at] + content + good[at:], changes)
    else:
        content = b"\x80\x02" + content[:LONGEST] + b"."
    file = scene.place / "data/cifar-10-batches-py/data_batch_3"
    before = file.read_bytes()
    file.write_bytes(content)
    try:
        with scene.met():
            found = scene.store["open"](str(file.parent), scene.store["cifar"])
            found.read("train", scene.store["np"].arange(found.counts["train"])[-3:])
    finally:
        file.write_bytes(before)


HEADERS = ["{'descr': '|u1', 'fortran_order': False, 'shape': (3, 4, 4, 3), }", "(" * 300, "{" * 9000, "1", "{}"]
HEADERS += [f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({n},), }}" for n in (3, -1, 2**31, 2**62, 2**70)]
KINDS = ("O", "V0", "U9999999", "x", "<f8")
HEADERS += [f"{{'descr': '{kind}', 'fortran_order': False, 'shape': (3,), }}" for kind in KINDS]
HEADERS += ["{'descr': '<i8', 'fortran_order': True, 'shape': (3L, 4), }", f"{{'descr': '<i8', 'shape': {'9' * 5000}}}"]
headers = st.tuples(st.sampled_from(HEADERS), st.sampled_from([1, 2, 3, 9]), st.integers(0, 40), st.integers(0, 3))


def feed_npz(scene: Scene, packed: bool, changes: Any, header: Any, in_header: bool) -> None:
    content = scene.store["npz packed" if packed else "npz plain"]
    if in_header:
        content = with_header(content, *header)
    file = scene.place / "data/small.npz"
    file.write_bytes(edited(content, changes))
    with scene.met():
        found = scene.store["open"](str(file), scene.store["small"])
        for split, count in found.counts.items():
            found.read(split, scene.store["np"].arange(min(count, 100)))


def with_header(content: bytes, text: str, version: int, surplus: int, which: int) -> bytes:
    """The archive with the header of one array replaced, and valid checksums."""
    length = struct.pack("<H" if version == 1 else "<I", (len(text) + 1 + surplus * 997) & 0xFFFF)
    made = b"\x93NUMPY" + bytes([version, 0]) + length + text.encode() + b"\n"
    with io.BytesIO() as target, zipfile.ZipFile(io.BytesIO(content)) as old:
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED if surplus % 2 else zipfile.ZIP_STORED) as new:
            for number, name in enumerate(old.namelist()):
                held = old.read(name)
                new.writestr(name, made + held[-24 if "y_" in name else -144 :] if number == which else held)
        return target.getvalue()


# --- TFRecords


def prepare_records(scene: Scene) -> None:
    """Import TensorFlow, write two good files, and read them once: what is loaded late is loaded now."""
    import tensorflow as tf

    prepare_training(scene)
    folder = scene.place / "data/records"
    folder.mkdir()
    for name in ("train.tfrecord", "test.tfrecord"):
        with tf.io.TFRecordWriter(str(folder / name)) as writer:
            for label in range(3):
                features = {
                    "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[bytes([label]) * 48])),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    found = scene.store["open"](str(folder), scene.store["small"])
    found.read("train", scene.store["np"].arange(3))
    scene.store["records"] = (folder / "train.tfrecord").read_bytes()


def feed_records(scene: Scene, changes: Any, deep: int, mended: bool) -> None:
    folder = scene.place / "data/records"
    content = edited(scene.store["records"], changes)
    (folder / "train.tfrecord").write_bytes(with_checksums(content) if mended else content)
    with scene.met():
        found = scene.store["open"](str(folder), scene.store["small"])
        if deep == 0:
            found.read("train", scene.store["np"].arange(min(found.counts["train"], 50)))


def with_checksums(content: bytes) -> bytes:
    """The records with the checksums that belong to their lengths and contents, as far as there are whole ones."""
    made, place = b"", 0
    while place + 12 <= len(content):
        head = content[place : place + 8]
        length = int.from_bytes(head, "little")
        body = content[place + 12 : place + 12 + length]
        if len(body) < length:
            break
        made += head + _masked(head) + body + _masked(body)
        place += 16 + length
    return made + content[place:]


def _masked(content: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


DATA_WAYS = {
    "YAML and JSON": Way(st.tuples(yaml_texts, st.booleans()), feed_document),
    "host patterns": Way(
        st.tuples(
            st.lists(st.tuples(st.sampled_from(PATTERN_MARKS), st.sampled_from([1, 1, 2, 30])), max_size=8), words
        ),
        feed_pattern,
    ),
    "metrics and logs": Way(
        st.tuples(
            st.lists(st.tuples(st.integers(0, 3), changes, st.sampled_from([1, 1, 2])), max_size=6),
            edits,
            st.lists(st.one_of(st.binary(max_size=20), st.sampled_from([b"\x1b[2J", b"\x9b", b"\xc2\x9b", b"\r"]))).map(
                b"".join
            ),
        ),
        feed_metrics,
    ),
    "checkpoints": Way(st.tuples(st.integers(0, 3), edits, changes, st.booleans()), feed_checkpoint, prepare_training),
    "pickles": Way(st.tuples(st.integers(0, 3), edits, steps), feed_pickle, prepare_training),
    "npz files": Way(st.tuples(st.booleans(), edits, headers, st.booleans()), feed_npz, prepare_training),
    "TFRecords": Way(st.tuples(edits, st.integers(0, 15), st.booleans()), feed_records, prepare_records),
}
