"""The columns of docs/comparison.md and their rules; they were committed before the first measurement.

A rule reads what was seen of one run (`Seen`, its raw result) and knows nothing of the tool; the table of results has
what the rules say (`verdicts`). A cell passes if the rule holds in all three runs. A time is the median of the runs.
Lower times are better; a tool is first in a column if no other is better, so several can be first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cases

Seen = Mapping[str, Any]
Verdict = tuple[bool, str]


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column: its rule in words for the page, and the same rule as a function of one run.

    judge returns whether the rule holds, and in a few words what was seen; None for a time, which is the value named
    `seconds` of a run.
    """

    name: str
    title: str
    case: str
    rule: str
    judge: Callable[[Seen], Verdict] | None = None
    seconds: str = ""


def last_start(seen: Seen) -> list[Mapping[str, Any]]:
    """The ranks of the newest start: those of the highest job ID, and of its highest restart count."""
    starts = {(int(rank["job"]), rank["restart"]) for rank in seen["ranks"]}
    return [rank for rank in seen["ranks"] if starts and (int(rank["job"]), rank["restart"]) == max(starts)]


def as_many_as_asked(ranks: Sequence[Mapping[str, Any]]) -> Verdict:
    """Whether these are eight ranks with the numbers 0 to 7, two on each of four nodes."""
    hosts = Counter(rank["host"] for rank in ranks)
    numbers = sorted(rank["rank"] for rank in ranks)
    good = numbers == list(range(cases.RANKS)) and sorted(hosts.values()) == [cases.RANKS_PER_NODE] * cases.NODES
    each = "/".join(map(str, sorted(hosts.values()))) or "0"
    return good, f"{len(ranks)} ranks, {each} a node" + ("" if good else f", numbers {numbers}")


def one_job(seen: Seen) -> Verdict | None:
    """A verdict if the command failed or queued no job, or more than one; None if it queued one."""
    if len(seen["jobs"]) == 1:
        return None
    last = (seen["error"].strip().splitlines() or ["no message"])[-1][:160]
    return False, f"{len(seen['jobs'])} jobs, exit code {seen['exit_code']}: {last}"


def size(seen: Seen) -> Verdict:
    return one_job(seen) or as_many_as_asked(last_start(seen))


def arguments(seen: Seen) -> Verdict:
    """Every rank got the typed list of arguments; nothing in it was run."""
    wanted, ranks = list(cases.HOSTILE_ARGUMENTS), last_start(seen)
    if failed := one_job(seen):
        return failed
    if seen["command_was_run"]:
        return False, "a command in an argument was run"
    if not ranks:
        return False, "no rank started"
    wrong = next((rank["arguments"] for rank in ranks if rank["arguments"] != wanted), None)
    if wrong is None:
        return True, f"{len(wanted)} arguments unchanged in {len(ranks)} ranks"
    pairs = zip(wanted, wrong, strict=False)
    first = next((f"{a!r} became {b!r}" for a, b in pairs if a != b), f"{len(wrong)} of {len(wanted)} arguments")
    return False, first


def odd_environment(seen: Seen) -> Verdict:
    """All ranks start, nothing in a value is run, and a rank has the variable unchanged or not at all."""
    if failed := one_job(seen):
        return failed
    started = as_many_as_asked(last_start(seen))
    values = {rank["variables"].get("ODD") for rank in last_start(seen)}
    if not started[0] or seen["command_was_run"]:
        return False, "a command in a value was run" if seen["command_was_run"] else started[1]
    if values <= {None, cases.ODD_VARIABLES["ODD"]}:
        return True, "absent" if values == {None} else "unchanged"
    return False, f"became {next(iter(values - {None}))!r}"


def clean_environment(seen: Seen) -> Verdict:
    """No rank has a stray variable of the shell; every rank has the typed one, unchanged."""
    if failed := one_job(seen):
        return failed
    started = as_many_as_asked(last_start(seen))
    if not started[0]:
        return started
    for rank in last_start(seen):
        for name, value in cases.STRAY_VARIABLES.items():
            if rank["variables"].get(name) == value:
                return False, f"{name} of the shell reached the ranks"
        for name, value in cases.TYPED_VARIABLES.items():
            if rank["variables"].get(name) != value:
                return False, f"{name} became {rank['variables'].get(name)!r}"
    return True, "only the typed variable"


def exit_code(seen: Seen) -> Verdict:
    """Sacct: the job FAILED with exit code 3:0."""
    found = f"{seen['state']} {seen['sacct_exit_code']}"
    return one_job(seen) or (found == "FAILED 3:0", found)


def preempted(seen: Seen) -> Verdict:
    """The first start was preempted, a later one had all ranks, and the last job COMPLETED with 0:0."""
    if not seen["jobs"]:
        return one_job(seen) or (False, "")
    starts = len({(rank["job"], rank["restart"]) for rank in seen["ranks"]})
    complete, ranks = as_many_as_asked(last_start(seen))
    ended = f"{seen['state']} {seen['sacct_exit_code']}"
    good = seen["was_preempted"] and starts >= 2 and complete and ended == "COMPLETED 0:0"
    return good, f"{starts} starts, {ended}" + ("" if complete else f", last start: {ranks}")


def gpus_given(seen: Seen) -> Verdict:
    """Slurm allocated eight GPUs to the job (sacct's AllocTRES)."""
    return one_job(seen) or (seen["gpus"] == cases.RANKS, f"{seen['gpus']} GPUs")


