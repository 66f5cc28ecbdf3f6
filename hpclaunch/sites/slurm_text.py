"""The text of Slurm's programs -> fields: the only parser of scontrol's and sacctmgr's answers. Of 19.05 to 25.11.

A value may hold blanks and brackets, as the name of a partition does: a field ends where the next ``Key=`` begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from hpclaunch.core.units import whole_number

Fields = Mapping[str, str]

_FIELD = re.compile(r"(?:^|(?<=\s))([A-Za-z][\w:/.-]*)=")
_SETTING = re.compile(r"^(\S+)[ \t]*=[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_AMOUNT = re.compile(r"(?P<number>[0-9]{1,18}(?:\.[0-9]{1,9})?)(?P<unit>[MGTP]?)(?:\([0-9.]*\))?")
_MEGABYTES = {"": 1, "M": 1, "G": 2**10, "T": 2**20, "P": 2**30}
_NOTHING = frozenset({"(null)", "N/A", "none", "NONE", "n/a"})


def settings(text: str) -> dict[str, str]:
    """Return the settings of ``scontrol show config`` by key; the value of an unset key is empty."""
    return {key: value_of(value) for key, value in _SETTING.findall(clean(text))}


def records(text: str, first: str) -> list[dict[str, str]]:
    """Return the records of ``scontrol show``; each begins with the key ``first``, on a line or in a paragraph.

    A value may hold blanks (OS, Reason). Of a key that occurs twice the first counts: a Reason may quote keys.
    """
    found = []
    for part in re.split(rf"^(?={first}=)", clean(text), flags=re.MULTILINE):
        if not part.startswith(f"{first}="):
            continue
        places = list(_FIELD.finditer(part))
        ends = [place.start() for place in places[1:]] + [len(part)]
        fields: dict[str, str] = {}
        for place, end in zip(places, ends, strict=True):
            fields.setdefault(place[1], " ".join(part[place.end() : end].split()))
        found.append(fields)
    return found


def table(text: str) -> list[dict[str, str]]:
    """Return the rows of ``sacctmgr --parsable2``, by the names in its first line, without blanks (``DefQOS``)."""
    header, *lines = clean(text).split("\n")
    names = header.replace(" ", "").split("|")
    return [dict(zip(names, map(value_of, line.split("|")), strict=False)) for line in lines if "|" in line]


def tres_in(text: str) -> dict[str, str]:
    """Return the members of a TRES text (``cpu=64,mem=100G,gres/gpu:a100=8``) with their values as they are written."""
    return dict(member.split("=", 1) for member in text.split(",") if "=" in member)


def amounts_in(text: str) -> dict[str, int]:
    """Return the amounts in a TRES text, of memory in MB; a value of an unknown form is left out.

    Before a bracket (``64(8)``) stands the limit. Only memory has units: sacctmgr writes ``100G`` for 102400 MB.
    """
    found = {}
    for name, value in tres_in(text).items():
        match = _AMOUNT.fullmatch(value)
        if match is None or (match["unit"] and name != "mem"):
            continue
        found[name] = int(float(match["number"]) * _MEGABYTES[match["unit"]])
    return found


def names_in(text: str) -> list[str]:
    """Return the names in a list as Slurm writes it; none for ``ALL``, which is no limit."""
    return [] if text.upper() == "ALL" else split_list(text)


def split_list(text: str) -> list[str]:
    """Return the members of a list with commas; none for an unset value."""
    return [word for word in value_of(text).split(",") if word]


def value_of(value: str) -> str:
    """Return a value; an empty text for an unset one."""
    return "" if value in _NOTHING else value


def number_of(text: str | None) -> int | None:
    """Return the number with which a value begins (``8`` of ``8(S:0-1)``), or None."""
    found = re.match("[0-9]{1,18}", text or "")
    return int(found[0]) if found else None


def clean(text: str) -> str:
    """Replace control characters: no name has them, and YAML forbids them."""
    if text.isascii():  # nearly always; a large cluster writes many megabytes
        return _CONTROL.sub("?", text)
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)


def numbers(values: Iterable[str]) -> list[int]:
    """Return the values that are numbers, as numbers."""
    return [number for value in values if (number := whole_number(value)) is not None]
