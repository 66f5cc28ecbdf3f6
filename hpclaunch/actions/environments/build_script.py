"""The bash script that builds an environment, as text; it can be read, kept, and started without hpclaunch. Pure.

It writes ``built.json`` last. Where it fails, it removes what it made, so that nothing looks complete.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from hpclaunch.actions.environments.build_recipe import CONTAINER, BuildRecipe
from hpclaunch.config.environment_recipes import AMD
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.spec import TENSORFLOW
from hpclaunch.core.version import __version__

_HEAD = """\
folder=FOLDER
environment="$folder/ENVIRONMENT"
step() { printf 'hpclaunch: %s\\n' "$1"; }
fail() { # fail WHAT [NEXT]
  printf 'hpclaunch: error: %s\\n' "$1" >&2
  [ -z "${2:-}" ] || printf 'hpclaunch:     next: %s\\n' "$2" >&2
  exit 1
}
check() { [ $? -eq 0 ] || fail "$1"; } # check WHAT, after a line that may have failed
leave() { # whatever ends the script early, nothing stays that looks complete
  code=$?
  [ "$code" -eq 0 ] && exit 0
  rm -rf -- "$environment" "$folder/built.json" "$folder/built.json.part" "$folder/cache" "$folder/tmp"
  echo "$code" > "$folder/failed"
  exit "$code"
}
trap leave EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
# What a person's shell has set would send packages elsewhere, or hide that one is missing.
unset PYTHONPATH PYTHONHOME PIP_USER PIP_TARGET PIP_PREFIX
export PYTHONNOUSERSITE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
cd "$folder" || fail "there is no folder $folder"
rm -f failed
"""
_PIP = """\
# No second copy of the wheels in the home folder, which is small at most centres.
pip_install() { python -m pip install --no-cache-dir --progress-bar off "$@"; }
pip_download() { python -m pip download --no-cache-dir --progress-bar off --dest wheels "$@"; }
"""
_MODULES = """\
type module > /dev/null 2>&1 || fail 'this shell has no command module' 'log in at the site; or name --site'
"""
_MAKERS = {
    "venv": """\
python=PYTHON
other='--python NAME, or --module with a module that has another Python'
command -v "$python" > /dev/null || fail "there is no $python here" "$other"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 8))' ||
  fail "$("$python" --version 2>&1) is too old: 3.8 is the oldest" "$other"
"$python" -c 'import venv, ensurepip' || fail "$python lacks the module venv, or pip for it" "$other"
step "making the environment with $("$python" --version 2>&1)"
"$python" -m venv "$environment" || fail 'the environment could not be made'
""",
    "virtualenv": """\
command -v virtualenv > /dev/null || fail 'there is no virtualenv here' '--module with the module of Python'
step 'making the environment with virtualenv'
virtualenv --no-download "$environment" || fail 'the environment could not be made'
""",
    "conda": """\
command -v conda > /dev/null || fail 'there is no conda here' '--module with the module that has it'
eval "$(conda shell.bash hook)" || fail 'conda could not be started'
step 'making the environment with conda'
conda create --yes --quiet --prefix "$environment" --channel conda-forge python=PYTHON pip ||
  fail 'conda could not make the environment'
