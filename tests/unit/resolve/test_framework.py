"""The framework of a program: who states it, which software of the site it gets, and where its ranks can meet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpclaunch.config.catalog import SITE as SITE_FAMILY
from hpclaunch.config.fileformat import Environment
from hpclaunch.config.job import Job, script_job
from hpclaunch.config.site import Site
from hpclaunch.core.spec import FRAMEWORKS, JobSpec
from hpclaunch.launchers import LAUNCHERS, NO_LAUNCHER
from tests.builders import (
    BUNDLED,
    a_desk,
    a_job,
    a_site,
    bundled_job,
    bundled_site,
    everywhere,
    origin_of,
    planned,
    refused,
)

OFFERED = {
    "tensorflow": Environment(modules=("tensorflow/2.15",), venv="/opt/horovod"),
    "pytorch": Environment(modules=("pytorch/2.0",), variables={"OWN": "1"}),
}
GENERAL = Environment(modules=("cuda",), python="python", variables={"FOR_ALL": "1"})
SITE = a_site(environment=GENERAL, frameworks=OFFERED, provides=("tensorflow", "horovod"))


def lines(spec: JobSpec) -> list[str]:
    return [step.line for step in spec.steps]


def stated(spec: JobSpec) -> tuple[str, str] | None:
    """The framework and who stated it, if the submission shows them."""
    return next(((one.value, one.origin) for one in spec.choices if one.key == "framework"), None)


def own(folder: Path, text: str, name: str = "train.py") -> Job:
    """The job of a script of one's own."""
    (folder / name).write_text(text)
    return script_job(folder / name)


@pytest.mark.parametrize(
    ("framework", "steps"),
    [
        ("tensorflow", ["module load tensorflow/2.15", "source /opt/horovod/bin/activate"]),
        ("pytorch", ["module load pytorch/2.0"]),
        ("jax", ["module load cuda"]),
        ("none", ["module load cuda"]),
    ],
)
def test_the_framework_chooses_the_sites_software(framework: str, steps: list[str]) -> None:
    spec = planned(SITE, a_job(framework=framework))
    assert lines(spec) == steps
    assert ("FOR_ALL", "1") in spec.environment
    assert (("OWN", "1") in spec.environment) is (framework == "pytorch")


def test_what_is_typed_overrides_the_job_and_the_job_what_a_script_imports(tmp_path: Path) -> None:
    assert stated(planned(SITE, a_job(framework="jax"), framework="pytorch")) == ("pytorch", "--framework")
    assert stated(planned(SITE, a_job(framework="jax"))) == ("jax", "job")
    script = own(tmp_path, "import torch\n")
    assert stated(planned(SITE, script)) == ("pytorch", "imports torch")
    assert stated(planned(SITE, script, framework="tensorflow")) == ("tensorflow", "--framework")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import torch.distributed as dist\n", ("pytorch", "imports torch")),
        ("import os, numpy as np, jax\n", ("jax", "imports jax")),
        ("from flax import linen\nimport jax\n", ("jax", "imports flax, jax")),
        ("from mpi4py import MPI\n", ("mpi", "imports mpi4py")),
        ("from mpi4py import MPI\nimport torch\n", ("pytorch", "imports torch")),
        ("import tensorflow as tf\n", None),
        ("import torch\nimport jax\n", ("none", "imports torch and jax")),  # what is not known is not guessed
        ("import torch\nimport horovod.torch as hvd\n", ("none", "imports torch and horovod")),  # until it is read
        ("def f():\n    import torch\n", ("none", "imports none")),  # until it is read
        ("# import torch\nimport torchless\n", ("none", "imports none")),
        ("from hpclaunch import training\nimport torch\n", None),
    ],
)
def test_a_scripts_framework_is_that_of_the_modules_that_it_imports(
    tmp_path: Path, text: str, found: tuple[str, str] | None
) -> None:
    assert stated(planned(SITE, own(tmp_path, text))) == found


