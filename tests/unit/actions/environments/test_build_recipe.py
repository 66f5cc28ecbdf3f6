"""What an environment is built of: the centre's way, the general way, and what is refused before anything is made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.actions.environments.build_recipe import BuildRequest, build_recipe, check_request
from hpclaunch.config.catalog import SITE
from hpclaunch.config.site import Container, Site
from hpclaunch.core.errors import InvalidRequest, Refused
from hpclaunch.core.spec import JAX, PYTORCH, TENSORFLOW
from tests.builders import BUNDLED, a_site, bundled_site

INDEX = "https://wheels.example/simple"


def wanted(framework: str = PYTORCH, **typed: object) -> BuildRequest:
    return replace(BuildRequest(name="mine", framework=framework), **typed)


@pytest.mark.parametrize(
    ("framework", "site", "packages"),
    [
        (PYTORCH, "perlmutter", ("torch",)),
        (JAX, "perlmutter", ("jax[cuda12]",)),
        (JAX, "lumi", ("jax[rocm7-local]",)),
        (TENSORFLOW, "lumi", ("tensorflow-rocm",)),
        (JAX, "testcluster", ("jax",)),  # its GPUs cannot compute
        (PYTORCH, "frontier", ("torch==2.10.0", "torchvision==0.25.0", "torchaudio==2.10.0")),
    ],
)
def test_the_gpus_of_the_nodes_choose_the_packages(framework: str, site: str, packages: tuple[str, ...]) -> None:
    recipe = build_recipe(bundled_site(site), wanted(framework, find_links="/wheels"))
    assert recipe.packages == packages


def test_tensorflow_is_of_a_version_that_horovod_compiles_with() -> None:
    recipe = build_recipe(bundled_site("perlmutter"), wanted(TENSORFLOW))
    assert recipe.packages == (
        'tensorflow[and-cuda]==2.15.1; python_version < "3.12"',
        'tensorflow[and-cuda]==2.18.1; python_version >= "3.12"',
        'tf-keras==2.18.0; python_version >= "3.12"',
    )
    assert (recipe.horovod, recipe.nccl) == ("horovod==0.28.1", True)


@pytest.mark.parametrize(
    ("typed", "horovod", "nccl"),
    [({"horovod": False}, "", False), ({"nccl": False}, "horovod==0.28.1", False)],
)
def test_horovod_and_nccl_can_be_declined(typed: dict[str, bool], horovod: str, nccl: bool) -> None:
    recipe = build_recipe(bundled_site("perlmutter"), wanted(TENSORFLOW, **typed))
    assert (recipe.horovod, recipe.nccl) == (horovod, nccl)


@pytest.mark.parametrize(
    ("site", "node_type", "in_job"),
    [("dardel", "gpugh", True), ("dardel", "cpu", False), ("deucalion", "arm", True), ("deucalion", "x86", False)],
)
def test_an_environment_for_nodes_of_another_processor_is_built_in_a_job(
    site: str, node_type: str, in_job: bool
) -> None:
    assert build_recipe(bundled_site(site), wanted(node_type=node_type)).in_job == in_job


def a_cluster(**changes: Any) -> Site:
    """A site with NVIDIA's GPUs, and a runtime for containers."""
    nodes = {name: replace(node, gpu_model="NVIDIA A100") for name, node in a_site().node_types.items()}
    return a_site(**{"node_types": nodes, "container": Container(runtime="apptainer"), **changes})


def test_pytorch_gets_horovod_only_if_it_is_asked_for() -> None:
    assert build_recipe(a_cluster(), wanted()).horovod == ""
    assert build_recipe(a_cluster(), wanted(horovod=True)).horovod == "horovod==0.28.1"