""",
}
_IMAGE = """\
command -v RUNTIME > /dev/null || fail 'there is no RUNTIME here' '--as-job, which makes the image on a compute node'
# Layers and temporary files stay here: the home folder and /tmp are small at most centres.
mkdir -p -- cache tmp || fail 'the folder of the build cannot be written'
export APPTAINER_CACHEDIR="$folder/cache" APPTAINER_TMPDIR="$folder/tmp"
export SINGULARITY_CACHEDIR="$folder/cache" SINGULARITY_TMPDIR="$folder/tmp"
step STEP
image=IMAGE
RUNTIME build "$image" SOURCE || fail 'the image could not be made'
rm -rf -- cache tmp
"""
_REGISTER = """\
# The site runs images from this folder alone.
allowed=FOLDER
[ -d "$allowed" ] || fail "there is no folder $allowed for images" 'ask the centre for it'
step "copying the image to $allowed"
REGISTER "$folder/$name" || fail 'the image could not be copied there'
[ -f "$allowed/$name" ] || fail "there is no $name in $allowed"
rm -f -- "${folder:?}/$name"
image="$allowed/$name"
ln -s -- "$image" "$environment" || fail 'the folder of the build cannot be written'
"""
_TEST_IMAGE = """\
inside() { RUNTIME exec --bind "$folder" --pwd "$folder" "$image" "$@"; }
step 'testing the image'
inside python3 -m pip freeze --all > freeze.txt || fail 'pip in the image could not list its packages'
"""
_ACTIVATE = """\
. "$environment/bin/activate" || fail 'the environment cannot be activated'
"""
_ACTIVATE_CONDA = """\
conda activate "$environment" || fail 'the environment cannot be activated'
"""
_COMPILER = """\
command -v c++ > /dev/null || command -v g++ > /dev/null ||
  fail 'Horovod is compiled, and there is no C++ compiler here' '--module with the module of a compiler'
"""
_CUDA = """\
command -v nvcc > /dev/null || [ -n "${HOROVOD_CUDA_HOME:-}" ] ||
  fail 'Horovod with NCCL needs CUDA, and there is no nvcc here' \\
    '--module with the modules of CUDA and NCCL; or --env HOROVOD_CUDA_HOME=DIR; or --no-nccl'
"""
_ROCM = """\
command -v hipcc > /dev/null || [ -n "${HOROVOD_ROCM_HOME:-}" ] ||
  fail 'Horovod with RCCL needs ROCm, and there is no hipcc here' \\
    '--module with the module of ROCm; or --env HOROVOD_ROCM_HOME=DIR; or --no-nccl'
"""
_MPI = """\
if command -v mpicxx > /dev/null; then
  export HOROVOD_WITH_MPI=1
else
  export HOROVOD_WITHOUT_MPI=1
  step 'there is no mpicxx, so Horovod is built with Gloo alone, and only horovodrun can start its ranks'
fi
"""
_DOWNLOAD = """\
if [ "${1:-}" = download ]; then
  step 'downloading the wheels'
  rm -rf -- wheels
  LINES
  rm -rf -- "$environment"
  exit 0
fi
"""
_FINISH = """\
step 'testing the environment'
python -m pip check || step 'pip finds packages that do not fit together (above)'
python -m pip freeze --all > freeze.txt || fail 'pip could not list the packages'
"""
_NEEDED_BY_HOROVOD = ("cmake<4", "setuptools<81", "wheel", "cloudpickle", "psutil", "pyyaml", "packaging")
"""What Horovod's build needs, and what it imports."""


def build_script(recipe: BuildRecipe, folder: str, check: str, download_first: bool = False) -> str:
    """Return the script that builds the recipe in ``folder``; ``check`` is the program that tests it.

    With ``download_first`` the argument ``download`` gets all wheels, where there is internet, and without an argument
    these alone are installed.
    """
    head = _HEAD.replace("FOLDER", shell_word(folder), 1)
    if recipe.make_with == CONTAINER:
        name = f"{recipe.name}-{PurePosixPath(folder).name}.sif"
        head = head.replace("ENVIRONMENT", "image.sif", 1)
        lines = [*_title(recipe), head, *_set_up(recipe), *_image(recipe, name, check)]
        return "".join(f"{line.rstrip()}\n" for line in lines)
    lines = [*_title(recipe), head.replace("ENVIRONMENT", "env", 1), _PIP, *_set_up(recipe), *_compilers(recipe)]
    lines.append(_MAKERS[recipe.make_with].replace("PYTHON", shlex.quote(recipe.python), 1))
    lines.append(_ACTIVATE_CONDA if recipe.make_with == "conda" else _ACTIVATE)
    if download_first:
        lines.append(_DOWNLOAD.replace("LINES", "\n  ".join(_download(recipe)), 1))
    lines += _install(recipe, download_first)
    lines += _compile_horovod(recipe, download_first) if recipe.horovod else []
    lines += _finish(recipe, check)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _title(recipe: BuildRecipe) -> Iterator[str]:
    yield "#!/bin/bash -l" if recipe.login_shell else "#!/bin/bash"
    what = f"Builds the environment {recipe.name} with {recipe.framework} for {recipe.site}"
    yield f"# {what}; written by hpclaunch {__version__}."
    yield "# " + re.sub(r"[\x00-\x1f\x7f]", " ", recipe.source)  # text of a site file stays within the comment


