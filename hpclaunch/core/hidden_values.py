"""Values of variables that must not leave the machine, and texts without them; it reads nothing."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from hpclaunch.core.json_values import pairs
from hpclaunch.core.records import record
from hpclaunch.core.secret_names import (
    SECRET_ENDING,
    SECRET_WORDS,
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
_LIKE_A_SECRET = re.compile(r"(?=.*[A-Za-z])(?=.*[0-9])[^/]{16,}", re.DOTALL)
"""The value of a variable that is looked for in code, whatever the name of the variable is."""
_WORD = r"""(?:\$'(?:[^'\\]|\\.)*'|'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^\s;&|'"\\])*"""
_EXPORT = re.compile(rf"(?P<begin>\b(?:export|declare -x)[ \t]+)(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>{_WORD})")
_REST_OF_QUOTED = r"(?:(?!(?P=quote))[^\n])*(?P=quote)?"
_QUOTED = rf"(?(quote){_REST_OF_QUOTED})"
"""The rest of a word that began with a quote, up to the next one, or to the end of the line."""
_TYPED = re.compile(rf"(?P<begin>--env[ =])(?P<quote>['\"])?(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?:{_QUOTED}{_WORD})")
_TOKEN = re.compile(TOKEN_FORMS)
_ARGUMENT = r"""(?:(?:\$?'(?:[^'\\\n]|\\.)*'|'[^'\n]*'|"(?:[^"\\\n]|\\.)*")+|(?:\\[^\n]|[^\s;&|'"\\])+)"""
_BEFORE_ENDING = r"(?:[\w.-]{0,60}[-_.])?"
_OPTION = re.compile(
    rf"(?P<begin>(?<![\w-])--?(?:{_BEFORE_ENDING}{SECRET_ENDING}|key)"
    r"(?:=|[ \t]+(?:\\\n[ \t]*)?|['\"],[ \t]*(?=['\"])))"
    rf"(?!-|\(value not shown\))(?P<value>{_ARGUMENT})",
    re.IGNORECASE,
)
"""An option for a secret and its value; the script breaks long commands into lines, and a log may have a list."""
_NUMBER = r"[-+]?[0-9.]+(?:e[-+]?[0-9]+)?(?![^\s,;)\]}'\"])"
_OVERRIDE = re.compile(
    rf"(?P<begin>(?P<quote>['\"])?(?<![\w.$/{{-])[+~]{{0,2}}{_BEFORE_ENDING}{SECRET_ENDING}=)"
    rf"(?!['\"]?(?:\$(?!')|[`<{{(])|{_NUMBER})(?P<value>(?(quote){_REST_OF_QUOTED}|{_ARGUMENT}))",
    re.IGNORECASE,
)
"""A word ``NAME=VALUE`` for a secret, as Hydra and OmegaConf take them; no number, no variable and no command."""
_OVERRIDE_WORDS = (
    "key=",
    "token=",
    "passwd=",
    "password=",
    "pwd=",
    "passphrase=",
    "secret=",
    "credential=",
    "credentials=",
)
"""One of these stands in every override, in small letters."""
_ADDRESS = re.compile(r"(?P<begin>://[^\s:@/\"'<>]{1,80}:)[^\s@/\"'<>]{1,200}(?=@)")
"""An address with a user's name and a password."""
_MIXED = re.compile("[A-Za-z].*[0-9]|[0-9].*[A-Za-z]")
_PAIRS = ("environment", "variables")
"""The keys of a record under which variables stand, as pairs or as an object."""


