"""Shows a submission: its choices, its recipe, what is missing, the new run, and how it ended; it decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hpclaunch.cli.show import streams
from hpclaunch.cli.show.console import say, show_bytes, tell, warn, write, write_json
from hpclaunch.config.settings import OF_PERSON, OF_PROJECT
from hpclaunch.core.array_size import digits_of
from hpclaunch.core.errors import Fault
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.core.spec import AS_IS, CLUSTER, Choice, Cost, JobSpec, RunRecipe, Sweep
from hpclaunch.core.units import count, format_memory, format_walltime

if TYPE_CHECKING:
    from hpclaunch.runs import Run
    from hpclaunch.runs.snapshot import Snapshot

_SUBMISSION_CHOICES = (
    *("node type", "nodes", "tasks per node", "launcher", "framework", "strategy"),
    *(CLUSTER, "account", "partition", "qos", "walltime", "memory", "data", "python", "software", "option"),
    *("mail", "sbatch", "removed"),
)
"""The choices that a submission shows; the spec has all."""
_SHOWN_IF_SET = ("restarts", "signal", "rank logs", "samples")
"""Shown if a settings file chose them: whoever types the command does not see that."""
_PLACE = ("node type", CLUSTER, "partition", "qos", "account")
_START = ("launcher", "strategy", "framework", "software", "python", "option", "data")
"""The choices of two lines of the summary, in their order there."""
_UNITS_OF_CHOICES = {"walltime": format_walltime, "memory": format_memory}
"""How to show the choices that are numbers of seconds or megabytes."""


def show_choices(spec: JobSpec, site_origin: str) -> None:
    """Show a summary of the choices, or with ``--verbose`` each one with its origin."""
    if spec.template == AS_IS:
        _show_as_is(spec, site_origin)
        return
    shapes = [
        f"{count(one.layout.nodes, f'{one.node_type} node' if spec.further else 'node')} x "
        f"{count(one.layout.tasks_per_node, 'task')}"
        for one in spec.components
    ]
    say(f"{spec.name}: {' + '.join(shapes)} = {count(spec.layout.world_size, 'rank')}")
    if spec.sweep:
        _show_array(spec.sweep)
    if streams.is_verbose():
        _show_each_choice(spec, site_origin)
    else:
        _show_summary(spec, site_origin)


def warn_of(notices: Iterable[str]) -> None:
    """Show what the user should know of a submission before it waits in the queue."""
    for notice in notices:
        warn(notice)


def _show_each_choice(spec: JobSpec, site_origin: str) -> None:
    rows = [("site", spec.site, site_origin)]
    shown = sorted(spec.choices, key=lambda choice: choice.key != CLUSTER)  # beside the site
    rows += [(choice.key, _value_of(choice), choice.origin) for choice in shown if _is_shown(choice)]
    for key, value, origin in rows:
        say(f"  {key:<15} {value:<24} ({origin})")
    if spec.cost:
        say(f"  {'cost, at most':<15} {show_amount(spec.cost.amount)} {_unit_of(spec.cost)} ({spec.cost.note})")
    _show_declined(spec)


def _show_summary(spec: JobSpec, site_origin: str) -> None:
    """Show where the job runs, for how long at most, what it starts, and what settings and the shell add to it."""
    shown = [choice for choice in spec.choices if _is_shown(choice)]
    place = [f"at {spec.site}{_hidden_origin(site_origin)}", *_words_of(shown, _PLACE)]
    limits = []
    for choice in shown:
        if choice.key == "walltime":
            limits.append(f"at most {_value_of(choice)}{_hidden_origin(choice.origin)}")
    if spec.cost:
        limits.append(f"{show_amount(spec.cost.amount)} {_unit_of(spec.cost)}")
    say(f"  {', '.join(place + limits)}")
    say(f"  {', '.join(_words_of(shown, _START))}; -v shows every choice with its origin")
    summed_up = {"walltime", "nodes", "tasks per node", *_PLACE, *_START}
    others = dict.fromkeys(choice.key for choice in shown if choice.key not in summed_up)
    more = _words_of(shown, tuple(others))
    if more:
        say(f"  {', '.join(more)}")


def _words_of(shown: Sequence[Choice], keys: Sequence[str]) -> list[str]:
    """Return the choices of these keys in words."""
    words = []
    for key in keys:
        for choice in shown:
            if choice.key == key and not _is_sites_python(choice):
                words.append(f"{key} {_value_of(choice)}{_hidden_origin(choice.origin)}")
    return words


def _is_sites_python(choice: Choice) -> bool:
    """Whether this is the first Python on PATH after the site's modules, which needs no word."""
    return (choice.key, choice.value) == ("python", "python") and choice.origin.startswith("site ")


