"""The further node types of a heterogeneous job, as its spec holds them."""

from __future__ import annotations

from hpclaunch.core.records import record


@record
class Component:
    """One of the further node types of a heterogeneous job; ``Layout.further`` has its layout, at the same place."""

    node_type: str
    partition: str
    qos: str
