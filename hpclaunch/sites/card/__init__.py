"""A site as a person wants to read it: compact sections, every value followed by where it is from. It looks at nothing.

The values are those of the file; what no section asks for stands in one of its own, so that none is ever left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hpclaunch.config.provenance import Value, values
from hpclaunch.config.site import OURS, Site
from hpclaunch.sites.card.lines import Pieces, Row, Section
from hpclaunch.sites.card.short import lacks
from hpclaunch.sites.card.words import spaced, text_of


class _Left:
    """The values that no row has taken yet."""

    def __init__(self, site: Site, said: Sequence[Value]) -> None:
        self._left = {value.key: value for value in said}
        self._told = bool(site.origins)

    def take(self, above: str, *names: str) -> Pieces:
        """Take ``above.NAME`` (and all below it) for every name, or all below ``above``; return what to show."""
        wanted = [f"{above}.{name}".strip(".") for name in names] or [above]
        keys = [key for place in wanted for key in self._left if key == place or key.startswith(f"{place}.")]
        taken = {key: self._left.pop(key) for key in dict.fromkeys(keys)}
        return self._pieces([(text_of(self._below(key, above), value.value), value) for key, value in taken.items()])

    @staticmethod
    def _below(key: str, above: str) -> str:
        return key[len(above) + 1 :] if above else key

    def rest(self) -> list[Row]:
        """Take what is left."""
        return [Row(label=key, pieces=tuple(self.take(key))) for key in list(self._left)]

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


# --- sections


_NODE_ROWS = (
    ("nodes", ("nodes", "constraint", "partition", "qos")),
    ("CPUs", ("cpu", "sockets", "cores_per_node", "usable_cores", "threads_per_core", "cpus_per_core", "numa_domains")),
    ("memory", ("memory_gb", "request_memory", "local_storage")),
    ("GPUs", ("gpus_per_node", "gpu_model", "gpu_memory_gb", "gpu_type", "stand_in_gpus")),
    ("GPU links", ("gpu_links",)),
    ("network", ("nics.model", "nics.count", "nics")),
    ("jobs", ("whole_nodes", "default_tasks_per_node", "default_cpus_per_task")),
    ("all GPUs used", ("whole_node",)),
    ("every rank", ("rank_setup",)),
    ("environment", ("environment",)),
    ("charging", ("charging",)),
)
_CHARGING_ROWS = (("unit", ("unit", "counts", "rate")), ("note", ("note",)))
_ASKING_ROWS = (("GPUs", ("gpus",)), ("tasks", ("task_directives",)))


def sections_of(site: Site, content: Mapping[str, Any], file: str) -> list[Section]:
    """Return the site's card: ``content`` is what its file says, ``file`` names that file."""
    said = values(site, content)
    left = _Left(site, said)
    found = [
        Section(title=site.name, rows=_head(site, left, file, said)),
        Section(title="Node types", rows=tuple(_node_types(site, left))),
        Section(title="Partitions", rows=_limits("partitions", site.partitions, site.defaults.partition, left)),
        Section(title="QOS", rows=_limits("qos", site.qos, site.defaults.qos, left)),
        Section(title="Charging", rows=tuple(_named(left, "charging", _CHARGING_ROWS))),
        Section(title="How resources are asked for", rows=tuple(_named(left, "", _ASKING_ROWS))),
        Section(title="Launchers", rows=_launchers(site, left)),
        Section(title="Containers", rows=_each(left, "container", ("runtime", "modules", "options", "mpi"))),
        Section(title="Environment", rows=_environment(left)),
        Section(title="Folders", rows=_each(left, "folders", ("runs", "data", "node_private"))),
        Section(title="In every script", rows=_each(left, "", ("sbatch", "refuses", "remove"))),
        Section(title="Notes", rows=_notes(site, left)),
        Section(title="Other", rows=tuple(left.rest())),
        Section(title="Not verified, and left out", rows=_unverified(site)),
        Section(title="Sources", rows=_sources(site)),
    ]
    return [section for section in found if section.rows]


def _head(site: Site, left: _Left, file: str, said: Sequence[Value]) -> tuple[Row, ...]:
    rows = _named(left, "", (("what it is", ("title",)),))
    rows.append(Row(label="status", pieces=tuple(left.take("", "status") or [(site.status, "")])))
    if site.status == "retired":
        rows.append(Row(label="", pieces=(("its scripts can be rendered, and are never submitted", "third-party"),)))
    if lacking := lacks(site):
        text = f"not verified: {', '.join(lacking)}; --accept-unverified takes Slurm's usual way"
        rows.append(Row(label="", pieces=((text, "third-party"),)))
    rows += _named(left, "", (("scheduler", ("scheduler",)), ("interconnect", ("interconnect",))))
    nothing = [(f"nothing; say --site {site.name} or HPCLAUNCH_SITE={site.name}", "")]
    rows.append(Row(label="detected by", pieces=tuple(left.take("", "detect") or nothing)))
    rows += _named(left, "defaults", (("usual choices", ()),))
    rows += _named(left, "", (("must be said", ("required",)), ("script", ("login_shell", "export"))))
    rows += [Row(label="file", pieces=((file, ""),)), _counts(site, said)]
    return tuple(rows)


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


def _named(left: _Left, above: str, rows: Iterable[tuple[str, tuple[str, ...]]], depth: int = 1) -> list[Row]:
    """Return the rows that have something to say."""
    taken = [(label, left.take(above, *names)) for label, names in rows]
    return [Row(label=label, pieces=tuple(pieces), depth=depth) for label, pieces in taken if pieces]


def _node_types(site: Site, left: _Left) -> list[Row]:
    rows = []
    for kind in site.node_types:
        place, usual = f"node_types.{kind}", " (usual)" if kind == site.defaults.node_type else ""
        rows.append(Row(label=f"{kind}{usual}", pieces=tuple(left.take(place, "title"))))
        rows += _named(left, place, _NODE_ROWS, depth=2)
        rows += _named(left, place, (("more", ()),), depth=2)
    return rows


def _limits(family: str, known: Mapping[str, Any], usual: str | None, left: _Left) -> tuple[Row, ...]:
    return tuple(
        Row(label=f"{name}{' (usual)' if name == usual else ''}", pieces=tuple(left.take(f"{family}.{name}")))
        for name in known
    )


def _each(left: _Left, above: str, names: tuple[str, ...]) -> tuple[Row, ...]:
    """Return one row for each name."""
    return tuple(_named(left, above, ((spaced(name), (name,)) for name in names)))


def _launchers(site: Site, left: _Left) -> tuple[Row, ...]:
    if site.launchers is None:
        return ()
    rows = _named(left, "launchers", (("usual", ("default",)),))
    names = site.launchers.options
    return (*rows, *(Row(label=name, pieces=tuple(left.take(f"launchers.options.{name}"))) for name in names))


def _environment(left: _Left) -> tuple[Row, ...]:
    names = ("modules", "container", "venv", "conda", "python", "setup", "variables")
    return (*_each(left, "environment", names), *_named(left, "", (("brings", ("provides",)),)))


def _notes(site: Site, left: _Left) -> tuple[Row, ...]:
    """Return a row for each note; all are from the same place, which the last one names."""
    pieces = left.take("", "notes")
    if not pieces:
        return ()
    texts = [[(note, "")] for note in site.notes]
    texts[-1] += pieces[1:]
    return tuple(Row(label="-", pieces=tuple(text)) for text in texts)


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