def test_a_program_or_a_shell_script_of_ones_own_has_none(tmp_path: Path) -> None:
    for name in ("run.sh", "solver"):
        spec = planned(SITE, own(tmp_path, "", name))
        assert (stated(spec), lines(spec)) == (("none", "a program of your own"), ["module load cuda"])
    assert lines(planned(SITE, own(tmp_path, "", "run.sh"), framework="pytorch")) == ["module load pytorch/2.0"]


def test_under_torchrun_a_program_is_one_of_pytorch_unless_it_is_stated(tmp_path: Path) -> None:
    assert stated(planned(SITE, launcher="torchrun")) == ("pytorch", "torchrun")
    assert stated(planned(SITE, own(tmp_path, "", "run.sh"), launcher="torchrun")) == ("pytorch", "torchrun")
    assert stated(planned(SITE, launcher="torchrun", framework="none")) == ("none", "--framework")


@pytest.mark.parametrize(
    ("job", "framework", "words"),
    [
        ("ddp", "pytorch", "provides no known PyTorch"),
        ("ddp", "jax", "provides no known JAX"),
        ("ddp", "mpi", "provides no known Python with mpi4py"),
        ("ddp", "none", ""),
    ],
)
def test_a_site_that_names_nothing_for_a_framework_is_said(job: str, framework: str, words: str) -> None:
    told = [text for text in planned(a_site(), a_job(framework=framework)).warnings if "provides no known" in text]
    assert bool(told) is bool(words) and all(words in text for text in told)
    mine = a_job(framework=framework, environment=Environment(venv="/mine"))
    assert not [text for text in planned(a_site(), mine).warnings if "provides no known" in text]


def test_a_framework_that_there_is_not_is_refused_with_the_nearest() -> None:
    (fault,) = refused(SITE, framework="torch")
    assert (fault.where, fault.allowed) == ("--framework", ", ".join(FRAMEWORKS))
    assert "did you mean 'pytorch'" in fault.what


CANNOT = {
    "horovodrun": {"jax", "mpi"},
    "ibrun": {"jax"},
    "local": {"tensorflow", "mpi"},
    "torchrun": {"tensorflow", "jax", "mpi"},
}


@pytest.mark.parametrize("launcher", sorted(set(LAUNCHERS) - {NO_LAUNCHER}))
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_ranks_that_could_not_find_each_other_are_refused_in_one_sentence(launcher: str, framework: str) -> None:
    typed: dict[str, Any] = {"site": everywhere(), "job": a_job(framework=framework), "launcher": launcher, "nodes": 2}
    if framework not in CANNOT.get(launcher, set()):
        assert planned(**typed).launcher == launcher
        return
    (fault,) = refused(**typed)
    program = "Horovod" if (launcher, framework) == ("local", "tensorflow") else framework
    assert fault.what.startswith(f"{launcher} cannot start ranks of {program}: ")
    assert fault.next == "--launcher srun; or --framework none, if the ranks need not find each other"
    assert planned(**{**typed, "tasks_per_node": 1, "nodes": 1}).launcher == launcher  # one rank looks for no other


def test_the_bundled_horovod_jobs_are_not_started_by_torchrun() -> None:
    (fault,) = refused(bundled_site("testcluster"), bundled_job("cifar"), nodes=2, launcher="torchrun")
    assert "Horovod" in fault.what


def test_where_the_usual_launcher_cannot_another_one_of_the_site_is_taken() -> None:
    spec = planned(a_desk(), a_job(framework="jax"), tasks_per_node=2)
    assert origin_of(spec, "launcher") == ("mpirun", "site desk, for jax")
    assert planned(a_desk(), tasks_per_node=2).launcher == "horovodrun"


