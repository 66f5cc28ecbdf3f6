"""``environment make|list|show|remove``, with real builds: pip installs a small wheel from a folder."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import PATIENCE, Desk

MADE = "home/.local/share/hpclaunch/environments/mine"


def write_wheel(folder: Path, name: str = "torch", version: str = "9.9", code: str = "") -> Path:
    """Write a wheel with one module of that name."""
    files = {
        f"{name}/__init__.py": f"__version__ = {version!r}\n{code}",
        f"{name}-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{name}-{version}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    listed = [*files, f"{name}-{version}.dist-info/RECORD"]
    files[listed[-1]] = "".join(f"{path},,\n" for path in listed)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as packed:
        for inside, text in files.items():
            packed.writestr(inside, text)
    return path


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def bench(desk: Desk) -> Desk:
    """A desk at this machine with a folder of wheels, `wheels`, and the tools that a build needs."""
    for tool in ("uname", "dirname", "basename", "cp"):
        found = shutil.which(tool)
        assert found
        (desk.root / "tools" / tool).symlink_to(found)
    write_wheel(desk.project / "wheels")
    write_wheel(desk.project / "wheels", "numpy")
    desk.environment |= {"HPCLAUNCH_SITE": "local", "PIP_CONFIG_FILE": os.devnull}  # not what this machine tells pip
    return desk


def make(*words: str) -> tuple[str, ...]:
    return ("environment", "make", "mine", "--framework", "pytorch", "--wheelhouse", "wheels", *words)


def test_an_environment_is_built_recorded_listed_and_removed(bench: Desk) -> None:
    folder = bench.root / "else where/mine"
    words = make("--prefix", str(folder.parent))
    printed = bench.type(*words, "--dry-run")
    assert (printed.code, folder.exists()) == (0, False)
    done = bench.type(*words, "--json")
    assert done.code == 0, done.err
    assert (done.json["state"], done.json["environment"]) == ("complete", str(folder / "1" / "env"))
    assert "pytorch 9.9 works with Python" in done.err
    assert (folder / "1/build.sh").read_text() == printed.out

    built, recipe = (json.loads((folder / "1" / name).read_text()) for name in ("built.json", "recipe.json"))
    record = next((folder / "1/env/lib").glob("python3*/site-packages/torch-9.9.dist-info/RECORD"))
    assert built["packages"]["torch"] == {"version": "9.9", "record_sha256": sha256(record)}
    assert built["freeze_sha256"] == sha256(folder / "1/freeze.txt")
    assert recipe["script_sha256"] == sha256(folder / "1/build.sh")

    again = bench.type(*words)
    assert (again.code, "--again" in again.err) == (1, True)
    elsewhere = bench.type(*make())
    assert (elsewhere.code, f"an environment mine is in {folder} already" in elsewhere.err) == (1, True)
    assert bench.type(*words, "--again").code == 0
    listed = bench.type("environment", "list", "--json").json["environments"]
    assert [(one["name"], one["number"], one["state"]) for one in listed] == [("mine", 2, "complete")]
    shown = bench.type("environment", "show", "mine")
    assert "pytorch 9.9" in shown.out and str(folder / "2/env") in shown.out
    unknown = bench.type("environment", "show", "mime")
    assert (unknown.code, "did you mean 'mine'?; allowed: mine" in unknown.err) == (1, True)

    bench.write("train.py", "import torch\nprint('trained with', torch.__file__)\n")
    run = bench.type("submit", "./train.py", "--environment", "mine", "--tasks-per-node", "1", "--wait")
    assert run.code == 0, run.err
    assert f"trained with {folder / '2/env/lib'}" in run.err + run.out

    kept = bench.type("environment", "remove", "mine")
    assert (kept.code, (folder / "2").exists()) == (1, True)
    assert bench.type("environment", "remove", "mine", "--earlier", "--yes").code == 0
    assert os.listdir(folder) == ["2"]
    removed = bench.type("environment", "remove", "mine", "--yes", "--json")
    assert (removed.json["removed"], folder.exists()) == ([str(folder / "2")], False)
    assert bench.type("environment", "list", "--json").json["environments"] == []


def test_a_failed_build_keeps_its_log_and_nothing_that_looks_complete(bench: Desk) -> None:
    done = bench.type(*make("--package", "no-such-package"))
    folder = bench.root / MADE / "1"
    assert done.code == 1
    assert "pip could not install the packages" in done.err
    assert "No matching distribution found for no-such-package" in done.err
    assert sorted(os.listdir(folder)) == ["build.log", "build.sh", "failed", "recipe.json"]
    assert bench.type("environment", "list", "--json").json["environments"][0]["state"] == "failed"
    # A failure does not take the name.
    assert bench.type(*make("--dry-run", "--json")).json["folder"] == str(folder.with_name("2"))


def test_a_framework_that_cannot_be_imported_is_no_environment(bench: Desk) -> None:
    write_wheel(bench.project / "wheels", code="raise OSError('no libcudart.so')")
    done = bench.type(*make())
    assert (done.code, "the environment does not work" in done.err) == (1, True)
    assert "no libcudart.so" in done.err
    assert not (bench.root / MADE / "1/env").exists()


def test_a_framework_for_other_gpus_than_the_nodes_have_is_refused(bench: Desk) -> None:
    site = "{title: x, scheduler: local, defaults: {node_type: g}, node_types: {g: {title: x, MODEL}}}"
    bench.write("site_configs/gpus.yaml", site.replace("MODEL", "gpus_per_node: 4, gpu_model: NVIDIA A100"))
    bench.write("site_configs/some.yaml", site.replace("MODEL", "gpus_per_node: 4"))
    write_wheel(bench.project / "wheels", code="class version:\n    cuda = None\n")
    done = bench.type(*make("--site", "gpus"))
    assert (done.code, "is not made for GPUs of nvidia" in done.err) == (1, True)
    unknown = bench.type(*make("--site", "some", "--dry-run"))
    assert (unknown.code, unknown.out) == (1, "")
    assert "some: node_types.g.gpu_model: the file names no GPU model" in unknown.err


@pytest.mark.parametrize(
    ("flag", "path", "words"),
    [
        ("--wheelhouse", "nowhere", "--wheelhouse: there is no {project}/nowhere"),
        ("--find-links", "nowhere", "--find-links: there is no {project}/nowhere"),
        ("--python", "/nonexistent/python", "--python: there is no program /nonexistent/python"),
        ("--python", "wheels/numpy-9.9-py3-none-any.whl", "--python: there is no program {project}/wheels/numpy"),
    ],
)
def test_a_path_that_is_not_there_is_refused_before_anything_is_made(
    bench: Desk, flag: str, path: str, words: str
) -> None:
    typed = ("environment", "make", "mine", "--framework", "pytorch", flag, path)
    for more in (("--dry-run",), ()):
        done = bench.type(*typed, *more)
        assert (done.code, words.format(project=bench.project) in done.err) == (1, True), done.err
    assert not (bench.root / MADE).exists()
    # At another site this machine cannot know.
    elsewhere = bench.type(*typed, "--dry-run", "--site", "perlmutter", "--prefix", "/global/environments")
    assert (elsewhere.code, "warning: this machine: " in elsewhere.err) == (0, True), elsewhere.err


def test_a_stopped_build_leaves_nothing_that_looks_complete(bench: Desk) -> None:
    waits = f"import time\nopen({str(bench.spool / 'begun')!r}, 'w').close()\ntime.sleep({PATIENCE})"
    write_wheel(bench.project / "wheels", code=waits)
    process = bench.start(*make())
    deadline = time.monotonic() + PATIENCE
    while not (bench.spool / "begun").exists():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.05)
    second = bench.type(*make())
    assert (second.code, "is being built by process" in second.err) == (1, True)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, "the build was stopped" in err) == (130, True)
    assert sorted(os.listdir(bench.root / MADE / "1")) == [
        "build.log",
        "build.sh",
        "failed",
        "freeze.txt",
        "recipe.json",
    ]


def test_the_folder_is_the_typed_one_else_that_of_the_variable(bench: Desk) -> None:
    named = bench.type(*make("--dry-run", "--json"), HPCLAUNCH_ENVIRONMENTS=str(bench.root / "all"))
    assert named.json["folder"] == str(bench.root / "all/mine/1")
    typed = bench.type(*make("--dry-run", "--json", "--prefix", "here"), HPCLAUNCH_ENVIRONMENTS="all")
    assert typed.json["folder"] == str(bench.project / "here/mine/1")


@pytest.mark.parametrize(
    ("words", "variable", "told"),
    [
        (("--prefix", "$NOPE/envs"), "", "--prefix: '$NOPE/envs' contains $NOPE, which is not set"),
        (("--prefix", ""), "", "--prefix: the text is empty; allowed: a folder"),
        ((), "${NOPE}/envs", "HPCLAUNCH_ENVIRONMENTS: '${NOPE}/envs' contains $NOPE, which is not set"),
    ],
)
def test_a_folder_of_ones_own_that_is_not_known_is_refused(
    bench: Desk, words: tuple[str, ...], variable: str, told: str
) -> None:
    done = bench.type(*make("--dry-run", *words), HPCLAUNCH_ENVIRONMENTS=variable)
    assert (done.code, told in done.err) == (2, True), done.err


def test_scratch_is_named_with_what_the_centre_says(bench: Desk) -> None:
    done = bench.type(
        *("environment", "make", "mine", "--framework", "jax", "--site", "anvil", "--dry-run"),
        *("--prefix", "/anvil/scratch/ada/environments"),
        SCRATCH="/anvil/scratch/ada",
    )
    assert "on scratch storage. anvil deletes files there that were not used for 30 days" in done.err


def test_an_environment_is_built_at_its_own_site_only(bench: Desk) -> None:
    done = bench.type(*make("--site", "perlmutter", "--prefix", "/global/environments"))
    assert (done.code, "must be built there" in done.err, "--dry-run" in done.err) == (1, True, True)


def test_what_hpclaunch_did_not_make_is_not_removed(bench: Desk) -> None:
    folder = bench.root / "home/.local/share/hpclaunch/environments/mine/1"
    folder.mkdir(parents=True)
    (folder / "thesis.txt").write_text("x")
    done = bench.type("environment", "remove", "mine", "--yes")
    assert (done.code, (folder / "thesis.txt").exists()) == (1, True)


def test_the_script_runs_without_hpclaunch(bench: Desk) -> None:
    printed = bench.type(*make("--dry-run"))
    folder = bench.root / MADE / "1"
    folder.mkdir(parents=True)
    (folder / "build.sh").write_text(printed.out)
    variables = {name: bench.environment[name] for name in ("PATH", "HOME", "PIP_CONFIG_FILE")}
    done = subprocess.run(
        ["bash", str(folder / "build.sh")], env=variables, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    words = [str(folder / "env/bin/python"), "-c", "import torch; print(torch.__version__)"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "9.9\n"
    assert sys.version_info[:2] == tuple(
        map(int, json.loads((folder / "built.json").read_text())["python"].split(".")[:2])
    )


# --- submit --environment


def an_environment(desk: Desk, site: str = "slurmsite", **facts: object) -> Path:
    """Write down a build as `environment make` leaves it, without building anything."""
    folder = desk.home / ".local/share/hpclaunch/environments/mine/1"
    library = folder / "env/lib/python3.11/site-packages"
    (library / "torch").mkdir(parents=True)
    (folder / "env/bin").mkdir()
    (folder / "env/bin/python").symlink_to(sys.executable)
    (folder / "env/bin/activate").write_text("")
    (folder / "env/pyvenv.cfg").write_text("home = /usr/bin\n")
    recipe = {"format": 1, "framework": "pytorch", "site": site, "make_with": "venv", "modules": [], "setup": []}
    (folder / "recipe.json").write_text(json.dumps({**recipe, **facts}))
    (folder / "built.json").write_text(json.dumps({"format": 1, "version": "9.9"}))
    return folder


SUBMIT = ("submit", "./train.py", "--nodes", "1", "--environment", "mine")


@pytest.fixture
def at_a_cluster(cluster: Desk) -> Desk:
    cluster.write("train.py", "import torch\n")
    return cluster


def test_a_script_loads_what_the_environment_was_built_with_and_activates_it(at_a_cluster: Desk) -> None:
    folder = an_environment(at_a_cluster, modules=["python/3.12", "rocm"], setup=["export LIBRARY=1"])
    done = at_a_cluster.type(*SUBMIT, "--dry-run")
    assert done.code == 0, done.err
    place = [
        done.out.index(text) for text in ("module load python/3.12", "module load rocm", f"source {folder}/env/bin")
    ]
    assert place == sorted(place)
    assert "export LIBRARY=1" in done.out
    assert f"--environment {folder}" in at_a_cluster.type(*SUBMIT, "--dry-run", "-v").err
    conda = an_environment_of_conda(folder)
    assert f"conda activate {conda}" in at_a_cluster.type(*SUBMIT, "--dry-run").out


def an_environment_of_conda(folder: Path) -> Path:
    recipe = json.loads((folder / "recipe.json").read_text())
    (folder / "recipe.json").write_text(json.dumps({**recipe, "make_with": "conda"}))
    (folder / "env/conda-meta").mkdir()
    return folder / "env"


def test_a_run_keeps_its_build_when_there_is_a_newer_one(at_a_cluster: Desk) -> None:
    folder = an_environment(at_a_cluster)
    run = at_a_cluster.type(*SUBMIT, "--json")
    assert run.code == 0, run.err
    shutil.copytree(folder, folder.with_name("2"), symlinks=True)
    assert f"source {folder}/env/bin" in at_a_cluster.type("rerun", "@1", "--dry-run").out
    assert f"source {folder.with_name('2')}/env/bin" in at_a_cluster.type(*SUBMIT, "--dry-run").out


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda folder: (folder / "built.json").unlink(), "its build is unfinished"),
        (lambda folder: shutil.rmtree(folder / "env"), "its build is damaged"),
        (lambda folder: (folder / "env/lib/python3.11/site-packages/torch").rmdir(), "has no torch, which train needs"),
        (lambda folder: point_to(folder / "env/bin/python", "/opt/python/gone"), "is no longer there"),
    ],
)
def test_an_environment_that_cannot_work_is_refused_before_the_queue(
    at_a_cluster: Desk, spoil: Callable[[Path], None], words: str
) -> None:
    spoil(an_environment(at_a_cluster))
    done = at_a_cluster.type(*SUBMIT)
    assert (done.code, words in done.err) == (1, True), done.err
    assert not (at_a_cluster.spool / "sbatch.args").exists()


def point_to(link: Path, target: str) -> None:
    link.unlink()
    link.symlink_to(target)


def test_an_environment_for_another_processor_is_refused_before_the_queue(at_a_cluster: Desk) -> None:
    site = at_a_cluster.project / "site_configs/slurmsite.yaml"
    site.write_text(site.read_text().replace("cores_per_node: 8", "cores_per_node: 8, cpu: NVIDIA Grace"))
    folder = an_environment(at_a_cluster)
    (folder / "built.json").write_text(json.dumps({"format": 1, "version": "9.9", "machine": "x86_64"}))
    done = at_a_cluster.type(*SUBMIT)
    assert done.code == 1
    assert "the environment mine: it is for x86_64, and the cpu nodes of slurmsite are aarch64" in done.err
    assert not (at_a_cluster.spool / "sbatch.args").exists()
    shown = at_a_cluster.type(*SUBMIT, "--dry-run")  # the script may be for another machine
    assert (shown.code, "warning: the environment mine: it is for x86_64" in shown.err) == (0, True)


def test_an_environment_of_another_site_is_refused(at_a_cluster: Desk) -> None:
    an_environment(at_a_cluster, site="perlmutter")
    done = at_a_cluster.type(*SUBMIT)
    assert (done.code, "it was built for perlmutter, and this run is for slurmsite" in done.err) == (1, True)


def test_an_unknown_environment_is_refused_with_the_known_ones(at_a_cluster: Desk) -> None:
    an_environment(at_a_cluster)
    done = at_a_cluster.type("submit", "./train.py", "--environment", "mime")
    assert (done.code, "did you mean 'mine'?; allowed: mine" in done.err) == (1, True)


def test_an_environment_that_others_can_change_is_not_used(at_a_cluster: Desk) -> None:
    folder = an_environment(at_a_cluster)
    (folder / "recipe.json").chmod(0o666)
    done = at_a_cluster.type(*SUBMIT)
    assert (done.code, "others can change it" in done.err) == (1, True)


def test_only_one_python_can_be_named(at_a_cluster: Desk) -> None:
    done = at_a_cluster.type(*SUBMIT, "--venv", "x")
    assert (done.code, "--venv and --environment: cannot be used together" in done.err) == (2, True)


# --- in a job


def test_a_build_is_submitted_as_one_task_with_its_script(at_a_cluster: Desk) -> None:
    write_wheel(at_a_cluster.project / "wheels")
    folder = at_a_cluster.root / MADE / "1"
    done = at_a_cluster.type(*make("--as-job", "--prefix", str(folder.parents[1]), "--walltime", "0:05:00"))
    assert done.code == 0, done.err
    script = (at_a_cluster.spool / "script").read_text()
    assert "/bin/bash" in script and f"{folder}/build.sh" in script
    assert "#SBATCH --nodes=1" in script and "#SBATCH --time=00:05:00" in script
    assert sorted(os.listdir(folder)) == ["build.sh", "recipe.json"]
    assert "hpclaunch doctor --environment mine" in done.err


def test_a_centre_that_builds_in_jobs_gets_one_unless_it_is_declined(at_a_cluster: Desk) -> None:
    site = (at_a_cluster.project / "site_configs/slurmsite.yaml").read_text()
    at_a_cluster.write("site_configs/slurmsite.yaml", f"{site}\nrecipes: {{pytorch: {{kind: venv, in_job: true}}}}\n")
    write_wheel(at_a_cluster.project / "wheels")
    assert at_a_cluster.type(*make("--walltime", "9:00:00:00:00")).code == 2
    assert at_a_cluster.type(*make()).code == 0
    assert (at_a_cluster.spool / "script").exists()


def test_nothing_is_built_here_for_nodes_of_another_processor(at_a_cluster: Desk) -> None:
    site = (at_a_cluster.project / "site_configs/slurmsite.yaml").read_text()
    cpu = "AMD EPYC" if os.uname().machine == "aarch64" else "NVIDIA Grace"
    at_a_cluster.write("site_configs/slurmsite.yaml", site.replace("title: x,", f"title: x, cpu: {cpu},"))
    write_wheel(at_a_cluster.project / "wheels")
    refused = at_a_cluster.type(*make())
    assert refused.code != 0
    assert "what it builds cannot run there" in refused.err and "--as-job" in refused.err
    assert at_a_cluster.type(*make("--as-job")).code == 0


# --- doctor and plan

TORCH = """
class version:
    cuda = None
