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
        ("#SBATCH -M cm4 -p cm4_std", {"partition": "cm4_std", "sbatch": ("--clusters=cm4",)}),
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


def test_a_step_that_only_tells_something_is_no_program() -> None:
    """Found in a centre's example for GPUs: srun nvidia-smi before the training."""
    found = taken("", "module load x\nsrun nvidia-smi\nsource env/bin/activate\nsrun python train.py\nsrun date")
    assert not found.faults
    assert found.values["setup"] == ("module load x\nsrun nvidia-smi\nsource env/bin/activate",)
    assert (found.values["target"], found.values["arguments"]) == ("python", ("train.py",))
    assert any("left out, as it stands behind the launch line: srun date" in text for text in found.remarks)
    assert values_of("", "srun -n1 hostname\nsrun uname -a")["target"] == "uname"


def test_a_program_in_a_variable_is_taken_as_it_stands() -> None:
    values = values_of("", 'CMD="python train.py $X"\nsrun $CMD')
    assert (values["target"], values["launcher"]) == ("bash", "srun")


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
        ("", "srun hostname\nsrun ./a\nsrun ./b", "line 5: it starts several steps (line 4: srun, line 5: srun)"),
        ("", 'ARGS="--wait 60 -n $N"\nsrun $ARGS ./x', "line 4: options of srun stand in $ARGS, which only the script"),
        ("", 'A=" \\\n  --jobid $J \\\n  "\nsrun ${A} ./x', "line 6: options of srun stand in $A, which only the scri"),
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
    next_step = "hpclaunch submit ./" if "#PBS" in head else "--as-is"
    assert all(next_step in fault.next for _, fault in taken(head, body).faults)


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
    assert ["names no shell" in fault.what for _, fault in found.faults] == [True]
    assert found.shown == ()


@pytest.mark.parametrize(
    ("head", "body", "expected"),
    [
        ("#SBATCH -N 1", "NP=4\nmpirun -np $NP ./x", {"tasks_per_node": 4}),
        ("#SBATCH -N 2 --gpus-per-node=4", "srun -n $((SLURM_NNODES*4)) ./x", {"tasks_per_node": 4}),
        ("#SBATCH -N 2", "GPUS=4\nsrun --ntasks-per-node=$GPUS --ntasks=$((GPUS*2)) ./x", {"tasks_per_node": 4}),
        ("#SBATCH -N 2", "export A=3\nB=$(( (A + 1) * SLURM_NNODES ))\nmpirun -n ${B} ./x", {"tasks_per_node": 4}),
        ("#SBATCH -N 2 --export=NP=6", "mpirun -n $NP ./x", {"tasks_per_node": 3}),
        ("#SBATCH -N 2 -n 8 -c 3", "srun -n $SLURM_NTASKS -c $SLURM_CPUS_PER_TASK ./x", {"cpus_per_task": 3}),
        ("#SBATCH --gres=gpu:2", "torchrun --nproc_per_node=$SLURM_GPUS_ON_NODE t.py", {"tasks_per_node": 2}),
        ("#SBATCH --gres=gpu:2", "N=$(nvidia-smi -L|wc -l)\ntorchrun --nproc-per-node=$N t.py", {"tasks_per_node": 2}),
        ("#SBATCH --gres=gpu:2", "torchrun --nproc_per_node=gpu t.py", {"tasks_per_node": 2}),
        ("", "srun --gpus-per-node=a100:4 ./x", {"gpus_per_node": 4}),
    ],
)  # fmt: skip
def test_numbers_of_the_launch_line_may_be_variables_and_arithmetic(
    head: str, body: str, expected: dict[str, Any]
) -> None:
    values = values_of(head, body)
    assert {name: values.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("body", "told", "cure"),
    [
        ("mpirun -np $NP ./x", "tasks '$NP' cannot be taken", "tasks_per_node"),
        ("NP=4\n[ -d a ] && NP=8\nmpirun -np $NP ./x", "tasks '$NP' cannot be taken", "tasks_per_node"),
        ("[ -d a ] && NP=8\nmpirun -np $NP ./x", "tasks '$NP' cannot be taken", "tasks_per_node"),
        ("NP=4\nread NP\nmpirun -np $NP ./x", "tasks '$NP' cannot be taken", "tasks_per_node"),
        ("mpirun -np $(nproc) ./x", "tasks '$(nproc)' cannot be taken", "tasks_per_node"),
        ("srun -n $((2**9)) ./x", "tasks '$((2**9))' cannot be taken", "tasks_per_node"),
        ("srun -n $((1-9)) ./x", "tasks '$((1-9))' cannot be taken", "tasks_per_node"),
        ("srun -n 0 ./x", "tasks '0' cannot be taken", "tasks_per_node"),
        ("srun -N 1-2 ./x", "nodes '1-2' cannot be taken", "nodes"),
        ("srun -c $C ./x", "cpus per task '$C' cannot be taken", "cpus_per_task"),
        ("torchrun --nproc_per_node=gpu t.py", "tasks per node 'gpu' cannot be taken", "tasks_per_node"),
    ],
)
def test_a_number_that_only_the_run_knows_is_asked_for(body: str, told: str, cure: str) -> None:
    (fault,) = [fault for _, fault in taken("", body).faults]
    assert told in fault.what and fault.next.startswith(f"--{cure.replace('_', '-')} N")
    assert faults_of("", body, typed=(cure,)) == []


