"""``scale``: measures a job or a program on several node counts, and shows speed-up, efficiency and what costs it."""

# Annotations stay types here: Typer would compile the text of each at every start.
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpclaunch.actions.requesting import typed_values
from hpclaunch.cli import flags, help_text, run_flags
from hpclaunch.cli.profile import BatchArgument, DryRun, OneByOne, RateFrom, Steps
from hpclaunch.core.errors import Fault, InvalidRequest

if TYPE_CHECKING:
    from hpclaunch.planner.speed.scaling import Mode

MOST_COUNTS, MOST_REPEATS = 64, 100

app = typer.Typer()


@app.command(
    "scale",
    epilog="The same command again submits only what is missing of a job's study, and shows the results (hpclaunch "
    "docs scaling). After --: a program's own arguments; its runs are waited for (hpclaunch docs any-program).",
)
@flags.of_request("scale")
def scale(
    *,
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="JOB|PROGRAM|STUDY",
            help="A job, your own script or a program on PATH; or the folder of a study, to show it.",
        ),
    ],
    nodes: Annotated[
        str | None,
        typer.Option(
            "--nodes",
            "-N",
            metavar="N,N,...",
            help="The node counts, such as 1,2,4,8. Of a job, one process comes first.",
            rich_help_panel=help_text.SITE,
        ),
    ] = None,
    strong: Annotated[
        bool, typer.Option("--strong", help="Keep the global batch on all node counts. [default]")
    ] = False,
    weak: Annotated[bool, typer.Option("--weak", help="Keep the batch per rank on all node counts.")] = False,
    global_batch: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="The global batch of --strong. [default: the job's batch per rank on the smallest node count]",
            rich_help_panel=help_text.TRAINING,
        ),
    ] = None,
    repeat: Annotated[
        int, typer.Option(min=1, max=MOST_REPEATS, help="Runs of every layout; several show how much they vary.")
    ] = 1,
    typed: flags.Typed,
    runs_dir: flags.RunsDir = None,
    steps: Steps = 100,
    rate_from: RateFrom = None,
    batch_argument: BatchArgument = None,
    one_by_one: OneByOne = False,
    resubmit: Annotated[
        bool, typer.Option("--resubmit", help="Submit runs of the study that failed again, as new runs.")
    ] = False,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait", help="Wait until the runs have ended; Ctrl-C leaves them.", rich_help_panel=help_text.START
        ),
    ] = False,
    dry_run: DryRun = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the results into FILE.png or FILE.svg (needs matplotlib).")
    ] = None,
    json: run_flags.Json = False,
) -> None:
    """Measure a job on several node counts: speed-up, efficiency, the parts of a step, cost.

    The first run of a job is one process, with which all others are compared; of a program, the fewest nodes.
    """
    from hpclaunch.actions.measuring import profile, program_profile, scale, scale_results, scale_runs
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, profile_tables, scale_tables
    from hpclaunch.planner.choice.proposal import plan_command

    system = System(warn=console.warn, tell=console.say, confirm=console.confirmed)
    if plot is not None:
        from hpclaunch.reports.charts.canvas import check_file

        check_file(plot, "--plot")
    request = typed_values.request_of(system, typed, target=target, arguments=tuple(context.obj or ()))
    counts = () if nodes is None else node_counts_of(nodes)
    mode = _mode(strong, weak, global_batch)
    program = program_profile.ProgramWish(
        steps=steps, rate_from=rate_from, batch_argument=batch_argument or "", repeats=repeat
    )
    if counts and program_profile.is_program(system, request, program):
        of_jobs = {"--strong": strong, "--global-batch": global_batch, "--resubmit": resubmit, "--plot": plot}
        _refuse_for_programs(of_jobs)
        short = program_profile.design(system, request, program, runs_dir, counts)
        profile_tables.show_design(short, json and dry_run)
        if not dry_run:
            found = profile.measure(system, short, one_by_one, program_profile.Watcher(system, program))
            kept = program_profile.keep(short.case, found, program)
            profile_tables.show_program(kept, plan_command(request), json)
        return
    if not counts:
        study = scale_tables.study_named(system, target)
    else:
        wish = scale.StudyWish(
            nodes=counts, mode=mode, repeats=repeat, steps=steps, global_batch=global_batch, looks=not dry_run
        )
        design = scale.design(system, request, wish, runs_dir)
        scale_tables.show_design(design, json and dry_run)
        if dry_run:
            return
        study = scale_runs.submit_missing(system, design, one_by_one=one_by_one, again=resubmit)
    if wait:
        scale_runs.wait_for(system, study, scale_runs.runs_of(study))
    results = scale_results.collect(system, study)
    scale_tables.show_results(results, plot, json)
    if results.problems and not results.open:
        raise typer.Exit(1)


_WHY_OF_JOBS = {
    "--resubmit": ("all runs of a program are submitted each time", "leave it out"),
    "--plot": ("of a program a table is printed", "leave it out; --json prints its figures"),
}
_WHY_NO_BATCH = (
    "of a program the batch of a rank is kept",
    "leave it out; hpclaunch plan --global-batch N tells the speed of another batch",
)


def _refuse_for_programs(of_jobs: Mapping[str, object]) -> None:
    """Raise InvalidRequest for the first flag that was typed and is for the studies of jobs alone."""
    for flag, value in of_jobs.items():
        if value:
            what, hint = _WHY_OF_JOBS.get(flag, _WHY_NO_BATCH)
            raise InvalidRequest(Fault(where=flag, what=f"is for the study of a job; {what}", next=hint))


def _mode(strong: bool, weak: bool, global_batch: int | None) -> "Mode":
    if strong and weak:
        what, hint = "cannot be used together", "leave one of them out"
        raise InvalidRequest(Fault(where="--strong and --weak", what=what, next=hint))
    if weak and global_batch is not None:
        what = "has no effect with --weak, which keeps the batch per rank"
        hint = "leave it out, or set the batch per rank with --set"
        raise InvalidRequest(Fault(where="--global-batch", what=what, next=hint))
    return "weak" if weak else "strong"


def node_counts_of(text: str) -> tuple[int, ...]:
    """Return the node counts of ``--nodes 1,2,4``. Raises InvalidRequest for anything else, and for a count twice."""
    words = [word.strip() for word in text.split(",")]
    allowed = f"1 to {MOST_COUNTS} different whole numbers above 0, such as 1,2,4,8"
    if not all(word.isascii() and word.isdigit() and len(word) < 8 and int(word) for word in words):
        what = f"{text[:80]!r} is not a list of node counts"
        raise InvalidRequest(Fault(where="--nodes", what=what, allowed=allowed))
    counts = [int(word) for word in words]
    twice = sorted({number for number in counts if counts.count(number) > 1})
    if twice:
        what, hint = (
            f"the node count {twice[0]} is named twice",
            "name it once; --repeat 3 runs every layout three times",
        )
        raise InvalidRequest(Fault(where="--nodes", what=what, allowed=allowed, next=hint))
    if len(counts) > MOST_COUNTS:
        raise InvalidRequest(Fault(where="--nodes", what=f"{len(counts)} node counts are too many", allowed=allowed))
    return tuple(counts)
