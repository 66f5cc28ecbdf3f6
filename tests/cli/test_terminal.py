"""On a terminal: colours, widths, ASCII locales, --quiet, --verbose; and what the shell completes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli.conftest import Desk
from tests.cli.terminal import Terminal

XTERM = {"TERM": "xterm-256color", "LANG": "C.UTF-8"}
LISTS = [
    ("sites", "list"),
    ("sites", "show"),
    ("jobs", "list"),
    ("jobs", "show", "cifar"),
    ("status",),
    ("runs", "list"),
]


def shown(desk: Desk, *words: str, size: tuple[int, int] = (80, 600), **variables: str) -> Terminal:
    """Type ``hpclaunch WORDS`` on a terminal, and wait for the end."""
    variables = {"COLUMNS": "", **XTERM, **variables}
    environment: Mapping[str, str] = {name: value for name, value in {**desk.environment, **variables}.items() if value}
    terminal = Terminal([sys.executable, "-m", "hpclaunch", *words], desk.project, environment, size)
    try:
        terminal.end()
    finally:
        terminal.close()
    assert "Traceback" not in terminal.written, terminal.written
    return terminal


@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_an_ascii_terminal_shows_every_list(cluster: Desk, words: tuple[str, ...]) -> None:
    cluster.type("submit", "./train.py")
    for locale in ({"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}):
        terminal = shown(cluster, *words, **locale)
        assert (terminal.code, terminal.written.isascii()) == (0, True), terminal.written


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_name_in_a_list_is_folded(desk: Desk, width: int) -> None:
    names = [row["name"] for row in desk.type("sites", "list", "--json").json["sites"]]
    terminal = shown(desk, "sites", "list", size=(width, 600))
    rows = terminal.picture.rows()
    assert {name for name in names if not any(row.split()[:1] == [name] for row in rows)} == set()


def test_errors_are_red_and_warnings_yellow(cluster: Desk) -> None:
    wrong = ("submit", "./train.py", "--nodes", "99")
    assert "\x1b[1;31merror:\x1b[0m " in shown(cluster, *wrong).written
    assert "\x1b[" not in "".join(shown(cluster, *wrong, NO_COLOR="1").lines())
    assert "\x1b[" not in shown(cluster, *wrong, TERM="dumb").written
    assert "\x1b[" not in cluster.type(*wrong).err
    assert "\x1b[1;31merror:\x1b[0m " in cluster.type(*wrong, FORCE_COLOR="1").err
    cluster.fake("sbatch", err="no answer", code=1)
    assert "\x1b[33mwarning:\x1b[0m " in shown(cluster, "submit", "./gone.py", "--dry-run").written + (
        shown(cluster, "submit", "cifar", "--dry-run").written
    )


def test_quiet_leaves_results_and_errors(cluster: Desk) -> None:
    usual = cluster.type("submit", "./train.py")
    quiet = cluster.type("submit", "./train.py", "--quiet")
    assert (usual.code, quiet.code, "submitted" in usual.err) == (0, 0, True)
    assert all(line.startswith("warning: ") for line in quiet.err.splitlines())
    assert quiet.out.count("\n") == 1 and quiet.out.strip().startswith(str(cluster.project))
    refused = cluster.type("submit", "./train.py", "-q", "--nodes", "99")
    assert refused.code == 1 and all(
        line.startswith(("error: ", "warning: ", "    next: ")) for line in refused.err.splitlines()
    )


def test_quiet_shows_what_a_question_is_about(cluster: Desk) -> None:
    label = Path(cluster.type("submit", "./train.py").out.strip()).name
    words = [sys.executable, "-m", "hpclaunch", "cancel", "--all", "--quiet"]
    terminal = Terminal(words, cluster.project, {**cluster.environment, **XTERM})
    try:
        rows = terminal.shows("cancel 1 run? [y/N]")
        terminal.type("n\n")
        assert terminal.end() == 1
    finally:
        terminal.close()
    assert any(label in row for row in rows)


def test_verbose_names_the_programs_of_the_scheduler(cluster: Desk) -> None:
    done = cluster.type("submit", "./train.py", "-v")
    assert done.code == 0, done.err
    (line,) = [line for line in done.err.splitlines() if " sbatch " in line]
    assert line.endswith(" s, exit code 0")
    assert any(line.startswith("scontrol show config: ") for line in done.err.splitlines())


SILENT = """import os, time
from hpclaunch.cli.show import activity, console
with activity.shown(["report"]):
    while not os.path.exists("seen"):
        time.sleep(0.05)
console.say("done")
"""


def test_a_terminal_shows_that_a_silent_command_is_at_work(desk: Desk) -> None:
    """It ends when the line is there, and the line is gone at its end."""
    terminal = Terminal([sys.executable, "-c", SILENT], desk.project, {**desk.environment, **XTERM})
    try:
        terminal.shows("report is at work for ")
        (desk.project / "seen").touch()
        terminal.end()
    finally:
        terminal.close()
    assert [row for row in terminal.picture.rows() if row] == ["done"]


def completed(desk: Desk, *words: str) -> list[str]:
    """What the shell offers for the last word."""
    typed = {"COMP_WORDS": " ".join(("hpclaunch", *words)), "COMP_CWORD": str(len(words))}
    return desk.type(_HPCLAUNCH_COMPLETE="complete_bash", **typed).out.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("submit", "cifar", "--set", "warm"), ["warmup_epochs=", "warmup_steps="]),
        (("submit", "cifar", "--set", "optimizer=ada"), ["optimizer=adam", "optimizer=adamw"]),
        (("submit", "cifar", "--sweep", "batch_size"), ["batch_size_per_rank="]),
        (("submit", "./mine.py", "--set", "e"), []),
        (("plan", "cosmoflow", "--recipe", "u"), ["universes-64"]),
        (("submit", "cifar", "--site", "perlmutter", "--node-type", "g"), ["gpu40", "gpu80"]),
        (("submit", "cifar", "--site", "perlmutter", "--node-type", "gpu40:1,c"), ["gpu40:1,cpu"]),
        (("submit", "cifar", "--site", "perlmutter", "--qos", "de"), ["debug"]),
        (("submit", "cifar", "--site", "slurmsite", "--partition", "b"), ["batch"]),
        (("submit", "cifar", "--site", "slurmsite", "--launcher", ""), ["srun", "mpirun"]),
        (("submit", "cifar", "--partition", "d"), ["debug"]),
        (("status", "--state", "COMP"), ["COMPLETED"]),
        (("status", "--format", "run,sta"), ["run,state"]),
        (("search", "start", "--sampler", "t"), ["tpe"]),
        (("runs", "export", "--to", "m"), ["mlflow"]),
        (("sites", "show", "perl"), ["perlmutter"]),
        (("jobs", "show", "cosmo"), ["cosmoflow"]),
    ],
)
def test_values_are_completed(cluster: Desk, words: tuple[str, ...], expected: list[str]) -> None:
    assert completed(cluster, *words) == expected


def test_runs_are_completed(cluster: Desk) -> None:
    name = cluster.type("submit", "./train.py", "--name", "mine").out.strip().rpartition("/")[2]
    assert completed(cluster, "logs", "mi") == [name]
