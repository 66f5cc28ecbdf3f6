"""What the wheel and the sdist hold, and that an installed hpclaunch finds its folders wherever it stands."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT, run
from tests.tiers import LONG

FOLDERS = ("templates", "site_configs", "jobs")


def shipped() -> set[str]:
    """The tracked files of the three folders, as FOLDER/NAME."""
    listing = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *FOLDERS, cwd=ROOT).stdout
    return set(listing.split())


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
FOLDERS_OF_THE_CORE = ["tests/unit", "tests/processes", *(["tests/script", "tests/property"] if LONG else [])]
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


def check_the_core(uv: str, wheel: Path, folder: Path, python: str, resolution: str) -> None:
    """Install the wheel alone into a new environment, and run the core's tests there."""
    found = run(uv, "python", "find", "--no-python-downloads", python, cwd=folder, check=False)
    if found.returncode:
        pytest.skip(f"group python-{python}: Python {python} is not installed")
    environment = folder / "env"
    run(uv, "venv", "--quiet", "--python", found.stdout.strip(), environment, cwd=folder)
    interpreter = environment / "bin" / "python"
    install = (uv, "pip", "install", "--quiet", "--python", interpreter, "--resolution", resolution)
    tools = ("pytest>=8.3", "pytest-timeout>=2.3", "hypothesis>=6.112", "backports.tarfile>=1.2")
    run(*install, f"hpclaunch @ {wheel.as_uri()}", *tools, cwd=folder)
    # The tests run beside the checkout, not in it, so that the installed package is what they import.
    (folder / "tests").symlink_to(ROOT / "tests")
    (folder / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8"), encoding="utf-8")
    hpclaunch = environment / "bin" / "hpclaunch"
    listed = run(hpclaunch, "sites", "list", cwd=folder).stdout
    assert "perlmutter\tbundled" in listed
    render = (hpclaunch, "render", "cifar", "--site", "perlmutter", "--account", "m1", "--runs-dir", "/scratch")
    assert run(*render, cwd=folder).stdout.startswith("#!/bin/bash")
    options = ["-q", "-x", "-p", "no:cacheprovider", *(f"--ignore=tests/{place}" for place in ELSEWHERE)]
    suite = run(interpreter, "-m", "pytest", *options, *FOLDERS_OF_THE_CORE, cwd=folder, check=False)
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
