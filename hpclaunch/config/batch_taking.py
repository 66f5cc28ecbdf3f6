"""Translates a batch script of Slurm into a request: directives, set-up lines, launch line; pure, it executes nothing.

What it cannot translate is named: a fault, or a remark where the run can do without it. Nothing is left out silently.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any

from hpclaunch.config.batch_script import BatchHead, Directive, head_of, near_option
from hpclaunch.config.launch_lines import LaunchLine, expanded_words, launch_line, plain_variables
from hpclaunch.config.launch_numbers import GPUS_ON_NODE, known_numbers, number_of
from hpclaunch.core.errors import Fault
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.records import record
from hpclaunch.core.shell_commands import NotShell, ShellCommand, commands_in
from hpclaunch.core.spec import NO_FRAMEWORK
from hpclaunch.core.units import parse_memory, parse_walltime
from hpclaunch.launchers import LAUNCHERS, NO_LAUNCHER

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_NUMBER = re.compile("[1-9][0-9]{0,6}")
_GPUS = re.compile(r"gpu(?::([A-Za-z][\w.-]*))?(?::([0-9]{1,4}))?|(?:([A-Za-z][\w.-]*):)?([0-9]{1,4})")
_PROGRAM = "BATCH_SCRIPT_PROGRAM"
"""The variable with the launched command, whose expansions the job's script makes, as the batch script did."""
_FOLDER = "BATCH_SCRIPT_FOLDER"
"""The variable with the folder in which the batch script starts its program, if it has gone to another one."""
_SAME_FOLDER = (("$SLURM_SUBMIT_DIR",), ("${SLURM_SUBMIT_DIR}",), (".",), ("$PWD",))
_TEXTS = {"partition": "partition", "account": "account", "qos": "qos"}
_PARSED: dict[str, tuple[str, Callable[[str], int]]] = {
    "time": ("walltime", parse_walltime),
    "mem": ("memory", parse_memory),
}
_NUMBERS = {"nodes": "nodes", "ntasks-per-node": "tasks_per_node", "cpus-per-task": "cpus_per_task"}
WITHOUT_EFFECT = {
    **dict.fromkeys(("parsable", "quiet", "verbose", "test-only", "wait"), "it is a word to sbatch, not to the job"),
    **dict.fromkeys(("output", "error", "open-mode"), "the log is in the run directory: hpclaunch logs"),
}
NOT_TAKEN = {
    "array": ("hpclaunch counts the runs of an array itself", "--sweep NAME=1..10, with {NAME} after --"),
    "chdir": ("a run starts in the folder where it is submitted", "cd to that folder, and leave it out"),
    "container": ("the whole script would run in the container", "'environment: container:' in the settings"),
    "container-image": ("the whole script would run in the container", "'environment: container:' in the settings"),
    "image": ("the image is the business of the settings", "'environment: container:' in the settings"),
    "export-file": ("variables are typed", "--env NAME=VALUE"),
    "input": ("ranks read nothing from a file", "read the file in the program"),
    "wrap": ("it has no meaning in a script", "leave it out"),
}  # fmt: skip
_QUIET = ("echo", "date", "printf", "wait", "true", ":", "hostname", "sleep", "sacct", "seff", "sstat", "squeue")
"""Commands behind the launch line that only tell something."""
_TELLING_STEPS = (*_QUIET, "nvidia-smi", "rocm-smi", "env", "printenv", "uname", "lscpu")
"""Programs of a step that only tells something: before the launch line it stays a line of set-up."""
_STEP_FAULTS = (
    *("--multi-prog", "--pty", "--het-group", "-r", "--relative", "-o", "-e", "--output", "--error", "-i", "--input"),
    *("--prolog", "--epilog", "--task-prolog", "--task-epilog", "--bcast", "-w", "--nodelist", "-x", "--exclude"),
)
"""Options of srun, and of programs like it, that change what runs or where."""
_OWN = (
    *("-u", "--unbuffered", "-l", "--label", "-K", "--kill-on-bad-exit", "-v", "-vv", "-vvv", "--verbose", "-Q", "-q"),
    *("--quiet", "--exclusive", "--exact", "--overlap", "--whole", "--mpi", "--cpu-bind", "--cpu_bind", "--gpu-bind"),
    *("--mem-bind", "--distribution", "-m", "--hint", "--gres", "--gpus", "-G", "--jobid", "--module", "--no-python"),
    *("--hostfile", "-hostfile", "--machinefile", "-machinefile", "-f", "--map-by", "-map-by", "--bind-to", "-bind-to"),
    *("--rank-by", "--report-bindings", "-report-bindings", "--tag-output", "--oversubscribe", "-oversubscribe"),
    *("--nooversubscribe", "--allow-run-as-root", "--standalone", "--node-rank", "--rdzv-backend", "--rdzv-endpoint"),
    *("--rdzv-id", "--rdzv-conf", "--master-addr", "--master-port", "--machine-rank", "--main-process-ip"),
    *("--main-process-port", "--multi-gpu", "--use-env"),
)
"""Options for which hpclaunch has its own: how ranks are placed, bound and started, and find each other."""


