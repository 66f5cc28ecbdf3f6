"""Lines that a site, a user or a project does not want in the script."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hpclaunch.config.settings import Settings
from hpclaunch.config.site import Site
from hpclaunch.core.errors import Fault
from hpclaunch.core.spec import JobSpec, Request
from hpclaunch.launchers import VALUES

_OURS = "HPCLAUNCH_"


def unwanted_lines(site: Site, request: Request, settings: Settings) -> list[str]:
    """Return what site, user and project do not want, in their order; what is typed outlives it."""
    typed = {option.partition("=")[0] for option in request.sbatch}
    return [item for item in (*site.remove, *settings.all("remove", site.name)) if item not in typed]


def without(spec: JobSpec, unwanted: Iterable[str]) -> tuple[JobSpec, list[Fault], list[str]]:
    """Return the spec without the unwanted lines, the faults, and a warning for each that is in no line.

    ``--option`` takes it from the directives and from the launcher's words, ``NAME`` is a variable, anything else the
    text of a line of set-up.
    """
    faults, warnings = [], []
    for item in unwanted:
        if item.startswith(_OURS):
            what = f"{item} cannot be removed: the ranks need it (docs/contract.md)"
            faults.append(Fault(where="remove", what=what, next="leave it in"))
            continue
        lesser = _without(spec, item)
        if lesser == spec:
            warnings.append(f"remove: there is no line {item!r} in this script")
        spec = lesser
    return spec, faults, warnings


def _without(spec: JobSpec, item: str) -> JobSpec:
    return replace(
        spec,
        directives=tuple(pair for pair in spec.directives if f"--{pair[0]}" != item),
        launch=_words_without(spec.launch, item),
        environment=tuple(pair for pair in spec.environment if pair[0] != item),
        steps=tuple(step for step in spec.steps if step.line != item),
        rank_setup=tuple(line for line in spec.rank_setup if line != item and not line.startswith(f"export {item}=")),
    )


def _words_without(launch: tuple[str, ...], item: str) -> tuple[str, ...]:
    """Return the launcher's words without an option and its values, or without mpirun's ``-x`` of a variable."""
    kept: list[str] = []
    position = 0
    while position < len(launch):
        words = launch[position : position + 1 + VALUES.get(launch[position], 0)]
        is_option = item.startswith("-") and words[0].partition("=")[0] == item
        if not is_option and words != ("-x", item):
            kept += words
        position += len(words)
    return tuple(kept)
