"""Looks at the program of a run before anything is queued: what cannot be a rank, or could not start; runs nothing.

A batch script and a launcher start ranks themselves. Given as the program of a rank, each of them would start all
ranks again, once for every rank.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from hpclaunch.actions.preparing.programs import find_on_path
from hpclaunch.actions.preparing.python_syntax import syntax_faults
from hpclaunch.config.batch_script import BatchHead, head_of
from hpclaunch.config.launch_lines import PYTHON, SHELL, LaunchLine, launch_line, launch_lines_in, unwrapped
from hpclaunch.core.errors import Fault
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.records import record
from hpclaunch.core.spec import JobSpec
from hpclaunch.core.units import format_memory, format_walltime
from hpclaunch.launchers import NO_LAUNCHER
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.ranks.launch import is_offered

_SHELL_SUFFIXES = (".sh", ".bash", ".slurm", ".sbatch", ".sbat", ".batch", ".job", ".pbs", ".sub", ".qsub", ".cmd")
_MOST_SHOWN = 8
_FLAGS = {"nodes": "--nodes", "tasks_per_node": "--tasks-per-node", "cpus_per_task": "--cpus-per-task"}
_FLAGS_OF_DIRECTIVES = {
    "nodes": "--nodes",
    "ntasks-per-node": "--tasks-per-node",
    "cpus-per-task": "--cpus-per-task",
    "time": "--walltime",
    "partition": "--partition",
    "account": "--account",
    "qos": "--qos",
    "mem": "--memory",
}


@record
class ProgramFile:
    """The file that a rank runs. ``interpreter``: what runs it; empty if the system starts it by its first line.

    ``shown`` is its path as it is typed again. ``text`` is empty if it is no text, or cannot be read.
    """

    path: Path
    shown: str
    interpreter: str
    text: str


def unsuitable_program(case: Case, spec: JobSpec) -> list[Fault]:
    """Return why the program of a run cannot be a rank of it: it is a batch script, a notebook, or starts ranks itself.

    Only what a person hands over is looked at, and not a job with a job file, whose author has chosen its command.
    """
    if not case.job.source_only or case.job.recorded or case.request.as_is:
        return []
    words = _words(case)
    typed = launch_line(words)
    if typed:
        refused = typed.is_certain and not _is_alone(case, spec, typed)
        return [_refusal_of_launcher(case, typed)] if refused else []
    file = _program_file(case, words)
    return _unsuitable_file(case, spec, file) if file else []


def doubtful_lines(case: Case, spec: JobSpec) -> list[str]:
    """Return notices about launchers in the program of a run that a rank may not come to."""
    if not case.job.source_only or case.job.recorded or case.request.as_is:
        return []
    words = _words(case)
    typed = launch_line(words)
    file, lines = None, []
    if typed:
        lines = [typed]
    else:
        file = _program_file(case, words)
        if file and _is_shell(file):
            lines = launch_lines_in(file.text)
    name = file.shown if file else " ".join(map(shell_word, words[:_MOST_SHOWN]))
    notices = []
    for line in lines:
        if line.is_certain or _is_alone(case, spec, line):
            continue
        place = f"{name}, line {line.line}" if file else name
        notices.append(f"{place}: {line.starter} {_does(line)}, once for every rank that comes to this line")
    return notices


def _does(line: LaunchLine) -> str:
    return "submits a job of its own" if line.row.submits else "starts ranks itself"


def _unsuitable_file(case: Case, spec: JobSpec, file: ProgramFile) -> list[Fault]:
    if file.path.suffix == ".ipynb":
        script = shell_word(file.shown.removesuffix(".ipynb") + ".py")
        next_step = f"jupyter nbconvert --to script {shell_word(file.shown)}; then hpclaunch submit {script}"
        return [Fault(where=file.shown, what="a notebook is no program that a rank can run", next=next_step)]
    head = head_of(file.text)
    lines = launch_lines_in(file.text) if _is_shell(file) else []
    if not head.is_empty:
        return [_refusal_of_batch_script(case, file, head, lines)]
    started = [line for line in lines if line.is_certain and not _is_alone(case, spec, line)]
    return [_refusal_of_launcher(case, started[0], file)] if started else []


def unstartable_program(case: Case, spec: JobSpec) -> list[Fault]:
    """Return why a script could not start: its line ends, its interpreter, or the syntax of another Python."""
    file = _program_file(case, _words(case)) if case.job.source_only else None
    if file is None or not file.text:
        return []
    if file.interpreter and not _is_shell(file):
        return syntax_faults(file.shown, file.text, spec)
    if _has_foreign_line_ends(file.text):
        what = "its lines end with CR LF, as on Windows, and the interpreter takes CR for a part of each command"
        return [Fault(where=file.shown, what=what, next=f"sed -i 's/\\r$//' {shell_word(file.shown)}")]
    return [] if file.interpreter else _interpreter_faults(file, case)


def _words(case: Case) -> list[str]:
    """Return the command as a rank runs it, with the script's own path."""
    job = case.job
    if job.script:
        return ["python3", f"{job.folder}/{job.script}", *case.request.arguments]
    return [*(word.replace("{code}", job.folder, 1) for word in job.command), *case.request.arguments]


