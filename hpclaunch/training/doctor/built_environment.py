"""Tests an environment that was just built, with its own Python, and writes what is in it into ``built.json``.

Started in the folder of the build, with the framework, the maker of the GPUs (empty: none), whether Horovod and NCCL
were asked for (1, or empty), and the file with pip's list of packages. It imports nothing of hpclaunch.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import platform
import socket
import sys
import time
from importlib import metadata
from typing import Any

FORMAT = 1
_MODULES = {"pytorch": "torch"}
_PARTS_OF_HOROVOD = ("mpi", "gloo", "nccl", "cuda", "rocm")


def main(framework: str, gpus: str, with_horovod: str, with_nccl: str, freeze: str) -> None:
    """Write the facts, or end with the reason why the environment cannot be used."""
    library = importlib.import_module(_MODULES.get(framework, framework))
    distributions = {str(one.metadata["Name"]): one for one in metadata.distributions()}
    if gpus and not _is_made_for(framework, library, gpus, list(distributions)):
        what = "the installed {} {} is not made for GPUs of {}: name the index of its wheels with --index-url"
        sys.exit(what.format(framework, library.__version__, gpus))
    horovod = _horovod(framework) if with_horovod else {}
    if with_nccl and not horovod.get("nccl"):
        sys.exit("Horovod was built without NCCL; what its build printed above says why")
    with open(freeze, "rb") as file:
        freeze_sha256 = hashlib.sha256(file.read()).hexdigest()
    facts = {
        "format": FORMAT,
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "host": socket.gethostname(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "version": str(library.__version__),
        "horovod": horovod,
        "modules": [name for name in os.environ.get("LOADEDMODULES", "").split(":") if name],
        "packages": {name: _package(one) for name, one in sorted(distributions.items())},
        "freeze_sha256": freeze_sha256,
    }
    with open("built.json.part", "w", encoding="utf-8") as output:
        json.dump(facts, output, indent=2)
        output.flush()
        os.fsync(output.fileno())
    os.replace("built.json.part", "built.json")
    print("hpclaunch: {} {} works with Python {}".format(framework, library.__version__, facts["python"]))


def _is_made_for(framework: str, library: Any, gpus: str, names: list[str]) -> bool:
    """Whether the installed framework was compiled for GPUs of this maker; no GPU need be here."""
    is_nvidia = gpus == "nvidia"
    if framework == "pytorch":
        return bool(getattr(library.version, "cuda" if is_nvidia else "hip", None))
    if framework == "tensorflow":
        return bool(library.test.is_built_with_cuda() if is_nvidia else library.test.is_built_with_rocm())
    return any(name.startswith("jax-cuda" if is_nvidia else "jax-rocm") for name in names)


def _horovod(framework: str) -> dict[str, bool]:
    """Return which parts Horovod was compiled with."""
    ranks = importlib.import_module("horovod." + _MODULES.get(framework, framework))
    return {name: bool(getattr(ranks, name + "_built")()) for name in _PARTS_OF_HOROVOD}


def _package(one: metadata.Distribution) -> dict[str, Any]:
    """Return version and the SHA-256 of the list of files, which has that of each file; None where there is no list."""
    lists = [file for file in one.files or () if file.name == "RECORD"]
    digest = hashlib.sha256(lists[0].read_binary()).hexdigest() if lists else None
    return {"version": one.version, "record_sha256": digest}


if __name__ == "__main__":
    main(*sys.argv[1:])