@pytest.mark.parametrize("model", [None, "stand-in device", "Data Center GPU Max 1550", "NVIDIAish"])
@pytest.mark.parametrize("framework", [PYTORCH, TENSORFLOW, JAX])
def test_wheels_for_gpus_of_an_unknown_maker_are_not_guessed(framework: str, model: str | None) -> None:
    nodes = {name: replace(node, gpu_model=model) for name, node in a_site().node_types.items()}
    with pytest.raises(Refused, match="for which GPUs the environment is") as refused:
        build_recipe(a_site(node_types=nodes), wanted(framework))
    (fault,) = refused.value.faults
    assert fault.where == "cluster: node_types.gpu.gpu_model"
    assert "site file" in fault.next and "--node-type" in fault.next
    assert build_recipe(a_site(node_types=nodes), wanted(framework, node_type="cpu")).gpus == ""


@pytest.mark.parametrize(
    ("model", "maker"),
    [("NVIDIA A100 (SXM4)", "nvidia"), ("AMD Instinct MI210", "amd"), ("Advanced Micro Devices [AMD/ATI] x", "amd")],
)
def test_the_model_names_the_maker(model: str, maker: str) -> None:
    nodes = {name: replace(node, gpu_model=model) for name, node in a_site().node_types.items()}
    assert build_recipe(a_site(node_types=nodes), wanted(find_links="/wheels")).gpus == maker


def test_a_typed_version_counts_more_than_the_centres() -> None:
    recipe = build_recipe(bundled_site("frontier"), wanted(version="2.9.0", index_url=INDEX))
    assert recipe.packages == ("torch==2.9.0",)


def test_the_centres_way_has_its_source_with_the_date() -> None:
    recipe = build_recipe(bundled_site("frontier"), wanted(index_url=INDEX))
    assert recipe.make_with == "conda"
    assert recipe.modules[0] == "PrgEnv-gnu/8.7.0"
    assert "olcf-user-docs" in recipe.source and "2026-07-22" in recipe.source


@pytest.mark.parametrize(
    ("third_party", "whose"), [((), "'s centre teaches"), (("recipes",), "users of frontier make")]
)
def test_whose_recipe_it_is_said_as_the_site_file_knows_it(third_party: tuple[str, ...], whose: str) -> None:
    site = replace(bundled_site("frontier"), third_party=third_party)
    assert whose in build_recipe(site, wanted("jax")).source


def test_typed_modules_replace_those_of_the_centre_with_its_set_up() -> None:
    recipe = build_recipe(bundled_site("frontier"), wanted(index_url=INDEX, modules=("python/3.12",)))
    assert (recipe.modules, recipe.setup) == (("python/3.12",), ())


@pytest.mark.parametrize("site", ["frontier", "lumi", "vista"])
def test_wheels_in_an_index_of_their_own_need_its_address(site: str) -> None:
    with pytest.raises(Refused, match="in a package index of their own") as refused:
        build_recipe(bundled_site(site), wanted())
    assert "--index-url" in refused.value.faults[0].next
    assert build_recipe(bundled_site(site), wanted(index_url=INDEX)).index_url == INDEX


def test_a_centre_that_allows_no_environment_refuses_with_its_reason() -> None:
    with pytest.raises(Refused, match="HPC-container-wrapper"):
        build_recipe(bundled_site("olivia"), wanted())


def test_the_container_that_the_centre_teaches_is_made_unless_it_is_declined() -> None:
    recipe = build_recipe(bundled_site("frontier"), wanted(TENSORFLOW))
    assert (recipe.make_with, recipe.runtime, recipe.gpus) == ("container", "apptainer", "amd")
    assert (recipe.image, recipe.packages, recipe.horovod) == ("docker://rocm/tensorflow:latest", (), "")
    assert "apptainer-enable-mpi" in recipe.modules and "olcf-user-docs" in recipe.source
    assert build_recipe(bundled_site("frontier"), wanted(TENSORFLOW, horovod=True)).horovod == "horovod"
    assert build_recipe(bundled_site("frontier"), wanted(TENSORFLOW, make_with="venv")).make_with == "venv"