def _program_file(case: Case, words: Sequence[str]) -> ProgramFile | None:
    """Return the script that a command runs; None if it runs a program of the system, or if there is no such file."""
    interpreter, script = _split_interpreter(unwrapped(words)[1])
    path = Path(case.context.cwd) / script
    if not script or not os.path.isfile(path):  # also False in a folder that one may not enter
        return None
    target = case.request.target
    shown = target if path == Path(case.context.cwd) / target else script
    return ProgramFile(path=path, shown=shown, interpreter=interpreter, text=_text_of(path, case))


def _split_interpreter(words: Sequence[str]) -> tuple[str, str]:
    """Return (interpreter, script) of a command; an empty script if it runs none that is named by its path."""
    name = os.path.basename(words[0]) if words else ""
    if not PYTHON.fullmatch(name) and not SHELL.fullmatch(name):
        return "", words[0] if words and os.sep in words[0] else ""
    waiting = list(words[1:])
    while waiting and waiting[0].startswith("-"):
        option = waiting.pop(0)
        if option in ("-c", "-m") or (SHELL.fullmatch(name) and re.fullmatch("-[a-z]*c", option)):
            return words[0], ""
        waiting = waiting[1:] if option in ("-W", "-X", "-o") else waiting
    return words[0], waiting[0] if waiting else ""


def _text_of(path: Path, case: Case) -> str:
    """Return the text of a script, of the command's one reading of it; empty if it cannot be read, or is no text."""
    try:
        content = case.code_folders.content(path)
    except (OSError, ValueError):
        return ""
    return "" if b"\0" in content[:8192] else content.decode("utf-8", "replace")


def _is_shell(file: ProgramFile) -> bool:
    """Whether a shell runs the file."""
    if file.interpreter:
        return bool(SHELL.fullmatch(os.path.basename(file.interpreter)))
    words = _first_line_words(file.text)
    return bool(SHELL.fullmatch(os.path.basename(words[-1]))) if words else file.path.suffix in _SHELL_SUFFIXES


def _first_line_words(text: str) -> list[str]:
    """Return the interpreter of a file's ``#!`` line, with ``env`` before it where it stands there; without options."""
    first = text.split("\n", 1)[0]
    if not first.startswith("#!"):
        return []
    words = first[2:].split()
    name = os.path.basename(words[0]) if words else ""
    if name == "env":
        return [words[0], *[word for word in words[1:] if not word.startswith("-") and "=" not in word][:1]]
    return words[:1]


def _is_alone(case: Case, spec: JobSpec, line: LaunchLine) -> bool:
    """Whether the user asks for one process of this launcher in the job, or one on each node if that is its use."""
    request, layout = case.request, spec.layout
    if line.row.submits or not (request.tasks_per_node == 1 or request.launcher == NO_LAUNCHER):
        return False
    return layout.world_size == 1 or (line.row.per_node and layout.tasks_per_node == 1)


