"""What leaves the machine in a crate, a page and the files of other tools: chosen code, no secrets, named limits."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hpclaunch.actions.following.inspect import differences
from hpclaunch.actions.sharing import crate_content
from hpclaunch.actions.sharing.export import CrateOptions, export
from hpclaunch.reports.page import html
from hpclaunch.reports.page.comparison_page import comparison_page
from hpclaunch.reports.page.files import write_figures
from hpclaunch.reports.page.recorded import read_run
from hpclaunch.reports.page.run_page import run_page
from hpclaunch.runs import load, metric_events
from hpclaunch.runs.metric_events import Thinned
from tests import fabricated_runs as fabricated
from tests.cli.conftest import Desk

SECRET = 'canary it\'s "5af2c9"'
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n"
JOB = "summary: x\nscript: train.py\nresources: {cpus_per_task: 1}\nenvironment: {python: current}\n"
PROGRAM = """
import os
from pathlib import Path

run = Path(os.environ["HPCLAUNCH_RUN_DIR"])
(run / "code/made_by_the_job.txt").write_text("made\\n")
print("it has", os.environ["TOKEN"])
"""


@pytest.fixture
def run(desk: Desk) -> Path:
    """A completed run whose folder has secrets, and whose command has one."""
    desk.write("jobs/tune/job.yaml", JOB)
    desk.write("jobs/tune/train.py", PROGRAM)
    desk.write("jobs/tune/server.pem", "x\n")
    desk.write("jobs/tune/password.txt", "x\n")
    desk.write("jobs/tune/notes.txt", KEY)
    variables = ("--env", f"TOKEN={SECRET}", "--env", "PIN=77", "--env", "NCCL_DEBUG=INFO")
    done = desk.type("submit", "tune", "--site", "local", "--wait", *variables)
    assert done.code == 0, done.err
    return Path(done.out.strip())


def crate_of(desk: Desk, run: Path, name: str, *words: str) -> tuple[Path, str]:
    done = desk.type("runs", "export", run.name, "--to", "ro-crate", "-o", name, *words)
    assert done.code == 0, done.err
    return desk.project / name, done.err


def texts_in(folder: Path) -> dict[str, str]:
    return {str(path): path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file()}


def test_files_that_look_like_secrets_are_left_out_and_named(desk: Desk, run: Path) -> None:
    crate, told = crate_of(desk, run, "out")
    readme = (crate / "README.md").read_text()
    left = ("code/server.pem", "code/password.txt", "code/notes.txt", "code/made_by_the_job.txt")
    for name in left:
        assert not (crate / name).exists()
        assert name in told and f"`{name}`: " in readme
    assert "code/notes.txt: it holds a private key" in told
    assert "code/made_by_the_job.txt: hpclaunch did not copy it there" in told
    assert (crate / "code/train.py").is_file() and "train.py" not in told
    crate, told = crate_of(desk, run, "all", "--include", "server.pem", "--include", "code/notes.txt")
    assert (crate / "code/server.pem").is_file() and (crate / "code/notes.txt").is_file()
    assert "server.pem" not in told and "password.txt" in told


def test_what_links_out_of_the_code_lead_to_is_told_and_not_exported(desk: Desk) -> None:
    desk.write("elsewhere/notes", "5af2c9\n")
    desk.write("elsewhere/helper", "WORD = 'of the helper'\n")
    desk.write("jobs/tune/job.yaml", JOB)
    desk.write("jobs/tune/train.py", "import helper\n\nprint(helper.WORD)\n")
    for name, place in (("notes.md", "elsewhere/notes"), ("helper.py", "elsewhere/helper")):
        (desk.project / "jobs/tune" / name).symlink_to(desk.project / place)
    done = desk.type("submit", "tune", "--site", "local", "--wait")
    assert done.code == 0 and "of the helper" in desk.type("logs", "@latest").out
    assert "copied, but kept out of exports" in done.err and "helper.py, notes.md" in done.err
    crate, told = crate_of(desk, Path(done.out.strip()), "out")
    assert sorted(os.listdir(crate / "code")) == ["job.yaml", "train.py"]
    for name in ("helper.py", "notes.md"):
        assert f"code/{name}: it was copied through a link that leads out" in told
    assert not [name for name, text in texts_in(crate).items() if "5af2c9" in text]
    crate, told = crate_of(desk, Path(done.out.strip()), "all", "--include", "code/helper.py")
    assert sorted(os.listdir(crate / "code")) == ["helper.py", "job.yaml", "train.py"] and "code/helper.py" not in told


def test_an_include_that_matches_nothing_is_refused(desk: Desk, run: Path) -> None:
    done = desk.type("runs", "export", run.name, "--to", "ro-crate", "-o", "new", "--include", "*.csv")
    assert done.code == 1 and "matches '*.csv'" in done.err and not (desk.project / "new").exists()
    done = desk.type("runs", "export", run.name, "--to", "mlflow", "-o", "new", "--include", "*.csv")
    assert done.code == 2 and "--include: belongs to an RO-Crate" in done.err


def test_values_of_variables_appear_by_name_alone(desk: Desk, run: Path) -> None:
    crate, _ = crate_of(desk, run, "out")
    script, spec = (crate / "job.sh").read_text(), json.loads((crate / "spec.json").read_text())
    assert "export TOKEN='(value not shown)'" in script and "export PIN='(value not shown)'" in script
    assert "export NCCL_DEBUG=INFO" in script and "TOKEN" in str(spec["environment"])
    assert "it has (value not shown)" in "".join(path.read_text() for path in (crate / "logs").iterdir())
    for path, text in texts_in(crate).items():
        assert "5af2c9" not in text, path
    recorded = read_run(load(run))
    page = run_page(recorded, fabricated.NOW, "1.2.3")
    text = html._render(page, {}, 40)
    assert "5af2c9" not in text and "TOKEN" in text and "NCCL_DEBUG=INFO" in text
    assert recorded.request is not None and dict(recorded.request.variables)["PIN"] == "(value not shown)"


def test_a_comparison_says_that_a_hidden_value_differs(desk: Desk, run: Path) -> None:
    other = desk.type("submit", "tune", "--site", "local", "--wait", "--env", "TOKEN=another 5af2c9 value")
    second = Path(other.out.strip())
    found = [load(run), load(second)]
    rows = differences(found, public=True)
    assert "environment" in dict(rows) and "5af2c9" not in str(rows)
    assert "5af2c9" in str(differences(found)), "runs compare shows its own user's values"
    page = comparison_page([read_run(one) for one in found], rows, fabricated.NOW, "1.2.3")
    assert "5af2c9" not in html._render(page, {}, 300)


def test_a_long_file_of_metrics_is_thinned_and_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fabricated.finished(tmp_path)
    size = (path / "metrics.jsonl").stat().st_size
    monkeypatch.setattr(crate_content, "_LARGEST_TEXT", size - 1)
    monkeypatch.setattr(crate_content, "Thinned", lambda: Thinned(most=8))
    exported = export([load(path)], "ro-crate", tmp_path / "out", CrateOptions())
    lines = (tmp_path / "out/metrics.jsonl").read_text().splitlines()
    whole = (path / "metrics.jsonl").read_text().splitlines()
    assert lines[0] == whole[0] and lines[-1] == whole[-1] and set(lines) < set(whole)
    epochs = [json.loads(line)["epoch"] for line in lines if '"epoch", ' in line]
    assert (epochs[0], epochs[-1]) == (1, fabricated.EPOCHS)
    words = f"{len(lines)} of its {len(whole)} lines"
    assert words in (tmp_path / "out/README.md").read_text() and any(words in note for note in exported.notes)


def test_more_events_than_a_page_holds_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fabricated.finished(tmp_path)
    monkeypatch.setattr(metric_events, "Thinned", lambda *_: Thinned(most=6))
    recorded = read_run(load(path))
    assert (recorded.epochs[0]["epoch"], recorded.epochs[-1]["epoch"]) == (1, fabricated.EPOCHS)
    page = run_page(recorded, fabricated.NOW, "1.2.3")
    words = f"{len(recorded.epochs)} of {fabricated.EPOCHS} epochs"
    assert any(words in text for text in page.warnings) and words in html._render(page, {}, 40)
    exported = export([load(path)], "tensorboard", tmp_path / "out", CrateOptions())
    assert any(words in note for note in exported.notes)


def test_a_long_log_keeps_its_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fabricated.failed(tmp_path)
    (path / "logs/4711.out").write_text("first line\n" + "x" * 5000 + "\nlast line\n")
    for name, size in (("_LARGEST_TEXT", 4500), ("_FIRST_OF_A_LOG", 20), ("_LAST_OF_A_LOG", 30)):
        monkeypatch.setattr(crate_content, name, size)
    exported = export([load(path)], "ro-crate", tmp_path / "out", CrateOptions())
    text = (tmp_path / "out/logs/4711.out").read_text()
    assert text.startswith("first line") and text.endswith("last line\n") and "bytes of this log are left out" in text
    assert "logs/4711.out" in (tmp_path / "out/README.md").read_text() and exported.notes


def test_a_parameter_with_the_value_of_a_secret_variable_is_hidden_in_mlflow(tmp_path: Path) -> None:
    path = fabricated.finished(tmp_path)
    spec = json.loads((path / "spec.json").read_text())
    spec["environment"] = [["TOKEN", "canary5af2c9"]]
    spec["parameters"] = [["login", "canary5af2c9"], ["epochs", "7"]]
    (path / "spec.json").write_text(json.dumps(spec))
    export([load(path)], "mlflow", tmp_path / "out", CrateOptions())
    texts = texts_in(tmp_path / "out")
    assert [name for name, text in texts.items() if "canary5af2c9" in text] == []
    assert [text.strip() for name, text in texts.items() if name.endswith("params/epochs")] == ["7"]


def test_the_files_of_a_model_share_one_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fabricated.finished(tmp_path)
    (path / "model").mkdir(exist_ok=True)
    for name in ("a.bin", "b.bin", "c.bin"):
        (path / "model" / name).write_bytes(b"123456")
    monkeypatch.setattr(crate_content, "_LARGEST_MODEL", 15)
    exported = export([load(path)], "ro-crate", tmp_path / "out", CrateOptions())
    assert sorted(os.listdir(tmp_path / "out/model")) == ["a.bin", "b.bin"]
    assert any("model/c.bin" in note for note in exported.notes)


def test_a_figure_is_not_written_through_a_link(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="group plot: needs matplotlib (the extra plot)")
    (tmp_path / "runs").mkdir()
    page = run_page(read_run(load(fabricated.failed(tmp_path / "runs"))), fabricated.NOW, "1.2.3")
    (tmp_path / "mine").write_text("kept")
    (tmp_path / "figures").mkdir()
    (tmp_path / f"figures/{page.figures[0].name}.svg").symlink_to(tmp_path / "mine")
    written = write_figures(page, tmp_path / "figures", ("svg",))
    assert (tmp_path / "mine").read_text() == "kept" and not any(path.is_symlink() for path in written)
    assert sorted(os.listdir(tmp_path / "figures")) == sorted(path.name for path in written)


def test_pip_of_a_project_does_not_start(desk: Desk) -> None:
    for name in ("pip/__init__.py", "pip/__main__.py", "subprocess.py"):
        desk.write(name, f"open({str(desk.root / 'STARTED')!r}, 'w').close()\n")
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_RETRIES": "0", "PIP_CONFIG_FILE": os.devnull}
    done = desk.type("bundle", "-o", "bundle.sh", **nowhere)
    assert done.code == 1 and "error:" in done.err
    assert not (desk.root / "STARTED").exists() and not (desk.project / "bundle.sh").exists()
