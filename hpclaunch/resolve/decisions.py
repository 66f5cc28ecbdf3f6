"""The decisions of resolving: choices with their origin, declined partitions and QOS, faults and warnings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from hpclaunch.core.errors import Fault, Subject
from hpclaunch.core.spec import Choice, Declined

T = TypeVar("T", str, int)
_OF_A_COMPONENT = (
    "node type",
    "nodes",
    "tasks per node",
    "cpus per task",
    "gpus per node",
    "partition",
    "qos",
    "memory",
)
"""The choices that differ between the components of a heterogeneous job."""


@dataclass(slots=True)
class Decisions:
    """The one mutable value of resolving; its lists become part of the spec, or of the refusal.

    ``way_on``: where the site has no software for the program, what it is and how to get it, in one line.
    """

    choices: list[Choice] = field(default_factory=list)
    declined: list[Declined] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    way_on: str = ""

    def pick(self, key: str, *offers: tuple[str, T | None]) -> T | None:
        """Return the value of the first offer (origin, value) that is not None, and note its origin as a choice."""
        for origin, value in offers:
            if value is not None:
                self.choices.append(Choice(key=key, value=str(value), origin=origin))
                return value
        return None

    def add(self, other: Decisions) -> None:
        """Add the decisions about a further component of the job; faults and warnings that are known already are not.

        A partition that only has other nodes is of no interest here: another component may use it.
        """
        self.choices += [one for one in other.choices if one.key in _OF_A_COMPONENT]
        self.declined += [one for one in other.declined if not one.for_other_nodes and one not in self.declined]
        self.faults += [one for one in other.faults if one not in self.faults]
        self.warnings += [one for one in other.warnings if one not in self.warnings]
        self.way_on = self.way_on or other.way_on

    def origin_of(self, key: str) -> str:
        """Return the origin of the last choice under a key; empty if there is none."""
        return next((choice.origin for choice in reversed(self.choices) if choice.key == key), "")

    def fault(self, what: str, *, where: str = "", allowed: str = "", next: str = "", subject: Subject = "") -> None:
        """Note one reason for refusing."""
        self.faults.append(Fault(what=what, where=where, allowed=allowed, next=next, subject=subject))
