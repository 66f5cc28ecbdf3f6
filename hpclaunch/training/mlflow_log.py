"""Logs parameters, metrics and the trained model's path with MLflow, into files of the run directory.

It uses no server and no network. Only rank 0 imports MLflow.
"""

from __future__ import annotations

import os
import pathlib
import sys
import time
from typing import Any, Mapping

from hpclaunch.training.rank.failure import TrainingError, leave_if_superseded
from hpclaunch.training.rank.world import World

FOLDER = "mlruns"
# Newer MLflows refuse to write files unless this is set, and report their use over the network unless the others are.
VARIABLES = {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
LONGEST = 500  # characters of a parameter that every MLflow accepts
MOST_AT_ONCE = 100  # parameters in one call
_NO_METRICS = ("epoch", "epochs")


class MlflowLog:
    """An MLflow run in RUN/mlruns; a run that is continued goes on in the same one."""

    def __init__(self, run_dir: str, experiment: str, resume: bool) -> None:
        os.environ.update(VARIABLES)
        try:
            import mlflow
        except ImportError as error:
            raise TrainingError(
                "--mlflow=true needs MLflow, which {} cannot import ({}): pip install 'hpclaunch[mlflow]' there (or "
                "mlflow-skinny), or leave it out (--mlflow=false)".format(sys.executable, error)
            ) from error
        self._entities = mlflow.entities
        self._run_dir = run_dir
        uri = pathlib.Path(run_dir, FOLDER).absolute().as_uri()
        self._client = mlflow.MlflowClient(tracking_uri=uri, registry_uri=uri)
        self._id = self._attempt(lambda: self._open_run(experiment, resume))

    def __call__(self, event: str, values: Mapping[str, Any]) -> None:
        """Log a line of metrics.jsonl: parameters at the start, metrics of an epoch, results at the end."""
        if event == "start":
            self._attempt(lambda: self._log_parameters(values))
        elif event == "end":
            self._attempt(lambda: self._log_end(values))
        elif "epoch" in values:
            self._attempt(lambda: self._log_metrics(values, int(values["epoch"])))

    def _open_run(self, experiment: str, resume: bool) -> str:
        """The ID of the MLflow run: that of an earlier attempt, or a new one."""
        client, name = self._client, os.path.basename(os.path.abspath(self._run_dir))
        known = client.get_experiment_by_name(experiment)
        place = known.experiment_id if known else client.create_experiment(experiment)
        earlier = client.search_runs([place], max_results=1) if resume else []
        if earlier:
            client.update_run(earlier[0].info.run_id, status="RUNNING")
            return str(earlier[0].info.run_id)
        return str(client.create_run(place, run_name=name, tags={"run_dir": self._run_dir}).info.run_id)

    def _log_parameters(self, values: Mapping[str, Any]) -> None:
        facts = {name: value for name, value in values.items() if isinstance(value, (int, float, str))}
        new = {name: str(value)[:LONGEST] for name, value in {**facts, **values.get("options", {})}.items()}
        # A parameter cannot change in MLflow: those of the first start stay.
        known = self._client.get_run(self._id).data.params
        found = [self._entities.Param(name, text) for name, text in new.items() if name not in known]
        for first in range(0, len(found), MOST_AT_ONCE):
            self._client.log_batch(self._id, params=found[first : first + MOST_AT_ONCE])
        self._client.set_tag(self._id, "world_size", values.get("world_size", 1))

    def _log_metrics(self, values: Mapping[str, Any], step: int) -> None:
        now = int(time.time() * 1000)
        found = [
            self._entities.Metric(name, float(value), now, step)
            for name, value in values.items()
            if isinstance(value, (int, float)) and name not in _NO_METRICS
        ]
        self._client.log_batch(self._id, metrics=found)

    def _log_end(self, values: Mapping[str, Any]) -> None:
        self._log_metrics(values, int(values.get("epochs", 0)))
        if values.get("model"):
            self._client.set_tag(self._id, "model", os.path.abspath(os.path.join(self._run_dir, values["model"])))
        self._client.set_terminated(self._id)

    def _attempt(self, work: Any) -> Any:
        """Do `work`, unless the start is superseded; raises TrainingError if MLflow cannot write its files."""
        leave_if_superseded()
        try:
            return work()
        except Exception as error:  # of the disk, or a class of MLflow
            place = os.path.join(self._run_dir, FOLDER)
            text = str(error).strip().split("\n")[0][:300]
            raise TrainingError(
                "cannot write MLflow's files in {}: {}. Make room and resume the run, or leave MLflow out "
                "(--mlflow=false).".format(place, text)
            ) from error


def opened(world: World, experiment: str, resume: bool) -> MlflowLog | None:
    """The log of rank 0, None on the others. A collective. Raises AgreedError if MLflow is missing."""
    found: MlflowLog | None = world.together(
        lambda: MlflowLog(world.run_dir, experiment, resume) if world.is_root else None, long=True
    )
    return found
