"""What a bundle is made of: what pip is told, what is packed, and what is left when something fails.

pip is a program that notes what it is told and writes empty wheels; an installation is in ``tests/packaging``.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hpclaunch.actions.sharing import own_wheel
from hpclaunch.actions.sharing.bundle import BundleTarget, _run_pip, make_bundle
from hpclaunch.actions.system import System
from hpclaunch.core.errors import Refused
from hpclaunch.core.version import __version__

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
METADATA = """Metadata-Version: 2.4
Name: hpclaunch
Requires-Dist: typer>=0.12
Requires-Dist: tomli; python_version < "3.11"
Requires-Dist: matplotlib>=3; extra == 'plot'
Requires-Dist: optuna>=3; extra == "search"

Requires-Dist: words-of-the-readme
"""
PIP = f"""#!{sys.executable}
import json, os, sys, zipfile

words = sys.argv[1:]
with open(CALLS, "a") as file:
    file.write(json.dumps([os.getcwd(), *words]) + "\\n")
if "wheel" in words:
    with zipfile.ZipFile(words[words.index("--wheel-dir") + 1] + "/hpclaunch-1-py3-none-any.whl", "w") as packed:
        packed.writestr("hpclaunch-1.dist-info/METADATA", METADATA)
if "download" in words:
    folder = words[words.index("--dest") + 1]
    for name in ("typer-1.whl", "pip-25.whl"):
        with open(f"{{folder}}/{{name}}", "w") as file:
            file.write(name)
        print(f"Saved {{folder}}/{{name}}")
"""


class Laptop:
    """A folder with a Python whose pip notes what it is told; `told` and `warned` are what the user reads."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.told, self.warned = folder, list[str](), list[str]()
        self.write_pip(PIP)
        monkeypatch.setattr(sys, "executable", str(folder / "python"))
        package = folder / "checkout/hpclaunch"  # also where these tests run beside an installed hpclaunch
        package.mkdir(parents=True)
        (package.parent / "pyproject.toml").touch()
        monkeypatch.setattr(own_wheel, "PACKAGE", package)
        (folder / "out").mkdir()

    def write_pip(self, text: str) -> None:
        values = {"CALLS": str(self.folder / "calls"), "METADATA": METADATA}
        for name, value in values.items():
            text = text.replace(f"({name}", f"({value!r}").replace(f", {name})", f", {value!r})")
        (self.folder / "python").write_text(text)
        (self.folder / "python").chmod(0o755)

    def make(self, target: BundleTarget, name: str = "bundle.sh") -> Path:
        system = System(tell=self.told.append, warn=self.warned.append)
        size = make_bundle(system, target, self.folder / "out" / name)
        assert size == (self.folder / "out" / name).stat().st_size
        return self.folder / "out" / name

    @property
    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]


@pytest.fixture
def laptop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Laptop:
    return Laptop(tmp_path, monkeypatch)


def packed_in(bundle: Path) -> dict[str, bytes]:
    """The files of the archive behind the last line of the installer."""
    content = bundle.read_bytes()
    with tarfile.open(fileobj=io.BytesIO(content[content.index(b"\nexit 0\n") + 8 :])) as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]


def test_pip_downloads_wheels_alone_for_the_target(laptop: Laptop) -> None:
    laptop.make(BundleTarget(python="3.12", machine="aarch64", extras=("plot",)))
    (first, *wheel), (place, *words) = laptop.calls
    assert first == place == "/", "a project may have a pip of its own in the working folder"
    assert wheel[:3] == ["-m", "pip", "wheel"] and wheel[-3] == str(laptop.folder / "checkout")
    assert "--no-deps" in wheel
    assert words[:3] == ["-m", "pip", "download"] and "--no-deps" not in words
    pairs = set(itertools.pairwise(words))
    assert {("--only-binary", ":all:"), ("--python-version", "3.12"), ("--implementation", "cp")} <= pairs
    platforms = [value for flag, value in itertools.pairwise(words) if flag == "--platform"]
    assert platforms == [*(f"manylinux_2_{minor}_aarch64" for minor in range(28, 16, -1)), "manylinux2014_aarch64"]
    asked = words[words.index("off") + 1 : -2]
    assert Path(asked[0]).name == "hpclaunch-1-py3-none-any.whl"
    assert asked[1:] == ["typer>=0.12", "tomli", "matplotlib>=3", "pip>=23"]
    assert words[-2:] == ["--disable-pip-version-check", "--no-input"]


def test_the_bundle_holds_all_wheels_and_its_installer_asks_for_the_extras(laptop: Laptop) -> None:
    bundle = laptop.make(BundleTarget(python="3.12", machine="aarch64", extras=("plot", "search")))
    names = ["hpclaunch-1-py3-none-any.whl", "pip-25.whl", "typer-1.whl"]
    packed = packed_in(bundle)
    assert list(packed) == names and packed["typer-1.whl"] == b"typer-1.whl"
    head = bundle.read_bytes().partition(b"\nexit 0\n")[0].decode()
    assert f"'hpclaunch[plot,search]=={__version__}'" in head
    assert '[ "$(uname -m)" = aarch64 ]' in head and "Python 3.12" in head
    assert bundle.stat().st_mode & 0o777 == 0o755
    assert os.listdir(bundle.parent) == ["bundle.sh"]
    assert [line for line in laptop.told if line.startswith("  ")] == ["  typer-1.whl", "  pip-25.whl"]
    plain = laptop.make(BundleTarget(python="3.12", machine="aarch64"), "plain.sh").read_bytes()
    assert f"'hpclaunch=={__version__}'".encode() in plain


