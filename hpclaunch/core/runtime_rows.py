"""The facts about each container runtime, one row each, with a function that gives its words; it decides nothing."""

from __future__ import annotations

from collections.abc import Callable

from hpclaunch.core.records import record
from hpclaunch.core.spec import Pairs


@record
class ContainerCommand:
    """What a container adds: directives, options of the ranks' Slurm step, and the words before the rank's command.

    ``file``: the path of a file that the script writes before it starts the ranks, and its lines; empty if none.
    """

    directives: Pairs = ()
    step_options: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    file: tuple[str, ...] = ()


@record
class ContainerRequest:
    """What a rank needs of its container: the image, the folders that it must see, and the maker of its GPUs, if any.

    ``workdir`` is the working folder, one of ``folders`` (empty: that of the image). ``variables`` are the names of
    the variables that the script exports; ``values`` has those that must have the script's value inside. ``run_dir`` is
    the run directory. ``runtime``, ``modules``, ``options`` and ``annotations`` are those of the site file.
    """

    image: str
    folders: tuple[str, ...]
    gpus: str
    workdir: str = ""
    variables: tuple[str, ...] = ()
    values: Pairs = ()
    run_dir: str = ""
    runtime: str = ""
    modules: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    annotations: Pairs = ()


def _shifter(asked: ContainerRequest) -> ContainerCommand:
    """NERSC's Shifter: image and modules are directives; the site's file systems are visible inside."""
    modules = (("module", ",".join(asked.modules)),) if asked.modules else ()
    return ContainerCommand(directives=(("image", asked.image), *modules), prefix=("shifter", *asked.options))


def _podman_hpc(asked: ContainerRequest) -> ContainerCommand:
    """NERSC's wrapper of podman: one container per rank, unless a module shares it among a node's ranks (its README).

    podman passes no variable by itself; ``NAME*`` passes all whose names begin with NAME (manual of podman-run).
    """
    gpu = ("gpu",) if asked.gpus == "nvidia" and "gpu" not in asked.modules else ()
    modules = tuple(f"--{name}" for name in (*gpu, *asked.modules))
    volumes = tuple(word for folder in asked.folders for word in ("--volume", f"{folder}:{folder}"))
    names = dict.fromkeys([*_LAUNCHERS_OWN, "HPCLAUNCH_*", *_variables_of_the_image(asked)])
    variables = tuple(word for name in names for word in ("--env", name))
    workdir = ("--workdir", asked.workdir) if asked.workdir else ()
    return ContainerCommand(
        prefix=("podman-hpc", "run", "--rm", *modules, *volumes, *workdir, *variables, *asked.options, asked.image)
    )


def _variables_of_the_image(asked: ContainerRequest) -> list[str]:
    """Return the variables that an image may set as well, which hpclaunch's own never are."""
    return [name for name in asked.variables if not name.startswith("HPCLAUNCH_")]


_LAUNCHERS_OWN = (
    *("SLURM_*", "PMI_*", "PMIX_*", "OMPI_*"),
    *("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"),
    *("RANK", "WORLD_SIZE", "LOCAL_*", "NODE_RANK", "MASTER_*", "JAX_COORDINATOR_ADDRESS"),
)
"""What a rank learns from srun and from its own shell: who it is, and which GPUs are its own."""


def _apptainer(asked: ContainerRequest) -> ContainerCommand:
    """Apptainer and Singularity: ``--nv`` and ``--rocm`` add the host's GPU libraries (their user guides)."""
    gpu = {"amd": ("--rocm",), "nvidia": ("--nv",)}.get(asked.gpus, ())
    binds = tuple(word for folder in asked.folders for word in ("--bind", folder))
    return ContainerCommand(prefix=(asked.runtime, "exec", *gpu, *binds, *asked.options, asked.image))


def _pyxis(asked: ContainerRequest) -> ContainerCommand:
    """A plug-in of srun: the container is an option of the step (pyxis' README).

    Without ``--container-env`` the image's value of a variable overrides that of the script (pyxis' wiki, Usage).
    """
    mounts = ",".join(f"{folder}:{folder}" for folder in asked.folders)
    workdir = (f"--container-workdir={asked.workdir}",) if asked.workdir else ()
    names = _variables_of_the_image(asked)
    variables = (f"--container-env={','.join(names)}",) if names else ()
    image = (f"--container-image={asked.image}", f"--container-mounts={mounts}")
    return ContainerCommand(step_options=(*image, *workdir, *variables, *asked.options))


def _container_engine(asked: ContainerRequest) -> ContainerCommand:
    """CSCS's Container Engine: an option of the step names a file that describes the environment (EDF, in TOML).

    Variables of the image override those of the script, unless the file has them (docs.cscs.ch, EDF reference).
    """
    mounts = ", ".join(_quote_for_toml(f"{folder}:{folder}") for folder in asked.folders)
    lines = [f"image = {_quote_for_toml(asked.image)}", f"mounts = [{mounts}]"]
    lines += [f"workdir = {_quote_for_toml(asked.workdir)}"] if asked.workdir else []
    for title, pairs in (("annotations", asked.annotations), ("env", asked.values)):
        if pairs:
            lines += ["", f"[{title}]", *(f"{name} = {_quote_for_toml(value)}" for name, value in pairs)]
    path = f"{asked.run_dir}/container.toml"
    return ContainerCommand(step_options=(f"--environment={path}", *asked.options), file=(path, *lines))


def _quote_for_toml(text: str) -> str:
    """Return a text as TOML's basic string, in which the Container Engine replaces no variable."""
    shown = "".join(_TOML_ESCAPES.get(one, one if one.isprintable() else f"\\U{ord(one):08X}") for one in text)
    return '"' + shown.replace("${", "$${") + '"'


_TOML_ESCAPES = {'"': '\\"', "\\": "\\\\"}


@record
class RuntimeRow:
    """One container runtime. It is found on a machine by its ``program``, or by its ``step_option``."""

    command: Callable[[ContainerRequest], ContainerCommand]
    """What it adds to a script."""
    program: str = ""
    """Its program; empty if it is a plug-in of srun."""
    step_option: str = ""
    """The option of srun that selects an image: then every rank must be a task of a Slurm step. Else empty."""
    splits_paths: bool = True
    """Its option for folders separates paths by commas or colons."""
    runs_files: bool = False
    """The path of an image stands in the rank's command, so that each node can use a copy of its own. Other runtimes
    bring images to the nodes themselves."""
    no_rendezvous: str = ""
    """Why the torchruns of several containers do not find each other; empty: they do."""


_OWN_HOST = "podman gives a container a host name of its own, by which torchrun would not know where all meet"
"""podman-run(1), --uts: private by default."""

RUNTIMES: dict[str, RuntimeRow] = {
    "shifter": RuntimeRow(command=_shifter, program="shifter", splits_paths=False),
    "podman-hpc": RuntimeRow(command=_podman_hpc, program="podman-hpc", no_rendezvous=_OWN_HOST),
    "container-engine": RuntimeRow(command=_container_engine, step_option="--environment"),
    "pyxis": RuntimeRow(command=_pyxis, step_option="--container-image"),
    "apptainer": RuntimeRow(command=_apptainer, program="apptainer", runs_files=True),
    "singularity": RuntimeRow(command=_apptainer, program="singularity", runs_files=True),
}
"""``sites detect`` writes the first of them that a machine has."""