def _hidden_origin(origin: str) -> str:
    """Return the origin of a choice that whoever types does not see: of settings, or of the shell.

    The shell chooses by a variable, or by the environment that is active; one that is typed is its Python's origin.
    """
    is_variable = origin.isupper()
    is_environment = origin.startswith(("the active ", "--venv ", "--conda ", "--environment "))
    return f" ({origin})" if is_variable or is_environment or origin in (OF_PERSON, OF_PROJECT) else ""


def _value_of(choice: Choice) -> str:
    return _UNITS_OF_CHOICES[choice.key](int(choice.value)) if choice.key in _UNITS_OF_CHOICES else choice.value


def _is_shown(choice: Choice) -> bool:
    of_settings = choice.key in _SHOWN_IF_SET and choice.origin in (OF_PERSON, OF_PROJECT)
    return choice.key in _SUBMISSION_CHOICES or of_settings


def _show_as_is(spec: JobSpec, site_origin: str) -> None:
    """Show what a foreign batch script asks for itself."""
    say(f"{spec.name}: the batch script {spec.target}, unchanged")
    say(f"  {'site':<15} {spec.site:<24} ({site_origin})")
    for choice in spec.choices:
        say(f"  {choice.key:<15} {choice.value:<24} ({choice.origin})")


def show_code(found: Snapshot | None) -> None:
    """Show which code the run takes along, by which rule, and what it leaves."""
    if found is None:
        return
    what, why = f"{count(len(found.files), 'file')}, {show_bytes(found.size)}", found.rule
    if found.in_place:
        what, why = "in place", f"{found.folder}, as it is when the run begins"
    elif found.left_out:
        why += f"; {count(found.left_out, 'other file')} not copied"
    if streams.is_verbose():
        say(f"  {'code':<15} {what:<24} ({why})")
    elif found.in_place or found.left_out:
        say(f"  code: {what} ({why})")
    else:
        say(f"  code: {what}")


def show_broadcast(spec: JobSpec, copied: Sequence[str], size: int | None) -> None:
    """Show what the job copies to its nodes, and who chose that; ``size`` is that of the environment, if known."""
    if spec.broadcast is None:
        return
    what = " and ".join(copied) or "nothing"
    amount = f"{show_bytes(size)} to" if size is not None else "to"
    if not streams.is_verbose():
        say(f"  broadcast: {what}, {amount} {spec.broadcast.folder} of every node")
        return
    origin = next(choice.origin for choice in spec.choices if choice.key == "broadcast")
    say(f"  {'broadcast':<15} {f'{amount} {spec.broadcast.folder}':<24} ({what}, on every node; {origin})")


def _show_array(sweep: Sweep) -> None:
    axes = " x ".join(f"{len(values)} {name}" for name, values in sweep.axes)
    limit = f"at most {sweep.at_once} at a time" if sweep.at_once else "no limit at a time"
    say(f"  {'job array':<15} {count(sweep.count, 'run'):<24} ({axes}; {limit})")


def show_advice(advice: str) -> None:
    """Show why the planner chose the node count, if it did."""
    if advice:
        say(f"  planner: {advice}")


def show_recipe(recipe: RunRecipe | None) -> None:
    """Show what the recipe of a run sets; with ``--verbose`` also why, in a few lines."""
    if recipe is None or not recipe.why:
        return
    if not streams.is_verbose():
        _show_recipe_in_a_line(recipe)
        return
    say(f"  {f'recipe {recipe.name}':<15} {recipe.why[0]}")
    for line in recipe.why[1:]:
        say(f"  {'':<15} {line}")


def _show_recipe_in_a_line(recipe: RunRecipe) -> None:
    batch = [f"B = {recipe.global_batch}"] if recipe.global_batch is not None else []
    values = [f"{name}={value}" for name, value in recipe.applied] or ["nothing to set"]
    typed = [f"as typed {name}={value}" for name, value in recipe.typed]
    say(f"  recipe {recipe.name}: {', '.join([*batch, ' '.join(values), *typed])}")


