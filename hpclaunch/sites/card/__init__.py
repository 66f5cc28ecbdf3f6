"""A site as a person reads it: compact sections, each value followed by its sources. It reads no file.

A value that no section asks for goes to the section "Other", so that every value of the file is shown.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from hpclaunch.config.fileformat import Environment
from hpclaunch.config.limits import Limits
from hpclaunch.config.provenance import Value, values
from hpclaunch.config.site import HEAD, OURS, EnvironmentRecipe, LauncherOptions, Launchers, NodeType, Site
from hpclaunch.core.units import count
from hpclaunch.sites.card.lines import Pieces, Row, Section
from hpclaunch.sites.card.short import lacks
from hpclaunch.sites.card.wording import record_in, wording_of
from hpclaunch.sites.card.words import spaced, text_of


class _RemainingValues:
    """The values that are not in a row yet."""

    def __init__(self, site: Site, file_values: Sequence[Value], old: Collection[str]) -> None:
        self._remaining = {value.key: value for value in file_values}
        self._shows_sources = bool(site.origins)
        self._old = old

    def take(self, above: str, cls: type, *names: str) -> Pieces:
        """Take ``above.NAME`` and all keys below it for every name; without names take all keys below ``above``.

        Returns the pieces to show. ``cls`` is the record class of the value at ``above``.
        """
        wanted = [f"{above}.{name}".strip(".") for name in names] or [above]
        keys = [key for place in wanted for key in self._remaining if key == place or key.startswith(f"{place}.")]
        taken = {key: self._remaining.pop(key) for key in dict.fromkeys(keys)}
        texts = [text_of(cls, _key_below(key, above), value.value) for key, value in taken.items()]
        return self._pieces(list(zip(texts, taken.values(), strict=True)))

    def rows(self, above: str, cls: type, section: str = "", depth: int = 1) -> list[Row]:
        """Take the keys below ``above``, whose value is a record of ``cls``; return the rows that are not empty.

        With a ``section`` only the fields of that section are taken.
        """
        labels = _labels(cls, section)
        taken = [(label, self.take(above, cls, *names)) for label, names in labels.items()]
        return [Row(label=label, pieces=tuple(pieces), depth=depth) for label, pieces in taken if pieces]

    def rest(self) -> list[Row]:
        """Take all values that remain."""
        return [Row(label=key, pieces=tuple(self.take(key, Site))) for key in list(self._remaining)]

    def _pieces(self, found: Sequence[tuple[str, Value]]) -> Pieces:
        """Return the texts; neighbours with the same sources share one bracket."""
        pieces: Pieces = []
        for index, (text, value) in enumerate(found):
            following = found[index + 1][1] if index + 1 < len(found) else None
            if following is not None and _place(following) == _place(value):
                pieces.append((f"{text},", ""))
                continue
            pieces.append((text, ""))
            pieces += [self._bracket(value)] if self._shows_sources else []
        return pieces

    def _bracket(self, value: Value) -> tuple[str, str]:
        """Return ``[source, …]`` with the value's mark and its style; for a derived value also how it was computed."""
        old = value.key in self._old
        words = ", ".join(value.sources) or "no source"
        words += f"; {value.mark}" if value.mark else ""
        words += f": {value.how}" if value.how else ""
        return f"[{words}; old]" if old else f"[{words}]", value.mark or ("third-party" if old else "source")


def _place(value: Value) -> tuple[tuple[str, ...], str, str]:
    return value.sources, value.mark, value.how


def _key_below(key: str, above: str) -> str:
    return key[len(above) + 1 :] if above else key


def _labels(cls: type, section: str) -> dict[str, list[str]]:
    """Return row label -> names of its fields, in the order of the record."""
    labels: dict[str, list[str]] = {}
    for attribute in dataclasses.fields(cls):
        wording = wording_of(attribute)
        if wording.section == section:
            labels.setdefault(wording.row or spaced(attribute.name), []).append(attribute.name)
    return labels


# --- sections


def sections_of(site: Site, content: Mapping[str, Any], file: str, age: str, old: Collection[str]) -> list[Section]:
    """Return the site's card. ``content``: the plain values of its file; ``file``: where that is.

    ``age``: that of its newest source, in words; ``old``: the keys of the values to mark as old.

    The metadata of a field names the section and row of its value. Sections come in the order of the fields.
    """
    file_values = values(site, content)
    remaining = _RemainingValues(site, file_values, old)
    found = [Section(title=site.name, rows=(*_head(site, remaining, file, file_values), *_ages(age, old)))]
    titles = dict.fromkeys(wording_of(attribute).section for attribute in dataclasses.fields(Site))
    found += [Section(title=title, rows=_rows(title, site, remaining)) for title in titles if title not in ("", HEAD)]
    found += [
        Section(title="Other", rows=tuple(remaining.rest())),
        Section(title="Not verified, and left out", rows=_unverified_rows(site)),
        Section(title="Sources", rows=_source_rows(site)),
    ]
    return [section for section in found if section.rows]


def _rows(title: str, site: Site, remaining: _RemainingValues) -> tuple[Row, ...]:
    """Return the rows of a section: from its own function, else one for each field or for each field below it."""
    if title in _SPECIAL_SECTIONS:
        return tuple(_SPECIAL_SECTIONS[title](site, remaining))
    rows: list[Row] = []
    for attribute in dataclasses.fields(Site):
        wording, inner = wording_of(attribute), record_in(attribute.type)
        if wording.section != title:
            continue
        if inner is not None and not wording.row:
            rows += remaining.rows(attribute.name, inner)
        elif pieces := remaining.take("", Site, attribute.name):
            rows.append(Row(label=wording.row or spaced(attribute.name), pieces=tuple(pieces)))
    return tuple(rows)


