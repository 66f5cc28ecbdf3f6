"""The values of a run that are hidden: of its variables, and of its secrets where the script takes them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hpclaunch.actions.sharing.export import CrateOptions, export
from hpclaunch.reports.page import html
from hpclaunch.reports.page.recorded import read_run
from hpclaunch.reports.page.run_page import run_page
from hpclaunch.runs import Run, load
from hpclaunch.runs.hidden import hidden_values_of
from tests import fabricated_runs as fabricated


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A failed run with two secrets, one in a file and one that is nowhere."""
    path = fabricated.failed(tmp_path / "runs")
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "HF_TOKEN").write_text("first-line\nsecond-line\n")
    spec = json.loads((path / "spec.json").read_text())
    spec |= {"secrets": ["HF_TOKEN", "NCCL_LOGIN"], "secrets_folder": str(folder), "environment": [["DB", "dbdbdb"]]}
    (path / "spec.json").write_text(json.dumps(spec))
    return load(path)


def test_a_secret_is_hidden_from_its_file_and_from_the_environment(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("NCCL_LOGIN", "in-the-shell")
    assert hidden_values_of(run).values == {"first-line", "in-the-shell", "dbdbdb"}
    monkeypatch.setenv("HF_TOKEN", "another")
    assert hidden_values_of(run).values == {"first-line", "in-the-shell", "another", "dbdbdb"}


def test_a_variable_that_was_typed_is_hidden_also_where_a_template_sets_it(run: Run) -> None:
    """Then the record does not name it, only the request does."""
    request = {"target": "cifar", "cwd": "/", "variables": [["DB_LOGIN", "typed-value"]]}
    (run.path / "request.json").write_text(json.dumps(request))
    assert "typed-value" in hidden_values_of(run).values


def test_a_secret_that_was_typed_as_an_argument_is_hidden_also_where_the_command_is_not_recorded(run: Run) -> None:
    request = {"target": "./train.py", "cwd": "/", "arguments": ["--password", "tiptap77", "--rate=1"]}
    (run.path / "request.json").write_text(json.dumps(request))
    values = hidden_values_of(run).values
    assert "tiptap77" in values and "1" not in values


@pytest.mark.parametrize(
    "changes", [{"secrets": "HF_TOKEN"}, {"secrets": [7, None]}, {"secrets": ["HF_TOKEN"], "secrets_folder": 7}]
)
def test_a_damaged_record_has_fewer_secrets(
    run: Run, changes: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    spec = json.loads((run.path / "spec.json").read_text())
    (run.path / "spec.json").write_text(json.dumps({**spec, **changes}))
    assert hidden_values_of(load(run.path)).values == {"dbdbdb"}


def test_a_secret_that_is_a_pipe_is_not_waited_for(run: Run) -> None:
    os.mkfifo(run.path.parent / "pipe")
    spec = json.loads((run.path / "spec.json").read_text())
    spec |= {"secrets": ["pipe"], "secrets_folder": str(run.path.parent)}
    (run.path / "spec.json").write_text(json.dumps(spec))
    assert hidden_values_of(load(run.path)).values == {"dbdbdb"}


def test_the_page_of_a_run_does_not_show_a_secret(run: Run) -> None:
    (run.path / "job.sh").write_text("echo first-line\n")
    (run.path / "logs/4711.out").write_text("got first-line and dbdbdb\n")
    recorded = read_run(run)
    assert recorded.script == "echo (value not shown)\n"
    assert recorded.log_end == "got (value not shown) and (value not shown)"


def test_the_lines_of_set_up_of_the_script_and_of_the_ranks_are_hidden(run: Run) -> None:
    spec = json.loads((run.path / "spec.json").read_text())
    spec |= {"steps": [{"line": "export A=LEAK"}, {"line": "module load x"}, 7], "rank_setup": ["export B=LEAK"]}
    (run.path / "spec.json").write_text(json.dumps(spec))
    assert hidden_values_of(load(run.path)).lines == {"export A=LEAK", "export B=LEAK"}
    (run.path / "spec.json").write_text(json.dumps({**spec, "steps": 7, "rank_setup": None}))
    assert not hidden_values_of(load(run.path)).lines


def test_a_secret_among_the_arguments_and_the_parameters_appears_nowhere(run: Run, tmp_path: Path) -> None:
    spec = json.loads((run.path / "spec.json").read_text())
    spec |= {
        "command": ["x", "--api-key", "LEAKVAR1", "--url=s://u:LEAKVAR2@h", "+wandb.api_key=LEAKVAR5"],
        "parameters": [["ssh_key", "LEAKVAR3"]],
    }
    (run.path / "spec.json").write_text(json.dumps(spec))
    request = json.loads((run.path / "request.json").read_text())
    request["arguments"] = ["--token", "LEAKVAR4"]
    (run.path / "request.json").write_text(json.dumps(request))
    (run.path / "job.sh").write_text("x --api-key \\\n  LEAKVAR1 --url=s://u:LEAKVAR2@h --ssh-key=LEAKVAR3\n")
    (run.path / "logs/4711.out").write_text("LEAKVAR1, LEAKVAR5 and LEAKVAR3 at s://u:LEAKVAR2@h\n")
    recorded = read_run(load(run.path))
    assert recorded.parameters["ssh_key"] == "(value not shown)"
    text = "".join(map(str, (recorded.spec, recorded.script, recorded.log_end, recorded.request)))
    text += json.dumps(html._render(run_page(recorded, fabricated.NOW, "1.2.3"), {}, 40))
    assert "LEAKVAR" not in text
    export([load(run.path)], "ro-crate", tmp_path / "crate", CrateOptions())
    for file in (tmp_path / "crate").rglob("*"):
        assert file.is_dir() or "LEAKVAR" not in file.read_text(errors="replace"), file


def test_a_secret_among_the_settings_that_were_typed_is_hidden(run: Run) -> None:
    request = json.loads((run.path / "request.json").read_text())
    request["settings"] = [["wandb_api_key", "LEAK-9f3a"], ["epochs", "12"]]
    (run.path / "request.json").write_text(json.dumps(request))
    hidden = hidden_values_of(load(run.path)).values
    assert "LEAK-9f3a" in hidden and "12" not in hidden


def test_without_its_request_a_run_has_the_values_of_its_record(run: Run) -> None:
    (run.path / "request.json").unlink()
    assert "dbdbdb" in hidden_values_of(load(run.path)).values


def test_a_run_without_a_command_has_no_options_to_hide(run: Run) -> None:
    (run.path / "request.json").unlink()
    spec = json.loads((run.path / "spec.json").read_text())
    (run.path / "spec.json").write_text(json.dumps({**spec, "command": []}))
    assert "dbdbdb" in hidden_values_of(load(run.path)).values
