from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.core.spec import Code
from hpclaunch.runs import code_files, snapshot
from hpclaunch.runs.code_folder import CodeFolders
from hpclaunch.runs.snapshot import choose, copy, examine, faults_of, fingerprint
from hpclaunch.runs.training_library import write_library


def put(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def test_row_22_a_jobs_whole_folder_is_taken_along(tmp_path: Path) -> None:
    names = ("job.yaml", "train.py", "net/model.py", "net/a/b/c.py", "weights.bin", "notes with blank.md")
    put(tmp_path / "job", *names)
    taken = choose(Code(folder=str(tmp_path / "job"), entry="train.py"))
    copy(taken, tmp_path / "run")
    (tmp_path / "job/train.py").write_text("edited while the job waits")
    assert (tmp_path / "run/train.py").read_text() == "train.py"
    assert (tmp_path / "run/net/model.py").read_text() == "net/model.py"
    assert (tmp_path / "run/net/a/b/c.py").read_text() == "net/a/b/c.py"
    assert (tmp_path / "run/weights.bin").exists()


def test_the_training_library_lies_beside_code_that_names_it_as_one_archive(tmp_path: Path) -> None:
    put(tmp_path / "job", "train.py", "net/model.py")
    (tmp_path / "job/net/model.py").write_text("from hpclaunch import training")
    copy(choose(Code(folder=str(tmp_path / "job"), entry="train.py")), tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run/hpclaunch").iterdir()) == ["__init__.py", "training.zip"]


def test_code_that_does_not_name_it_gets_no_training_library(tmp_path: Path) -> None:
    put(tmp_path / "job", "train.py", "notes")
    copy(choose(Code(folder=str(tmp_path / "job"), entry="train.py")), tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["notes", "train.py"]


def test_what_is_not_looked_at_may_import_the_training_library(tmp_path: Path) -> None:
    put(tmp_path / "job", "train.py")
    put(tmp_path / "elsewhere", "net/model.py")
    code = script(tmp_path / "job")
    copy(choose(replace(code, in_place=True)), tmp_path / "in place")
    assert [path.name for path in (tmp_path / "in place").iterdir()] == ["hpclaunch"]
    (tmp_path / "job/net").symlink_to(tmp_path / "elsewhere/net")
    copy(choose(code), tmp_path / "linked")
    assert (tmp_path / "linked/hpclaunch").is_dir()
    (tmp_path / "job/net").unlink()
    copy(choose(code), tmp_path / "small")
    assert not (tmp_path / "small/hpclaunch").exists()
    (tmp_path / "job/large.py").write_bytes(bytes(2**20 + 1))
    copy(choose(code), tmp_path / "large")
    assert (tmp_path / "large/hpclaunch").is_dir()
    assert (tmp_path / "large/large.py").read_bytes() == bytes(2**20 + 1)


def test_the_archive_of_a_version_is_always_the_same(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_library(tmp_path / name)
    one, two = ((tmp_path / name / "hpclaunch/training.zip").read_bytes() for name in ("one", "two"))
    assert one == two
    with zipfile.ZipFile(io.BytesIO(one)) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
    assert {"training/parameters.json", "training/rank/start.py"} <= {*names}
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]


def test_a_copy_has_the_permissions_and_times_of_its_files(tmp_path: Path) -> None:
    put(tmp_path / "job", "train.sh")
    (tmp_path / "job/train.sh").chmod(0o750)
    os.utime(tmp_path / "job/train.sh", ns=(5, 7))
    copy(choose(Code(folder=str(tmp_path / "job"), entry="train.sh")), tmp_path / "run")
    about = (tmp_path / "run/train.sh").stat()
    assert (about.st_mode & 0o7777, about.st_mtime_ns) == (0o750, 7)


def test_a_folder_is_examined_once_and_its_files_are_opened_once(tmp_path: Path) -> None:
    put(tmp_path / "job", "train.py")
    folders, code = CodeFolders(), script(tmp_path / "job")
    found, _ = examine(code, folders)
    assert found is not None
    before = fingerprint(code, folders)
    (tmp_path / "job/train.py").write_text("edited")
    put(tmp_path / "job", "later.py")
    again, _ = examine(code, folders)
    assert again is found and fingerprint(code, folders) == before
    copy(found, tmp_path / "run")
    assert (tmp_path / "run/train.py").read_text() == "train.py"
    assert examine(code, CodeFolders()) != (found, []) and fingerprint(code) != before


def test_a_script_is_read_from_the_folder_above_it_that_was_examined(tmp_path: Path) -> None:
    put(tmp_path / "job", "net/train.py")
    folders = CodeFolders()
    assert folders.at(str(tmp_path / "job")).kept("net/train.py") == b"net/train.py"
    (tmp_path / "job/net/train.py").write_text("edited")
    assert folders.content(tmp_path / "job/net/train.py") == b"net/train.py", "as it is listed, hashed and copied"
    assert CodeFolders().content(tmp_path / "job/net/train.py") == b"edited"


def test_a_link_named_hpclaunch_of_the_users_own_is_left_alone(tmp_path: Path) -> None:
    put(tmp_path / "elsewhere", "mine.py")
    put(tmp_path / "job", "train.py")
    (tmp_path / "job/train.py").write_text("import hpclaunch.mine")
    (tmp_path / "job/hpclaunch").symlink_to(tmp_path / "elsewhere")
    copy(choose(script(tmp_path / "job")), tmp_path / "run")
    assert os.listdir(tmp_path / "elsewhere") == ["mine.py"], "nothing is written through the link"
    assert (tmp_path / "run/hpclaunch/mine.py").read_text() == "mine.py"


def test_a_hpclaunch_folder_of_the_users_own_is_left_alone(tmp_path: Path) -> None:
    put(tmp_path / "job", "train.py", "hpclaunch/mine.py")
    (tmp_path / "job/train.py").write_text("import hpclaunch.mine")
    copy(choose(Code(folder=str(tmp_path / "job"), entry="train.py")), tmp_path / "run")
    assert [path.name for path in (tmp_path / "run/hpclaunch").iterdir()] == ["mine.py"]


def script(folder: Path, *include: str, entry: str = "train.py") -> Code:
    return Code(folder=str(folder), entry=entry, source_only=True, include=include)


def test_beside_a_script_all_files_are_taken(tmp_path: Path) -> None:
    put(tmp_path, "train", "model.py", "conf.yaml", "data.npz", "table.csv", "sub/deep.py")
    taken = choose(script(tmp_path, entry="train"))
    assert taken.files == ("conf.yaml", "data.npz", "model.py", "sub/deep.py", "table.csv", "train")
    assert (taken.rule, taken.left_out, taken.size) == ("all files beside the script", 0, sum(map(len, taken.files)))


def test_where_files_are_named_no_others_are_taken_but_code(tmp_path: Path) -> None:
    put(tmp_path, "train.py", "net/model.py", "a.csv", "sub/b.csv", "c.txt", "data/d.bin", ".hidden.csv")
    assert choose(script(tmp_path, "*.csv")).files == (".hidden.csv", "a.csv", "net/model.py", "sub/b.csv", "train.py")
    assert choose(script(tmp_path, "data")).files == ("data/d.bin", "net/model.py", "train.py")
    assert choose(script(tmp_path, "sub/*.csv", "c.txt")).files == ("c.txt", "net/model.py", "sub/b.csv", "train.py")
    assert choose(script(tmp_path, "*.csv")).left_out == 2
    (fault,) = faults_of(script(tmp_path, "*.csv", "*.xyz"))
    assert (fault.where, fault.what) == ("--include", "no file beside train.py matches '*.xyz'")
    assert fault.allowed and fault.next


def test_what_is_to_be_ignored_stays_behind(tmp_path: Path) -> None:
    put(tmp_path, "train.py", "big/x.bin", "big/y.py", "notes.txt", "keep.txt", "sub/z.log")
    (tmp_path / ".hpclaunchignore").write_text("# results\nbig/\n*.txt\n!keep.txt\n**/*.log\n")
    assert choose(script(tmp_path)).files == ("keep.txt", "train.py")
    assert choose(Code(folder=str(tmp_path), entry="train.py")).files == ("keep.txt", "train.py")


@pytest.mark.parametrize("text", [b"\xff\xfe", b"x" * (64 * 2**10 + 1), b"!\n"])
def test_a_list_of_ignored_files_that_cannot_be_read_is_a_fault(tmp_path: Path, text: bytes) -> None:
    put(tmp_path, "train.py")
    (tmp_path / ".hpclaunchignore").write_bytes(text)
    (fault,) = faults_of(script(tmp_path))
    assert "the list of files that are not copied cannot be used" in fault.what
    assert fault.where.endswith("/.hpclaunchignore") and fault.next


def test_a_link_out_of_the_folder_stays_a_link_unless_it_is_code(tmp_path: Path) -> None:
    put(tmp_path / "elsewhere", "large.h5", "shared.py", "set/a.bin")
    put(tmp_path / "own", "train.py", "inside.txt")
    for name, place in {
        "large.h5": "elsewhere/large.h5",
        "shared.py": "elsewhere/shared.py",
        "set": "elsewhere/set",
        "again.txt": "own/inside.txt",
        "broken": "nothing",
    }.items():
        os.symlink(tmp_path / place, tmp_path / "own" / name)
    taken = choose(script(tmp_path / "own"))
    assert taken.files == ("again.txt", "inside.txt", "shared.py", "train.py")
    copy(taken, tmp_path / "run")
    assert not (tmp_path / "run/shared.py").is_symlink()
    assert os.readlink(tmp_path / "run/large.h5") == str(tmp_path / "elsewhere/large.h5")
    assert (tmp_path / "run/set/a.bin").read_text() == "set/a.bin"


def test_a_link_to_what_the_kernel_makes_as_it_is_read_is_no_code_but_one_to_memory_is(tmp_path: Path) -> None:
    put(tmp_path, "train.py")
    places = {"version.py": "/proc/version", "memory.py": "/sys/devices/system/cpu/online"}
    places |= {"endless.py": "/dev/zero"}
    for name, place in places.items():
        assert os.path.exists(place), place
        os.symlink(place, tmp_path / name)
    assert choose(script(tmp_path)).files == ("train.py",)
    with tempfile.NamedTemporaryFile(dir="/dev/shm", suffix=".py") as file:
        os.symlink(file.name, tmp_path / "net.py")
        assert choose(script(tmp_path)).files == ("net.py", "train.py")


@pytest.mark.parametrize(
    ("entry", "mode", "what", "todo"),
    [
        ("train.py", os.R_OK, "the script cannot be read", "chmod u+r {}/train.py"),
        ("run", os.X_OK, "the script cannot be executed", "chmod u+x {}/run"),
        ("train.py", os.X_OK, "you may not enter this folder", "ls -ld {} names its owner"),
        ("gone.py", 0, "the script does not exist", "check the path, or hpclaunch jobs list"),
        ("data", 0, "the script is not a file", "check the path, or hpclaunch jobs list"),
    ],
)
def test_a_script_that_cannot_be_started_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str, mode: int, what: str, todo: str
) -> None:
    put(tmp_path, "train.py", "run", "data/x")
    closed = tmp_path if what.startswith("you may") else tmp_path / entry
    monkeypatch.setattr(os, "access", lambda path, asked: (Path(path), asked) != (closed, mode))
    (fault,) = faults_of(script(tmp_path, entry=entry))
    assert (fault.what, fault.next) == (what, todo.format(tmp_path))


@pytest.mark.parametrize("source_only", [True, False])
def test_what_a_link_out_of_the_folder_led_to_is_copied_and_noted(tmp_path: Path, source_only: bool) -> None:
    put(tmp_path / "elsewhere", "shared.py", "notes.md")
    put(tmp_path / "own", "train.py", "inside.txt")
    for name, place in {"net.py": "elsewhere/shared.py", "notes.md": "elsewhere/notes.md"}.items():
        os.symlink(tmp_path / place, tmp_path / "own" / name)
    os.symlink("train.py", tmp_path / "own/again.py")
    os.symlink(tmp_path / "own", tmp_path / "linked")
    code = Code(folder=str(tmp_path / "linked"), entry="train.py", source_only=source_only)
    taken = choose(code)
    assert taken.from_outside == (("net.py",) if source_only else ("net.py", "notes.md"))
    assert set(taken.from_outside) < set(taken.files)
    (tmp_path / "run").mkdir()
    copy(taken, tmp_path / "run/code")
    assert not (tmp_path / "run/code/net.py").is_symlink()
    (tmp_path / "run/environment.json").write_text(json.dumps({"code_files_from_outside": ["net.py", "gone.py"]}))
    again = choose(Code(folder=str(tmp_path / "run/code"), entry="train.py", recorded=True))
    assert again.from_outside == ("net.py",), "a run of that copy has it from outside too"


def test_a_copy_of_a_copy_has_its_links_and_nothing_that_python_compiled(tmp_path: Path) -> None:
    put(tmp_path / "data", "big.npz")
    put(tmp_path / "run/code", "train.py", "net/model.py", "net/__pycache__/model.pyc", "net/old.pyc", ".hidden")
    (tmp_path / "run/code/net/big.npz").symlink_to(tmp_path / "data/big.npz")
    (tmp_path / "run/code/folder").symlink_to("../../data")
    again = choose(Code(folder=str(tmp_path / "run/code"), entry="train.py", recorded=True))
    assert again.files == (".hidden", "net/model.py", "train.py")
    assert again.links == (("folder", str(tmp_path / "data")), ("net/big.npz", str(tmp_path / "data/big.npz")))
    assert (again.size, again.closed, again.from_outside) == (len(".hiddennet/model.pytrain.py"), (), ())
    copy(again, tmp_path / "code")
    assert fingerprint(Code(folder=str(tmp_path / "code"), entry="train.py", recorded=True)) == fingerprint(
        Code(folder=str(tmp_path / "run/code"), entry="train.py", recorded=True)
    )
    assert os.readlink(tmp_path / "code/net/big.npz") == str(tmp_path / "data/big.npz")
    assert (tmp_path / "code/folder/big.npz").read_text() == "big.npz"


@pytest.mark.parametrize("text", ["", "[]", '{"code_files_from_outside": "net.py"}'])
def test_an_older_or_a_damaged_record_names_no_files_from_outside(tmp_path: Path, text: str) -> None:
    (tmp_path / "environment.json").write_text(text)
    assert snapshot.recorded_from_outside(tmp_path) == []


def test_a_folder_of_results_is_code_if_it_is_a_package(tmp_path: Path) -> None:
    put(tmp_path, "train.py", "runs/__init__.py", "runs/x.py", "checkpoints/y.py", "miniconda/conda-meta/z.py")
    assert choose(script(tmp_path)).files == ("runs/__init__.py", "runs/x.py", "train.py")


def test_code_in_place_is_not_copied(tmp_path: Path) -> None:
    put(tmp_path / "own", "train.py", "model.py")
    code = Code(folder=str(tmp_path / "own"), entry="train.py", source_only=True, in_place=True)
    taken = choose(code)
    assert (taken.files, taken.in_place) == (("model.py", "train.py"), True)
    copy(taken, tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["hpclaunch"]
    assert faults_of(code) == []


def test_code_in_place_may_be_too_much_to_copy_and_is_then_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "MOST_FILES", 1)
    put(tmp_path, "train.py", "model.py")
    code = Code(folder=str(tmp_path), entry="train.py", source_only=True, in_place=True)
    taken = choose(code)
    assert (taken.files, taken.in_place, taken.is_part) == ((), True, True)
    assert not choose(replace(code, source_only=False, entry="none")).files
    monkeypatch.setattr(snapshot, "MOST_FILES", 2)
    assert not choose(code).is_part


@pytest.mark.parametrize(
    "name", [".git/x.py", "__pycache__/x.py", "runs/a/job.sh", "x.pyc", ".env", "env/pyvenv.cfg", "wandb/x.json"]
)
def test_what_is_no_source_stays_behind(tmp_path: Path, name: str) -> None:
    put(tmp_path, "train.py", name)
    assert choose(Code(folder=str(tmp_path), entry="train.py", source_only=True)).files == ("train.py",)


def test_a_link_to_a_folder_is_not_followed(tmp_path: Path) -> None:
    put(tmp_path / "elsewhere", "secret.py")
    put(tmp_path / "job", "train.py")
    os.symlink(tmp_path / "elsewhere", tmp_path / "job/link")
    os.symlink(tmp_path / "nothing", tmp_path / "job/broken.py")
    assert choose(Code(folder=str(tmp_path / "job"), entry="train.py")).files == ("train.py",)


def test_too_many_files_are_a_fault_that_names_most_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "MOST_FILES", 20)
    put(tmp_path, "train.py", "model.py", *(f"many/{n}.txt" for n in range(25)))
    (fault,) = faults_of(script(tmp_path))
    assert fault.what == "27 files would be copied, 25 of them *.txt in many"
    assert fault.allowed == "at most 20 files and 100 MB"
    assert "--include" in fault.next and ".hpclaunchignore" in fault.next and "--code-in-place" in fault.next
    assert choose(script(tmp_path, "model.py")).files == ("model.py", "train.py")


def test_too_many_files_to_look_at_are_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_files, "MOST_LOOKED_AT", 20)
    monkeypatch.setattr(snapshot, "MOST_LOOKED_AT", 20)
    put(tmp_path, "train.py", *(f"many/{n}" for n in range(25)))
    (fault,) = faults_of(script(tmp_path, "train.py"))
    assert fault.what.startswith("there are more than 20 files")
    (tmp_path / ".hpclaunchignore").write_text("many\n")
    assert choose(script(tmp_path)).files == ("train.py",)


