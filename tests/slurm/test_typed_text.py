"""Whatever a person types reaches the program unchanged, or is refused with a reason (rows 17, 27)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.slurm.desk import PROBE, Desk, Submitted

pytestmark = pytest.mark.timeout(300)
LAUNCHERS = ("srun", "mpirun")

HOSTILE = [
    "",
    " ",
    "two words",
    " blanks around ",
    "tab\there",
    "two\nlines",
    "\n#SBATCH --nodes=9\n",
    "END_OF_RANK",
    "\nEND_OF_RANK\ntouch sneaked-in\n",
    "carriage\rreturn",
    "\x01\x1b[31m\x7f",
    "it's",
    "'quoted'",
    '"double"',
    '"\'"\'"',
    "$'\\n'",
    "$HOME",
    "${HOME}",
    "$(touch sneaked-in)",
    "`touch sneaked-in`",
    "$((1+1))",
    "a;b",
    "a|b & c && d || e",
    "> sneaked-in",
    "< /etc/passwd",
    "*",
    "/*",
    "?[a-z]{1,2}",
    "~",
    "~root",
    "!history",
    "# comment",
    "a#b",
    "back\\slash",
    "\\",
    "\\\\",
    "ends with \\",
    "%j %% %s %n",
    "{{ spec.name }} {% raw %}",
    "{code} {run_dir}",
    "a=b",
    "--nodes=9",
    "-x",
    "--",
    "a,b",
    '{"json": [1, "two", null]}',
    "Grüße, 世界 🚀",
    "\u202etxt",
    "\xa0",
    os.fsdecode(b"not UTF-8: \xff\xfe"),
    "x" * 20_000,
]
# Each is a folder's name; a slash cannot be in one.
FOLDER = "r %j %% %N a\"b'c #e $(x) `y` $HOME ü; x*?[a]~&|<>(){} {code} {run_dir} !"
VARIABLES = {
    f"TYPED_{number}": text
    for number, text in enumerate(HOSTILE)
    # A file is UTF-8 and without DEL, so these can only be typed as arguments.
    if text.isascii() or text.encode(errors="replace").decode() == text
    if "\x7f" not in text
}


@dataclass(frozen=True, slots=True)
class Jobs:
    typed: dict[str, Submitted]
    script: Submitted
    executable: Submitted


@pytest.fixture(scope="module")
def jobs(desk: Desk) -> Jobs:
    desk.job("typed", environment={"python": "/usr/bin/python3", "variables": VARIABLES})
    own = desk.folder / "own 'scripts' $HOME"
    own.mkdir()
    (own / 'my "bést" script; #1 %j.py').write_text(PROBE)
    (own / "run `it` $(now)").write_text("#!/usr/bin/python3\n" + PROBE)
    (own / "run `it` $(now)").chmod(0o755)
    # $HOME in --runs-dir is the shell's to expand: what arrives is a name.
    small = ("--nodes", "2", "--tasks-per-node", "1", "--runs-dir", FOLDER)
    one = ("--tasks-per-node", "1", "--gpus-per-node", "0", "--runs-dir", FOLDER)
    made = Jobs(
        typed={name: desk.submit("typed", *small, "--launcher", name, "--", *HOSTILE) for name in LAUNCHERS},
        script=desk.submit(str(own / 'my "bést" script; #1 %j.py'), *one, "--", *HOSTILE[:5]),
        executable=desk.submit("./own 'scripts' $HOME/run `it` $(now)", *one, "--", *HOSTILE[:5]),
    )
    desk.wait(*made.typed.values(), made.script, made.executable)
    return made


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_row_17_arguments_arrive_unchanged(desk: Desk, jobs: Jobs, launcher: str) -> None:
    run = jobs.typed[launcher]
    assert desk.ended(run) == "COMPLETED 0:0", run.log()
    ranks = run.ranks()
    assert len(ranks) == 2
    for rank in ranks:
        assert rank["argv"] == HOSTILE


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_row_17_variables_arrive_unchanged(jobs: Jobs, launcher: str) -> None:
    assert len(VARIABLES) > 40
    for rank in jobs.typed[launcher].ranks():
        assert {name: value for name, value in rank["env"].items() if name in VARIABLES} == VARIABLES


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_rows_17_and_27_the_run_directory_is_where_it_was_typed(desk: Desk, jobs: Jobs, launcher: str) -> None:
    run = jobs.typed[launcher]
    assert run.path.parent == desk.folder / FOLDER
    assert (run.path / "logs" / f"slurm-{run.job_id}.out").is_file()
    for rank in run.ranks():
        assert rank["env"]["HPCLAUNCH_RUN_DIR"] == rank["cwd"] == str(run.path)


def test_row_17_a_script_of_any_name_in_any_folder_runs(desk: Desk, jobs: Jobs) -> None:
    for run in (jobs.script, jobs.executable):
        assert desk.ended(run) == "COMPLETED 0:0", run.log()
        (rank,) = run.ranks()
        assert rank["argv"] == HOSTILE[:5]
        assert rank["cwd"] == str(desk.folder)


def test_row_17_nothing_typed_was_run_or_written(desk: Desk, jobs: Jobs) -> None:
    assert not list(desk.folder.rglob("sneaked-in"))
    assert desk.field(jobs.typed["srun"], "NumNodes") == "2"


def test_row_17_job_names_arrive_or_are_refused(desk: Desk, jobs: Jobs) -> None:
    assert desk.field(jobs.typed["srun"], "JobName") == "typed"
    assert desk.field(jobs.script, "JobName") == jobs.script.path.name.rsplit("-", 3)[0]
    desk.job("typed")
    before = set((desk.folder / FOLDER).iterdir())
    for name in ("", " ", "two words", "$HOME", "a\nb", "`id`", "ü", "a;b"):
        done = desk.run("submit", name)
        assert done.returncode in (1, 2), name
        assert "error: " in done.stderr
        assert "Traceback" not in done.stderr
    assert set((desk.folder / FOLDER).iterdir()) == before


def test_row_17_a_typed_command_runs_with_its_arguments(desk: Desk, jobs: Jobs) -> None:
    (desk.folder / "probe.py").write_text(PROBE)
    small = ("--nodes", "2", "--tasks-per-node", "1", "--gpus-per-node", "0", "--runs-dir", FOLDER)
    run = desk.submit(*small, "--", "/usr/bin/python3", "probe.py", *HOSTILE)
    named = desk.submit("hostname", *small)
    desk.wait(run, named)
    assert desk.ended(run) == "COMPLETED 0:0", run.log()
    assert [rank["argv"] for rank in run.ranks()] == [HOSTILE, HOSTILE]
    assert desk.ended(named) == "COMPLETED 0:0", named.log()
    assert len({line for line in named.log().splitlines() if not line.startswith("hpclaunch: ")}) == 2
    assert not list(desk.folder.rglob("sneaked-in"))


@pytest.mark.parametrize("folder", ["back\\slash", "two\nlines", "\x1b[31m"])
def test_row_27_a_run_directory_that_slurm_cannot_take_is_refused(desk: Desk, jobs: Jobs, folder: str) -> None:
    done = desk.run("submit", "typed", "--runs-dir", folder)
    assert done.returncode == 1
    assert "contains a" in done.stderr
    assert not (desk.folder / folder).exists()


def test_row_17_a_nul_or_a_missing_value_is_refused(desk: Desk, jobs: Jobs) -> None:
    desk.job("nul", environment={"python": "/usr/bin/python3", "variables": {"A": "a\0b"}})
    done = desk.run("submit", "nul")
    assert done.returncode == 1
    assert "NUL" in done.stderr or "control" in done.stderr or "YAML" in done.stderr
    assert Path(desk.folder / "runs").exists() is False