@record
class TakenScript:
    """What a batch script asks for. ``values``: fields of a request. ``shown``: (what stands there, what became of it).

    ``faults``: what cannot be taken, with the field that makes it good if it is typed (empty: none does).
    ``gpu_type``: the type of GPU that is asked for.
    """

    values: dict[str, Any] = field(default_factory=dict)
    shown: tuple[tuple[str, str], ...] = ()
    remarks: tuple[str, ...] = ()
    faults: tuple[tuple[str, Fault], ...] = ()
    gpu_type: str = ""


def is_run_name(text: str) -> bool:
    """Whether a run can have this name."""
    return bool(_NAME.fullmatch(text))


class _Taking:
    """The one mutable value while a script is translated."""

    def __init__(self, script: str, typed: frozenset[str]) -> None:
        self.script, self.typed = script, typed
        self.values: dict[str, Any] = {}
        self.shown: list[tuple[str, str]] = []
        self.remarks: list[str] = []
        self.faults: list[tuple[str, Fault]] = []
        self.sbatch: list[str] = []
        self.variables: list[tuple[str, str]] = []
        self.gpu_type = ""
        self.exports: list[str] = []
        """What the launch line exports to its program alone, so that it comes last."""
        self.numbers: dict[str, str] = {}
        """The variables with a number before the launch line."""
        self.before: Sequence[ShellCommand] = ()
        """The commands before the launch line."""

    def fault(self, line: int, what: str, next_step: str = "", cured_by: str = "") -> None:
        where = f"{self.script}, line {line}" if line else self.script
        as_is = f"hpclaunch submit --as-is {shell_word(self.script)}"
        step = f"{next_step}; or {as_is}" if next_step else as_is
        self.faults.append((cured_by, Fault(where=where, what=what, next=step)))


def take(text: str, script: str, typed: frozenset[str] = frozenset(), arguments: Sequence[str] = ()) -> TakenScript:
    """Return the request that a batch script is. ``script``: its path as it is typed; ``arguments``: its own.

    ``typed``: the fields of the request that the user types, which count more than the script's.
    """
    taking = _Taking(script, typed)
    head = head_of(text)
    _take_head(head, taking)
    sizes = {one.name: one for one in head.directives}
    known = len(taking.faults)
    outer, line = _take_body(text, arguments, taking)
    if line or len(taking.faults) == known:
        _take_sizes(sizes, outer, line, taking)
    values = {**taking.values, "sbatch": tuple(taking.sbatch), "variables": tuple(taking.variables)}
    return TakenScript(
        values=values,
        shown=tuple(taking.shown),
        remarks=tuple(taking.remarks),
        faults=tuple(one for one in taking.faults if not (one[0] and one[0] in typed)),
        gpu_type=taking.gpu_type,
    )


# --- the directives


