"""Values of variables that must not leave the machine, and texts without them; it reads nothing."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from hpclaunch.core.json_values import pairs
from hpclaunch.core.records import record
from hpclaunch.core.secret_names import (
    SECRET_ENDING,
    TOKEN_FORMS,
    is_public_variable,
    is_secret_argument,
    is_secret_variable,
    may_set_secret,
)

NOT_SHOWN = "(value not shown)"
LINE_NOT_SHOWN = "# (1 line of set-up not shown)"
"""A comment of a shell, so that the script around it stays one."""
_SHORTEST = 6
"""Characters of a value that is looked for in other texts; a shorter one stands in too many words."""
_ORDINARY_WORD = re.compile("[a-z]+")
"""A value such as ``offline``, which stands in many programs for other reasons."""
_WORD = r"""(?:\$'(?:[^'\\]|\\.)*'|'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^\s;&|'"\\])*"""
_EXPORT = re.compile(rf"(?P<begin>\b(?:export|declare -x)[ \t]+)(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>{_WORD})")
_QUOTED = r"(?(quote)(?:(?!(?P=quote))[^\n])*(?P=quote)?)"
"""The rest of a word that began with a quote, up to the next one, or to the end of the line."""
_TYPED = re.compile(rf"(?P<begin>--env[ =])(?P<quote>['\"])?(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?:{_QUOTED}{_WORD})")
_TOKEN = re.compile(TOKEN_FORMS)
_ARGUMENT = r"""(?:(?:\$?'(?:[^'\\\n]|\\.)*'|'[^'\n]*'|"(?:[^"\\\n]|\\.)*")+|(?:\\[^\n]|[^\s;&|'"\\])+)"""
_OPTION = re.compile(
    rf"(?P<begin>(?<![\w-])--?(?:[\w.-]{{0,60}}[-_.])?{SECRET_ENDING}(?:=|[ \t]+(?:\\\n[ \t]*)?|['\"],[ \t]*(?=['\"])))"
    rf"(?!-|\(value not shown\)){_ARGUMENT}",
    re.IGNORECASE,
)
"""An option for a secret and its value; the script breaks long commands into lines, and a log may have a list."""
_ADDRESS = re.compile(r"(?P<begin>://[^\s:@/\"'<>]{1,80}:)[^\s@/\"'<>]{1,200}(?=@)")
"""An address with a user's name and a password."""
_MIXED = re.compile("[A-Za-z].*[0-9]|[0-9].*[A-Za-z]")
_PAIRS = ("environment", "variables")
"""The keys of a record under which variables stand, as pairs or as an object."""


@record
class HiddenValues:
    """The values of variables that are no known settings (`secret_names.is_public_variable`), and of secrets.

    ``ordinary``: those of the values that are a plain word, of variables whose names speak of no secret. ``lines``:
    lines of set-up that may set variables; they are left out as a whole, as no pattern knows all ways to write them.
    """

    values: frozenset[str] = frozenset()
    ordinary: frozenset[str] = frozenset()
    lines: frozenset[str] = frozenset()

    def without(self, text: str) -> str:
        """Return a text in which these values are replaced, also as JSON and as a shell spells them.

        Assignments (``export NAME=…``, ``--env NAME=…``) lose their values however short these are. Tokens that are
        known by their form, values of options such as ``--api-key``, and passwords in addresses are replaced too.
        """
        text = _replace(_spellings(self.lines), LINE_NOT_SHOWN, text)  # first, as the others would change them
        text = _TOKEN.sub(NOT_SHOWN, text)
        text = _OPTION.sub(rf"\g<begin>'{NOT_SHOWN}'", text)
        text = _TYPED.sub(_hide_typed, _EXPORT.sub(_hide_export, text))
        text = _replace(_spellings(self.values), NOT_SHOWN, text)
        return _ADDRESS.sub(r"\g<begin>***", text)  # which needs no quotes in a shell

    def parameter(self, name: str, value: str) -> str:
        """Return the value of a parameter, unless its name is that of a secret."""
        return NOT_SHOWN if is_secret_argument(name) else self.without(value)

    def words(self, words: Iterable[Any]) -> list[Any]:
        """Return the words of a command, or other plain values of a list, without the values of options for secrets."""
        shown: list[Any] = []
        is_value = False
        for word in words:
            name, equals, value = word.partition("=") if isinstance(word, str) else ("", "", "")
            if is_value and name and not name.startswith("-"):
                shown.append(NOT_SHOWN)
            elif equals and name.startswith("-"):
                shown.append(f"{name}={self.parameter(name, value)}")
            else:
                shown.append(self.plain(word))
            is_value = name.startswith("-") and not equals and is_secret_argument(name)
        return shown

    def _pair(self, pair: Sequence[Any]) -> list[Any]:
        """Return a name and its value, as parameters are recorded; or any other two values."""
        name, value = pair
        if isinstance(name, str) and isinstance(value, str) and is_secret_argument(name):
            return [name, NOT_SHOWN]
        return self.words(pair)

    def in_code(self) -> list[bytes]:
        """Return what is looked for in the files of the code, which are left out rather than changed."""
        return [form.encode("utf-8", "surrogateescape") for form in _spellings(self.values - self.ordinary)]

    def plain(self, value: Any, key: str = "") -> Any:
        """Return plain values (of JSON) without these values; names of variables stay."""
        if isinstance(value, str):
            return self.without(value)
        if isinstance(value, dict):
            if key in _PAIRS:
                return {name: one if is_public_variable(str(name)) else NOT_SHOWN for name, one in value.items()}
            return {name: self.plain(one, str(name)) for name, one in value.items()}
        if isinstance(value, list | tuple):
            if key in _PAIRS:
                return [_hide_pair(one) for one in value]
            return self._pair(value) if len(value) == 2 else self.words(value)
        return value


