"""What a report is asked for: formats of figures, runs or one study, and the names of its files."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.actions.sharing.report import ReportFiles, ReportSubject, comparison_of, find, formats_of, page_of
from hpclaunch.actions.system import System
from hpclaunch.core.errors import InvalidRequest, Refused
from hpclaunch.runs import load, task_of
from hpclaunch.runs.scaling_study import RESULTS
from hpclaunch.search.folder import SearchFolder
from tests import fabricated_runs as fabricated


@pytest.mark.parametrize(
    ("text", "formats"), [(None, ("svg",)), ("", ("svg",)), ("png, SVG,png", ("png", "svg")), (" pdf ", ("pdf",))]
)
def test_formats_are_typed_in_any_case_and_with_spaces(text: str | None, formats: tuple[str, ...]) -> None:
    assert formats_of(text) == formats


@pytest.mark.parametrize("text", ["jpeg", "png,", "svg;png"])
def test_a_format_that_is_none_is_named(text: str) -> None:
    with pytest.raises(InvalidRequest, match="unknown format of figures") as caught:
        formats_of(text)
    assert caught.value.faults[0].where == "--format"


def test_a_study_has_a_page_of_its_own(tmp_path: Path) -> None:
    study = fabricated.study(tmp_path / "runs")
    run = fabricated.finished(tmp_path / "runs")
    system = System(cwd=tmp_path, environment={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    found = find(system, [str(study)])
    assert found.study is not None and (found.study.path, found.runs) == (study, ())
    assert find(system, [study.name]).study == found.study, "by its name beside the runs of the project"
    for names in ([str(study), str(run)], [str(run), str(study)], [str(study), str(study)]):
        with pytest.raises(InvalidRequest, match="which has a page of its own"):
            find(system, names)


def test_the_page_of_a_task_or_of_several_runs_has_one_name_in_the_folder(tmp_path: Path) -> None:
    array = load(fabricated.array(tmp_path / "c"))
    task, run = task_of(array, 1), load(fabricated.finished(tmp_path / "a"))
    for subject in ((task,), (task, run), (run, task, array)):
        page = ReportFiles(folder=tmp_path).page_for(ReportSubject(runs=subject))
        assert page.parent == tmp_path, page
    assert ReportSubject(runs=(task,)).name == f"{array.id}-0001"
    assert ReportSubject(runs=(run, task)).name == f"{run.id}-and-{array.id}-0001"
    assert ReportSubject(runs=(run, task, array)).name == f"{run.id}-and-{array.id}-0001-and-more"


def test_the_results_of_a_study_are_read_from_no_link_and_not_if_they_are_too_large(tmp_path: Path) -> None:
    study = fabricated.study(tmp_path / "runs")
    system = System(cwd=tmp_path, environment={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    subject = find(system, [str(study)])
    assert page_of(system, subject).figures
    os.truncate(study / RESULTS, 16 * 2**20)
    page_of(system, subject)
    os.truncate(study / RESULTS, 16 * 2**20 + 1)
    with pytest.raises(Refused, match="is larger than 16384 KB"):
        page_of(system, subject)
    (study / RESULTS).rename(tmp_path / "elsewhere")
    (study / RESULTS).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="is a link") as caught:
        page_of(system, subject)
    assert caught.value.faults[0].where == f"{study}/{RESULTS}"


def test_no_page_is_made_of_a_run_with_a_link_whichever_it_is(tmp_path: Path) -> None:
    system = System(cwd=tmp_path, environment={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    one, other = load(fabricated.finished(tmp_path / "a")), load(fabricated.failed(tmp_path / "b"))
    array = load(fabricated.array(tmp_path / "c"))
    subjects = [(one, other), (other, array), (array,)]
    assert all(page_of(system, ReportSubject(runs=subject)).title for subject in subjects)
    assert comparison_of(system, (one, other)).title
    for place in (other.path, task_of(array, 1).path):
        (place / "logs").mkdir(parents=True, exist_ok=True)
        (place / "logs/x.out").symlink_to("/etc/hostname")
    for subject in subjects:
        with pytest.raises(Refused, match="is a link"):
            page_of(system, ReportSubject(runs=subject))
    with pytest.raises(Refused, match="is a link"):
        comparison_of(system, (one, other))


def test_the_log_of_a_failed_trial_is_shown_without_the_values_of_variables(tmp_path: Path) -> None:
    system = System(cwd=tmp_path, environment={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    path = fabricated.search(tmp_path)
    spec = json.loads((path / "spec.json").read_text())
    (path / "spec.json").write_text(json.dumps({**spec, "environment": [["MY_TOKEN", "hunter2hunter2"]]}))
    log = SearchFolder(path).log(7)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("epoch 1\nno access with hunter2hunter2\n")
    page = repr(page_of(system, ReportSubject(runs=(load(path),))))
    assert "no access with (value not shown)" in page and "hunter2" not in page


def test_two_single_runs_are_compared_and_nothing_else(tmp_path: Path) -> None:
    system = System(cwd=tmp_path, environment={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    run, array = load(fabricated.finished(tmp_path / "a")), load(fabricated.array(tmp_path / "b"))
    for found, words in (
        ((run,), "two different runs"),
        ((run, run, run), "two different"),
        ((run, array), "an array"),
    ):
        with pytest.raises(InvalidRequest, match=words) as caught:
            comparison_of(system, found)
        assert caught.value.faults[0].where == "--compare"


def test_files_have_the_names_of_the_runs(tmp_path: Path) -> None:
    run = load(fabricated.finished(tmp_path))
    others = [replace(run, path=run.path.with_name(name)) for name in ("b", "c")]
    files = ReportFiles(folder=tmp_path)
    assert files.page_for(ReportSubject(runs=(run,))) == tmp_path / f"report-{run.id}.html"
    assert ReportSubject(runs=(run, others[0])).name == f"{run.id}-and-b"
    assert ReportSubject(runs=(run, *others)).name == f"{run.id}-and-b-and-more"
    named = replace(files, page=tmp_path / "x.html")
    assert named.page_for(ReportSubject(runs=(run,))) == tmp_path / "x.html"
