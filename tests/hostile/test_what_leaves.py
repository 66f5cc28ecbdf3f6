"""Pages, exports, bundles and logs of hostile run directories: no byte from outside, and nothing executed.

Each verb ends with a clear sentence: it names what it does not read, or it writes what is the run's own.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import fabricated_runs as fabricated
from tests.cli.conftest import Desk, desk  # noqa: F401
from tests.hostile.run_directories import CANARY, NAMES, OF_ROOT, REFUSED, ordinary, private

if importlib.util.find_spec("matplotlib") is None:
    pytest.skip("group plot: needs matplotlib (the extra plot)", allow_module_level=True)
import matplotlib

VERBS = {
    "report": ("report", "RUN", "-o", "page.html", "--csv", "tables"),
    "tensorboard": ("runs", "export", "RUN", "--to", "tensorboard", "-o", "out-tensorboard"),
    "mlflow": ("runs", "export", "RUN", "--to", "mlflow", "-o", "out-mlflow"),
    "ro-crate": ("runs", "export", "RUN", "--to", "ro-crate", "-o", "out-crate"),
    "logs": ("logs", "RUN"),
    "rank": ("logs", "RUN", "--rank", "0"),
    "show": ("runs", "show", "RUN"),
    "results": ("results", "RUN"),
}
MODULES = {"MPLCONFIGDIR": matplotlib.get_cachedir()}


@pytest.fixture
def place(desk: Desk) -> Iterator[tuple[Desk, Path, Path]]:  # noqa: F811
    """A desk, an ordinary run of the project, and a private directory outside of it."""
    run, outside = ordinary(desk.project / "runs"), private(desk.root / "elsewhere")
    yield desk, run, outside
    shutil.rmtree(desk.project / "runs", ignore_errors=True)


def written(project: Path) -> dict[str, bytes]:
    """The content of everything that the verbs wrote into the project, but the run directories."""
    found = [path for path in project.rglob("*") if "runs" not in path.relative_to(project).parts]
    return {str(path): path.read_bytes() for path in found if path.is_file() and not path.is_symlink()}


def type_all(desk: Desk, run: Path) -> dict[str, tuple[int, str]]:  # noqa: F811
    """Type every verb; return its exit code and what it printed. No byte of the canary may be in anything."""
    outcomes = {}
    for name, words in VERBS.items():
        done = desk.type(*[str(run) if word == "RUN" else word for word in words], **MODULES)
        outcomes[name] = (done.code, f"{done.out}\n{done.err}")
        assert CANARY not in done.out + done.err, name
        assert done.code in (0, 1), (name, done.err)
        assert done.code == 0 or "error:" in done.err, (name, done.err)
    for path, content in written(desk.project).items():
        assert CANARY.encode() not in content, path
        assert CANARY not in path
    assert not [*desk.root.rglob("STARTED")]
    return outcomes


@pytest.mark.parametrize("name", REFUSED)
def test_nothing_from_outside_comes_out(place: tuple[Desk, Path, Path], name: str) -> None:
    desk, run, outside = place  # noqa: F811
    REFUSED[name](run, outside)
    outcomes = type_all(desk, run)
    if name in HARMLESS:
        return
    assert any(words in text for _, text in outcomes.values() for words in SENTENCES), outcomes


HARMLESS = ("an archive",)
"""It is packed as it is, and nothing opens it."""
SENTENCES = (
    *("is a link", "is a pipe", "is a socket", "is a device", "is larger than", "is large", "has another owner"),
    *("has 1,024.0 GB", "outside of code/", "only a part"),
)


@pytest.mark.parametrize("name", OF_ROOT)
def test_nothing_of_a_device_or_of_a_stranger_comes_out(place: tuple[Desk, Path, Path], name: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("group root: makes devices and files of other users")
    desk, run, outside = place  # noqa: F811
    try:
        OF_ROOT[name](run, outside)
    except PermissionError:
        pytest.skip("group root: this container makes no devices")
    outcomes = type_all(desk, run)
    assert any("is a device" in text or "has another owner" in text for _, text in outcomes.values()), outcomes


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_hostile_name_is_quoted(place: tuple[Desk, Path, Path], name: str) -> None:
    desk, run, outside = place  # noqa: F811
    shown = name.replace("/", "_")
    (run / "code" / shown).write_text("an ordinary file\n")
    (run / "logs" / f"{shown}.out").symlink_to(outside / "job.sh")
    (run / "code" / f"{shown} linked").symlink_to(outside / "job.sh")
    renamed = run.rename(run.parent / shown)
    outcomes = type_all(desk, renamed)
    for verb, (code, text) in outcomes.items():
        assert code in (0, 1), (verb, text)
        assert not any(ord(letter) < 32 and letter not in "\n\t" for letter in text), (verb, text)


def test_the_ordinary_run_is_shown_by_every_verb(place: tuple[Desk, Path, Path]) -> None:
    desk, run, _ = place  # noqa: F811
    assert {name: code for name, (code, _) in type_all(desk, run).items()} == dict.fromkeys(VERBS, 0)
    assert (desk.project / "out-crate/code/net/model.py").read_text() == "y = 2\n"


def test_folder_of_runs_that_is_another_users_link_is_refused(place: tuple[Desk, Path, Path]) -> None:
    if os.geteuid() != 0:
        pytest.skip("group root: makes devices and files of other users")
    desk, run, outside = place  # noqa: F811
    run.parent.rename(desk.project / "kept")
    (desk.project / "runs").symlink_to(outside.parent)
    os.lchown(desk.project / "runs", 23456, 23456)
    outcomes = type_all(desk, desk.project / "runs" / outside.name)
    assert outcomes["report"][0] == outcomes["ro-crate"][0] == 1


def test_results_of_a_study_are_not_read_through_a_link(place: tuple[Desk, Path, Path]) -> None:
    desk, _, outside = place  # noqa: F811
    study = fabricated.study(desk.project / "runs")
    (study / "results.json").unlink(missing_ok=True)
    (study / "results.json").symlink_to(outside / "spec.json")
    done = desk.type("report", str(study), "-o", "page.html", **MODULES)
    assert done.code == 1 and "results.json: is a link" in done.err and not (desk.project / "page.html").exists()
