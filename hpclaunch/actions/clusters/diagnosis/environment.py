"""The Python and the variables of a probe job's ranks, against what the script sets. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from hpclaunch.actions.clusters.diagnosis.evidence import Check, ProbeEvidence


def environment_check(evidence: ProbeEvidence) -> Check:
    """Return the check: one Python for all ranks, the script's variables unchanged, and none of the shell's."""
    promised = dict(map(tuple, evidence.spec["environment"]))
    pythons = sorted({f"{rank['python']} ({rank['python_version']})" for rank in evidence.ranks})
    if len(pythons) > 1:
        what = f"ranks run different Pythons: {', '.join(pythons)}"
        return Check(name="environment", verdict="FAIL", what=what, next="name one for all nodes under 'environment:'")
    problem = _changed_variable_check(evidence, promised) or _stray_check(evidence, promised)
    if problem:
        return problem
    what = f"{pythons[0]}; {len(promised)} variables as the script sets"
    return Check(name="environment", verdict="PASS", what=what)


def _changed_variable_check(evidence: ProbeEvidence, promised: Mapping[str, str]) -> Check | None:
    """Return a failed check of the first variable that differs from the script's, else None."""
    for rank in evidence.ranks:
        for name, value in rank["variables"].items():
            if name in promised and value != promised[name]:
                what = f"rank {rank['rank']} has {name}={value!r}, but the script sets {promised[name]!r}"
                hint = "a profile, a TaskProlog or the container changes it"
                return Check(name="environment", verdict="FAIL", what=what, next=hint)
    return None


def _stray_check(evidence: ProbeEvidence, promised: Mapping[str, str]) -> Check | None:
    """Return a warning if ranks have variables that neither the site nor the job sets, else None."""
    strays = sorted({name for rank in evidence.ranks for name in rank["strays"]})
    exports_nothing = ["export", "NONE"] in list(map(list, evidence.spec["directives"]))
    if exports_nothing and evidence.mark in strays:
        what = "the submitting shell's variables reach the ranks in spite of --export=NONE"
        return Check(name="environment", verdict="WARN", what=what, next="ask the site's staff")
    # Where the shell's variables are exported on purpose, the mark is one of them.
    others = [name for name in strays if name != evidence.mark and name not in promised]
    if others:
        what = f"{', '.join(others)} is set for the ranks, but neither the site nor the job sets it"
        return Check(name="environment", verdict="WARN", what=what, next="a login profile or a module sets it")
    return None
