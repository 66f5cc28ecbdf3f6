"""Where measurements of jobs are kept: a file for each site, node type, job and code; it measures nothing.

Several processes may write one: a reader sees a whole file, the newest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from hpclaunch.core.files import write_text
from hpclaunch.core.folders import data_folder
from hpclaunch.core.records import record
from hpclaunch.core.spec import Code
from hpclaunch.planner.measured.evidence import Calibration
from hpclaunch.planner.workload import CHOSEN_ROLES
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.command import values_of
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.sizing import sizing_of
from hpclaunch.runs.snapshot import fingerprint


@record
class Key:
    """What a measurement holds for. ``digest``: of the job's code, its parameters and the layout of a node."""

    site: str
    node_type: str
    job: str
    digest: str


def key_of(case: Case) -> Key:
    """Return the key of a request. Raises OSError or OverflowError if the job's code cannot be read.

    The number of nodes does not count, nor do the parameters that a plan itself chooses, such as the batch size, nor
    whether samples are made up. The values of all other parameters (precision, say) count, however they are typed.
    """
    job, request = case.job, case.request
    one_node = replace(case, request=replace(request, nodes=1), needs_account=False)
    sized = sizing_of(one_node, Decisions())
    names = job.training.names if job.training else {}
    chosen = {"synthetic", *(names.get(role, role) for role in CHOSEN_ROLES)}
    layout = sized.layout
    words = {
        "code": fingerprint(Code(folder=job.folder, entry=job.script or "", source_only=job.source_only)),
        "parameters": {name: value for name, value in values_of(job, request).items() if name not in chosen},
        "layout": [layout.tasks_per_node, layout.cpus_per_task, layout.gpus_per_node],
    }
    digest = hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()
    return Key(site=case.site.name, node_type=sized.node_type, job=job.name, digest=digest[:24])


def place_of(environment: Mapping[str, str], key: Key) -> Path:
    """Return the file of a key, in the user's data folder."""
    return data_folder(environment) / "calibrations" / key.site / key.node_type / f"{key.job}-{key.digest}.json"


def store(place: Path, measured: Calibration) -> None:
    """Write a calibration, in the format that ``plan --calibration`` reads too. Raises OSError."""
    place.parent.mkdir(parents=True, exist_ok=True)
    write_text(place, json.dumps(as_values(measured), indent=2) + "\n")


def as_values(measured: Calibration) -> dict[str, Any]:
    """Return a calibration as its file holds it; what is not known is left out."""
    known = {key: value for key, value in asdict(measured).items() if value is not None}
    known["points"] = [
        {key: value for key, value in point.items() if value not in (None, ())} for point in asdict(measured)["points"]
    ]
    return known
