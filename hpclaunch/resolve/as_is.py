"""A foreign batch script as a run: its own directives, and hpclaunch's for folder and log; nothing else is decided."""

from __future__ import annotations

import re

from hpclaunch.config.batch_script import BatchHead, Directive, near_option
from hpclaunch.core.errors import Fault
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.spec import AS_IS, Choice, Code, JobSpec, Layout, Restarts
from hpclaunch.core.units import parse_walltime
from hpclaunch.launchers import NO_LAUNCHER
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.script.clusters import clusters_of_script

_REPLACED = ("chdir", "error", "open-mode", "output", "job-name")
"""What hpclaunch sets itself; a run is found by its working folder (decision 61)."""
_WITHOUT_EFFECT = ("parsable", "quiet", "test-only", "verbose", "wait")
_REFUSED = {
    "array": "each of its jobs would be the same run",
    "container": "hpclaunch's own lines would run in the container",
    "container-image": "hpclaunch's own lines would run in the container",
    "wrap": "it has no meaning in a script",
}
_KEPT = ("target", "as_is", "is_command", "site", "name", "arguments")
"""Fields of a request that say something about a script that is not changed."""


def as_is_spec(case: Case, head: BatchHead, shebang: str) -> tuple[JobSpec, list[Fault]]:
    """Return the spec of a batch script that is submitted unchanged, and every reason for refusing it.

    ``shebang``: its first line. Nodes and times are those of its directives, as far as these are plain numbers; else
    1 and 0 (not known).
    """
    decisions = Decisions()
    _check(case, head, shebang, decisions)
    row = case.site.scheduler_row
    asked = {one.name: one for one in head.directives}
    context, run_dir = case.context, case.context.run_dir
    foreign = [one for one in head.directives if one.name not in (*_REPLACED, *_WITHOUT_EFFECT)]
    given = asked["job-name"].value if "job-name" in asked else case.run_name
    own = [("job-name", case.request.name or given), ("chdir", run_dir)]
    own += [("output", row.log_path(f"{run_dir}/logs", is_array=False)), ("open-mode", "append")]
    for name in ("output", "error"):
        if name in asked:
            decisions.warnings.append(f"{asked[name]}: its output goes to the run directory instead: hpclaunch logs")
    named = asked.get("clusters")
    clusters = clusters_of_script(
        case, named.value if named else None, f"line {named.line}" if named else "", decisions
    )
    pairs = {one.name: one.value for one in foreign if one.name != "clusters"}
    script = f"{run_dir}/code/{_name_of(case)}"
    spec = JobSpec(
        name=case.run_name,
        target=case.request.target,
        site=case.site.name,
        site_status=case.site.status,
        node_type=case.site.defaults.node_type,
        scheduler=case.site.scheduler,
        template=AS_IS,
        launcher=NO_LAUNCHER,
        layout=Layout(nodes=_number(asked.get("nodes")), tasks_per_node=1, cpus_per_task=1),
        account=pairs.get("account", ""),
        partition=pairs.get("partition", ""),
        qos=pairs.get("qos", ""),
        walltime=_seconds(pairs.get("time", "")),
        cost=None,
        run_dir=run_dir,
        created=context.now,
        version=context.version,
        shell="/bin/bash",
        chdir=_folder(case, asked),
        directives=(*pairs.items(), *own),
        steps=(),
        environment=(),
        unset=(),
        interpreter="",
        rank_number="",
        rank_identity=(),
        rank_setup=(),
        command=(*_interpreter(shebang), script, *case.request.arguments),
        before_launch=(),
        launch=(),
        hosts=(),
        secrets=(),
        secrets_folder="",
        restarts=Restarts(),
        code=Code(folder=case.job.folder, entry="", source_only=True, include=(_name_of(case),)),
        data=None,
        unverified=(),
        choices=(
            *decisions.choices,
            *(Choice(key=one.name, value=one.value, origin=f"line {one.line}") for one in foreign if one is not named),
        ),
        warnings=tuple(decisions.warnings),
        samples=False,
        clusters=clusters,
    )
    return spec, decisions.faults


def _check(case: Case, head: BatchHead, shebang: str, decisions: Decisions) -> None:
    target = case.request.target
    if not case.site.scheduler_row.array_option:
        decisions.fault(f"{case.site.name} has no queue for a batch script", where="--as-is", next="--site NAME")
    if not shebang.startswith("#!"):
        what = "it begins with no #! line, without which the scheduler refuses it"
        decisions.fault(what, where=f"{target}, line 1", next="begin it with #!/bin/bash")
    if head.scheduler and not head.directives:
        path = shell_word(target if "/" in target else f"./{target}")
        next_step = f"hpclaunch submit {path} names what it runs, which can be submitted without it"
        decisions.fault(f"it is a batch script of {head.scheduler} ({head.other})", where=target, next=next_step)
        return
    for line, word in head.unknown:
        near = near_option(word)
        decisions.fault(
            f"the scheduler has no option {word}" + (f"; did you mean --{near}?" if near else ""),
            where=f"{target}, line {line}",
            next="correct the line",
        )
    for one in head.directives:
        if one.name in _REFUSED:
            where = f"{target}, line {one.line}"
            decisions.fault(
                f"{one} cannot be taken: {_REFUSED[one.name]}",
                where=where,
                next="leave it out, or submit it without hpclaunch",
            )
    changed = [
        name for name, value in vars(case.request).items() if name not in _KEPT and value not in (None, (), False)
    ]
    if changed:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in changed)
        decisions.fault(
            f"the script is submitted unchanged, so {flags} would have no effect",
            where="--as-is",
            allowed="--site, --name, --runs-dir, and the script's own arguments after --",
            next=f"hpclaunch submit --from-script {target}, which takes them",
        )


def _name_of(case: Case) -> str:
    """Return the name of the script's file, which the job's command has behind its folder."""
    return case.job.script or case.job.command[-1].removeprefix("{code}/")


def _folder(case: Case, asked: dict[str, Directive]) -> str:
    """Return the folder in which the script starts: its own --chdir, else that where it is submitted."""
    own = asked["chdir"].value if "chdir" in asked else ""
    return own if own.startswith("/") else f"{case.context.cwd}/{own}".rstrip("/")


def _interpreter(shebang: str) -> tuple[str, ...]:
    """Return the words before the script, as the kernel divides a ``#!`` line: the program, then all else as one."""
    program, _, rest = shebang.removeprefix("#!").strip().partition(" ")
    return (program, rest.strip()) if rest.strip() else (program,)


def _number(one: Directive | None) -> int:
    return int(one.value) if one and re.fullmatch("[1-9][0-9]{0,6}", one.value) else 1


def _seconds(text: str) -> int:
    try:
        return parse_walltime(text)
    except ValueError:
        return 0
