"""``search``: many trials of one job in one allocation; start it, follow it, read its results, use its best trial."""

# Annotations stay types here: Typer would compile the text of each of fifty at every start.
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpclaunch.actions.requesting import typed_values
from hpclaunch.cli import flags, help_text, run_flags
from hpclaunch.cli.offers import offer, one_of
from hpclaunch.core.errors import Fault, InvalidRequest

if TYPE_CHECKING:
    from hpclaunch.actions.measuring.search import PreparedSearch
    from hpclaunch.actions.system import System


class _Words(help_text.PlainGroup):
    """``search JOB`` is ``search start JOB``: a first word that is no command of the group is the job."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``start`` before what is no command."""
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help", "--help-all"):
            args = ["start", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_Words,
    help="Search for the best parameters of a job: many trials in one allocation. search JOB starts one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

OneSearch = Annotated[
    str | None,
    typer.Argument(
        metavar="SEARCH", autocompletion=offer("runs"), help="A search, by the name of its run [default: the newest]."
    ),
]


@app.command("start", epilog="After --: the program's own arguments; {NAME} there is replaced by a trial's value.")
@flags.of_request("search")
def start(
    *,
    context: typer.Context,
    target: flags.Program = None,
    space: Annotated[
        str | None, typer.Option(metavar="FILE", help="The space of the search, a YAML file (hpclaunch docs search).")
    ] = None,
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="The configuration of Comet's optimizer, as it is.")
    ] = None,
    sweep: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=V1,V2,…",
            autocompletion=offer("settings"),
            help="Values of a parameter, or a range 1..10. Repeatable.",
            rich_help_panel=help_text.TRAINING,
        ),
    ] = [],  # noqa: B006
    map_: Annotated[
        list[str],
        typer.Option("--map", metavar="OLD=NEW", help="Another name for a parameter of the file. Repeatable."),
    ] = [],  # noqa: B006
    trials: Annotated[
        int | None, typer.Option(min=1, help="At most so many trials [default: until every combination was tried].")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="The name of the objective in metrics.jsonl [default: the file's, else val_loss]."),
    ] = None,
    direction: Annotated[
        str | None,
        typer.Option(
            autocompletion=one_of("minimize", "maximize"),
            help="minimize or maximize [default: the file's, else by the metric's name].",
        ),
    ] = None,
    sampler: Annotated[
        str | None,
        typer.Option(
            autocompletion=one_of("grid", "random", "tpe", "cmaes", "nsgaii"),
            help="grid, random; with Optuna tpe, cmaes, nsgaii [default: the file's, else grid].",
        ),
    ] = None,
    pruner: Annotated[
        str | None,
        typer.Option(
            autocompletion=one_of("median", "percentile", "halving", "hyperband"),
            help="End bad trials early: median, percentile, halving, hyperband (Optuna's).",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="The seed of the sampler [default: the file's, else 0].")
    ] = None,
    trials_at_once: Annotated[
        int | None,
        typer.Option(min=1, help="Trials that run at the same time, on all nodes together [default: one per GPU]."),
    ] = None,
    cpus_per_trial: Annotated[
        int | None, typer.Option(min=1, help="CPUs (hardware threads) of a trial [default: its share of the node].")
    ] = None,
    typed: flags.Typed,
    runs_dir: flags.RunsDir = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print the allocation's script; submit nothing.", rich_help_panel=help_text.START
        ),
    ] = False,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            help="Follow the search until it has ended; Ctrl-C leaves it running.",
            rich_help_panel=help_text.START,
        ),
    ] = False,
    json: run_flags.Json = False,
) -> None:
    """Start a search of a job's parameters.

    Its trials share one allocation, each with CPUs and GPUs of its own.
    """
    from hpclaunch.actions.measuring.search import TypedSearch, prepare_search
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console

    system = System(warn=console.warn, tell=console.say, confirm=console.confirmed)
    program = typed_values.program_of(target, context.obj or ())
    request = typed_values.request_of(system, typed, **program)
    changes = {"trials": trials, "metric": metric, "direction": direction, "sampler": sampler, "pruner": pruner}
    wanted = TypedSearch(
        request=request,
        space_file=space,
        config_file=config,
        sweep=typed_values.axes_of(sweep),
        names=_names_of(map_),
        at_once=trials_at_once,
        cpus=cpus_per_trial,
        changes={**changes, "seed": seed},
    )
    ready = prepare_search(system, wanted, runs_dir)
    _show(ready)
    if dry_run:
        _show_script(ready, json)
    else:
        _submit(system, ready, wait, json)


def _names_of(texts: list[str]) -> tuple[tuple[str, str], ...]:
    pairs = [text.partition("=") for text in texts]
    for text, (old, _, new) in zip(texts, pairs, strict=True):
        if not old or not new:
            raise InvalidRequest(Fault(where="--map", what=f"{text!r} is not OLD=NEW", next="--map lr=learning_rate"))
    return tuple((old, new) for old, _, new in pairs)


def _show(ready: "PreparedSearch") -> None:
    """Show the choices of the allocation with their origins, and the terms of the search."""
    from hpclaunch.actions.preparing import preflight
    from hpclaunch.cli.show import search_tables, submission

    prepared = ready.prepared
    submission.show_choices(prepared.spec, prepared.case.context.site_origin)
    submission.show_code(preflight.code_of(prepared))
    search_tables.show_terms(ready.searched, prepared.spec)
    submission.warn_of((*prepared.spec.unverified, *prepared.notices, *ready.notices))


