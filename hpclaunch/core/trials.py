"""How the trials of a search share the nodes of its allocation, and where a trial's values stand in the command."""

from __future__ import annotations

from hpclaunch.core.records import record


@record
class TrialLayout:
    """The trials of a search inside one allocation: on every node one worker, with ``per_node`` trials at a time.

    - ``cpus``, ``gpus``: those of one trial. ``python``: the interpreter of the workers, which is that of hpclaunch.
    - ``names``: the parameters whose values differ. ``free``: the program declares no parameters, so names are passed
      on as they were typed, or as ``options`` has them. ``filled``: the names that stand as ``{NAME}`` in typed
      arguments, where the value is put.
    - ``position``: the place of a trial's own words in the command. ``arguments``: the number of typed arguments, the
      last words of the command.
    """

    per_node: int
    cpus: int
    gpus: int
    python: str
    names: tuple[str, ...]
    free: bool = False
    filled: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    position: int = 0
    arguments: int = 0
