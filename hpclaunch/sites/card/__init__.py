"""A site as a person wants to read it: compact sections, every value followed by where it is from. It looks at nothing.

The values are those of the file; what no section asks for stands in one of its own, so that none is ever left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hpclaunch.config.provenance import Value, values
from hpclaunch.config.site import HEAD, OURS, LauncherOptions, Launchers, Limits, NodeType, Site
from hpclaunch.sites.card.lines import Pieces, Row, Section
from hpclaunch.sites.card.short import lacks
from hpclaunch.sites.card.wording import record_in, wording_of
from hpclaunch.sites.card.words import spaced, text_of


class _Left:
    """The values that no row has taken yet."""

    def __init__(self, site: Site, said: Sequence[Value]) -> None:
        self._left = {value.key: value for value in said}
        self._told = bool(site.origins)

    def take(self, above: str, kind: type, *names: str) -> Pieces:
        """Take ``above.NAME`` (and all below it) for every name, or all below ``above``; return what to show.

        ``kind`` is the record that stands at ``above``.
        """
        wanted = [f"{above}.{name}".strip(".") for name in names] or [above]
        keys = [key for place in wanted for key in self._left if key == place or key.startswith(f"{place}.")]
        taken = {key: self._left.pop(key) for key in dict.fromkeys(keys)}
        texts = [text_of(kind, _key_below(key, above), value.value) for key, value in taken.items()]
        return self._pieces(list(zip(texts, taken.values(), strict=True)))

    def rows(self, above: str, kind: type, section: str = "", depth: int = 1) -> list[Row]:
        """Take what is below ``above``, where a record of ``kind`` stands; return the rows that have something to say.

        With a ``section`` only the fields that stand in it are taken.
        """
        labels = _labels(kind, section)
        taken = [(label, self.take(above, kind, *names)) for label, names in labels.items()]
        return [Row(label=label, pieces=tuple(pieces), depth=depth) for label, pieces in taken if pieces]

    def rest(self) -> list[Row]:
        """Take what is left."""
        return [Row(label=key, pieces=tuple(self.take(key, Site))) for key in list(self._left)]

    def _pieces(self, found: Sequence[tuple[str, Value]]) -> Pieces:
        """Return the texts, those from the same place before one bracket that names it."""
        pieces: Pieces = []
        for index, (text, value) in enumerate(found):
            following = found[index + 1][1] if index + 1 < len(found) else None
            if following is not None and _place(following) == _place(value):
                pieces.append((f"{text},", ""))
                continue
            pieces.append((text, ""))
            pieces += [(_bracket(value), value.mark or "source")] if self._told else []
        return pieces


def _place(value: Value) -> tuple[tuple[str, ...], str, str]:
    return value.sources, value.mark, value.how


def _bracket(value: Value) -> str:
    """Return ``[source, …]`` with the mark, and how a derived value was computed."""
    words = ", ".join(value.sources) or "no source"
    words += f"; {value.mark}" if value.mark else ""
    return f"[{words}: {value.how}]" if value.how else f"[{words}]"


def _key_below(key: str, above: str) -> str:
    return key[len(above) + 1 :] if above else key


def _labels(kind: type, section: str) -> dict[str, list[str]]:
    """Return row label -> its fields, in the order of the record's fields."""
    labels: dict[str, list[str]] = {}
    for one in dataclasses.fields(kind):
        wording = wording_of(one)
        if wording.section == section:
            labels.setdefault(wording.row or spaced(one.name), []).append(one.name)
    return labels


# --- sections


def sections_of(site: Site, content: Mapping[str, Any], file: str) -> list[Section]:
    """Return the site's card: ``content`` is what its file says, ``file`` names that file.

    Which section and row a value stands in is told by its field; sections follow each other as fields do.
    """
    said = values(site, content)
    left = _Left(site, said)
    found = [Section(title=site.name, rows=_head(site, left, file, said))]
    titles = dict.fromkeys(wording_of(one).section for one in dataclasses.fields(Site))
    found += [Section(title=title, rows=_rows(title, site, left)) for title in titles if title not in ("", HEAD)]
    found += [
        Section(title="Other", rows=tuple(left.rest())),
        Section(title="Not verified, and left out", rows=_unverified(site)),
        Section(title="Sources", rows=_sources(site)),
    ]
    return [section for section in found if section.rows]


def _rows(title: str, site: Site, left: _Left) -> tuple[Row, ...]:
    """Return the rows of a section: its own way if it has one, else a row for each field, or for each below it."""
    if title in _OWN_WAYS:
        return tuple(_OWN_WAYS[title](site, left))
    rows: list[Row] = []
    for one in dataclasses.fields(Site):
        wording, inner = wording_of(one), record_in(one.type)
        if wording.section != title:
            continue
        if inner is not None and not wording.row:
            rows += left.rows(one.name, inner)
        elif pieces := left.take("", Site, one.name):
            rows.append(Row(label=wording.row or spaced(one.name), pieces=tuple(pieces)))
    return tuple(rows)


