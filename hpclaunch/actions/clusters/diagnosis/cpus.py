"""The CPUs of a task and the binding of ranks to CPUs, as the ranks of a probe job reported them. Pure."""

from __future__ import annotations

from hpclaunch.actions.clusters.diagnosis.evidence import Check, ProbeEvidence
from hpclaunch.core.units import count


def cpu_checks(evidence: ProbeEvidence) -> list[Check]:
    """Return the checks of CPUs per task, if a rank is a task of the scheduler, and of binding."""
    binding = _binding_check(evidence)
    variable = evidence.scheduler.task_cpus
    # The scheduler's variable describes a task. Under other launchers a task is not a rank.
    if not variable or not evidence.launcher.ranks_are_tasks:
        return [binding]
    return [_task_check(evidence, variable), binding]


def _task_check(evidence: ProbeEvidence, variable: str) -> Check:
    requested = evidence.spec["layout"]["cpus_per_task"]
    seen = {assigned[variable] for assigned in evidence.values_of("assigned") if variable in assigned}
    if seen == {str(requested)}:
        return Check(name="CPUs per task", verdict="PASS", what=f"{requested} for every task, as requested")
    what = f"{', '.join(sorted(seen)) or 'none'}; {requested} were requested"
    hint = "a TaskProlog or a variable of the site changes it: use --cpus-per-task N"
    return Check(name="CPUs per task", verdict="FAIL", what=what, next=hint)


def _binding_check(evidence: ProbeEvidence) -> Check:
    """Return the check of the CPUs that the ranks of the first host may use.

    Three things are compared: the CPUs that each rank may use, the number that it requested, and the number of the
    node. A rank that may use all CPUs of its node is not bound too tightly: the node then has too few.
    """
    layout = evidence.spec["layout"]
    requested, tasks = layout["cpus_per_task"], layout["tasks_per_node"]
    host = evidence.ranks[0]["host"]
    here = [rank for rank in evidence.ranks if rank["host"] == host]
    allowed = [frozenset(rank["cpus"]) for rank in here]
    node_cpus, narrowest = here[0]["node_cpus"] or 0, min(map(len, allowed))
    used: frozenset[int] = frozenset().union(*allowed)
    each_has_its_own = sum(map(len, allowed)) == len(used)
    hint = evidence.launcher.binding_hint
    if narrowest < requested and narrowest < node_cpus:
        what = f"a rank on {host} may use {narrowest} of its {requested} CPUs"
        return Check(name="CPU binding", verdict="FAIL", what=what, next=hint)
    if node_cpus and tasks * requested > node_cpus:
        what = f"{host} has {node_cpus} CPUs, but {tasks} tasks of {count(requested, 'CPU')} each were started on it"
        hint = "the scheduler or the site file has more CPUs than the node; ranks wait for each other"
        return Check(name="CPU binding", verdict="WARN", what=what, next=hint)
    if len(here) > 1 and not each_has_its_own and evidence.scheduler.binds_cpus:
        what = f"not bound: {len(here)} ranks on {host} share {len(used)} CPUs"
        return Check(name="CPU binding", verdict="WARN", what=what, next=hint)
    own = "to itself" if each_has_its_own else f"and shares them; each has {count(requested, 'thread')}"
    return Check(name="CPU binding", verdict="PASS", what=f"every rank has {count(narrowest, 'CPU')} {own}")
