"""What a job copies to each of its nodes before its ranks start, as one value."""

from __future__ import annotations

from hpclaunch.core.records import record

CONDA_PREFIX = "$CONDA_PREFIX"
"""The folder of a conda environment that is known by its name: only the job knows it, after its activation."""


@record
class Broadcast:
    """What a job copies to each of its nodes before the ranks start, beside the code that it has copied.

    ``source``: the folder of a venv or conda environment (or CONDA_PREFIX), or the file of a container's image; empty
    if there is none. ``folder``: where the nodes keep their copies. ``required``: the job stops if that fails.
    """

    source: str
    folder: str
    required: bool
