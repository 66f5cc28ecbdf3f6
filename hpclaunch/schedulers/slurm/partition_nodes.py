"""The nodes of a partition as slurmctld has them now; asked only where a decision needs them, and once."""

from __future__ import annotations

from hpclaunch.schedulers.slurm.programs import ask, keep_answer, recent_answer
from hpclaunch.sites.describe.answers import Node, nodes_of
from hpclaunch.sites.slurm_text import Fields, value_of

_SECONDS = 15


def nodes_in(partition: Fields) -> list[Node]:
    """Return the nodes of a record of ``scontrol show partition``; none if Slurm does not show them."""
    names = value_of(partition.get("Nodes", ""))
    if not names:
        return []
    question = f"nodes {names}"
    text = recent_answer(question)
    if text is None:
        answer = ask(["scontrol", "--oneliner", "show", "node", names], seconds=_SECONDS)
        text = answer.text if answer.ok else ""
        keep_answer(question, text)
    return nodes_of(text)
