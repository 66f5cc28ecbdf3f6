from __future__ import annotations

from typing import Any

import pytest

from hpclaunch.config.batch_taking import TakenScript, take


def taken(
    head: str, body: str = "srun ./x", typed: tuple[str, ...] = (), arguments: tuple[str, ...] = ()
) -> TakenScript:
    return take(f"#!/bin/bash\n{head}\n{body}\n", "./t.slurm", frozenset(typed), arguments)


def values_of(head: str, body: str = "srun ./x") -> dict[str, Any]:
    found = taken(head, body)
    assert not found.faults, found.faults
    return found.values


def faults_of(head: str, body: str = "srun ./x", typed: tuple[str, ...] = ()) -> list[str]:
    return [f"{fault.where}: {fault.what}" for _, fault in taken(head, body, typed).faults]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("", {"nodes": 1, "tasks_per_node": 1, "cpus_per_task": 1, "gpus_per_node": 0}),
        ("#SBATCH -N4", {"nodes": 4, "tasks_per_node": 1}),
        ("#SBATCH -N 2 -n 8 -c 4", {"nodes": 2, "tasks_per_node": 4, "cpus_per_task": 4}),
        ("#SBATCH --ntasks=8 --tasks-per-node=4", {"nodes": 2, "tasks_per_node": 4}),
        ("#SBATCH -t 1-12:00", {"walltime": 129600}),
        ("#SBATCH --mem=100G -p gpu -q long", {"memory": 102400, "partition": "gpu", "qos": "long"}),
        ("#SBATCH --gres=gpu:a100:4", {"gpus_per_node": 4, "sbatch": ()}),
        ("#SBATCH --gres=gpu:2,nvme:100", {"gpus_per_node": 2, "sbatch": ("--gres=nvme:100",)}),
        ("#SBATCH -N2 --gpus=8", {"gpus_per_node": 4}),
        ("#SBATCH -N2 -n8 --gpus-per-task=1", {"gpus_per_node": 4}),
        ("#SBATCH --gpus-per-node=h100:4", {"gpus_per_node": 4}),
        (
            "#SBATCH -C a100 --signal=B:USR1@60 --mail-type=END,FAIL --mem-per-cpu=2G",
            {"sbatch": ("--constraint=a100", "--signal=B:USR1@60", "--mail-type=END,FAIL", "--mem-per-cpu=2G")},
        ),
        ("#SBATCH --export=ALL,A=1,B=x", {"variables": (("A", "1"), ("B", "x"))}),
        ("#SBATCH -N 1\n#SBATCH -N 3", {"nodes": 3}),
    ],
)  # fmt: skip
def test_directives_become_the_request(head: str, expected: dict[str, Any]) -> None:
    values = values_of(head)
    assert {name: values.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("srun -n 8 --ntasks-per-node=4 ./x a", {"launcher": "srun", "tasks_per_node": 4, "target": "./x"}),
        ("srun --gpus-per-node=4 ./x", {"gpus_per_node": 4}),
        ("mpirun -np 8 ./x", {"launcher": "mpirun", "tasks_per_node": 4}),
        ("mpirun ./x", {"launcher": "mpirun", "tasks_per_node": 2}),
        ("srun torchrun --nnodes=2 --nproc_per_node=4 t.py -x", {"launcher": "torchrun", "tasks_per_node": 4}),
        ("srun apptainer exec --nv i.sif python t.py", {"launcher": "srun", "target": "apptainer"}),
        ("exec srun ./x", {"launcher": "srun", "target": "./x"}),
    ],
)  # fmt: skip
def test_a_launch_line_becomes_launcher_and_program(body: str, expected: dict[str, Any]) -> None:
    values = values_of("#SBATCH -N2 --ntasks-per-node=2", body)
    assert {name: values.get(name) for name in expected} == expected
    assert values["is_command"] is True and values["framework"] == "none"


def test_set_up_lines_stay_as_they_stand_and_expansions_are_left_to_the_script() -> None:
    body = "module load a\nexport N=$SLURM_CPUS_PER_TASK\nif x; then\n  y\nfi\nsrun ./x --data \"$D/a b\" 'c d'"
    values = values_of("", body)
    assert values["setup"][0] == "module load a\nexport N=$SLURM_CPUS_PER_TASK\nif x; then\n  y\nfi"
    assert values["setup"][1].startswith("BATCH_SCRIPT_PROGRAM=$(printf '%q ' ./x --data \"$D/a b\" 'c d')")
    assert (values["target"], values["arguments"]) == ("bash", ("-c", 'eval "exec $BATCH_SCRIPT_PROGRAM"'))


def test_options_of_the_shell_end_with_the_set_up_and_another_folder_is_entered() -> None:
    values = values_of("", "set -euo pipefail\ncd sub\nsrun ./x")
    assert values["setup"] == ("set -euo pipefail\ncd sub", "set +eux +o pipefail", "export BATCH_SCRIPT_FOLDER=$PWD")
    assert values["arguments"] == ("-c", 'cd "$BATCH_SCRIPT_FOLDER" && exec "$@"', "bash", "./x")
    assert values_of("", "cd $SLURM_SUBMIT_DIR\nsrun ./x")["target"] == "./x"