def _head(site: Site, remaining: _RemainingValues, file: str, file_values: Sequence[Value]) -> tuple[Row, ...]:
    undetected = (f"nothing; use --site {site.name} or HPCLAUNCH_SITE={site.name}", "")
    usual: dict[str, Pieces] = {"status": [(site.status, "")], "detect": [undetected]}
    rows: list[Row] = []
    for label, names in _labels(Site, HEAD).items():
        rows.append(Row(label=label, pieces=tuple(remaining.take("", Site, *names) or usual.get(names[0], []))))
        rows += _status_notes(site) if names == ["status"] else []
    rows = [row for row in rows if row.pieces]
    return (*rows, Row(label="file", pieces=((file, ""),)), _counts(site, file_values))


def _ages(age: str, old: Collection[str]) -> list[Row]:
    """Return how old the newest source is, and how many values have old sources only."""
    if not age:
        return []
    pieces = [(age, "")]
    if old:
        pieces = [(f"{age};", ""), (count(len(old), "value"), "third-party")]
        pieces.append(("from old sources only (marked old)", ""))
    return [Row(label="newest source", pieces=tuple(pieces))]


def _status_notes(site: Site) -> list[Row]:
    """Return what a user must know before submitting to the site."""
    notes = ["its scripts can be rendered, but are never submitted"] if site.status == "retired" else []
    if lacking := lacks(site):
        notes.append(f"not verified: {', '.join(lacking)}; --accept-unverified takes Slurm's usual way")
    return [Row(label="", pieces=((note, "third-party"),)) for note in notes]


def _counts(site: Site, file_values: Sequence[Value]) -> Row:
    """Return the number of values and what the brackets after them mean."""
    if not site.origins:
        text = f"{len(file_values)}; the file names no sources"
        return Row(label="values", pieces=((text, ""),))
    marks = [value.mark for value in file_values]
    return Row(
        label="values",
        pieces=(
            (f"{len(file_values)}, each followed by [its sources];", ""),
            (f"{marks.count('third-party')} third-party", "third-party"),
            ("(seen in users' files only),", ""),
            (f"{marks.count('derived')} derived", "derived"),
            ("(computed as the bracket says);", ""),
            (f"{len(site.unverified)} not verified", "third-party"),
            ("and left out", ""),
        ),
    )


def _node_types(site: Site, remaining: _RemainingValues) -> list[Row]:
    rows = []
    for node_type in site.node_types:
        place, usual = f"node_types.{node_type}", " (usual)" if node_type == site.defaults.node_type else ""
        rows.append(Row(label=f"{node_type}{usual}", pieces=tuple(remaining.take(place, NodeType, "title"))))
        rows += remaining.rows(place, NodeType, depth=2)
    return rows


def _limits(key: str, known: Mapping[str, Limits], usual: str | None, remaining: _RemainingValues) -> list[Row]:
    return [
        Row(label=f"{name}{' (usual)' if name == usual else ''}", pieces=tuple(remaining.take(f"{key}.{name}", Limits)))
        for name in known
    ]


def _partitions(site: Site, remaining: _RemainingValues) -> list[Row]:
    return _limits("partitions", site.partitions, site.defaults.partition, remaining)


def _qos(site: Site, remaining: _RemainingValues) -> list[Row]:
    return _limits("qos", site.qos, site.defaults.qos, remaining)


def _launchers(site: Site, remaining: _RemainingValues) -> list[Row]:
    if site.launchers is None:
        return []
    usual = Row(label="usual", pieces=tuple(remaining.take("launchers", Launchers, "default")))
    names = site.launchers.options
    return [
        usual,
        *(
            Row(label=name, pieces=tuple(remaining.take(f"launchers.options.{name}", LauncherOptions)))
            for name in names
        ),
    ]


def _frameworks(site: Site, remaining: _RemainingValues) -> list[Row]:
    return [
        Row(label=name, pieces=tuple(remaining.take(f"frameworks.{name}", Environment))) for name in site.frameworks
    ]


def _recipes(site: Site, remaining: _RemainingValues) -> list[Row]:
    return [
        Row(label=name, pieces=tuple(remaining.take(f"recipes.{name}", EnvironmentRecipe))) for name in site.recipes
    ]


def _notes(site: Site, remaining: _RemainingValues) -> list[Row]:
    """Return a row for each note; all have the same sources, which follow the last one."""
    pieces = remaining.take("", Site, "notes")
    if not pieces:
        return []
    texts = [[(note, "")] for note in site.notes]
    texts[-1] += pieces[1:]
    return [Row(label="-", pieces=tuple(text)) for text in texts]


_SPECIAL_SECTIONS: dict[str, Callable[[Site, _RemainingValues], list[Row]]] = {
    "Node types": _node_types,
    "Partitions": _partitions,
    "QOS": _qos,
    "Launchers": _launchers,
    "Frameworks": _frameworks,
    "To make an environment": _recipes,
    "Notes": _notes,
}
"""Sections with rows for names that the file's author chose (node types, partitions, …), not for fields."""


def _unverified_rows(site: Site) -> tuple[Row, ...]:
    return tuple(Row(label=key, pieces=((why, "third-party"),)) for key, why in site.unverified.items())


def _source_rows(site: Site) -> tuple[Row, ...]:
    rows = [
        Row(label=name, pieces=((source.ref, ""), (f"({source.read})", "source")))
        for name, source in site.sources.items()
    ]
    used = any(OURS in names for names in site.origins.values())
    rows += [Row(label=OURS, pieces=(("a choice of hpclaunch, not a fact about the site", ""),))] if used else []
    return tuple(rows)