@pytest.mark.parametrize(("python", "is_warned"), [(PYTHON, False), ("3.99", True)])
def test_another_python_than_that_of_pip_is_told(laptop: Laptop, python: str, is_warned: bool) -> None:
    laptop.make(BundleTarget(python=python, machine="x86_64"))
    assert [f"only Python {python} needs" in words for words in laptop.warned] == [True] * is_warned


def exists(laptop: Laptop) -> None:
    (laptop.folder / "out/bundle.sh").symlink_to("nowhere")


def no_folder(laptop: Laptop) -> None:
    (laptop.folder / "out").rename(laptop.folder / "away")


def a_failing_pip(laptop: Laptop) -> None:
    laptop.write_pip("#!/bin/sh\necho 'ERROR: No matching distribution found for typer'; exit 1\n")


def a_killed_pip(laptop: Laptop) -> None:
    laptop.write_pip("#!/bin/sh\necho half; kill -9 $$\n")


def made_meanwhile(laptop: Laptop) -> None:
    """Another program takes the name while pip is at work."""
    laptop.write_pip(PIP + f"os.makedirs({str(laptop.folder / 'out/bundle.sh/theirs')!r}, exist_ok=True)\n")


@pytest.mark.parametrize(
    ("change", "words", "left"),
    [
        (exists, "exists already", ["bundle.sh"]),
        (no_folder, "its folder does not exist", []),
        (a_failing_pip, "no wheel of typer is offered for Python 3.12 on aarch64", []),
        (a_killed_pip, "pip failed: half", []),
        (made_meanwhile, "cannot be written", ["bundle.sh"]),
    ],
)
def test_what_fails_leaves_nothing(
    laptop: Laptop, change: Callable[[Laptop], None], words: str, left: list[str]
) -> None:
    change(laptop)
    with pytest.raises(Refused, match=words):
        laptop.make(BundleTarget(python="3.12", machine="aarch64"))
    assert (os.listdir(laptop.folder / "out") if (laptop.folder / "out").is_dir() else []) == left


def installed(bundle: Path, **variables: str) -> tuple[int, str]:
    """Run the installer; return its exit code and its words."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(bundle.parent), "TMPDIR": str(bundle.parent), **variables}
    command = ["sh", str(bundle), str(bundle.parent / "env")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stderr


def test_the_installer_begins_only_with_whole_files_on_the_machine_it_is_for(
    laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = os.path.realpath(sys._base_executable)  # type: ignore[attr-defined]
    bundle = laptop.make(BundleTarget(python=PYTHON, machine=os.uname().machine))
    whole = bundle.read_bytes()
    bundle.write_bytes(whole.replace(b"typer-1.whl" + b"\0" * 501, b"Typer-1.whl" + b"\0" * 501))
    assert bundle.read_bytes() != whole
    for text in (bundle.read_bytes(), whole[:-9000]):
        bundle.write_bytes(text)
        code, words = installed(bundle, PYTHON=python)
        assert code == 1 and "is damaged" in words, words
    bundle.write_bytes(whole)
    code, words = installed(bundle, PYTHON="/bin/false", PATH=f"{laptop.folder}/nothing:/usr/bin:/bin")
    if code == 1 and "there is no Python" in words:  # else that of the system has this version
        assert not (bundle.parent / "env").exists()
    other = laptop.make(BundleTarget(python=PYTHON, machine="other"), "other.sh")
    code, words = installed(other, PYTHON=python)
    assert code == 1 and "this bundle is for other" in words
    code, words = installed(bundle, PYTHON=python)
    assert code == 1 and "could not be installed" in words, "its wheels are empty here"
    assert sorted(os.listdir(bundle.parent)) == ["bundle.sh", "other.sh"], "no folder, and no unpacked wheel, is left"
    (bundle.parent / "env").mkdir()
    code, words = installed(bundle, PYTHON=python)
    assert code == 1 and "env exists" in words and os.listdir(bundle.parent / "env") == []


@pytest.mark.parametrize("code", [0, 1, 2])
def test_whether_pip_has_failed_is_told_by_its_exit_code(code: int) -> None:
    """A pip that warns of something and goes on has not failed."""
    told: list[str] = []
    says = f"print('Saved ./a.whl'); print('No module named pip'); raise SystemExit({code})"
    failure = pytest.raises(Refused, match="has no pip") if code else contextlib.nullcontext()
    with failure:
        _run_pip(System(tell=told.append), [sys.executable, "-c", says], BundleTarget(python="3.12", machine="aarch64"))
    assert told == ["  a.whl"]
