"""How a run outlives its walltime: how often it starts again and by what, the signal before the end, its chain."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace

from hpclaunch.config.job import Job
from hpclaunch.config.settings import Settings
from hpclaunch.config.site import Site
from hpclaunch.core.records import record
from hpclaunch.core.spec import Layout, Request, Restarts
from hpclaunch.core.units import format_walltime
from hpclaunch.resolve.decisions import Ledger
from hpclaunch.resolve.layout import Size
from hpclaunch.resolve.limits import Ask
from hpclaunch.resolve.placement import longest_piece

DEFAULT_SIGNAL = "USR2@120"
_SIGNAL = re.compile(r"(?:[BR]+:)?(?:SIG)?(USR1|USR2|TERM)(?:@(\d{1,5}))?")
_ANY_SIGNAL = re.compile(r"(?:[BR]+:)?(?:SIG)?([A-Z0-9]+)(?:@(\d{1,5}))?")
# These end when they get USR1 or USR2; the others pass every signal on.
_PASS_TERM_ALONE = ("torchrun", "horovodrun")


@record
class Wish:
    """How often the script may start again, and the walltime (seconds) that was asked for, of all its jobs together."""

    most: int
    whole: int


def wish_of(
    site: Site,
    kind: str,
    size: Size,
    asked: dict[str, str],
    job: Job,
    request: Request,
    settings: Settings,
    ledger: Ledger,
) -> tuple[Wish, Ask]:
    """Return the wish, and what one job asks for: a run that can resume may be longer than the site's limits."""
    ask = Ask(kind=kind, nodes=size.nodes, gpus=size.gpus, walltime=size.walltime)
    most = _most(site, job, request, settings, ledger)
    return Wish(most=most, whole=ask.walltime), replace(ask, walltime=_piece(site, ask, asked, most, ledger))


def _most(site: Site, job: Job, request: Request, settings: Settings, ledger: Ledger) -> int:
    """Return how often the script may start again; 0 where the program saves nothing, or nothing could start it."""
    most = ledger.pick(
        "restarts",
        ("--restarts", request.restarts),
        ("job", job.restarts),
        settings.offer("restarts", site.name),
        ("nobody asked", 0),
    )
    if site.scheduler != "slurm":
        if request.restarts:
            ledger.warnings.append(f"{site.name} has no scheduler to start a run again: hpclaunch resume does")
        return 0
    return most or 0


def _piece(site: Site, ask: Ask, asked: dict[str, str], most: int, ledger: Ledger) -> int:
    """Return the walltime (seconds) of one job: all of it, or the longest that the site takes if the run can resume."""
    longest = longest_piece(site, ask, asked) if most else 0
    if not longest or longest >= ask.walltime:
        return ask.walltime
    jobs, long = math.ceil(ask.walltime / longest), format_walltime(longest)
    if site.restart == "none":
        how = f"this is the first of up to {jobs} jobs of {long}; hpclaunch resume starts the next"
    else:
        how = f"this is a chain of up to {jobs} jobs of {long}, joined by checkpoints"
    whole = format_walltime(ask.walltime)
    ledger.warnings.append(f"{whole} is longer than one job may run: {how}; it ends when the program is done")
    return longest


def restarts_of(
    site: Site,
    launcher: str,
    wish: Wish,
    walltime: int,
    job: Job,
    request: Request,
    settings: Settings,
    ledger: Ledger,
) -> Restarts:
    """Return how the script goes on; ``walltime`` (seconds) is that of one job.

    The lead is at most a quarter of the walltime: Slurm would send the signal at once to a job that is shorter.
    """
    if not wish.most:
        if request.signal:
            ledger.fault(
                "--signal asks a run to save before it is started again, and this one is not",
                next=f"--restarts 50; or --sbatch=--signal=B:{request.signal} for a program that wants it all the same",
            )
        return Restarts()
    said = ledger.pick(
        "signal",
        ("--signal", request.signal),
        ("--sbatch", _among(request.sbatch)),
        ("job", job.signal),
        ("job", _among(job.sbatch)),
        settings.offer("signal", site.name),
        ("settings", _among(settings.all("sbatch", site.name))),
        (f"site {site.name}", site.signal),
        (f"site {site.name}", _among(site.sbatch)),
        ("usual", DEFAULT_SIGNAL),
    )
    name, lead = _read(str(said), ledger)
    usual = ledger.choices[-1].origin == "usual"
    if walltime and lead >= walltime and not usual:
        ledger.fault(
            f"the signal {lead} s before the end is at or before the beginning: the walltime is {walltime} s",
            where=ledger.choices[-1].origin,
            next=f"--signal {name}@{walltime // 4}",
        )
    elif walltime and usual:
        lead = max(1, min(lead, walltime // 4))
    jobs = math.ceil(wish.whole / walltime) if walltime else 1
    return Restarts(most=max(wish.most, jobs - 1), by=site.restart, signal=name, lead=lead)


def with_signals(restarts: Restarts, launcher: str, layout: Layout) -> Restarts:
    """Return the restarts with how a signal that the script gets reaches the ranks.

    One rank without a launcher is a group of processes. horovodrun sends SIGTERM to the ranks' shells alone, and kills
    them 5 s later (horovod/runner/common/util/safe_shell_exec.py): on one node the script itself signals the ranks.
    """
    if launcher == "direct":
        return replace(restarts, passed=restarts.signal, passed_to="group")
    if launcher == "horovodrun" and layout.nodes == 1:
        return replace(restarts, passed=restarts.signal, passed_to="ranks")
    return replace(restarts, passed="TERM" if launcher in _PASS_TERM_ALONE else restarts.signal)


def _read(text: str, ledger: Ledger) -> tuple[str, int]:
    found = _SIGNAL.fullmatch(text)
    if found is None:
        other = _ANY_SIGNAL.fullmatch(text)
        ledger.fault(
            f"{other[1] if other else text!r} cannot be the signal before the walltime's end",
            where=ledger.choices[-1].origin,
            allowed="USR1, USR2 or TERM, with the seconds before the end, as in USR2@120",
        )
        return "USR2", 120
    return found[1], int(found[2] or 60)  # sbatch's own default


def _among(options: Iterable[str]) -> str | None:
    """Return the value of the last --signal among sbatch options."""
    found = [option.partition("=")[2] for option in options if option.startswith("--signal=")]
    return found[-1] if found else None
