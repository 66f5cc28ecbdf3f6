"""Row 23: srun outside, container inside; each runtime's own way."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.config.data_sets import DataSet
from hpclaunch.config.fileformat import Environment, read
from hpclaunch.config.site import Container, LauncherOptions, Launchers, NodeCopies, Site
from hpclaunch.core.errors import Fault, InvalidFile
from hpclaunch.core.runtime_rows import RUNTIMES
from hpclaunch.core.spec import JobSpec
from hpclaunch.render import render
from hpclaunch.resolve import resolve
from tests.builders import CONTEXT, ROOTS, a_case, a_context, a_job, a_site, bundled_site, planned, refused

RUN, CWD = CONTEXT.run_dir, CONTEXT.cwd
IMAGE = "nersc/tensorflow:2.12"
RANK = ("python", f"{RUN}/code/train.py")


def boxed(runtime: Any, gpu_model: str | None = "NVIDIA A100", **changes: Any) -> Site:
    """A site that runs containers so, with GPUs of that make."""
    node = replace(a_site().node_types["gpu"], gpu_model=gpu_model)
    container = Container(runtime=runtime, **changes)
    return a_site(container=container, node_types={"gpu": node, "cpu": a_site().node_types["cpu"]})


def contained(site: Site, image: str = IMAGE, **typed: Any) -> JobSpec:
    return planned(site, a_job(environment=Environment(container=image)), **typed)


def reasons(site: Site, **typed: Any) -> list[Fault]:
    return refused(site, a_job(environment=Environment(container=IMAGE)), **typed)


def test_row_23_shifter_takes_image_and_modules_as_directives_and_stands_before_the_command() -> None:
    spec = contained(boxed("shifter", modules=("gpu", "nccl-plugin"), options=("--volume=/a:/b",)))
    assert ("image", IMAGE) in spec.directives
    assert ("module", "gpu,nccl-plugin") in spec.directives
    assert spec.command == ("shifter", "--volume=/a:/b", *RANK)


def test_row_23_shifter_without_modules_says_none() -> None:
    assert "module" not in dict(contained(boxed("shifter")).directives)


@pytest.mark.parametrize("runtime", ["apptainer", "singularity"])
@pytest.mark.parametrize(
    ("gpu_model", "typed", "gpu_flag"),
    [
        ("NVIDIA A100", {}, ("--nv",)),
        ("AMD MI250X (one of its two dies)", {}, ("--rocm",)),
        (None, {}, ("--nv",)),
        ("NVIDIA A100", {"node_type": "cpu"}, ()),
    ],
)
def test_row_23_apptainer_brings_the_gpu_libraries_of_the_host_in(
    runtime: str, gpu_model: str | None, typed: dict[str, Any], gpu_flag: tuple[str, ...]
) -> None:
    spec = contained(boxed(runtime, gpu_model, options=("--cleanenv",)), **typed)
    assert spec.command == (runtime, "exec", *gpu_flag, "--bind", RUN, "--cleanenv", IMAGE, *RANK)


def test_row_23_gpus_that_compute_nothing_need_no_libraries() -> None:
    site = boxed("apptainer")
    site = replace(site, node_types={"gpu": replace(site.node_types["gpu"], stand_in_gpus=True)})
    assert "--nv" not in contained(site).command


def test_row_23_the_data_folder_is_seen_inside() -> None:
    job = a_job(environment=Environment(container=IMAGE), data=DataSet(name="d", layouts=("train",)))
    command = planned(boxed("apptainer"), job, data_dir="/data/mine").command
    assert command[2:7] == ("--nv", "--bind", RUN, "--bind", "/data/mine")
    launch = planned(boxed("pyxis"), job, data_dir="/data/mine").launch
    assert f"--container-mounts={RUN}:{RUN},/data/mine:/data/mine" in launch


def test_row_23_under_pyxis_the_container_is_an_option_of_srun() -> None:
    spec = contained(boxed("pyxis", options=("--no-container-mount-home",)))
    assert spec.launch[0] == "srun"
    assert spec.launch[-5:] == (
        f"--container-image={IMAGE}",
        f"--container-mounts={RUN}:{RUN}",
        f"--container-workdir={RUN}",
        "--container-env=PYTHONUNBUFFERED,OMP_NUM_THREADS,PYTHONNOUSERSITE",
        "--no-container-mount-home",
    )
    assert spec.command == RANK


def test_row_23_under_pyxis_the_scripts_variables_win_over_the_images() -> None:
    job = a_job(environment=Environment(container=IMAGE, variables={"MY_OWN": "x"}), secret_env=("API_KEY",))
    (option,) = [word for word in planned(boxed("pyxis"), job).launch if word.startswith("--container-env=")]
    names = option.partition("=")[2].split(",")
    assert {"OMP_NUM_THREADS", "PYTHONNOUSERSITE", "MY_OWN", "API_KEY"} <= set(names)
    assert "=" not in option.partition("=")[2]  # names only: a value would be on every node's list of processes


def test_row_23_pyxis_needs_srun() -> None:
    (fault,) = reasons(boxed("pyxis"), launcher="mpirun")
    assert "containers are an option of srun, but the launcher is mpirun" in fault.what
    assert fault.next == "--launcher srun"


@pytest.mark.parametrize("runtime", sorted(RUNTIMES))
def test_row_23_srun_is_outside_and_the_mpi_type_is_the_containers(runtime: str) -> None:
    spec = contained(boxed(runtime, mpi="pmi2"))
    assert spec.launch[0] == "srun"
    assert [word for word in spec.launch if word.startswith("--mpi=")] == ["--mpi=pmi2"]
    lines = render(spec, ROOTS).splitlines()
    inside = next(n for n, line in enumerate(lines) if f"{RUN}/code/train.py" in line)
    outside = next(n for n, line in enumerate(lines) if line.startswith("launch srun "))
    assert inside < outside  # the rank's command stands in the function that srun starts


@pytest.mark.parametrize("runtime", sorted(RUNTIMES))
def test_row_23_without_an_mpi_type_of_its_own_the_sites_holds(runtime: str) -> None:
    assert "--mpi=pmix" in contained(boxed(runtime)).launch


def test_row_23_without_a_container_its_mpi_type_does_not_hold() -> None:
    assert "--mpi=pmix" in planned(boxed("shifter", mpi="pmi2")).launch


def test_row_23_how_containers_run_at_an_unknown_site_is_refused() -> None:
    (fault,) = reasons(a_site())
    assert str(fault).startswith("environment.container: the container runtime of cluster is not known")
    assert "container: {runtime: …}" in fault.next


def test_row_23_an_unknown_runtime_is_a_fault_of_the_file(tmp_path: Any) -> None:
    (tmp_path / "c.yaml").write_text("runtime: dcoker\n")
    with pytest.raises(
        InvalidFile, match="allowed: shifter, podman-hpc, container-engine, pyxis, apptainer, singularity"
    ):
        read(tmp_path / "c.yaml", Container)


@pytest.mark.parametrize("runtime", sorted(RUNTIMES))
@pytest.mark.parametrize("image", ["a b; rm -rf $(x) `x` 'y' \"z\"", "#x", "a,b:c"])
def test_row_23_an_image_with_hostile_text_stays_one_word(runtime: str, image: str) -> None:
    spec = contained(boxed(runtime), image)
    if runtime == "container-engine":
        assert edf_of(spec)["image"] == image
        return
    words = [*spec.command, *spec.launch, *dict(spec.directives).values()]
    assert [word for word in words if image in word] in ([image], [f"--container-image={image}"])


def test_a_program_in_a_container_is_not_looked_for_on_the_node_but_its_runtime_is() -> None:
    assert contained(boxed("apptainer")).interpreter == "apptainer"
    assert "need apptainer srun\n" in render(contained(boxed("apptainer")), ROOTS)
    assert contained(boxed("pyxis")).interpreter == ""
    assert planned(boxed("apptainer")).interpreter == "python3"


def test_row_23_podman_hpc_lets_in_what_the_rank_needs_and_nothing_else() -> None:
    site = boxed("podman-hpc", modules=("openmpi-pmix",), options=("--userns=keep-id",))
    job = a_job(environment=Environment(container=IMAGE, variables={"MY_OWN": "x"}), secret_env=("API_KEY",))
    command = planned(site, job).command
    assert command[:7] == ("podman-hpc", "run", "--rm", "--gpu", "--openmpi-pmix", "--volume", f"{RUN}:{RUN}")
    assert command[7:9] == ("--workdir", RUN)
    named = [command[n + 1] for n, word in enumerate(command) if word == "--env"]
    assert {"SLURM_*", "PMIX_*", "CUDA_VISIBLE_DEVICES", "HPCLAUNCH_*", "MY_OWN", "API_KEY"} <= set(named)
    assert not [word for word in named if "=" in word]  # values stay in the environment, secrets among them
    assert command[-len(RANK) - 2 :] == ("--userns=keep-id", IMAGE, *RANK)


def test_row_23_podman_hpc_asks_for_no_gpu_where_there_is_none() -> None:
    assert "--gpu" not in contained(boxed("podman-hpc"), node_type="cpu").command
    assert contained(boxed("podman-hpc", modules=("gpu", "mpi"))).command.count("--gpu") == 1


@pytest.mark.parametrize(
    ("runtime", "words"),
    [
        ("apptainer", ("--bind", CONTEXT.cwd)),
        ("podman-hpc", ("--volume", f"{CONTEXT.cwd}:{CONTEXT.cwd}", "--workdir", CONTEXT.cwd)),
        ("pyxis", (f"--container-mounts={RUN}:{RUN},{CWD}:{CWD}", f"--container-workdir={CWD}")),
    ],
)
def test_row_23_a_persons_own_script_begins_in_the_folder_where_it_was_submitted(
    runtime: str, words: tuple[str, ...]
) -> None:
    job = a_job(environment=Environment(container=IMAGE), source_only=True)
    spec = planned(boxed(runtime), job)
    assert spec.chdir == CONTEXT.cwd
    joined = "\0".join([*spec.command, *spec.launch])
    assert "\0".join(words) in joined


def test_row_23_packages_in_the_home_folder_do_not_win_over_the_images() -> None:
    assert ("PYTHONNOUSERSITE", "1") in contained(boxed("apptainer")).environment
    own = a_job(environment=Environment(container=IMAGE, variables={"PYTHONNOUSERSITE": ""}))
    assert ("PYTHONNOUSERSITE", "") in planned(boxed("apptainer"), own).environment
    assert "PYTHONNOUSERSITE" not in dict(planned(boxed("apptainer")).environment)


@pytest.mark.parametrize(
    ("typed", "image"),
    [
        ("$HOME/tf.sif", "/home/ada/tf.sif"),
        ("~/tf.sif", "/home/ada/tf.sif"),
        ("./tf.sif", f"{CONTEXT.cwd}/tf.sif"),
        ("docker://tensorflow/tensorflow:2.12.0", "docker://tensorflow/tensorflow:2.12.0"),
        ("nersc/tensorflow:2.12", "nersc/tensorflow:2.12"),
    ],
)
def test_row_23_an_image_in_a_file_is_found_from_where_it_was_submitted(typed: str, image: str) -> None:
    assert image in contained(boxed("apptainer"), typed).command


def test_row_23_one_key_in_the_site_does_for_every_job() -> None:
    site = replace(boxed("apptainer"), environment=Environment(container=IMAGE))
    assert planned(site).command[:2] == ("apptainer", "exec")


def test_a_container_works_under_another_launcher() -> None:
    launchers = Launchers(default="ibrun", options={"ibrun": LauncherOptions()})
    spec = contained(replace(boxed("apptainer"), launchers=launchers))
    assert spec.launch == ("ibrun",)
    assert spec.command[:2] == ("apptainer", "exec")


def with_torchrun(runtime: Any, **changes: Any) -> Site:
    launchers = Launchers(default="srun", options={name: LauncherOptions() for name in ("srun", "torchrun", "mpirun")})
    return replace(boxed(runtime, **changes), launchers=launchers)


TORCHRUN: dict[str, Any] = {"framework": "pytorch", "nodes": 2, "launcher": "torchrun"}


@pytest.mark.parametrize("runtime", ["apptainer", "singularity", "shifter"])
def test_torchrun_is_that_of_the_image_on_every_node_and_the_ranks_start_inside(runtime: str) -> None:
    spec = contained(with_torchrun(runtime, options=("--own",)), **TORCHRUN)
    inside = spec.launch[spec.launch.index(runtime) :]
    binds = () if runtime == "shifter" else ("exec", "--nv", "--bind", RUN)
    image = () if runtime == "shifter" else (IMAGE,)
    ranks = ("torchrun", "--nnodes=2", "--nproc_per_node=4", "--rdzv_backend=c10d", "--no_python")
    assert inside == (runtime, *binds, "--own", *image, *ranks)
    assert "--ntasks-per-node=1" in spec.launch[: spec.launch.index(runtime)]
    assert spec.command == RANK
    lines = render(spec, ROOTS).splitlines()
    assert f"need {runtime} srun" in lines  # torchrun is looked for in the image alone
    assert "set_rendezvous" in lines


def test_under_pyxis_torchrun_starts_in_the_container_of_its_step() -> None:
    spec = contained(with_torchrun("pyxis"), **TORCHRUN)
    assert f"--container-image={IMAGE}" in spec.launch[: spec.launch.index("torchrun")]
    assert (spec.command, spec.interpreter) == (RANK, "")
    assert "need srun" in render(spec, ROOTS).splitlines()


def test_torchrun_learns_the_address_of_a_fast_network_before_it_enters_the_container() -> None:
    spec = contained(replace(with_torchrun("apptainer"), address_suffix="i"), **TORCHRUN)
    place = [spec.launch.index(word) for word in ("-c", "apptainer", "torchrun")]
    assert place == sorted(place)


def test_where_containers_have_host_names_of_their_own_torchrun_is_refused() -> None:
    (fault,) = refused(with_torchrun("podman-hpc"), a_job(environment=Environment(container=IMAGE)), **TORCHRUN)
    assert fault.what.startswith("torchrun cannot start in containers of podman-hpc: podman gives a container a host")
    assert fault.next.startswith("--launcher srun")


def test_an_image_whose_torchrun_starts_the_ranks_is_not_copied_to_the_nodes() -> None:
    site = replace(with_torchrun("apptainer"), broadcast=NodeCopies(to="/tmp"))
    job = a_job(environment=Environment(container="/images/tf.sif"))
    assert planned(site, job, **{**TORCHRUN, "launcher": "srun"}, broadcast=True).broadcast
    (fault,) = refused(site, job, **TORCHRUN, broadcast=True)
    assert fault.what == "torchrun starts in the image itself, before a rank could take a copy"


@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_other_launchers_start_outside_and_the_container_stands_before_the_command(launcher: str) -> None:
    spec = contained(with_torchrun("apptainer"), **{**TORCHRUN, "launcher": launcher})
    assert spec.command[:2] == ("apptainer", "exec") and "apptainer" not in spec.launch


def edf_of(spec: JobSpec) -> dict[str, Any]:
    """The file that the script writes for the Container Engine, as a reader of TOML has it."""
    if sys.version_info < (3, 11):
        pytest.skip("group python: Python 3.11 has the reader of TOML")
    import tomllib

    (line,) = [line for line in spec.before_launch if line.startswith("write_file ")]
    _, path, *lines = shlex.split(line.replace("\\\n", " "))
    assert f"--environment={path}" in spec.launch
    assert path == f"{RUN}/container.toml"
    return tomllib.loads("\n".join(lines))


def test_the_container_engine_reads_a_file_that_the_script_writes() -> None:
    annotations = {"com.hooks.aws_ofi_nccl.enabled": "true", "com.hooks.aws_ofi_nccl.variant": "cuda-dl"}
    site = replace(
        boxed("container-engine", annotations=annotations), environment=Environment(variables={"NCCL_NET": "Libfabric"})
    )
    mine = {"MY_OWN": 'a "b" \\ ${HOME}\n', "NCCL_DEBUG": "INFO"}
    job = a_job(environment=Environment(container=IMAGE, variables=mine), secret_env=("API_KEY",))
    spec = planned(site, job)
    edf = edf_of(spec)
    assert (edf["image"], edf["mounts"], edf["workdir"]) == (IMAGE, [f"{RUN}:{RUN}"], RUN)
    assert edf["annotations"]["com"]["hooks"]["aws_ofi_nccl"] == {"enabled": "true", "variant": "cuda-dl"}
    assert edf["env"]["MY_OWN"] == 'a "b" \\ $${HOME}\n'  # $$ keeps the engine from replacing it
    assert {"PYTHONUNBUFFERED", "OMP_NUM_THREADS", "PYTHONNOUSERSITE", "NCCL_DEBUG"} <= set(edf["env"])
    # The engine's hook sets the network's variables; those of hpclaunch are in no image, and a secret in no file.
    assert not [name for name in edf["env"] if name.startswith("HPCLAUNCH_") or name in ("NCCL_NET", "API_KEY")]
    assert spec.command == RANK
    lines = render(spec, ROOTS).splitlines()
    assert f"check 'writing {RUN}/container.toml'" in lines
    assert not [word for word in dict(spec.directives) if word == "environment"]  # CSCS advises against the directive


def test_the_container_engine_needs_srun_and_starts_torchrun_inside() -> None:
    site = with_torchrun("container-engine")
    (fault,) = refused(site, a_job(environment=Environment(container=IMAGE)), launcher="mpirun")
    assert "containers are an option of srun" in fault.what
    spec = contained(site, **TORCHRUN)
    assert spec.launch.index(f"--environment={RUN}/container.toml") < spec.launch.index("torchrun")


@pytest.mark.parametrize("name", ["clariden", "daint_alps"])
def test_alps_runs_an_image_in_its_container_engine(name: str) -> None:
    job = a_job(environment=Environment(container="nvcr.io#nvidia/pytorch:25.11-py3"), framework="pytorch")
    spec = planned(bundled_site(name), job, account="a1", nodes=2)
    edf = edf_of(spec)
    assert edf["image"] == "nvcr.io#nvidia/pytorch:25.11-py3"
    assert edf["annotations"]["com"]["hooks"]["aws_ofi_nccl"] == {"enabled": "true", "variant": "cuda-dl"}
    assert not [value for key, value in spec.directives if key in ("uenv", "view")]  # never both


def test_row_23_perlmutters_shifter_and_lumis_singularity() -> None:
    shifter = contained(bundled_site("perlmutter"), account="m1")
    assert {("image", IMAGE), ("module", "gpu,nccl-plugin")} <= set(shifter.directives)
    assert "--mpi=pmi2" in shifter.launch
    lumi = contained(bundled_site("lumi"), account="m1", data_dir="/scratch/project_1/data")
    assert lumi.command[:3] == ("singularity", "exec", "--rocm")


def modules_of(spec: JobSpec) -> list[str]:
    return [step.line.removeprefix("module load ") for step in spec.steps if step.line.startswith("module load ")]


def test_the_modules_that_bring_the_runtime_are_loaded_with_a_container_alone() -> None:
    site = boxed("apptainer", load=("Release/1", "apptainer/1.3"))
    spec = contained(site)
    assert modules_of(spec) == ["Release/1", "apptainer/1.3"]
    assert ("Release/1 apptainer/1.3", "site cluster, for its containers") in [
        (one.value, one.origin) for one in spec.choices
    ]
    assert modules_of(planned(site)) == []
    own = a_job(environment=Environment(container=IMAGE, modules=("gcc", "apptainer/1.3")))
    assert modules_of(planned(site, own)) == ["Release/1", "gcc", "apptainer/1.3"]


@pytest.mark.parametrize("name", ["dardel", "expanse", "fir", "frontier", "jean_zay", "meluxina", "setonix"])
def test_at_a_site_whose_runtime_is_a_module_an_image_of_ones_own_gets_it(name: str) -> None:
    site = bundled_site(name)
    assert site.container is not None
    context = a_context(environment={"SINGULARITY_ALLOWED_DIR": "/images"})
    spec, _ = resolve(a_case(site, a_job(environment=Environment(container="/images/tf.sif")), context=context))
    assert modules_of(spec)[: len(site.container.load)] == list(site.container.load)


def only_from(folder: str = "$ALLOWED") -> Site:
    return boxed("singularity", load=("singularity",), image_folder=folder, register="register cp")


MAKE = "NAME --framework FRAMEWORK"
HAS_FOLDER = a_context(environment={"ALLOWED": "/images/ada"})


@pytest.mark.parametrize(
    ("image", "what", "next_"),
    [
        (
            "/home/ada/my tf.sif",
            "cluster runs images from $ALLOWED alone, and /home/ada/my tf.sif is elsewhere",
            "module load singularity; register cp '/home/ada/my tf.sif'; then 'container: $ALLOWED/my tf.sif'",
        ),
        (
            "docker://maker/tf:1",
            "cluster runs images from $ALLOWED alone, and 'docker://maker/tf:1' is no file",
            f"hpclaunch environment make {MAKE} --image docker://maker/tf:1, then --environment NAME",
        ),
        ("/images/adam/tf.sif", "cluster runs images from $ALLOWED alone, and /images/adam/tf.sif is elsewhere", ""),
        ("$NOWHERE/tf.sif", "the image '$NOWHERE/tf.sif' contains $NOWHERE, which is not set in this shell", ""),
    ],
)
def test_an_image_from_another_folder_than_the_allowed_one_is_refused(image: str, what: str, next_: str) -> None:
    (fault,) = refused(only_from(), a_job(environment=Environment(container=image)), context=HAS_FOLDER)
    assert (fault.where, fault.what) == ("environment.container", what)
    assert fault.next == next_ or not next_


def test_an_image_in_the_allowed_folder_runs_and_is_not_copied_to_the_nodes() -> None:
    job = a_job(environment=Environment(container="$ALLOWED/tf.sif"))
    assert "/images/ada/tf.sif" in planned(only_from(), job, context=HAS_FOLDER).command
    site = replace(only_from(), broadcast=NodeCopies(to="/tmp"))
    (fault,) = refused(site, job, context=HAS_FOLDER, broadcast=True)
    assert fault.what == "cluster runs images from $ALLOWED alone"


def test_where_the_allowed_folder_is_not_set_here_an_image_is_only_warned_of() -> None:
    job = a_job(environment=Environment(container="/images/ada/tf.sif"))
    (told,) = [text for text in planned(only_from(), job).warnings if "alone" in text]
    assert told == (
        "cluster runs images from $ALLOWED alone; it is not set in this shell, so /images/ada/tf.sif was not looked "
        "for there"
    )


def test_a_folder_for_images_needs_its_command(tmp_path: Any) -> None:
    (tmp_path / "c.yaml").write_text("runtime: singularity\nimage_folder: $ALLOWED\n")
    with pytest.raises(InvalidFile, match="'image_folder' and 'register' belong together"):
        read(tmp_path / "c.yaml", Container)


@pytest.mark.parametrize("runtime", ["apptainer", "singularity", "pyxis"])
@pytest.mark.parametrize("folder", ["/runs/a,b", "/runs/a:b"])
def test_a_folder_that_the_runtime_would_take_apart_is_refused(runtime: str, folder: str) -> None:
    (fault,) = reasons(boxed(runtime), context=a_context(run_dir=folder))
    assert fault.what == f"{runtime} would split {folder!r} at a comma or a colon"


def test_a_folder_with_a_blank_is_bound_as_one_word() -> None:
    spec = contained(boxed("apptainer"), context=a_context(run_dir="/runs/a b"))
    assert spec.command[spec.command.index("--bind") + 1] == "/runs/a b"


def test_shifter_binds_nothing_so_every_folder_will_do() -> None:
    assert contained(boxed("shifter"), context=a_context(run_dir="/runs/a,b:c")).run_dir == "/runs/a,b:c"


@pytest.mark.parametrize("runtime", sorted(RUNTIMES))
def test_an_image_that_looks_like_an_option_is_refused(runtime: str) -> None:
    job = a_job(environment=Environment(container="--writable"))
    (fault,) = refused(boxed(runtime), job)
    assert fault.what == "the image '--writable' would be read as an option"
