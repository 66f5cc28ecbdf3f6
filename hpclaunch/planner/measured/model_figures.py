"""What a job's model needs: as the job file says, as an earlier look found, or found now in the job's environment.

The look runs hpclaunch.training.model_probe in another process: TensorFlow is never imported here.
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
from hpclaunch.core.errors import HpclaunchError
from hpclaunch.core.files import read_text, write_text
from hpclaunch.core.folders import cache_folder
from hpclaunch.core.records import record
from hpclaunch.core.spec import Code
from hpclaunch.guidelines.figures import LayerFigures, ModelFigures
from hpclaunch.planner.workload import stored_figures
from hpclaunch.resolve.python_environment import PythonEnvironment
from hpclaunch.runs.snapshot import choose, copy, fingerprint

PROBE = "hpclaunch.training.model_probe"
SECONDS = 180
"""The longest look: TensorFlow's import from a file system that others use may take a minute."""
_FORMAT = "2"
"""Part of the key: figures that an older probe found are not those of this one."""


class NotFoundOut(Exception):
    """Why a model's figures could not be found, in a line."""


@record
class Look:
    """How one Python looks at the model: the environment's set-up, and in words whose it is."""

    environment: PythonEnvironment
    words: str


def known_figures(job: Job, environment: Mapping[str, str]) -> ModelFigures | None:
    """Return the figures of the job file, else those that an earlier look at the same code found; starts nothing."""
    stored = stored_figures(job)
    if stored is not None or job.training is None or job.training.model is None:
        return stored
    try:
        return _read_figures(job, _place(job, environment))
    except (OSError, OverflowError, NotFoundOut):
        return None


def find_figures(job: Job, environment: Mapping[str, str], looks: Sequence[Look]) -> ModelFigures:
    """Look at the model, in each way until one succeeds, and keep what was found. Raises NotFoundOut with the reasons.

    What cannot be kept is found anew the next time.
    """
    if job.training is None or job.training.model is None:
        raise NotFoundOut("the job file names no model (training.model)")
    reasons = []
    for look in looks:
        try:
            found = {**_probe_model(job, job.training.model, environment, look), "by": look.words}
            figures = _figures(job, found)
        except (OSError, OverflowError, HpclaunchError) as error:
            raise NotFoundOut(f"its code cannot be taken along: {error}") from None
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
    """Return the look with the Python that runs hpclaunch, if it has TensorFlow: figures are the same everywhere."""
    if importlib.util.find_spec("tensorflow") is None:
        return []
    return [Look(environment=PythonEnvironment(words=(python,)), words=f"hpclaunch's own Python {python}")]


def _place(job: Job, environment: Mapping[str, str]) -> Path:
    assert job.training is not None and job.training.model is not None
    code = fingerprint(_code(job))
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
        raise NotFoundOut("its answer is not what the probe writes")
    return found


def _figures(job: Job, found: Any) -> ModelFigures:
    """Raises NotFoundOut for what is not what the probe writes."""
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
            layers=tuple(map(_layer, found["layers"])),
            origin=f"a look at {job.training.model} with TensorFlow {found['tensorflow']} ({found['by']})",
        )
    except (KeyError, TypeError, ValueError) as error:
        raise NotFoundOut(f"what was found cannot be used: {error}") from None


def _layer(found: Sequence[Any]) -> LayerFigures:
    name, kind, parameters, outputs = found
    return LayerFigures(name=str(name), kind=str(kind), parameters=int(parameters), outputs=int(outputs))


def _probe_model(job: Job, model: str, environment: Mapping[str, str], look: Look) -> dict[str, Any]:
    """Run the probe beside a copy of the code, as a run has it. Raises NotFoundOut, OSError, OverflowError."""
    cache = cache_folder(environment)
    cache.mkdir(parents=True, exist_ok=True)
    # Not in /tmp: a container sees the home folder, and not always that one.
    with tempfile.TemporaryDirectory(prefix="look-", dir=cache) as folder:
        copy(choose(_code(job)), Path(folder))
        result = Path(folder) / ".found.json"
        command = [*look.environment.command((folder,)), "-m", PROBE, model, str(result)]
        done, said = _run(look.environment.script(shlex.join(command)), look.environment.shell, folder, environment)
        text = read_text(result)
    if done == 0:
        return _parse_answer(text)
    lines = [line for line in said.splitlines() if line.strip()]
    raise NotFoundOut(lines[-1].strip()[:300] if lines else f"ended with exit code {done}, without a word")


def _run(script: str, shell: Sequence[str], folder: str, environment: Mapping[str, str]) -> tuple[int, str]:
    """Run a script to its end, or to the end of our patience; return its exit code and what it said on stderr."""
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
        _, said = process.communicate(timeout=SECONDS)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise NotFoundOut(f"no answer within {SECONDS} s") from None
        raise
    return process.returncode, said.decode("utf-8", errors="replace")
