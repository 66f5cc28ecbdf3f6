"""One run in a folder whose name the locale does not have stops no listing, and is listed itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Desk, Done

LOCALES = {
    "POSIX": {"LC_ALL": "POSIX"},
    "C without UTF-8": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "latin-1": {"LC_ALL": "en_US.ISO-8859-1"},
}
FOLDERS = {"greek": "projλ".encode(), "latin-1": b"caf\xe9", "controls": b"a\x1b[31m b"}
VERBS = (
    *("status --tabs", "status --json", "runs list", "results", "results --json", "logs {run}"),
    *("runs rebuild", "wait {run}", "cancel --all --yes", "status --watch"),
)


@pytest.fixture(params=["C without UTF-8", "latin-1"])
def locale(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The variables of a locale."""
    variables = dict(LOCALES[request.param])
    if request.param == "latin-1":
        program = shutil.which("localedef")
        if program is None or not Path("/usr/share/i18n/charmaps").is_dir():
            pytest.skip("group locales: localedef and its charmaps are missing")
        made = tmp_path / "locales/en_US.ISO-8859-1"
        made.parent.mkdir()
        subprocess.run([program, "-i", "en_US", "-f", "ISO-8859-1", made], check=True, capture_output=True)
        variables["LOCPATH"] = str(made.parent)
    return variables


def run_in(desk: Desk, folder: bytes, job_id: int) -> Path:
    """A completed run of a project beside this one, whose folder was given this name later."""
    place = desk.root / "beside"
    place.mkdir()
    shutil.copy(desk.project / "train.py", place)
    shutil.copytree(desk.project / "site_configs", place / "site_configs")
    desk.fake("sbatch", out=f"Submitted batch job {job_id}\n")
    done = typed(desk, "submit", "./train.py", cwd=place)
    assert done.code == 0, done.err
    (run,) = (place / "runs").iterdir()
    moved = Path(os.fsdecode(os.fsencode(desk.root) + b"/" + folder))
    place.rename(moved)
    with (desk.home / ".local/state/hpclaunch/runs.txt").open("ab") as index:
        index.write(os.fsencode(moved / "runs" / run.name) + b"\n")
    assert typed(desk, "runs", "adopt", str(moved / "runs" / run.name)).code == 0
    return moved / "runs" / run.name


def typed(desk: Desk, *words: str, cwd: Path | None = None, **variables: str) -> Done:
    """Type in a process of its own, whose interpreter begins with these variables."""
    environment = {name: value for name, value in desk.environment.items() if name != "LANG" or not variables}
    process = subprocess.run(
        [*desk.before, sys.executable, "-m", "hpclaunch", *words],
        cwd=cwd or desk.project,
        env={**environment, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    out, err = (text.decode("utf-8", "surrogateescape") for text in (process.stdout, process.stderr))
    return Done(process.returncode, out, err)


@pytest.mark.parametrize("locale", LOCALES, indirect=True)
def test_every_listing_has_all_runs(cluster: Desk, locale: dict[str, str]) -> None:
    every_listing_has_all_runs(cluster, FOLDERS["greek"], locale)


@pytest.mark.parametrize("folder", ["latin-1", "controls"])
def test_every_listing_has_runs_in_folders_without_a_text_as_name(cluster: Desk, folder: str) -> None:
    every_listing_has_all_runs(cluster, FOLDERS[folder], {})


def every_listing_has_all_runs(cluster: Desk, folder: bytes, locale: dict[str, str]) -> None:
    odd = run_in(cluster, folder, 4711)
    plain = run_in(cluster, b"plain", 4712)
    jobs = "".join(f"{number}|COMPLETED|0:0|n1|{run}\n" for number, run in ((4711, odd), (4712, plain)))
    (cluster.spool / "sacct.out").write_bytes(os.fsencode(jobs))
    faults = []
    for words in VERBS:
        done = typed(cluster, *words.format(run=odd.name).split(), **locale)
        expected = 1 if words.startswith("cancel") else 0  # nothing is left to cancel
        if done.code != expected or "Traceback" in done.err:
            faults.append(f"{words}: {done.code}: {done.err[-300:]}")
        if not words.endswith("{run}") and not words.startswith(("cancel", "runs rebuild")):
            faults += [f"{words}: without {run}: {done.out}" for run in (odd, plain) if run.name not in done.out]
    assert not faults, "\n".join(faults)


def test_what_is_completed_is_the_same_in_every_locale(cluster: Desk, locale: dict[str, str]) -> None:
    odd = run_in(cluster, FOLDERS["greek"], 4711)
    completing = {"COMP_WORDS": "hpclaunch\nlogs\n", "COMP_CWORD": "2", "_HPCLAUNCH_COMPLETE": "complete_bash"}
    done = typed(cluster, **locale, **completing)
    assert (done.out.split(), done.err) == ([odd.name], "")


def test_a_path_is_shown_as_it_can_be_typed_again(cluster: Desk, locale: dict[str, str]) -> None:
    odd = run_in(cluster, FOLDERS["controls"], 4711)
    done = typed(cluster, "status", "--tabs", "--format", "run,directory", **locale)
    (line,) = done.out.splitlines()[1:]
    name, shown = line.split("\t")
    assert name == odd.name
    again = subprocess.run(["bash", "-c", f"printf %s {shown}"], capture_output=True, check=True)
    assert again.stdout == os.fsencode(odd)


def test_a_record_means_the_same_folder_in_every_locale(cluster: Desk, locale: dict[str, str]) -> None:
    """A run that was made in one locale is known as one's own in another."""
    place = Path(cluster.root, "projλ")
    place.mkdir()
    shutil.copy(cluster.project / "train.py", place)
    shutil.copytree(cluster.project / "site_configs", place / "site_configs")
    done = typed(cluster, "submit", "./train.py", cwd=place, **locale)
    assert done.code == 0, done.err
    (run,) = (place / "runs").iterdir()
    assert done.out == f"{run}\n"
    assert json.loads((run / "spec.json").read_text())["run_dir"] == str(run)
    assert f"#SBATCH --chdir={run}\n" in (cluster.spool / "script").read_text()
    told = typed(cluster, "status", run.name).err
    assert "not known as a run of yours" not in told
    assert not re.search("skipped", told)


def test_one_run_that_cannot_be_read_is_named_and_the_others_are_listed(cluster: Desk, locale: dict[str, str]) -> None:
    odd, plain = run_in(cluster, FOLDERS["controls"], 4711), run_in(cluster, b"plain", 4712)
    (odd / "run.json").write_bytes(b"\xff{")
    done = typed(cluster, "status", "--tabs", **locale)
    assert (done.code, plain.name in done.out) == (0, True), done.err
    assert r"skipped what cannot be read: $'" in done.err
    assert r"a\x1b[31m b/runs/" in done.err
