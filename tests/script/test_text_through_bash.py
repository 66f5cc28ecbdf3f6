"""Row 17: what a person types reaches the program unchanged, through real bash and a launcher, or is refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import product
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hpclaunch.actions.preparing.submit import prepare
from hpclaunch.actions.queueing.start import create_run
from hpclaunch.actions.system import System
from hpclaunch.config.fileformat import Environment
from hpclaunch.config.parameters import Parameter
from hpclaunch.core.errors import Refused
from hpclaunch.core.spec import Request
from hpclaunch.runs.sweep_values import values_at, write_values
from tests.builders import a_context, a_desk, a_job, a_site, planned, ready_script
from tests.property.typed_text import NASTY, file_names, plain_texts, texts, variable_names

# What every rank runs: it tells its arguments, variables and folder, as bytes.
PROBE = """\
import json, os, sys
seen = {
    "argv": [os.fsencode(word).hex() for word in sys.argv],
    "env": {os.fsencode(k).hex(): os.fsencode(v).hex() for k, v in os.environ.items()},
    "cwd": os.getcwdb().hex(),
}
open(os.environ["HPCLAUNCH_RUN_DIR"] + "/seen.json", "w").write(json.dumps(seen))
"""
# Stands in for mpirun and srun: drops its options and becomes what it was asked to start.
LAUNCHER = '#!/bin/bash\\nwhile [ "$1" != bash ]; do shift; done\\nexec "$@"\\n'.replace("\\n", "\n")


@dataclass(frozen=True)
class Seen:
    argv: list[str]
    env: dict[str, str]
    cwd: str


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a run directory, the probe, and launchers for PATH."""
    folder = tmp_path_factory.mktemp("bench")
    (folder / "bin").mkdir()
    for name in ("mpirun", "srun"):
        (folder / "bin" / name).write_text(LAUNCHER)
        (folder / "bin" / name).chmod(0o755)
    (folder / "run/code").mkdir(parents=True)
    (folder / "run/code/train.py").write_text(PROBE)
    yield folder
    assert not list(folder.rglob("pwned"))


def text(hexed: str) -> str:
    return os.fsdecode(bytes.fromhex(hexed))


def look(script: Path, run_dir: Path, bench: Path, cwd: Path, said: str = "", **variables: str) -> Seen:
    """Run the script with bash, and tell what the program saw; ``said`` is where the script's own words begin."""
    clean = {"PATH": f"{bench}/bin:/usr/bin:/bin", "HOME": "/nonexistent", "LANG": "C.UTF-8", **variables}
    done = subprocess.run(["bash", script], cwd=cwd, env=clean, capture_output=True, check=False)
    heard = done.stderr.decode(errors="surrogateescape")
    assert done.returncode == 0 and heard.startswith(said) and heard.count("\n") == bool(said), (heard, script)
    seen = json.loads((run_dir / "seen.json").read_text())
    (run_dir / "seen.json").unlink()
    environment = {text(name): text(value) for name, value in seen["env"].items()}
    return Seen(argv=[text(word) for word in seen["argv"]], env=environment, cwd=text(seen["cwd"]))


def through_bash(bench: Path, launcher: str, arguments: Sequence[str], variables: dict[str, str]) -> Seen:
    site = a_site() if launcher == "srun" else a_desk()
    job = a_job(environment=Environment(variables=variables, python=sys.executable))
    spec = planned(
        site,
        job,
        context=a_context(run_dir=str(bench / "run"), cwd=str(bench)),
        tasks_per_node=1,
        arguments=tuple(arguments),
        launcher=launcher,
    )
    return look(ready_script(spec), bench / "run", bench, bench)


@pytest.mark.parametrize("launcher", ["direct", "mpirun", "srun"])
def test_row_17_all_nasty_texts_at_once(bench: Path, launcher: str) -> None:
    plain = [nasty for nasty in NASTY if not any("\ud800" <= c <= "\udfff" for c in nasty)]
    variables = {f"V{n}": nasty for n, nasty in enumerate(plain)}
    seen = through_bash(bench, launcher, NASTY, variables)
    assert seen.argv[1:] == NASTY
    assert {name: seen.env[name] for name in variables} == variables


@given(arguments=st.lists(texts, max_size=30), variables=st.dictionaries(variable_names, plain_texts, max_size=10))
@pytest.mark.parametrize("launcher", ["direct", "mpirun"])
def test_row_17_arguments_and_variables_reach_the_program_unchanged(
    bench: Path, launcher: str, arguments: list[str], variables: dict[str, str]
) -> None:
    seen = through_bash(bench, launcher, arguments, variables)
    assert seen.argv[1:] == arguments
    assert {name: seen.env[name] for name in variables} == variables


