"""Hostile run directories: each function changes an ordinary run so that something from outside it would be shown.

``run`` is the run directory. ``outside`` is a complete run directory of somebody else, whose every file holds CANARY,
so that whatever is opened through a link has the form that a reader expects.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

from tests import fabricated_runs as fabricated

CANARY = "canary-7f3a91c2e5"
"""The text that must come out nowhere."""
STRANGER = 23456
"""A user without a name."""
RECORDS = ("run.json", "spec.json", "request.json", "environment.json", "job.sh", "hpclaunch.sh", "sampler.py")
SERIES = ("metrics.jsonl", "metrics-repeated.jsonl", "states.jsonl")
FOLDERS = ("logs", "attempts", "samples", "code", "model")
INSIDE = (
    *("logs/slurm-4711.out", "logs/rank-0.out", "attempts/4711.0", "attempts/4711.0/started"),
    *("attempts/4711.0/first-failure.rank", "samples/gpu01-4711.0.jsonl", "code/train.py", "code/net"),
    *("model/weights.bin", "model/model.json"),
)
Change = Callable[[Path, Path], None]


def ordinary(folder: Path) -> Path:
    """Make a failed run with everything that a run leaves; a failed one shows the end of its log too."""
    path = fabricated.finished(folder)
    values = {**json.loads((path / "run.json").read_text()), "state": "FAILED", "exit_code": "1:0", "edition": 1}
    (path / "run.json").write_text(json.dumps(values))
    (path / "states.jsonl").write_text("")
    (path / "attempts/4711.0/first-failure").write_text("1\n")
    (path / "attempts/4711.0/first-failure.rank").write_text("rank 3\n")
    (path / "metrics-repeated.jsonl").write_text(json.dumps(fabricated.epoch(6)) + "\n")
    texts = {"logs/slurm-4711.out": "failed\n", "logs/rank-0.out": "failed\n", "code/train.py": "x = 1\n"}
    texts |= {"code/net/model.py": "y = 2\n", "model/model.json": "{}", "model/weights.bin": "w", "hpclaunch.sh": ":\n"}
    for name, text in {**texts, "sampler.py": "z = 3\n"}.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    return path


def private(folder: Path) -> Path:
    """Make the directory outside, in which every file holds the canary."""
    path = ordinary(folder)
    for file in [*path.rglob("*")]:
        if not file.is_file():
            continue
        text = file.read_text()
        if file.suffix == ".json" and text.startswith("{"):
            told = {"name": CANARY, "reason": CANARY, "summary": CANARY, "warnings": [CANARY]}
            file.write_text(json.dumps({**json.loads(text), **told}))
        elif file.suffix == ".jsonl":
            lines = [{**json.loads(line), CANARY: 1.5, "node": CANARY, "warning": CANARY} for line in text.splitlines()]
            file.write_text("".join(json.dumps(line) + "\n" for line in lines) or f'{{"state": "{CANARY}"}}\n')
        else:
            file.write_text(f"{CANARY}\n{text}")
    return path


def _replace(path: Path) -> None:
    """Remove what is there, so that something else gets its name."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def linked(name: str, relative: bool = False) -> Change:
    """Make a part of the run a link to the same part of the private directory."""

    def change(run: Path, outside: Path) -> None:
        _replace(run / name)
        target = os.path.relpath(outside / name, (run / name).parent) if relative else outside / name
        (run / name).symlink_to(target)

    return change


def link_to_a_link(run: Path, outside: Path) -> None:
    (run / "second").symlink_to(outside / "job.sh")
    _replace(run / "job.sh")
    (run / "job.sh").symlink_to("second")


def link_to_the_root(run: Path, outside: Path) -> None:
    """A folder that leads to the root of the file system: ``code`` would hold everything."""
    _replace(run / "code")
    (run / "code").symlink_to("/")
    _ = outside


def the_run_itself_is_a_link(run: Path, outside: Path) -> None:
    _replace(run)
    run.symlink_to(outside)


