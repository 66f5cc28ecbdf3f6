"""What a launch line asks for, flag by flag, and what its flags come to: for the comparison in test_launch_lines.py."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hpclaunch.config.site import NodeType
from hpclaunch.core.spec import JobSpec
from hpclaunch.core.units import parse_memory
from hpclaunch.training.rank.failure import TrainingError
from hpclaunch.training.rank.placement import choose_gpu

SHORT = {"C": "constraint", "N": "nodes", "c": "cpus-per-task", "l": "label", "n": "ntasks", "p": "partition"}
SHORT |= {"q": "qos", "u": "unbuffered"}
# Slurm's options on resources and placement, in the order of the tables.
SLURM: tuple[str, ...] = (
    "partition",
    "qos",
    "constraint",
    "nodes",
    "ntasks",
    "ntasks-per-node",
    "ntasks-per-socket",
    "ntasks-per-gpu",
    "cpus-per-task",
)
SLURM += ("gpus", "gpus-per-node", "gpus-per-task", "gres", "gpu-bind", "mem", "exclusive", "cpu-bind")
SLURM += ("mem-per-cpu", "mem-per-gpu", "hint", "distribution", "network", "mpi")
# Options that are about neither; any other one makes the comparison fail until somebody has sorted it.
APART = {"job-name", "account", "time", "chdir", "output", "open-mode", "export", "kill-on-bad-exit", "wait"}
APART |= {"requeue", "no-requeue", "signal", "label", "unbuffered", "uenv", "view"}
BARE = {"exclusive", "requeue", "no-requeue", "label", "unbuffered"}
# The words of mpirun, horovodrun, ibrun (-np) and torchrun on placement, and how many words each of the others takes.
OTHER = ("np", "H", "map-by", "bind-to", "nnodes", "nproc-per-node")
OTHER_APART = {"mca": 2, "x": 1, "gloo": 0, "rdzv-backend": 1, "no-python": 0}
VARIABLES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


@dataclass(frozen=True, kw_only=True)
class Side:
    """One script: its directives, the options of the launch, variables set before it and in every rank."""

    launcher: str
    directives: dict[str, str]
    step: dict[str, str]
    before: dict[str, str]
    ranks: dict[str, str]

    def said(self, name: str) -> str | None:
        """What holds for the ranks: srun takes from the directives what it is not told itself."""
        return self.step.get(name, self.directives.get(name))


@dataclass(frozen=True, kw_only=True)
class Placement:
    """What the flags come to; ``cpus`` of a rank as Slurm counts them (None: not given), GPUs by local rank."""

    nodes: int
    ranks: int
    cpus: int | None
    gpus: int
    sees: tuple[tuple[int, ...], ...]
    takes: tuple[int, ...] | None


def slurm_options(words: list[str]) -> dict[str, str]:
    """Slurm's options on resources and placement, by long name; one that is not known fails."""
    found, left = {}, iter(words)
    for word in left:
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--"):
            match = re.fullmatch(r"-([a-zA-Z])(.*)", word)
            assert match, word
            name, equals, value = SHORT[match[1]], match[2], match[2]
        name = name.replace("_", "-")
        if not equals and name not in BARE:
            value = next(left)
        assert name in SLURM or name in APART, f"--{name}: is it about resources or placement?"
        if name in SLURM:
            found[name] = "yes" if name in BARE else value
    return found


def other_options(words: list[str]) -> dict[str, str]:
    """The same of mpirun, horovodrun, ibrun and torchrun."""
    found, left = {}, iter(words)
    for word in left:
        name, equals, value = word.lstrip("-").partition("=")
        name = {"n": "np"}.get(name, name.replace("_", "-"))
        if name in OTHER:
            found[name] = value if equals else next(left)
        else:
            for _ in range(0 if equals else OTHER_APART[name]):
                next(left)
    return found


def launch_options(words: list[str]) -> tuple[str, dict[str, str]]:
    """The launcher's name and its options; of torchrun under srun those of both."""
    launcher, *options = words
    if launcher != "srun":
        return launcher, other_options(options)
    if "torchrun" not in options:
        return launcher, slurm_options(options)
    inner = options.index("torchrun")
    return "torchrun", slurm_options(options[:inner]) | other_options(options[inner + 1 :])


def variables(words: list[str]) -> dict[str, str]:
    pairs = (word.split("=", 1) for word in words if "=" in word)
    return {name: value for name, value in pairs if name in VARIABLES}


