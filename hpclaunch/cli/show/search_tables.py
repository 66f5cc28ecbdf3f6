"""Shows searches: their terms, how far they are, and their trials; it decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hpclaunch.cli.show.console import fact, say, table, write, write_json
from hpclaunch.core.units import count
from hpclaunch.search.folder import SearchFolder
from hpclaunch.search.importance import importances
from hpclaunch.search.names import texts_of
from hpclaunch.search.results import cells_of, columns_of, csv_of, failed_among, failures_in_words, json_of, ranked

if TYPE_CHECKING:
    from hpclaunch.actions.measuring.search_results import SearchResults
    from hpclaunch.core.spec import JobSpec
    from hpclaunch.runs import Run
    from hpclaunch.search.folder import SearchRecord
    from hpclaunch.search.results import SearchSummary
    from hpclaunch.search.table import TrialRow
    from hpclaunch.search.terms import SearchTerms


def show_terms(searched: SearchRecord, spec: JobSpec) -> None:
    """Show what is searched, and how the trials share the nodes."""
    terms, trials = searched.terms, spec.trials
    total = "no limit" if terms.total is None else count(terms.total, "trial")
    aim = f", {_aim(terms)} {terms.metric}" if terms.metric else ""
    say(f"  {'search':<15} {terms.sampler} over {', '.join(terms.space.names)}: {total}{aim}")
    if trials:
        gpus = f", {count(trials.gpus, 'GPU')}" if trials.gpus else ""
        each = f"{count(trials.cpus, 'CPU')}{gpus} each"
        if spec.sweep:
            say(f"  {'trials at once':<15} {searched.at_once}: each a job of an array, {each}")
            return
        say(f"  {'trials at once':<15} {searched.at_once}: {trials.per_node} per node, {each}")


def _aim(terms: SearchTerms) -> str:
    return "minimize" if terms.is_minimized else "maximize"


def show_next(run: Run) -> None:
    """Show which commands follow."""
    say(f"next: hpclaunch search status {run.label}; hpclaunch search results {run.label}")


def show_status(run: Run, searched: SearchRecord, summary: SearchSummary, as_json: bool) -> None:
    """Show how far a search is."""
    terms = searched.terms
    if as_json:
        write_json("search", _status_values(run, searched, summary))
        return
    fact("search", run.label)
    fact("state", f"{run.state}{f' ({run.reason})' if run.reason else ''}")
    parts = [f"{number} {state}" for state, number in summary.states.items()]
    parts += [f"{summary.waiting} waiting"] if summary.waiting else []
    fact("trials", f"{summary.total}: {', '.join(parts) or 'none has begun'}")
    fact("at once", str(searched.at_once))
    if summary.busy is not None:
        fact("busy", f"{summary.busy:.0%} of the allocation's slots, from the first begin to the last end")
    if summary.trials_per_second is not None:
        fact("speed", f"{summary.trials_per_second * 3600:.0f} trials per hour")
    if summary.best and summary.best.value is not None:
        fact("best", f"{terms.metric} = {summary.best.value:.6g}, trial {summary.best.number}: {_words(summary.best)}")


def _words(row: TrialRow) -> str:
    return " ".join(f"{name}={text}" for name, text in texts_of(row.values).items())


def _status_values(run: Run, searched: SearchRecord, summary: SearchSummary) -> dict[str, Any]:
    terms = searched.terms
    return {
        **run.to_json(),
        "trials": {"total": summary.total, **summary.states, "waiting": summary.waiting},
        "at_once": searched.at_once,
        "metric": terms.metric,
        "direction": _aim(terms),
        "busy": summary.busy,
        "trials_per_second": summary.trials_per_second,
        "best": json_of(summary.best) if summary.best else None,
    }


def show_results(run: Run, found: SearchResults, most: int, as_json: bool) -> None:
    """Show the trials, the best first; as JSON all of them."""
    terms, rows = found.searched.terms, list(found.table.rows())
    shares = importances(rows, terms.space) if terms.metric else {}
    if as_json:
        values = {"terms": terms.to_json(), "trials": [json_of(row) for row in rows], "importance": shares}
        write_json("search_results", {**_status_values(run, found.searched, found.summary), **values})
        return
    shown = ranked(rows, terms)[:most]
    table(columns_of(terms), [cells_of(row, terms) for row in shown], state_column=1)
    if len(rows) > len(shown):
        say(f"{len(rows) - len(shown)} more trials: --most {len(rows)}, or --csv")
    failed = failed_among(rows)
    if failed:
        folder, first = SearchFolder(run.path), failed[0].number
        say(f"{failures_in_words(failed, len(rows))}; its log: {folder.log(first)}")
        for line in folder.last_lines(first):
            say(f"  | {line}")
    if shares:
        say("importance: " + ", ".join(f"{name} {share:.0%}" for name, share in shares.items()))


def write_csv(found: SearchResults) -> None:
    """Write all trials as CSV, by number."""
    rows: Sequence[TrialRow] = list(found.table.rows())
    write(csv_of(rows, found.searched.terms))
