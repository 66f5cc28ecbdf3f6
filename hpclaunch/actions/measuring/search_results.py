"""``search status``, ``results``, ``resume`` and ``recipe``: reads what the workers of a search have recorded."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

from hpclaunch.actions.continuing.resume import Changes, resume
from hpclaunch.actions.following import states
from hpclaunch.actions.system import System
from hpclaunch.config.documents import read_yaml
from hpclaunch.config.plain_files import read_text_file
from hpclaunch.core.errors import Fault, NotFound, Refused, unwritable
from hpclaunch.core.files import write_text
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.records import record
from hpclaunch.core.spec import Pairs
from hpclaunch.runs import Run
from hpclaunch.runs.request_file import read_request
from hpclaunch.search.claims import ended_among
from hpclaunch.search.events import FINISHED
from hpclaunch.search.folder import SearchFolder, SearchRecord, is_search
from hpclaunch.search.journal import JournalReader, read_with_totals
from hpclaunch.search.names import texts_of
from hpclaunch.search.results import SearchSummary, best_of, summary_of
from hpclaunch.search.table import TrialRow, TrialTable

BEST = "best"
_PAUSE_S = 2.0


@record
class SearchResults:
    """A search as it is recorded now."""

    searched: SearchRecord
    table: TrialTable
    summary: SearchSummary


def found_search(system: System, name: str | None) -> Run:
    """Return a search with its present state; the newest one without a name. Raises NotFound."""
    if name:
        (run,) = states.find(system, [name])
    else:
        run = next((one for one in states.recorded_runs(system) if is_search(one.path)), None)  # type: ignore[assignment]
        if run is None:
            raise NotFound(Fault(what="there is no search yet", next="hpclaunch search JOB --sweep NAME=V1,V2"))
    SearchFolder(run.path).read()
    (now,) = states.refreshed([run])
    return now


def read_results(run: Run) -> SearchResults:
    """Return what the journals of a search tell."""
    folder = SearchFolder(run.path)
    searched, table = folder.read(), JournalReader(folder).read(claims=False)
    table.dead.update(_ended_workers(run, folder))
    return SearchResults(searched=searched, table=table, summary=summary_of(table, searched.terms, searched.at_once))


def read_summary(run: Run) -> tuple[SearchRecord, SearchSummary]:
    """Return the numbers of a search, as `read_results` does, in a fraction of its time if there are many trials."""
    folder = SearchFolder(run.path)
    searched = folder.read()
    table, totals = read_with_totals(folder, searched.terms)
    table.dead.update(_ended_workers(run, folder))
    return searched, summary_of(table, searched.terms, searched.at_once, totals)


def _ended_workers(run: Run, folder: SearchFolder) -> set[int]:
    """Return the workers that have ended. Of a run that has ended, all have."""
    workers = folder.workers()
    return set(workers) if run.final else ended_among(workers)


def resume_search(system: System, run: Run) -> Run:
    """Submit the allocation of an ended search again. Raises Refused if it has not ended, or nothing is left."""
    found = read_results(run)
    total, finished = found.searched.terms.total, sum(found.summary.states.get(state, 0) for state in FINISHED)
    if run.final and total is not None and finished >= total:
        what = f"{run.label} has finished all of its {total} trials: there is nothing to continue"
        raise Refused(Fault(what=what, next=f"hpclaunch search results {run.label}"))
    resumed, warnings = resume(system, run, Changes())
    for text in warnings:
        system.warn(text)
    return resumed


def follow(system: System, name: str) -> Iterator[str]:
    """Yield a line whenever another trial has finished or the state has changed, until the search has ended."""
    before = ("", -1)
    while True:
        run = found_search(system, name)
        _, summary = read_summary(run)
        finished = sum(summary.states.get(state, 0) for state in FINISHED)
        if (run.state, finished) != before:
            before = (run.state, finished)
            best = summary.best
            text = f"; best {best.value:.6g} (trial {best.number})" if best and best.value is not None else ""
            yield f"{run.label}: {run.state}, {finished} of {summary.total} trials finished{text}"
        if run.final:
            return
        time.sleep(_PAUSE_S)


def best_trial(run: Run) -> tuple[TrialRow, SearchRecord]:
    """Return the best trial of a search. Raises Refused if none has a value."""
    found = read_results(run)
    best = best_of(found.table.rows(), found.searched.terms)
    if best is None:
        metric = found.searched.terms.metric
        what = f"no trial of {run.label} has completed with a value" + (f" of {metric}" if metric else ": no metric")
        raise Refused(Fault(what=what, next=f"hpclaunch search status {run.label}"))
    return best, found.searched


def settings_of(system: System, text: str) -> tuple[Pairs, str]:
    """Return the settings of ``SEARCH@best``, or of ``SEARCH@12``: the trial's values, and those typed for all trials.

    The second value names the trial. Raises NotFound and Refused.
    """
    name, sign, which = text.rpartition("@")
    if not sign or not name or not (which == BEST or re.fullmatch("[0-9]{1,9}", which)):
        what = f"{text!r} names no trial"
        raise NotFound(Fault(where="--from", what=what, allowed="SEARCH@best or SEARCH@NUMBER", next="--from @1@best"))
    run = found_search(system, name)
    if which == BEST:
        row, searched = best_trial(run)
    else:
        found = read_results(run)
        if int(which) not in {one.number for one in found.table.rows()}:
            what = f"{run.label} has no trial {which}"
            raise NotFound(Fault(where="--from", what=what, next=f"hpclaunch search results {run.label}"))
        row, searched = found.table.row(int(which)), found.searched
    if searched.free:
        what = f"{searched.target} declares no parameters, so the values of a trial cannot be set"
        values = " ".join(map(shell_word, searched.words_of(texts_of(row.values))))
        raise Refused(Fault(where="--from", what=what, next=f"type them after --: {values}"))
    request, _ = read_request(run.path)
    own = texts_of(row.values)
    return (*((key, value) for key, value in request.settings if key not in own), *own.items()), f"trial {row.number}"


def recipe_of(run: Run, name: str) -> str:
    """Return the best trial as the YAML text of a named recipe, as a job file has it below ``recipes``."""
    row, searched = best_trial(run)
    if not re.fullmatch("[a-z][a-z0-9_-]*", name) or name in ("plan", "job"):
        what = f"{name!r} cannot be the name of a recipe"
        raise Refused(Fault(where="--name", what=what, allowed="small letters, digits, _ and -; not plan, not job"))
    request, _ = read_request(run.path)
    settings = {**dict(request.settings), **texts_of(row.values)}
    metric = searched.terms.metric
    lines = [f"  {name}:", f"    summary: the best trial of {run.path.name}"]
    lines += [f'    source: "hpclaunch search, trial {row.number}: {metric} = {row.value:.6g}"', "    settings:"]
    lines += [f"      {key}: {_yaml(value)}" for key, value in settings.items()]
    return "\n".join(lines) + "\n"


def _yaml(text: str) -> str:
    plain = re.fullmatch(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?|true|false", text)
    return text if plain else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def add_recipe(path: Path, text: str, name: str) -> None:
    """Add a recipe to a job file; everything else in it stays. Raises InvalidFile, Refused."""
    content = read_yaml(path)
    known = content.get("recipes")
    if known is not None and not isinstance(known, dict):
        raise Refused(Fault(where=str(path), what="its 'recipes' are no mapping"))
    if known and name in known:
        raise Refused(Fault(where=str(path), what=f"it has a recipe {name!r} already", next="--name OTHER"))
    before = read_text_file(path)
    heading = re.search(r"^recipes:[ \t]*(#.*)?\n", before, re.MULTILINE)
    if known is not None and heading is None:
        what = "its recipes do not stand in lines of their own below 'recipes:'"
        raise Refused(Fault(where=str(path), what=what, next="hpclaunch search recipe prints the text to add"))
    if heading:
        whole = before[: heading.end()] + text + before[heading.end() :]
    else:
        gap = "" if before.endswith("\n") else "\n"
        whole = f"{before}{gap}recipes:\n{text}"
    try:
        write_text(path, whole)
    except OSError as error:
        raise unwritable(path, error) from None
