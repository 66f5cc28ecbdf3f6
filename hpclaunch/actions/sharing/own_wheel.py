"""Makes the wheel of the hpclaunch that runs: built from its checkout, or packed again from its installed files.

No index is asked for it: before a release none has it, and later an index may have another build of the version.
"""

from __future__ import annotations

import base64
import hashlib
import re
import sys
import zipfile
from collections.abc import Callable, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.folders import PACKAGE
from hpclaunch.core.version import __version__

Run = Callable[[Sequence[str]], None]
"""Runs a program; raises Refused."""
_NAME = "hpclaunch"
_OF_THE_INSTALLATION = {"INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_build.json", "uv_cache.json"}
"""Files of the metadata that the program that installs writes; a wheel has none of them, or its own."""
_DATE = (1980, 1, 1, 0, 0, 0)
_AGAIN = "install hpclaunch again, from a wheel or from a checkout"


def make_own_wheel(folder: Path, run: Run) -> Path:
    """Make the wheel in ``folder``; return its path. Raises Refused."""
    if (PACKAGE / "_bundled").is_dir():
        return _pack_again(folder)
    checkout = PACKAGE.parent
    if not (checkout / "pyproject.toml").is_file():
        raise Refused(Fault(where=str(PACKAGE), what="is neither installed nor in a checkout", next=_AGAIN))
    run([sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(folder), str(checkout)])
    (wheel,) = folder.glob(f"{_NAME}-*.whl")
    return wheel


def required_by(wheel: Path, extras: Sequence[str]) -> list[str]:
    """Return what a wheel requires, with these extras, whatever the Python.

    A condition on the Python is left out: the last part of the target's version is not known.
    """
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (name for name in packed.namelist() if name.endswith(".dist-info/METADATA"))
        lines = packed.read(name).decode("utf-8").partition("\n\n")[0].splitlines()
    found = [line.partition(": ")[2].partition(";") for line in lines if line.startswith("Requires-Dist: ")]
    extra_of = {text: re.search(r"extra == ['\"]([\w-]+)['\"]", condition) for text, _, condition in found}
    return [text.strip() for text, extra in extra_of.items() if extra is None or extra[1] in extras]


def _pack_again(folder: Path) -> Path:
    installed = _own_distribution()
    content = {name: _content_of(installed, name) for name in _wheel_files(installed)}
    about = next(iter(name.split("/")[0] for name in content if name.endswith(".dist-info/WHEEL")), "")
    tag = re.search(rb"^Tag: ([\w-]+)$", content.get(f"{about}/WHEEL", b""), re.MULTILINE)
    if tag is None:
        raise Refused(Fault(where=str(PACKAGE), what="its installation names no kind of wheel", next=_AGAIN))
    wheel = folder / f"{_NAME}-{__version__}-{tag[1].decode()}.whl"
    record = [f"{name},sha256={_digest(inside)},{len(inside)}\n" for name, inside in content.items()]
    content[f"{about}/RECORD"] = "".join([*record, f"{about}/RECORD,,\n"]).encode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, inside in content.items():
            packed.writestr(zipfile.ZipInfo(name, _DATE), inside, zipfile.ZIP_DEFLATED)
    return wheel


def _own_distribution() -> Distribution:
    try:
        installed = distribution(_NAME)
    except PackageNotFoundError:
        installed = None
    if installed is None or Path(str(installed.locate_file(_NAME))).resolve() != PACKAGE:
        raise Refused(Fault(where=str(PACKAGE), what="has no record of its installation", next=_AGAIN))
    return installed


def _wheel_files(installed: Distribution) -> list[str]:
    """Return the files that the wheel had, in the order of its record; byte code and programs are made from them."""
    names = [file.as_posix() for file in installed.files or []]
    kept = [name for name in names if not name.startswith(("../", "/")) and "__pycache__" not in name]
    return [name for name in kept if name.rpartition("/")[2] not in _OF_THE_INSTALLATION or ".dist-info" not in name]


def _content_of(installed: Distribution, name: str) -> bytes:
    """Return a file's content, which must be the recorded one. Raises Refused."""
    (recorded,) = (file for file in installed.files or [] if file.as_posix() == name)
    path = Path(str(installed.locate_file(name)))
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Refused(Fault(where=str(path), what=f"cannot be read: {error.strerror}", next=_AGAIN)) from None
    if recorded.hash is None or recorded.hash.value != _digest(content):
        raise Refused(Fault(where=str(path), what="was changed after it was installed", next=_AGAIN))
    return content


def _digest(content: bytes) -> str:
    """Return the SHA-256 as the record of a wheel has it."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
