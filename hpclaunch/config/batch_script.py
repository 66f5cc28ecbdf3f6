"""Reads the directives of a batch script as sbatch does; nothing of the script is executed. Pure.

Source: sbatch(1), and how sbatch divides such a line (Slurm's src/sbatch/opt.c, ``_opt_batch_script``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hpclaunch.core.errors import nearest
from hpclaunch.core.records import record
from hpclaunch.core.scheduler_rows import OTHER_SCHEDULERS

_MAGIC = "#SBATCH"
_LETTERS = """
A account, a array, b begin, B extra-node-info, c cpus-per-task, C constraint, d dependency, D chdir, e error,
F nodefile, G gpus, h help, H hold, i input, I immediate, J job-name, k no-kill, L licenses, m distribution,
M clusters, n ntasks, N nodes, o output, O overcommit, p partition, q qos, Q quiet, s oversubscribe, S core-spec,
t time, v verbose, V version, w nodelist, W wait, x exclude
"""
_SHORT: dict[str, str] = {row.split()[0]: row.split()[1] for row in _LETTERS.split(",")}
"""The letter of an option -> its long name."""
_FLAGS = {
    *("contiguous", "exclusive", "get-user-env", "help", "hold", "ignore-pbs", "immediate", "no-kill", "no-requeue"),
    *(
        "nice",
        "oom-kill-step",
        "overcommit",
        "oversubscribe",
        "parsable",
        "propagate",
        "quiet",
        "reboot",
        "requeue",
        "spread-job",
    ),
    *("test-only", "usage", "use-min-nodes", "verbose", "version", "wait"),
}
"""Options whose value, if they have one, stands behind an ``=``."""
_WITH_VALUE = {
    *("acctg-freq", "batch", "bb", "bbf", "cluster-constraint", "comment", "consolidate-segments", "container"),
    *("container-id", "cores-per-socket", "cpu-freq", "cpus-per-gpu", "deadline", "delay-boot", "export"),
    *("export-file", "extra", "gid", "gpu-bind", "gpu-freq", "gpus-per-node", "gpus-per-socket", "gpus-per-task"),
    *("gres", "gres-flags", "hint", "kill-on-invalid-dep", "mail-type", "mail-user", "mcs-label", "mem", "mem-bind"),
    *("mem-per-cpu", "mem-per-gpu", "mincpus", "network", "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-node"),
    *("ntasks-per-socket", "open-mode", "power", "prefer", "priority", "profile", "reservation", "resv-ports"),
    *("segment", "signal", "sockets-per-node", "stepmgr", "switches", "thread-spec", "threads-per-core", "time-min"),
    *("tmp", "tres-bind", "tres-per-task", "uid", "wait-all-nodes", "wckey", "wrap"),
    *("container-image", "container-mounts", "container-workdir", "container-name", "container-env", "image", "module"),
}
"""The last line: options of plug-ins (pyxis, shifter)."""
_OTHER_NAMES = {"tasks-per-node": "ntasks-per-node", "workdir": "chdir", "share": "oversubscribe"}
"""Further names of options, and older ones, which sbatch still takes."""
_LONG = {*_OTHER_NAMES, *_SHORT.values(), *_FLAGS, *_WITH_VALUE}


@record
class Directive:
    """One option of a batch script: its long name, its value (empty: none), and its line, which counts from 1."""

    name: str
    value: str
    line: int

    def __str__(self) -> str:
        return f"--{self.name}={self.value}" if self.value else f"--{self.name}"


@record
class BatchHead:
    """What a batch script asks for. ``late``: lines behind the first command, which Slurm ignores.

    ``unknown``: (line, word) that are no options of sbatch. ``scheduler``: another scheduler than Slurm that the
    directives are for, with the first of them in ``other``. ``prose``: lines that begin with a word that is no option:
    a comment may begin with #SBATCH and only tell of options.
    """

    directives: tuple[Directive, ...] = ()
    late: tuple[int, ...] = ()
    unknown: tuple[tuple[int, str], ...] = ()
    scheduler: str = ""
    other: str = ""
    prose: tuple[int, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing before the first command is a directive."""
        lines = {one.line for one in self.directives} | {number for number, _ in self.unknown}
        return not (lines - {*self.prose} or self.scheduler)


