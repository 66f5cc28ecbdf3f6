"""``runs export``: ended runs as TensorBoard's event files, as MLflow's file store, or one run as an RO-Crate."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from hpclaunch import runs
from hpclaunch.actions.crate_content import crate_files, facts_of
from hpclaunch.actions.recorded_times import times_of
from hpclaunch.core.errors import Fault, InvalidRequest, Refused, did_you_mean, unwritable
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.records import record
from hpclaunch.runs import Run

_LICENSE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*|https?://[^\s<>\"{}|\\^`]+")
TENSORBOARD, MLFLOW, RO_CRATE = FORMATS = ("tensorboard", "mlflow", "ro-crate")


@record
class CrateOptions:
    """Of an RO-Crate: its ``license`` (empty: none is named), and whether folders of the machine stay in it."""

    license: str = ""
    with_paths: bool = False


def export(found: Sequence[Run], form: str, target: Path, crate: CrateOptions) -> list[Run]:
    """Write ended runs into the new folder ``target``; returns the exported runs, each one of an array by itself.

    ``form``: one of ``FORMATS``. ``crate``: for an RO-Crate alone. Raises InvalidRequest and Refused; then nothing is
    written.
    """
    if form not in FORMATS:
        what = f"{form!r} is no format{did_you_mean(form, FORMATS)}"
        raise InvalidRequest(Fault(where="--to", what=what, allowed=", ".join(FORMATS)))
    if form != RO_CRATE and crate != CrateOptions():
        where = "--license" if crate.license else "--with-paths"
        raise InvalidRequest(Fault(where=where, what="belongs to an RO-Crate", next="--to ro-crate, or leave it out"))
    if crate.license and not _LICENSE.fullmatch(crate.license):
        allowed = "an identifier of SPDX (spdx.org/licenses), or an address that begins with https://"
        raise InvalidRequest(Fault(where="--license", what=f"{crate.license!r} is neither", allowed=allowed))
    single = runs.each(found)
    _refuse_open(single)
    if form == RO_CRATE:
        _refuse_several(found)
    files = {
        TENSORBOARD: lambda: _event_files(single),
        MLFLOW: lambda: _mlflow_files(single, target),
        RO_CRATE: lambda: crate_files(
            single[0], facts_of(single[0], crate.license, crate.with_paths), crate.with_paths
        ),
    }[form]()
    _write(files, target)
    return single


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


def _event_files(found: Sequence[Run]) -> dict[str, bytes | Path]:
    from hpclaunch.reports.exports.event_file import event_files

    files: dict[str, bytes | Path] = {}
    silent = []
    for run in found:
        own = event_files(list(run.metrics()))
        silent += [] if own else [run]
        files |= {f"{run.label}/{path}": content for path, content in own.items()}
    if not files:
        raise Refused([_silence(run) for run in silent[:5]])
    return files


def _silence(run: Run) -> Fault:
    what = f"{run.label} wrote no numbers: its metrics.jsonl has no line of an epoch, and no result"
    return Fault(where=str(run.path), what=what, next=f"hpclaunch logs {run.label}")


def _mlflow_files(found: Sequence[Run], target: Path) -> dict[str, bytes | Path]:
    from hpclaunch.reports.exports.mlflow_files import LoggedRun, store_files

    logged = []
    for run in found:
        began, ended = times_of(run)
        tags = {"mlflow.source.git.commit": run.git.removesuffix("+changes"), "git": run.git, "run_dir": str(run.path)}
        logged.append(
            LoggedRun(
                label=run.label,
                experiment=run.name,
                state=run.state,
                began=int(1000 * began),
                ended=int(1000 * ended),
                user=run.user,
                parameters={**run.parameters(), **runs.swept(run)},
                tags={**tags, "site": run.site, "job_id": run.job_id},
                events=list(run.metrics()),
            )
        )
    return dict(store_files(logged, target))


def _write(files: Mapping[str, bytes | Path], target: Path) -> None:
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
            if isinstance(content, Path):
                shutil.copyfile(content, place)
            else:
                place.write_bytes(content)
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