def centre(request: dict[str, Any]) -> Side:
    """The centre's script, from the data."""
    launcher, step = launch_options(shlex.split(request["launch"]))
    return Side(
        launcher=launcher,
        directives=slurm_options(shlex.split(request["directives"])),
        step=step,
        before=variables(request.get("exports", "").split()),
        ranks=variables(request.get("ranks", "").split()),
    )


def ours(spec: JobSpec) -> Side:
    """hpclaunch's script, from the plan."""
    launcher, step = launch_options([*spec.launch])
    directives = [f"--{name}={value}" if value else f"--{name}" for name, value in spec.directives]
    lines = [word for line in spec.rank_setup for word in shlex.split(line)]
    return Side(
        launcher=launcher,
        directives=slurm_options(directives),
        step=step,
        before=variables([f"{name}={value}" for name, value in spec.environment]),
        ranks=variables(lines),
    )


def number(text: str | None) -> int:
    """The number in ``4``, ``gpu:4``, ``v100-32:16``; 0 where nothing is said."""
    return int(text.rsplit(":", 1)[-1]) if text else 0


def placement(side: Side, node: NodeType, request: dict[str, Any]) -> Placement:
    """What the flags come to, by the manuals of sbatch and srun. Anything that it cannot read fails."""
    # Ranks 0, 1, 2 … fill the first node first, on both sides: Slurm's and Open MPI's default, and what is said here.
    assert side.said("distribution") in (None, "block:block")
    assert re.fullmatch(r"slot|ppr:\d+:node(:pe=\d+)?", side.step.get("map-by", "slot"))
    per_node, total = number(side.said("ntasks-per-node")), number(side.said("ntasks")) or number(side.step.get("np"))
    cpus, gpus_in_all = number(side.said("cpus-per-task")), number(side.said("gpus"))
    total = total or number(side.said("ntasks-per-gpu")) * gpus_in_all
    nodes = number(side.said("nodes"))
    if not nodes:
        assert cpus and node.slurm_cpus
        nodes = max(-(-total * cpus // node.slurm_cpus), -(-gpus_in_all // (node.gpus_per_node or 1)))
    tasks = per_node or total // nodes or 1  # one a node where nothing is said (manual of sbatch, --ntasks)
    ranks = tasks * (number(side.step.get("nproc-per-node")) or 1)
    gpus = gpus_of_a_node(side, nodes, tasks, node)
    sees = tuple(shown(side, local, ranks // tasks, gpus, request) for local in range(ranks))
    return Placement(
        nodes=nodes,
        ranks=ranks,
        cpus=cpus_of_a_rank(side, cpus * tasks // ranks),
        gpus=gpus,
        sees=sees,
        takes=taken(sees),
    )


def cpus_of_a_rank(side: Side, cpus: int) -> int | None:
    """What --cpus-per-task gives, or the mask; where both are said they must agree."""
    bind = side.said("cpu-bind") or ""
    if not bind.startswith("mask_cpu:"):
        return cpus or None
    (bits,) = {int(mask, 16).bit_count() for mask in bind.removeprefix("mask_cpu:").split(",")}
    assert cpus in (0, bits), f"{cpus} CPUs a task, and a mask of {bits}"
    return bits


def gpus_of_a_node(side: Side, nodes: int, tasks: int, node: NodeType) -> int:
    """What all the flags say alike; where none does, the GPUs come with the node."""
    said = {
        number(side.said("gpus-per-node")),
        number(side.said("gres")),
        number(side.said("gpus-per-task")) * tasks,
        number(side.said("gpus")) // nodes,
    } - {0}
    (gpus,) = said or {node.gpus_per_node}
    return gpus


def shown(side: Side, local: int, ranks_of_a_task: int, gpus: int, request: dict[str, Any]) -> tuple[int, ...]:
    """The GPUs that a rank sees, by their number in the node, in its order."""
    task, by_task, bind = local // ranks_of_a_task, number(side.said("gpus-per-task")), side.said("gpu-bind")
    order = {**side.before, **side.ranks}
    seen = tuple(range(gpus))
    if side.launcher in ("srun", "torchrun"):  # the ranks of other launchers are no tasks that Slurm binds
        single = re.fullmatch(r"single:(\d+)", bind or "")
        assert single or bind in (None, "none", "closest"), bind
        if bind == "closest":
            seen = (request["closest"][task],)
        elif single:  # so many tasks of a node to its first GPU, as many to the next (srun manual)
            seen = (seen[task // int(single[1])],)
        elif by_task and bind is None:  # --gpus-per-task implies a binding by the task (sbatch manual)
            seen = seen[task * by_task : (task + 1) * by_task]
        elif request.get("one_gpu_each") and not order:
            seen = (seen[task],)
    for value in order.values():
        seen = tuple(seen[index] for index in _indices(value, local))
    return seen


def _indices(value: str, local: int) -> list[int]:
    """The places among the GPUs that a rank would see without the variable."""
    backwards = re.fullmatch(r"\$\(\((\d+)-SLURM_LOCALID\)\)", value)
    if backwards:
        return [int(backwards[1]) - local]
    return [local] if value == "$SLURM_LOCALID" else [int(index) for index in value.split(",")]


def taken(sees: tuple[tuple[int, ...], ...]) -> tuple[int, ...] | None:
    """The GPU that each rank of hpclaunch's jobs takes of those that it sees; None where ranks would share."""
    if not any(sees):
        return ()
    try:
        bound = len(set(sees)) == len(sees)
        indices = [choose_gpu(len(seen), local, len(sees), bound).index for local, seen in enumerate(sees)]
    except TrainingError:
        return None
    return tuple(seen[index or 0] for seen, index in zip(sees, indices, strict=True))


DERIVED: dict[str, Callable[[Placement], str]] = {
    "nodes of the job": lambda it: str(it.nodes),
    "ranks on a node": lambda it: str(it.ranks),
    "CPUs of a rank": lambda it: str(it.cpus or "not given"),
    "GPUs of a node": lambda it: str(it.gpus),
    "GPUs a rank sees": lambda it: _seen(it.sees),
    "GPU a rank takes": lambda it: _taken(it.takes),
}


def _taken(takes: tuple[int, ...] | None) -> str:
    return "ranks would share" if takes is None else " · ".join(map(str, takes)) or "none"


def _seen(sees: tuple[tuple[int, ...], ...]) -> str:
    if not any(sees):
        return "none"
    if len(sees) > 1 and len(set(sees)) == 1:
        return f"each: {', '.join(map(str, sees[0]))}"
    return " · ".join(", ".join(map(str, seen)) for seen in sees)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line of a table; ``name`` is the flag, the variable or the quantity as ``why`` names it."""

    name: str
    title: str
    centre: str
    ours: str
    differs: bool


def compare(theirs: Side, mine: Side, node: NodeType, request: dict[str, Any]) -> list[Row]:
    """Everything that either side says, and what it comes to."""
    rows = [_flag(theirs, mine, name) for name in (*SLURM, *OTHER) if any(_both(theirs, mine, name))]
    for name in VARIABLES:
        cells = [_variable(side, name) for side in (theirs, mine)]
        if any(cells):
            rows.append(_row(name, f"`{name}`", *cells))
    placed = [placement(side, node, request) for side in (theirs, mine)]
    return rows + [_row(name, name, *(cell(one) for one in placed)) for name, cell in DERIVED.items()]


def _both(theirs: Side, mine: Side, name: str) -> list[str]:
    return [where[name] for side in (theirs, mine) for where in (side.directives, side.step) if name in where]


def _flag(theirs: Side, mine: Side, name: str) -> Row:
    title = f"`-{name}`" if name in ("np", "H") else f"`--{name}`"
    differs = _meant(theirs, name) != _meant(mine, name)
    return Row(name=name, title=title, centre=_cell(theirs, name), ours=_cell(mine, name), differs=differs)


def _meant(side: Side, name: str) -> list[str | int | None]:
    """What the job and what its ranks are given; --mem=494000 is --mem=494000M, and --mem=0 the whole node's."""
    both = side.directives.get(name), side.said(name)
    return [parse_memory(value) if name == "mem" and value and value != "0" else value for value in both]


def _cell(side: Side, name: str) -> str:
    above, below = side.directives.get(name), side.step.get(name)
    program = "srun" if side.launcher == "torchrun" and name in SLURM else side.launcher
    if below is None:
        return f"`{above}`" if above else ""
    if above is None:
        return f"`{below}` ({program})"
    return f"`{above}`, also {program}" if above == below else f"`{above}`, {program}: `{below}`"


def _variable(side: Side, name: str) -> str:
    if name in side.before:
        return f"`{side.before[name]}` before the launch"
    return f"`{side.ranks[name]}` in every rank" if name in side.ranks else ""


def _row(name: str, title: str, theirs: str, mine: str) -> Row:
    return Row(name=name, title=title, centre=theirs, ours=mine, differs=theirs != mine)
