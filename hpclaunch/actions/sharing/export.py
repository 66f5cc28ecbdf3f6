"""``runs export``: ended runs as TensorBoard's event files, as MLflow's file store, or one run as an RO-Crate."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from hpclaunch import runs
from hpclaunch.actions.sharing.crate_content import Content, content_of, crate_files, facts_of
from hpclaunch.actions.sharing.recorded_times import times_of
from hpclaunch.core.errors import Fault, InvalidRequest, Refused, did_you_mean, unwritable
from hpclaunch.core.quoting import shell_word, shown_name
from hpclaunch.core.records import record
from hpclaunch.runs import Run
from hpclaunch.runs.hidden import hidden_values_of
from hpclaunch.runs.metric_events import metric_events
from hpclaunch.runs.unread import ATTEMPTS, LOGS, refuse_unread

_LICENSE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*|https?://[^\s<>\"{}|\\^`]+")
TENSORBOARD, MLFLOW, RO_CRATE = FORMATS = ("tensorboard", "mlflow", "ro-crate")


@record
class CrateOptions:
    """Of an RO-Crate: its ``license`` (empty: none is named), and whether folders of the machine stay in it.

    ``include``: patterns of files that are taken although they look like secrets, or are large.
    """

    license: str = ""
    with_paths: bool = False
    include: tuple[str, ...] = ()


@record
class Exported:
    """The exported runs, and what of them is not in the export: lines for the user."""

    runs: tuple[Run, ...]
    notes: tuple[str, ...] = ()


def export(found: Sequence[Run], form: str, target: Path, crate: CrateOptions) -> Exported:
    """Write ended runs into the new folder ``target``; returns the exported runs, each one of an array by itself.

    ``form``: one of ``FORMATS``. ``crate``: for an RO-Crate alone. Raises InvalidRequest and Refused; then nothing is
    written.
    """
    if form not in FORMATS:
        what = f"unknown format {form!r}{did_you_mean(form, FORMATS)}"
        raise InvalidRequest(Fault(where="--to", what=what, allowed=", ".join(FORMATS)))
    if form != RO_CRATE and crate != CrateOptions():
        where = "--include"
        if crate.license:
            where = "--license"
        elif crate.with_paths:
            where = "--with-paths"
        raise InvalidRequest(Fault(where=where, what="belongs to an RO-Crate", next="--to ro-crate, or leave it out"))
    if crate.license and not _LICENSE.fullmatch(crate.license):
        allowed = "an identifier of SPDX (spdx.org/licenses), or an address that begins with https://"
        raise InvalidRequest(Fault(where="--license", what=f"{crate.license!r} is neither", allowed=allowed))
    single = runs.each(found)
    _refuse_open(single)
    if form == RO_CRATE:
        _refuse_several(found)
    # What of a model is not read, such as a link, is left out of the crate and named there.
    refuse_unread(single, (ATTEMPTS, LOGS) if form == RO_CRATE else (ATTEMPTS,))
    files, notes = {
        TENSORBOARD: lambda: _event_files(single),
        MLFLOW: lambda: _mlflow_files(single, target),
        RO_CRATE: lambda: _crate_files(single[0], crate),
    }[form]()
    _write(files, target)
    return Exported(runs=tuple(single), notes=tuple(notes))


def _crate_files(run: Run, crate: CrateOptions) -> tuple[dict[str, Content], list[str]]:
    facts = facts_of(run, crate.license, crate.with_paths)
    content = content_of(run, crate.with_paths, crate.include)
    notes = [f"not in the crate: {shown_name(path)}: {why}" for path, why in sorted(content.left_out.items())]
    notes += [
        f"only a part in the crate: {shown_name(path)}: {what}" for path, what in sorted(content.shortened.items())
    ]
    return crate_files(content, facts), notes


def _refuse_open(found: Sequence[Run]) -> None:
    faults = [
        Fault(
            what=f"{run.label} has not ended: its last known state is {run.state}", next=f"hpclaunch wait {run.label}"
        )
        for run in found
        if not run.final
    ]
    if faults:
        raise Refused(faults)


def _refuse_several(found: Sequence[Run]) -> None:
    arrays = [run for run in found if run.tasks]
    if arrays:
        first = runs.task_of(arrays[0], 0).label
        what = f"{arrays[0].label} is an array of {arrays[0].tasks} runs, and an RO-Crate describes one"
        raise Refused(Fault(what=what, next=f"name one run, such as {first}"))
    if len(found) > 1:
        raise InvalidRequest(Fault(what="an RO-Crate describes one run", next="name one run"))


def _event_files(found: Sequence[Run]) -> tuple[dict[str, Content], list[str]]:
    from hpclaunch.reports.exports.event_file import event_files

    files: dict[str, Content] = {}
    silent, notes = [], []
    for run in found:
        events = metric_events(run)
        notes += [f"{run.label}: {events.note()}"] if events.note() else []
        own = event_files(events.everything)
        silent += [] if own else [run]
        files |= {f"{run.id}/{path}": content for path, content in own.items()}
    if not files:
        raise Refused([_silence(run) for run in silent[:5]])
    return files, notes


def _silence(run: Run) -> Fault:
    what = f"{run.label} wrote no numbers: its metrics.jsonl has no line of an epoch, and no result"
    return Fault(where=str(run.path), what=what, next=f"hpclaunch logs {run.label}")


def _mlflow_files(found: Sequence[Run], target: Path) -> tuple[dict[str, Content], list[str]]:
    from hpclaunch.reports.exports.mlflow_files import LoggedRun, store_files

    logged, notes = [], []
    for run in found:
        began, ended = times_of(run)
        events, hidden = metric_events(run), hidden_values_of(run)
        notes += [f"{run.label}: {events.note()}"] if events.note() else []
        tags = {"mlflow.source.git.commit": run.git.removesuffix("+changes"), "git": run.git, "run_dir": str(run.path)}
        logged.append(
            LoggedRun(
                label=run.id,
                experiment=run.name,
                state=run.state,
                began=int(1000 * began),
                ended=int(1000 * ended),
                user=run.user,
                parameters={
                    name: hidden.parameter(name, text) for name, text in {**run.parameters(), **runs.swept(run)}.items()
                },
                tags={**tags, "site": run.site, "job_id": run.job_id},
                events=events.everything,
            )
        )
    return dict(store_files(logged, target)), notes


def _write(files: Mapping[str, Content], target: Path) -> None:
    """Write the files into a new folder, which appears complete or not at all."""
    if os.path.lexists(target) and not (target.is_dir() and not any(target.iterdir())):
        what = "exists already" if target.is_dir() else "exists already, and is no folder"
        raise Refused(Fault(where=str(target), what=what, next="name a new folder, or an empty one, with -o"))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise unwritable(target, error) from None
    try:
        for path, content in files.items():
            place = draft / path
            if path.endswith("/"):
                place.mkdir(parents=True, exist_ok=True)
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                place.write_bytes(content)
                continue
            with content.open() as source, place.open("xb") as copy:
                shutil.copyfileobj(source, copy, 2**20)
        draft.chmod(0o755 & ~_umask())
        os.replace(draft, target)  # an empty folder gives way
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise unwritable(target, error) from None


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def next_command(form: str, target: Path) -> str:
    """Return the command that shows what was written; empty if there is none."""
    place = shell_word(str(target))
    viewers = {TENSORBOARD: f"tensorboard --logdir {place}", MLFLOW: f"mlflow ui --backend-store-uri {place}"}
    return viewers.get(form, "")