@pytest.mark.parametrize(
    ("name", "text", "launcher", "origin"),
    [
        ("hello.py", "print(1)\n", "local", "site local"),
        ("run.sh", "", "local", "site local"),
        ("train.py", "import torch\n", "local", "site local"),
        ("train.py", "import tensorflow as tf\n", "local", "site local"),
        ("train.py", "import horovod.tensorflow as hvd\n", "horovodrun", "site local, for Horovod"),
        ("train.py", "import torch\nimport horovod.torch as hvd\n", "horovodrun", "site local, for Horovod"),
        ("train.py", "from hpclaunch import training\n", "horovodrun", "site local, for Horovod"),
        ("train.py", "from hpclaunch.training import on_pytorch as training\n", "local", "site local"),
        ("train.py", "from mpi4py import MPI\n", "mpirun", "site local, for mpi"),
    ],
)
def test_this_machine_starts_all_ranks_itself_but_those_of_horovod_and_mpi(
    tmp_path: Path, name: str, text: str, launcher: str, origin: str
) -> None:
    spec = planned(bundled_site("local"), own(tmp_path, text, name), tasks_per_node=2)
    assert origin_of(spec, "launcher") == (launcher, origin)


def test_a_program_of_jax_is_told_what_it_must_pass_to_jax(tmp_path: Path) -> None:
    site, typed = bundled_site("local"), {"tasks_per_node": 2}
    mine = planned(site, own(tmp_path, "import jax\n"), **typed)
    assert mine.launcher == "local"
    assert [text for text in mine.warnings if "process_id=int(os.environ['RANK'])" in text]
    with_library = planned(site, bundled_job("jax"), **typed)
    assert (with_library.launcher, [text for text in with_library.warnings if "process_id" in text]) == ("local", [])


def test_a_program_that_may_use_horovod_is_not_started_by_the_launcher_local(tmp_path: Path) -> None:
    site, typed = bundled_site("local"), {"tasks_per_node": 2}
    assert planned(site, bundled_job("cifar"), **typed).launcher == "horovodrun"
    assert planned(site, bundled_job("ddp"), **typed).launcher == "local"
    assert planned(site, own(tmp_path, "", "run.sh"), framework="tensorflow", **typed).launcher == "horovodrun"
    (fault,) = refused(site, bundled_job("cifar"), launcher="local", **typed)
    assert fault.what.startswith("local cannot start ranks of Horovod: ")
    assert fault.next == "--launcher horovodrun; or --framework none, if the ranks need not find each other"
    alone = own(tmp_path, "import horovod.tensorflow as hvd\n")
    assert planned(site, alone, launcher="local", framework="none", **typed).launcher == "local"


def test_perlmutter_loads_the_module_of_the_framework(tmp_path: Path) -> None:
    site, typed = bundled_site("perlmutter"), {"account": "m1234", "nodes": 2}
    assert lines(planned(site, own(tmp_path, "import torch\n"), **typed)) == ["module load pytorch/2.8.0"]
    assert lines(planned(site, own(tmp_path, ""), launcher="torchrun", **typed)) == ["module load pytorch/2.8.0"]
    assert lines(planned(site, own(tmp_path, ""), framework="none", **typed)) == []
    assert lines(planned(site, bundled_job("cifar"), **typed)) == ["module load tensorflow/2.15.0"]


def test_a_node_type_may_have_software_of_its_own() -> None:
    site = bundled_site("cori")
    for node_type, module in (("gpu", "tensorflow/gpu-2.2.0-py37"), ("knl", "tensorflow/intel-1.13.1-py36")):
        spec = planned(site, bundled_job("cifar"), node_type=node_type, account="m1")
        assert lines(spec)[-1] == f"module load {module}"


def test_third_party_software_is_marked_where_a_script_uses_it() -> None:
    site, typed = bundled_site("marconi100"), {"account": "m1"}
    for framework in ("tensorflow", "none"):
        spec = planned(site, a_job(framework=framework), **typed)
        assert ("frameworks.tensorflow" in str(spec.unverified)) is (framework == "tensorflow")