@given(values=st.lists(texts, min_size=1, max_size=10))
def test_row_17_parameters_reach_the_program_unchanged(bench: Path, values: list[str]) -> None:
    parameters = {f"p{n}": Parameter(default="") for n in range(len(values))}
    spec = planned(
        a_desk(),
        a_job(parameters=parameters, environment=Environment(python=sys.executable)),
        context=a_context(run_dir=str(bench / "run"), cwd=str(bench)),
        tasks_per_node=1,
        settings=tuple(zip(parameters, values, strict=True)),
    )
    seen = look(ready_script(spec), bench / "run", bench, bench)
    assert seen.argv[1:] == [f"--p{n}={value}" for n, value in enumerate(values)]


def swept(bench: Path, *axes: list[str], launcher: str = "srun") -> Path:
    """Write an array that sweeps one parameter for each list of values; return its folder."""
    parameters = {"first": Parameter(default=1), **{f"p{n}": Parameter(default="") for n in range(len(axes))}}
    quoted = [",".join('"' + value.replace('"', '""') + '"' for value in values) for values in axes]
    array = bench / "array"
    (array / "code").mkdir(parents=True, exist_ok=True)
    (array / "code/train.py").write_text(PROBE)
    spec = planned(
        a_site(),
        a_job(parameters=parameters, environment=Environment(python=sys.executable)),
        context=a_context(run_dir=str(array), cwd=str(bench)),
        tasks_per_node=1,
        sweep=tuple((f"p{n}", text) for n, text in enumerate(quoted)),
        arguments=("last $HOME",),
        launcher=launcher,
    )
    assert spec.sweep is not None
    write_values(array, spec.sweep)
    ready_script(spec)
    for claims in array.glob("*/claims"):
        shutil.rmtree(claims)
    return array


def look_in_array(bench: Path, array: Path, number: int) -> Seen:
    """Run the script as Slurm would for that task of the array."""
    own = {"SLURM_ARRAY_JOB_ID": "4711", "SLURM_ARRAY_TASK_ID": str(number), "SLURM_JOB_ID": "4720"}
    name = f"{number:04}"
    return look(array / "job.sh", array / name, bench, array, said=f"hpclaunch: run {name}: ", **own)


@pytest.mark.parametrize("launcher", ["mpirun", "srun"])
def test_row_17_all_nasty_values_of_a_sweep_at_once(bench: Path, launcher: str) -> None:
    array = swept(bench, *([text] for text in NASTY), launcher=launcher)
    seen = look_in_array(bench, array, 0)
    assert seen.argv[1:] == ["--first=1", *(f"--p{n}={value}" for n, value in enumerate(NASTY)), "last $HOME"]
    assert values_at(array, 0) == {f"p{n}": value for n, value in enumerate(NASTY)}


@given(values=st.lists(texts, min_size=1, max_size=10))
def test_row_17_any_values_of_a_sweep_reach_the_program_byte_for_byte(bench: Path, values: list[str]) -> None:
    seen = look_in_array(bench, swept(bench, *([value] for value in values)), 0)
    assert seen.argv[1:] == ["--first=1", *(f"--p{n}={value}" for n, value in enumerate(values)), "last $HOME"]


def test_every_run_of_an_array_gets_its_own_line_and_its_own_folder(bench: Path) -> None:
    values = ["a\nb", "", "c d"]
    array = swept(bench, values, ["1", "2"])
    for number, (value, other) in enumerate(product(values, ["1", "2"])):
        seen = look_in_array(bench, array, number)
        assert seen.argv[1:] == ["--first=1", f"--p0={value}", f"--p1={other}", "last $HOME"]
        assert seen.cwd == seen.env["HPCLAUNCH_RUN_DIR"] == str(array / f"{number:04}")
        assert seen.env["HPCLAUNCH_CHECKPOINT_DIR"] == f"{seen.cwd}/checkpoints"
        assert (array / f"{number:04}/attempts/4711_{number}.0/exit-code").read_text() == "0\n"


@pytest.mark.parametrize("damage", ["", "0001\t--note=x\n", "0000\n", "$(touch pwned)\t--note=x\n"])
def test_an_array_whose_file_of_values_was_damaged_stops_and_says_so(bench: Path, damage: str) -> None:
    swept(bench, ["a"])
    (bench / "array/values").write_text(damage)
    variables = {"SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_JOB_ID": "4711", "PATH": f"{bench}/bin:/usr/bin:/bin"}
    done = subprocess.run(["bash", bench / "array/job.sh"], env=variables, capture_output=True, text=True)
    assert done.returncode == 78
    assert "values does not belong to run 0000" in done.stderr


