"""``jobs list|show|new``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from hpclaunch.cli import flags, help_text, run_flags

if TYPE_CHECKING:
    from hpclaunch.config.job import Job
    from hpclaunch.config.parameters import Parameter

app = typer.Typer(
    cls=help_text.PlainGroup, help="List and show jobs, or make a new one.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("list")
def list_(json: run_flags.Json = False) -> None:
    """List all jobs: those of the project, your own, and the bundled ones."""
    from hpclaunch.actions.projects import jobs
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console

    rows = jobs.list_jobs(System())
    if json:
        named = [dict(zip(("name", "origin", "summary"), row, strict=True)) for row in rows]
        console.write_json("jobs", {"jobs": named})
    else:
        console.table(("job", "from", "summary"), rows)


@app.command()
def show(job: flags.Job, json: run_flags.Json = False) -> None:
    """Show a job and its hyper-parameters."""
    from hpclaunch.actions.projects import jobs
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console
    from hpclaunch.core.spec import HOROVOD

    found, loaded = jobs.show_job(System(), job)
    if json:
        console.write_json("job", {"path": str(found.path), "origin": found.origin, **asdict(loaded)})
        return
    offered = [f"--strategy {', '.join((HOROVOD, *loaded.strategies))}"] if loaded.strategies else []
    head = (f"{loaded.name}: {loaded.summary}", f"{found.path} ({found.origin})")
    console.write_prose([*head, *offered, *_recipe_lines(loaded), ""])
    console.table(("--set", "type", "default", "meaning"), _rows(loaded.parameters))


def _recipe_lines(job: Job) -> list[str]:
    """Return the named recipes: what each is, the global batch that it is for, its source and its settings."""
    from hpclaunch.config.job import AS_WRITTEN, PLAN
    from hpclaunch.config.parameters import spell

    known = (*([PLAN] if job.training else []), AS_WRITTEN, *job.recipes)
    lines = [f"--recipe {', '.join(known)}"] if len(known) > 1 else []
    for name, recipe in job.recipes.items():
        batch = f", for B = {recipe.global_batch}" if recipe.global_batch else ""
        source = f" ({recipe.source})" if recipe.source else ""
        lines.append(f"  {name}: {recipe.summary}{batch}{source}")
        lines.append(f"    {' '.join(f'{key}={spell(value)}' for key, value in recipe.settings.items())}")
    return lines


def _rows(parameters: Mapping[str, Parameter]) -> list[tuple[str, ...]]:
    """Return a row for each parameter; if there are several groups, under their headings."""
    from hpclaunch.config.parameters import spell

    groups: dict[str, list[tuple[str, ...]]] = {}
    for key, parameter in parameters.items():
        row = (key, parameter.value_type, spell(parameter.default), parameter.help + _describe_allowed(parameter))
        groups.setdefault(parameter.group or "this job", []).append(row)
    if len(groups) == 1:
        return next(iter(groups.values()))
    return [row for group, rows in groups.items() for row in [(f"[{group}]", "", "", ""), *rows]]


def _describe_allowed(parameter: Parameter) -> str:
    if parameter.required:
        return " (required)"
    parts = [", ".join(map(str, parameter.choices)) or parameter.bounds]
    parts += [f"a divisor of {other}" for other in parameter.divides]
    parts += [f"less than {other}" for other in parameter.less_than]
    allowed = ", ".join(filter(None, parts))
    return f" ({allowed})" if allowed else ""


@app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the new job.")],
    script: Annotated[
        str | None, typer.Option(help="Your own script, which is copied into the job [default: a template].")
    ] = None,
    json: run_flags.Json = False,
) -> None:
    """Make ./jobs/NAME with a job file and a script, for you to edit."""
    from hpclaunch.actions.projects import jobs
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console

    folder = jobs.new_job(System(warn=console.warn), name, script)
    console.say(f"edit {folder}/job.yaml, then: hpclaunch submit {name} --dry-run")
    if json:
        console.write_json("new_job", {"name": name, "folder": str(folder)})
    else:
        console.write(f"{folder}\n")