def _show_declined(spec: JobSpec) -> None:
    """Show why other partitions and QOS were not chosen; those for other node types share a line."""
    for_other_nodes = [other for other in spec.declined if other.for_other_nodes]
    for other in spec.declined:
        if not other.for_other_nodes:
            say(f"  not {other.key} {other.value}: {other.reason}")
    if for_other_nodes:
        say(f"  not for {spec.node_type} nodes: {', '.join(other.value for other in for_other_nodes)}")


def _unit_of(cost: Cost) -> str:
    return cost.unit if cost.amount == 1 else f"{cost.unit}s"


def show_amount(amount: float) -> str:
    """Return a number with four digits, or without a fraction from 1,000 on."""
    return f"{amount:.4g}" if amount < 1000 else f"{amount:,.0f}"


def show_estimate(spec: JobSpec, words: str, as_json: bool) -> None:
    """Show the scheduler's estimate of a script's start."""
    if as_json:
        write_json("estimate", {"spec": spec.to_json(), "scheduler": words})
    else:
        write(f"{words}\n")


def warn_missing(faults: Iterable[Fault]) -> None:
    """Show what a submission would be refused for, as warnings."""
    for fault in faults:
        warn(str(fault))


def show_run(
    run: Run, as_json: bool, recipe: RunRecipe | None = None, more: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Show a run's job ID and its directory; as JSON its record, with the ``recipe`` of a new run, and ``more``.

    The job ID is shown on the other stream if one of them fails. Raises OSError if stdout does.
    """
    show_answer(run)
    if as_json:
        try:
            write_json("run", {**run.to_json(), **({"recipe": asdict(recipe)} if recipe else {}), **more})
        except OSError:
            say(_submission_message(run))
            raise
        return
    if run.job_id:
        show_submitted(run)
    write(f"{run.path}\n")


def show_answer(run: Run) -> None:
    """Show what the scheduler's program printed at the submission, and what the scheduler changed."""
    if not run.job_id:
        return
    if run.printed:
        say(f"{scheduler_row(run.scheduler).start_command} printed:")
        for line in run.printed.split("\n"):
            say(f"  {line}")
    if run.differs:
        warn(f"the scheduler changed what was asked for: {run.differs}")


def show_submitted(run: Run, more: str = "") -> None:
    """Show a run's job ID on stderr, or on stdout if stderr fails."""
    if not tell(_submission_message(run) + more):
        write(f"{_submission_message(run)}\n")


def _submission_message(run: Run) -> str:
    if not run.job_id:
        return str(run.path)
    jobs = run.job_id
    if run.offsets:
        from hpclaunch.cli.show.run_columns import jobs_words  # which a single job does not need

        jobs = jobs_words(run)
    noun = "jobs" if "," in jobs else "job"
    where = f", on the cluster {run.cluster}" if run.via else ""
    return f"submitted {run.label} as {noun} {jobs} at {run.site}{where}"


def show_next(run: Run) -> None:
    """Show the next commands for a run."""
    name, all_flag, first_run = run.label, "", ""
    if run.tasks:  # an array, of which each run has a log of its own
        all_flag, first_run = " --all", f"/{0:0{digits_of(run.tasks)}d}"
    say(f"  next: hpclaunch status {name}{all_flag}, hpclaunch logs -f {name}{first_run}, or hpclaunch cancel {name}")


def show_end(run: Run, as_json: bool) -> None:
    """Show how a run ended, its final metrics, and its directory."""
    final: dict[str, Any] = {}
    for event in run.metrics():
        if event.get("event") == "end":
            final = event
    if as_json:
        write_json("run", {**run.to_json(), "final": final})
        return
    code = f" (exit code {run.exit_code})" if run.exit_code and run.state != "COMPLETED" else ""
    say(f"{run.label}: {run.state}{code}")
    if run.reason and run.state != "COMPLETED":
        say(f"  {run.reason}")
    for key, value in final.items():
        if isinstance(value, int | float | str) and key not in ("event", "time"):
            shown = f"{value:.4g}" if isinstance(value, float) else value
            say(f"  {key:<18} {shown}")
    if run.state != "COMPLETED" and run.logs():
        say(f"  its log: hpclaunch logs {run.label}")
    write(f"{run.path}\n")
