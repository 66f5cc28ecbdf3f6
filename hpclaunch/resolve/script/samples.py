"""Whether a sampler measures the nodes of a run."""

from __future__ import annotations

from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions

_WORDS = {True: "yes", False: "no", None: None}


def has_samples(case: Case, decisions: Decisions) -> bool:
    """Return whether the nodes are measured: as typed, else as in the settings or the site file, else they are."""
    origin, wanted = case.settings.offer("samples", case.site.name)
    chosen = decisions.pick(
        "samples",
        ("--samples" if case.request.samples else "--no-samples", _WORDS[case.request.samples]),
        (origin, _WORDS[wanted]),
        (f"site {case.site.name}", _WORDS[case.site.samples]),
        ("default", "yes"),
    )
    return chosen == "yes"
