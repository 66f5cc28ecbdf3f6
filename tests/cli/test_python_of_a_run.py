"""The Python of a run: typed, or active in the submitting shell."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Desk


@pytest.fixture
def shell(cluster: Desk) -> Desk:
    """A site whose Python is a module; its user has a venv, and a conda environment with PyTorch."""
    site = cluster.project / "site_configs/slurmsite.yaml"
    site.write_text(site.read_text().replace("{python: current}", "{modules: [python/3]}"))
    for place in ("my venv/bin/activate", "my venv/lib/python3.11/site-packages/x.py", "conda/bin/python"):
        cluster.write(place, "", mode=0o755)
    (cluster.project / "conda/conda-meta").mkdir()
    (cluster.project / "conda/lib/python3.12/site-packages/torch").mkdir(parents=True)
    return cluster


def active(desk: Desk, *folders: str) -> dict[str, str]:
    """The variables of a shell in which these environments are active, the first one at last."""
    path = ":".join([*(f"{desk.project}/{folder}/bin" for folder in folders), desk.environment["PATH"]])
    names = {"my venv": "VIRTUAL_ENV", "conda": "CONDA_PREFIX"}
    return {"PATH": path, **{names[folder]: str(desk.project / folder) for folder in folders}}


def set_up(script: str) -> list[str]:
    lines = script.partition("# --- Environment")[2].splitlines()
    return [line for line in lines if line.startswith(("module", "source", "conda", "eval", "export A="))]


def test_an_active_venv_is_taken_and_said_in_a_line(shell: Desk) -> None:
    done = shell.type("submit", "./train.py", "--dry-run", **active(shell, "my venv"))
    venv = shell.project / "my venv"
    assert set_up(done.out) == [f"source '{venv}/bin/activate'"]  # and not the site's Python before it
    (line,) = [line for line in done.err.splitlines() if "active venv" in line]
    assert f", python python (the active venv {venv}); -v shows" in line
    each = shell.type("submit", "./train.py", "--dry-run", "-v", **active(shell, "my venv")).err
    (line,) = [line for line in each.splitlines() if "active venv" in line]
    assert line.split() == ["python", "python", *f"(the active venv {venv})".split()]


def test_an_active_conda_environment_is_taken_with_the_conda_of_the_shell(shell: Desk) -> None:
    variables = {**active(shell, "conda"), "CONDA_EXE": "/opt/my conda/bin/conda"}
    site = shell.project / "site_configs/slurmsite.yaml"
    site.write_text(site.read_text().replace("{modules: [python/3]}", "{}"))
    done = shell.type("submit", "./train.py", "--dry-run", **variables)
    assert set_up(done.out) == [
        "eval \"$('/opt/my conda/bin/conda' shell.bash hook)\"",
        f"conda activate {shell.project}/conda",
    ]


def test_of_two_the_one_that_was_activated_last_is_taken(shell: Desk) -> None:
    done = shell.type("submit", "./train.py", "--dry-run", **active(shell, "conda", "my venv"))
    assert f"conda activate {shell.project}/conda" in done.out
    done = shell.type("submit", "./train.py", "--dry-run", **active(shell, "my venv", "conda"))
    assert "bin/activate" in done.out and "conda activate" not in done.out


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("hpclaunch.yaml", "environment: {python: python3.9}\n", "the settings name another Python"),
        (
            "jobs/own/job.yaml",
            "summary: x\nscript: a.py\nenvironment: {conda: tf}\n",
            "the job own names its own Python",
        ),
    ],
)
def test_a_file_that_names_a_python_counts_more(shell: Desk, file: str, content: str, told: str) -> None:
    shell.write(file, content)
    shell.write("jobs/own/a.py", "")
    target = "own" if file.startswith("jobs") else "./train.py"
    done = shell.type("submit", target, "--dry-run", **active(shell, "my venv"))
    venv = shell.project / "my venv"
    assert f"warning: the active venv {venv} is not taken: {told}; --venv '{venv}' takes it" in done.err
    assert "bin/activate" not in done.out


def test_a_bundled_job_does_not_take_an_environment_without_its_framework(shell: Desk) -> None:
    done = shell.type("submit", "cifar", "--synthetic", "--dry-run", **active(shell, "conda"))
    assert "is not taken: it has no tensorflow and no horovod, which cifar needs" in done.err
    for name in ("tensorflow", "horovod"):
        (shell.project / f"conda/lib/python3.12/site-packages/{name}").mkdir()
    done = shell.type("submit", "cifar", "--synthetic", "--dry-run", **active(shell, "conda"))
    assert f"conda activate {shell.project}/conda" in done.out


def test_the_base_of_conda_is_active_by_habit(shell: Desk) -> None:
    base = {**active(shell, "conda"), "CONDA_DEFAULT_ENV": "base"}
    assert "conda activate" in shell.type("submit", "./train.py", "--dry-run", **base).out
    (shell.project / "conda/lib/python3.12/site-packages/torch").rmdir()
    done = shell.type("submit", "./train.py", "--dry-run", **base)
    assert "conda activates it in every shell, and it has none of tensorflow, torch" in done.err
    assert "conda activate" not in done.out


def test_an_environment_whose_programs_are_not_on_path_is_not_active(shell: Desk) -> None:
    variables = {**active(shell, "my venv"), "PATH": shell.environment["PATH"]}
    assert "bin/activate" not in shell.type("submit", "./train.py", "--dry-run", **variables).out


def test_a_script_for_another_machine_takes_no_environment_of_this_one(shell: Desk) -> None:
    words = ("submit", "./train.py", "--site", "perlmutter", "--account", "m1", "--dry-run")
    (shell.root / "bin/sbatch").unlink()
    assert "bin/activate" not in shell.type(*words, **active(shell, "my venv")).out


def test_the_software_can_be_typed(shell: Desk) -> None:
    words = ("--module", "gcc/13", "--module", "a b", "--env", "A=x $HOME", "--env", "B=1=2")
    done = shell.type("submit", "./train.py", "--dry-run", "--venv", "my venv", *words, **active(shell, "conda"))
    assert done.code == 0, done.err
    venv = shell.project / "my venv"
    assert set_up(done.out) == [
        "module load gcc/13",
        "module load 'a b'",
        f"source '{venv}/bin/activate'",
        "export A='x $HOME'",
    ]
    assert "export B=1=2\n" in done.out
    assert "(--venv my venv)" in done.err
    done = shell.type("submit", "./train.py", "--dry-run", "--python", "/opt/python3.9", **active(shell, "conda"))
    assert "  /opt/python3.9 " in done.out and "--python: /opt/python3.9 is not a program" in done.err
    assert "conda activate tf" in shell.type("submit", "./train.py", "--dry-run", "--conda", "tf").out


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--venv", "none"), 1, "--venv: none has no bin/activate; allowed: the folder of a virtual environment"),
        (("--conda", "./none"), 1, "--conda: ./none has no folder conda-meta"),
        (("--python", "./none"), 1, "--python: ./none is not a program"),
        (("--venv", "a", "--conda", "b"), 2, "--venv and --conda: cannot be used together"),
        (("--module", "a\nrm -r x"), 2, "is empty, or has a control character"),
        (("--env", "A"), 2, "--env: 'A' is not NAME=VALUE"),
        (("--env", "A B=1"), 2, "'A B' cannot be set; allowed: letters"),
        (("--env", "HPCLAUNCH_RUN_DIR=/"), 2, "'HPCLAUNCH_RUN_DIR' cannot be set"),
    ],
)
def test_software_that_is_not_there_is_refused(shell: Desk, words: tuple[str, ...], code: int, told: str) -> None:
    done = shell.type("submit", "./train.py", *words)
    assert (done.code, told in done.err) == (code, True), done.err
    assert not (shell.spool / "sbatch.args").exists()


def test_a_resumed_run_keeps_the_python_of_its_submission(shell: Desk) -> None:
    assert shell.type("submit", "./train.py", "--name", "a", **active(shell, "my venv")).code == 0
    (run,) = (shell.project / "runs").iterdir()
    assert json.loads((run / "request.json").read_text())["venv"] == str(shell.project / "my venv")
    shell.fake("sacct", out="4711|TIMEOUT|0:0|n1\n")
    assert shell.type("status", "a").code == 0
    shell.fake("sbatch", out="Submitted batch job 4712\n")
    assert shell.type("resume", "a", "--nodes", "2", **active(shell, "conda")).code == 0
    script = (shell.spool / "script").read_text()
    assert "my venv/bin/activate" in script and "conda" not in script


def test_the_environment_of_hpclaunch_itself_is_the_current_one_of_this_machine(desk: Desk) -> None:
    desk.write("train.py", "")
    own = {"VIRTUAL_ENV": sys.prefix, "PATH": f"{sys.prefix}/bin:{desk.environment['PATH']}"}
    done = desk.type("submit", "./train.py", "--site", "local", "--dry-run", **own)
    assert done.code == 0
    assert "bin/activate" not in done.out and "is not taken" not in done.err


def test_a_dropped_pythonpath_is_said(shell: Desk) -> None:
    done = shell.type("submit", "./train.py", "--dry-run", PYTHONPATH=str(Path(__file__).parents[2]))
    assert 'warning: PYTHONPATH of this shell does not reach the ranks; --env PYTHONPATH="$PYTHONPATH"' in done.err
    done = shell.type("submit", "./train.py", "--dry-run", "--env", "PYTHONPATH=/x")
    assert "PYTHONPATH of this shell" not in done.err and "export PYTHONPATH=/x\n" in done.out
