"""``watch`` in a real terminal through the life of a run on this machine, and what ends it."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Desk, wait_for, without
from tests.cli.terminal import Terminal

# Trains in steps: for each file epoch-N in the run directory it reports an epoch; it ends when there is a file "end".
TRAINER = """\
import json, os, sys, time
folder = os.environ["HPCLAUNCH_RUN_DIR"]
def write(**event):
    with open(folder + "/metrics.jsonl", "a") as file:
        file.write(json.dumps({"time": time.time(), **event}) + "\\n")
print("the program has begun", flush=True)
write(event="start", options={"epochs": 4})
epoch = 1
while not os.path.exists(folder + "/end"):
    if os.path.exists(folder + f"/epoch-{epoch}"):
        write(event="epoch", epoch=epoch, loss=1 / epoch, seconds=2.0)
        print(f"epoch {epoch}", flush=True)
        epoch += 1
    time.sleep(0.1)
"""

Watch = Callable[..., Terminal]


@pytest.fixture
def local(desk: Desk) -> Desk:
    desk.environment |= {"HPCLAUNCH_SITE": "local", "TERM": "xterm-256color"}
    desk.write("train.py", TRAINER)
    return desk


@pytest.fixture
def watch(local: Desk) -> Iterator[Watch]:
    opened: list[Terminal] = []

    def start(*words: str, size: tuple[int, int] = (80, 24), **variables: str) -> Terminal:
        command = [sys.executable, "-m", "hpclaunch", *(words or ("watch",))]
        opened.append(Terminal(command, local.project, {**local.environment, **variables}, size))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()


def submitted(desk: Desk) -> Path:
    return Path(desk.type("submit", "./train.py").out.strip())


def is_as_before(terminal: Terminal) -> bool:
    """Whether a person who types on in this terminal finds it as it was."""
    picture = terminal.picture
    return (picture.is_alternate, picture.cursor_shown, picture.wraps) == (False, True, True)


def test_a_runs_whole_life_with_a_resize(local: Desk, watch: Watch) -> None:
    terminal = watch()
    terminal.shows("no run yet")
    run = submitted(local)
    terminal.shows(f"> {run.name}")
    terminal.shows("RUNNING")
    assert terminal.picture.is_alternate
    terminal.shows("0/4")
    for number in (1, 2):
        (run / f"epoch-{number}").touch()
        terminal.shows(f"{number}/4")
    rows = terminal.shows("loss     █▁")
    assert len(rows) == 24 and rows[0].startswith("1 run: 1 RUNNING")
    terminal.resize(60, 20)
    rows = terminal.until(lambda rows: rows[-1].startswith("[active]"), "a screen of 60 by 20")
    assert len(rows) == 20 and rows[2].startswith("> train-…") and run.name[-8:] in rows[2]
    terminal.resize(200, 50)
    terminal.until(lambda rows: len(rows) == 50 and rows[-1].startswith("[active]"), "a screen of 200 by 50")
    terminal.type("l")
    terminal.shows(f"log of {run.name}: RUNNING")
    terminal.shows("the program has begun")
    (run / "epoch-3").touch()
    terminal.shows("epoch 3")
    terminal.type("q")
    terminal.shows("3/4")
    (run / "end").touch()
    terminal.shows("COMPLETED")
    terminal.type("?")
    terminal.shows("any key goes back")
    terminal.type("xq")
    assert terminal.end() == 0
    assert is_as_before(terminal)


def test_a_run_is_cancelled_after_a_question_and_the_list_is_filtered(local: Desk, watch: Watch) -> None:
    run = submitted(local)
    terminal = watch("watch", run.name)
    terminal.shows("RUNNING")
    terminal.type("c")
    terminal.shows(f"cancel {run.name}? [y/N]")
    terminal.type("n")
    terminal.shows("nothing was cancelled")
    terminal.type("/nothere\r")
    terminal.shows("no run matches 'nothere'")
    terminal.type("\x1b")
    terminal.shows(f"> {run.name}")
    terminal.type("cy")
    terminal.shows("1 run: 1 CANCELLED")
    terminal.type("c")
    terminal.shows("has ended: it is CANCELLED")
    terminal.type("q")
    assert terminal.end() == 0
    assert local.type("status", run.name, "--json").runs[0]["state"] == "CANCELLED"


@pytest.mark.parametrize(
    ("end", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["INT", "TERM", "HUP"]
)
def test_a_signal_ends_it_with_the_terminal_as_it_was(watch: Watch, end: signal.Signals, code: int) -> None:
    terminal = watch()
    terminal.shows("no run yet")
    assert terminal.settings() != terminal.before and not terminal.picture.cursor_shown
    terminal.signal(end)
    assert terminal.end() == code
    assert is_as_before(terminal)


JOB_CONTROL = """set -m
%s -m hpclaunch watch
echo "stopped $?"
read -r line
fg > /dev/null
echo "ended $?"
"""


def test_ctrl_z_and_ctrl_c_leave_the_terminal_as_it_was(local: Desk) -> None:
    bash = shutil.which("bash")
    assert bash
    # A shell with job control around it: a program without one is never stopped by Ctrl-Z.
    terminal = Terminal([bash, "-c", JOB_CONTROL % sys.executable], local.project, local.environment)
    try:
        terminal.shows("no run yet")
        terminal.type("\x1a")
        terminal.shows("stopped 148")
        assert is_as_before(terminal) and terminal.settings() == terminal.before
        terminal.type("\n")
        terminal.shows("no run yet")
        assert terminal.picture.is_alternate and terminal.settings() != terminal.before
        terminal.type("\x03")
        terminal.shows("ended 130")
        assert terminal.end() == 0
        assert is_as_before(terminal)
    finally:
        terminal.close()


def test_a_lost_connection_ends_it_and_no_run(local: Desk, watch: Watch) -> None:
    run = submitted(local)
    terminal = watch()
    terminal.shows("RUNNING")
    assert terminal.hang_up() == 129
    assert local.type("status", run.name, "--json").runs[0]["state"] == "RUNNING"
    (run / "end").touch()
    wait_for(lambda: local.type("status", run.name, "--json").runs[0]["state"] == "COMPLETED", "it ends by itself")


@pytest.mark.parametrize("variables", [{"TERM": "dumb"}, {"NO_COLOR": "1"}], ids=["dumb", "NO_COLOR"])
def test_a_terminal_without_screens_gets_plain_lines(local: Desk, watch: Watch, variables: dict[str, str]) -> None:
    run = submitted(local)
    terminal = watch("watch", **variables)
    terminal.shows("RUNNING")
    (run / "end").touch()
    assert terminal.end() == 0
    assert "\x1b" not in terminal.written
    lines = terminal.written.replace("\r\n", "\n").splitlines()
    assert lines[0].startswith("run\tjob id") and "\tCOMPLETED\t" in lines[-1]


def test_in_a_pipe_it_writes_a_line_at_every_change_and_ends_with_the_runs(local: Desk) -> None:
    done = local.type("watch")
    assert done.code == 0 and "there is no run yet" in done.err
    run = submitted(local)
    process = local.start("watch", "--json", run.name)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["runs"][0]["state"] == "RUNNING"
    (run / "epoch-1").touch()
    line = json.loads(process.stdout.readline())["runs"][0]
    while line["epoch"] != 1:
        line = json.loads(process.stdout.readline())["runs"][0]
    assert (line["epochs"], line["loss"], line["node_count"]) == (4, 1.0, 1)
    (run / "end").touch()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0 and "Traceback" not in err
    assert json.loads(out.splitlines()[-1])["runs"][0]["state"] == "COMPLETED"


def test_an_unknown_run_is_refused_before_the_screen(watch: Watch) -> None:
    terminal = watch("watch", "nothere")
    assert terminal.end() == 1
    assert "no run is called 'nothere'" in terminal.written
    assert "\x1b[?1049h" not in terminal.written  # the screen


def test_wait_has_a_line_of_progress_on_a_terminal_and_none_in_a_pipe(local: Desk, watch: Watch) -> None:
    terminal = watch("submit", "./train.py", "--wait", size=(120, 24))
    terminal.shows("epoch 0/4")
    (run,) = (local.project / "runs").iterdir()
    (run / "epoch-1").touch()
    rows = terminal.shows("epoch 1/4")
    (line,) = [row for row in rows if "epoch 1/4" in row and "loss" in row]
    assert line.startswith(f"{run.name}: RUNNING  epoch 1/4  ━━━━━───────────────  loss 1") and line.endswith(" left")
    (run / "end").touch()
    assert terminal.end() == 0
    assert not any("epoch 1/4" in row for row in terminal.picture.rows()), "the line is gone"
    assert any(row == f"{run.name}: COMPLETED" for row in terminal.picture.rows())
    process = local.start("submit", "./train.py", "--wait")
    (other,) = wait_for_runs(local, 2) - {run}
    (other / "end").touch()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0 and "\x1b" not in err and "\r" not in err and "epoch 0/4" not in err, err


def wait_for_runs(desk: Desk, number: int) -> set[Path]:
    folder = desk.project / "runs"
    wait_for(lambda: len([path for path in folder.iterdir() if (path / "metrics.jsonl").exists()]) == number, "runs")
    return set(folder.iterdir())


def test_nothing_of_the_terminal_is_needed_for_its_help(local: Desk) -> None:
    local.environment = without(local.environment, "TERM")
    assert "live screen" in local.type("watch", "--help").out