def _refusal_of_launcher(case: Case, line: LaunchLine, file: ProgramFile | None = None) -> Fault:
    """Return the refusal of a launcher that stands for the program of every rank."""
    what = f"{line.starter} {_does(line)}, and hpclaunch would start it once for every rank"
    where = f"{file.shown}, line {line.line}" if file else " ".join(map(shell_word, line.words[:_MOST_SHOWN]))
    steps = []
    if line.row.submits:
        steps += _steps_for_submitter(case, line)
    elif _opens_shell(line):
        steps.append(" ".join(["hpclaunch shell", *_typed_words(case, _sizes_of(line, case.request.nodes))]))
    elif line.row.replaceable and _is_one_program(line):
        launcher = line.row.launcher if _is_offered(case, line.row.launcher) else ""
        sizes = _sizes_of(line, case.request.nodes)
        words = [*_typed_words(case, sizes), *(["--launcher", launcher] if launcher else [])]
        left_out = _left_out(line, sizes)
        without = f" (without {'; '.join(left_out)})" if left_out else ""
        steps.append(" ".join(["hpclaunch submit", *words, _target_words(line.program)]) + without)
    if not line.row.submits:
        once = "--tasks-per-node 1" if line.row.per_node else f"--nodes 1 --tasks-per-node 1 --launcher {NO_LAUNCHER}"
        steps.append(f"{once}, to start it once {'on each node' if line.row.per_node else 'in the job'}")
    return Fault(where=where, what=what, next="; or ".join(steps) or "name the program that it starts")


def _steps_for_submitter(case: Case, line: LaunchLine) -> list[str]:
    """Return the commands that do what a program that submits a job was to do."""
    wrapped = [option.removeprefix("--wrap")[1:] for option in line.options if option.startswith("--wrap")]
    words = _typed_words(case, _sizes_of(line, case.request.nodes))
    if line.row.takes_script and _is_one_program(line):
        script = shell_word(line.program[0])
        is_python = line.program[0].endswith(".py")
        if line.starter == case.site.scheduler_row.start_command and not is_python:
            if not (Path(case.context.cwd) / line.program[0]).is_file():
                return [f"there is no file {script}: name the batch script"]
            return [
                " ".join(["hpclaunch submit", *words, "--from-script", script]),
                f"hpclaunch submit --as-is {script}",
            ]
        path = script if "/" in script else f"./{script}"
        return [" ".join(["hpclaunch submit", *words, path])]
    if line.row.opens_shell and not line.program:
        return [" ".join(["hpclaunch shell", *words])]
    if wrapped:
        return [" ".join(["hpclaunch submit", *words, "--", "bash -c", shell_word(wrapped[0])])]
    return [" ".join(["hpclaunch submit", *words, _target_words(line.program)])] if _is_one_program(line) else []


def _opens_shell(line: LaunchLine) -> bool:
    """Whether a launch line opens a shell for a person at the terminal."""
    shell, *options = line.program or ("",)
    is_shell = SHELL.fullmatch(os.path.basename(shell)) is not None
    return "--pty" in line.options and is_shell and all(re.fullmatch("-[il]+|--login", one) for one in options)


def _refusal_of_batch_script(case: Case, file: ProgramFile, head: BatchHead, lines: Sequence[LaunchLine]) -> Fault:
    """Return the refusal of a batch script, with its directives and the launcher in it."""
    options = [*map(str, head.directives), *(word for _, word in head.unknown)]
    asked = ", ".join(options[:_MOST_SHOWN]) or head.other
    more = ", …" if len(options) > _MOST_SHOWN else ""
    what = f"it is a batch script{f' of {head.scheduler}' if not options and head.scheduler else ''}: "
    what += f"what it asks for ({asked}{more}) would be ignored, and every rank would run all of it"
    what += f", also {lines[0].starter} in line {lines[0].line}" if lines else ""
    flags = [(_FLAGS_OF_DIRECTIVES.get(one.name), one.value) for one in head.directives]
    words = [f"{flag} {shell_word(value)}" for flag, value in flags if flag]
    script = shell_word(file.shown)
    if not _is_shell(file):
        next_step = " ".join(["hpclaunch submit", *words, script]) + ", when these lines are taken out of it"
        next_step += f"; or hpclaunch submit --as-is {script} submits it unchanged" if options else ""
        return Fault(where=file.shown, what=what, next=next_step)
    if options:
        taken = f" takes it in ({' '.join(words)})" if words else " takes it in"
        next_step = (
            f"hpclaunch submit --from-script {script}{taken}; hpclaunch submit --as-is {script} submits it unchanged"
        )
        return Fault(where=file.shown, what=what, next=next_step)
    program = _target_words(lines[-1].program) if lines and _is_one_program(lines[-1]) else "PROGRAM"
    launcher = [f"--launcher {lines[-1].row.launcher}"] if lines and lines[-1].row.per_node else []
    sizes = _sizes_of(lines[-1], case.request.nodes) if lines else {}
    typed = _typed_words(case, sizes)
    return Fault(where=file.shown, what=what, next=" ".join(["hpclaunch submit", *typed, *launcher, program]))


