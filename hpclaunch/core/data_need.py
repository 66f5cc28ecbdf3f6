"""The data set of a run, as it is looked for before the submission."""

from __future__ import annotations

from hpclaunch.core.records import record


@record
class DataNeed:
    """The data set a job reads: one of ``layouts`` must exist in ``folder`` or in ``folder``/``name``.

    Without layouts ``folder`` is a typed folder or file, which must exist; only the program knows what is in it.
    ``address``: whether the job file has an address to fetch it from, or a program that makes it. ``setting``: the
    setting that chooses it among several data sets of the job, as ``NAME=VALUE``.
    """

    name: str
    folder: str
    layouts: tuple[str, ...]
    origin: str
    address: bool = True
    setting: str = ""