def test_without_a_launch_line_the_last_command_is_the_program() -> None:
    values = values_of("#SBATCH --gres=gpu:1", "module load a\npython train.py --lr 0.1\necho done")
    program = (values["target"], *values["arguments"])
    assert (values["launcher"], program) == ("direct", ("python", "train.py", "--lr", "0.1"))
    (told,) = faults_of("#SBATCH -n4 -N1", "python t.py")
    assert told.startswith("./t.slurm: it starts its program once in a job of 4 tasks")


@pytest.mark.parametrize(
    ("head", "body", "told"),
    [
        ("#SBATCH --array=1-3", "srun ./x", "line 2: --array=1-3 cannot be taken"),
        ("#SBATCH --ntasks=4", "srun ./x", "line 2: --ntasks=4 without --nodes"),
        ("#SBATCH -N2 -n5", "srun ./x", "line 2: 5 tasks cannot be spread evenly"),
        ("#SBATCH -N 2-4", "srun ./x", "line 2: --nodes=2-4 cannot be taken"),
        ("#SBATCH -J 1a", "srun ./x", "line 2: --job-name=1a: no run can have this name"),
        ("#SBATCH --mem=0", "srun ./x", "line 2: --mem=0 cannot be taken"),
        ("#SBATCH -D /x", "srun ./x", "line 2: --chdir=/x cannot be taken"),
        ("#SBATCH --container-image=x", "srun ./x", "line 2: --container-image=x cannot be taken"),
        ("#SBATCH --nodse=2", "srun ./x", "line 2: sbatch has no option --nodse=2; did you mean --nodes?"),
        ("#PBS -l nodes=2", "mpirun ./x", "it is a batch script of PBS or Grid Engine"),
        ("", "srun ./a &\nsrun ./b &\nwait", "line 4: it starts several steps (line 3: srun, line 4: srun)"),
        ("", "for i in 1 2; do srun ./x $i; done", "line 3: the launch line stands in a loop"),
        ("", "srun ./x > log", "line 3: the launch line has > log"),
        ("", "srun ./x | tee log", "line 3: the launch line is joined by | to something else"),
        ("", "srun ./x\ncp out /archive", "line 4: 'cp out /archive' stands behind the launch line"),
        ("", "trap 'x' USR1\nsrun ./x", "line 3: trap 'x' USR1: hpclaunch's own script cannot have it"),
        ("", "srun --multi-prog x.conf", "line 3: srun --multi-prog"),
        ("", "srun --output=x.%t ./x", "line 3: srun --output=x.%t cannot be taken"),
        ("", "timeout 1h srun ./x", "line 3: timeout 1h stands before srun"),
        ("", "ray start --head", "line 3: ray cannot be taken as the launcher of a run"),
        ("", "srun 'x", "it cannot be read as a shell script"),
    ],
)
def test_what_cannot_be_taken_is_named_with_its_line(head: str, body: str, told: str) -> None:
    assert any(told in fault for fault in faults_of(head, body)), faults_of(head, body)
    assert all("--as-is" in fault.next for _, fault in taken(head, body).faults)


def test_a_typed_value_makes_good_what_cannot_be_taken() -> None:
    assert faults_of("#SBATCH --ntasks=4", typed=("nodes",)) == []
    assert faults_of("#SBATCH --mem=0 -J 1a", typed=("memory", "name")) == []


def test_every_directive_and_line_is_shown_or_remarked() -> None:
    head = "#SBATCH -N2 --mem=1G -o x.%j --export=ALL"
    found = taken(head, "module load a\nsrun -u ./x\necho end\n#SBATCH -t 5", typed=("memory",))
    shown = dict(found.shown)
    assert shown["--mem=1G"] == "--memory is typed instead"
    assert shown["--output=x.%j"].startswith("left out: the log is in the run directory")
    assert shown["module load a"] == "set-up" and shown["./x"] == "the program"
    assert shown["--nodes=2"].startswith("--nodes 2 --tasks-per-node 1")
    remarks = "\n".join(found.remarks)
    assert "#SBATCH behind the first command (line 6)" in remarks and "echo end" in remarks
    assert (
        "--export=ALL: the variables of this shell stay outside" in remarks and "hpclaunch has its own: -u" in remarks
    )


def test_the_scripts_own_arguments_are_set_before_its_lines() -> None:
    assert taken("", 'srun ./x "$1"', arguments=("a b", "c")).values["setup"][0] == "set -- 'a b' c"


def test_a_script_of_another_language_is_refused() -> None:
    found = take("#!/usr/bin/env python3\n#SBATCH -N2\nprint(1)\n", "./t.py")
    assert any("names no shell" in fault.what for _, fault in found.faults)