def _take_head(head: BatchHead, taking: _Taking) -> None:
    """Take the directives that do not depend on each other; those of nodes, tasks and GPUs come later."""
    if head.scheduler:
        what = f"it is a batch script of {head.scheduler} ({head.other}), and hpclaunch reads those of Slurm"
        path = shell_word(taking.script if "/" in taking.script else f"./{taking.script}")
        next_step = f"hpclaunch submit {path} names what it runs, which can be submitted without it"
        taking.faults.append(("", Fault(where=taking.script, what=what, next=next_step)))
    for number, word in head.unknown:
        if word in ("hetjob", "packjob"):
            taking.fault(number, f"{word} begins a further part of a heterogeneous job, which cannot be taken")
            continue
        near = near_option(word)
        guess = f"; did you mean --{near}?" if near else ""
        taking.fault(number, f"sbatch has no option {word}{guess}", "correct the line")
    if head.late:
        lines = ", ".join(map(str, head.late))
        taking.remarks.append(f"ignored, as Slurm ignores them: #SBATCH behind the first command (line {lines})")
    last = {one.name: one for one in head.directives}  # of two, the later one counts
    for one in last.values():
        _take_directive(one, taking)
    if "export" not in last:
        taking.remarks.append("variables of this shell stay outside, where sbatch passes them on: --env NAME=VALUE")


def _take_directive(one: Directive, taking: _Taking) -> None:
    name, value = one.name, one.value
    if name in _TEXTS:
        _set(taking, one, _TEXTS[name], value)
    elif name in _PARSED:
        _set_parsed(taking, one, *_PARSED[name])
    elif name == "job-name":
        _take_name(one, taking)
    elif name == "export":
        _take_export(one, taking)
    elif name in WITHOUT_EFFECT:
        taking.shown.append((str(one), f"left out: {WITHOUT_EFFECT[name]}"))
    elif name in NOT_TAKEN:
        why, step = NOT_TAKEN[name]
        taking.fault(one.line, f"{one} cannot be taken: {why}", step)
    elif name == "gres":
        _take_gres(one, taking)
    elif name not in (*_NUMBERS, "ntasks", "gpus", "gpus-per-node", "gpus-per-task"):
        taking.sbatch.append(str(one))
        taking.shown.append((str(one), f"--sbatch {one}"))


def _take_name(one: Directive, taking: _Taking) -> None:
    if is_run_name(one.value):
        _set(taking, one, "name", one.value)
        return
    name = re.sub("[^A-Za-z0-9_.-]+", "-", one.value)
    if is_run_name(name):
        taking.values["name"] = name
        taking.shown.append((str(one), "--name is typed instead" if "name" in taking.typed else f"--name {name}"))
        return
    allowed = "a letter, then letters, digits, '_', '.' and '-'; at most 64 characters"
    taking.fault(one.line, f"{one}: no run can have this name; allowed: {allowed}", "--name NAME", "name")


def _set(taking: _Taking, one: Directive, name: str, value: Any) -> None:
    taking.values[name] = value
    flag = {"walltime": "--walltime", "name": "--name", "memory": "--memory"}.get(name, f"--{name.replace('_', '-')}")
    taking.shown.append((str(one), f"{flag} is typed instead" if name in taking.typed else f"{flag} {one.value}"))


def _set_parsed(taking: _Taking, one: Directive, name: str, parse: Callable[[str], int]) -> None:
    if (one.name, one.value) == ("mem", "0"):
        what = f"{one} cannot be taken: it asks for all memory of a node, and a run has a fixed amount"
        taking.fault(one.line, what, "--memory SIZE", name)
        return
    try:
        _set(taking, one, name, parse(one.value))
    except ValueError as error:
        taking.fault(one.line, f"{one} cannot be taken: {error}", f"--{name} VALUE", name)


def _take_export(one: Directive, taking: _Taking) -> None:
    """Take the variables that it gives a value; those of the submitting shell stay outside."""
    words = [word for word in one.value.split(",") if word]
    given = [word.partition("=")[::2] for word in words if "=" in word]
    taking.variables += given
    others = [word for word in words if "=" not in word and word not in ("NONE", "NIL")]
    if others:
        taking.remarks.append(
            f"{one}: the variables of this shell stay outside; name those that count: --env NAME=VALUE"
        )
    if given:
        taking.shown.append((str(one), " ".join(f"--env {name}={value}" for name, value in given)))
    elif not others:
        taking.shown.append((str(one), "as hpclaunch does anyway"))


