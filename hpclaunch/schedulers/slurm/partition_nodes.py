"""The nodes of a partition as slurmctld has them now; asked only where a decision needs them, and once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hpclaunch.core.spec import LiveNodes
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


def kinds_of(nodes: Sequence[Node]) -> tuple[LiveNodes, ...]:
    """Return the kinds of nodes with their numbers, the most frequent first."""
    numbers = Counter(map(_kind_of, nodes))
    return tuple(replace(kind, number=number) for kind, number in numbers.most_common())


def _kind_of(node: Node) -> LiveNodes:
    return LiveNodes(
        number=1,
        cores=max(1, node.usable_cpus // node.cpus_per_core),
        cpus=node.usable_cpus,
        memory=node.memory,
        gpus=sum(number for _, number in node.gpus),
        gpu_type=node.gpus[0][0] if len(node.gpus) == 1 else "",
        features=node.features,
    )
