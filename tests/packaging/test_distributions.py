"""What the wheel and the sdist hold, and that an installed hpclaunch finds its folders wherever it stands."""

from __future__ import annotations

import re
import tarfile
import zipfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT, run
from tests.tiers import LONG

FOLDERS = ("templates", "site_configs", "jobs")
LARGEST_WHEEL = 2_500_000
"""Bytes: 2.2 MB are text, compressed. A data set or a second copy of a folder would not fit in."""


def shipped() -> set[str]:
    """The tracked files of the three folders, as FOLDER/NAME."""
    listing = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *FOLDERS, cwd=ROOT).stdout
    return set(listing.split())


def manual() -> set[str]:
    """The tracked pages that `hpclaunch docs` shows, as docs/NAME.md."""
    listing = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "docs", cwd=ROOT).stdout
    return {name for name in listing.split() if name.endswith(".md") and not name.startswith("docs/decisions/")}


def test_the_wheel_holds_the_pages_of_the_manual_and_nothing_else_of_docs(distributions: tuple[Path, Path]) -> None:
    names = zipfile.ZipFile(distributions[0]).namelist()
    folder = "hpclaunch/_bundled/docs/"
    assert {name.removeprefix("hpclaunch/_bundled/") for name in names if name.startswith(folder)} == manual()
    assert distributions[0].stat().st_size < LARGEST_WHEEL


PYTHONS = ("3.10", "3.12", "3.13")


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("python", PYTHONS)
def test_every_hint_resolves_where_only_the_wheel_is(
    uv: str, distributions: tuple[Path, Path], tmp_path: Path, python: str
) -> None:
    """The command that a hint names is typed in an environment without a checkout."""
    hpclaunch = install(uv, distributions[0], tmp_path, python) / "bin" / "hpclaunch"
    wheel = zipfile.ZipFile(distributions[0])
    texts = [wheel.read(name).decode("utf-8", errors="replace") for name in wheel.namelist()]
    topics = {topic for text in texts for topic in re.findall(r"hpclaunch docs ([a-z][a-z0-9/_-]*)", text)}
    assert len(topics) > 5
    for topic in sorted(topics):
        path = Path(run(hpclaunch, "docs", topic, "--path", cwd=tmp_path).stdout.strip())
        assert path.is_relative_to(tmp_path / "env") and path.is_file()
    assert run(hpclaunch, "docs", "settings", cwd=tmp_path).stdout.startswith("# Settings\n")


def test_the_wheel_holds_the_three_folders_under_bundled(distributions: tuple[Path, Path]) -> None:
    names = set(zipfile.ZipFile(distributions[0]).namelist())
    assert {f"hpclaunch/_bundled/{name}" for name in shipped()} <= names
    assert "hpclaunch/training/parameters.json" in names


def test_the_wheel_holds_nothing_else(distributions: tuple[Path, Path]) -> None:
    names = zipfile.ZipFile(distributions[0]).namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"hpclaunch"}
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests/")]


def test_the_sdist_holds_sources_and_tests(distributions: tuple[Path, Path]) -> None:
    with tarfile.open(distributions[1]) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert shipped() <= names
    assert {"pyproject.toml", "README.md", "LICENSE", "hpclaunch/__init__.py", "tests/conftest.py"} <= names


# The lowest versions of all that hpclaunch depends on, and the newest. Python 3.11 runs all the other tests.
# A source distribution holds no benchmarks, nor need their tests pass from one.
ELSEWHERE = [f"{folder}/{part}" for folder in ("unit", "processes") for part in ("training", "benchmarks")]
# In the long tier only: tests of a minute, and scripts, which bash runs in the same way on every Python.
SLOW = [f"processes/{part}" for part in ("actions/test_interleavings.py", "schedulers/slurm", "templates")]
ELSEWHERE += ["script/test_every_script.py"] if LONG else SLOW
FOLDERS_OF_THE_CORE = ["tests/architecture/test_hints.py", "tests/unit", "tests/processes"]
FOLDERS_OF_THE_CORE += ["tests/script", "tests/property"] if LONG else []
# What reads files and decides: most of what a newer Python, or a newer library, could change.
SHARE_OF_THE_NEWEST = [f"tests/unit/{part}" for part in ("config", "core", "resolve")]
# Python 3.11 runs every case of them all; another Python or library fails in all cases of a test, or in the first ones.
MOST_CASES = 0 if LONG else 3
ENVIRONMENTS = [("3.10", "lowest-direct"), *([("3.12", "highest")] if LONG else []), ("3.13", "highest")]


