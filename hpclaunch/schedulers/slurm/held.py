"""Reads back once what slurmctld holds of a submitted job: plugins and defaults may have changed what was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.core.units import format_walltime, parse_walltime
from hpclaunch.runs import Run
from hpclaunch.runs.recorded_layout import directives_of
from hpclaunch.schedulers import HeldRequest
from hpclaunch.schedulers.slurm.addresses import address_of
from hpclaunch.schedulers.slurm.components import component_of
from hpclaunch.schedulers.slurm.programs import ask, asking, room_for

_SECONDS = 10
_OPTIONS = {"nodes": "nodes", "walltime": "time", "account": "account", "qos": "qos", "partition": "partition"}
"""What is read back, in the order of _FORMAT, and the option of sbatch that asks for it."""
_FORMAT = "%i|%D|%l|%a|%q|%P|%Z"
_NOTHING = ("", "(null)", "N/A")


def held(run: Run) -> HeldRequest:
    """Return what slurmctld holds of the run's job; nothing if it does not answer, or does not list it in its folder.

    The values of a heterogeneous job's components are joined by ``+``. Their walltime and account are the first one's.
    """
    command = ["squeue", "--noheader", "--states=all", f"--jobs={run.job_id}", f"--format={_FORMAT}"]
    with asking(address_of(run.place) or ""):
        answer = ask(command, seconds=_SECONDS, undecodable="surrogateescape", most=room_for(max(1, run.tasks)))
    components: dict[int, dict[str, str]] = {}
    for line in answer.text.split("\n"):
        named, *texts, folder = [*line.split("|", len(_OPTIONS) + 1), ""][: len(_OPTIONS) + 2]
        job_id, number = component_of(named.partition("_")[0])
        if (job_id, folder) == (run.job_id, str(run.home)):
            components.setdefault(number, _read_values(dict(zip(_OPTIONS, texts, strict=True))))
    found = [components[number] for number in sorted(components)]
    names = [name for name in _OPTIONS if any(name in one for one in found)]
    values = {name: _join(name, [one.get(name, "") for one in found]) for name in names}
    return HeldRequest(values=values, differs=_differences(_read_request(run), found))


def _read_values(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the values that squeue shows, with the walltime in one form."""
    known = {name: text.strip() for name, text in texts.items() if text.strip() not in _NOTHING}
    seconds = _seconds(known.get("walltime", ""))
    return {**known, "walltime": format_walltime(seconds)} if seconds else known


def _seconds(walltime: str) -> int:
    """Return a walltime in seconds; 0 if it is none, such as UNLIMITED."""
    try:
        return parse_walltime(walltime)
    except ValueError:
        return 0


def _join(name: str, values: Sequence[str]) -> str:
    return values[0] if name in ("walltime", "account") else "+".join(values)


def _read_request(run: Run) -> list[dict[str, str]]:
    """Return what the script's directives ask for, for each component."""
    separator = scheduler_row(run.scheduler).component_directive
    components: list[dict[str, str]] = [{}]
    for option, value in directives_of(run.spec()):
        if option == separator:
            components.append({})
        else:
            components[-1][option] = value
    return components


def _differences(asked: Sequence[Mapping[str, str]], found: Sequence[Mapping[str, str]]) -> str:
    """Return every value that is not the one asked for, in words. What was not asked for cannot differ."""
    different = []
    for number, (request, one) in enumerate(zip(asked, found, strict=False)):
        where = f" of component {number}" if len(asked) > 1 else ""
        for name in reversed(_OPTIONS):
            wanted, value = request.get(_OPTIONS[name], ""), one.get(name, "")
            if wanted and value and not _is_equal(name, wanted, value):
                different.append(f"{name}{where} {value}, not {wanted}")
    return "; ".join(different)


def _is_equal(name: str, wanted: str, value: str) -> bool:
    if name == "walltime":  # Slurm counts whole minutes
        return _minutes(wanted) == _minutes(value)
    if name == "partition":  # of several partitions a job may have begun in one
        return value == wanted or value in wanted.split(",")
    return value.lower() == wanted.lower()  # Slurm stores accounts and QOS in lower case


def _minutes(walltime: str) -> int:
    return -(-_seconds(walltime) // 60)
