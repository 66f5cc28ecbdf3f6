"""submitit's executor, whose command submits the rendered script instead of a script of its own."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpclaunch.schedulers.slurm.programs import leaking, with_address

if TYPE_CHECKING:
    from submitit import SlurmExecutor

_UNUSED = ("asyncio", "importlib.metadata", "logging.config")
"""What submitit imports to await results, to find plugins and to print its log, as nothing here does: most of the time
of its import."""
_LOG = "SUBMITIT_LOG_LEVEL"


class _LoadedLater(types.ModuleType):
    """Stands in for a module while submitit is imported; after that it loads the module at its first use."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            return typing.Any  # an annotation of submitit
        return getattr(importlib.import_module(self.__name__), name)


def script_executor(folder: Path, options: Sequence[str], seconds: int) -> SlurmExecutor:
    """Return an executor for a folder, whose sbatch has further ``options`` and ends after ``seconds``."""
    _import_submitit()
    import submitit

    class ScriptExecutor(submitit.SlurmExecutor):
        def _make_submission_command(self, submission_file_path: Path) -> list[str]:
            unset = [word for name in leaking(os.environ) for word in ("-u", name)]
            patience = ["timeout", "--kill-after=5", str(seconds)] if shutil.which("timeout") else []
            sbatch, *rest = super()._make_submission_command(submission_file_path)
            return ["env", *unset, *patience, *with_address([sbatch, *options, *rest])]

    return ScriptExecutor(folder=folder)


def _import_submitit() -> None:
    """Import submitit without the modules that it does not use here, unless something has loaded them already."""
    if "submitit" in sys.modules:
        return
    stand_ins: dict[str, types.ModuleType] = {name: _LoadedLater(name) for name in _UNUSED}
    stand_ins["typing_extensions"] = typing  # for TypedDict, which every Python has that hpclaunch runs with
    stand_ins = {name: module for name, module in stand_ins.items() if name not in sys.modules}
    level = os.environ.get(_LOG)
    sys.modules.update(stand_ins)
    os.environ[_LOG] = "NOCONFIG"
    try:
        importlib.import_module("submitit")
    finally:
        for name in stand_ins:
            del sys.modules[name]
        if level is None:
            del os.environ[_LOG]
        else:
            os.environ[_LOG] = level
