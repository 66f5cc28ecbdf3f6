from __future__ import annotations

import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hpclaunch.actions.projects.staging import DatasetSource, stage
from hpclaunch.config.data_sets import DataSet, Fetch
from hpclaunch.core.errors import Refused

FOLDERS = DataSet(name="cifar10", layouts=("train", "cifar-10-batches-py"))
NPZ = DataSet(name="mnist", layouts=("mnist.npz", "train"))
Put = Callable[..., Path]


def tar_of(path: Path, members: dict[str, bytes], mode: str = "w:gz", links: dict[str, str] | None = None) -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
    return path


@pytest.fixture(autouse=True, params=["this Python", "a Python without filters"])
def python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs twice: with the tarfile of this Python, and as on Debian 12, whose 3.11.2 has no filters."""
    if request.param == "a Python without filters":
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
        monkeypatch.setattr(tarfile.TarFile, "extractall", extract_all_without_filters)


def extract_all_without_filters(archive: tarfile.TarFile, path: str, members: object, *, numeric_owner: bool) -> None:
    """The signature of Python 3.11.2: an argument ``filter`` is a TypeError."""


@pytest.fixture
def goal(tmp_path: Path) -> Path:
    """The data folder: after every failure nothing may lie in it."""
    return tmp_path / "data"


def put(data: DataSet, source: Path | None, goal: Path, sha256: str | None = None) -> Path:
    return stage(data, DatasetSource(path=str(source) if source else None, sha256=sha256), goal, lambda text: None)


def left_in(goal: Path) -> list[str]:
    return sorted(path.name for path in goal.iterdir()) if goal.exists() else []


@pytest.mark.parametrize(
    ("mode", "members"),
    [
        ("w", {"train/0/a.png": b"x"}),
        ("w:gz", {"cifar-10-batches-py/data_batch_1": b"x"}),
        ("w:xz", {"anything/train/0/a.png": b"x"}),
    ],
)
def test_an_archive_is_unpacked_whether_or_not_it_has_a_folder_of_its_own(
    tmp_path: Path, goal: Path, mode: str, members: dict[str, bytes]
) -> None:
    put(FOLDERS, tar_of(tmp_path / "a.tar", members, mode), goal)
    assert left_in(goal) == ["cifar10"]
    assert {path.name for path in (goal / "cifar10").iterdir()} <= {"train", "cifar-10-batches-py"}


def test_an_npz_file_gets_the_name_that_the_job_looks_for(tmp_path: Path, goal: Path) -> None:
    with zipfile.ZipFile(tmp_path / "copy of mnist.npz", "w") as file:
        file.writestr("x.npy", b"")
    put(NPZ, tmp_path / "copy of mnist.npz", goal)
    assert [path.name for path in (goal / "mnist").iterdir()] == ["mnist.npz"]


@pytest.mark.parametrize("inside", ["", "deeper"])
def test_a_folder_is_copied(tmp_path: Path, goal: Path, inside: str) -> None:
    (tmp_path / "source" / inside / "train").mkdir(parents=True)
    put(FOLDERS, tmp_path / "source", goal)
    assert (goal / "cifar10/train").is_dir()
    assert (tmp_path / "source").is_dir()


def test_what_is_there_already_is_left_alone(tmp_path: Path, goal: Path) -> None:
    (goal / "cifar10/train").mkdir(parents=True)
    assert put(FOLDERS, tmp_path / "not there", goal) == goal / "cifar10"


def test_something_else_under_the_name_is_not_touched(tmp_path: Path, goal: Path) -> None:
    (goal / "cifar10/mine").mkdir(parents=True)
    with pytest.raises(Refused, match="holds something else"):
        put(FOLDERS, tar_of(tmp_path / "a.tar", {"train/a": b""}), goal)
    assert (goal / "cifar10/mine").is_dir()


def broken_archives(tmp_path: Path) -> dict[str, Path]:
    whole = tar_of(tmp_path / "whole.tar.gz", {"train/a": bytes(range(256)) * 4000}).read_bytes()
    tar_of(tmp_path / "two.tar", {"train/a": b"x", "train/b": b"x"}, "w")
    files = {
        "truncated": whole[: len(whole) // 2],
        "cut at the end": whole[:-4],
        "cut between members": (tmp_path / "two.tar").read_bytes()[:1024],
        "no archive": b"<html>not found</html>",
        "empty": b"",
    }
    for name, content in files.items():
        (tmp_path / f"{name}.tar.gz").write_bytes(content)
    return {name: tmp_path / f"{name}.tar.gz" for name in files} | {
        "climbs out": tar_of(tmp_path / "climb.tar.gz", {"train/a": b"x", "../../escaped": b"x"}),
        "absolute link": tar_of(tmp_path / "link.tar.gz", {"train/a": b"x"}, links={"train/l": "/etc/passwd"}),
        "link that climbs": tar_of(tmp_path / "up.tar.gz", {"train/a": b"x"}, links={"l": "../../../x"}),
        "other content": tar_of(tmp_path / "other.tar.gz", {"valid/a": b"x"}),
        "not there": tmp_path / "nothing.tar.gz",
    }


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("truncated", "cannot be unpacked"),
        ("cut at the end", "cannot be unpacked"),
        ("cut between members", "cannot be unpacked: the file is incomplete"),
        ("no archive", "cannot be unpacked"),
        ("empty", "cannot be unpacked"),
        ("climbs out", "cannot be unpacked"),
        ("absolute link", "cannot be unpacked"),
        ("link that climbs", "cannot be unpacked"),
        ("other content", "holds no known layout of this data set; allowed: train, cifar-10-batches-py"),
        ("not there", "does not exist"),
    ],
)
def test_after_a_failure_nothing_is_left(tmp_path: Path, goal: Path, name: str, message: str) -> None:
    archive = broken_archives(tmp_path)[name]
    with pytest.raises(Refused, match=message):
        put(FOLDERS, archive, goal)
    assert left_in(goal) == []
    assert not (tmp_path / "escaped").exists()


def test_a_wrong_checksum_is_refused_before_anything_is_unpacked(tmp_path: Path, goal: Path) -> None:
    archive = tar_of(tmp_path / "a.tar.gz", {"train/a": b"x"})
    with pytest.raises(Refused, match="its SHA-256 is") as caught:
        put(FOLDERS, archive, goal, sha256="0" * 64)
    assert caught.value.faults[0].allowed == "0" * 64
    assert left_in(goal) == []


def test_a_right_checksum_in_any_case_is_accepted(tmp_path: Path, goal: Path) -> None:
    archive = tar_of(tmp_path / "a.tar.gz", {"train/a": b"x"})
    put(FOLDERS, archive, goal, sha256=hashlib.sha256(archive.read_bytes()).hexdigest().upper())
    assert left_in(goal) == ["cifar10"]


def test_a_folder_has_no_checksum(tmp_path: Path, goal: Path) -> None:
    with pytest.raises(Refused, match="a folder has no checksum"):
        put(FOLDERS, tmp_path, goal, sha256="0" * 64)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(Refused, match="cannot be written or read"):
        put(FOLDERS, tar_of(tmp_path / "a.tar.gz", {"train/a": b"x"}), tmp_path / "data")


def test_without_an_address_a_copy_must_be_named(goal: Path) -> None:
    with pytest.raises(Refused, match="has no address for cifar10"):
        put(FOLDERS, None, goal)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "www").mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "www")))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def downloaded(address: str, sha256: str, name: str = "a.tar.gz") -> DataSet:
    return DataSet(name="cifar10", layouts=("train",), fetch=Fetch(url=f"{address}/{name}", sha256=sha256))


def test_a_download_is_checked_and_unpacked(tmp_path: Path, goal: Path, address: str) -> None:
    archive = tar_of(tmp_path / "www/a.tar.gz", {"train/a": b"x"})
    put(downloaded(address, hashlib.sha256(archive.read_bytes()).hexdigest()), None, goal)
    assert (goal / "cifar10/train/a").read_bytes() == b"x"
    assert left_in(goal) == ["cifar10"]


def test_a_download_that_is_something_else_is_refused(tmp_path: Path, goal: Path, address: str) -> None:
    tar_of(tmp_path / "www/a.tar.gz", {"train/a": b"x"})
    with pytest.raises(Refused, match="its SHA-256 is"):
        put(downloaded(address, "0" * 64), None, goal)
    assert left_in(goal) == []


def test_a_download_that_fails_says_what_to_do_without_internet(goal: Path, address: str) -> None:
    with pytest.raises(Refused, match=r"cannot be downloaded: (Not Found|File not found)") as caught:
        put(downloaded(address, "0" * 64, "missing.tar.gz"), None, goal)
    assert "give its path with --from" in caught.value.faults[0].next
    assert left_in(goal) == []


def several(address: str, **files: bytes) -> DataSet:
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    return DataSet(name="clothes", layouts=("images",), fetch=Fetch(url=f"{address}/set", files=sums))


def test_a_data_set_of_several_files_is_downloaded_file_by_file(tmp_path: Path, goal: Path, address: str) -> None:
    (tmp_path / "www/set").mkdir()
    for name in ("images", "labels"):
        (tmp_path / "www/set" / name).write_text(name)
    put(several(address, images=b"images", labels=b"labels"), None, goal)
    assert {path.name: path.read_text() for path in (goal / "clothes").iterdir()} == {
        "images": "images",
        "labels": "labels",
    }


@pytest.mark.parametrize(("second", "words"), [(b"other", "its SHA-256 is"), (None, "cannot be downloaded")])
def test_of_several_files_none_is_kept_if_one_is_wrong(
    tmp_path: Path, goal: Path, address: str, second: bytes | None, words: str
) -> None:
    (tmp_path / "www/set").mkdir()
    (tmp_path / "www/set/images").write_text("images")
    if second:
        (tmp_path / "www/set/labels").write_bytes(second)
    with pytest.raises(Refused, match=words):
        put(several(address, images=b"images", labels=b"labels"), None, goal)
    assert left_in(goal) == []