def _take_gres(one: Directive, taking: _Taking) -> None:
    """Pass on generic resources that are no GPUs; the GPUs are taken with the other sizes."""
    others = [part for part in one.value.split(",") if not re.match("(gres[:/])?gpu", part)]
    if others:
        taking.sbatch.append(f"--gres={','.join(others)}")
        taking.shown.append((f"--gres={','.join(others)}", f"--sbatch --gres={','.join(others)}"))


# --- nodes, tasks, CPUs and GPUs


def _take_sizes(
    sizes: dict[str, Directive], outer: LaunchLine | None, line: LaunchLine | None, taking: _Taking
) -> None:
    """Take nodes, tasks and CPUs. Where the script says nothing, Slurm gives 1 task per node and 1 CPU per task.

    ``outer``: the launcher that starts ``line``, as srun starts torchrun on each node.
    """
    found = {name: _number_of(one, taking) for name, one in sizes.items() if name in (*_NUMBERS, "ntasks")}
    nodes, tasks = found.get("nodes"), found.get("ntasks")
    per_node = found.get("ntasks-per-node")
    if nodes is None and tasks and per_node and tasks % per_node == 0:
        nodes = tasks // per_node
    if nodes is None and tasks and tasks > 1 and not taking.values.get("nodes"):
        what = f"--ntasks={tasks} without --nodes leaves the number of nodes to Slurm, and a run has a fixed one"
        taking.fault(sizes["ntasks"].line, what, "--nodes N", "nodes")
    nodes = nodes or 1
    if per_node is None and tasks:
        per_node = tasks // nodes if tasks % nodes == 0 else None
        if per_node is None:
            what = f"{tasks} tasks cannot be spread evenly over {nodes} nodes"
            taking.fault(sizes["ntasks"].line, what, "--nodes N, or --tasks-per-node N", "tasks_per_node")
    per_node = per_node or 1
    cpus = found.get("cpus-per-task") or 1
    _take_gpus(sizes, nodes, per_node, taking)
    _learn_numbers(found, nodes, per_node, taking)
    started = _sizes_of_launch(outer, taking)
    processes = _ranks_per_node(outer, started, nodes, per_node, taking) if outer else per_node
    launched = _sizes_of_launch(line, taking)
    ranks = _ranks_per_node(line, launched, nodes, per_node, taking)
    node_cpus = started["cpus_per_task"] * processes if "cpus_per_task" in started else cpus * per_node
    cpus_per_rank = launched.get("cpus_per_task", max(1, node_cpus // ranks))
    for name, asked in (("nodes", nodes), ("tasks_per_node", ranks), ("cpus_per_task", cpus_per_rank)):
        taking.values[name] = asked
    shown = [str(sizes[name]) for name in (*_NUMBERS, "ntasks") if name in sizes] or ["(Slurm's defaults)"]
    flags = " ".join(f"--{name.replace('_', '-')} {taking.values[name]}" for name in _NUMBERS.values())
    typed = [
        f"--{name.replace('_', '-')}" for name in ("nodes", "tasks_per_node", "cpus_per_task") if name in taking.typed
    ]
    taking.shown.append((" ".join(shown), flags + (f"; typed instead: {', '.join(typed)}" if typed else "")))
    if "gpus_per_node" not in taking.values:
        gpus = _gpus_of_launch(launched, ranks)
        taking.values["gpus_per_node"] = _gpus_of_launch(started, processes) if gpus is None else gpus
        taking.values["gpus_per_node"] = taking.values["gpus_per_node"] or 0  # without any, the job asks for none


def _number_of(one: Directive, taking: _Taking) -> int | None:
    if _NUMBER.fullmatch(one.value):
        return int(one.value)
    name = _NUMBERS.get(one.name, "nodes")
    taking.fault(one.line, f"{one} cannot be taken: a run has one fixed number", f"--{name.replace('_', '-')} N", name)
    return None


def _learn_numbers(found: dict[str, int | None], nodes: int, per_node: int, taking: _Taking) -> None:
    """Work out the variables of the script that have a number at the launch line, with those that Slurm sets."""
    job = {"SLURM_NNODES": nodes, "SLURM_JOB_NUM_NODES": nodes, GPUS_ON_NODE: taking.values.get("gpus_per_node")}
    if found.get("ntasks") or found.get("ntasks-per-node"):
        job |= dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), nodes * per_node)
    job |= {"SLURM_NTASKS_PER_NODE": found.get("ntasks-per-node"), "SLURM_CPUS_PER_TASK": found.get("cpus-per-task")}
    set_by_slurm = {name: str(number) for name, number in job.items() if number}
    taking.numbers = known_numbers(taking.before, {**dict(taking.variables), **set_by_slurm})