class cuda:
    @staticmethod
    def device_count():
        return 0
"""
"""A torch that says what it is, and cannot join ranks: doctor finds the first, and the second."""


def verdicts(report: Any) -> dict[str, str]:
    return {check["name"]: check["verdict"] for check in report["checks"]}


def test_doctor_tests_the_framework_that_the_environment_was_made_for(bench: Desk) -> None:
    write_wheel(bench.project / "wheels", code=TORCH)
    folder = bench.root / MADE / "1"
    made = bench.type(*make("--doctor"))
    assert made.code == 1, made.err
    kept = json.loads((folder / "doctor.json").read_text())
    (found,) = [check for check in kept["checks"] if check["name"] == "PyTorch"]
    assert (found["verdict"], "9.9, built for CPUs" in found["what"], kept["passed"]) == ("PASS", True, False)
    assert verdicts(kept)["MPI"] == "FAIL" and "TensorFlow" not in verdicts(kept)
    assert bench.type("environment", "list", "--json").json["environments"][0]["state"] == "complete"

    (folder / "doctor.json").unlink()
    done = bench.type("doctor", "--environment", "mine", "--json")
    assert (done.code, verdicts(done.json)["PyTorch"]) == (1, "PASS")
    assert verdicts(json.loads((folder / "doctor.json").read_text())) == verdicts(done.json)
    shown = bench.type("environment", "show", "mine", "--json").json
    assert shown["doctor"]["passed"] is False
    unknown = bench.type("doctor", "--environment", "nine")
    assert (unknown.code, "there is no environment 'nine'" in unknown.err) == (1, True)


def test_a_plan_can_name_an_environment(at_a_cluster: Desk) -> None:
    folder = an_environment(at_a_cluster)
    done = at_a_cluster.type("plan", "ddp", "--nodes", "2", "--environment", "mine", "--json")
    assert done.code == 0, done.err
    unknown = at_a_cluster.type("plan", "ddp", "--environment", "nine")
    assert (unknown.code, "there is no environment 'nine'" in unknown.err) == (1, True)
    shutil.rmtree(folder / "env")
    gone = at_a_cluster.type("plan", "ddp", "--environment", "mine")
    assert (gone.code, "its build is damaged" in gone.err) == (1, True)


# --- in a container

APPTAINER = """#!/bin/bash
# A stand-in: an image is a link to a virtual environment that has a torch, and runs on this machine.
printf '%s\\n' "$*" >> {calls}
case $1 in
  build) {python} -m venv "$2.d" && {python} -m pip --python "$2.d" install -q --no-index --find-links {wheels} torch &&
    echo "$3" > "$2" ;;
  exec) shift; while [[ $1 == --* ]]; do shift; [[ $1 == *.sif ]] || shift; done
    image=$1; shift; PATH="$image.d/bin:$PATH" "$@" ;;
