"""The scripts that build environments: for every site bash can read them, and shellcheck finds nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.actions.environments.build_recipe import BuildRecipe, BuildRequest, build_recipe
from hpclaunch.actions.environments.build_script import build_script
from hpclaunch.actions.environments.make import CHECK
from hpclaunch.config.catalog import SITE
from hpclaunch.config.site import Container, EnvironmentRecipe, Site
from hpclaunch.core.errors import InvalidRequest, Refused
from hpclaunch.core.spec import JAX, PYTORCH, TENSORFLOW
from tests.builders import BUNDLED, a_site, bundled_site

FOLDER = "/home/ada/my environments/mine/1"
HOSTILE = "a 'b' \"c\" $(touch /tmp/x) `id` \\ # d"


def scripts() -> Iterator[tuple[str, str]]:
    """Yield (name, text) of the scripts of every site and framework, built at once and with downloaded wheels."""
    check = CHECK.read_text(encoding="utf-8")
    for found in BUNDLED.names(SITE):
        for framework in (TENSORFLOW, PYTORCH, JAX):
            recipe = the_recipe(bundled_site(found.name), framework)
            for first in (False, True):
                yield f"{found.name}-{framework}-{first}.sh", build_script(recipe, FOLDER, check, first)


def the_recipe(site: Site, framework: str) -> BuildRecipe:
    """The recipe of a site with all that can be typed; where the centre takes a container, that of an image."""
    try:
        return build_recipe(site, a_request(framework))
    except (Refused, InvalidRequest):
        image = None if framework in site.recipes and site.recipes[framework].image else f"docker://x/{HOSTILE}"
        request = BuildRequest(name="mine", framework=framework, image=image, variables=(("NAME", HOSTILE),))
        return build_recipe(site, request)


def a_request(framework: str = PYTORCH) -> BuildRequest:
    return BuildRequest(
        name="mine",
        framework=framework,
        horovod=framework != JAX,
        index_url="https://wheels.example/simple",
        packages=("numpy<2", HOSTILE),
        variables=(("NAME", HOSTILE),),
    )


def test_bash_and_shellcheck_find_nothing_in_any_script(tmp_path: Path) -> None:
    paths = []
    for name, text in scripts():
        paths.append(tmp_path / name)
        paths[-1].write_text(text, encoding="utf-8")
    assert len(paths) > 100
    for path in paths:
        done = subprocess.run(["bash", "-n", path], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), path
    if shutil.which("shellcheck") is None:
        pytest.skip("group shellcheck: install shellcheck")
    # SC1091: the environment is not there to be read. SC2016: an error shows a line of set-up as it stands.
    # SC2317, SC2329: what a trap calls counts as unreachable.
    words = ["shellcheck", "--exclude=SC1091,SC2016,SC2317,SC2329", *paths]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[-2000:]) == (0, "")


class Bench:
    """A folder of a build, and programs on PATH that stand in for those of a cluster; each notes what it was given."""

    def __init__(self, root: Path) -> None:
        self.folder, self.bin, self.calls = root / "mine" / "1", root / "bin", root / "calls"
        self.folder.mkdir(parents=True)
        self.bin.mkdir()
        for tool in ("bash", "rm", "cat"):
            found = shutil.which(tool)
            assert found
            (self.bin / tool).symlink_to(found)

    def program(self, name: str, text: str = "") -> None:
        path = self.bin / name
        path.write_text(f'#!/bin/bash\necho "{name} $*" >> {self.calls}\n{text}\n')
        path.chmod(0o755)

    def run(self, recipe: BuildRecipe, *words: str, first: bool = False) -> subprocess.CompletedProcess[str]:
        script = self.folder / "build.sh"
        script.write_text(build_script(recipe, str(self.folder), "", first))
        return subprocess.run(
            ["bash", str(script), *words], capture_output=True, text=True, env={"PATH": str(self.bin)}, check=False
        )

    def called(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def recipe_for(site: Site, **typed: object) -> BuildRecipe:
    request = BuildRequest(name="mine", framework=PYTORCH, find_links="/wheels")
    return build_recipe(site, replace(request, **typed))


def a_cluster(**changes: object) -> Site:
    """A site with NVIDIA's GPUs, and a runtime for containers."""
    nodes = {name: replace(node, gpu_model="NVIDIA A100") for name, node in a_site().node_types.items()}
    return a_site(**{"node_types": nodes, "container": Container(runtime="apptainer"), **changes})


def site_with(build: EnvironmentRecipe) -> Site:
    return a_cluster(recipes={PYTORCH: build})


MAKES_AN_ENVIRONMENT = 'for last; do :; done; mkdir -p "$last/bin"; : > "$last/bin/activate"'


