"""What a forecast is: the frozen result that is shown, written as JSON, drawn, and used by ``submit``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from hpclaunch.core.errors import Fault
from hpclaunch.core.records import record
from hpclaunch.guidelines.batch import Batch
from hpclaunch.guidelines.choice import Candidate
from hpclaunch.guidelines.framework import Passed
from hpclaunch.guidelines.memory import Memory
from hpclaunch.guidelines.parallelism import Parallelism
from hpclaunch.guidelines.reasoning import Reason
from hpclaunch.guidelines.throughput import Throughput


@record
class PlanRow:
    """One node count: its ranks, the batch on them, and what is predicted of it, as far as it is known.

    ``obstacles``: why it cannot be, or must not. ``marginal``: what the last doubling left of a node's work.
    """

    nodes: int
    ranks: int
    batch: Batch | None = None
    throughput: Throughput | None = None
    candidate: Candidate | None = None
    marginal: float | None = None
    obstacles: tuple[str, ...] = ()


@record
class PlanSection:
    """A part of the reasoning: its title, the rules applied, what was passed over, and remarks."""

    title: str
    reasons: tuple[Reason, ...] = ()
    declined: tuple[Passed, ...] = ()
    remarks: tuple[str, ...] = ()


@record
class Split:
    """A model spread over GPUs: ``gpus`` hold one of ``replicas``; who is where, memory, and what its layers say.

    ``communication_s``: of one step, inside a replica; ``communication_guessed``: the layers are not known, it is about
    the most that they can say.
    """

    gpus: int
    replicas: int
    layout: str
    memory: Memory
    communication_s: float
    communication_guessed: bool
    try_first: tuple[str, ...]


@record
class Forecast:
    """The plan of a job at a site.

    ``nodes``: what to submit with; ``typed``: a person said so. ``known``: the model's figures are known, else the
    count is the guidelines' caution alone. ``settings``: parameters to set. ``jobs``: in a chain, 1
    where one is enough. ``precision``: the number format that is
    recommended; ``precision_words``: one line where the job's is another. ``measured``: what it rests on, if it was
    measured; ``queue``: the wait before the start, if it is known. ``refusals``: why it cannot be as wished.
    """

    job: str
    site: str
    node_type: str
    nodes: int
    typed: bool
    known: bool
    summary: str
    parallelism: Parallelism | None = None
    split: Split | None = None
    rows: tuple[PlanRow, ...] = ()
    unit: str = "node-hour"
    settings: tuple[tuple[str, str], ...] = ()
    command: str = ""
    jobs: int = 1
    sections: tuple[PlanSection, ...] = ()
    precision: str = ""
    precision_words: str = ""
    measured: str = ""
    queue: str = ""
    assumed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    refusals: tuple[Fault, ...] = ()

    @property
    def feasible(self) -> bool:
        """Whether nothing refuses it."""
        return not self.refusals

    @property
    def chosen(self) -> PlanRow | None:
        """The row of the chosen node count."""
        return next((row for row in self.rows if row.nodes == self.nodes), None)

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers."""
        return {**asdict(self), "feasible": self.feasible}
