from __future__ import annotations

import shlex

import pytest

from hpclaunch.config.launch_lines import launch_line, launch_lines_in


@pytest.mark.parametrize(
    ("typed", "starter", "sizes", "program"),
    [
        ("torchrun --nproc_per_node=4 train.py --lr 1", "torchrun", {"tasks_per_node": "4"}, "python3 train.py --lr 1"),
        ("torchrun --nproc-per-node 4 -m a.b -x", "torchrun", {"tasks_per_node": "4"}, "python3 -m a.b -x"),
        ("torchrun --no_python ./run.sh", "torchrun", {}, "./run.sh"),
        ("python -m torch.distributed.launch --use_env t.py", "torchrun", {}, "python3 t.py"),
        ("python3.11 -u -m torch.distributed.run t.py", "torchrun", {}, "python3 t.py"),
        ("srun -N4 -n 16 -pgpu --mpi=pmix -u ./a.out -n 3", "srun", {"nodes": "4", "tasks": "16"}, "./a.out -n 3"),
        ("/opt/slurm/bin/srun python t.py", "srun", {}, "python t.py"),
        ("mpirun -mca btl ^openib -x PATH --bind-to none -np 8 ./x", "mpirun", {"tasks": "8"}, "./x"),
        ("mpiexec -n 8 -ppn 4 ./x", "mpiexec", {"tasks": "8", "tasks_per_node": "4"}, "./x"),
        ("accelerate launch --multi_gpu --num_processes 8 t.py", "accelerate", {"tasks": "8"}, "python3 t.py"),
        ("deepspeed --num_gpus=4 t.py --deepspeed", "deepspeed", {"tasks_per_node": "4"}, "python3 t.py --deepspeed"),
        ("horovodrun -np 4 python t.py", "horovodrun", {"tasks": "4"}, "python t.py"),
        ("colossalai run --nproc_per_node 4 t.py", "colossalai", {"tasks_per_node": "4"}, "python3 t.py"),
        ("lightning run model --devices=2 t.py", "lightning", {"tasks_per_node": "2"}, "python3 t.py"),
        ("fabric run t.py", "fabric", {}, "python3 t.py"),
        ("jsrun -n 4 -a1 python t.py", "jsrun", {}, "python t.py"),
        ("ibrun ./x", "ibrun", {}, "./x"),
        ("ray start --head", "ray", {}, ""),
        ("sbatch train.slurm", "sbatch", {}, "train.slurm"),
        ("env A=1 timeout -k 5 3h srun ./x", "srun", {}, "./x"),
        ("conda run -n pt torchrun t.py", "torchrun", {}, "python3 t.py"),
        ("apptainer exec --nv x.sif torchrun t.py", "torchrun", {}, "python3 t.py"),
        ("bash -c 'cd x && srun ./y'", "srun", {}, "./y"),
        ("nsys profile -t cuda --stats=true torchrun --nproc_per_node=4 t.py", "torchrun", {"tasks_per_node": "4"},
         "python3 t.py"),
        ("numactl --cpunodebind 0 mpirun -n 2 ./a", "mpirun", {"tasks": "2"}, "./a"),
        ("xvfb-run -a -s '-screen 0 64x64x24' srun ./a", "srun", {}, "./a"),
        ("python -u /opt/bin/torchrun t.py", "torchrun", {}, "python3 t.py"),
        ("composer -n 4 -v t.py", "composer", {"tasks_per_node": "4"}, "python3 t.py"),
        ("composer -c ./a", "composer", {}, "./a"),
        ("tune run --nproc_per_node 4 full --config c", "tune", {}, "full --config c"),
        ("singularity exec --nv -B /a:/b $SIF torchrun t.py", "torchrun", {}, "python3 t.py"),
        ("apptainer exec sandbox/ torchrun t.py", "torchrun", {}, "python3 t.py"),
        ("podman run --rm -v /a:/b img torchrun t.py", "torchrun", {}, "python3 t.py"),
        ("mpiexec.mpich -n 2 ./a", "mpiexec.mpich", {"tasks": "2"}, "./a"),
        ("mpiexecjl -n 4 julia --project=. x.jl", "mpiexecjl", {"tasks": "4"}, "julia --project=. x.jl"),
        ("ccc_mprun -n 32 -c 1 -pmilan ./a", "ccc_mprun", {"tasks": "32", "cpus_per_task": "1"}, "./a"),
        (
            "python -m paddle.distributed.launch --nproc_per_node=8 t.py",
            "paddle.distributed.launch",
            {"tasks_per_node": "8"},
            "python3 t.py",
        ),
        ("oshrun -np 2 ./a", "oshrun", {"tasks": "2"}, "./a"),
        ("flux mini run -n4 ./a", "flux", {"tasks": "4"}, "./a"),
        ("flux run -N 2 -c 8 ./a", "flux", {"nodes": "2", "cpus_per_task": "8"}, "./a"),
        ("sbatch -N2 --parsable ./job.slurm x", "sbatch", {"nodes": "2"}, "./job.slurm x"),
    ],
)  # fmt: skip
def test_a_launcher_is_known_with_what_it_starts(typed: str, starter: str, sizes: dict[str, str], program: str) -> None:
    line = launch_line(shlex.split(typed))
    assert line is not None
    assert (line.starter, dict(line.sizes), " ".join(line.program)) == (starter, sizes, program)


@pytest.mark.parametrize(
    "typed",
    [
        "python ray_tracer.py",
        "./ray_tracer.py",
        "srun --version",
        "mpirun --help",
        "horovodrun --check-build",
        "accelerate config",
        "ray --version",
        "command -v srun",
        "echo srun ./x",
        "bash -c 'echo srun'",
        "python -m mpi4py x.py",
        "python -m torch.utils.collect_env",
        "python train.py --launcher torchrun",
        "apptainer exec x.sif python t.py srun",
        "python -c 'print(1)' -m torch.distributed.run",
        "env",
        "srun --mpi list",
        "tune run lora_finetune_single_device --config c",
        "python bin/tool.py srun ./x",
        "python ./ray start",
        "apptainer exec sandbox/ python t.py srun",
        "podman run img python t.py torchrun",
        "nsys stats torchrun report.nsys-rep",
    ],
)
def test_what_only_names_a_launcher_is_none(typed: str) -> None:
    assert launch_line(shlex.split(typed)) is None


def test_the_launch_lines_of_a_script_are_found_with_their_lines() -> None:
    text = """#!/bin/bash
# srun in a comment
echo "srun ./x"
which mpirun
export RUN="srun -n 4"
cat <<END
mpirun ./x
END
$RUN ./a
if true; then mpirun -np 2 ./b & fi
"""
    found = [(line.line, line.starter, line.program) for line in launch_lines_in(text)]
    assert found == [(9, "srun", ("./a",)), (10, "mpirun", ("./b",))]


@pytest.mark.parametrize(
    "text", ["RUN=srun\nRUN=echo\n$RUN x", "RUN=$(which srun)\n$RUN x", "if a; then R=srun; fi\n$R x"]
)
def test_a_variable_with_an_unknown_value_starts_nothing_that_is_known(text: str) -> None:
    assert launch_lines_in(text) == []


def test_an_array_that_begins_with_a_launcher_is_a_launch_line() -> None:
    found = launch_lines_in('cmd=(srun -n 4\n ./a)\n"${cmd[@]}" x\nfiles=(a b)\n"${files[@]}"\n')
    assert [(line.line, line.program) for line in found] == [(3, ("./a", "x"))]


def test_a_script_that_is_not_closed_has_none() -> None:
    assert launch_lines_in("srun 'x") == []
