"""A module that is gone is found before the ranks start, also where ``module`` ends with 0 whatever happens."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.builders import with_library

TCL_3 = "echo \"ModuleCmd_Load.c(213):ERROR:105: Unable to locate a modulefile for '$2'\" >&2"
TCL_4 = "echo \"ERROR: Unable to locate a modulefile for '$2'\" >&2"
CONFLICT = "echo \"$2(7):ERROR:150: Module '$2' conflicts with the currently loaded module(s) 'b/1'\" >&2"
LOADS = 'export LOADEDMODULES="${LOADEDMODULES:+$LOADEDMODULES:}$2"'


def loaded(run: Path, does: str, line: str = "module load a/1", **known: str) -> subprocess.CompletedProcess[str]:
    """What the script does at a line of set-up, where ``module`` does this, and ends with 0 unless that returns."""
    (run / "profile").write_text(f"module() {{ {does}; return 0; }}\n")
    text = f"begin local\n{line}\ncheck '{line}'\necho the ranks start, $LOADEDMODULES"
    paths = {"HPCLAUNCH_RUN_DIR": str(run), "BASH_ENV": str(run / "profile"), "SUBMITIT_LOCAL_JOB_ID": "7"}
    return with_library(text, **{**paths, **known})


@pytest.mark.parametrize("says", [TCL_3, TCL_4, CONFLICT])
@pytest.mark.parametrize("known", [{}, {"LOADEDMODULES": "b/1"}], ids=["no list", "a list"])
def test_a_module_that_reports_by_text_alone_stops_the_script(tmp_path: Path, says: str, known: dict[str, str]) -> None:
    done = loaded(tmp_path, says, **known)
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr.splitlines()[-1] == "hpclaunch: module load a/1: failed with exit code 1"
    assert "ERROR:" in done.stderr.splitlines()[0]


def test_a_text_without_error_stops_the_script_if_no_further_module_is_loaded(tmp_path: Path) -> None:
    done = loaded(tmp_path, 'echo "$2: no such module here"', LOADEDMODULES="b/1")
    assert (done.returncode, done.stdout) == (78, "")
    assert "a/1: no such module here" in done.stderr


@pytest.mark.parametrize(
    "line", ["module load a/1", "module load a", "module add a/1", "module load A/1", "module load --auto a/1"]
)
def test_a_module_that_is_loaded_may_say_what_it_likes(tmp_path: Path, line: str) -> None:
    done = loaded(tmp_path, f'{LOADS.replace("$2", "a/1")}; echo "ERROR: old" >&2', line, LOADEDMODULES="b/1")
    assert (done.returncode, done.stdout) == (0, "the ranks start, b/1:a/1\n")
    assert done.stderr == "ERROR: old\n"


@pytest.mark.parametrize(
    ("line", "before"),
    [
        ("module load gcc", "gcc12/12"),
        ("module load gcc/1", "gcc/12"),
        ("module swap gcc/11 gcc/13", "gcc/11"),
        ("module switch b/1 gcc", "b/1"),
        ("module -s load gcc/13", "gcc/11"),
        ("module --silent add gcc", "b/1"),
    ],
)
def test_only_the_module_that_was_named_counts_as_loaded(tmp_path: Path, line: str, before: str) -> None:
    done = loaded(tmp_path, TCL_3, line, LOADEDMODULES=before)
    assert (done.returncode, done.stdout) == (78, "")


@pytest.mark.parametrize(
    "line", ["module load gcc", "module load gcc/", "module swap b/1 GCC/12", "module -s add gcc/12"]
)
def test_a_module_that_was_loaded_before_counts_as_loaded(tmp_path: Path, line: str) -> None:
    done = loaded(tmp_path, 'echo "ERROR: old" >&2', line, LOADEDMODULES="b/1:gcc/12")
    assert (done.returncode, done.stdout) == (0, "the ranks start, b/1:gcc/12\n")


def test_the_beginning_of_a_version_counts_as_loaded_where_module_completes_it(tmp_path: Path) -> None:
    """As ``extended_default`` of Environment Modules does."""
    done = loaded(tmp_path, ":", "module load gcc/12", LOADEDMODULES="gcc/12.3.0")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_name_of_another_module_counts_as_loaded(tmp_path: Path) -> None:
    """Meta-modules and aliases load what has other names."""
    done = loaded(tmp_path, f'{LOADS.replace("$2", "python/3.12")}; echo "loading python"', LOADEDMODULES="b/1")
    assert (done.returncode, done.stdout) == (0, "the ranks start, b/1:python/3.12\n")


def test_a_module_that_does_nothing_and_says_nothing_is_warned_of(tmp_path: Path) -> None:
    done = loaded(tmp_path, ":", LOADEDMODULES="b/1")
    assert (done.returncode, done.stderr) == (
        0,
        "hpclaunch: module load a/1 loaded no module, and printed no reason\n",
    )
    assert loaded(tmp_path, ":").stderr == ""  # without a list of modules nothing is known


def test_the_exit_code_of_module_still_counts(tmp_path: Path) -> None:
    done = loaded(tmp_path, "return 3")
    assert (done.returncode, done.stderr) == (78, "hpclaunch: module load a/1: failed with exit code 3\n")


def test_other_words_of_module_are_left_alone(tmp_path: Path) -> None:
    done = loaded(tmp_path, 'echo "ERROR: $*" >&2', "module use /opt", LOADEDMODULES="b/1")
    assert (done.returncode, done.stderr) == (0, "ERROR: use /opt\n")


def test_a_function_that_a_line_of_set_up_defines_is_watched_too(tmp_path: Path) -> None:
    (tmp_path / "init").write_text(f"module() {{ {TCL_3}; }}\n")
    line = f"source {tmp_path}/init\ncheck 'source init'\nmodule load a/1"
    done = loaded(tmp_path, ":", line.replace("'", '"'))
    assert (done.returncode, done.stdout) == (78, "")


def test_without_module_the_script_says_that_there_is_none(tmp_path: Path) -> None:
    text = "begin local\nmodule load a/1\ncheck 'module load a/1'"
    done = with_library(text, HPCLAUNCH_RUN_DIR=str(tmp_path), SUBMITIT_LOCAL_JOB_ID="7")
    assert (done.returncode, "module load a/1: failed with exit code 127" in done.stderr) == (78, True)


EXPORTED = f"""module() {{ {TCL_3.replace("'$2'", "$2")}; return 0; }}
export -f module
"""
"""As in a job whose environment has the function: sbatch exports it, and no BASH_ENV defines it."""


@pytest.mark.parametrize("how", ["run_batch_script {}", "rank() {{ {}; }}\nlaunch\nfinish"], ids=["as is", "a rank"])
def test_a_child_shell_keeps_its_own_module(tmp_path: Path, how: str) -> None:
    program = tmp_path / "prog.sh"
    program.write_text("#!/bin/bash\nload_module() { module load $1; }\nload_module gcc/12\necho code $?\n")
    program.chmod(0o755)
    text = f"{EXPORTED}begin local samples=no\n{how.format(program)}"
    done = with_library(text, HPCLAUNCH_RUN_DIR=str(tmp_path), SUBMITIT_LOCAL_JOB_ID="7")
    assert (done.returncode, done.stdout) == (0, "code 0\n")
    assert "Unable to locate a modulefile for gcc/12" in done.stderr


def test_a_script_that_inherits_a_watched_module_watches_it_too(tmp_path: Path) -> None:
    inner = "watch_modules; module load a/1"
    text = f"{EXPORTED}watch_modules\nbash -c \"${{BASH_EXECUTION_STRING%%$'\\n'*}}; {inner}\""
    done = with_library(text, HPCLAUNCH_RUN_DIR=str(tmp_path))
    assert (done.returncode, done.stderr.count("ERROR:105")) == (1, 1), done.stderr
