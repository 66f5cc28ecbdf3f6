"""``profile``: measures a job in a few short runs, for later plans."""

# Annotations stay types here: Typer would compile the text of each at every start.
from typing import Annotated

import typer

from hpclaunch.actions.requesting import typed_values
from hpclaunch.cli import flags, help_text, run_flags

OneByOne = Annotated[
    bool, typer.Option("--one-by-one", help="Submit each run after the one before has ended, not all at once.")
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Show the runs that would be submitted and their highest cost.",
        rich_help_panel=help_text.START,
    ),
]
_Nodes = Annotated[
    int | None,
    typer.Option(
        "--nodes",
        "-N",
        min=1,
        help="Nodes of the last run, such as 2 or 4; 1: measure one node only. [default: 2]",
        rich_help_panel=help_text.SITE,
    ),
]
Steps = Annotated[int, typer.Option(min=1, help="The most steps in an epoch; a small data set has fewer.")]


app = typer.Typer()


RateFrom = Annotated[
    str | None,
    typer.Option(
        metavar="FORMAT|REGEX",
        help="Where a program of yours prints its speed: the name of a format, or a pattern with a named group "
        "(hpclaunch docs any-program) [default: every known format].",
    ),
]
BatchArgument = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The argument of a program of yours for the batch of a rank: --batch-size."),
]


@app.command(
    "profile",
    epilog="After --: a program's own arguments. Later plans at this site use the measurements "
    "(hpclaunch docs planning, hpclaunch docs any-program).",
)
@flags.of_request("profile", nodes=_Nodes)
def profile(
    *,
    context: typer.Context,
    target: flags.Target,
    typed: flags.Typed,
    runs_dir: flags.RunsDir = None,
    steps: Steps = 100,
    rate_from: RateFrom = None,
    batch_argument: BatchArgument = None,
    one_by_one: OneByOne = False,
    from_: Annotated[
        list[str],
        typer.Option(
            "--from",
            metavar="RUN",
            help="Submit nothing; use this ended run. Repeatable.",
            rich_help_panel=help_text.TRAINING,
        ),
    ] = [],  # noqa: B006
    dry_run: DryRun = False,
    json: run_flags.Json = False,
) -> None:
    """Measure a job in short runs, so that plans use measurements.

    There are two runs on one node and one on two nodes.
    """
    from hpclaunch import runs
    from hpclaunch.actions.following import states
    from hpclaunch.actions.measuring import profile, program_profile, short_runs
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, profile_tables
    from hpclaunch.planner.choice.proposal import plan_command

    system = System(warn=console.warn, tell=console.say, confirm=console.confirmed)
    request = typed_values.request_of(system, typed, target=target, arguments=tuple(context.obj or ()))
    wish = program_profile.ProgramWish(steps=steps, rate_from=rate_from, batch_argument=batch_argument or "")
    is_program = program_profile.is_program(system, request, wish)
    if from_:
        case = short_runs.keyed_case(system, request)
        found = states.refreshed(runs.find_all(system.index, from_, system.run_folders))
    else:
        if is_program:
            design = program_profile.design(system, request, wish, runs_dir)
        else:
            design = profile.design(system, request, steps, runs_dir)
        profile_tables.show_design(design, json and dry_run)
        if dry_run:
            return
        watcher = program_profile.Watcher(system, wish) if is_program else None
        case, found = design.case, profile.measure(system, design, one_by_one, watcher)
    if is_program:
        profile_tables.show_program(program_profile.keep(case, found, wish), plan_command(request), json)
    else:
        profile_tables.show_result(profile.keep(case, found), target, json)
