"""Removes lines from the script that a site, a user or a project does not want there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hpclaunch.core.spec import Choice
from hpclaunch.launchers import VALUES
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.script.lines import Lines

_OURS = "HPCLAUNCH_"


def unwanted_lines(case: Case) -> dict[str, str]:
    """Return what site, user and project do not want, in this order, with its origin.

    A typed sbatch option is never removed.
    """
    typed = {option.partition("=")[0] for option in case.request.sbatch}
    unwanted = dict.fromkeys(case.site.remove, f"site {case.site.name}")
    for origin, level in reversed(case.settings.levels(case.site.name)):
        unwanted |= dict.fromkeys(level.remove, origin)
    return {item: origin for item, origin in unwanted.items() if item not in typed}


def remove_lines(lines: Lines, unwanted: Mapping[str, str], decisions: Decisions) -> Lines:
    """Return the lines of the script without the unwanted ones, each of which is noted as a choice with its origin.

    ``--option`` is removed from the directives and from the launcher's command line. ``NAME`` is a variable. Any other
    text is a line of set-up. A line that must stay is a fault; one that does not exist is a warning.
    """
    for item, origin in unwanted.items():
        if item.startswith(_OURS):
            what = f"{item} cannot be removed: the ranks need it (hpclaunch docs contract)"
            decisions.fault(what, where="remove", next="delete it from the list under 'remove:'")
            continue
        fewer = _remove_line(lines, item)
        if fewer == lines:
            decisions.warnings.append(f"remove: this script has no line {item!r}")
        else:
            decisions.choices.append(Choice(key="removed", value=item, origin=origin))
        lines = fewer
    return lines


def _remove_line(lines: Lines, item: str) -> Lines:
    return replace(
        lines,
        directives=tuple(pair for pair in lines.directives if f"--{pair[0]}" != item),
        launch=_remove_words(lines.launch, item),
        environment=tuple(pair for pair in lines.environment if pair[0] != item),
        steps=tuple(step for step in lines.steps if step.line != item),
        rank_setup=tuple(line for line in lines.rank_setup if not _is_line(line.strip(), item)),
    )


def _is_line(line: str, item: str) -> bool:
    return line == item or line.startswith(f"export {item}=")


def _remove_words(launch: tuple[str, ...], item: str) -> tuple[str, ...]:
    """Return the launcher's argv without an option and its values, or without mpirun's ``-x`` of a variable."""
    kept: list[str] = []
    position = 0
    while position < len(launch):
        words = launch[position : position + 1 + VALUES.get(launch[position], 0)]
        is_option = item.startswith("-") and words[0].partition("=")[0] == item
        if not is_option and words != ("-x", item):
            kept += words
        position += len(words)
    return tuple(kept)
