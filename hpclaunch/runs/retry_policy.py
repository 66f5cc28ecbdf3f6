"""Whether an ended run may be started again, and without which nodes. Pure; it starts nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field

from hpclaunch.core.errors import shorten
from hpclaunch.core.records import record
from hpclaunch.core.run_states import ENDS
from hpclaunch.runs.node_lists import names_in

_CONFIGURATION = 78
"""The script's exit code where something that it needs is missing (EX_CONFIG of sysexits.h)."""
_NOT_PROVEN = "69"
"""The script's exit code where the launcher ended with 0 and not every rank did (EX_UNAVAILABLE of sysexits.h)."""
_KILLED_BY_SRUN = ("137", "143")
"""Exit codes of ranks that srun ended with SIGTERM or SIGKILL because it could not launch the others."""
_MOST_BLAMED = 256
"""A failure that names more nodes is one of the network or of the whole machine; to avoid them all helps nobody."""
_LONGEST_LINE = 200
_NODE = r"(?P<node>[A-Za-z0-9][A-Za-z0-9._-]*)"
_TEMPORARY_CAUSE = (
    r"(Communication connection failure|Socket timed out|Job credential (expired|revoked|replayed)"
    r"|Unable to contact|I/O error|Connection (refused|timed out|reset))"
)
_NODE_FAILURE = re.compile(r"^srun: error: Node failure on (?P<nodes>[A-Za-z0-9][A-Za-z0-9._,\[\]-]*)", re.MULTILINE)
"""srun's line about a node that the controller reports as failed (Slurm's src/api/step_launch.c). The other lines of a
lost node name the nodes that live: ``srun: error: node2: task 1: Killed`` is of a task that srun ended, and
slurmstepd's ``CANCELLED ... DUE TO NODE FAILURE`` is written on each node that is left."""
_LAUNCHER_FAILURES = tuple(
    re.compile(form)
    for form in (
        rf"srun: error: Task launch for StepId=\S+ failed on node {_NODE}: {_TEMPORARY_CAUSE}",
        # No cause given: slurmstepd could not set up the step, for example because an earlier start left its sockets.
        r"srun: error: tasks? (?P<task>\d+)[\d,-]* launch failed: Unspecified error",
        r"srun: error: Unable to (create|confirm|start) .*: (Socket timed out|Unable to contact|Zero Bytes)",
        r"srun: error: Unable to allocate resources: (Socket timed out|Unable to contact|Zero Bytes)",
        r"srun: error: Node failure on (?P<nodes>[A-Za-z0-9][A-Za-z0-9._,\[\]-]*)",
    )
)
"""Lines of a log after which a new start can help: srun failed before any step began (Slurm's src/srun)."""


@record
class Ending:
    """How a run ended.

    - ``exit_code``: CODE:SIGNAL. ``log``: the end of the log.
    - ``ranks_failed``: whether a rank of the last start left an exit code.
    - ``nodes``: the names of the nodes of the last start, in the order of its tasks.
    - ``tasks_per_node``: how many consecutive tasks each node has; 0: not known.
    - ``unwell``: node -> why the scheduler reports it as broken; empty: its name gets a new machine.
    """

    state: str
    exit_code: str = ""
    log: str = ""
    ranks_failed: bool = False
    nodes: tuple[str, ...] = ()
    tasks_per_node: int = 0
    unwell: Mapping[str, str] = field(default_factory=dict)


@record
class RetryDecision:
    """Whether to start a run again, and why. ``exclude``: the nodes to exclude -> the evidence against each."""

    again: bool
    reason: str
    exclude: Mapping[str, str] = field(default_factory=dict)


def decide(ending: Ending) -> RetryDecision:
    """Return whether a new start can help: after a fault of the machine, never after a fault of the program.

    A node is excluded if the scheduler reports it as broken, if the log names it (so also a node that was down and is
    back), or if it was the only node of a run that a node failure ended. If very many are blamed, none is excluded.
    Neither is a node whose name gets a new machine.
    """
    state, end = ending.state, ENDS.get(ending.state)
    if end is None:
        return RetryDecision(again=False, reason=f"it has not ended: its state is {state}")
    if end.again is None:
        return _decide_on_failure(ending)
    if end.blames:
        blamed = {**_failed_in_log(ending.log), **ending.unwell}
        if not blamed and len(ending.nodes) == 1:
            blamed = {ending.nodes[0]: f"the only node of a run that ended as {state}"}
        return RetryDecision(again=True, reason=end.words, exclude=_drop_blameless(blamed))
    return RetryDecision(again=end.again, reason=end.words)


def _decide_on_failure(ending: Ending) -> RetryDecision:
    code = ending.exit_code.partition(":")[0]
    reason = f"it failed with exit code {code or 'unknown'}, and no fault of the machine is known"
    own = RetryDecision(again=False, reason=reason)
    if (ending.ranks_failed and code not in _KILLED_BY_SRUN) or code == str(_CONFIGURATION):
        return own
    if code == _NOT_PROVEN:
        reason = "its launcher ended with 0 although not every rank did"
        blamed = {**_failed_in_log(ending.log), **ending.unwell}
        return RetryDecision(again=True, reason=reason, exclude=_drop_blameless(blamed))
    for form in _LAUNCHER_FAILURES:
        if found := form.search(ending.log):
            line = shorten(found[0], _LONGEST_LINE)
            named = dict.fromkeys(_nodes_of(found, ending), f"in the log: {line}")
            blamed = {**named, **_failed_in_log(ending.log), **ending.unwell}
            return RetryDecision(again=True, reason=f"its launcher failed: {line}", exclude=_drop_blameless(blamed))
    return own


def _drop_blameless(blamed: Mapping[str, str]) -> Mapping[str, str]:
    known = {node: why for node, why in blamed.items() if why}
    return known if len(known) <= _MOST_BLAMED else {}


def _failed_in_log(log: str) -> dict[str, str]:
    """Return the nodes that srun reports as failed -> its line."""
    found: dict[str, str] = {}
    for line in _NODE_FAILURE.finditer(log):
        found.update(dict.fromkeys(names_in(line["nodes"]), f"in the log: {shorten(line[0], _LONGEST_LINE)}"))
    return found


def _nodes_of(line: re.Match[str], ending: Ending) -> Iterable[str]:
    """Return the nodes that a line of srun is about: those that it names, or the node of the task that it names."""
    named = line.groupdict()
    if named.get("node"):
        return [named["node"]]
    if named.get("nodes"):
        return names_in(named["nodes"])
    task = named.get("task")
    if task is None or not ending.tasks_per_node or len(ending.nodes) < 2:
        return []
    position = int(task[:9]) // ending.tasks_per_node
    return ending.nodes[position : position + 1]


def merged(excluded: str, more: Iterable[str]) -> str:
    """Return a value for sbatch's --exclude: the nodes excluded before (Slurm's notation) and ``more``."""
    known = names_in(excluded)
    return ",".join(
        dict.fromkeys([*([excluded] if excluded else []), *(name for name in more if name and name not in known)])
    )
