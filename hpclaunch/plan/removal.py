"""Lines that a site, a user or a project does not want in the script."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hpclaunch.errors import Fault
from hpclaunch.spec import JobSpec

_OURS = "HPCLAUNCH_"


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
        launch=tuple(word for word in spec.launch if word.partition("=")[0] != item),
        environment=tuple(pair for pair in spec.environment if pair[0] != item),
        steps=tuple(step for step in spec.steps if step.line != item),
        rank_setup=tuple(line for line in spec.rank_setup if line != item and not line.startswith(f"export {item}=")),
    )
