"""A run directory that somebody exchanged: its script is neither read nor handed to a scheduler."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch import runs
from hpclaunch.actions.queueing.hand_over import hand_over
from hpclaunch.actions.queueing.retry import script_of
from hpclaunch.core.errors import Refused
from hpclaunch.runs import Run
from tests.builders import a_run


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run of this user, with a script."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = runs.save(replace(a_run(tmp_path, "1"), token="0" * 32, scheduler="local", state="RENDERED", job_id=""))
    runs.list_own(tmp_path / "state/hpclaunch", made)
    made.script.write_text("#!/bin/bash\n")
    return made


def exchange(run: Run) -> None:
    run.path.rename(run.path.with_name("away"))
    run.path.mkdir()
    runs.save(run)
    run.script.write_text("theirs\n")


def test_a_script_is_read_from_the_directory_that_was_made(run: Run) -> None:
    assert script_of(run).text == "#!/bin/bash\n"
    exchange(run)
    with pytest.raises(Refused, match="is not the run directory that was made here"):
        script_of(run)


@pytest.mark.parametrize("listed", [True, False])
def test_a_directory_that_was_exchanged_is_handed_to_no_scheduler(run: Run, listed: bool, tmp_path: Path) -> None:
    made = replace(run, inode=run.path.stat().st_ino)
    exchange(run)
    if not listed:
        runs.unlist_own(tmp_path / "state/hpclaunch", [run])
    with pytest.raises(Refused, match="is not the run directory that was made here"):
        hand_over(made, "#!/bin/bash\n", 60)
    assert sorted(path.name for path in run.path.iterdir()) == ["job.sh", "run.json", "states.jsonl"]


def test_a_directory_that_others_may_write_to_is_handed_to_no_scheduler(run: Run) -> None:
    run.path.chmod(0o757)
    with pytest.raises(Refused, match="others can change the code that the job runs"):
        hand_over(run, "#!/bin/bash\n", 60)
    with pytest.raises(Refused, match="others can change the code that the job runs"):
        script_of(run)
