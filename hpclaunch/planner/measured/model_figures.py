"""The figures of a job's model: from the job file, from an earlier probe, or from a probe in the job's environment.

The probe (hpclaunch.training.model_probe) runs in another process: TensorFlow is never imported here.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hpclaunch.config.job import Job
from hpclaunch.core import waiting
from hpclaunch.core.errors import HpclaunchError
from hpclaunch.core.files import read_text, write_text
from hpclaunch.core.folders import cache_folder
from hpclaunch.core.records import record
from hpclaunch.core.spec import Code
from hpclaunch.guidelines.figures import LayerFigures, ModelFigures
from hpclaunch.planner.job.workload import stored_figures
from hpclaunch.resolve.python_environment import PythonEnvironment
from hpclaunch.runs.code_folder import CodeFolders
from hpclaunch.runs.snapshot import choose, copy, fingerprint

PROBE = "hpclaunch.training.model_probe"
SECONDS = 180
"""The longest probe: to import TensorFlow from a busy file system may take a minute."""
_FORMAT = "3"
"""Part of the key, because figures of an older probe may differ from those of this one."""


class NotFoundOut(Exception):
    """The reason, in one line, why a model's figures could not be found."""


@record
class Look:
    """One way to probe the model: a Python environment, and its description in words."""

    environment: PythonEnvironment
    words: str


def known_figures(job: Job, environment: Mapping[str, str], folders: CodeFolders | None = None) -> ModelFigures | None:
    """Return the figures of the job file, else those of an earlier probe of the same code; it starts no program.

    ``folders``: those that the command has examined already.
    """
    stored = stored_figures(job)
    if stored is not None or job.training is None or job.training.model is None:
        return stored
    try:
        return _read_figures(job, _place(job, environment, folders))
    except (OSError, OverflowError, NotFoundOut):
        return None


def find_figures(job: Job, environment: Mapping[str, str], looks: Sequence[Look]) -> ModelFigures:
    """Probe the model in each environment until one succeeds, and keep the figures.

    Raises NotFoundOut with the reasons. If the figures cannot be kept, the next plan probes again.
    """
    if job.training is None or job.training.model is None:
        raise NotFoundOut("the job file names no model (training.model)")
    reasons = []
    for look in looks:
        try:
            found = {**_probe_model(job, job.training.model, environment, look), "by": look.words}
            figures = _figures(job, found)
        except (OSError, OverflowError, HpclaunchError) as error:
            raise NotFoundOut(f"its code cannot be copied: {error}") from None
        except NotFoundOut as reason:
            reasons.append(f"{look.words}: {reason}")
            continue
        _keep_figures(_place(job, environment), found)
        return figures
    raise NotFoundOut("; ".join(reasons))


def _keep_figures(place: Path, found: dict[str, Any]) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_text(place, json.dumps(found), durable=False)
    except OSError:
        pass


def own_python(python: str) -> list[Look]:
    """Return the Python that runs hpclaunch, if it has TensorFlow: the figures are the same in every environment."""
    if importlib.util.find_spec("tensorflow") is None:
        return []
    return [Look(environment=PythonEnvironment(words=(python,)), words=f"hpclaunch's own Python {python}")]


def _place(job: Job, environment: Mapping[str, str], folders: CodeFolders | None = None) -> Path:
    assert job.training is not None and job.training.model is not None
    code = fingerprint(_code(job), folders)
    return cache_folder(environment) / "models" / f"{code[:32]}-{_FORMAT}-{job.training.model.replace(':', '.')}.json"


def _code(job: Job) -> Code:
    return Code(folder=job.folder, entry=job.script or "", source_only=job.source_only)


def _read_figures(job: Job, place: Path) -> ModelFigures | None:
    text = read_text(place)
    return _figures(job, _parse_answer(text)) if text else None


def _parse_answer(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise NotFoundOut("the probe's answer cannot be read")
    return found


def _figures(job: Job, found: Any) -> ModelFigures:
    """Return the figures of the probe's answer. Raises NotFoundOut if they cannot be used."""
    assert job.training is not None
    try:
        return ModelFigures(
            parameters=int(found["parameters"]),
            fixed_parameters=int(found["fixed_parameters"]),
            flops_per_sample=float(found["flops_per_sample"]),
            flops_at_least=bool(found["flops_at_least"]),
            saved_bytes_per_sample=float(found["saved_bytes_per_sample"]),
            saved_at_most=bool(found["saved_at_most"]),
            largest_parameters=int(found["largest_layer"]),
            operations=None if found["operations"] is None else int(found["operations"]),
            layers=tuple(map(_layer, found["layers"])),
            origin=f"probed {job.training.model} with TensorFlow {found['tensorflow']} ({found['by']})",
        )
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise NotFoundOut(f"the probe's figures cannot be used: {error}") from None


def _layer(found: Sequence[Any]) -> LayerFigures:
    name, layer_class, parameters, outputs = found
    return LayerFigures(name=str(name), layer_class=str(layer_class), parameters=int(parameters), outputs=int(outputs))


def _probe_model(job: Job, model: str, environment: Mapping[str, str], look: Look) -> dict[str, Any]:
    """Run the probe with a copy of the code, such as a run has. Raises NotFoundOut, OSError, OverflowError."""
    cache = cache_folder(environment)
    cache.mkdir(parents=True, exist_ok=True)
    # Not in /tmp, which a container may not see; it does see the home folder.
    with tempfile.TemporaryDirectory(prefix="look-", dir=cache) as folder:
        copy(choose(_code(job)), Path(folder), with_library=True)
        result = Path(folder) / ".found.json"
        command = [*look.environment.command((folder,)), "-m", PROBE, model, str(result)]
        done, stderr = _run(look.environment.script(shlex.join(command)), look.environment.shell, folder, environment)
        text = read_text(result)
    if done == 0:
        return _parse_answer(text)
    lines = [line for line in stderr.splitlines() if line.strip()]
    raise NotFoundOut(lines[-1].strip()[:300] if lines else f"ended with exit code {done}, without a message")


def _run(script: str, shell: Sequence[str], folder: str, environment: Mapping[str, str]) -> tuple[int, str]:
    """Run a script until it ends or the time limit is reached; return its exit code and its stderr."""
    process = subprocess.Popen(
        [*shell, "-c", script],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        _, stderr = waiting.communicate(process, "the model", SECONDS)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            raise NotFoundOut(f"no answer within {SECONDS} s") from None
        if isinstance(error, waiting.TooLong):
            raise NotFoundOut(str(error)) from None
        raise
    return process.returncode, stderr.decode("utf-8", errors="replace")