@record
class HiddenValues:
    """The values of variables that are no known settings (`secret_names.is_public_variable`), and of secrets.

    ``ordinary``: those of the values that look like no secret, of variables whose names speak of none. ``lines``:
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
        lines = _pattern_of_lines(self.lines)
        text = lines.sub(LINE_NOT_SHOWN, text) if lines else text  # first, as the others would change them
        text = _TOKEN.sub(NOT_SHOWN, text)
        text = _change_lines_with(SECRET_WORDS, _hide_options, text)
        text = _TYPED.sub(_hide_typed, _EXPORT.sub(_hide_export, text))
        text = _change_lines_with(_OVERRIDE_WORDS, _hide_overrides, text)
        text = _replace(_forms(self.values, self.ordinary), text)
        return _ADDRESS.sub(r"\g<begin>***", text)  # which needs no quotes in a shell

    def _key(self, name: str) -> str:
        """Return a key of a record: a word such as ``walltime`` stays, though it is the value of a variable too."""
        return _replace(_forms(self.values - self.ordinary, frozenset()), _TOKEN.sub(NOT_SHOWN, name))

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
            elif equals and (name.startswith("-") or is_secret_argument(name)):
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
            return {self._key(str(name)): self.plain(one, str(name)) for name, one in value.items()}
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
    with their values; those for secrets are hidden, but a plain word only where the option stands. Code is searched for
    secrets, for values of variables whose names speak of one, and for other values that look like one.
    """
    texts = [(str(name), str(value)) for some in variables for name, value in some]
    found = [(name, value) for name, value in texts if not is_public_variable(name)]
    values = {value for _, value in found}.union(secrets) - {""}
    telling = {value for name, value in found if is_secret_variable(name)}.union(secrets)
    given = {value for name, value in arguments if is_secret_argument(name) and not _ORDINARY_WORD.fullmatch(value)}
    telling |= {value for value in given if _MIXED.search(value)}
    telling |= {value for value in values if _LIKE_A_SECRET.fullmatch(value) or _ADDRESS.search(value)}
    values |= given - {""}
    ordinary = values - telling
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


@lru_cache(maxsize=16)
def _pattern_of_lines(lines: frozenset[str]) -> re.Pattern[str] | None:
    spelled = _spellings(lines)
    return re.compile("|".join(map(re.escape, spelled))) if spelled else None


@lru_cache(maxsize=16)
def _forms(values: frozenset[str], ordinary: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """Return spellings of values, the longest first, and their patterns.

    Those of letters and digits that may be secrets are found everywhere, the others as whole words.
    """
    anywhere = {form for form in _spellings(values - ordinary) if _MIXED.search(form)}
    return tuple((form, re.escape(form) if form in anywhere else _whole_word(form)) for form in _spellings(values))


def _replace(forms: tuple[tuple[str, str], ...], text: str) -> str:
    patterns = [pattern for form, pattern in forms if form in text]  # most are in no text, which is found faster
    return re.sub("|".join(patterns), NOT_SHOWN, text) if patterns else text


def _whole_word(form: str) -> str:
    """Return a pattern for a text that is no part of a longer word or number, with escapes and colours around it."""
    before = r"(?:(?<!\w)|(?<=\\[nrt])|(?<=[0-9\[]m))" if re.match(r"\w", form) else ""
    after = r"(?!\w)" if re.search(r"\w\Z", form) else ""
    if form[0].isdigit():
        before += r"(?<![0-9]\.)"
    if form[-1].isdigit():
        after += r"(?!\.[0-9])"
    return f"{before}{re.escape(form)}{after}"


def _change_lines_with(words: Sequence[str], change: Callable[[str], str], text: str) -> str:
    """Return a text whose lines with one of these words are changed; the others are not searched, which is slow."""
    small = text.lower()
    if len(small) != len(text):  # of few letters the small one is longer
        return change(text)
    parts, end = list[str](), 0
    for begin, stop in _lines_with(words, small):
        parts += [text[end:begin], change(text[begin:stop])]
        end = stop
    return "".join([*parts, text[end:]])


def _lines_with(words: Sequence[str], small: str) -> Iterator[tuple[int, int]]:
    """Yield begin and end of lines with one of these words, each with the lines that it goes on in."""
    following = {word: small.find(word) for word in words}
    while following := {word: at for word, at in following.items() if at >= 0}:
        first = min(following.values())
        end = small.find("\n", first)
        while end > 0 and small[end - 1] == "\\":
            end = small.find("\n", end + 1)
        end = len(small) if end < 0 else end
        yield small.rfind("\n", 0, first) + 1, end
        following = {word: at if at >= end else small.find(word, end) for word, at in following.items()}


def _hide_options(text: str) -> str:
    return _OPTION.sub(_hide_value, text)


def _hide_overrides(text: str) -> str:
    return _OVERRIDE.sub(_hide_override, text)


def _hide_override(found: re.Match[str]) -> str:
    return f"{found['begin']}{NOT_SHOWN}{found['quote']}" if found["quote"] else _hide_value(found)


def _hide_value(found: re.Match[str]) -> str:
    quote = '"' if found["value"].startswith('"') else "'"
    return f"{found['begin']}{quote}{NOT_SHOWN}{quote}"


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