def _set_up(recipe: BuildRecipe) -> Iterator[str]:
    if recipe.modules:
        yield _MODULES
    for name in recipe.modules:
        yield f"module load {shlex.quote(name)} || {_fail(f'the module {name} cannot be loaded')}"
    for line in recipe.setup:
        yield line
        yield f"check {shlex.quote(f'this line of set-up failed: {line}')}"
    yield from (f"export {name}={_shell_text(value)}" for name, value in recipe.shell_variables)
    yield from (f"export {name}={shell_word(value)}" for name, value in recipe.variables)


def _fail(what: str) -> str:
    return f"fail {shlex.quote(what)}"


def _shell_text(value: str) -> str:
    """Return a value as the shell reads it: every ``$NAME`` is replaced, and all else stands as it is."""
    literal, *rest = re.split(r"\$([A-Za-z_][A-Za-z0-9_]*)", value)
    parts = [shlex.quote(literal)] if literal else []
    for name, text in zip(rest[::2], rest[1::2], strict=True):
        parts += [f'"${{{name}:-}}"', *([shlex.quote(text)] if text else [])]
    return "".join(parts)


def _download(recipe: BuildRecipe) -> Iterator[str]:
    """Yield the commands that get all wheels; Horovod is a source package, which pip looks into with setuptools."""
    elsewhere = _elsewhere(recipe)
    yield _words("pip_download", _index(recipe), recipe.packages) + f" || {_fail('pip could not download all wheels')}"
    further = [*recipe.further, *(_NEEDED_BY_HOROVOD if recipe.horovod else ())]
    if further:
        yield _words("pip_download", elsewhere, further) + f" || {_fail('pip could not download all packages')}"
    if recipe.horovod:
        yield _words("pip_install", ["--no-index", "--find-links", "wheels"], _NEEDED_BY_HOROVOD[:3])
        source = [*elsewhere, "--no-deps", "--no-build-isolation", *_source_options(recipe)]
        yield _words("pip_download", source, [recipe.horovod]) + f" || {_fail('pip could not download Horovod')}"


def _install(recipe: BuildRecipe, downloaded: bool) -> Iterator[str]:
    index = _DOWNLOADED if downloaded else _index(recipe)
    yield f"step {shlex.quote(f'installing {recipe.framework}')}"
    failure = _fail(f"pip could not install {recipe.framework}")
    yield _words("pip_install", index, recipe.packages) + f" || {failure}"
    if recipe.further:
        yield "step 'installing the other packages'"
        options = _DOWNLOADED if downloaded else _elsewhere(recipe)
        yield _words("pip_install", options, recipe.further) + f" || {_fail('pip could not install the packages')}"


def _compilers(recipe: BuildRecipe) -> Iterator[str]:
    """Yield the checks of what Horovod's build needs, which come before anything is downloaded."""
    if recipe.horovod:
        yield _COMPILER
    if recipe.nccl:
        yield _ROCM if recipe.gpus == AMD else _CUDA


