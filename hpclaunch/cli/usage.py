"""What the parser of the command line refuses, as faults in the words of every other error; it writes nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from hpclaunch.core.errors import Fault, InvalidRequest, did_you_mean, shorten

_NOUNS = {"int": "a whole number", "integer": "a whole number", "float": "a number", "boolean": "true or false"}
_GROUPS = ("search", "runs", "jobs", "sites", "data")


def error_of(refused: Any, words: Sequence[str], arguments: Sequence[str]) -> InvalidRequest:
    """Return the error for an exception of the parser, with the place, what is allowed, and the help to read.

    ``words`` are what was typed: some exceptions do not know their command. ``arguments``: what stood behind ``--``.
    """
    context = getattr(refused, "ctx", None)
    path = context.command_path if context is not None else _typed_path(words)
    fault = _fault_of(refused, [*words, "--", *arguments] if arguments else words, path, context)
    return InvalidRequest(fault)


def needs_help(refused: Any) -> bool:
    """Whether a group was typed without a command: then its help is what the person needs."""
    return type(refused).__name__ == "NoArgsIsHelpError"


def _fault_of(refused: Any, words: Sequence[str], path: str, context: Any) -> Fault:
    kind, parameter = type(refused).__name__, getattr(refused, "param", None)
    help_of = f"{path} --help"
    if kind == "NoArgsIsHelpError":
        return Fault(where=path, what="a command is missing", allowed=", ".join(_commands(context)), next=help_of)
    if kind == "NoSuchOption":
        return _unknown_option(refused.option_name, words, path, _options(context))
    if kind == "MissingParameter" and parameter is not None:
        return Fault(where=path, what=f"{_name_of(parameter)} is missing", next=help_of)
    if kind == "BadParameter" and parameter is not None:
        what, allowed = _bad_value(refused.message, parameter)
        return Fault(where=f"{path} {_name_of(parameter)}", what=what, allowed=allowed, next=help_of)
    what = _sentence(refused.format_message(), context)
    if "more arguments" in what and path == "hpclaunch submit":
        return Fault(where=path, what=what, next=f"hpclaunch submit OPTIONS -- PROGRAM ARGUMENTS; or {help_of}")
    return Fault(where=path, what=what, next=help_of)


def _unknown_option(option: str, words: Sequence[str], path: str, known: Sequence[str]) -> Fault:
    if "--sbatch" in known:
        from hpclaunch.cli import sbatch_words

        if fault := sbatch_words.fault_for(option, words, path):
            return fault
    what = f"there is no option {shorten(option)}{did_you_mean(option, known)}"
    return Fault(where=path, what=what, next=f"{path} --help")


def _typed_path(words: Sequence[str]) -> str:
    depth = 2 if words[:1] and words[0] in _GROUPS else 1
    return " ".join(["hpclaunch", *(word for word in words[:depth] if not word.startswith("-"))])


def _name_of(parameter: Any) -> str:
    """Return an option by its flag, and an argument by its name in the help."""
    if parameter.param_type_name == "option":
        return str(max(parameter.opts, key=len))
    return str(parameter.metavar or parameter.name.upper()).strip("[]{}")


def _bad_value(message: str, parameter: Any) -> tuple[str, str]:
    """Return what is wrong with a value, and what is allowed."""
    kind = parameter.type
    low, high = getattr(kind, "min", None), getattr(kind, "max", None)
    bounds = " and ".join([*([f"at least {low}"] * (low is not None)), *([f"at most {high}"] * (high is not None))])
    found = re.fullmatch(r"(.+) is not in the range .+", message, re.DOTALL)
    if found:
        return f"{shorten(found[1])} is out of range", bounds
    found = re.fullmatch(r"(.+) is not a valid ([a-z ]+?)(?: range)?\.", message, re.DOTALL)
    if found:
        noun = _NOUNS.get(found[2], f"a {found[2]}")
        return f"{shorten(found[1])} is not {noun}", f"{noun}, {bounds}" if bounds else ""
    return message.rstrip("."), ""


def _sentence(message: str, context: Any) -> str:
    """Return the parser's own words as a clause."""
    found = re.fullmatch(r"No such command '(.*?)'\..*", message, re.DOTALL)
    if found:
        return f"there is no command {shorten(found[1])!r}{did_you_mean(found[1], _commands(context))}"
    found = re.fullmatch(r"Got unexpected extra argument(?:s|\(s\))? \((.*)\)", message, re.DOTALL)
    if found:
        return f"there are more arguments than it takes: {shorten(found[1])}"
    found = re.fullmatch(r"Option '(.+)' requires (?:an argument|(\d+) arguments)\.", message)
    if found:
        return f"{found[1]} needs {f'{found[2]} values' if found[2] else 'a value'}"
    found = re.fullmatch(r"Option '(.+)' does not take a value\.", message)
    return f"{found[1]} takes no value" if found else message.rstrip(".")


def _commands(context: Any) -> Sequence[str]:
    command: Any = getattr(context, "command", None)
    return list(command.list_commands(context)) if hasattr(command, "list_commands") else []


def _options(context: Any) -> Sequence[str]:
    parameters = context.command.get_params(context) if context is not None else []
    return [word for one in parameters for word in (*one.opts, *one.secondary_opts) if word.startswith("--")]
