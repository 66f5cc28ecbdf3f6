"""Commands and programs on PATH as runs, and sweeps of programs that declare no parameters."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Desk


def script_of(desk: Desk, *words: str) -> str:
    done = desk.type("submit", "--dry-run", *words)
    assert done.code == 0, done.err
    return done.out


def rank_lines(script: str) -> str:
    return script.partition("rank() {")[2].partition("\n}\n")[0]


def test_a_typed_command_runs_where_it_was_typed_and_copies_nothing(cluster: Desk) -> None:
    cluster.program("measure", "#!/bin/bash\n")
    cluster.write("data.txt", "x")
    done = cluster.type("submit", "--nodes", "2", "--", "measure", "--fast", "$HOME `id`", "{code}")
    assert done.code == 0, done.err
    run = Path(done.out.strip())
    script = (run / "job.sh").read_text()
    assert "  measure --fast '$HOME `id`' '{code}'\n" in script
    assert f"enter {cluster.project}\n" in script and "need measure srun\n" in script
    assert run.name.startswith("measure-")
    assert sorted(path.name for path in (run / "code").iterdir()) == ["hpclaunch"]
    assert json.loads((run / "request.json").read_text())["is_command"] is True


def test_a_program_on_path_is_found_after_jobs(cluster: Desk) -> None:
    cluster.program("measure", "#!/bin/bash\n")
    cluster.program("cifar", "#!/bin/bash\n")
    assert "  measure a\n" in script_of(cluster, "measure", "--", "a")
    assert "code/train.py" in script_of(cluster, "cifar", "--synthetic")


def test_what_is_nowhere_is_refused_with_all_kinds_of_targets(cluster: Desk) -> None:
    done = cluster.type("submit", "cifr")
    assert done.code == 1
    assert "no job is called 'cifr'; did you mean 'cifar'?" in done.err
    assert "the path of a script, or a program on PATH" in done.err


def test_a_program_in_the_project_is_found_only_by_its_path(cluster: Desk) -> None:
    cluster.write("here", "#!/bin/bash\n", mode=0o755)
    for path in (":/nothing", ".", f".:{cluster.environment['PATH']}"):
        assert cluster.type("submit", "here", "--dry-run", PATH=path).code == 1
    assert "  ./here\n" in script_of(cluster, "--", "./here")


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ((), 2, "what to run is missing; allowed: a job, the path of a script, a program on PATH, or a command after"),
        (("--",), 2, "what to run is missing"),
        (("--", ""), 2, "'' cannot be a command"),
        (("--", "{code}/x"), 2, "'{code}/x' cannot be a command"),
        (("--", "./missing"), 1, "missing: the program does not exist; allowed: a program, or the path"),
        (("--", "./train.py"), 1, "train.py: the program cannot be executed"),
        (("--", "./runs.d"), 1, "runs.d: the program is not a file"),
        (("--site", "local", "--", "nowhere"), 1, "nowhere: there is no such program on PATH"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_queued(
    cluster: Desk, words: tuple[str, ...], code: int, told: str
) -> None:
    (cluster.project / "runs.d").mkdir()
    done = cluster.type("submit", *words)
    assert (done.code, told in done.err, "next: " in done.err) == (code, True, True), done.err
    assert not (cluster.spool / "sbatch.args").exists()


def test_a_program_that_is_only_on_the_nodes_is_submitted_with_a_warning(cluster: Desk) -> None:
    done = cluster.type("submit", "--module", "gromacs/2024", "--", "gmx", "mdrun")
    assert done.code == 0
    assert "gmx is not on PATH here: the nodes must have it" in done.err
    assert "module load gromacs/2024\n" in (cluster.spool / "script").read_text()


def test_a_command_runs_on_this_machine(desk: Desk) -> None:
    done = desk.type("submit", "--site", "local", "--wait", "--", "bash", "-c", 'echo "$0 from $PWD"', "it's $HOME")
    assert done.code == 0, done.err
    assert f"it's $HOME from {desk.project}\n" in done.err


def test_a_command_of_another_project_asks_before_that_projects_lines_run(desk: Desk) -> None:
    desk.write("hpclaunch.yaml", "environment: {setup: ['touch sneaked-in']}\n")
    done = desk.type("submit", "--site", "local", "--", "bash", "-c", "true")
    assert (done.code, "is not a trusted folder" in done.err) == (1, True), done.err
    assert not (desk.project / "sneaked-in").exists()


def test_a_command_is_resumed_on_other_nodes(cluster: Desk) -> None:
    cluster.program("measure", "#!/bin/bash\n")
    assert cluster.type("submit", "--name", "m", "--", "measure", "{x}", "a b").code == 0
    cluster.fake("sacct", out="4711|TIMEOUT|0:0|n1\n")
    assert cluster.type("status", "m").code == 0
    cluster.fake("sbatch", out="Submitted batch job 4712\n")
    done = cluster.type("resume", "m", "--nodes", "3")
    assert done.code == 0, done.err
    script = (cluster.spool / "script").read_text()
    assert "  measure '{x}' 'a b'\n" in script and "#SBATCH --nodes=3\n" in script


def test_a_sweep_of_any_script_gives_each_run_its_words_after_the_others(cluster: Desk) -> None:
    done = cluster.type("submit", "./train.py", "--sweep", "lr=0.10,1e-3", "--sweep", "batch_size=1..2", "--", "fit")
    assert done.code == 0, done.err
    run = Path(done.out.strip())
    assert (run / "values").read_text().splitlines() == [
        "0000\t--lr=0.10\t--batch_size=1",
        "0001\t--lr=0.10\t--batch_size=2",
        "0002\t--lr=1e-3\t--batch_size=1",
        "0003\t--lr=1e-3\t--batch_size=2",
    ]
    words = rank_lines((run / "job.sh").read_text()).replace("\\\n", "").split()
    assert words[-3:] == [f"{run}/code/train.py", "fit", '"${own[@]}"']
    each = cluster.type("status", "@latest", "--json").runs
    assert each[2]["values"] == {"lr": "1e-3", "batch_size": "1"}


def test_a_name_in_braces_gets_the_value_and_no_other_word(cluster: Desk) -> None:
    words = ("--sweep", "lr=1,2", "--sweep", "seed=3", "--", "measure", "-o{lr}_{lr}.txt", "{other}", "lr={lr}")
    lines = rank_lines(script_of(cluster, *words))
    value = '"${own[0]#*=}"'
    assert f"measure -o{value}_{value}.txt '{{other}}' lr={value} \"${{own[1]}}\"" in lines


HOSTILE = [
    "it's",
    "$(touch sneaked-in)",
    "`touch sneaked-in`",
    "a=b",
    "&",
    "*",
    "\\",
    "two\nlines",
    "${own[0]}",
    "'\"",
    "",
]


def test_values_in_braces_reach_the_program_unchanged(cluster: Desk, tmp_path: Path) -> None:
    """The function that every rank runs, with a real bash."""
    quoted = ",".join('"' + text.replace('"', '""') + '"' for text in HOSTILE)
    words = ("--sweep", f"x={quoted}", "--", "printf", "%s\\0", "<{x}>", "$HOME {x} `id`", "{y}")
    done = cluster.type("submit", *words)
    assert done.code == 0, done.err
    run = Path(done.out.strip())
    library = (run / "hpclaunch.sh").read_text()
    own_words = library.partition("own_words() {")[2].partition("\n}\n")[0]
    rank = rank_lines((run / "job.sh").read_text()).replace("rank_log", ": rank_log")
    for text, line in zip(HOSTILE, (run / "values").read_text().splitlines(), strict=True):
        program = f"own_words() {{{own_words}\n}}\nrank() {{{rank}\n}}\nrank\n"
        swept = line.partition("\t")[2]
        ran = subprocess.run(
            ["bash", "-c", program], env={**os.environ, "HPCLAUNCH_SWEPT": swept}, cwd=tmp_path, capture_output=True
        )
        assert ran.stdout.decode().split("\0")[:-1] == [f"<{text}>", f"$HOME {text} `id`", "{y}"], ran.stderr
    assert not list(cluster.root.rglob("sneaked-in"))


@pytest.mark.parametrize(
    ("sweep", "told"),
    [
        ("a b=1", "'a b' cannot be the name of an option; allowed: a letter"),
        ("1x=1", "'1x' cannot be the name of an option"),
        ("lr=", "a value is empty"),
        ("lr=1,1", "'1' is listed twice"),
        ("lr=5..1", "ends before it begins"),
    ],
)
def test_what_cannot_be_swept_is_refused(cluster: Desk, sweep: str, told: str) -> None:
    done = cluster.type("submit", "./train.py", "--sweep", sweep)
    assert (done.code, told in done.err) == (1, True), done.err
    assert not (cluster.spool / "sbatch.args").exists()
