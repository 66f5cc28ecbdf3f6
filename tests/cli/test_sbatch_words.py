"""Every option of sbatch, typed at ``submit``, is answered by a command line that is accepted, or by what does it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from hpclaunch import cli

# sbatch(1) of Slurm 22.05, and what 23.02 to 24.05 have added; with a value as a person would type it.
HAS_A_FLAG = {
    "--dependency=afterok:1:2": "--after 1 --after 2",
    "--dependency=singleton": "--after singleton",
    "--export=ALL,DEPTH=3": "--env DEPTH=3",
    "--gres=gpu:4": "--gpus-per-node 4",
    "--gres=gpu:a100:4": "--gpus-per-node 4",
    "--job-name=first": "--name first",
    "--mem=4G": "--memory 4G",
    "--ntasks=4": "--nodes 1 --tasks-per-node 4",
    "--ntasks-per-node=2": "--tasks-per-node 2",
    "--parsable": "--json",
    "--time=10": "--walltime 10",
    "--usage": "--help",
}
PASSED_ON = """
    --acctg-freq=30 --batch=haswell --bb=capacity=1G --bbf=buffer.txt --begin=now+1hour --cluster-constraint=fast
    --comment=text --constraint=fast --contiguous --core-spec=2 --cores-per-socket=8 --cpu-freq=high
    --deadline=2030-01-01 --delay-boot=5 --distribution=block --exclude=n1 --exclusive --extra=text
    --extra-node-info=2:8:1 --get-user-env --gid=100 --gpu-bind=closest --gpu-freq=high --gpus-per-socket=1
    --gres=lustre:1 --gres-flags=enforce-binding --hint=nomultithread --hold --ignore-pbs --kill-on-invalid-dep=yes
    --licenses=matlab:1 --mail-type=END --mail-user=me@example.org --mcs-label=x --mem-bind=local --mem-per-cpu=2G
    --mem-per-gpu=16G --mincpus=4 --network=verbs --nice --no-kill --no-requeue --nodefile=nodes.txt --nodelist=n2
    --ntasks-per-core=1 --ntasks-per-socket=2 --oom-kill-step=1 --overcommit --oversubscribe --power=level
    --prefer=fast --priority=10 --profile=task --propagate --reboot --requeue --reservation=school --resv-ports=4
    --segment=2 --sockets-per-node=2 --spread-job --stepmgr --switches=1 --thread-spec=2 --threads-per-core=1
    --time-min=5 --tmp=10G --tres-bind=gres/gpu:single:1 --uid=1000 --use-min-nodes --wait-all-nodes=1 --wckey=key
    --clusters=other --dependency=after:1+5 --cpus-per-gpu=2 --container-id=c1 --immediate --tres-per-task=license/x:1
"""
DONE_IN_ANOTHER_WAY = {
    "--array=1-10": "--sweep NAME=1..10, with {NAME} after --",
    "--chdir=/tmp": "cd to that folder, and leave it out",
    "--container=image": "'environment: container:' in the settings",
    "--error=log.err": "",
    "--export-file=env.txt": "--env NAME=VALUE",
    "--gpus=8": "--nodes N --gpus-per-node N",
    "--gpus-per-task=1": "--nodes N --gpus-per-node N",
    "--input=in.txt": "read the file in the program",
    "--mem=0": "--memory SIZE",
    "--ntasks-per-gpu=1": "use --tasks-per-node instead",
    "--open-mode=append": "",
    "--output=log.out": "",
    "--version": "hpclaunch --version",
    "--wrap=ls -l": "hpclaunch submit ./train.py --account m1 --dry-run -- bash -c 'ls -l'",
}
LETTERS = {
    "-n 4": "--nodes 1",
    "-C fast": "--sbatch --constraint=fast",
    "-d afterany:7": "--after-any 7",
    "-H": "--sbatch --hold",
    "-w n1": "--sbatch --nodelist=n1",
    "-x n1": "--sbatch --exclude=n1",
    "-L matlab": "--sbatch --licenses=matlab",
    "-b now": "--sbatch --begin=now",
    "-m block": "--sbatch --distribution=block",
    "-B 2:8": "--sbatch --extra-node",
    "-G 8": "--nodes N --gpus-per-node N",
    "-a 1-3": "--sweep",
    "-o x.log": "submit ./train.py --account m1 --dry-run\n",
}


SITE = """
title: made up
scheduler: slurm
defaults: {node_type: gpu, partition: batch, walltime: "00:10:00"}
node_types:
  gpu: {title: x, nodes: 8, cores_per_node: 8, gpus_per_node: 4, gpu_model: NVIDIA A100}
