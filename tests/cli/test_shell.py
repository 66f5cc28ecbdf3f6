"""``shell``: the command that opens an allocation, the file that its shell reads, and what is refused before that."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import PATIENCE, Desk

HERE = os.uname().nodename


def type_at_terminal(desk: Desk, *words: str) -> tuple[int, str]:
    """Type ``hpclaunch WORDS`` at a terminal; return the exit code and what stood on it."""
    keyboard, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "hpclaunch", *words],
        cwd=desk.project,
        env=desk.environment,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    seen = b""
    while True:
        try:
            block = os.read(keyboard, 4096)
        except OSError:  # how Linux tells that nobody has the terminal open
            break
        if not block:
            break
        seen += block
    os.close(keyboard)
    return process.wait(PATIENCE), seen.decode(errors="replace")


def test_a_dry_run_prints_the_command_and_the_file_and_starts_nothing(cluster: Desk) -> None:
    cluster.fake("salloc")
    done = cluster.type("shell", "--nodes", "2", "--dry-run", "--env", "MY=a b")
    assert done.code == 0, done.err
    command, _, file = done.out.partition("\n")
    assert command.startswith("# salloc --job-name=shell --partition=batch --nodes=2 ")
    assert " srun --interactive --preserve-env --pty /bin/bash -c " in command
    assert "export MY='a b'\n" in file and "export HPCLAUNCH_WORLD_SIZE=2\n" in file
    assert "\nbegin " not in file and "\nlaunch" not in file
    syntax = subprocess.run(["bash", "-n"], input=done.out, text=True, capture_output=True)
    assert (syntax.returncode, syntax.stderr) == (0, "")
    assert not (cluster.spool / "salloc.args").exists()
    assert not (cluster.project / "runs").exists()


def test_a_shell_gets_the_options_of_a_job_and_the_environment_without_that_of_this_shell(cluster: Desk) -> None:
    cluster.fake("salloc", code=5)
    cluster.environment |= {"PYTHONSTARTUP": "/x", "SALLOC_PARTITION": "other", "MY_OWN": "1", "TERM": "vt100"}
    code, seen = type_at_terminal(cluster, "shell", "--walltime", "5m", "--account", "m1")
    assert code == 5, seen  # salloc has taken the place of hpclaunch
    words = cluster.given("salloc")
    assert {"--job-name=shell", "--account=m1", "--nodes=1", "--time=00:05:00"} <= set(words)
    found = cluster.environment_of("salloc")
    assert not {"PYTHONSTARTUP", "SALLOC_PARTITION", "MY_OWN"} & found.keys()
    assert (found["TERM"], found["HOME"]) == ("vt100", str(cluster.home))
    assert "export HPCLAUNCH_WORLD_SIZE=1\n" in found["HPCLAUNCH_SHELL"]
    assert not (cluster.project / "runs").exists()


def test_bash_reads_the_file_and_has_the_variables_of_a_job(cluster: Desk) -> None:
    """As the step does: the file comes from a variable, and the shell is interactive."""
    cluster.fake("salloc")
    cluster.write("jobs/mine/train.py", "")
    job = "summary: x\nscript: train.py\nenvironment: {python: python3, setup: ['export SET_UP=done', 'false']}\n"
    cluster.write("jobs/mine/job.yaml", job)
    type_at_terminal(cluster, "shell", "mine")
    text = cluster.environment_of("salloc")["HPCLAUNCH_SHELL"]
    opened = cluster.given("salloc")[-1].replace(" -i", " -i -c 'echo \"$SET_UP|$PWD|${HPCLAUNCH_SHELL-none}\"'")
    environment = {"HOME": str(cluster.home), "HPCLAUNCH_SHELL": text, "SLURM_JOB_ID": "4711"}
    done = subprocess.run(["/bin/bash", "-c", opened], env=environment, text=True, capture_output=True)
    assert done.stdout == f"done|{cluster.project}|none\n", done.stderr
    assert "hpclaunch: false: failed with exit code 1" in done.stderr  # and the shell is open all the same
    assert "hpclaunch: this is job 4711 on " in done.stderr


def test_what_a_submission_is_refused_for_refuses_a_shell(cluster: Desk) -> None:
    cluster.fake("salloc")
    code, seen = type_at_terminal(cluster, "shell", "--nodes", "5", "--partition", "batch")
    assert (code, "5 nodes requested" in seen and "at most 4 nodes" in seen) == (1, True), seen
    assert not (cluster.spool / "salloc.args").exists()


def test_without_a_terminal_without_salloc_and_without_a_queue_it_is_one_refusal(cluster: Desk) -> None:
    assert "a shell needs a terminal" in cluster.type("shell").err
    code, seen = type_at_terminal(cluster, "shell")
    assert (code, "there is no salloc on this machine" in seen) == (1, True), seen
    done = cluster.type("shell", "--site", "local")
    assert (done.code, "has no scheduler" in done.err and "hpclaunch submit" in done.err) == (1, True)


def test_in_an_allocation_no_second_one_is_opened(cluster: Desk) -> None:
    cluster.fake("salloc")
    cluster.fake("squeue", out=f"4711|RUNNING|{os.getuid()}|batch|m1|normal|1:00:00|30:00|{HERE}|(null)\n")
    cluster.environment["SLURM_JOB_ID"] = "4711"
    code, seen = type_at_terminal(cluster, "shell")
    assert (code, "this shell is in the allocation 4711 already" in seen) == (1, True), seen
    assert not (cluster.spool / "salloc.args").exists()


@pytest.mark.parametrize("runtime", ["apptainer", "pyxis"])
def test_the_image_of_a_job_is_entered_by_a_function(cluster: Desk, runtime: str) -> None:
    site = Path(cluster.project / "site_configs/slurmsite.yaml")
    site.write_text(site.read_text() + f"container: {{runtime: {runtime}}}\n")
    cluster.write("jobs/mine/train.py", "")
    cluster.write("jobs/mine/job.yaml", "summary: x\nscript: train.py\nenvironment: {container: image.sif}\n")
    file = cluster.type("shell", "mine", "--tasks-per-node", "2", "--dry-run").out
    function = file.partition("in_container() {")[2].partition("}\n")[0]
    words = {"apptainer": "apptainer exec ", "pyxis": "srun --overlap --nodes=1 --ntasks=1 --pty --container-image="}
    assert words[runtime] in function and function.rstrip().endswith('"$@"')