def test_a_failure_of_pip_leaves_nothing_that_looks_complete(bench: Bench) -> None:
    mkdir = shutil.which("mkdir")
    assert mkdir
    (bench.bin / "mkdir").symlink_to(mkdir)
    bench.program("python3", f'case "$*" in *"-m venv"*) {MAKES_AN_ENVIRONMENT} ;; esac')
    bench.program("python", "exit 7")
    done = bench.run(recipe_for(a_cluster()))
    assert done.returncode == 1
    assert "pip could not install pytorch" in done.stderr
    assert sorted(os.listdir(bench.folder)) == ["build.sh", "failed"]


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"horovod": True, "nccl": False}, "there is no C++ compiler"),
        ({"python": "python3.99"}, "there is no python3.99"),
        ({"make_with": "conda"}, "there is no conda"),
        ({"make_with": "virtualenv"}, "there is no virtualenv"),
        ({"modules": ("cuda",)}, "no command module"),
    ],
)
def test_what_is_missing_ends_the_script_before_it_makes_anything(
    bench: Bench, typed: dict[str, object], words: str
) -> None:
    done = bench.run(recipe_for(a_cluster(), **typed))
    assert (done.returncode, words in done.stderr, "next: --" in done.stderr or "log in" in done.stderr) == (
        1,
        True,
        True,
    )
    assert bench.called() == []


def test_nccl_needs_cuda_and_rccl_rocm(bench: Bench) -> None:
    bench.program("c++")
    assert "there is no nvcc here" in bench.run(recipe_for(a_cluster(), horovod=True)).stderr
    assert "there is no hipcc here" in bench.run(recipe_for(bundled_site("lumi"), horovod=True)).stderr


def test_the_shell_replaces_names_in_the_centres_variables_and_nothing_else(bench: Bench) -> None:
    build = EnvironmentRecipe(kind="venv", variables={"HOME_OF_IT": "$CUDA_DIR/x y", "PLAIN": "$(id) `id`"})
    recipe = recipe_for(site_with(build), horovod=True, nccl=False, variables=(("CUDA_DIR", "no"),))
    script = bench.folder / "build.sh"
    script.write_text(build_script(recipe, str(bench.folder), ""))
    lines = [line for line in script.read_text().splitlines() if line.startswith("export ") and "_OF_IT" in line]
    lines += [line for line in script.read_text().splitlines() if line.startswith("export PLAIN")]
    text = "\n".join(["CUDA_DIR=/opt/cuda", *lines, 'printf "%s|%s" "$HOME_OF_IT" "$PLAIN"'])
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "/opt/cuda/x y|$(id) `id`"


def test_a_module_that_is_gone_ends_the_script_with_its_name(bench: Bench) -> None:
    recipe = recipe_for(a_cluster(), modules=("cuda/99",))
    script = bench.folder / "build.sh"
    script.write_text(build_script(recipe, str(bench.folder), ""))
    text = f"module() {{ return 1; }}; export -f module; bash {str(script)!r}"
    done = subprocess.run(
        ["bash", "-c", text], capture_output=True, text=True, env={"PATH": str(bench.bin)}, check=False
    )
    assert done.returncode == 1
    assert "the module cuda/99 cannot be loaded" in done.stderr


AN_IMAGE = EnvironmentRecipe(kind="container", image="docker://maker/torch:1", modules=())
APPTAINER = """
case $1 in
  build) [ -n "$APPTAINER_CACHEDIR" ] && [ -d "$APPTAINER_TMPDIR" ] && echo an image > "$2" ;;
  exec) shift 6; "$@" ;;
esac
"""


def with_apptainer(bench: Bench, python: str) -> BuildRecipe:
    mkdir = shutil.which("mkdir")
    assert mkdir
    (bench.bin / "mkdir").symlink_to(mkdir)
    bench.program("apptainer", APPTAINER)
    bench.program("python3", python)
    return recipe_for(site_with(AN_IMAGE), find_links=None)


def test_an_image_is_made_beside_its_temporary_files_and_tested_with_its_own_python(bench: Bench) -> None:
    recipe = with_apptainer(bench, "")
    done = bench.run(recipe)
    assert (done.returncode, done.stderr) == (0, "")
    image = bench.folder / "image.sif"
    assert image.read_text() == "an image\n"
    inside = f"apptainer exec --bind {bench.folder} --pwd {bench.folder} {image} python3 "
    assert bench.called() == [
        f"apptainer build {image} docker://maker/torch:1",
        f"{inside}-m pip freeze --all",
        "python3 -m pip freeze --all",
        f"{inside}- pytorch nvidia   freeze.txt",
        "python3 - pytorch nvidia   freeze.txt",
    ]
    assert sorted(path.name for path in bench.folder.iterdir()) == ["build.sh", "freeze.txt", "image.sif"]


def test_an_image_without_the_framework_is_not_kept(bench: Bench) -> None:
    done = bench.run(with_apptainer(bench, '[ "$1" != - ]'))
    assert (done.returncode, "the image does not have what was asked for" in done.stderr) == (1, True)
    assert sorted(path.name for path in bench.folder.iterdir()) == ["build.sh", "failed", "freeze.txt"]


def test_without_the_runtime_no_image_is_made(bench: Bench) -> None:
    done = bench.run(recipe_for(site_with(AN_IMAGE), find_links=None))
    assert (done.returncode, "there is no apptainer here" in done.stderr) == (1, True)
