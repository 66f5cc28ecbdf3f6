"""How a run continues after its walltime: the number of restarts, what restarts it, and the signal before the end."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace

from hpclaunch.core.records import record
from hpclaunch.core.spec import Layout, Restarts
from hpclaunch.core.units import format_walltime
from hpclaunch.launchers import LAUNCHERS, SIGNALS
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.nodes.alternatives import Wanted, longest_piece
from hpclaunch.resolve.nodes.limits import Ask

DEFAULT_SIGNAL = "USR2@120"
# Options and files spell a signal as sbatch does, so a person may write its B: and R: here too.
_SIGNAL = re.compile(r"(?:[BR]+:)?(?:SIG)?(USR1|USR2|TERM)(?:@(\d{1,5}))?")
_ANY_SIGNAL = r"(?:[BR]+:)?(?:SIG)?([A-Z0-9]+)(?:@(\d{1,5}))?"


@record
class RestartRequest:
    """The most restarts of a script, and the requested walltime (seconds) of all its jobs together."""

    most: int
    walltime: int


def restart_request_of(case: Case, ask: Ask, named: dict[str, str], decisions: Decisions) -> tuple[RestartRequest, Ask]:
    """Return the requested restarts, and the request of a single job.

    A run that can resume may be longer than the site's limit for a job: it becomes a chain of jobs.
    """
    most = _most_restarts(case, decisions)
    wanted = Wanted(site=case.site, ask=ask, named=named)
    longest = longest_piece(wanted) if most else 0
    if longest and case.context.longest_job:
        longest = min(longest, case.context.longest_job)
    walltime = _walltime_of_one_job(wanted, longest, decisions)
    return RestartRequest(most=most, walltime=ask.walltime), replace(ask, walltime=walltime)


def _most_restarts(case: Case, decisions: Decisions) -> int:
    """Return how often the script may restart; 0 if the program saves no state or no scheduler could start it."""
    most = decisions.pick(
        "restarts",
        ("--restarts", case.request.restarts),
        ("job", case.job.restarts),
        case.settings.offer("restarts", case.site.name),
        ("default", 0),
    )
    if case.context.allocation:  # a requeue would end everything else in it
        return 0
    if not case.site.scheduler_row.has_queue:
        if case.request.restarts:
            decisions.warnings.append(
                f"{case.site.name} has no scheduler to start a run again: use hpclaunch resume instead of --restarts"
            )
        return 0
    return most or 0


def _walltime_of_one_job(wanted: Wanted, longest: int, decisions: Decisions) -> int:
    """Return the walltime (seconds) of one job: all of it, or the longest of a job if the run can resume (else 0)."""
    whole = wanted.ask.walltime
    if not longest or longest >= whole:
        return whole
    jobs, long = math.ceil(whole / longest), format_walltime(longest)
    if wanted.site.restart == "none":
        how = f"this is the first of up to {jobs} jobs of {long}; start each next one with hpclaunch resume"
    else:
        how = f"the run becomes a chain of up to {jobs} jobs of {long}, joined by checkpoints"
    asked = format_walltime(whole)
    decisions.warnings.append(
        f"{asked} is longer than one job may run here: {how}; the run ends when the program finishes"
    )
    return longest


def restarts_of(case: Case, restart_request: RestartRequest, walltime: int, decisions: Decisions) -> Restarts:
    """Return how the script continues; ``walltime`` (seconds) is that of one job.

    The default lead is at most a quarter of the walltime: Slurm signals a job at once if the lead exceeds its walltime.
    """
    if not restart_request.most:
        if case.request.signal:
            next_step = "add --restarts 50"
            signals = case.site.scheduler_row.script_signals
            if signals:
                itself = f"--sbatch=--signal={signals[0]}{case.request.signal}"
                next_step += f"; or, if the program handles the signal itself, use {itself}"
            what = "--signal tells a program to save before its run is restarted, and this run has no restarts"
            decisions.fault(what, next=next_step)
        return Restarts()
    jobs = math.ceil(restart_request.walltime / walltime) if walltime else 1
    most = max(restart_request.most, jobs - 1)
    if not case.site.scheduler_row.script_signals:
        _note_missing_signal(case, decisions)
        return Restarts(most=most, by=case.site.restart)
    name, lead = _read_signal(_chosen_signal(case, decisions), decisions)
    origin = decisions.origin_of("signal")
    is_default = origin == "default"
    if walltime and lead >= walltime and not is_default:
        decisions.fault(
            f"the signal would come {lead} s before the end, but the whole walltime is only {walltime} s",
            where=origin,
            next=f"--signal {name}@{walltime // 4}",
        )
    elif walltime and is_default:
        lead = max(1, min(lead, walltime // 4))
    return Restarts(most=most, by=case.site.restart, signal=name, lead=lead)


def _note_missing_signal(case: Case, decisions: Decisions) -> None:
    """Warn that no signal comes before the end; a typed one is a fault."""
    title = case.site.scheduler_row.title
    what = f"{title} sends no signal before the end of the walltime"
    if case.request.signal:
        decisions.fault(what, where="--signal", next="leave --signal out, and let the program save at intervals")
    else:
        decisions.warnings.append(f"{what}: what the program has not saved until then is lost, so let it save often")


def with_signals(restarts: Restarts, launcher: str, layout: Layout) -> Restarts:
    """Return the restarts, completed by how a signal to the script reaches the ranks."""
    row = LAUNCHERS[launcher]
    if row.signal_to and layout.nodes == 1:
        return replace(restarts, pass_on=restarts.signal, signal_to=row.signal_to)
    if restarts.signal:
        return replace(restarts, pass_on=row.pass_on(restarts.signal))
    return replace(restarts, pass_on="" if all(row.pass_on(name) == name for name in SIGNALS) else "TERM")


def _chosen_signal(case: Case, decisions: Decisions) -> str:
    """Return the signal as it is spelled where it was chosen."""
    site, job = case.site, case.job
    chosen = decisions.pick(
        "signal",
        ("--signal", case.request.signal),
        ("--sbatch", _signal_among(case.request.sbatch)),
        ("job", job.signal),
        ("job", _signal_among(job.sbatch)),
        case.settings.offer("signal", site.name),
        ("settings", _signal_among(case.settings.all("sbatch", site.name))),
        (f"site {site.name}", site.signal),
        (f"site {site.name}", _signal_among(site.sbatch)),
        ("default", DEFAULT_SIGNAL),
    )
    return str(chosen)


def _read_signal(text: str, decisions: Decisions) -> tuple[str, int]:
    found = _SIGNAL.fullmatch(text)
    if found is None:
        other = re.fullmatch(_ANY_SIGNAL, text)
        decisions.fault(
            f"{other[1] if other else text!r} cannot be the signal before the end of the walltime",
            where=decisions.origin_of("signal"),
            allowed="USR1, USR2 or TERM, with the seconds before the end, as in USR2@120",
        )
        return "USR2", 120
    return found[1], int(found[2] or 60)  # sbatch's own default


def _signal_among(options: Iterable[str]) -> str | None:
    """Return the value of the last --signal among sbatch options."""
    found = [option.partition("=")[2] for option in options if option.startswith("--signal=")]
    return found[-1] if found else None