def _sizes_of_launch(line: LaunchLine | None, taking: _Taking) -> dict[str, int]:
    """Return the sizes that a launch line says; a fault for each whose number is not known before the script runs."""
    if line is None:
        return {}
    sizes = {name: (text, _launched_number(name, text, line, taking)) for name, text in line.sizes}
    found = {name: number for name, (_, number) in sizes.items() if number is not None}
    for name, (text, number) in sizes.items():
        if number is not None:
            continue
        cure = {"tasks": "tasks_per_node", "gpus_per_task": "gpus_per_node"}.get(name, name)
        what = f"{line.starter}: {name.replace('_', ' ')} {text!r} cannot be taken: no number is known for it"
        if name == "tasks" and "tasks_per_node" in found:
            taking.remarks.append(f"{what}; each node of the job has {found['tasks_per_node']} of them")
        else:
            taking.fault(line.line, what, f"--{cure.replace('_', '-')} N", cure)
    return found


def _launched_number(name: str, text: str, line: LaunchLine, taking: _Taking) -> int | None:
    if name == "tasks_per_node" and line.row.per_node and text in ("gpu", "auto"):
        text = f"${GPUS_ON_NODE}"
    number = number_of(text, taking.numbers)
    if name.startswith("gpus"):
        named = gpus_in(text) if number is None else None
        return named[1] if named and named[1] else number
    return number if number and number > 0 else None


def _ranks_per_node(
    line: LaunchLine | None, launched: dict[str, int], nodes: int, per_node: int, taking: _Taking
) -> int:
    """Return the ranks on each node: what the launch line says, else the tasks of the job."""
    if line is None:
        if nodes * per_node > 1:
            what = f"it starts its program once in a job of {nodes * per_node} tasks, and the others have no command"
            taking.fault(0, what, "--nodes 1 --tasks-per-node 1", "tasks_per_node")
        return per_node
    if launched.get("nodes", nodes) != nodes:
        taking.fault(
            line.line, f"{line.starter} uses {launched['nodes']} of the job's {nodes} nodes", "--nodes N", "nodes"
        )
    tasks = launched.get("tasks")
    if "tasks_per_node" in launched:
        return launched["tasks_per_node"]
    if tasks and tasks % nodes:
        what = f"{line.starter} starts {tasks} tasks, which cannot be spread evenly over {nodes} nodes"
        taking.fault(line.line, what, "--tasks-per-node N", "tasks_per_node")
        return per_node
    if tasks:
        return tasks // nodes
    if line.row.per_node and line.starter != "accelerate":
        gpus = taking.values.get("gpus_per_node")
        return gpus if gpus else per_node
    return per_node


def _take_gpus(sizes: dict[str, Directive], nodes: int, per_node: int, taking: _Taking) -> None:
    for name in ("gres", "gpus-per-node", "gpus-per-task", "gpus"):
        one = sizes.get(name)
        found = gpus_in(one.value if one else "")
        if one is None or found is None or not found[1]:
            if one is not None and "gpu" in one.value:
                taking.fault(one.line, f"{one} cannot be taken", "--gpus-per-node N", "gpus_per_node")
            continue
        kind, number = found
        number *= per_node if name == "gpus-per-task" else 1
        if name == "gpus":
            if number % nodes:
                taking.fault(
                    one.line, f"{one}: not evenly spread over {nodes} nodes", "--gpus-per-node N", "gpus_per_node"
                )
                continue
            number //= nodes
        taking.gpu_type = kind or taking.gpu_type
        taking.values["gpus_per_node"] = number
        is_typed = "gpus_per_node" in taking.typed
        taking.shown.append((str(one), "--gpus-per-node is typed instead" if is_typed else f"--gpus-per-node {number}"))


def _gpus_of_launch(launched: dict[str, int], ranks: int) -> int | None:
    """Return the GPUs of a node that the launch line names; None if it names none."""
    per_task = launched.get("gpus_per_task")
    return launched.get("gpus_per_node", None if per_task is None else per_task * ranks)


