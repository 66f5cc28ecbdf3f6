from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpclaunch.core.spec import Code
from hpclaunch.runs import snapshot
from hpclaunch.runs.snapshot import choose, copy, faults_of


def put(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def test_row_22_a_jobs_whole_folder_is_taken_along(tmp_path: Path) -> None:
    put(tmp_path / "job", "job.yaml", "train.py", "net/model.py", "weights.bin", "notes with blank.md")
    taken = choose(Code(folder=str(tmp_path / "job"), entry="train.py"))
    copy(taken, tmp_path / "run")
    (tmp_path / "job/train.py").write_text("edited while the job waits")
    assert (tmp_path / "run/train.py").read_text() == "train.py"
    assert (tmp_path / "run/net/model.py").read_text() == "net/model.py"
    assert (tmp_path / "run/weights.bin").exists()


def test_training_lies_beside_it_so_that_any_python_can_import_it(tmp_path: Path) -> None:
    put(tmp_path / "job", "train.py")
    copy(choose(Code(folder=str(tmp_path / "job"), entry="train.py")), tmp_path / "run")
    assert (tmp_path / "run/hpclaunch/training/rank/start.py").is_file()
    assert (tmp_path / "run/hpclaunch/training/parameters.json").is_file()
    assert not (tmp_path / "run/hpclaunch/launch.py").exists()


def test_a_hpclaunch_folder_of_the_users_own_is_left_alone(tmp_path: Path) -> None:
    put(tmp_path / "job", "train.py", "hpclaunch/mine.py")
    copy(choose(Code(folder=str(tmp_path / "job"), entry="train.py")), tmp_path / "run")
    assert not (tmp_path / "run/hpclaunch/training").exists()


def test_beside_a_script_only_source_files_are_taken(tmp_path: Path) -> None:
    put(tmp_path, "train", "model.py", "conf.yaml", "data.npz", "weights.h5", "sub/deep.py")
    taken = choose(Code(folder=str(tmp_path), entry="train", source_only=True))
    assert taken.files == ("conf.yaml", "model.py", "sub/deep.py", "train")


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


def test_a_script_in_a_folder_too_large_to_copy_is_taken_alone(tmp_path: Path) -> None:
    put(tmp_path, "train.py", *(f"many/{n}.py" for n in range(snapshot.MOST_FILES + 1)))
    taken = choose(Code(folder=str(tmp_path), entry="train.py", source_only=True))
    assert taken.files == ("train.py",)
    assert "holds more than 2000 files" in taken.narrowed


def test_a_jobs_folder_too_large_to_copy_is_a_fault(tmp_path: Path) -> None:
    put(tmp_path, "train.py")
    with (tmp_path / "data.bin").open("wb") as file:
        file.truncate(snapshot.MOST_BYTES + 1)
    (fault,) = faults_of(Code(folder=str(tmp_path), entry="train.py"))
    assert "20 MB of code" in fault.what
    assert "outside the job's folder" in fault.next


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
