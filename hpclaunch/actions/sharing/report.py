"""What ``hpclaunch report`` does: finds the runs, makes the page, writes page, figures and data; prints nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpclaunch import runs
from hpclaunch.actions.following import states
from hpclaunch.actions.following.inspect import differences
from hpclaunch.actions.system import System
from hpclaunch.config.site import load_site
from hpclaunch.core import inside
from hpclaunch.core.errors import Fault, HpclaunchError, InvalidRequest, NotFound, Refused, did_you_mean
from hpclaunch.core.files import MOST_BYTES, json_object
from hpclaunch.core.quoting import shown_name
from hpclaunch.core.records import record
from hpclaunch.core.version import __version__
from hpclaunch.reports.charts.canvas import import_matplotlib
from hpclaunch.reports.page.comparison_page import comparison_page
from hpclaunch.reports.page.files import FORMATS, check_folder, check_page, write_figures, write_page, write_tables
from hpclaunch.reports.page.model import Page, PageSection, Sentence
from hpclaunch.reports.page.recorded import RecordedRun, read_run
from hpclaunch.reports.page.run_page import run_page
from hpclaunch.reports.page.runs_page import MOST_READ, runs_page
from hpclaunch.reports.page.sections.search import FailedTrials, search_section
from hpclaunch.reports.page.study_page import study_page
from hpclaunch.runs import Run
from hpclaunch.runs.hidden import hidden_values_of
from hpclaunch.runs.scaling_study import RESULTS, STUDY, ScalingStudy, load_study
from hpclaunch.runs.unread import READ_BY_A_PAGE, refuse_strange_names, refuse_unread
from hpclaunch.search.folder import SearchFolder, is_search
from hpclaunch.search.journal import JournalReader
from hpclaunch.search.results import failed_among, failures_in_words, summary_of
from hpclaunch.search.table import TrialRow


@record
class ReportFiles:
    """Where to write: the page (None: by the name of the run, in ``folder``), figures in formats, data as CSV."""

    folder: Path
    page: Path | None = None
    figures: Path | None = None
    formats: tuple[str, ...] = ("svg",)
    tables: Path | None = None

    def page_for(self, subject: ReportSubject) -> Path:
        """Return the path of the page."""
        return self.page or self.folder / f"report-{subject.name}.html"


@record
class ReportSubject:
    """What a page is about: runs (arrays and searches among them), or a scaling study."""

    runs: tuple[Run, ...] = ()
    study: ScalingStudy | None = None

    @property
    def name(self) -> str:
        """A name for files."""
        if self.study is not None:
            return self.study.name
        name = "-and-".join(run.id.replace("/", "-") for run in self.runs[:2])
        return f"{name}-and-more" if len(self.runs) > 2 else name


@record
class WrittenReport:
    """The page that was written, its size in bytes, and the files of its figures and data."""

    page: Page
    path: Path
    size: int
    figures: tuple[Path, ...]
    tables: tuple[Path, ...]


def formats_of(text: str | None) -> tuple[str, ...]:
    """Return the formats of ``--format png,svg``. Raises InvalidRequest."""
    found = tuple(dict.fromkeys(part.strip().lower() for part in (text or "svg").split(",")))
    unknown = next((part for part in found if part not in FORMATS), None)
    if unknown is not None:
        what = f"unknown format of figures {unknown!r}{did_you_mean(unknown, FORMATS)}"
        raise InvalidRequest(
            Fault(where="--format", what=what, allowed=", ".join(FORMATS), next="--format png,svg,pdf")
        )
    return found


def find(system: System, names: Sequence[str]) -> ReportSubject:
    """Return what the names mean: runs with their present states, the newest without a name; or one study.

    Raises NotFound with every unknown name, and InvalidRequest for a study beside other names.
    """
    refuse_strange_names(names)
    studies = [study for name in names if (study := _study_named(system, name)) is not None]
    if studies and len(names) > 1:
        what = f"{studies[0].name} is a scaling study, which has a page of its own"
        raise InvalidRequest(Fault(what=what, next=f"hpclaunch report {studies[0].path}"))
    return ReportSubject(study=studies[0]) if studies else ReportSubject(runs=tuple(states.find(system, names)))


def _study_named(system: System, name: str) -> ScalingStudy | None:
    """Return the study in a folder, or of that name beside the runs of this project; None if it is no study."""
    folders = (Path(name), *(folder / name for folder in system.run_folders))
    return next((load_study(folder.absolute()) for folder in folders if os.path.isfile(folder / STUDY)), None)


def check_files(files: ReportFiles, subject: ReportSubject) -> None:
    """Raise Refused, before anything is written, if a file cannot be, or if nothing can be drawn."""
    check_page(files.page_for(subject))
    for folder, flag in ((files.figures, "--figures"), (files.tables, "--csv")):
        if folder is not None:
            check_folder(folder, flag)
    try:
        import_matplotlib()
    except ImportError:
        what, next_step = "matplotlib is not installed, which draws the figures", "pip install 'hpclaunch[plot]'"
        raise Refused(Fault(where="report", what=what, next=next_step)) from None


def page_of(system: System, subject: ReportSubject) -> Page:
    """Return the page of a run, of an array with its runs, of several runs, or of a study; it reads their files."""
    refuse_unread(subject.runs, READ_BY_A_PAGE)
    now = system.now().timestamp()
    if subject.study is not None:
        _refuse_unread_results(subject.study)
        results = json_object(inside.read_text(subject.study.path, RESULTS))
        return study_page(subject.study, results, now, __version__)
    if len(subject.runs) > 1:
        several = runs.each(subject.runs)[:MOST_READ]
        refuse_unread(several, READ_BY_A_PAGE)
        return runs_page(None, [read_run(run) for run in several], now, __version__)
    (run,) = subject.runs
    if is_search(run.path):
        return run_page(_read_run(system, run), now, __version__, first=[_search_section(run)])
    array = _array_of(run)
    if array is None:
        return run_page(_read_run(system, run), now, __version__)
    tasks = runs.tasks_of(array, range(min(array.tasks, MOST_READ)))
    refuse_unread(tasks, READ_BY_A_PAGE)
    return runs_page(read_run(array), [read_run(one) for one in tasks], now, __version__)


def _refuse_unread_results(study: ScalingStudy) -> None:
    """Raise Refused if the results of a study are a link, or anything else that is not read."""
    why = inside.problem(study.path, RESULTS, MOST_BYTES)
    if why:
        next_step = "hpclaunch scale writes them again: put the file itself there, or remove it"
        raise Refused(Fault(where=shown_name(str(study.path / RESULTS)), what=why, next=next_step))


def _read_run(system: System, run: Run) -> RecordedRun:
    """Return the records of a run, with what the file of its site says of failures, if it can be read."""
    recorded = read_run(run)
    try:
        site = load_site(system.catalog, run.site)
        node = site.node_types[str(recorded.spec.get("node_type"))]
    except (HpclaunchError, KeyError):
        return recorded
    return replace(recorded, has_site=True, mtbf_days=node.mtbf_days)


def _search_section(run: Run) -> PageSection:
    """Return the section of a search; a sentence if its record cannot be read."""
    try:
        searched = SearchFolder(run.path).read()
    except NotFound as error:
        words = Sentence(text=f"The record of the search cannot be read: {error.faults[0].what}.", tone="warning")
        return PageSection(name="search", title="The search", blocks=(words,))
    table = JournalReader(SearchFolder(run.path)).read()
    rows = [*table.rows()]
    summary = summary_of(table, searched.terms, searched.at_once)
    return search_section(rows, searched.terms, summary, _failed_trials(run, rows))


def _failed_trials(run: Run, rows: Sequence[TrialRow]) -> FailedTrials | None:
    """Return what the page says of failed trials, without values that may be secrets; None if there are none."""
    failed = failed_among(rows)
    if not failed:
        return None
    hidden, first = hidden_values_of(run), failed[0].number
    lines = "\n".join(SearchFolder(run.path).last_lines(first))
    words = hidden.without(failures_in_words(failed, len(rows)))
    return FailedTrials(words=words, first=first, log_end=hidden.without(lines))


def _array_of(run: Run) -> Run | None:
    """Return the array, that of another user as recorded (others see it as one run); None for a single run."""
    if run.tasks or run.index >= 0:
        return run if run.tasks else None
    recorded = runs.load(run.path)
    return recorded if recorded.tasks else None


def comparison_of(system: System, found: Sequence[Run]) -> Page:
    """Return the page that compares two runs. Raises InvalidRequest for an array, or for one run twice."""
    if len(found) != 2 or any(_array_of(run) for run in found):
        what = "needs two different runs" if len(found) != 2 else "compares single runs, and one of these is an array"
        next_step = "name two runs: hpclaunch status --all lists them (ARRAY/0007 is a run of an array)"
        raise InvalidRequest(Fault(where="--compare", what=what, next=next_step))
    refuse_unread(found, READ_BY_A_PAGE)
    rows: list[tuple[str, Any]] = list(differences(found, public=True))
    now = system.now().timestamp()
    return comparison_page([read_run(run) for run in found], rows, now, __version__)


def write(page: Page, path: Path, files: ReportFiles) -> WrittenReport:
    """Write the page and what else was asked for; return what was written. Raises Refused."""
    size = write_page(page, path)
    figures = write_figures(page, files.figures, files.formats) if files.figures is not None else []
    tables = write_tables(page, files.tables) if files.tables is not None else []
    return WrittenReport(page=page, path=path, size=size, figures=tuple(figures), tables=tuple(tables))