def gpus_in(value: str) -> tuple[str, int] | None:
    """Return (type, number) of the GPUs in the value of Slurm's option; None if it names none, or in another way."""
    parts = [part.removeprefix("gres:").removeprefix("gres/") for part in value.split(",")]
    named = [part for part in parts if part.startswith("gpu")]
    parts = named or parts
    found = [match for part in parts if (match := _GPUS.fullmatch(part))]
    if len(found) != 1:
        return None
    first = found[0]
    return first[1] or first[3] or "", int(first[2] or first[4] or 1)


# --- the commands


def _take_body(text: str, arguments: Sequence[str], taking: _Taking) -> tuple[LaunchLine | None, LaunchLine | None]:
    """Take the lines before the launch line as set-up, and its program.

    Return (the launcher that starts another one, as srun starts torchrun, the launch line), where there is one.
    """
    shebang = text.split("\n", 1)[0]
    if not re.fullmatch(r"#!\s*(/\S*/)?(env\s+)?(ba|da|z|k)?sh(\s.*)?", shebang.rstrip("\r")):
        taking.fault(1, "its first line names no shell that can be read here", "")
        return None, None
    try:
        commands = commands_in(text)
    except NotShell as error:
        taking.fault(0, f"it cannot be read as a shell script: {error}")
        return None, None
    known = plain_variables(commands)
    lines = [(one, launch_line(expanded_words(one, known))) for one in commands]
    launched = [(one, line) for one, line in lines if line]
    if len(launched) > 1:
        launched = [(one, line) for one, line in launched if not _is_telling_step(line)] or launched[-1:]
    if len(launched) > 1:
        steps = ", ".join(f"line {one.line}: {line.starter}" for one, line in launched[:6])
        taking.fault(launched[1][0].line, f"it starts several steps ({steps}), and a run has one program")
        return None, None
    if not commands:
        taking.fault(0, "it has no command")
        return None, None
    chosen, line = launched[0] if launched else (_last_program(commands), None)
    line = replace(line, line=chosen.line) if line else None
    taking.before = [one for one in commands if one.line < chosen.line]
    outer = None
    _check_place(chosen, taking)
    _take_setup(text, commands, chosen, arguments, taking)
    program = _program_of(chosen, line, known, taking)
    inner = launch_line(program) if line else None
    if inner and line and line.starter != inner.starter:
        _check_options(line, taking)
        outer, program, line = line, list(inner.program), replace(inner, line=chosen.line)
    if line:
        _check_options(line, taking)
        _take_launcher(line, taking)
        if not program:
            taking.fault(chosen.line, f"the program that {line.starter} starts is not known")
        _check_program(program, chosen, line.starter, taking)
    else:
        taking.values["launcher"] = NO_LAUNCHER
    _take_program(program, chosen, taking)
    taking.values["setup"] = (*taking.values["setup"], *taking.exports)
    return outer, line


def _is_telling_step(line: LaunchLine) -> bool:
    """Whether a step only tells something of the nodes, as ``srun nvidia-smi`` does."""
    return bool(line.program) and posixpath.basename(line.program[0]) in _TELLING_STEPS


def _check_program(program: Sequence[str], chosen: ShellCommand, starter: str, taking: _Taking) -> None:
    """Refuse a variable in the program's place whose value begins with an option: it belongs to the launcher."""
    words = [word.text for word in chosen.words]
    variable = re.fullmatch(r"\$\{?([A-Za-z_]\w*)\}?", program[0]) if program[:1] and program[0] in words else None
    if variable is None:
        return
    given = [word.value for one in taking.before for name, word in one.assignments if name == variable[1]]
    if any(value.lstrip(" \t\n\\").startswith("-") for value in given):
        what = f"options of {starter} stand in ${variable[1]}, which only the script's own shell knows"
        taking.fault(chosen.line, what, "write them on the launch line")


def _last_program(commands: Sequence[ShellCommand]) -> ShellCommand:
    """Return the last command that does not only tell something."""
    rest = [one for one in commands if one.words and posixpath.basename(one.values[0]) not in (*_QUIET, "exit")]
    return (rest or list(commands))[-1]