def pipe(name: str) -> Change:
    def change(run: Path, _: Path) -> None:
        _replace(run / name)
        os.mkfifo(run / name)

    return change


def a_socket(run: Path, _: Path) -> None:
    _replace(run / "spec.json")
    here = os.getcwd()
    os.chdir(run)  # the path of a socket has at most 107 characters
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("spec.json")
    finally:
        os.chdir(here)


def device(name: str) -> Change:
    """A device that never ends (/dev/zero); needs root."""

    def change(run: Path, _: Path) -> None:
        _replace(run / name)
        os.mknod(run / name, stat.S_IFCHR | 0o666, os.makedev(1, 5))

    return change


def sparse(name: str) -> Change:
    """A file that takes no room and has a terabyte."""

    def change(run: Path, _: Path) -> None:
        with (run / name).open("ab") as file:
            file.truncate(2**40)

    return change


def hard_linked(name: str) -> Change:
    """A stranger's folder with another name for a file of ours; needs root."""

    def change(run: Path, outside: Path) -> None:
        _replace(run / name)
        os.link(outside / name, run / name)
        for path in (run, *run.rglob("*")):
            if path != run / name:
                os.lchown(path, STRANGER, STRANGER)

    return change


def code_list(*names: str) -> Change:
    """A list of code that names files outside, as `runs.create` never writes it."""

    def change(run: Path, outside: Path) -> None:
        shutil.copyfile(outside / "job.sh", run.parent / "stolen.txt")
        told = [name.format(outside=outside) for name in names]
        (run / "environment.json").write_text(json.dumps({"code_files": told}))

    return change


def archive_with_a_link(run: Path, outside: Path) -> None:
    with tarfile.open(run / "code/data.tar", "w") as packed:
        entry = tarfile.TarInfo("inside")
        entry.type, entry.linkname = tarfile.SYMTYPE, str(outside / "job.sh")
        packed.addfile(entry)


REFUSED: dict[str, Change] = {
    **{f"{name} is a link": linked(name) for name in (*RECORDS, *SERIES)},
    **{f"{name} is a folder's link": linked(name) for name in FOLDERS},
    **{f"{name} is a link below": linked(name) for name in INSIDE},
    "a relative link": linked("job.sh", relative=True),
    "a relative link below": linked("logs/slurm-4711.out", relative=True),
    "a link to a link": link_to_a_link,
    "a link to the root": link_to_the_root,
    "the run is a link": the_run_itself_is_a_link,
    "a pipe as script": pipe("job.sh"),
    "a pipe as metrics": pipe("metrics.jsonl"),
    "a pipe as log": pipe("logs/slurm-4711.out"),
    "a pipe as marker": pipe("attempts/4711.0/started"),
    "a socket": a_socket,
    "a sparse record": sparse("spec.json"),
    "a sparse script": sparse("job.sh"),
    "sparse metrics": sparse("metrics.jsonl"),
    "a sparse log": sparse("logs/slurm-4711.out"),
    "a sparse model": sparse("model/weights.bin"),
    "sparse code": sparse("code/train.py"),
    "code above": code_list("../../stolen.txt"),
    "code by an absolute path": code_list("{outside}/job.sh"),
    "code above, hidden": code_list("net/../../../stolen.txt"),
    "an archive": archive_with_a_link,
}
OF_ROOT: dict[str, Change] = {
    "a device as script": device("job.sh"),
    "a device as log": device("logs/slurm-4711.out"),
    "a device as model": device("model/weights.bin"),
    "a stranger's hard link as script": hard_linked("job.sh"),
    "a stranger's hard link as log": hard_linked("logs/slurm-4711.out"),
    "a stranger's hard link as code": hard_linked("code/train.py"),
}
NAMES = (
    "\x1b]0;title\x07\x1b[31mred",
    "two\nlines",
    "%s%n%99999d",
    'it\'s "quoted"',
    "$(touch STARTED)",
    "`touch STARTED`;touch STARTED",
    "<script>alert(1)</script>",
    "\udcff\udcfe",
)
"""Names of run directories and of their files."""
