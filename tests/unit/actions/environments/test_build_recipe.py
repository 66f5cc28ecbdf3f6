"""What an environment is built of: the centre's way, the general way, and what is refused before anything is made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpclaunch.actions.environments.build_recipe import BuildRequest, build_recipe, check_request
from hpclaunch.config.catalog import SITE
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


def test_pytorch_gets_horovod_only_if_it_is_asked_for() -> None:
    assert build_recipe(a_site(), wanted()).horovod == ""
    assert build_recipe(a_site(), wanted(horovod=True)).horovod == "horovod==0.28.1"


def test_a_typed_version_counts_more_than_the_centres() -> None:
    recipe = build_recipe(bundled_site("frontier"), wanted(version="2.9.0", index_url=INDEX))
    assert recipe.packages == ("torch==2.9.0",)


def test_the_centres_way_has_its_source_with_the_date() -> None:
    recipe = build_recipe(bundled_site("frontier"), wanted(index_url=INDEX))
    assert recipe.make_with == "conda"
    assert recipe.modules[0] == "PrgEnv-gnu/8.7.0"
    assert "olcf-user-docs" in recipe.source and "2026-07-22" in recipe.source


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


def test_a_container_is_named_in_place_of_a_build() -> None:
    with pytest.raises(Refused, match="docker://rocm/tensorflow:latest"):
        build_recipe(bundled_site("frontier"), wanted(TENSORFLOW))
    assert build_recipe(bundled_site("frontier"), wanted(TENSORFLOW, make_with="venv")).make_with == "venv"


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
