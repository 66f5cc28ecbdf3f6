"""What the page of a run reads: no value of a variable that may be a secret, wherever it stands."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.reports.page.recorded import RunStart, read_run
from hpclaunch.runs import load, metric_events, task_of
from hpclaunch.runs.metric_events import Thinned
from tests import fabricated_runs as fabricated

SECRET, HIDDEN = "hunter2hunter2", "(value not shown)"


def add(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_a_value_that_was_typed_is_shown_nowhere(tmp_path: Path) -> None:
    """It stands in the request alone, as a job.yaml may name its variables; other records repeat it."""
    path = fabricated.failed(tmp_path)
    add(path / "request.json", variables=[["MY_TOKEN", SECRET], ["OMP_NUM_THREADS", "8"]])
    add(path / "spec.json", command=["train.py", f"--key={SECRET}"])
    (path / "environment.json").write_text(json.dumps({"python": f"/opt/{SECRET}/bin/python"}))
    (path / "job.sh").write_text(f"export MY_TOKEN={SECRET}\n# {SECRET}\n")
    (path / "logs").mkdir(exist_ok=True)
    run = replace(load(path), reason=f"refused {SECRET}")
    log = next(iter(run.logs()), path / f"logs/slurm-{run.job_id}.out")
    log.write_text(f"Traceback\nno access with {SECRET}\n")
    found = read_run(run)
    assert found.request is not None
    assert found.request.variables == (("MY_TOKEN", HIDDEN), ("OMP_NUM_THREADS", "8"))
    assert found.spec["command"][1] == f"--key={HIDDEN}"
    assert found.run.reason == f"refused {HIDDEN}"
    assert found.log_end.endswith(f"no access with {HIDDEN}")
    assert SECRET not in repr(found)


def test_a_setting_for_a_secret_is_hidden_and_its_name_and_others_stay(tmp_path: Path) -> None:
    path = fabricated.finished(tmp_path)
    add(
        path / "request.json",
        settings=[["wandb_key", "abc"], ["epochs", "3"]],
        sweep=[["api_key", "a,b"], ["rate", "1,2"]],
        arguments=["--password", "abc", "--rate=1"],
    )
    request = read_run(load(path)).request
    assert request is not None
    assert request.settings == (("wandb_key", HIDDEN), ("epochs", "3"))
    assert request.sweep == (("api_key", HIDDEN), ("rate", "1,2"))
    assert request.arguments == ("--password", HIDDEN, "--rate=1")


def test_epochs_that_were_done_twice_are_counted(tmp_path: Path) -> None:
    path = fabricated.finished(tmp_path)
    assert read_run(load(path)).repeated == 0
    lines = [{"event": "epoch", "epoch": 3}, {"event": "checkpoint", "epoch": 3}, {"event": "epoch", "epoch": 4}]
    (path / "metrics-repeated.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert read_run(load(path)).repeated == 2


def test_a_value_of_the_spec_is_hidden_where_the_request_is_missing(tmp_path: Path) -> None:
    path = fabricated.finished(tmp_path)
    (path / "request.json").unlink()
    add(path / "spec.json", environment=[["MY_TOKEN", SECRET]], parameters=[["note", "x"]])
    (path / "job.sh").write_text(f"echo {SECRET}\n")
    found = read_run(load(path))
    assert (found.request, found.folder) == (None, path)
    assert found.script == f"echo {HIDDEN}\n"
    assert SECRET not in repr(found)


def test_the_changes_of_a_run_are_those_of_its_history(tmp_path: Path) -> None:
    path = fabricated.failed(tmp_path)
    lines = [
        {"time": "2026-01-01T00:00:00Z", "state": "PENDING", "job_id": "7", "reason": "Priority"},
        {"time": "no time", "state": "RUNNING"},
        {"time": "2026-01-01T00:01:00Z", "state": "FAILED"},
    ]
    (path / "states.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    changes = read_run(load(path)).changes
    assert [(one.state, one.job_id, one.reason) for one in changes] == [
        ("PENDING", "7", "Priority"),
        ("FAILED", "", ""),
    ]
    assert changes[1].time - changes[0].time == 60
    array = fabricated.array(tmp_path / "sweep")
    (array / "states.jsonl").write_text((path / "states.jsonl").read_text())
    assert len(read_run(load(array)).changes) == 2
    for index in (0, 1):
        assert read_run(task_of(load(array), index)).changes == (), "the history is the array's"


def test_the_end_of_the_log_is_shown_of_a_run_that_failed_alone(tmp_path: Path) -> None:
    run = load(fabricated.failed(tmp_path))
    log = run.path / f"logs/slurm-{run.job_id}.out"
    log.write_text("".join(f"line {number}\n" for number in range(100)) + "x" * 1000)
    shown = read_run(run).log_end.splitlines()
    assert (len(shown), shown[0], len(shown[-1])) == (40, "line 61", 500)
    for state in ("COMPLETED", "RUNNING"):
        assert read_run(replace(run, state=state)).log_end == ""


def test_a_long_series_says_how_many_epochs_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fabricated.finished(tmp_path)
    assert read_run(load(path)).epochs_seen == len(read_run(load(path)).epochs) == fabricated.EPOCHS
    monkeypatch.setattr(metric_events, "Thinned", lambda *_: Thinned(most=4))
    found = read_run(load(path))
    assert found.epochs_seen == fabricated.EPOCHS > len(found.epochs) and found.thinned


def test_the_result_is_that_of_the_last_end(tmp_path: Path) -> None:
    path = fabricated.finished(tmp_path)
    lines = [{"event": "end", "epochs": 1, "test_accuracy": 0.25}, {"event": "end", "epochs": 2, "test_accuracy": 0.5}]
    lines.append({"event": "checkpoint", "epoch": 2})
    (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = read_run(load(path))
    assert found.result["test_accuracy"] == 0.5
    assert [one["epochs"] for one in found.named("end")] == [1, 2]
    (path / "metrics.jsonl").write_text("")
    assert read_run(load(path)).result == {}


@pytest.mark.parametrize(
    ("began", "ended", "seconds"),
    [(5.0, 9.0, 4.0), (5.0, 5.0, 0.0), (5.0, 4.0, None), (None, 5.0, None), (5.0, None, None)],
)
def test_a_start_takes_no_time_below_zero(began: float | None, ended: float | None, seconds: float | None) -> None:
    """A clock may step back."""
    assert RunStart(name="7.0", began=began, ended=ended).seconds == seconds


def test_the_time_of_a_run_is_that_of_all_its_starts_that_ended(tmp_path: Path) -> None:
    found = read_run(load(fabricated.finished(tmp_path)))
    ended, open_start = RunStart(name="7.0", began=5.0, ended=9.0), RunStart(name="7.1", began=20.0)
    later = RunStart(name="7.2", began=30.0, ended=33.0)
    assert replace(found, starts=(ended, open_start, later)).seconds == 7.0
    assert replace(found, starts=(open_start,)).seconds is None
    assert replace(found, starts=()).seconds is None


@pytest.mark.parametrize(
    ("sweep", "runs"),
    [
        ({"axes": [["a", ["1", "2"]], ["b", ["1", "2", "3"]]]}, 6),
        ({"axes": [["a", ["1", "2"]], "damaged", ["b"]]}, 2),
        ({"axes": []}, 1),
        (None, 1),
    ],
)
def test_how_many_runs_an_array_has(tmp_path: Path, sweep: object, runs: int) -> None:
    path = fabricated.finished(tmp_path)
    add(path / "spec.json", sweep=sweep)
    assert read_run(load(path)).runs_of_array == runs


def test_a_script_is_shown_whole_up_to_a_limit(tmp_path: Path) -> None:
    path = fabricated.finished(tmp_path)
    (path / "job.sh").write_text("#" * 100_000)
    assert read_run(load(path)).script == "#" * 100_000
    (path / "job.sh").write_text("#" * 100_001)
    assert read_run(load(path)).script == "#" * 100_000 + "\n# the rest is left out of this page\n"
