"""One file for a cluster without internet: made from the wheel, and installed where there is no network."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT, run
from tests.packaging.test_distributions import install

pytestmark = pytest.mark.timeout(1800)
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def without_network() -> list[str]:
    """The words that start a program without any network; a test of it needs the permission for them."""
    for words in (["unshare", "--net"], ["bwrap", "--dev-bind", "/", "/", "--unshare-net"]):
        if shutil.which(words[0]) and subprocess.run([*words, "true"], capture_output=True).returncode == 0:
            return words
    pytest.skip("group network: needs unshare as root, or bubblewrap")


@pytest.fixture(scope="module")
def bundle(uv: str, distributions: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle that an installed hpclaunch makes, for its own Python."""
    folder = tmp_path_factory.mktemp("laptop")
    environment = install(uv, distributions[0], folder, PYTHON, "pip")
    run(environment / "bin" / "hpclaunch", "bundle", "-o", "bundle.sh", cwd=folder)
    return folder / "bundle.sh"


def test_it_installs_and_works_without_a_network(bundle: Path, tmp_path: Path) -> None:
    apart = without_network()
    run(*apart, "sh", bundle, tmp_path / "env", cwd=tmp_path)
    hpclaunch = tmp_path / "env" / "bin" / "hpclaunch"
    assert run(*apart, hpclaunch, "--version", cwd=tmp_path).stdout.startswith("hpclaunch ")
    words = ("submit", "cifar", "--dry-run", "--nodes", "2", "--site", "perlmutter", "--account", "m1")
    script = run(*apart, hpclaunch, *words, "--runs-dir", "/scratch", cwd=tmp_path).stdout
    assert script.startswith("#!/bin/bash") and "#SBATCH --nodes=2" in script
    again = run("sh", bundle, tmp_path / "env", cwd=tmp_path, check=False)
    assert again.returncode == 1 and "exists" in again.stderr


def test_a_changed_file_is_not_installed(bundle: Path, tmp_path: Path) -> None:
    content = bytearray(bundle.read_bytes())
    content[-20_000] ^= 1
    (tmp_path / "changed.sh").write_bytes(content)
    done = run("sh", tmp_path / "changed.sh", tmp_path / "env", cwd=tmp_path, check=False)
    assert done.returncode == 1 and "is damaged" in done.stderr
    assert not (tmp_path / "env").exists()


def test_the_wheel_that_is_packed_again_has_the_files_of_the_first(
    bundle: Path, distributions: tuple[Path, Path], tmp_path: Path
) -> None:
    code = "from hpclaunch.actions.sharing.own_wheel import make_own_wheel; from pathlib import Path; "
    code += "print(make_own_wheel(Path('.'), lambda words: None))"
    made = tmp_path / run(bundle.parent / "env" / "bin" / "python", "-c", code, cwd=tmp_path).stdout.strip()
    first, second = (
        {name: packed.read(name) for name in packed.namelist() if not name.endswith("/RECORD")}
        for packed in (zipfile.ZipFile(distributions[0]), zipfile.ZipFile(made))
    )
    assert (made.name, second) == (distributions[0].name, first)


def test_an_installation_that_was_changed_is_not_packed(
    uv: str, distributions: tuple[Path, Path], tmp_path: Path
) -> None:
    environment = install(uv, distributions[0], tmp_path, PYTHON)
    (changed,) = environment.glob("lib/python*/site-packages/hpclaunch/render.py")
    text = changed.read_text()
    changed.unlink()  # it may be a link to the file in uv's cache, which other environments have too
    changed.write_text(text + "\n")
    done = run(environment / "bin" / "hpclaunch", "bundle", cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert "render.py: was changed after it was installed" in done.stderr


def test_without_pip_the_next_step_is_named(uv: str, distributions: tuple[Path, Path], tmp_path: Path) -> None:
    done = run(
        install(uv, distributions[0], tmp_path, PYTHON) / "bin" / "hpclaunch", "bundle", cwd=tmp_path, check=False
    )
    assert done.returncode == 1
    assert "has no pip" in done.stderr and "-m ensurepip" in done.stderr
    assert not list(tmp_path.glob("*.sh")) and ROOT.is_dir()
