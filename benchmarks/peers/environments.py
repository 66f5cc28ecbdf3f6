"""The tools that are compared, and a virtual environment for each, with the version that its module pins.

HPCLAUNCH_PEERS_CACHE names the folder of the environments. With HPCLAUNCH_PEERS_HERE the tools are those of this
Python, whatever their version is: for tests alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

from peer import Peer

MODULES = ("hpclaunch", "submitit", "torchx", "signac_flow", "simple_slurm", "psij", "reframe", "nemo_run", "skypilot")
CACHE = Path(os.environ.get("HPCLAUNCH_PEERS_CACHE", "/var/tmp/hpclaunch-peers-environments"))


def every_peer() -> dict[str, Peer]:
    """All tools by their name, hpclaunch first."""
    return {name: module.PEER for name, module in modules().items()}


def modules() -> dict[str, ModuleType]:
    """The module of every tool by the tool's name."""
    found = [import_module(f"by_{name}") for name in MODULES]
    return {module.PEER.name: module for module in found}


def programs(peer: Peer) -> Path:
    """The folder of the tool's programs; the environment is made if it does not exist. Raises RuntimeError with why."""
    if not peer.package or "HPCLAUNCH_PEERS_HERE" in os.environ:
        return Path(sys.executable).parent
    folder = CACHE / peer.package.replace(" ", "+")
    if not (folder / "complete").exists():
        _make(folder, peer.package)
        (folder / "complete").touch()
    return folder / "bin"


def _make(folder: Path, package: str) -> None:
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if uv is None:
        raise RuntimeError("needs uv: make setup, or pip install uv")
    environment = {**os.environ, "UV_SYSTEM_CERTS": "1", "UV_NATIVE_TLS": "1"}
    python = str(Path(sys.executable).resolve())
    # Compiled, as the user of the tests may write nothing there.
    install = [
        uv,
        "pip",
        "install",
        "--quiet",
        "--compile-bytecode",
        "--python",
        str(folder / "bin" / "python"),
        *package.split(),
    ]
    for command in ([uv, "venv", "--quiet", "--clear", "--python", python, str(folder)], install):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
        if done.returncode:
            raise RuntimeError(f"does not install on Python {sys.version.split()[0]}: {done.stderr.strip()[-300:]}")
