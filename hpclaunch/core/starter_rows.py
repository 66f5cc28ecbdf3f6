"""The facts about programs that start ranks or jobs themselves, one row each: none of them can be a rank's program.

Their options are those of their manuals: srun(1) of Slurm 25.05, mpirun(1) of Open MPI 5, PyTorch's page on torchrun,
Accelerate's command line, DeepSpeed's "Getting Started", Horovod's horovodrun, IBM's jsrun(1), the command lines of Ray
and Lightning, Colossal-AI's "Launch Colossal-AI", the launchers of MosaicML's Composer and of torchtune (``tune run``),
ccc_mprun of CEA's centres (TGCC), mpiexecjl of MPI.jl, and PaddlePaddle's distributed.launch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from hpclaunch.core.records import record

Size = Literal["nodes", "tasks", "tasks_per_node", "cpus_per_task", "gpus_per_node", "gpus_per_task"]


@record
class StarterRow:
    """One program. Without ``words`` each use of it starts something, else one with one of these sub-commands.

    ``launcher``: what starts ranks in its place; empty: the site's own launcher does, or none does (``replaceable``).
    ``per_node``: one process of it on each node is its usual use. ``submits``: it submits a job.
    ``flags``: options without a value; a further one takes one. ``sizes``: options -> what of a request they say.
    """

    launcher: str = ""
    words: tuple[str, ...] = ()
    per_node: bool = False
    replaceable: bool = True
    submits: bool = False
    takes_script: bool = False
    """What it submits is a batch script."""
    opens_shell: bool = False
    """Without a program it opens a shell."""
    flags: tuple[str, ...] = ()
    two_values: tuple[str, ...] = ()
    sizes: Mapping[str, Size] = field(default_factory=dict)
    folder_options: tuple[str, ...] = ()
    """Options with the folder in which the program starts."""
    variable_options: tuple[str, ...] = ()
    """Options that set variables for the program."""
    python_program: bool = False
    """The program that it starts is a file of Python, named without an interpreter."""
    needs_options: bool = False
    """It starts ranks only with options of its own behind the sub-command."""
    attaches_values: bool = False
    """The value of an option of one letter may stand directly behind it: ``-N4``."""


_SRUN_FLAGS = (
    *("-E", "-H", "-I", "-K", "-k", "-l", "-O", "-Q", "-s", "-u", "-v", "-vv", "-vvv", "-X", "-Z"),
    *("--preserve-env", "--hold", "--immediate", "--kill-on-bad-exit", "--no-kill", "--label", "--overcommit"),
    *("--quiet", "--oversubscribe", "--unbuffered", "--verbose", "--disable-status", "--no-allocate", "--exclusive"),
    *("--exact", "--overlap", "--whole", "--multi-prog", "--pty", "--propagate", "--contiguous", "--spread-job"),
    *("--use-min-nodes", "--test-only", "--reboot", "--interactive", "--nice", "--get-user-env", "--treewidth"),
    *("--container-mount-home", "--no-container-mount-home", "--container-writable", "--container-readonly"),
    *("--container-remap-root", "--no-container-remap-root", "--no-container-entrypoint", "--container-entrypoint"),
)
_SRUN_SIZES: Mapping[str, Size] = {
    **dict.fromkeys(("-N", "--nodes"), "nodes"),
    **dict.fromkeys(("-n", "--ntasks"), "tasks"),
    **dict.fromkeys(("-c", "--cpus-per-task"), "cpus_per_task"),
    "--ntasks-per-node": "tasks_per_node",
    "--gpus-per-node": "gpus_per_node",
    "--gpus-per-task": "gpus_per_task",
}
_MPI_FLAGS = (
    *("--oversubscribe", "--allow-run-as-root", "--report-bindings", "--tag-output", "--display-map", "-l", "-v"),
    *("--verbose", "--quiet", "-q", "-prepend-rank", "-print-rank-map", "--nooversubscribe", "--bind-to-core"),
    *("-oversubscribe", "-report-bindings", "--display-allocation", "--use-hwthread-cpus", "--bycore", "--bynode"),
)
_MPI_TWO_VALUES = ("-mca", "--mca", "-genv", "-env", "-gmca", "--gmca", "--prtemca", "--pmixmca")
_MPI_SIZES: Mapping[str, Size] = {
    **dict.fromkeys(("-n", "-np", "--np", "-c"), "tasks"),
    **dict.fromkeys(("-N", "-ppn", "--ppn", "-npernode", "--npernode", "-perhost"), "tasks_per_node"),
}
_MPI = StarterRow(
    launcher="mpirun",
    flags=_MPI_FLAGS,
    two_values=_MPI_TWO_VALUES,
    sizes=_MPI_SIZES,
    folder_options=("-wdir", "--wdir", "-wd", "--wd"),
    variable_options=("-x", "-genv", "-env"),
)
_TORCHRUN = StarterRow(
    launcher="torchrun",
    per_node=True,
    python_program=True,
    flags=("--standalone", "--no-python", "--run-path", "--module", "-m", "--use-env", "--use_env"),
    sizes={"--nnodes": "nodes", "--nproc-per-node": "tasks_per_node"},
)
_ACCELERATE = StarterRow(
    launcher="torchrun",
    words=("launch", "test"),
    per_node=True,
    python_program=True,
    flags=(
        *("--multi-gpu", "--multi-cpu", "--cpu", "--tpu", "--quiet", "-q", "--debug", "--module", "-m", "--no-python"),
        *("--use-deepspeed", "--use-fsdp", "--use-megatron-lm", "--same-network", "--enable-cpu-affinity"),
    ),
    sizes={"--num-machines": "nodes", "--num-processes": "tasks"},
)
_SBATCH_FLAGS = (
    *("-H", "-I", "-k", "-O", "-Q", "-s", "-v", "-W", "--hold", "--no-kill", "--overcommit", "--quiet", "--verbose"),
    *("--oversubscribe", "--wait", "--parsable", "--exclusive", "--requeue", "--no-requeue", "--contiguous"),
    *("--test-only", "--use-min-nodes", "--spread-job", "--reboot", "--ignore-pbs", "--get-user-env", "--nice"),
)
_SBATCH = StarterRow(submits=True, takes_script=True, flags=_SBATCH_FLAGS, sizes=_SRUN_SIZES, attaches_values=True)
_SALLOC = StarterRow(
    submits=True, opens_shell=True, flags=(*_SBATCH_FLAGS, "-K", "--no-shell"), sizes=_SRUN_SIZES, attaches_values=True
)
_FLUX_SIZES: Mapping[str, Size] = {
    **dict.fromkeys(("-N", "--nodes"), "nodes"),
    **dict.fromkeys(("-n", "--ntasks"), "tasks"),
    **dict.fromkeys(("-c", "--cores-per-task"), "cpus_per_task"),
}

STARTERS: Mapping[str, StarterRow] = {
    "srun": StarterRow(
        flags=_SRUN_FLAGS,
        sizes=_SRUN_SIZES,
        attaches_values=True,
        folder_options=("-D", "--chdir"),
        variable_options=("--export",),
    ),
    **dict.fromkeys(("mpirun", "mpiexec", "mpiexec.hydra", "mpirun_rsh", "orterun", "prterun", "prun", "oshrun"), _MPI),
    **dict.fromkeys(("mpirun.openmpi", "mpiexec.openmpi", "mpirun.mpich", "mpiexec.mpich"), _MPI),  # Debian's names
    "mpiexecjl": _MPI,
    "ccc_mprun": StarterRow(
        sizes={"-n": "tasks", "-N": "nodes", "-c": "cpus_per_task"}, attaches_values=True, flags=("-x",)
    ),
    "ibrun": StarterRow(launcher="ibrun", sizes={"-n": "tasks"}),
    **dict.fromkeys(("aprun", "lrun"), StarterRow(sizes={"-n": "tasks", "-N": "tasks_per_node"}, attaches_values=True)),
    "jsrun": StarterRow(flags=("-V", "--version"), sizes={"-p": "tasks", "--np": "tasks"}, attaches_values=True),
    "torchrun": _TORCHRUN,
    "accelerate": _ACCELERATE,
    "deepspeed": StarterRow(
        launcher="torchrun",
        per_node=True,
        python_program=True,
        flags=("--no-python", "--module", "--no-ssh", "--no-local-rank", "--no-ssh-check"),
        sizes={"--num-nodes": "nodes", "--num-gpus": "tasks_per_node"},
    ),
    "horovodrun": StarterRow(
        launcher="horovodrun",
        flags=("--gloo", "--mpi", "--verbose", "--disable-cache", "--tcp", "--use-gloo", "--use-mpi"),
        sizes={"-np": "tasks", "--num-proc": "tasks"},
    ),
    "colossalai": StarterRow(
        launcher="torchrun",
        words=("run",),
        per_node=True,
        python_program=True,
        sizes={"--num-nodes": "nodes", "--nproc-per-node": "tasks_per_node"},
    ),
    **dict.fromkeys(
        ("lightning", "fabric"),
        StarterRow(
            launcher="torchrun",
            words=("run", "run_model", "run-model"),
            per_node=True,
            python_program=True,
            sizes={"--num-nodes": "nodes", "--devices": "tasks_per_node"},
        ),
    ),
    "ray": StarterRow(words=("start", "up", "submit", "job", "exec"), per_node=True, replaceable=False),
    "composer": StarterRow(
        launcher="torchrun",
        per_node=True,
        python_program=True,
        flags=("-v", "--verbose", "-m", "--module-mode", "-c", "--command-mode"),
        sizes={"-n": "tasks_per_node", "--nproc": "tasks_per_node"},
    ),
    "paddle.distributed.launch": StarterRow(
        per_node=True, replaceable=False, python_program=True, sizes={"--nproc-per-node": "tasks_per_node"}
    ),
    "tune": StarterRow(words=("run",), per_node=True, replaceable=False, needs_options=True),
    "flux": StarterRow(
        words=("mini", "run", "submit", "batch", "alloc", "bulksubmit"),
        submits=True,
        attaches_values=True,
        sizes=_FLUX_SIZES,
    ),
    "sbatch": _SBATCH,
    "salloc": _SALLOC,
    "qsub": StarterRow(submits=True, takes_script=True),
    "bsub": StarterRow(submits=True),
    "oarsub": StarterRow(submits=True),
    "pjsub": StarterRow(submits=True, takes_script=True),
    "msub": StarterRow(submits=True, takes_script=True),
    "llsubmit": StarterRow(submits=True, takes_script=True),
}
"""Program -> its row."""

MODULES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "torch.distributed.run": ("torchrun", ()),
    "torch.distributed.launch": ("torchrun", ()),
    "torch.distributed.launcher": ("torchrun", ()),
    "torch.distributed.elastic": ("torchrun", ()),
    "accelerate.commands.launch": ("accelerate", ("launch",)),
    "accelerate.commands.accelerate_cli": ("accelerate", ()),
    "composer.cli.launcher": ("composer", ()),
    "deepspeed.launcher.runner": ("deepspeed", ()),
    "deepspeed.launcher.launch": ("deepspeed", ()),
    "horovod.runner": ("horovodrun", ()),
    "horovod.runner.launch": ("horovodrun", ()),
    "lightning.fabric.cli": ("fabric", ()),
    "lightning_fabric.cli": ("fabric", ()),
    "paddle.distributed.launch": ("paddle.distributed.launch", ()),
    "ray.scripts.scripts": ("ray", ()),
}
"""Module of Python -> the program that ``python -m MODULE`` is, and the sub-command that it stands for."""

QUESTIONS = ("--version", "-V", "--help", "-h", "-help", "--usage", "--check-build", "-cb", "--mpi=list", "--mpi list")
"""Options with which a program only tells something and starts nothing."""

_NUMACTL_OPTIONS = (
    *("-N", "-m", "-C", "-i", "-p", "-w", "--cpunodebind", "--membind", "--physcpubind", "--interleave"),
    *("--preferred", "--weighted-interleave"),
)
_NSYS_OPTIONS = (
    *("-b", "-c", "-d", "-e", "-f", "-n", "-o", "-p", "-s", "-t", "-w", "-x", "-y"),
    *("--backtrace", "--capture-range", "--delay", "--duration", "--force-overwrite", "--output", "--sample"),
    *("--stats", "--trace"),
)

WRAPPERS: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "env": (0, ("-u", "-C", "--unset", "--chdir")),
    "exec": (0, ("-a",)),
    "command": (0, ()),
    "builtin": (0, ()),
    "nohup": (0, ()),
    "setsid": (0, ()),
    "time": (0, ("-f", "-o", "--format", "--output")),
    "nice": (0, ("-n", "--adjustment")),
    "ionice": (0, ("-c", "-n")),
    "stdbuf": (0, ("-i", "-o", "-e")),
    "timeout": (1, ("-k", "-s", "--kill-after", "--signal")),
    "taskset": (1, ()),
    "numactl": (0, _NUMACTL_OPTIONS),
    "xvfb-run": (0, ("-e", "-f", "-n", "-p", "-s", "-w")),
    "unbuffer": (0, ()),
}
"""Programs that run the command that follows: how many words of theirs stand before it, and options with a value."""

RUNNERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    **dict.fromkeys(("conda", "mamba", "micromamba"), ("run", ("-n", "--name", "-p", "--prefix", "--cwd"))),
    "uv": ("run", ("--python", "-p", "--with", "--project", "--directory", "--extra", "--group")),
    **dict.fromkeys(("poetry", "pipenv", "pixi"), ("run", ())),
    "nsys": ("profile", _NSYS_OPTIONS),
}
"""Programs of which one sub-command runs the command that follows: it, and its options with a value."""

_APPTAINER_OPTIONS = (
    *("-B", "--bind", "-H", "--home", "-W", "--workdir", "-o", "--overlay", "-S", "--scratch", "--app", "--env"),
    *("--env-file", "--pwd", "--cwd", "--mount", "--network", "--security", "--hostname", "--dns", "--fusemount"),
)
_PODMAN_OPTIONS = (
    *("-v", "--volume", "-e", "--env", "--env-file", "--device", "-w", "--workdir", "--name", "--network", "--net"),
    *("--ipc", "--pid", "--shm-size", "-u", "--user", "--userns", "--gpus", "--mount", "--hostname", "-l", "--label"),
    *("--security-opt", "--ulimit", "--cap-add", "--group-add", "-p", "--publish", "--tmpfs", "-m", "--memory"),
)
CONTAINERS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("apptainer", "singularity"), _APPTAINER_OPTIONS),
    **dict.fromkeys(("podman", "podman-hpc", "docker"), _PODMAN_OPTIONS),
}
"""Programs whose ``exec`` or ``run`` takes options, an image, and the command in it: their options with a value.

Sources: the user guides of Apptainer and Podman.
"""