def _is_offered(case: Case, launcher: str) -> bool:
    """Whether a site has a launcher that the user may name."""
    site = case.site
    offered = [*site.launchers.options] if site.launchers else [site.scheduler_row.usual_launcher]
    return bool(launcher) and is_offered(site, launcher, offered)


def _is_one_program(line: LaunchLine) -> bool:
    """Whether a line starts one program for all ranks, and its words stand for themselves."""
    is_several = ":" in line.program or any(one.startswith(("--multi-prog", "--het-group")) for one in line.options)
    return bool(line.program) and not is_several and not re.search("[$`]", " ".join(line.program))


def _sizes_of(line: LaunchLine, typed_nodes: int | None) -> dict[str, str]:
    """Return what a launch line says of nodes and ranks; expansions of the shell say nothing."""
    sizes = {name: text for name, text in line.sizes if re.fullmatch("[1-9][0-9]{0,6}", text)}
    nodes = int(sizes["nodes"]) if "nodes" in sizes else typed_nodes
    if nodes and "tasks" in sizes and "tasks_per_node" not in sizes and int(sizes["tasks"]) % nodes == 0:
        sizes["tasks_per_node"] = str(int(sizes["tasks"]) // nodes)
    return {name: text for name, text in sizes.items() if name in _FLAGS}


def _typed_words(case: Case, sizes: Mapping[str, str]) -> list[str]:
    """Return what was typed of the size and the place of the run, with the sizes of a launch line in its stead."""
    request = case.request
    typed = {
        "--site": request.site,
        "--node-type": request.node_type,
        **{flag: sizes.get(name) or getattr(request, name) for name, flag in _FLAGS.items()},
        "--gpus-per-node": request.gpus_per_node,
        "--account": request.account,
        "--partition": request.partition,
        "--qos": request.qos,
        "--walltime": None if request.walltime is None else format_walltime(request.walltime),
        "--memory": None if request.memory is None else format_memory(request.memory),
    }
    return [f"{flag} {shell_word(str(value))}" for flag, value in typed.items() if value is not None]


def _left_out(line: LaunchLine, sizes: Mapping[str, str]) -> list[str]:
    """Return what a launch line and its shell script do, and the proposed command does not."""
    taken = {*sizes, *(["tasks"] if "tasks_per_node" in sizes else [])}
    lost = [f"{name.replace('_', ' ')} {text}" for name, text in line.sizes if name not in taken]
    before = [" ".join(line.before)] if line.before and line.before != ("exec",) else []
    found = [*before, *lost, *line.options, *line.beside]
    return [*found[:_MOST_SHOWN], *(["…"] if found[_MOST_SHOWN:] else [])]


def _target_words(program: Sequence[str]) -> str:
    """Return a program as it is typed for submit: a file of Python by its path, anything else as a command."""
    if re.fullmatch(r"python3?", program[0]) and len(program) > 1 and program[1].endswith(".py"):
        script = program[1] if "/" in program[1] else f"./{program[1]}"
        arguments = ["--", *program[2:]] if len(program) > 2 else []
        return " ".join(map(shell_word, [script, *arguments]))
    return " ".join(["--", *map(shell_word, program)])


def _has_foreign_line_ends(text: str) -> bool:
    """Whether the first lines all end with CR LF: a single CR may belong to a text in the script."""
    lines = text.split("\n")[:-1][:20]
    return bool(lines) and all(line.endswith("\r") for line in lines)


def _interpreter_faults(file: ProgramFile, case: Case) -> list[Fault]:
    """Return that the interpreter in the first line of a script does not exist on this machine."""
    words = _first_line_words(file.text)
    if not words:
        return []
    name = words[-1]
    path = case.context.environment.get("PATH", os.defpath)
    exists = os.access(name, os.X_OK) if os.sep in name else bool(find_on_path(path, name))
    if exists or (os.sep not in name and _brings_software(case)):
        return []
    what = f"its interpreter {name} is not {'on this machine' if os.sep in name else 'on PATH'}"
    next_step = f"correct its first line, such as #!/usr/bin/env {os.path.basename(name)}"
    return [Fault(where=f"{file.shown}, line 1", what=what, next=next_step)]


def _brings_software(case: Case) -> bool:
    """Whether the job's environment may have more programs on PATH than this shell."""
    request = case.request
    return bool(request.modules or request.venv or request.conda) or case.site.scheduler_row.has_queue
