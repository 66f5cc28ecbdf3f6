"""``bundle``: one file with hpclaunch and all packages that it needs, for a cluster without internet."""

from __future__ import annotations

import hashlib
import io
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from hpclaunch.actions.sharing.bundle_installer import installer_text
from hpclaunch.actions.sharing.own_wheel import make_own_wheel, required_by
from hpclaunch.actions.system import System
from hpclaunch.core.errors import Fault, InvalidRequest, Refused, unwritable, without_folder
from hpclaunch.core.records import record
from hpclaunch.core.version import __version__

PYTHONS = ("3.10", "3.11", "3.12", "3.13")
MACHINES = ("x86_64", "aarch64")
EXTRAS = ("plot", "search", "mlflow")
"""Those whose packages all have wheels. TensorFlow and Horovod belong to the site."""
_GLIBC = range(28, 16, -1)
"""The versions 2.28 (2018) to 2.17 of the C library; a package built for an older one works with a newer one."""
_NO_NETWORK = (
    *("Failed to establish a new connection", "NameResolutionError", "Name or service not known"),
    *("Network is unreachable", "Temporary failure in name resolution", "ConnectTimeoutError", "ProxyError"),
)
_LAST_LINES = 4
_EMPTY = "/"
"""A folder that only the administrator writes into."""
_LONGEST_LINE = 65_536


@record
class BundleTarget:
    """What a bundle is for: a version of Python such as 3.11, a machine as ``uname -m`` names it, and extras."""

    python: str
    machine: str
    extras: tuple[str, ...] = ()

    @property
    def file_name(self) -> str:
        """The usual name of the file."""
        return f"hpclaunch-{__version__}-python{self.python}-{self.machine}.sh"


def target_of(python: str | None, machine: str | None, extras: Sequence[str]) -> BundleTarget:
    """Return the target that was typed; what is left out is that of this Python. Raises InvalidRequest."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    target = BundleTarget(python=python or here, machine=machine or platform.machine(), extras=tuple(extras))
    checks = [("--python", target.python, PYTHONS), ("--machine", target.machine, MACHINES)]
    checks += [("--extra", extra, EXTRAS) for extra in extras]
    faults = [
        Fault(where=flag, what=f"{typed!r} is not offered", allowed=", ".join(known))
        for flag, typed, known in checks
        if typed not in known
    ]
    if faults:
        raise InvalidRequest(faults)
    return target


def make_bundle(system: System, target: BundleTarget, output: Path) -> int:
    """Write the bundle to a new file; return its size in bytes. Raises Refused."""
    if os.path.lexists(output):
        raise Refused(Fault(where=str(output), what="exists already", next="name a new file with -o"))
    if not output.parent.is_dir():
        raise without_folder(output)
    if target.python != f"{sys.version_info.major}.{sys.version_info.minor}":
        system.warn(
            f"pip runs on Python {platform.python_version()} here; a package that only Python {target.python} needs"
            f" may be missing, and the installer then says so"
        )
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        _download(system, target, folder)
        content = _bundle_content(target, {path.name: path.read_bytes() for path in sorted(folder.iterdir())})
    _write(output, content)
    return len(content)


def _download(system: System, target: BundleTarget, folder: Path) -> None:
    """Put the wheels of hpclaunch, of all that it needs, and of pip into the folder."""
    system.tell("making the wheel of hpclaunch")
    wheel = make_own_wheel(folder, lambda words: _run_pip(system, words, target))
    system.tell(f"downloading packages for Python {target.python} on {target.machine}")
    names = [f"manylinux_2_{minor}_{target.machine}" for minor in _GLIBC]
    platforms = [word for name in (*names, f"manylinux2014_{target.machine}") for word in ("--platform", name)]
    words = [sys.executable, "-m", "pip", "download", "--dest", str(folder), "--only-binary", ":all:"]
    words += ["--implementation", "cp", "--python-version", target.python, *platforms, "--progress-bar", "off"]
    _run_pip(system, [*words, str(wheel), *required_by(wheel, target.extras), "pip>=23"], target)


def _run_pip(system: System, words: Sequence[str], target: BundleTarget) -> None:
    """Run pip, and report each file that it has. Raises Refused with the cause, as far as pip names it."""
    last: deque[str] = deque(maxlen=200)
    with subprocess.Popen(
        [*words, "--disable-pip-version-check", "--no-input"],
        cwd=_EMPTY,  # python -m takes modules of the working folder first, where a project may have a pip of its own
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as pip:
        assert pip.stdout is not None
        while line := pip.stdout.readline(_LONGEST_LINE):
            last.append(line.strip())
            if line.startswith("Saved "):
                system.tell(f"  {Path(line[6:].strip()).name}")
    if pip.returncode:
        raise Refused(fault_of_pip(list(last), target))


def fault_of_pip(lines: Sequence[str], target: BundleTarget) -> Fault:
    """Return why pip failed, from the lines that it wrote."""
    text = "\n".join(lines)
    if "No module named pip" in text:
        return Fault(what=f"{sys.executable} has no pip", next=f"{sys.executable} -m ensurepip")
    if any(sign in text for sign in _NO_NETWORK):
        what = "pip reaches no package index"
        return Fault(what=what, next="type the command on a machine with internet, or set pip's proxy or index")
    missing = [line.partition("No matching distribution found for ")[2] for line in lines]
    named = next(filter(None, missing), "")
    if named:
        what = f"no wheel of {named} is offered for Python {target.python} on {target.machine}"
        return Fault(what=what, next="choose another --python, or leave out the --extra that needs it")
    return Fault(what="pip failed: " + " | ".join(list(filter(None, lines))[-_LAST_LINES:]), next="pip's own advice")


def _bundle_content(target: BundleTarget, files: dict[str, bytes]) -> bytes:
    """Return the bundle: the installer, then an archive of the files, which it checks."""
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    extras = f"[{','.join(target.extras)}]" if target.extras else ""
    about = {"VERSION": __version__, "WANTED": target.python, "MACHINE": target.machine}
    head = installer_text({**about, "REQUIREMENT": f"hpclaunch{extras}=={__version__}"}, sums)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as packed:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))
    return head.encode() + archive.getvalue()


def _write(output: Path, content: bytes) -> None:
    """Write the file whole or not at all. Raises Refused."""
    partial = output.with_name(f".{output.name}.{os.urandom(8).hex()}")  # a name that nobody else made a link
    try:
        with partial.open("xb") as file:
            file.write(content)
        partial.chmod(0o755)
        partial.rename(output)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise unwritable(output, error) from None