def test_an_image_of_ones_own_is_taken_where_the_centre_allows_only_containers() -> None:
    recipe = build_recipe(bundled_site("olivia"), wanted(JAX, image="docker://maker/jax:1"))
    assert (recipe.make_with, recipe.image) == ("container", "docker://maker/jax:1")
    assert recipe.source == "an image of the user's choice"


@pytest.mark.parametrize(
    ("site", "typed", "words", "hint"),
    [
        (a_cluster(), {"make_with": "container"}, "no image with pytorch is known", ""),
        (a_cluster(container=None), {"image": "docker://x"}, "its container runtime is not known", "--make-with venv"),
        (a_cluster(container=Container(runtime="pyxis")), {"image": "x"}, "there is nothing to build", "container: x"),
        (a_cluster(container=Container(runtime="shifter")), {"image": "x"}, "there is nothing to build", "settings"),
    ],
)
def test_where_no_image_can_be_made_the_way_on_is_named(
    site: Site, typed: dict[str, str], words: str, hint: str
) -> None:
    with pytest.raises(Refused, match=words) as refused:
        build_recipe(site, wanted(**typed))
    assert hint in (refused.value.faults[0].next or "")


def test_what_is_typed_beside_the_centres_image_is_refused_by_its_flag() -> None:
    with pytest.raises(InvalidRequest, match="--version and --package: an image is taken as it is"):
        build_recipe(bundled_site("snellius"), wanted(version="2.9.0", packages=("numpy",)))


def test_the_centres_horovod_is_compiled_apart_from_its_other_packages() -> None:
    recipe = build_recipe(bundled_site("lonestar6"), wanted(TENSORFLOW))
    assert (recipe.horovod, "horovod" in recipe.packages, recipe.in_job) == ("horovod", False, True)
    assert ("CC", "icc") in recipe.shell_variables


def test_a_centre_with_wheels_of_its_own_asks_no_index() -> None:
    recipe = build_recipe(bundled_site("narval"), wanted(TENSORFLOW))
    assert (recipe.own_wheels, recipe.make_with, recipe.packages) == (True, "virtualenv", ("tensorflow",))


def test_an_unknown_node_type_names_those_that_there_are() -> None:
    with pytest.raises(Refused, match="allowed: gpu, cpu"):
        build_recipe(a_site(), wanted(node_type="gpus"))


def test_every_site_has_a_recipe_or_a_reason() -> None:
    for found in BUNDLED.names(SITE):
        site = bundled_site(found.name)
        for framework in (TENSORFLOW, PYTORCH, JAX):
            if framework not in site.recipes or site.recipes[framework].kind not in ("none", "container"):
                assert build_recipe(site, wanted(framework, find_links="/wheels")).source, found.name


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (wanted(name="a/b"), "cannot be the name"),
        (wanted(name=".."), "cannot be the name"),
        (wanted("caffe"), "no environment is made for 'caffe'"),
        (wanted(JAX, horovod=True), "Horovod does not know JAX"),
        (wanted(version="2; rm -rf /"), "is no version"),
        (wanted(packages=("--index-url=x",)), "is no package"),
        (wanted(index_url="https://me:word@wheels.example"), "a password"),
        (wanted(index_url=INDEX, wheels="/w"), "cannot be used together"),
        (wanted(find_links="--trusted-host"), "is empty, an option"),
        (wanted(make_with="docker"), "no environment is made with 'docker'"),
        (wanted(make_with="venv", image="docker://x"), "venv needs no image"),
        (wanted(image="docker://x", packages=("numpy",)), "--package: an image is taken as it is"),
        (wanted(image="--fakeroot"), "is empty, an option"),
        (wanted(python="-c"), "is empty, an option"),
        (wanted(modules=("a\nb",)), "control character"),
    ],
)
def test_what_cannot_be_meant_is_refused(request_: BuildRequest, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        check_request(request_)


def test_all_faults_come_together() -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_request(wanted("caffe", name="a b", version="?"))
    assert len(refused.value.faults) == 3