@pytest.mark.parametrize(
    ("text", "packages"),
    [
        ("import os, torch\nimport torch.nn\n", ("torch",)),
        ("import tensorflow as tf\nimport horovod.tensorflow as hvd\n", ("tensorflow", "horovod")),
        ("from hpclaunch import training\n", ("tensorflow", "horovod")),
        ("import torch\nfrom hpclaunch.training import on_pytorch as training\n", ("torch",)),
        ("import hpclaunch\n", ()),
        ("def later():\n    import jax\n", ()),
    ],
)
def test_a_script_needs_the_packages_that_it_imports(tmp_path: Path, text: str, packages: tuple[str, ...]) -> None:
    assert planned(SITE, own(tmp_path, text)).packages == packages


def test_a_job_needs_its_frameworks_package_and_horovod_if_hpclaunch_trains_it() -> None:
    assert planned(SITE, bundled_job("cifar")).packages == ("tensorflow", "horovod")
    assert planned(SITE, bundled_job("cifar"), strategy="multiworker").packages == ("tensorflow",)
    assert planned(SITE, bundled_job("ddp")).packages == ("torch",)
    assert planned(SITE, a_job(framework="tensorflow")).packages == ("tensorflow",)
    assert planned(SITE, a_job()).packages == ()
    assert planned(SITE, a_job(framework="pytorch", script=None, command=("run",))).packages == ()


def test_a_job_needs_the_packages_that_its_file_names_beside_its_framework() -> None:
    assert planned(SITE, a_job(framework="none", packages=("camb", "numpy"))).packages == ("camb", "numpy")
    assert planned(SITE, a_job(framework="pytorch", packages=("torch", "h5py"))).packages == ("torch", "h5py")


_SITES = [bundled_site(found.name) for found in BUNDLED.names(SITE_FAMILY)]
PRODUCTION = [site.name for site in _SITES if site.status == "production" and site.scheduler != "local"]
TYPED = {"account": "m1234", "nodes": 1, "tasks_per_node": 1}


def software_and_next_step(spec: JobSpec) -> list[str]:
    """The lines that name the software of a framework with its source, or say what to do."""
    told = [f"{one.value} from {one.origin}" for one in spec.choices if one.key == "software"]
    return told + [text for text in spec.warnings if "hpclaunch environment make" in text]


@pytest.mark.parametrize("name", PRODUCTION)
def test_a_program_that_imports_no_framework_gets_none_at_any_site(tmp_path: Path, name: str) -> None:
    site = bundled_site(name)
    for text in ("print(1)\n", "import os, sys\nimport numpy as np\n", "from math import pi\n"):
        spec = planned(site, own(tmp_path, text, "hello.py"), **TYPED, partition=_first(site))
        assert stated(spec) == ("none", "imports none")
        node = site.node_types[spec.node_type]
        general = (node.environment or site.environment).modules
        assert [line for line in lines(spec) if line.startswith("module")] == [f"module load {one}" for one in general]
        assert software_and_next_step(spec) == []


@pytest.mark.parametrize(
    ("text", "framework"),
    [("import torch\n", "pytorch"), ("import tensorflow\n", "tensorflow"), ("import jax\n", "jax")],
)
@pytest.mark.parametrize("name", PRODUCTION)
def test_a_program_of_a_framework_is_told_its_software_or_what_to_do(
    tmp_path: Path, name: str, text: str, framework: str
) -> None:
    site = bundled_site(name)
    spec = planned(site, own(tmp_path, text), **TYPED, partition=_first(site))
    (told,) = software_and_next_step(spec)
    assert "\n" not in told
    if "hpclaunch environment make" in told:
        assert f"--framework {framework}" in told
    else:
        assert f" from site {name}: " in told and ", " in told.partition(": ")[2] and "no source" not in told


def _first(site: Site) -> str | None:
    """A partition where the site has no usual one."""
    return site.defaults.partition or (next(iter(site.partitions), None) if "partition" in site.required else None)