def _show_script(ready: "PreparedSearch", json: bool) -> None:
    """Print the script of the allocation. Raises Refused with every fault of it."""
    from hpclaunch.actions.preparing import preflight
    from hpclaunch.cli.show import console, submission

    submission.warn_missing(preflight.missing(ready.prepared))
    preflight.check_resolved(ready.prepared)
    if json:
        console.write_json("script", {"script": ready.prepared.text})
    else:
        console.write(ready.prepared.text)


def _submit(system: "System", ready: "PreparedSearch", wait: bool, json: bool) -> None:
    """Submit the allocation and show it; with ``wait`` follow the search to its end."""
    from hpclaunch.actions.measuring.search import start_search
    from hpclaunch.cli.show import console, search_tables, submission

    run = start_search(system, ready)
    if wait:
        console.say(f"the search {run.label} has begun; Ctrl-C leaves it running")
        _follow(system, run.id, json)
        return
    submission.show_run(run, json)
    search_tables.show_next(run)


def _follow(system: "System", name: str, json: bool) -> None:
    """Wait until the search has ended, and show its results; Ctrl-C leaves it running."""
    from hpclaunch.actions.measuring.search_results import follow, found_search, read_results
    from hpclaunch.cli.show import console, search_tables

    try:
        for text in follow(system, name):
            console.say(text)
    except KeyboardInterrupt:
        console.say(f"the search goes on; hpclaunch search status {name}")
        raise typer.Exit(130) from None
    run = found_search(system, name)
    search_tables.show_results(run, read_results(run), 10, json)
    raise typer.Exit(0 if run.state == "COMPLETED" else 1)


@app.command("status")
def status(search: OneSearch = None, json: run_flags.Json = False) -> None:
    """Show how far a search is: its trials by state, the best one, and how busy its allocation is."""
    from hpclaunch.actions.measuring.search_results import found_search, read_summary
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, search_tables

    run = found_search(System(warn=console.warn), search)
    search_tables.show_status(run, *read_summary(run), json)


@app.command("results")
def results(
    search: OneSearch = None,
    most: Annotated[int, typer.Option("--most", min=1, help="Show the best trials, at most so many.")] = 20,
    csv: Annotated[bool, typer.Option("--csv", help="Write all trials as CSV to stdout.")] = False,
    plot: Annotated[
        str | None, typer.Option(metavar="FILE", help="Draw the results into FILE.png or FILE.svg (needs matplotlib).")
    ] = None,
    json: run_flags.Json = False,
) -> None:
    """Show the trials of a search, the best first: as a table, CSV, JSON, or a picture."""
    from hpclaunch.actions.measuring.search_results import found_search, read_results
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, search_tables

    if csv and json:
        raise InvalidRequest(
            Fault(where="--csv and --json", what="cannot be used together", next="leave one of them out")
        )
    if plot is not None:
        from hpclaunch.reports.charts.canvas import check_file

        check_file(Path(plot), "--plot")
    run = found_search(System(warn=console.warn), search)
    found = read_results(run)
    if plot is not None:
        from hpclaunch.reports.charts.search_chart import draw_search

        draw_search(found.table, found.searched.terms, Path(plot), run.label)
        console.say(f"drawn: {plot}")
    if csv:
        search_tables.write_csv(found)
    elif plot is None or json:
        search_tables.show_results(run, found, most, json)


@app.command("resume")
def resume(search: OneSearch = None, json: run_flags.Json = False) -> None:
    """Continue a search whose allocation has ended: the trials that have no end are made, and no other ones."""
    from hpclaunch.actions.measuring.search_results import found_search, resume_search
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, search_tables, submission

    system = System(warn=console.warn, tell=console.say, confirm=console.confirmed)
    run = resume_search(system, found_search(system, search))
    submission.show_run(run, json)
    search_tables.show_next(run)


@app.command("cancel")
def cancel(search: OneSearch = None, json: run_flags.Json = False) -> None:
    """Cancel a search; its finished trials stay, and resume continues it."""
    from hpclaunch.actions.following import cancel as actions
    from hpclaunch.actions.measuring.search_results import found_search
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, run_tables

    run_tables.show_status(actions.cancel([found_search(System(warn=console.warn), search)]), json)


@app.command("recipe")
def recipe(
    search: OneSearch = None,
    name: Annotated[str, typer.Option(help="The name of the recipe.")] = "searched",
    write: Annotated[
        str | None, typer.Option(metavar="FILE", help="Add it to this job file, in place of printing it.")
    ] = None,
    json: run_flags.Json = False,
) -> None:
    """Print the best trial as a named recipe of its job, for the section 'recipes' of a job file."""
    from hpclaunch.actions.measuring.search_results import add_recipe, found_search, recipe_of
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console

    system = System(warn=console.warn)
    text = recipe_of(found_search(system, search), name)
    if write is not None:
        add_recipe(system.cwd / write, text, name)
    if json:
        console.write_json("recipe", {"name": name, "text": text, "file": write})
    elif write is None:
        console.write(text)
    if write is None:
        return
    console.say(f"{write} has the recipe {name}; next: hpclaunch submit JOB --recipe {name}")
