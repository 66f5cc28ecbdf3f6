"""Stages a data set: downloads, copies or makes it beside the target folder, checks it, and moves it in one step."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from hpclaunch.actions.projects.data_programs import DataProgram
from hpclaunch.config.data_sets import DataSet, layout_in
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.records import record

Say = Callable[[str], None]
_BLOCK = 2**20
_REPORT_BYTES = 32 * 2**20
_REPORT_FILES = 10_000


@record
class DatasetSource:
    """Where a data set comes from. ``path``: an archive, an .npz file or a folder; None: the job file's address.

    ``sha256``: the checksum that the file at ``path`` must have. A download must have the job file's checksum.
    ``program``: that of the job which makes the data set, from what is at ``path`` or from its own source.
    """

    path: str | None = None
    sha256: str | None = None
    program: DataProgram | None = None


def stage(data: DataSet, source: DatasetSource, folder: Path, say: Say) -> Path:
    """Put the data set into ``folder``/NAME and return that path. A complete data set there is left unchanged.

    An incomplete data set never appears under the final name. Raises Refused.
    """
    goal = folder / data.name
    if layout_in(goal, data.layouts):
        say(f"{data.name} is already in {goal}")
        return goal
    if goal.exists():
        raise Refused(
            Fault(
                where=str(goal),
                what="holds something else than this data set",
                allowed=", ".join(data.layouts),
                next="move it away",
            )
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{data.name}-", dir=folder) as place:
            fresh = Path(place) / "fresh"
            fresh.mkdir()
            _fill(data, source, fresh, say)
            os.replace(_root_of(fresh, data.layouts, source.path), goal)
    except OSError as error:
        raise Refused(Fault(where=str(folder), what=f"cannot be written or read: {error}")) from None
    say(f"{data.name} is in {goal}")
    return goal


def _fill(data: DataSet, source: DatasetSource, fresh: Path, say: Say) -> None:
    is_folder = source.path is not None and Path(source.path).is_dir()
    if is_folder and source.sha256:
        raise Refused(Fault(where="--sha256", what="a folder has no checksum", next="leave it out"))
    if source.program is not None and not (source.path and layout_in(Path(source.path), data.layouts)):
        if source.path and source.sha256:
            _check(Path(source.path), source.sha256)
        source.program.run(fresh, source.path, say)
        return
    if source.path is not None and is_folder:
        say(f"copying {source.path}")
        shutil.copytree(source.path, fresh, dirs_exist_ok=True)
        return
    if data.fetch and data.fetch.files and source.path is None:
        for name, sha256 in data.fetch.files.items():
            _check(_download(f"{data.fetch.url}/{name}", fresh, say), sha256)
        return
    archive = Path(source.path) if source.path is not None else _download(_address_of(data), fresh.parent, say)
    if not archive.is_file():
        raise Refused(Fault(where=str(archive), what="does not exist", next="check --from"))
    if source.path is not None:  # not the published archive: only the person can know its checksum
        _check(archive, source.sha256)
    else:
        _check(archive, data.fetch.sha256 if data.fetch else None)
    _unpack(archive, fresh, data, say)


def _address_of(data: DataSet) -> str:
    if data.fetch is None:
        raise Refused(
            Fault(what=f"the job file has no address for {data.name}", next="give the path of a copy with --from")
        )
    return data.fetch.url


def _download(url: str, place: Path, say: Say) -> Path:
    target = place / url.rsplit("/", 1)[-1]
    say(f"downloading {url}")
    try:
        with urllib.request.urlopen(url, timeout=60) as answer, target.open("wb") as file:
            total, done = int(answer.headers.get("Content-Length") or 0), 0
            while block := answer.read(_BLOCK):
                file.write(block)
                done += len(block)
                if done // _REPORT_BYTES != (done - len(block)) // _REPORT_BYTES:
                    say(f"  {done // 2**20} MB" + (f" of {total // 2**20} MB" if total else ""))
    except (urllib.error.URLError, OSError, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        raise Refused(
            Fault(
                where=url,
                what=f"cannot be downloaded: {getattr(error, 'reason', error)}",
                next="download it on a machine with internet, copy it here, and give its path with --from",
            )
        ) from None
    return target


def _check(archive: Path, expected: str | None) -> None:
    if expected is None:
        return
    digest = hashlib.sha256()
    with archive.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    if digest.hexdigest() != expected.lower():
        raise Refused(
            Fault(
                where=str(archive),
                what=f"its SHA-256 is {digest.hexdigest()}",
                allowed=expected,
                next="fetch it again: the file is damaged, or it is another file",
            )
        )


def _unpack(archive: Path, fresh: Path, data: DataSet, say: Say) -> None:
    if archive.suffix == ".npz":
        wanted = [layout for layout in data.layouts if layout.endswith(".npz")]
        shutil.copyfile(archive, fresh / (wanted[0] if wanted else archive.name))
        return
    say(f"unpacking {archive}")
    tarfile = _tarfile()
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(fresh, members=_count_members(tar, say), filter="data")
            if tar.fileobj is None or tar.fileobj.tell() <= tar.offset:
                raise tarfile.ReadError("the file is incomplete")
            _read_to_the_end(tar.fileobj)
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise Refused(
            Fault(
                where=str(archive),
                what=f"cannot be unpacked: {error}",
                allowed="a tar archive, an .npz file or a folder",
            )
        ) from None


def _tarfile() -> Any:
    """Return a tarfile module that can refuse hostile members (PEP 706).

    Python has the filters from 3.10.12, 3.11.4 and 3.12 on. Debian 12 has 3.11.2, so the backport is used there.
    """
    import tarfile

    if hasattr(tarfile, "data_filter"):
        return tarfile
    from backports import tarfile as backport

    return backport


def _read_to_the_end(stream: IO[bytes]) -> None:
    """Raise OSError or EOFError if the compressed stream's own checksum is wrong."""
    while stream.read(_BLOCK):
        pass


def _count_members(archive: Iterable[Any], say: Say) -> Iterator[Any]:
    for number, member in enumerate(archive, 1):
        if number % _REPORT_FILES == 0:
            say(f"  {number} files")
        yield member


def _root_of(fresh: Path, layouts: tuple[str, ...], source: str | None) -> Path:
    """Return the folder that holds a layout: the unpacked folder or one of its sub-folders."""
    inside = [path for path in fresh.iterdir() if path.is_dir()]
    for folder in (fresh, *inside):
        if layout_in(folder, layouts):
            return folder
    raise Refused(
        Fault(where=source or "the download", what="holds no known layout of this data set", allowed=", ".join(layouts))
    )