@given(script=file_names, folder=file_names, runs=file_names, suffix=st.sampled_from([".py", ".sh"]))
@example(script="{run_dir}", folder="{code}", runs="a b", suffix=".sh")
@example(script="-c", folder="-p", runs="$HOME", suffix=".py")
@example(script="x", folder="a\nb", runs="runs", suffix=".py")
@example(script="x\n", folder="a", runs="runs", suffix=".sh")
def test_any_path_of_a_script_a_project_and_its_runs_works_or_is_refused(
    bench: Path, tmp_path_factory: pytest.TempPathFactory, script: str, folder: str, runs: str, suffix: str
) -> None:
    project = tmp_path_factory.mktemp("p") / folder
    project.mkdir()
    path = project / (script + suffix)
    path.write_text(PROBE if suffix == ".py" else f"exec {sys.executable} -c '{PROBE}' \"$0\"\n")
    home = {"HOME": str(bench), "XDG_STATE_HOME": str(bench / "state"), "HPCLAUNCH_SITE": "local"}
    world = System(
        cwd=project,
        environment=home,
        now=lambda: datetime(2026, 1, 2, tzinfo=timezone.utc),
        unique=lambda: "abcd",
    )
    request = Request(target=f"./{script}{suffix}", arguments=("x y",))
    try:
        run = create_run(world, prepare(world, request, runs_dir=runs))
    except Refused as refusal:
        # A control character, or a byte that is not UTF-8 (as Python spells one): the script could not name the folder.
        assert any(ord(c) < 32 or c in "\x7f\\" or "\udc80" <= c <= "\udcff" for c in folder + runs), refusal
        return
    seen = look(run.script, run.path, bench, project)
    assert seen.argv[-1] == "x y" if suffix == ".py" else seen.argv[-1].endswith(path.name)
    assert seen.cwd == str(project)
    assert seen.env["HPCLAUNCH_RUN_DIR"] == str(run.path)


def test_a_line_of_set_up_that_fails_stops_the_script_with_its_own_words(bench: Path) -> None:
    line = "false # $HOME 'it'"
    job = a_job(environment=Environment(setup=(line,), python=sys.executable))
    spec = planned(a_desk(), job, context=a_context(run_dir=str(bench / "run"), cwd=str(bench)))
    script = ready_script(spec)
    done = subprocess.run(["bash", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (78, f"hpclaunch: {line}: failed with exit code 1\n")


def test_row_20_a_missing_interpreter_is_a_clear_stop(bench: Path) -> None:
    job = a_job(environment=Environment(python="/no such/python"))
    spec = planned(a_desk(), job, context=a_context(run_dir=str(bench / "run"), cwd=str(bench)))
    script = ready_script(spec)
    done = subprocess.run(["bash", script], capture_output=True, text=True, check=False)
    assert done.returncode == 78
    assert "hpclaunch: there is no program /no such/python on " in done.stderr


def test_a_python_without_a_package_is_a_clear_stop_before_any_rank_starts(bench: Path) -> None:
    job = a_job(environment=Environment(python=sys.executable))
    spec = planned(a_desk(), job, context=a_context(run_dir=str(bench / "run"), cwd=str(bench)))
    script = ready_script(replace(spec, packages=("json", "no_such_package", "nor_this")))
    done = subprocess.run(["bash", script], capture_output=True, text=True, check=False)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 78
    assert line.startswith(f"hpclaunch: {sys.executable} on ")
    assert " has no no_such_package and nor_this, which this run needs: name another environment with --venv" in line


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_row_18_the_exit_code_of_the_rank_is_the_scripts(bench: Path, code: int) -> None:
    job = a_job(command=("bash", "-c", f"exit {code}"))
    spec = planned(a_desk(), job, context=a_context(run_dir=str(bench / "run"), cwd=str(bench)))
    script = ready_script(spec)
    for path in (bench / "run/attempts").glob("*/first-failure"):
        path.unlink()
    assert subprocess.run(["bash", script], check=False).returncode == code


def test_row_06_the_first_failing_ranks_code_wins_over_the_launchers(bench: Path) -> None:
    (bench / "bin/horovodrun").write_text('#!/bin/bash\nwhile [ "$1" != bash ]; do shift; done\n"$@"\nexit 15\n')
    (bench / "bin/horovodrun").chmod(0o755)
    job = a_job(command=("bash", "-c", "exit 7"))
    context = a_context(run_dir=str(bench / "run"), cwd=str(bench))
    spec = planned(a_desk(), job, context=context, tasks_per_node=2)
    script = ready_script(spec)
    path = {"PATH": f"{bench}/bin:/usr/bin:/bin"}
    assert subprocess.run(["bash", script], env=path, check=False).returncode == 7


@pytest.mark.parametrize("stray", ["PYTHONPATH", "PYTHONHOME", "LD_PRELOAD", "OMP_PLACES", "SLURM_NTASKS", "PMI_RANK"])
def test_row_24_strays_of_the_submitting_shell_do_not_reach_the_program(bench: Path, stray: str) -> None:
    job = a_job(command=("bash", "-c", f'[ -z "${{{stray}+set}}" ]'))
    spec = planned(a_desk(), job, context=a_context(run_dir=str(bench / "run"), cwd=str(bench)))
    script = ready_script(replace(spec, name="x"))
    strays = {"PATH": "/usr/bin:/bin", stray: "" if stray == "LD_PRELOAD" else "stray"}
    assert subprocess.run(["bash", script], env=strays, check=False).returncode == 0
