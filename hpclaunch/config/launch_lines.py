"""Finds the program that starts ranks itself in the words of a command or in a shell script; pure, it runs nothing."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hpclaunch.core.records import record
from hpclaunch.core.runtime_rows import RUNTIMES
from hpclaunch.core.spec import Pairs
from hpclaunch.core.starter_rows import CONTAINERS, MODULES, QUESTIONS, RUNNERS, STARTERS, WRAPPERS, StarterRow

if TYPE_CHECKING:
    from hpclaunch.core.shell_commands import ShellCommand

PYTHON = re.compile(r"python[0-9.]*")
SHELL = re.compile(r"(ba|da|z|k|mk)?sh")
"""The names of the programs that interpret a script."""
_FUNCTIONS = (
    r"(?m)(?:^|[;&|{])[ \t]*([\w.-]+)[ \t]*\([ \t]*\)",
    r"(?m)(?:^|[;&|{])[ \t]*function[ \t]+([\w.-]+)",
)
"""The two forms in which a script defines a function."""
_NO_PYTHON = {"--no-python", "--run-path", "-c", "--command-mode"}
"""Options with which a launcher of Python programs starts any program."""
_ARRAY = r"\([^$`'\"()\\#]*\)"
_WHOLE_ARRAY = r"\$\{([A-Za-z_]\w*)\[[@*]\]\}"
_VARIABLE = r"\$\{?([A-Za-z_]\w*)\}?"


@record
class LaunchLine:
    """A command that starts ranks itself. ``sizes``: (what of a request, its text), from its options.

    ``options``: its other options. ``program``: what it starts; empty if that cannot be told.
    ``before``: the words in front of it, of programs that run it. ``line``: its line in a script; 0 if it was typed.
    ``beside``: the other commands of the shell script that it is in. ``is_certain``: a script comes to it under no
    condition that can be seen.
    """

    starter: str
    words: tuple[str, ...]
    sizes: Pairs = ()
    options: tuple[str, ...] = ()
    program: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    line: int = 0
    beside: tuple[str, ...] = ()
    is_certain: bool = True

    @property
    def row(self) -> StarterRow:
        """The facts about the program."""
        return STARTERS[self.starter]


def launch_line(words: Sequence[str]) -> LaunchLine | None:
    """Return the launch line that a command is; None for any other command."""
    before, rest = unwrapped(words)
    if not rest:
        return None
    name = posixpath.basename(rest[0])
    if name in CONTAINERS or any(name == row.program for row in RUNTIMES.values()):
        image = _image_place(rest)
        inner = launch_line(rest[image + 1 :]) if image else None
        return LaunchLine(**{**vars(inner), "before": (*before, *rest[: image + 1])}) if inner else None
    if SHELL.fullmatch(name):
        text = next((rest[place + 1] for place, word in enumerate(rest[:-1]) if re.fullmatch("-[a-z]*c", word)), "")
        inside = sorted(launch_lines_in(text), key=lambda line: not line.is_certain) if text else []
        return inside[0] if inside else None
    starter, arguments = name, list(rest[1:])
    if PYTHON.fullmatch(name):
        module, script = _module_of(rest), _installed_script_of(rest)
        if module is None and not script:
            return None
        starter, given = MODULES.get(module[0], ("", ())) if module else (posixpath.basename(script[0]), ())
        arguments = [*given, *(module[1] if module else script[1:])]
    row = STARTERS.get(starter)
    if row is None or not _starts(row, arguments):
        return None
    if row.words:
        place = next(place for place, word in enumerate(arguments) if word in row.words)
        has_second = arguments[place] == "mini" or arguments[place + 1 : place + 2] == ["model"]
        arguments = arguments[place + 1 + has_second :]  # flux mini run, lightning run model
    sizes, options, program = _read(row, arguments)
    return LaunchLine(
        starter=starter,
        words=tuple(rest),
        sizes=sizes,
        options=options,
        program=program,
        before=tuple(before),
    )


def launch_lines_in(text: str) -> list[LaunchLine]:
    """Return the launch lines of a shell script with their lines, none if it cannot be read.

    A variable counts as its value if the script gives it one once and in full. What stands behind the script's end, and
    a function with the name of a launcher, is no launch line.
    """
    from hpclaunch.core.shell_commands import NotShell, commands_in  # most programs are no shell scripts

    try:
        commands = commands_in(text)
    except NotShell:
        return []
    known, arrays = plain_variables(commands), _arrays_in(commands)
    functions = {name for form in _FUNCTIONS for name in re.findall(form, text)}
    found = []
    before: list[ShellCommand] = []
    for command in commands:
        words = expanded_words(command, known)
        array = re.fullmatch(_WHOLE_ARRAY, words[0]) if words else None
        words = [*arrays.get(array[1], []), *words[1:]] if array else words
        is_certain = not command.depth and not _is_conditional(before)
        made = launch_line(words) if words[:1] and words[0] not in functions else None
        if made:
            certain = is_certain and made.is_certain
            beside = (*made.beside, *(one.text.split("\n")[0] for one in commands if one is not command))
            facts = {"line": command.line, "beside": beside, "is_certain": certain}
            found.append(LaunchLine(**{**vars(made), **facts}))
        if is_certain and (words[:1] == ["exit"] or (words[:1] == ["exec"] and len(words) > 1)):
            break
        before.append(command)
    return found


def _arrays_in(commands: Sequence[ShellCommand]) -> dict[str, list[str]]:
    """Return the arrays that a script sets once, to words without quotes and expansions."""
    given = [(name, word.text) for one in commands for name, word in one.assignments]
    names = [name for name, _ in given]
    return {name: text[1:-1].split() for name, text in given if re.fullmatch(_ARRAY, text) and names.count(name) == 1}


def _is_conditional(before: Sequence[ShellCommand]) -> bool:
    """Whether it depends on the commands before it whether a command runs: behind ``||``, or a test with ``&&``."""
    for command in reversed(before):
        if command.ended_by not in ("&&", "||"):
            return False
        if command.ended_by == "||" or command.values[:1] in (("[",), ("[[",), ("test",), ("((",)):
            return True
    return False


def plain_variables(commands: Sequence[ShellCommand]) -> dict[str, str]:
    """Return the variables that a script sets once, at its top level, to a text without expansions."""
    given = [(name, word, bool(one.words) or one.depth > 0) for one in commands for name, word in one.assignments]
    exported = [one for one in commands if one.values[:1] == ("export",) and not one.depth]
    for command in exported:
        for word in command.words[1:]:
            name, sign, value = word.value.partition("=")
            given += [(name, replace(word, value=value), False)] if sign else []
    names = [name for name, _, _ in given]
    return {
        name: word.value
        for name, word, is_partial in given
        if names.count(name) == 1 and word.is_literal and not is_partial
    }


def expanded_words(command: ShellCommand, known: dict[str, str]) -> list[str]:
    """Return the words of a command; a leading word that is one known variable as the words of its value."""
    words = list(command.values)
    if command.words:
        variable = re.fullmatch(_VARIABLE, command.words[0].text)
        if variable and variable[1] in known:
            return [*known[variable[1]].split(), *words[1:]]
    return words


def unwrapped(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return (the words of programs that only run what follows, such as env, the command that they run)."""
    before: list[str] = []
    rest = list(words)
    while rest:
        row = WRAPPERS.get(posixpath.basename(rest[0]))
        runner = RUNNERS.get(posixpath.basename(rest[0]))
        if runner and rest[1:2] == [runner[0]]:
            before.append(rest.pop(0))
            row = (0, runner[1])
        if row is None:
            return before, rest
        if posixpath.basename(rest[0]) == "command" and rest[1:2] and rest[1] in ("-v", "-V"):
            return before, []
        fixed, with_value = row
        before.append(rest.pop(0))
        while rest and (rest[0].startswith("-") or re.match(r"[A-Za-z_]\w*=", rest[0])):
            option = rest.pop(0)
            before.append(option)
            if option in with_value and rest:
                before.append(rest.pop(0))
        for _ in range(fixed):
            before += [rest.pop(0)] if rest else []
    return before, rest