def gpus_own(seen: Seen) -> Verdict:
    """Every rank sees exactly one GPU (CUDA_VISIBLE_DEVICES), and the ranks of a node see different ones."""
    if failed := one_job(seen):
        return failed
    ranks = last_start(seen)
    if len(ranks) != cases.RANKS:
        return False, f"{len(ranks)} ranks"
    pairs = [(rank["host"], gpu) for rank in ranks for gpu in rank["gpus"]]
    counts = sorted({len(rank["gpus"]) for rank in ranks})
    if counts != [1]:
        return False, f"a rank sees {' or '.join(map(str, counts))} GPUs"
    shared = len(set(pairs)) != len(pairs)
    return not shared, "ranks of a node share one" if shared else "one each"


def dry_run(seen: Seen) -> Verdict:
    """The dry run queues nothing and shows the script that sbatch then gets, but for the run's own name."""
    dry = seen["dry_run"]
    if dry is None:
        return False, "has none"
    if dry["jobs"] or dry["exit_code"]:
        return False, f"{dry['jobs']} jobs, exit code {dry['exit_code']}"
    return one_job(seen) or (dry["same"] != "", dry["same"] or f"differs: {dry['difference']}")


def lost_answer(seen: Seen) -> Verdict:
    """Slurm has exactly one job, and the command ends with 0 and shows that job's ID."""
    jobs, shown = seen["jobs"], seen["shows_job"]
    good = len(jobs) == 1 and shown and seen["exit_code"] == 0
    return good, f"{len(jobs)} jobs, exit code {seen['exit_code']}, ID {'shown' if shown else 'not shown'}"


COLUMNS = (
    Column(
        name="render_cpu",
        title="dry run: processor time",
        case="plain",
        seconds="dry_cpu_s",
        rule="Processor time (user and system, with all child processes) of the command that shows the script.",
    ),
    Column(
        name="submit_cpu",
        title="submission: processor time",
        case="plain",
        seconds="cpu_s",
        rule="Processor time of the command that submits, from its start to its end. A tool that stays until the job "
        "has ended is measured until sbatch has answered.",
    ),
    Column(
        name="submit_wall",
        title="submission: wall time",
        case="plain",
        seconds="wall_s",
        rule="Wall time of the same command, on a machine that may be busy.",
    ),
    Column(
        name="size",
        title="ranks and nodes as asked",
        case="plain",
        judge=size,
        rule="One job; its ranks have the numbers 0 to 7 in SLURM_PROCID (or RANK), and two run on each of four nodes.",
    ),
    Column(
        name="arguments",
        title="hostile arguments",
        case="plain",
        judge=arguments,
        rule="Every rank gets the 15 typed arguments unchanged: spaces, quotes, a newline, `$(…)`, `*`, leading "
        "dashes, braces, an empty one, letters beyond ASCII. No command in them is run.",
    ),
    Column(
        name="odd_environment",
        title="odd values in the shell",
        case="plain",
        judge=odd_environment,
        rule="The submitting shell has a variable with two lines, quotes and `$(…)`, and an exported function. All "
        "ranks start, and each has the variable unchanged or not at all.",
    ),
    Column(
        name="clean_environment",
        title="only typed variables",
        case="environment",
        judge=clean_environment,
        rule="The job is asked to have one variable with blanks and quotes, and nothing else of the shell. Every rank "
        "has it unchanged, and neither of two other variables of the shell.",
    ),
    Column(
        name="exit_code",
        title="exit code in sacct",
        case="exit",
        judge=exit_code,
        rule="Rank 1 ends with 3, all others with 0. Sacct shows the job as FAILED with exit code 3:0.",
    ),
    Column(
        name="inside",
        title="submitted from inside a job",
        case="inside",
        judge=size,
        rule="Typed in a job of one node and one task, whose SLURM_ variables are set. The new job has ranks and nodes "
        "as asked.",
    ),
    Column(
        name="preempted",
        title="preempted and requeued",
        case="preempted",
        judge=preempted,
        rule="A job of another partition preempts it. The ranks stay through Slurm's SIGTERM, as in a program that "
        "saves its state. It starts again without a further command, with all ranks, and sacct shows COMPLETED 0:0.",
    ),
    Column(
        name="terminated",
        title="preempted, ranks end at SIGTERM",
        case="terminated",
        judge=preempted,
        rule="The same with a program that knows no signals: its ranks end when Slurm announces the preemption.",
    ),
    Column(
        name="gpus_given",
        title="GPUs allocated",
        case="plain",
        judge=gpus_given,
        rule="One GPU a rank is asked for. Sacct's AllocTRES shows eight GPUs.",
    ),
    Column(
        name="gpus_own",
        title="one own GPU a rank",
        case="plain",
        judge=gpus_own,
        rule="Every rank has exactly one GPU in CUDA_VISIBLE_DEVICES, and the two ranks of a node have different ones.",
    ),
    Column(
        name="dry_run",
        title="the script before submission",
        case="plain",
        judge=dry_run,
        rule="A dry run queues no job and shows the whole script. The submission that follows gives sbatch the same "
        "bytes, once the run's own name (an ID, a time) is the same in both.",
    ),
    Column(
        name="lost_answer",
        title="sbatch's answer is lost",
        case="lost",
        judge=lost_answer,
        rule="Slurm queues the job, but sbatch answers with a time-out and exit code 1. Slurm ends up with one job, "
        "and the command ends with 0 and shows its ID.",
    ),
)


def verdicts(case: str, seen: Seen) -> dict[str, str]:
    """What the rules of a situation say about one run: the column's name → "yes" or "no", a colon and what was seen."""
    found = {}
    for column in COLUMNS:
        if column.case == case and column.judge is not None:
            holds, words = column.judge(seen)
            found[column.name] = f"{'yes' if holds else 'no'}: {words}"
    return found