def _compile_horovod(recipe: BuildRecipe, downloaded: bool) -> Iterator[str]:
    """Yield the lines that compile Horovod beside its framework, with the variables of its installation guide."""
    options = _DOWNLOADED if downloaded else _elsewhere(recipe)
    mine = "TENSORFLOW" if recipe.framework == TENSORFLOW else "PYTORCH"
    flags = [f"HOROVOD_WITH_{mine}=1"]
    flags += [f"HOROVOD_WITHOUT_{name}=1" for name in ("TENSORFLOW", "PYTORCH", "MXNET") if name != mine]
    flags.append("HOROVOD_WITH_GLOO=1")
    if recipe.nccl:
        flags += ["HOROVOD_GPU_OPERATIONS=NCCL", f"HOROVOD_GPU={'ROCM' if recipe.gpus == AMD else 'CUDA'}"]
    yield f"export {' '.join(flags)}"
    yield _MPI
    yield "step 'compiling Horovod, which takes some minutes'"
    needed = _words("pip_install", options, _NEEDED_BY_HOROVOD)
    yield needed + f" || {_fail('pip could not install what Horovod needs')}"
    # Its build imports the framework, so it must not have an environment of its own.
    source = [*options, "--no-deps", "--no-build-isolation", *_source_options(recipe)]
    yield _words("pip_install", source, [recipe.horovod]) + f" || {_fail('Horovod could not be compiled')}"


_DOWNLOADED = ["--no-index", "--find-links", "wheels"]


def _source_options(recipe: BuildRecipe) -> list[str]:
    """Return pip's options for Horovod: a centre's own wheel is taken as it is."""
    return [] if recipe.own_wheels else ["--no-binary", "horovod"]


def _index(recipe: BuildRecipe) -> list[str]:
    """Return pip's options for the framework's packages, which may have an index of their own."""
    own = ["--index-url", recipe.index_url] if recipe.index_url else []
    return [*own, *_elsewhere(recipe)]


def _elsewhere(recipe: BuildRecipe) -> list[str]:
    """Return pip's options for all other packages: what is not named is left to pip's own configuration."""
    if recipe.wheels:
        return ["--no-index", "--find-links", recipe.wheels]
    found = ["--find-links", recipe.find_links] if recipe.find_links else []
    return ["--no-index", *found] if recipe.own_wheels else found


def _words(program: str, options: Sequence[str], requirements: Sequence[str]) -> str:
    return " ".join([program, *map(shlex.quote, (*options, *requirements))])


def _image(recipe: BuildRecipe, name: str, check: str) -> Iterator[str]:
    """Yield the lines that make a container's image, and test it with its own Python.

    Where the site runs images from one folder alone, it is copied there under its ``name``.
    """
    made = _IMAGE.replace("RUNTIME", recipe.runtime).replace("SOURCE", shell_word(recipe.image))
    made = made.replace("IMAGE", '"$folder/$name"' if recipe.register else '"$environment"', 1)
    if recipe.register:
        yield f"name={shell_word(name)}"
    yield made.replace("STEP", shlex.quote(f"making the image from {recipe.image}"), 1)
    if recipe.register:
        yield _REGISTER.replace("FOLDER", _shell_text(recipe.image_folder), 1).replace("REGISTER", recipe.register)
    yield _TEST_IMAGE.replace("RUNTIME", recipe.runtime)
    yield from _test(recipe, "inside python3", check, "the image does not have what was asked for")
    yield "exit 0"


def _finish(recipe: BuildRecipe, check: str) -> Iterator[str]:
    yield _FINISH
    yield from _test(recipe, "python", check, "the environment does not work")
    yield "rm -rf -- wheels"
    yield "exit 0"


def _test(recipe: BuildRecipe, python: str, check: str, failure: str) -> Iterator[str]:
    """Yield the lines that run the check with the Python of the environment."""
    words = [recipe.framework, recipe.gpus, "1" if recipe.horovod else "", "1" if recipe.nccl else "", "freeze.txt"]
    yield f"{python} - {shlex.join(words)} << 'END_OF_CHECK' || {_fail(failure)}"
    yield check
    yield "END_OF_CHECK"