def test_a_folder_too_large_to_copy_is_a_fault(tmp_path: Path) -> None:
    put(tmp_path, "train.py")
    with (tmp_path / "data.bin").open("wb") as file:
        file.truncate(snapshot.MOST_BYTES + 1)
    (fault,) = faults_of(Code(folder=str(tmp_path), entry="train.py"))
    assert fault.what == "100 MB would be copied, 100 MB of them data.bin"
    assert "outside the job's folder" in fault.next
    (fault,) = faults_of(script(tmp_path))
    assert "--include" in fault.next


def test_only_a_closed_folder_that_would_be_copied_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "train.py", "secret/x.py", "open/y.py", ".git/z", "node_modules/z")
    closed = {tmp_path / name for name in ("secret", ".git", "node_modules")}
    put(tmp_path, "removed/x.py")
    scandir = os.scandir

    def scan(folder: Path) -> object:
        """Refuse some folders also to root, who may run this test; another one is removed meanwhile."""
        if Path(folder) in closed:
            raise PermissionError(13, "Permission denied")
        if Path(folder) == tmp_path / "removed":
            raise FileNotFoundError(2, "No such file or directory")
        return scandir(folder)

    monkeypatch.setattr("os.scandir", scan)
    code = Code(folder=str(tmp_path), entry="train.py")
    assert choose(code).closed == ("secret",)
    (fault,) = faults_of(code)
    assert (fault.where, fault.what) == (str(tmp_path / "secret"), "you may not read this part of the job")
    assert faults_of(Code(folder=str(tmp_path), entry="train.py", source_only=True)) == []


@pytest.mark.parametrize(
    ("entry", "message"), [("missing.py", "the script does not exist"), ("folder", "the script is not a file")]
)
def test_row_21_a_script_that_is_not_there_is_a_fault(tmp_path: Path, entry: str, message: str) -> None:
    put(tmp_path, "folder/x.py")
    (fault,) = faults_of(Code(folder=str(tmp_path), entry=entry, source_only=True))
    assert (fault.where, fault.what) == (str(tmp_path / entry), message)


def test_a_program_that_cannot_be_executed_is_a_fault(tmp_path: Path) -> None:
    put(tmp_path, "program")
    code = Code(folder=str(tmp_path), entry="program", source_only=True)
    assert "cannot be executed" in faults_of(code)[0].what
    (tmp_path / "program").chmod(0o755)
    assert faults_of(code) == []


def test_a_command_of_the_site_needs_no_file(tmp_path: Path) -> None:
    assert faults_of(Code(folder=str(tmp_path), entry="")) == []
