"""A run as files of MLflow's file store, made from its record, without MLflow.

The training library logs the same names while a run trains (``--mlflow``).
Source: mlflow/store/tracking/file_store.py of MLflow 3.17: EXPERIMENT/RUN/{meta.yaml, metrics, params, tags}; a line of
a metric is ``milliseconds value step``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hpclaunch.core.records import record
from hpclaunch.reports.exports.recorded_metrics import MetricPoint, epoch_points, result_points

LONGEST = 500
"""Characters of a parameter that every MLflow accepts."""
_FINISHED, _FAILED, _KILLED = 3, 4, 5
"""The states of a run in meta.yaml (mlflow.entities.RunStatus)."""
_LOCAL = 4
"""The type of a run's source: not known (mlflow.entities.SourceType)."""
_FOLDERS = ("artifacts/", "metrics/", "params/", "tags/")
"""Of every run; MLflow takes a folder without them for none of its runs."""
_NOT_IN_A_NAME = re.compile(r"[^\w.\-]", re.ASCII)


@record
class LoggedRun:
    """What MLflow shows of a run. ``began`` and ``ended`` are milliseconds since 1970; ``state`` as Slurm spells it."""

    label: str
    experiment: str
    state: str
    began: int
    ended: int
    user: str
    parameters: Mapping[str, str]
    tags: Mapping[str, str]
    events: Sequence[Mapping[str, Any]]


def store_files(runs: Sequence[LoggedRun], root: Path) -> dict[str, bytes]:
    """Return path -> content of a store that will lie in ``root``: each experiment, and its runs.

    A path that ends with a slash is a folder.
    """
    files = {"0/meta.yaml": _experiment("0", "Default", root, 0)}
    for name in dict.fromkeys(run.experiment for run in runs):
        first = min(run.began for run in runs if run.experiment == name)
        files[f"{experiment_id(name)}/meta.yaml"] = _experiment(experiment_id(name), name, root, first)
    for run in runs:
        place = f"{experiment_id(run.experiment)}/{run_id(run)}"
        files |= {f"{place}/{path}": text.encode("utf-8", "replace") for path, text in _run_files(run, root).items()}
    return files


def experiment_id(name: str) -> str:
    """Return the ID of an experiment, 18 digits as MLflow makes them: always the same for a name."""
    return f"{int(hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:16], 16) % 10**18:018d}"


def run_id(run: LoggedRun) -> str:
    """Return the ID of a run, 32 hexadecimal digits: always the same for a run."""
    return hashlib.sha256(f"{run.label} {run.began}".encode("utf-8", "replace")).hexdigest()[:32]


def _experiment(number: str, name: str, root: Path, when: int) -> bytes:
    values = {
        "artifact_location": (root / number).absolute().as_uri(),
        "creation_time": when,
        "experiment_id": number,
        "last_update_time": when,
        "lifecycle_stage": "active",
        "name": name,
    }
    return _yaml(values).encode()


def _run_files(run: LoggedRun, root: Path) -> dict[str, str]:
    number, group = run_id(run), experiment_id(run.experiment)
    status = {"COMPLETED": _FINISHED, "CANCELLED": _KILLED}.get(run.state, _FAILED)
    meta = {
        "artifact_uri": (root / group / number / "artifacts").absolute().as_uri(),
        "end_time": run.ended,
        "entry_point_name": "",
        "experiment_id": group,
        "lifecycle_stage": "active",
        "run_id": number,
        "run_name": run.label,
        "run_uuid": number,
        "source_name": "",
        "source_type": _LOCAL,
        "source_version": "",
        "start_time": run.began,
        "status": status,
        "tags": [],
        "user_id": run.user,
    }
    tags = {"mlflow.runName": run.label, "mlflow.user": run.user, "state": run.state, **run.tags}
    return {
        **dict.fromkeys(_FOLDERS, ""),
        "meta.yaml": _yaml(meta),
        **{f"params/{_file_name(name)}": text[:LONGEST] for name, text in run.parameters.items()},
        **{f"tags/{_file_name(name)}": text for name, text in tags.items() if text},
        **_metric_files([*epoch_points(run.events), *result_points(run.events)]),
    }


def _metric_files(points: Sequence[MetricPoint]) -> dict[str, str]:
    lines: dict[str, list[str]] = {}
    for one in points:
        lines.setdefault(_file_name(one.name), []).append(f"{int(1000 * one.time)} {one.value!r} {one.step}\n")
    return {f"metrics/{name}": "".join(found) for name, found in lines.items()}


def _file_name(name: str) -> str:
    """Return a name that MLflow accepts, and that is no path: other characters become underscores."""
    return _NOT_IN_A_NAME.sub("_", name).lstrip(".") or "_"


def _yaml(values: Mapping[str, Any]) -> str:
    """Return a YAML file: one key a line, with its value as JSON, which YAML contains."""
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in values.items())
