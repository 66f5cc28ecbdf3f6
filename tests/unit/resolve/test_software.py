"""The software of the ranks: which level wins, which Python runs, what the shell may not bring along."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.config.fileformat import Environment
from hpclaunch.config.settings import Settings, SiteSettings
from hpclaunch.config.site import Container, EnvironmentRecipe, Folders, GpuRequest, Site, Source
from hpclaunch.core.spec import JobSpec
from tests.builders import CONTEXT, a_context, a_desk, a_job, a_site, bundled_job, origin_of, planned, refused


def with_software(
    site: Environment | None = None, settings: Environment | None = None, job: Environment | None = None, **more: Any
) -> JobSpec:
    """The spec of a job where these levels name software."""
    users = Settings(environment=settings or Environment())
    return planned(a_site(environment=site or Environment(), **more), a_job(environment=job or Environment()), users)


def lines(spec: JobSpec) -> list[str]:
    return [step.line for step in spec.steps]


def warns_of_plain_python(spec: JobSpec) -> bool:
    return any("provides no known TensorFlow with Horovod" in warning for warning in spec.warnings)


@pytest.mark.parametrize(
    ("environment", "steps"),
    [
        (Environment(modules=("tf/2", "a b")), ["module load tf/2", "module load 'a b'"]),
        (Environment(venv="/v e"), ["source '/v e/bin/activate'"]),
        (Environment(venv="~/v"), ["source /home/ada/v/bin/activate"]),
        (Environment(conda="my env"), ['eval "$(conda shell.bash hook)"', "conda activate 'my env'"]),
        (Environment(python="current"), ['export PATH=/opt/hpc/bin:"$PATH"']),
        (Environment(setup=("ulimit -n 4096",)), ["ulimit -n 4096"]),
    ],
)
def test_row_20_each_line_of_set_up_is_a_step_that_can_fail(environment: Environment, steps: list[str]) -> None:
    spec = with_software(job=environment)
    assert lines(spec) == steps
    assert all(step.failure for step in spec.steps)


def test_what_is_set_up_later_finds_what_was_set_up_before() -> None:
    spec = with_software(job=Environment(modules=("python",), venv="/v", setup=("pip --version",)))
    assert lines(spec) == ["module load python", "source /v/bin/activate", "pip --version"]


@pytest.mark.parametrize(
    ("environment", "python"),
    [
        (Environment(), "python3"),
        (Environment(venv="/v"), "python"),
        (Environment(conda="tf"), "python"),
        (Environment(python="python3.9"), "python3.9"),
        (Environment(venv="/v", python="python3.9"), "python3.9"),
        (Environment(python="current"), CONTEXT.python),
    ],
)
def test_a_venv_or_a_conda_environment_has_a_program_that_is_called_python(
    environment: Environment, python: str
) -> None:
    assert with_software(job=environment).command[0] == python


@pytest.mark.parametrize(
    ("levels", "python", "origin"),
    [
        ({"site": Environment(python="a")}, "a", "site cluster"),
        ({"site": Environment(python="a"), "settings": Environment(python="b")}, "b", "settings"),
        ({"settings": Environment(python="b"), "job": Environment(python="c")}, "c", "job"),
        ({"site": Environment(python="a"), "job": Environment(modules=("m",))}, "a", "site cluster"),
        ({}, "python3", "site cluster"),
    ],
)
def test_the_level_that_names_a_python_last_wins_and_is_told(
    levels: dict[str, Environment], python: str, origin: str
) -> None:
    assert origin_of(with_software(**levels), "python") == (python, origin)


def test_a_venv_of_the_job_replaces_the_conda_environment_of_the_settings_and_keeps_its_modules() -> None:
    settings = Environment(
        modules=("cuda",), conda="tf", setup=("ulimit -s unlimited",), variables={"A": "1", "B": "1"}
    )
    spec = with_software(settings=settings, job=Environment(venv="/v", variables={"B": "2"}))
    assert lines(spec) == ["module load cuda", "source /v/bin/activate", "ulimit -s unlimited"]
    assert {"A": "1", "B": "2"}.items() <= dict(spec.environment).items()


def test_settings_for_one_site_hold_there_alone() -> None:
    users = Settings(
        environment=Environment(python="a"), sites={"cluster": SiteSettings(environment=Environment(venv="/v"))}
    )
    assert planned(users=users).command[0] == "python"
    assert planned(a_site(name="other"), users=users).command[0] == "a"


@pytest.mark.parametrize(
    ("levels", "warned"),
    [
        ({}, True),
        ({"site": Environment(modules=("python",))}, True),
        ({"site": Environment(modules=("python",)), "job": Environment(setup=("ulimit -n 9",))}, True),
        ({"settings": Environment(modules=("tensorflow/2.15",))}, False),
        # As many modules as the site has, but other ones.
        ({"site": Environment(modules=("python",)), "job": Environment(modules=("tensorflow/2.15",))}, False),
        ({"job": Environment(venv="/v")}, False),
        ({"settings": Environment(container="/images/tf.sif")}, False),
    ],
)
def test_the_plain_python_of_a_site_is_warned_of_until_a_person_names_software(
    levels: dict[str, Environment], warned: bool
) -> None:
    spec = with_software(**levels, container=Container(runtime="apptainer"))
    assert warns_of_plain_python(spec) == warned


@pytest.mark.parametrize("site", [a_site(provides=("tensorflow", "horovod")), a_desk()])
def test_the_plain_python_is_no_warning_where_horovod_is_known_or_there_is_no_cluster(site: Site) -> None:
    assert not warns_of_plain_python(planned(site))


def test_a_program_that_is_no_python_script_needs_no_horovod() -> None:
    assert not warns_of_plain_python(planned(job=a_job(command=("./simulation",))))


def test_row_24_without_a_scheduler_strays_of_the_shell_are_unset_unless_they_are_asked_for() -> None:
    assert "PYTHONPATH" in planned(a_desk()).unset
    job = a_job(environment=Environment(variables={"PYTHONPATH": "/mine"}))
    assert "PYTHONPATH" not in planned(a_desk(), job).unset
    assert planned().unset == ()


def test_row_24_where_all_of_the_shell_travels_along_strays_are_unset_too() -> None:
    spec = planned(a_site(export="all"))
    assert {"PYTHONPATH", "PYTHONHOME", "LD_PRELOAD"} <= set(spec.unset)
    job = a_job(environment=Environment(variables={"LD_PRELOAD": "/mine.so"}))
    assert "LD_PRELOAD" not in planned(a_site(export="all"), job).unset
    by_slurm, by_nobody = (a_site(export="all", gpus=GpuRequest(directive=how)) for how in ("gpus-per-node", "none"))
    assert "CUDA_VISIBLE_DEVICES" not in planned(by_slurm).unset
    assert "CUDA_VISIBLE_DEVICES" in planned(by_nobody).unset


def test_without_a_scheduler_no_script_hides_the_gpus_of_the_shell_unless_the_job_does() -> None:
    assert "CUDA_VISIBLE_DEVICES" not in dict(planned(a_desk()).environment)
    assert "CUDA_VISIBLE_DEVICES" not in planned(a_desk()).unset
    job = a_job(environment=Environment(variables={"CUDA_VISIBLE_DEVICES": "3"}))
    assert dict(planned(a_desk(), job).environment)["CUDA_VISIBLE_DEVICES"] == "3"
    assert "CUDA_VISIBLE_DEVICES" not in dict(planned().environment)


@pytest.mark.parametrize(("asked", "threads"), [({}, "4"), ({"OMP_NUM_THREADS": "1"}, "1")])
def test_threads_are_the_cores_of_a_task(asked: dict[str, str], threads: str) -> None:
    assert dict(planned(job=a_job(environment=Environment(variables=asked))).environment)["OMP_NUM_THREADS"] == threads


@pytest.mark.parametrize("name", ["HPCLAUNCH_BROADCAST", "HPCLAUNCH_RUN_DIR", "HPCLAUNCH_OWN"])
def test_the_variables_of_the_contract_are_set_by_hpclaunch_alone(name: str) -> None:
    environment = Environment(variables={name: "/scratch/ada", "MY_OWN": "1"})
    for site, job in ((a_site(environment=environment), a_job()), (a_site(), a_job(environment=environment))):
        (fault,) = refused(site, job)
        assert (fault.where, fault.next) == (f"environment.variables.{name}", "leave it out, or give it another name")


def test_a_python_that_nodes_may_not_share_is_warned_of() -> None:
    site = a_site(folders=Folders(node_private=("/opt",)), environment=Environment(python="current"))
    assert any("may not share" in warning for warning in planned(site).warnings)


def test_variables_of_the_submitting_shell_stand_for_themselves_in_paths() -> None:
    context = a_context(environment={"STORE": "/store/ada"})
    spec = planned(job=a_job(environment=Environment(venv="$STORE/v")), context=context)
    assert lines(spec) == ["source /store/ada/v/bin/activate"]


STACK = Environment(
    modules=("gcc", "openmpi", "cuda"), python="python", setup=("ulimit -s 8192",), variables={"A": "1"}
)
OF_PYTORCH = Environment(
    modules=("gcc", "openmpi", "pytorch/2.6"), variables={"OF_PYTORCH": "1"}, setup=("of-pytorch",)
)


def at_a_site_with_software(**typed: Any) -> JobSpec:
    site = a_site(environment=STACK, frameworks={"pytorch": OF_PYTORCH}, needed_modules=("gcc", "openmpi"))
    return planned(site, a_job(framework="pytorch"), **typed)


@pytest.mark.parametrize(
    ("typed", "last"),
    [
        ({"venv": "/v"}, ["source /v/bin/activate"]),
        ({"conda": "/opt/c"}, ['eval "$(conda shell.bash hook)"', "conda activate /opt/c"]),
        ({"python": "/usr/bin/python3"}, []),
        ({"python": "current"}, ['export PATH=/opt/hpc/bin:"$PATH"']),
    ],
)
def test_an_environment_of_ones_own_gets_none_of_the_sites_software(typed: dict[str, Any], last: list[str]) -> None:
    spec = at_a_site_with_software(**typed)
    assert lines(spec) == ["module load gcc", "module load openmpi", *last, "ulimit -s 8192"]
    assert origin_of(spec, "modules") == ("gcc openmpi", "site cluster, for every environment")
    assert ("A", "1") in spec.environment and ("OF_PYTORCH", "1") not in spec.environment
    assert "software" not in {one.key for one in spec.choices}


def test_modules_that_are_typed_beside_an_environment_come_after_those_that_every_environment_needs() -> None:
    spec = at_a_site_with_software(venv="/v", modules=("openmpi", "cuda/12"))
    assert lines(spec)[:3] == ["module load gcc", "module load openmpi", "module load cuda/12"]


@pytest.mark.parametrize("typed", [{}, {"python": "python3.11"}, {"variables": (("X", "1"),)}])
def test_a_name_of_an_interpreter_is_looked_up_among_the_sites_modules(typed: dict[str, Any]) -> None:
    spec = at_a_site_with_software(**typed)
    modules = ["module load gcc", "module load openmpi", "module load pytorch/2.6"]
    assert lines(spec) == [*modules, "ulimit -s 8192", "of-pytorch"]
    assert origin_of(spec, "software")[0] == "gcc openmpi pytorch/2.6"


def test_a_node_type_may_need_other_modules_for_every_environment() -> None:
    site = a_site(needed_modules=("gcc",))
    node = replace(site.node_types["gpu"], needed_modules=("nccl",))
    spec = planned(replace(site, node_types={**site.node_types, "gpu": node}), venv="/v")
    assert lines(spec) == ["module load nccl", "source /v/bin/activate"]


def way_on(site: Site, job: str, **typed: Any) -> str:
    """The line that says what a site lacks; it is the last of the warnings, and there is no other."""
    spec = planned(site, bundled_job(job), **typed)
    assert [text for text in spec.warnings if "hpclaunch environment make" in text] == [spec.way_on]
    assert spec.warnings[-1] == spec.way_on and "\n" not in spec.way_on
    return spec.way_on


def test_where_a_site_has_no_software_the_exact_command_that_makes_it_is_named() -> None:
    words = "hpclaunch environment make cluster-pytorch --framework pytorch --site cluster, then"
    assert words + " --environment cluster-pytorch; " in way_on(a_site(), "ddp")
    assert "--site cluster --node-type cpu, then" in way_on(a_site(), "ddp", node_type="cpu")
    assert "provides no known TensorFlow with Horovod, so the ranks run its plain python3:" in way_on(a_site(), "mnist")


def test_cifar_is_told_of_ddp_where_there_is_pytorch_for_it() -> None:
    other = "hpclaunch submit ddp trains the same network with PyTorch"
    has_pytorch = a_site(frameworks={"pytorch": OF_PYTORCH})
    assert other in way_on(has_pytorch, "cifar")
    assert other not in way_on(a_site(), "cifar") + way_on(has_pytorch, "mnist")


def test_a_tensorflow_without_horovod_is_no_plain_python_and_no_software_for_horovods_ranks() -> None:
    site = a_site(frameworks={"tensorflow": Environment(modules=("tf/2.18",))}, provides=("tensorflow",))
    told = way_on(site, "cifar")
    assert told.startswith("cluster provides no known Horovod beside its TensorFlow: hpclaunch environment make")
    assert "software" not in {one.key for one in planned(site, bundled_job("cifar")).choices}


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        (
            EnvironmentRecipe(kind="venv", wheels="cu126"),
            " --site cluster --index-url URL (PyTorch's page Start Locally",
        ),
        (EnvironmentRecipe(kind="venv", own_wheels=True, wheels="cu126"), " --site cluster, then"),
        (EnvironmentRecipe(kind="container", image="docker://x"), " --site cluster, then"),
        (EnvironmentRecipe(kind="none", note="take an image"), ": take an image: hpclaunch environment make"),
        (EnvironmentRecipe(kind="none", note="x"), " --site cluster --make-with container --image IMAGE, then"),
    ],
)
def test_the_command_fits_the_centres_recipe(recipe: EnvironmentRecipe, words: str) -> None:
    assert words in way_on(a_site(recipes={"pytorch": recipe}), "ddp")


def test_an_image_must_have_horovod_where_the_ranks_need_it() -> None:
    recipe = EnvironmentRecipe(kind="container", image="docker://x")
    assert " --site cluster --horovod, then" in way_on(a_site(recipes={"tensorflow": recipe}), "cifar")


def test_the_software_has_its_newest_dated_source() -> None:
    sources = {"a": Source(ref="a list", read="undated"), "b": Source(ref="a page", read="2026-05-01")}
    site = a_site(frameworks={"pytorch": OF_PYTORCH}, sources=sources, origins={"frameworks": ("a", "b")})
    spec = planned(site, bundled_job("ddp"))
    assert origin_of(spec, "software") == ("gcc openmpi pytorch/2.6", "site cluster: a page, 2026-05-01")
    undated = planned(replace(site, origins={"frameworks": ("a",)}), bundled_job("ddp"))
    assert origin_of(undated, "software")[1] == "site cluster: a list, undated"