@pytest.mark.parametrize(
    ("head", "body", "cpus"),
    [
        ("#SBATCH -N 1 --gpus-per-node=4 --exclusive", "srun -N 1 -n 4 -c 16 python train.py", 16),
        ("#SBATCH -N 2 -c 4", "srun -n 4 -c 16 ./x", 16),
        ("#SBATCH -N 2 --gpus-per-node=4", "srun --ntasks-per-node=1 -c 32 torchrun --nproc_per_node=4 t.py", 8),
        ("#SBATCH -N 1 -c 32", "srun torchrun --nproc_per_node=4 t.py", 8),
    ],
)
def test_the_cpus_of_the_launch_line_count_more_than_those_of_the_job(head: str, body: str, cpus: int) -> None:
    assert values_of(head, body)["cpus_per_task"] == cpus


def test_folder_and_variables_of_the_launch_line_are_those_of_the_program() -> None:
    values = values_of("", "srun --chdir=exp1 --export=ALL,BAR=2 python show.py")
    assert values["setup"] == ('export BATCH_SCRIPT_FOLDER="$PWD"/exp1', "export BAR=2")
    assert values["arguments"] == ("-c", 'cd "$BATCH_SCRIPT_FOLDER" && exec "$@"', "bash", "python", "show.py")
    assert values_of("", "mpirun -x A=1 -x B -genv C 3 ./x")["setup"] == ("export A=1", "export C=3")
    late = values_of("", "srun --export=ALL,BAR=2 ./x $BAR")["setup"]
    assert late[-1] == "export BAR=2" and late[0].startswith("BATCH_SCRIPT_PROGRAM=")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("srun --export=NONE ./x", "srun --export=NONE cannot be taken"),
        ("srun --export=ALL,A=$B ./x", "the value of A is known only to the script"),
        ("srun -D $D ./x", "srun -D $D cannot be taken"),
        ("srun -oout ./x", "srun -oout cannot be taken"),
        ("srun -i in.txt ./x", "srun -i in.txt cannot be taken"),
    ],
)
def test_options_that_change_the_program_are_not_lost(body: str, told: str) -> None:
    assert any(told in fault for fault in faults_of("", body)), faults_of("", body)


def test_only_options_that_hpclaunch_replaces_are_said_to_be_replaced() -> None:
    remarks = taken("", "mpirun -report-bindings -oversubscribe --mca pml ob1 ./x").remarks
    assert "in place of these options of mpirun hpclaunch has its own: -report-bindings -oversubscribe" in remarks
    assert "left out, as hpclaunch takes no such options of mpirun: --mca pml ob1" in remarks


def test_a_part_of_a_heterogeneous_job_a_name_and_all_memory_are_told_as_what_they_are() -> None:
    assert "hetjob begins a further part of a heterogeneous job" in faults_of("#SBATCH -N1\n#SBATCH hetjob")[0]
    assert values_of("#SBATCH -J 'my job'")["name"] == "my-job"
    assert "asks for all memory of a node" in faults_of("#SBATCH --mem=0")[0]
