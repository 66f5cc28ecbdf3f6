"""axe-core, which looks for what keeps people from reading a page; npm downloads it on first use."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

VERSION = "4.14.1"
SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
"""The checksum that npm's registry gives for this version (``npm view axe-core@VERSION dist.integrity``)."""
_FOLDER = Path(__file__).parents[2] / ".cache" / f"axe-core-{VERSION}"


def script() -> str:
    """Return axe-core's script. In CI it is downloaded; elsewhere only if HPCLAUNCH_TEST_AXE is 1, else a skip."""
    file = _FOLDER / "axe.min.js"
    if not file.is_file():
        if os.environ.get("CI") != "true" and os.environ.get("HPCLAUNCH_TEST_AXE") != "1":
            pytest.skip("group axe: is downloaded with npm; set HPCLAUNCH_TEST_AXE=1")
        _download(file)
    return file.read_text(encoding="utf-8")


def _download(file: Path) -> None:
    npm = shutil.which("npm")
    if not npm:
        pytest.skip("group axe: needs npm (apt install npm)")
    _FOLDER.mkdir(parents=True, exist_ok=True)
    command = [npm, "pack", "--silent", "--pack-destination", str(_FOLDER), f"axe-core@{VERSION}"]
    done = subprocess.run(command, cwd=_FOLDER, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    archive = _FOLDER / f"axe-core-{VERSION}.tgz"
    assert base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode() == SHA512
    with tarfile.open(archive) as packed:
        content = packed.extractfile("package/axe.min.js")
        assert content is not None
        draft = file.with_suffix(".draft")
        draft.write_bytes(content.read())
    draft.replace(file)
