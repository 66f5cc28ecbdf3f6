"""Which jobs copy their environment and code to their nodes, and where to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.config.fileformat import Environment
from hpclaunch.config.job import command_job
from hpclaunch.config.site import Container, NodeCopies, Site
from hpclaunch.core.spec_parts import Broadcast
from tests.builders import CONTEXT, NOWHERE, a_context, a_desk, a_job, a_site, bundled_site, origin_of, planned, refused


def wide(**changes: Any) -> Site:
    """A site of 1,000 nodes where each has a folder for copies."""
    node = replace(a_site().node_types["gpu"], nodes=1000)
    return a_site(node_types={"gpu": node}, partitions={}, broadcast=NodeCopies(to="/local/$USER"), **changes)


def typed(**more: Any) -> dict[str, Any]:
    return {"venv": "/sw/venv", "context": a_context(environment={"USER": "ada"}), **more}


@pytest.mark.parametrize(
    ("nodes", "asked", "required"),
    [(63, None, None), (64, None, False), (1, True, True), (64, True, True), (64, False, None)],
)
def test_large_jobs_and_those_that_ask_for_it_copy(nodes: int, asked: bool | None, required: bool | None) -> None:
    spec = planned(wide(), nodes=nodes, broadcast=asked, **typed())
    if required is None:
        assert spec.broadcast is None and not any("broadcast" in line for line in spec.before_launch)
        return
    assert spec.broadcast == Broadcast(source="/sw/venv", folder="/local/ada", required=required)
    how = "required" if required else "optional"
    assert spec.before_launch[0] == f"broadcast {how} /local/ada /sw/venv"
    origin = "--broadcast" if required else "site cluster, from 64 nodes"
    assert origin_of(spec, "broadcast") == ("/local/ada", origin)


def test_the_site_says_from_how_many_nodes() -> None:
    site = replace(wide(), broadcast=NodeCopies(to="/dev/shm", from_nodes=8))
    assert [bool(planned(site, nodes=nodes, **typed()).broadcast) for nodes in (7, 8)] == [False, True]


@pytest.mark.parametrize(
    ("request_", "source", "call"),
    [
        ({"venv": "my venv"}, "/home/ada/project/my venv", "'/home/ada/project/my venv'"),
        ({"conda": "tf"}, "$CONDA_PREFIX", '"$CONDA_PREFIX"'),
        ({"conda": "/sw/tf"}, "/sw/tf", "/sw/tf"),
        ({"python": "/sw/py/bin/python3.11"}, "/sw/py", "/sw/py"),
        ({"python": "current"}, "/opt/hpc", "/opt/hpc"),
    ],
)
def test_an_environment_that_is_known_is_copied(request_: dict[str, str], source: str, call: str) -> None:
    spec = planned(wide(), broadcast=True, context=a_context(environment={"USER": "ada"}), **request_)
    assert spec.broadcast is not None and spec.broadcast.source == source
    assert spec.before_launch[0] == f"broadcast required /local/ada {call}"


@pytest.mark.parametrize("python", ["python3", "/usr/bin/python3", "/usr/local/bin/python3"])
def test_without_an_environment_only_the_code_is_copied(python: str) -> None:
    spec = planned(wide(), broadcast=True, python=python, context=a_context(environment={"USER": "ada"}))
    assert spec.before_launch[0] == "broadcast required /local/ada"
    assert any("only the code is broadcast" in warning for warning in spec.warnings)
    spec = planned(wide(), nodes=64, python=python, context=a_context(environment={"USER": "ada"}))
    assert spec.before_launch[0] == "broadcast optional /local/ada"
    assert not any("broadcast" in warning for warning in spec.warnings)


def test_a_command_without_code_and_environment_has_nothing_to_copy() -> None:
    job = command_job("hostname", NOWHERE)
    context = a_context(environment={"USER": "ada"})
    (fault,) = refused(wide(), job, broadcast=True, context=context)
    assert "neither code of its own nor an environment" in fault.what
    assert planned(wide(), job, nodes=64, context=context).broadcast is None


def test_a_site_without_such_a_folder_refuses_the_flag_and_no_large_job() -> None:
    (fault,) = refused(a_site(), broadcast=True, **typed())
    assert (fault.where, "broadcast: {to: /dev/shm}" in fault.next) == ("--broadcast", True)
    (fault,) = refused(a_desk(), broadcast=True, **typed())
    assert fault.what == "--broadcast has no meaning at desk, which has no scheduler"
    assert planned(replace(wide(), broadcast=None), nodes=64, **typed()).broadcast is None


@pytest.mark.parametrize("folder", ["/local/a b", "local", "/local/$NOBODY", "/", "/local/x;y", "/local/../etc"])
def test_a_folder_that_a_script_cannot_use_is_refused(folder: str) -> None:
    site = replace(wide(), broadcast=NodeCopies(to=folder))
    (fault,) = refused(site, broadcast=True, **typed())
    assert fault.where == "broadcast.to in the site file"


@pytest.mark.parametrize(
    ("runtime", "image", "source"),
    [
        ("apptainer", "/sw/tf.sif", "/sw/tf.sif"),
        ("singularity", "./tf.sif", f"{CONTEXT.cwd}/tf.sif"),
        ("apptainer", "docker://tf", None),
        ("shifter", "nersc/tensorflow:2.12", None),
        ("pyxis", "/sw/tf.sqsh", None),
    ],
)
def test_the_file_of_an_image_is_copied_where_the_runtime_takes_one(
    runtime: Any, image: str, source: str | None
) -> None:
    site, job = wide(container=Container(runtime=runtime)), a_job(environment=Environment(container=image))
    context = a_context(environment={"USER": "ada"})
    spec = planned(site, job, nodes=64, context=context)
    if source is None:
        (fault,) = refused(site, job, broadcast=True, context=context)
        assert spec.broadcast is None and fault.where == "--broadcast"
        return
    assert spec.broadcast is not None and spec.broadcast.source == source
    words = " ".join(spec.command)
    assert "--bind /local/ada" in words, "the container sees the copy of the code"


def test_a_job_of_the_bundled_site_copies_into_the_memory_of_its_nodes() -> None:
    spec = planned(bundled_site("perlmutter"), nodes=64, account="m1", venv="/sw/venv")
    assert spec.broadcast == Broadcast(source="/sw/venv", folder="/dev/shm", required=False)
