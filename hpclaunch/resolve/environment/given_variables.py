"""Which variables a person may give to a run: each is kept for the ranks, or refused with the reason; pure.

One table decides (docs/contract.md shows it). What the table does not name is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hpclaunch.config.fileformat import Environment
from hpclaunch.core.records import record
from hpclaunch.core.spec import Layout
from hpclaunch.launchers import LAUNCHERS
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions

SCHEDULERS_GPUS = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK")
"""Variables that a scheduler sets again for every task that has GPUs (Slurm's gres.conf(5), gres guide), so that each
rank sets them itself to keep what was given."""


@record
class Refusal:
    """Variables that no run takes from a person: why, and what to do instead.

    ``where`` names the runs of which it is true; ``always`` is all of them.
    """

    names: tuple[str, ...]
    why: str
    next: str
    where: str = "always"


_IN_RANKS = "leave it out; --nodes and --tasks-per-node say how many ranks there are"
REFUSED = (
    Refusal(
        names=("HPCLAUNCH_*",),
        why="hpclaunch itself sets the variables whose names begin with HPCLAUNCH_",
        next="leave it out, or give it another name",
    ),
    Refusal(
        names=("RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
        why="every rank gets its own value from the launcher",
        next=_IN_RANKS,
    ),
    Refusal(
        names=("TF_CONFIG",),
        why="it names the place of one rank, and all ranks would get the same",
        next="leave it out; --strategy multiworker gives each rank its own",
        where="several ranks",
    ),
    Refusal(
        names=("TF_CONFIG",),
        why="hpclaunch.training makes it itself",
        next="leave it out; --strategy multiworker",
        where="hpclaunch.training",
    ),
    Refusal(
        names=("MASTER_ADDR", "MASTER_PORT", "JAX_COORDINATOR_ADDRESS"),
        why="the trials of a search run side by side, and each has an address of its own",
        next="leave it out",
        where="a search",
    ),
)
"""The table, beside what the rows of launchers and schedulers say of their variables. Any other variable is kept."""

_ASSIGNED = r"""(?x)(?:^|[\n;&|(]|\b(?:then|do|else)\b)\s*(?:export|declare\s+-x|typeset\s+-x)
        ((?:[ \t]+[A-Za-z_]\w*(?:=(?:"[^"]*"|'[^']*'|\$\([^()]*\)|[^\s;&|"'])*)?)+)"""
_NAME = r"(?:^|\s)([A-Za-z_]\w*)="


def exported_by(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the variables that lines of bash export with a value (``export A=1 B=2``), as far as the lines show it."""
    found = (
        name
        for line in lines
        for words in re.findall(_ASSIGNED, line)
        for name in re.findall(_NAME, _unquoted_words(words))
    )
    return tuple(dict.fromkeys(found))


def may_export(lines: Iterable[str]) -> bool:
    """Whether lines of bash could export variables, be it by a file or a module that they read."""
    return any(re.search(_CHANGES, line) for line in lines)


_CHANGES = r"\b(export|declare|typeset|source|eval|module|ml|spack|conda|set)\b|(^|[\s;&|])\.\s|\w="


def _unquoted_words(words: str) -> str:
    """Return the words of an export without quoted text, in which a NAME= is no assignment."""
    return re.sub(r""""[^"]*"|'[^']*'|\$\([^()]*\)""", "", words)


@record
class Given:
    """A variable of a site file or of a person's own, and where it is written.

    ``value``: None if only bash knows it. ``of_site``: the site file gives it.
    """

    name: str
    value: str | None
    where: str
    of_site: bool = False


def given_variables(levels: Sequence[tuple[str, Environment]], typed: Iterable[str]) -> tuple[Given, ...]:
    """Return the variables of all levels (the first is the site's), those of a person's lines of set-up included.

    ``typed``: the names that were typed with ``--env``, which the last level has.
    """
    found: list[Given] = []
    for place, (_, level) in enumerate(levels):
        for name, text in level.variables.items():
            is_typed = place == len(levels) - 1 and name in typed
            where = f"--env {name}" if is_typed else f"environment.variables.{name}"
            found.append(Given(name=name, value=text, where=where, of_site=place == 0))
        for name in exported_by(level.setup) if place else ():
            found.append(Given(name=name, value=None, where=f"environment.setup: export {name}"))
    return tuple(found)


def check_given(
    case: Case, given: Iterable[Given], layout: Layout, launcher: str, launch: tuple[str, ...], decisions: Decisions
) -> None:
    """Note a fault for every given variable that would not reach the ranks as it is.

    ``launch``: the words of the launcher.
    """
    for one in given:
        if one.name == "WORLD_SIZE" and one.value is None:
            continue  # only the job knows whether it is the number of ranks; the script looks
        refusal = next(_refusals(case, one.name, layout, launcher, launch), None)
        if refusal:
            decisions.fault(refusal.why, where=one.where, next=refusal.next)
        elif one.name == "MASTER_PORT" and one.value is not None and not _is_port(one.value):
            decisions.fault(f"{one.value!r} is no port", where=one.where, allowed="a number from 1 to 65535")
        elif one.name == "MASTER_ADDR" and one.value == "":
            decisions.fault("it is empty", where=one.where, allowed="the address of a host", next="leave it out")


def _refusals(case: Case, name: str, layout: Layout, launcher: str, launch: tuple[str, ...]) -> Iterator[Refusal]:
    row, scheduler = LAUNCHERS[launcher], case.site.scheduler_row
    holds = {
        "always": True,
        "several ranks": layout.world_size > 1,
        "hpclaunch.training": case.job.uses_library,
        "a search": bool(case.request.search),
    }
    yield from (one for one in REFUSED if holds[one.where] and _is_among(name, one.names))
    if name in row.reads:
        option = row.reads[name]
        if not any(word == option or word.startswith(f"{option}=") for word in launch):
            return
        why = f"hpclaunch writes {launcher}'s option {option}, which counts more than this variable"
        yield Refusal(names=(name,), why=why, next=f"leave it out; {row.reads_next}")
    own = {one for every in LAUNCHERS.values() for one in every.identity_variables}
    if name in own or _is_among(name, row.sets):
        yield Refusal(names=(name,), why=f"{launcher} sets it for every rank", next=_IN_RANKS)
    if name.startswith(scheduler.variables):
        why = f"variables of such names are {scheduler.title}'s own, which it sets for jobs and tasks"
        yield Refusal(names=(name,), why=why, next="leave it out; hpclaunch submit --help lists the options of a job")


def _is_among(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name is one of these, of which one with a star at its end stands for all that begin so."""
    return any(name == pattern or (pattern[-1:] == "*" and name.startswith(pattern[:-1])) for pattern in patterns)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text) < 2**16


def kept_in_ranks(variables: Mapping[str, str], given: Iterable[Given]) -> dict[str, str]:
    """Return the given variables that a scheduler sets again for every task, with the values that a rank must set."""
    named = {one.name for one in given if one.value is not None and not one.of_site}
    return {name: text for name, text in variables.items() if name in named and name in SCHEDULERS_GPUS}