esac
"""


REGISTER = """#!/bin/bash
# A stand-in for a centre's own command: it takes an image into the folder of those that may run.
[ "$1" = cp ] || exit 2
[ -f "$2" ] || exit 3
mkdir -p {allowed} && cp -r "$2" "$2.d" {allowed}
"""


def test_an_image_is_copied_into_the_folder_of_the_allowed_ones(bench: Desk) -> None:
    container = "{runtime: apptainer, image_folder: $ALLOWED, register: register cp}"
    site = f"{{title: x, scheduler: local, container: {container}, defaults: {{node_type: n}}, NODES}}"
    bench.write("site_configs/boxes.yaml", site.replace("NODES", "node_types: {n: {title: x}}"))
    allowed = bench.root / "allowed images"
    calls = bench.spool / "apptainer"
    strict = APPTAINER.replace("image=$1; shift", 'image=$1; shift; [ "${{image%/*}}" = {allowed} ] || exit 9')
    values = {"calls": calls, "python": sys.executable, "wheels": bench.project / "wheels"}
    for name, text in {"apptainer": strict, "register": REGISTER}.items():
        (bench.root / "tools" / name).write_text(text.format(**values, allowed=f"'{allowed}'"))
        (bench.root / "tools" / name).chmod(0o755)
    bench.environment["ALLOWED"] = str(allowed)
    words = ("environment", "make", "boxed", "--framework", "pytorch", "--site", "boxes", "--image", "docker://m/t:1")
    missing = bench.type(*words)
    assert (missing.code, f"there is no folder {allowed} for images" in missing.err) == (1, True)
    allowed.mkdir()
    done = bench.type(*words, "--json")
    assert done.code == 0, done.err
    assert Path(done.json["environment"]).resolve() == allowed / "boxed-2.sif"
    assert sorted(os.listdir(Path(done.json["environment"]).parent)) == [
        *("boxed-2.sif.d", "build.log", "build.sh", "built.json", "freeze.txt", "image.sif", "recipe.json")
    ]

    bench.write("train.py", "import torch\nprint('trained with', torch.__file__)\n")
    place = ("submit", "./train.py", "--site", "boxes", "--tasks-per-node", "1", "--wait")
    run = bench.type(*place, "--environment", "boxed")
    assert run.code == 0, run.err
    assert f"trained with {allowed}/boxed-2.sif.d/lib" in run.err + run.out


def test_an_image_is_made_recorded_and_used_by_a_run(bench: Desk) -> None:
    site = "{title: x, scheduler: local, container: {runtime: apptainer}, defaults: {node_type: n}, RECIPE}"
    recipe = "node_types: {n: {title: x}}, recipes: {pytorch: {kind: container, image: 'docker://maker/torch:1'}}"
    bench.write("site_configs/boxes.yaml", site.replace("RECIPE", recipe))
    program = bench.root / "tools" / "apptainer"
    calls = bench.spool / "apptainer"
    values = {"calls": calls, "python": sys.executable, "wheels": bench.project / "wheels"}
    program.write_text(APPTAINER.format(**values))
    program.chmod(0o755)
    words = ("environment", "make", "boxed", "--framework", "pytorch", "--site", "boxes")
    done = bench.type(*words, "--json")
    assert done.code == 0, done.err
    image = bench.root / "home/.local/share/hpclaunch/environments/boxed/1/image.sif"
    assert (done.json["state"], done.json["environment"]) == ("complete", str(image))
    assert (image.read_text(), done.json["built"]["version"]) == ("docker://maker/torch:1\n", "9.9")
    assert "image" in bench.type("environment", "show", "boxed").out

    bench.write("train.py", "import torch\nprint('trained with', torch.__version__, torch.__file__)\n")
    run = bench.type(
        "submit", "./train.py", "--environment", "boxed", "--site", "boxes", "--tasks-per-node", "1", "--wait"
    )
    assert run.code == 0, run.err
    assert f"trained with 9.9 {image}.d/lib" in run.err + run.out
    assert calls.read_text().splitlines()[-1].startswith("exec --bind ")
    image.unlink()
    gone = bench.type("submit", "./train.py", "--environment", "boxed", "--site", "boxes")
    assert (gone.code, "its build is damaged" in gone.err) == (1, True)
