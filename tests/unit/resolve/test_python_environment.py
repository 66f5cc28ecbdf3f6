"""The software of a job's ranks around a program that is no rank: set-up, Python, containers."""

from __future__ import annotations

from hpclaunch.config.fileformat import Environment
from hpclaunch.config.site import Container, Site
from hpclaunch.resolve.python_environment import PythonEnvironment, python_environment_of
from tests.builders import a_case, a_desk, a_job, a_site


def environment_of(site: Site, **environment: object) -> PythonEnvironment:
    job = a_job(environment=Environment(**environment))  # type: ignore[arg-type]
    return python_environment_of(a_case(site, job))


def test_modules_setup_and_python_are_those_of_the_ranks() -> None:
    found = environment_of(a_site(), modules=("tensorflow",), python="/opt/python", setup=("ulimit -n 4096",))
    assert [step.line for step in found.steps] == ["module load tensorflow", "ulimit -n 4096"]
    assert found.command(("/x",)) == ("/opt/python",)


def test_the_python_of_this_machine() -> None:
    assert environment_of(a_desk()).words == ("/opt/hpc/bin/python",)


def test_a_container_stands_around_it_and_sees_the_folder() -> None:
    site = a_site(container=Container(runtime="apptainer"))
    found = environment_of(site, container="/images/tf.sif")
    assert found.command(("/cache/look",)) == (
        *("apptainer", "exec", "--nv", "--bind", "/cache/look", "/images/tf.sif"),
        "python",
    )
    assert found.closed == ""


def test_a_container_that_only_srun_enters_is_closed() -> None:
    found = environment_of(a_site(container=Container(runtime="pyxis")), container="/images/tf.sqsh")
    assert found.closed == "the container /images/tf.sqsh can only be entered in a job"