@pytest.fixture(scope="module")
def suites(
    uv: str, distributions: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[None]]]:
    """Every environment's installation and tests, by Python; two at a time, for each keeps one core busy."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        yield {
            python: pool.submit(
                check_the_core, uv, distributions[0], tmp_path_factory.mktemp(f"python-{python}"), python, resolution
            )
            for python, resolution in ENVIRONMENTS
        }


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("python", [python for python, _ in ENVIRONMENTS])
def test_the_core_works_where_only_its_dependencies_are(suites: dict[str, Future[None]], python: str) -> None:
    suites[python].result()


def install(uv: str, wheel: Path, folder: Path, python: str, *others: str) -> Path:
    """Install the wheel, and what else is named, into a new environment of this Python; return its path."""
    found = run(uv, "python", "find", "--no-python-downloads", python, cwd=folder, check=False)
    if found.returncode:
        pytest.skip(f"group python-{python}: Python {python} is not installed")
    run(uv, "venv", "--quiet", "--python", found.stdout.strip(), folder / "env", cwd=folder)
    command = (uv, "pip", "install", "--quiet", "--python", folder / "env" / "bin" / "python")
    run(*command, f"hpclaunch @ {wheel.as_uri()}", *others, cwd=folder)
    return folder / "env"


def check_the_core(uv: str, wheel: Path, folder: Path, python: str, resolution: str) -> None:
    """Install the wheel alone into a new environment, and run the core's tests there."""
    tools = ("pytest>=8.3", "pytest-timeout>=2.3", "hypothesis>=6.112", "backports.tarfile>=1.2")
    environment = install(uv, wheel, folder, python, "--resolution", resolution, *tools)
    interpreter = environment / "bin" / "python"
    # The tests run beside the checkout, not in it, so that the installed package is what they import.
    (folder / "tests").symlink_to(ROOT / "tests")
    (folder / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8"), encoding="utf-8")
    hpclaunch = environment / "bin" / "hpclaunch"
    listed = run(hpclaunch, "sites", "list", cwd=folder).stdout
    assert "perlmutter\tbundled" in listed
    render = (hpclaunch, "render", "cifar", "--site", "perlmutter", "--account", "m1", "--runs-dir", "/scratch")
    assert run(*render, cwd=folder).stdout.startswith("#!/bin/bash")
    options = ["-q", "-x", "-p", "no:cacheprovider", *(f"--ignore=tests/{place}" for place in ELSEWHERE)]
    folders = FOLDERS_OF_THE_CORE if LONG or python == "3.10" else SHARE_OF_THE_NEWEST
    # Their groups need an extra, or a reader of TOML, which the environment of the other tests has.
    variables = ("HPCLAUNCH_TEST_ELSEWHERE=search python", f"HPCLAUNCH_TEST_CASES={MOST_CASES}")
    suite = run("env", *variables, interpreter, "-m", "pytest", *options, *folders, cwd=folder, check=False)
    assert suite.returncode == 0, suite.stdout[-4000:]


@pytest.mark.timeout(1200)
def test_an_editable_install_reads_the_checkout(uv: str, tmp_path: Path) -> None:
    run(uv, "venv", "--quiet", tmp_path / "env", cwd=tmp_path)
    python = tmp_path / "env" / "bin" / "python"
    run(uv, "pip", "install", "--quiet", "--python", python, "--editable", ROOT, cwd=tmp_path)
    answer = run(
        python, "-c", "from hpclaunch.config.catalog import bundled; print(bundled('jobs'))", cwd=tmp_path
    ).stdout
    assert Path(answer.strip()) == ROOT / "jobs"


def test_importing_the_package_imports_nothing(uv: str, tmp_path: Path) -> None:
    code = "import sys; before = set(sys.modules); import hpclaunch; print(*(set(sys.modules) - before))"
    answer = run("python3", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}", cwd=tmp_path).stdout
    assert answer.split() == ["hpclaunch"]
