"""Builds an environment in a job, and tests one with ``doctor``'s probe: what needs the scheduler."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hpclaunch.actions.clusters.doctor import FRAMEWORKS, PROBE, Report, examine
from hpclaunch.actions.environments import kept
from hpclaunch.actions.environments.kept import KeptEnvironment
from hpclaunch.actions.environments.make import download_wheels
from hpclaunch.actions.preparing.submit import prepare
from hpclaunch.actions.queueing.start import start
from hpclaunch.actions.system import System
from hpclaunch.config.job import command_job
from hpclaunch.core.errors import Refused, unwritable
from hpclaunch.core.files import write_text
from hpclaunch.core.spec import NO_FRAMEWORK, TENSORFLOW, Request
from hpclaunch.runs import Run

_BASH = "/bin/bash"


def build_in_job(
    system: System, name: str, script: Path, place: Request, claim: Callable[[], KeptEnvironment], download: bool
) -> tuple[KeptEnvironment, Run]:
    """Submit the script of a build, and return the claimed build with its run.

    ``place`` has the site, its node type and what the job asks for. ``claim`` makes the folder of the build, once the
    job could be submitted. With ``download`` all wheels are downloaded here first: nodes often have no internet.
    """
    job = replace(command_job(_BASH, Path(_BASH).parent), name=f"environment-{name}"[:64])
    request = replace(
        place,
        target=_BASH,
        is_command=True,
        nodes=1,
        tasks_per_node=1,
        framework=NO_FRAMEWORK,
        arguments=(str(script),),
    )
    prepared = prepare(system, request, None, job)
    if prepared.faults:
        raise Refused(prepared.faults)
    build = claim()
    if download:
        download_wheels(system, build)
    return build, start(system, prepared)


def can_probe(build: KeptEnvironment) -> bool:
    """Whether ``doctor`` has a probe for what the environment has; TensorFlow's ranks find each other by Horovod."""
    framework = build.value("framework")
    return framework in FRAMEWORKS and (framework != TENSORFLOW or bool(build.value("horovod")))


def test_with_doctor(system: System, build: KeptEnvironment, place: Request) -> Report:
    """Run ``doctor``'s probe in the environment, and keep its checks beside the record. Raises HpclaunchError."""
    request = replace(place, target=PROBE, framework=build.value("framework"), environment=str(build.path))
    report = examine(system, request)
    keep_report(system, build, report)
    return report


def keep_report(system: System, build: KeptEnvironment, report: Report) -> None:
    """Keep the checks of a probe beside the record of the environment. Raises Refused."""
    found = report.to_json()
    kept_values = {"when": f"{system.now():%Y-%m-%dT%H:%M:%SZ}", "passed": found["passed"], "checks": found["checks"]}
    try:
        write_text(build.path / kept.DOCTOR, json.dumps(kept_values, indent=2) + "\n")
    except OSError as error:
        raise unwritable(build.path / kept.DOCTOR, error) from None