def _image_place(words: Sequence[str]) -> int:
    """Return the place of the image among the words of a container's program; 0 if none can be told."""
    named = (place for place, word in enumerate(words) if word.endswith((".sif", ".simg")) or "://" in word)
    first = next(named, 0)
    with_value = CONTAINERS.get(posixpath.basename(words[0]))
    if first or with_value is None:
        return first
    place = next((place + 1 for place, word in enumerate(words) if word in ("exec", "run")), len(words))
    while place < len(words) and words[place].startswith("-"):
        place += 2 if words[place] in with_value else 1
    return place if place < len(words) else 0


def _installed_script_of(words: Sequence[str]) -> list[str]:
    """Return the script that Python runs, and its arguments, if it is a launcher that is installed in a folder bin."""
    place = next((place for place, word in enumerate(words) if place and not word.startswith("-")), 0)
    path = words[place]
    is_installed = posixpath.basename(posixpath.dirname(path)) == "bin" and posixpath.basename(path) in STARTERS
    return list(words[place:]) if place and is_installed else []


def _module_of(words: Sequence[str]) -> tuple[str, list[str]] | None:
    """Return the module that ``python -m`` runs, and its arguments."""
    waiting = list(words[1:])
    while waiting and waiting[0].startswith("-"):
        option = waiting.pop(0)
        if option.startswith("-m"):
            module = option[2:] or (waiting.pop(0) if waiting else "")
            return module, waiting
        if option in ("-W", "-X") and waiting:
            waiting.pop(0)
    return None