def _head(site: Site, left: _Left, file: str, said: Sequence[Value]) -> tuple[Row, ...]:
    undetected = (f"nothing; say --site {site.name} or HPCLAUNCH_SITE={site.name}", "")
    usual: dict[str, Pieces] = {"status": [(site.status, "")], "detect": [undetected]}
    rows: list[Row] = []
    for label, names in _labels(Site, HEAD).items():
        rows.append(Row(label=label, pieces=tuple(left.take("", Site, *names) or usual.get(names[0], []))))
        rows += _status_notes(site) if names == ["status"] else []
    rows = [row for row in rows if row.pieces]
    return (*rows, Row(label="file", pieces=((file, ""),)), _counts(site, said))


def _status_notes(site: Site) -> list[Row]:
    """Return what a person must know before submitting to the site."""
    notes = ["its scripts can be rendered, and are never submitted"] if site.status == "retired" else []
    if lacking := lacks(site):
        notes.append(f"not verified: {', '.join(lacking)}; --accept-unverified takes Slurm's usual way")
    return [Row(label="", pieces=((note, "third-party"),)) for note in notes]


def _counts(site: Site, said: Sequence[Value]) -> Row:
    """Return how many values there are, and what the brackets after them mean."""
    if not site.origins:
        text = f"{len(said)}; the file does not say where they are from"
        return Row(label="values", pieces=((text, ""),))
    marks = [value.mark for value in said]
    return Row(
        label="values",
        pieces=(
            (f"{len(said)}, each followed by [its sources];", ""),
            (f"{marks.count('third-party')} third-party", "third-party"),
            ("(seen in users' files only),", ""),
            (f"{marks.count('derived')} derived", "derived"),
            ("(computed, as the bracket says);", ""),
            (f"{len(site.unverified)} not verified", "third-party"),
            ("and left out", ""),
        ),
    )


def _node_types(site: Site, left: _Left) -> list[Row]:
    rows = []
    for node_type in site.node_types:
        place, usual = f"node_types.{node_type}", " (usual)" if node_type == site.defaults.node_type else ""
        rows.append(Row(label=f"{node_type}{usual}", pieces=tuple(left.take(place, NodeType, "title"))))
        rows += left.rows(place, NodeType, depth=2)
    return rows


def _limits(family: str, known: Mapping[str, Limits], usual: str | None, left: _Left) -> list[Row]:
    return [
        Row(label=f"{name}{' (usual)' if name == usual else ''}", pieces=tuple(left.take(f"{family}.{name}", Limits)))
        for name in known
    ]


def _partitions(site: Site, left: _Left) -> list[Row]:
    return _limits("partitions", site.partitions, site.defaults.partition, left)


def _qos(site: Site, left: _Left) -> list[Row]:
    return _limits("qos", site.qos, site.defaults.qos, left)


def _launchers(site: Site, left: _Left) -> list[Row]:
    if site.launchers is None:
        return []
    usual = Row(label="usual", pieces=tuple(left.take("launchers", Launchers, "default")))
    names = site.launchers.options
    return [
        usual,
        *(Row(label=name, pieces=tuple(left.take(f"launchers.options.{name}", LauncherOptions))) for name in names),
    ]


def _notes(site: Site, left: _Left) -> list[Row]:
    """Return a row for each note; all are from the same place, which the last one names."""
    pieces = left.take("", Site, "notes")
    if not pieces:
        return []
    texts = [[(note, "")] for note in site.notes]
    texts[-1] += pieces[1:]
    return [Row(label="-", pieces=tuple(text)) for text in texts]


_OWN_WAYS: dict[str, Callable[[Site, _Left], list[Row]]] = {
    "Node types": _node_types,
    "Partitions": _partitions,
    "QOS": _qos,
    "Launchers": _launchers,
    "Notes": _notes,
}
"""Sections whose rows are not fields of the site, but what a person has named."""


def _unverified(site: Site) -> tuple[Row, ...]:
    return tuple(Row(label=key, pieces=((why, "third-party"),)) for key, why in site.unverified.items())


def _sources(site: Site) -> tuple[Row, ...]:
    rows = [
        Row(label=name, pieces=((source.ref, ""), (f"({source.read})", "source")))
        for name, source in site.sources.items()
    ]
    used = any(OURS in names for names in site.origins.values())
    rows += [Row(label=OURS, pieces=(("hpclaunch's own choice, nobody's fact", ""),))] if used else []
    return tuple(rows)
