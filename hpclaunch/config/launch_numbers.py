"""Works out the numbers of a launch line that a batch script writes as variables and arithmetic; executes nothing."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from hpclaunch.core.shell_commands import ShellCommand

_REFERENCE = re.compile(r"\$\{([A-Za-z_]\w*)(?::?-[^{}]*)?\}|\$([A-Za-z_]\w*)")
_ARITHMETIC = re.compile(r"\$\(\((.{1,200})\)\)", re.DOTALL)
_COUNTED_GPUS = re.compile(r"\$\(\s*(nvidia-smi|rocm-smi)\b.*\)|`\s*(nvidia-smi|rocm-smi)\b.*`", re.DOTALL)
_DECLARING = ("export", "declare", "typeset", "readonly")
_CHANGING = ("read", "unset", "let", "mapfile", "readarray", "getopts", "((")
_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
}
_MOST = 10**7
GPUS_ON_NODE = "SLURM_GPUS_ON_NODE"
"""Slurm's variable with the GPUs of the job on a node."""


def number_of(text: str, known: Mapping[str, str]) -> int | None:
    """Return the number that a word of a script stands for; None if it is not known before the script runs.

    ``known``: variables and their values. GPUs that the script counts itself are those of the job.
    """
    if _COUNTED_GPUS.fullmatch(text) and GPUS_ON_NODE in known:
        return int(known[GPUS_ON_NODE])
    arithmetic = _ARITHMETIC.fullmatch(text)
    inner = arithmetic[1] if arithmetic else text
    expanded = _REFERENCE.sub(lambda found: known.get(found[1] or found[2], found[0]), inner)
    if not arithmetic:
        return int(expanded) if re.fullmatch("0|[1-9][0-9]{0,6}", expanded) else None
    named = re.sub(r"\b[A-Za-z_]\w*", lambda found: known.get(found[0], found[0]), expanded)
    try:
        return _value(ast.parse(named.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def known_numbers(commands: Sequence[ShellCommand], job: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that have one known number when these commands have run. ``job``: those that Slurm sets."""
    given = list(_assignments_in(commands))
    names = [name for name, _, _ in given]
    known = dict(job)
    for name, text, is_sure in given:
        number = number_of(text, known) if is_sure and names.count(name) == 1 else None
        known.pop(name, None)
        if number is not None:
            known[name] = str(number)
    return known


def _assignments_in(commands: Sequence[ShellCommand]) -> Iterator[tuple[str, str, bool]]:
    """Yield (variable, text of its value, whether it surely has this value from then on)."""
    joined = ""
    for command in commands:
        is_plain = not command.depth and joined not in ("&&", "||", "|", "|&") and command.ended_by not in ("|", "&")
        joined = command.ended_by
        first = command.values[:1]
        for name, word in command.assignments:
            if not command.words:
                yield name, word.value, is_plain
        for word in command.words[1:] if first and first[0] in _DECLARING else ():
            name, sign, value = word.value.partition("=")
            if sign:
                yield name.removesuffix("+"), value, is_plain and not name.endswith("+")
        if first and first[0] in _CHANGING:
            for name in re.findall(r"[A-Za-z_]\w*", command.text):
                yield name, "", False


def _value(node: ast.expr) -> int:
    """Return the value of sums and products of whole numbers, none below 0. Raises ValueError for anything else."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        result = _OPERATIONS[type(node.op)](_value(node.left), _value(node.right))
        if 0 <= result < _MOST:
            return result
    raise ValueError("it is no arithmetic that yields a number of ranks")