partitions: {batch: {}, debug: {}}
launchers: {default: srun, options: {srun: {mpi: pmix}}}
gpus: {directive: gpus-per-node}
environment: {python: current}
"""


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    """Type a command line in a folder with a script; return its error without the verb, empty where it is accepted."""
    (tmp_path / "train.py").write_text("print('hello')\n")
    (tmp_path / "site_configs").mkdir()
    (tmp_path / "site_configs/made-up.yaml").write_text(SITE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HPCLAUNCH_SITE", "made-up")
    monkeypatch.setenv("PATH", "/nowhere")

    def type_words(words: list[str]) -> str:
        with pytest.raises(SystemExit) as ended:
            cli.main(words)
        told = capsys.readouterr().err
        assert bool(ended.value.code) == ("error: " in told), told
        return told.partition("error: ")[2].removeprefix("hpclaunch submit: ").replace("    next: ", "")

    return type_words


def words_of(option: str) -> list[str]:
    return ["submit", "./train.py", "--account", "m1", "--dry-run", *shlex.split(option)]


def next_of(told: str) -> list[str]:
    """The words behind hpclaunch of the command that is proposed."""
    (line,) = [line for line in told.splitlines() if line.startswith("hpclaunch ")]
    return shlex.split(line)[1:]


@pytest.mark.parametrize(("option", "instead"), [*HAS_A_FLAG.items(), *LETTERS.items()])
def test_an_option_with_a_flag_here_is_replaced_by_it(option: str, instead: str, typed) -> None:  # type: ignore[no-untyped-def]
    told = typed(words_of(option))
    assert "is an option of sbatch" in told and f"{instead}" in told
    if told.splitlines()[1].startswith("hpclaunch "):
        assert typed(next_of(told)) == ""


@pytest.mark.parametrize("letters", ["-A m1 -N 2 -t 10 -p debug -c 2 -J first", "-N2 -t10 -Jfirst"])
def test_letters_of_sbatch_that_mean_the_same_are_understood(letters: str, typed) -> None:  # type: ignore[no-untyped-def]
    assert typed(words_of(letters)) == ""


# sbatch excludes the two from what hpclaunch writes, or hpclaunch reads it otherwise: the next question says so.
NEXT_QUESTIONS = {"--cpus-per-gpu=2": "use --cpus-per-task instead"}


@pytest.mark.parametrize("option", PASSED_ON.split())
def test_any_other_option_is_passed_on_by_a_command_that_is_accepted(option: str, typed) -> None:  # type: ignore[no-untyped-def]
    told = typed(words_of(option))
    assert "is an option of sbatch" in told
    if option in NEXT_QUESTIONS:
        assert NEXT_QUESTIONS[option] in told
        return
    assert next_of(told)[-2:] == ["--sbatch", option]
    assert typed(next_of(told)) == ""


@pytest.mark.parametrize(("option", "instead"), DONE_IN_ANOTHER_WAY.items())
def test_where_none_does_the_same_it_is_said_what_does(option: str, instead: str, typed) -> None:  # type: ignore[no-untyped-def]
    what, next_step = typed([*words_of("")[:5], option]).splitlines()
    assert what.startswith(f"{option.partition('=')[0]} is an option of sbatch")
    assert next_step == instead or (not instead and typed(shlex.split(next_step)[1:]) == "")


def test_what_sbatch_has_not_either_is_compared_with_the_options_here(typed) -> None:  # type: ignore[no-untyped-def]
    assert "there is no option --noodles; did you mean '--nodes'?" in typed(words_of("--noodles=2"))
    assert "there is no option -Z" in typed(words_of("-Z"))


def test_the_program_s_own_arguments_are_its_own(typed) -> None:  # type: ignore[no-untyped-def]
    told = typed([*words_of("--mem 4G"), "--", "--mem", "8G", "a b"])
    assert told.splitlines()[1].endswith("--dry-run --memory 4G -- --mem 8G 'a b'")


@pytest.mark.parametrize(
    ("attached", "instead"),
    [
        ("-pdebug -d afterok:1", "-pdebug --after 1"),
        ("-Jtrain -n 4", "-Jtrain --nodes 1 --tasks-per-node 4"),
        ("-N2 -n 8", "-N2 --tasks-per-node 4"),
        ("--nodes=2 -n 8", "--nodes=2 --tasks-per-node 4"),
        ("-n 8 -- -N 4", "--nodes 1 --tasks-per-node 8 -- -N 4"),
    ],
)
def test_values_beside_their_letters_and_behind_the_dashes_are_no_options(  # type: ignore[no-untyped-def]
    attached: str, instead: str, typed
) -> None:
    assert typed(words_of(attached)).splitlines()[1].endswith(f"--dry-run {instead}")


def test_a_long_command_line_is_not_repeated(typed) -> None:  # type: ignore[no-untyped-def]
    told = typed([*words_of("--mem 4G"), "--", *["word"] * 100])
    assert told.splitlines()[1] == "--memory 4G"
