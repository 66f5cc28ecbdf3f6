"""What to type at a verb of hpclaunch for an option of sbatch that it has not: the same command line with other words.

Every option of sbatch has an answer: another flag, ``--sbatch``, or why there is none and what does the same.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence

from hpclaunch.actions.preparing.predecessors import flags_for
from hpclaunch.config.batch_script import Directive, option_of
from hpclaunch.config.batch_taking import NOT_TAKEN, WITHOUT_EFFECT, gpus_in
from hpclaunch.core.errors import Fault
from hpclaunch.core.quoting import shell_word
from hpclaunch.resolve.script.directives import EXCLUDED, OWNED

_FLAG = re.compile("--[a-z][a-z-]*")
_NUMBER = re.compile("[1-9][0-9]{0,6}")
_TELLING = {"help": "--help", "usage": "--help", "parsable": "--json", "quiet": "--quiet", "verbose": "--verbose"}
"""Options without a value, and the flag of every verb that does the same."""
_VALUELESS = "hqv"
"""The letters of every verb that take no value, so that others may follow them in one word."""
_LONGEST = 400
"""Of a longer command line only the words that change are shown."""


def fault_for(option: str, words: Sequence[str], path: str) -> Fault | None:
    """Return the error for an option that the verb has not and sbatch has; None if sbatch has none of this name.

    ``option``: as it is typed. ``words``: the words behind ``hpclaunch``. ``path``: the verb, for the error.
    """
    end = words.index("--") if "--" in words else len(words)
    place = next((at for at, word in enumerate(words[:end]) if _is_that(word, option)), None)
    found = option_of(words[place:end]) if place is not None else None
    if place is None or found is None:
        return None
    asked, used = found
    what, instead = _translate(asked, words[:end])
    name = option if option.startswith("--") else f"{option} ({asked.name})"
    if asked.name == "wrap":
        others = [*words[:place], *words[place + used : end]]
        next_step = _command(["hpclaunch", *others, "--", "bash", "-c", asked.value])
    elif isinstance(instead, str):
        next_step = instead
    else:
        whole = _command(["hpclaunch", *words[:place], *instead, *words[place + used :]])
        next_step = whole if len(whole) <= _LONGEST or not instead else _command(instead)
    return Fault(where=path, what=f"{name} is an option of sbatch{what}", next=next_step)


def _command(words: Sequence[str]) -> str:
    return " ".join(map(shell_word, words))


def _is_that(word: str, option: str) -> bool:
    if option.startswith("--"):
        return word.partition("=")[0] == option
    return re.match(f"-[{_VALUELESS}]*{re.escape(option[1:])}", word) is not None


def _translate(asked: Directive, words: Sequence[str]) -> tuple[str, Sequence[str] | str]:
    """Return the rest of the sentence, and the words to type instead; or, where none do the same, what to do."""
    name, value = asked.name, asked.value
    if name in _SPECIAL:
        return _SPECIAL[name](value, words)
    flag = _TELLING.get(name) or OWNED.get(name) or OWNED.get(EXCLUDED.get(name, ""), "")
    found: tuple[str, Sequence[str] | str] = ("; hpclaunch passes it on", ["--sbatch", str(asked)])
    if name in _TELLING:
        found = (f"; here it is {flag}", [flag])
    elif name in WITHOUT_EFFECT:
        found = (f", and has no effect here: {WITHOUT_EFFECT[name]}", [])
    elif name in NOT_TAKEN:
        why, step = NOT_TAKEN[name]
        found = (f", and hpclaunch has none for it: {why}", step)
    elif name in OWNED and _FLAG.fullmatch(flag):
        found = (f"; here it is {flag}", [flag, *([value] if value else [])])
    elif flag:
        found = (f"; here it is {flag}", f"use {flag} instead")
    return found


def _gpus(value: str, words: Sequence[str]) -> tuple[str, Sequence[str] | str]:
    """``--gpus-per-node=a100:4`` and ``--gres=gpu:4``: the number of a node."""
    del words
    found = gpus_in(value)
    if found is None:
        return "; here it is --gpus-per-node", "--gpus-per-node N"
    kind, number = found
    chosen = f", and --node-type chooses nodes with GPUs of the type {kind}" if kind else ""
    return f"; here it is --gpus-per-node{chosen}", ["--gpus-per-node", str(number)]


def _gres(value: str, words: Sequence[str]) -> tuple[str, Sequence[str] | str]:
    if "," not in value and value.startswith("gpu"):
        return _gpus(value, words)
    if "gpu" in value:
        return "; here GPUs are asked for by --gpus-per-node", "--gpus-per-node N --sbatch --gres=THE_OTHERS"
    return "; hpclaunch passes it on", ["--sbatch", f"--gres={value}"]


def _all_gpus(value: str, words: Sequence[str]) -> tuple[str, Sequence[str] | str]:
    del value, words
    return "; here the GPUs of each node are counted", "--nodes N --gpus-per-node N"


def _ranks(value: str, words: Sequence[str]) -> tuple[str, Sequence[str] | str]:
    """``--ntasks=8``: the ranks of all nodes, which are divided by the nodes that are typed, if they can be."""
    what = "; here the ranks of each node are counted"
    typed = _value_of(words, "--nodes", "-N")
    nodes = typed or "1"
    if not (_NUMBER.fullmatch(value) and _NUMBER.fullmatch(nodes)) or int(value) % int(nodes):
        return what, "--nodes N --tasks-per-node N"
    have = [] if typed else ["--nodes", "1"]
    return what, [*have, "--tasks-per-node", str(int(value) // int(nodes))]


def _memory(value: str, words: Sequence[str]) -> tuple[str, Sequence[str] | str]:
    del words
    if value == "0":
        return "; 0 asks for all memory of a node, and a run has a fixed amount", "--memory SIZE"
    return "; here it is --memory", ["--memory", value]


def _dependency(value: str, words: Sequence[str]) -> tuple[str, Sequence[str] | str]:
    del words
    flags = shlex.split(flags_for(value))
    if flags:
        return "; here it is --after or --after-any", flags
    return "; hpclaunch passes it on", ["--sbatch", f"--dependency={value}"]


def _variables(value: str, words: Sequence[str]) -> tuple[str, Sequence[str] | str]:
    """``--export=ALL,A=1``: what is given a value; variables of the shell stay outside, whatever it says of them."""
    del words
    what = "; here it is --env, one variable each, and those of this shell stay outside"
    given = [word for word in value.split(",") if "=" in word]
    return what, [part for word in given for part in ("--env", word)]


def _version(value: str, words: Sequence[str]) -> tuple[str, Sequence[str] | str]:
    del value, words
    return "; here it stands before the verb", "hpclaunch --version"


_SPECIAL: dict[str, Callable[[str, Sequence[str]], tuple[str, Sequence[str] | str]]] = {
    "dependency": _dependency,
    "export": _variables,
    "gpus": _all_gpus,
    "gpus-per-node": _gpus,
    "gpus-per-task": _all_gpus,
    "gres": _gres,
    "mem": _memory,
    "ntasks": _ranks,
    "version": _version,
    "wrap": lambda value, words: ("; here a command stands behind --", []),
}


def _value_of(words: Sequence[str], *flags: str) -> str:
    """Return the value that is typed for a flag; empty if it is not typed."""
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if word in flags:
            return after
        name, sign, value = word.partition("=")
        if sign and name in flags:
            return value
        if word[:2] in flags:  # -N2
            return word[2:]
    return ""