def _check_place(chosen: ShellCommand, taking: _Taking) -> None:
    """Refuse a launch line that is not one plain command of the script."""
    number = chosen.line
    if chosen.depth:
        taking.fault(number, "the launch line stands in a loop, a condition or a function, so it is not one program")
    if chosen.ended_by in ("|", "|&", "&", "&&", "||"):
        taking.fault(number, f"the launch line is joined by {chosen.ended_by} to something else")
    if chosen.redirections:
        what = f"the launch line has {' '.join(chosen.redirections)}: the output of a run is in its log"
        taking.fault(number, what, "leave it out")


def _take_setup(
    text: str, commands: Sequence[ShellCommand], chosen: ShellCommand, arguments: Sequence[str], taking: _Taking
) -> None:
    """Take the text between the directives and the launch line, as it stands, and name the commands behind it."""
    rows = text.replace("\r\n", "\n").split("\n")
    before = [one for one in commands if one.line < chosen.line]
    beside = [one for one in commands if one.line == chosen.line and one is not chosen]
    for one in beside:
        taking.fault(one.line, f"{one.text} stands beside the launch line", "give it a line of its own")
    for one in before:
        if one.values[:1] in (("trap",), ("exec",)):
            taking.fault(one.line, f"{one.text}: hpclaunch's own script cannot have it", "leave it out")
    setup = [f"set -- {' '.join(map(shell_word, arguments))}"] if arguments else []
    begin = before[0].line if before else chosen.line
    block = "\n".join(rows[begin - 1 : chosen.line - 1]).strip("\n")
    options = any(one.values[:1] == ("set",) for one in before)
    setup += [block] if block else []
    setup += ["set +eux +o pipefail"] if options else []  # what follows is hpclaunch's own
    if any(one.values[:1] in (("cd",), ("pushd",)) and one.values[1:] not in _SAME_FOLDER for one in before):
        setup.append(f"export {_FOLDER}=$PWD")
    assigned = [f"export {name}={word.text}" for name, word in chosen.assignments]
    taking.values["setup"] = (*setup, *assigned)
    taking.shown += [(one.text.split("\n")[0], "set-up") for one in before]
    for one in [one for one in commands if one.line > chosen.line]:
        name = posixpath.basename(one.values[0]) if one.words else ""
        step = launch_line(one.values)
        is_step = step is not None and _is_telling_step(step)
        if name in _QUIET or is_step or one.values in (("exit",), ("exit", "0"), ("exit", "$?")):
            taking.remarks.append(f"left out, as it stands behind the launch line: {one.text.split(chr(10))[0]}")
        else:
            taking.fault(
                one.line, f"{one.text.split(chr(10))[0]!r} stands behind the launch line, where a run has ended"
            )


def _program_of(chosen: ShellCommand, line: LaunchLine | None, known: dict[str, str], taking: _Taking) -> list[str]:
    """Return the words of the program, as they stand in the script."""
    if line is None:
        return list(chosen.values)
    if [word for word in line.before if word not in ("exec", "command", "time")]:
        taking.fault(chosen.line, f"{' '.join(line.before)} stands before {line.starter}", "leave it out")
    return list(line.program)


def _check_options(line: LaunchLine, taking: _Taking) -> None:
    """Take the folder and the variables that a launch line gives its program, and name every other option of it."""
    own: list[str] = []
    others: list[str] = []
    for one in line.options:
        name, value = _split_option(one, line)
        if name in line.row.folder_options:
            _take_folder(one, value, line, taking)
        elif name in line.row.variable_options:
            _take_variables(one, name, value, line, taking)
        elif name in _STEP_FAULTS or name.startswith("--container"):
            taking.fault(line.line, f"{line.starter} {one} cannot be taken")
        else:
            (own if name.replace("_", "-") in _OWN else others).append(one)
    if own:
        taking.remarks.append(f"in place of these options of {line.starter} hpclaunch has its own: {' '.join(own)}")
    if others:
        taking.remarks.append(f"left out, as hpclaunch takes no such options of {line.starter}: {' '.join(others)}")