def _starts(row: StarterRow, arguments: Sequence[str]) -> bool:
    """Whether a use of the program starts something: it has something to start, and does not only ask."""
    if row.words:
        place = next((place for place, word in enumerate(arguments) if not word.startswith("-")), len(arguments))
        has_options = any(word.startswith("-") for word in arguments[place + 1 : place + 2])
        is_one = place < len(arguments) and arguments[place] in row.words
        return is_one and (has_options or not row.needs_options)
    return not arguments or not {arguments[0], " ".join(arguments[:2])} & {*QUESTIONS}


def _read(row: StarterRow, arguments: Sequence[str]) -> tuple[Pairs, tuple[str, ...], tuple[str, ...]]:
    """Return the sizes, the other options, and the program of a launch line. Options may have ``_`` for ``-``."""
    sizes: list[tuple[str, str]] = []
    options: list[str] = []
    rest = list(arguments)
    module = False
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        typed, sign, value = word.partition("=") if word.startswith("--") else (word, "", "")
        name = typed if not typed.startswith("--") else typed.replace("_", "-")
        short = word[:2] if not word.startswith("--") and word[:2] in row.sizes and word not in row.sizes else ""
        if short:  # -N4
            sizes.append((row.sizes[short], word[2:].removeprefix("=")))
            continue
        module = module or (row.python_program and name in ("-m", "--module", "--module-mode"))
        if name in row.two_values:
            options.append(" ".join([word, *rest[:2]]))
            rest = rest[2:]
        elif name in row.flags or sign or (row.attaches_values and len(word) > 2 and word[1] != "-"):
            if name in row.sizes:
                sizes.append((row.sizes[name], value))
            else:
                options.append(word)
        elif name in row.sizes:
            sizes.append((row.sizes[name], rest.pop(0) if rest else ""))
        else:
            options.append(" ".join([word, *rest[:1]]))
            rest = rest[1:]
    if row.python_program and rest and not _NO_PYTHON & {one.replace("_", "-") for one in options}:
        rest = ["python3", *(["-m"] if module else []), *rest]
    return tuple(sizes), tuple(options), tuple(rest)
