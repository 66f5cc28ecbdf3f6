"""Where measurements of jobs are kept: one file per site, node type, job and code; it reads no measurement.

The key of a request is computed once, before the request is planned. The spec carries it, so that spec.json in the run
directory records the key under which a later plan finds the run's measurements.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from hpclaunch.config.job import Job, Role
from hpclaunch.core.files import append_line
from hpclaunch.core.folders import data_folder
from hpclaunch.core.spec import Code, Layout
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.nodes.sizing import Sizing, one_process_on, sizing_of
from hpclaunch.resolve.program.command import parameters_of
from hpclaunch.runs.snapshot import fingerprint

ALL_REDUCE, DEVICE = "all-reduce.json", "device.json"
CHOSEN_ROLES: tuple[Role, ...] = (
    *("epochs", "batch_size_per_rank", "accumulation", "learning_rate", "scale_learning_rate", "warmup_epochs"),
    *("decay", "decay_power", "optimizer", "momentum", "train_samples"),
)
"""Parameters that a plan may choose; a measurement is valid for all of their values."""


def with_key(case: Case) -> Case:
    """Return the case with the key of its measurements, or without one if the job's code cannot be read."""
    with contextlib.suppress(OSError, OverflowError):  # the pre-flight check reports what is wrong with the code
        return replace(case, calibration_key=key_of(case))
    return case


def key_of(case: Case) -> str:
    """Return the key ``SITE/NODE_TYPE/JOB-DIGEST-LAYOUT``. Raises OSError or OverflowError if code cannot be read.

    The digest covers the job's code and its parameters, but not the parameters that a plan chooses (such as the batch
    size), the seed, or whether samples are synthetic. The values of all other parameters (such as the precision) count,
    however they are spelled. The layout is that of a node: tasks, CPUs of each, GPUs. The node count is no part of it.
    """
    job, sized = case.job, _sized_on_a_node(case)
    parameters = parameters_of(job, case.request, Decisions())
    names = job.training.names if job.training else {}
    chosen = {"synthetic", "seed", *(names.get(role, role) for role in CHOSEN_ROLES)}
    words = {
        "code": fingerprint(_code_of(job), case.code_folders),
        "parameters": {name: value for name, value in parameters.values if name not in chosen},
    }
    digest = hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()
    return f"{case.site.name}/{sized.node_type}/{job.name}-{digest[:24]}-{_words_of(sized.layout)}"


def key_of_one_process(case: Case) -> str:
    """Return the key of the case's job with one process that has a node to itself; its code is not read again."""
    job = case.calibration_key.rpartition("-")[0]
    return f"{job}-{_words_of(_sized_on_a_node(one_process_on(case)).layout)}"


def _sized_on_a_node(case: Case) -> Sizing:
    return sizing_of(replace(case, request=replace(case.request, nodes=1), needs_account=False), Decisions())


def _words_of(layout: Layout) -> str:
    return f"{layout.tasks_per_node}x{layout.cpus_per_task}x{layout.gpus_per_node}"


def _code_of(job: Job) -> Code:
    """Return the code that the key depends on; of a script only the code files, not what it writes beside itself."""
    include: tuple[str, ...] = ()
    if job.source_only and not job.in_place:
        include = (job.script or job.command[-1].rpartition("/")[2],)
    return Code(
        folder=job.folder,
        entry=job.script or "",
        source_only=job.source_only,
        include=include,
        recorded=job.recorded,
    )


def place_of(environment: Mapping[str, str], key: str) -> Path:
    """Return the calibration file of a key, in the user's data folder."""
    return data_folder(environment) / "calibrations" / f"{key}.json"


def all_reduce_file_of(place: Path) -> Path:
    """Return the file with the measured all-reduces of the node type; it lies beside its calibration files."""
    return place.with_name(ALL_REDUCE)


def device_file_of(place: Path) -> Path:
    """Return the file with the measured speed of the node type's devices; it lies beside its calibration files."""
    return place.with_name(DEVICE)


def run_list_of(place: Path) -> Path:
    """Return the file that lists the runs for a plan to read; it lies beside the calibration file."""
    return place.with_suffix(".runs")


def has_measurements(environment: Mapping[str, str], key: str) -> bool:
    """Whether ``profile``, ``doctor`` or a submitted run may have left measurements for a key; it opens no file."""
    if not key:
        return False
    place = place_of(environment, key)
    return any(map(os.path.isfile, (place, run_list_of(place), all_reduce_file_of(place), device_file_of(place))))


def expect(environment: Mapping[str, str], key: str, run_dir: str) -> None:
    """Add a run that is about to be submitted to the list of its key; errors are ignored, so submission continues."""
    if "\n" in run_dir:
        return
    with contextlib.suppress(OSError):
        runs = run_list_of(place_of(environment, key))
        runs.parent.mkdir(parents=True, exist_ok=True)
        append_line(runs, run_dir)