def _split_option(option: str, line: LaunchLine) -> tuple[str, str]:
    """Return (name, value) of an option as it is listed: ``--a=b``, ``--a b``, or ``-Ab`` of programs with such."""
    name, _, value = option.partition(" ")
    if name.startswith("--") and "=" in name:
        name, _, value = option.partition("=")
    elif line.row.attaches_values and not name.startswith("--") and len(name) > 2 and name not in line.row.flags:
        name, value = option[:2], option[2:]
    return name, value


def _take_folder(option: str, value: str, line: LaunchLine, taking: _Taking) -> None:
    if not value or re.search(r"[$`~*?]", value):
        what = f"{line.starter} {option} cannot be taken: its folder is known only to the script"
        taking.fault(line.line, what, "cd to it in a line before the launch line")
        return
    folder = shell_word(value) if value.startswith("/") else f'"$PWD"/{shell_word(value)}'
    taking.values["setup"] = (*taking.values.get("setup", ()), f"export {_FOLDER}={folder}")
    taking.shown.append((f"{line.starter} {option}", f"the program starts in {value}"))


def _take_variables(option: str, name: str, value: str, line: LaunchLine, taking: _Taking) -> None:
    """Take the variables that an option sets for the program, as exports of the set-up."""
    if name == "--export":
        words = [word for word in value.split(",") if word]
        if "ALL" not in words:
            what = f"{line.starter} {option} cannot be taken: ranks have all variables of the job"
            taking.fault(line.line, what, "put ALL before the variables, or leave it out")
            return
        given = [word for word in words if "=" in word]
    else:
        given = [value if name == "-x" else value.replace(" ", "=", 1)]
    for word in given:
        variable, sign, text = word.partition("=")
        if not sign:
            continue  # a variable of the job, which ranks have
        if not re.fullmatch(r"[A-Za-z_]\w*", variable) or re.search(r"[$`]", text):
            what = f"{line.starter} {option} cannot be taken: the value of {variable} is known only to the script"
            taking.fault(line.line, what, f"export {variable}=VALUE in a line before the launch line")
            continue
        taking.exports.append(f"export {variable}={shell_word(text)}")
        taking.shown.append((f"{line.starter} {option}", f"export {variable}={shell_word(text)}"))


def _take_launcher(line: LaunchLine, taking: _Taking) -> None:
    launcher = line.row.launcher or (line.starter if line.starter in LAUNCHERS else "")
    if line.row.submits or not line.row.replaceable:
        taking.fault(line.line, f"{line.starter} cannot be taken as the launcher of a run")
    if launcher:
        taking.values["launcher"] = launcher
    shown = "the site's launcher"
    if "launcher" in taking.typed:
        shown = "--launcher is typed instead"
    elif launcher:
        shown = f"--launcher {launcher}"
    taking.shown.append((line.starter, shown))


def _take_program(program: Sequence[str], chosen: ShellCommand, taking: _Taking) -> None:
    """Take the program as a command. Expansions are made by the job's script, where the batch script made them."""
    if not program:
        return
    pairs = list(zip(reversed(program), reversed(chosen.words), strict=False))
    same = next((place for place, (value, word) in enumerate(pairs) if value != word.value), len(pairs))
    taken = chosen.words[len(chosen.words) - same :]  # the other words are hpclaunch's own, such as python3
    if all(word.is_literal for word in taken):
        taking.values |= {"target": program[0], "arguments": tuple(program[1:])}
    else:
        words = [*program[: len(program) - same], *(word.text for word in taken)]
        line = f"{_PROGRAM}=$(printf '%q ' {' '.join(words)})\nexport {_PROGRAM}"
        taking.values["setup"] = (*taking.values.get("setup", ()), line)
        taking.values |= {"target": "bash", "arguments": ("-c", f'eval "exec ${_PROGRAM}"')}
    if any(_FOLDER in line for line in taking.values["setup"]):
        inner = (taking.values["target"], *taking.values["arguments"])
        taking.values |= {"target": "bash", "arguments": ("-c", f'cd "${_FOLDER}" && exec "$@"', "bash", *inner)}
    taking.values |= {"is_command": True, "framework": NO_FRAMEWORK}  # its set-up lines bring its software
    taking.shown.append((" ".join(program), "the program"))