def head_of(text: str) -> BatchHead:
    """Return the directives that stand before the first command of a script, of whatever language."""
    directives: list[Directive] = []
    unknown: list[tuple[int, str]] = []
    prose: list[int] = []
    lines = text.split("\n")
    end = next((place for place, line in enumerate(lines) if line.strip() and line.lstrip()[0] != "#"), len(lines))
    for number, line in enumerate(lines[:end], start=1):
        if line.startswith(_MAGIC):
            words = split_directive(line.removeprefix(_MAGIC).rstrip("\r"))
            found, strange = _options_in(words, number)
            prose += [number] if words and not words[0].startswith("-") else []
            directives += found
            unknown += [(number, word) for word in strange]
    late = tuple(number for number, line in enumerate(lines[end:], start=end + 1) if line.startswith(_MAGIC))
    head = "\n".join(lines[:end]).strip()
    is_first_line = "\n" not in head and (not head or head.startswith("#!"))  # so most programs begin
    forms = [] if is_first_line else [(other.title, other.directive) for other in OTHER_SCHEDULERS if other.directive]
    of_others = [(title, match) for title, form in forms if (match := re.search(f"(?m){form}", head))]
    title, first = of_others[0] if of_others else ("", None)
    return BatchHead(
        directives=tuple(directives),
        late=late,
        unknown=tuple(unknown),
        scheduler=title,
        other=first[0].strip() if first else "",
        prose=tuple(prose),
    )


def split_directive(text: str) -> list[str]:
    """Return the words of a directive. Quotes join, a backslash escapes, and an open ``#`` ends the line."""
    words, word, quote, escaped, begun = [], "", "", False, False
    for character in text:
        if escaped:
            word, escaped = word + character, False
        elif character == "\\":
            escaped = begun = True
        elif quote:
            word, quote = (word, "") if character == quote else (word + character, quote)
        elif character in "\"'":
            quote, begun = character, True
        elif character == "#":
            break
        elif character.isspace():
            words += [word] if word or begun else []
            word, begun = "", False
        else:
            word, begun = word + character, True
    return [*words, word] if word or begun else words


def _options_in(words: Sequence[str], line: int) -> tuple[list[Directive], list[str]]:
    """Return the options of a line, as getopt_long finds them, and the words that are none."""
    found: list[Directive] = []
    unknown: list[str] = []
    waiting = [*words]
    while waiting:
        word = waiting.pop(0)
        if word.startswith("--"):
            typed, sign, value = word[2:].partition("=")
            name = _full_name(typed)
            if not name:
                unknown.append(word)
                continue
            if not sign and name not in _FLAGS and waiting:
                value = waiting.pop(0)
            found.append(Directive(name=name, value=value, line=line))
        elif word.startswith("-") and word[1:2] in _SHORT:
            letters = word[1:]
            while letters and _SHORT.get(letters[0], "") in _FLAGS:
                found.append(Directive(name=_SHORT[letters[0]], value="", line=line))
                letters = letters[1:]
            if letters and letters[0] in _SHORT:
                value = letters[1:] or (waiting.pop(0) if waiting else "")
                found.append(Directive(name=_SHORT[letters[0]], value=value.removeprefix("="), line=line))
            elif letters:
                unknown.append(f"-{letters}")
        else:
            unknown.append(word)
    return found, unknown


def _full_name(typed: str) -> str:
    """Return an option's name for it or an abbreviation that is not ambiguous; empty text for any other."""
    if typed in _LONG:
        return _OTHER_NAMES.get(typed, typed)
    fitting = {name for name in _LONG if name.startswith(typed)}
    return fitting.pop() if typed and len(fitting) == 1 else ""


def option_of(words: Sequence[str]) -> tuple[Directive, int] | None:
    """Return the option that words of a command line begin with, and how many of them it takes; None if it is none."""
    found, unknown = _options_in(words[:1], 0)
    if not found or unknown:
        return None
    first = found[-1]
    is_waiting = len(words) > 1 and not words[1].startswith("-") and "=" not in words[0] and first.name not in _FLAGS
    if first.value or not is_waiting:
        return first, 1
    return Directive(name=first.name, value=words[1], line=0), 2


def near_option(word: str) -> str:
    """Return the option of sbatch that was probably meant; empty text if none is near."""
    return nearest(word.lstrip("-").partition("=")[0], _LONG)