def hidden_values(
    *variables: Iterable[tuple[str, Any]],
    secrets: Collection[str] = (),
    lines: Iterable[str] = (),
    arguments: Iterable[tuple[str, str]] = (),
) -> HiddenValues:
    """Return what to hide: the values of all variables that are no known settings, and all ``secrets``.

    ``lines``: those of the set-up; the ones that may set a variable are hidden. ``arguments``: parameters and options
    with their values; those for secrets are hidden, but a plain word only where the option stands.
    """
    found = [(str(name), str(value)) for some in variables for name, value in some if not is_public_variable(str(name))]
    values = {value for _, value in found}.union(secrets) - {""}
    telling = {value for name, value in found if is_secret_variable(name)}.union(secrets)
    ordinary = {value for value in values - telling if _ORDINARY_WORD.fullmatch(value)}
    given = {value for name, value in arguments if is_secret_argument(name) and not _ORDINARY_WORD.fullmatch(value)}
    ordinary |= {value for value in given - telling if not _MIXED.search(value)}
    values |= given - {""}
    hidden = frozenset(line.strip() for line in lines if may_set_secret(line))
    return HiddenValues(values=frozenset(values), ordinary=frozenset(ordinary), lines=hidden)


def variables_in(spec: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the variables that a spec or a request records."""
    return [pair for key in _PAIRS for pair in pairs(spec.get(key))]


def _hide_pair(pair: Any) -> Any:
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        return NOT_SHOWN
    name, value = pair
    return [name, value if is_public_variable(str(name)) else NOT_SHOWN]


def _hide_export(found: re.Match[str]) -> str:
    if is_public_variable(found["name"]) or not found["value"]:
        return found[0]
    return f"{found['begin']}{found['name']}='{NOT_SHOWN}'"


def _spellings(values: Iterable[str]) -> list[str]:
    """Return how values may be written in a text, the longest first; without those that are too short."""
    spelled = {
        form
        for value in values
        for form in (value, json.dumps(value)[1:-1], _shell_spelling(value), _escaped_spelling(value))
    }
    return sorted((form for form in spelled if len(form) >= _SHORTEST), key=len, reverse=True)


def _replace(spelled: list[str], words: str, text: str) -> str:
    return re.sub("|".join(map(re.escape, spelled)), lambda _: words, text) if spelled else text


def _escaped_spelling(value: str) -> str:
    """Return a value as it stands in ``$'…'``."""
    return value.replace("\\", "\\\\").replace("'", "\\'").replace("\t", "\\t")


def _shell_spelling(value: str) -> str:
    """Return a value as a shell spells it, without the quotes around it."""
    word = shlex.quote(value)
    return word[1:-1] if word.startswith("'") else word


def _hide_typed(found: re.Match[str]) -> str:
    if is_public_variable(found["name"]):
        return found[0]
    quote = found["quote"] or ""
    return f"{found['begin']}{quote}{found['name']}={NOT_SHOWN}{quote}"
