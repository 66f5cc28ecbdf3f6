"""What the page of a run reads: no value of a variable that may be a secret, wherever it stands."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpclaunch.reports.page.recorded import read_run
from hpclaunch.runs import load
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


def test_a_value_of_the_spec_is_hidden_where_the_request_is_missing(tmp_path: Path) -> None:
    path = fabricated.finished(tmp_path)
    (path / "request.json").unlink()
    add(path / "spec.json", environment=[["MY_TOKEN", SECRET]], parameters=[["note", "x"]])
    (path / "job.sh").write_text(f"echo {SECRET}\n")
    found = read_run(load(path))
    assert (found.request, found.folder) == (None, path)
    assert found.script == f"echo {HIDDEN}\n"
    assert SECRET not in repr(found)
