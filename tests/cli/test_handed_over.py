"""What cannot be the program of a rank is refused with the command that does what was meant; nothing is written."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence

import pytest

from tests.cli.conftest import Desk

SLURM = """#!/bin/bash
#SBATCH --job-name=resnet
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=4
#SBATCH -t 12:00:00
export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
srun python train.py --lr 0.1
"""


def refusal(desk: Desk, *words: str) -> str:
    """Type a submission that is refused, and return what was told; nothing was submitted or written."""
    before = desk.listing()
    done = desk.type("submit", *words)
    assert (done.code, done.out) == (1, ""), done.err
    assert not (desk.spool / "sbatch.args").exists()
    changed = {path for path in desk.listing().keys() ^ before.keys() if ".cache" not in path}
    assert not changed
    assert desk.type("submit", *words, "--dry-run").code == 1
    return done.err


@pytest.mark.parametrize("name", ["train.slurm", "train.sh", "job"])
@pytest.mark.parametrize("typed", [("{}",), ("--", "{}"), ("--", "bash", "{}")])
def test_a_batch_script_is_no_program_of_a_rank(cluster: Desk, name: str, typed: tuple[str, ...]) -> None:
    cluster.write(name, SLURM, mode=0o755)
    told = refusal(cluster, "--nodes", "2", *(word.format(f"./{name}") for word in typed))
    assert f"./{name}: it is a batch script: what it asks for (--job-name=resnet, --nodes=4, " in told
    assert "also srun in line 7" in told
    flags = "--nodes 4 --tasks-per-node 4 --walltime 12:00:00"
    assert f"next: hpclaunch submit --from-script ./{name} takes it in ({flags}); " in told
    assert f"hpclaunch submit --as-is ./{name} submits it unchanged\n" in told


@pytest.mark.parametrize(
    ("head", "told"),
    [
        (
            "#PBS -l select=2:ngpus=4",
            "of PBS or Grid Engine: what it asks for (#PBS -l select=2:ngpus=4)",
        ),
        ("#$ -pe mpi 16", "a batch script of PBS or Grid Engine"),
        ("#flux: -N4", "a batch script of Flux"),
        ("#BSUB -n 4", "a batch script of LSF"),
        ("#OAR -l nodes=4", "a batch script of OAR: what it asks for (#OAR -l nodes=4)"),
        ("#COBALT -n 4", "a batch script of Cobalt: what it asks for (#COBALT -n 4)"),
        ('#PJM -L "node=4"', 'a batch script of PJM: what it asks for (#PJM -L "node=4")'),
        ("#MSUB -l nodes=4", "a batch script of Moab: what it asks for (#MSUB -l nodes=4)"),
        ("# @ node = 4\n# @ queue", "a batch script of LoadLeveler: what it asks for (# @ node = 4)"),
    ],
)
def test_batch_scripts_of_other_schedulers_are_known(cluster: Desk, head: str, told: str) -> None:
    cluster.write("job.sh", f"#!/bin/bash\n{head}\nmpirun ./solver\n")
    assert told in refusal(cluster, "./job.sh")
    for flag in ("--from-script", "--as-is"):
        done = refusal(cluster, flag, "job.sh")
        assert f"it is a batch script of {told.partition(':')[0].rpartition('of ')[2]}" in done
        assert "hpclaunch submit ./job.sh names what it runs" in done


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("torchrun --nproc_per_node=4 train.py --l 1", "2 --tasks-per-node 4 --launcher torchrun ./train.py -- --l 1"),
        ("python3 -m torch.distributed.run --nproc_per_node=4 train.py", "--launcher torchrun ./train.py; or"),
        ("accelerate launch train.py", "hpclaunch submit --nodes 2 --launcher torchrun ./train.py; or"),
        ("deepspeed train.py --deepspeed", "--launcher torchrun ./train.py -- --deepspeed; or"),
        ("srun python3 train.py", "hpclaunch submit --nodes 2 ./train.py; or"),
        ("srun -N 2 -n 8 ./solver x", "hpclaunch submit --nodes 2 --tasks-per-node 4 -- ./solver x; or"),
        ("mpirun -np 8 python3 train.py", "--tasks-per-node 4 --launcher mpirun ./train.py; or"),
        ("mpiexec -n 8 ./solver", "--tasks-per-node 4 --launcher mpirun -- ./solver; or"),
        ("ibrun ./solver", "hpclaunch submit --nodes 2 -- ./solver; or"),
        ("ray start --head", "next: --tasks-per-node 1, to start it once on each node"),
        ("bash -c 'module load x && srun ./solver'", "--nodes 2 -- ./solver (without module load x); or"),
        ("mpirun -np 8 -x A --mca pml ob1 ./s", "4 --launcher mpirun -- ./s (without -x A; --mca pml ob1); or"),
        ("accelerate launch --config_file ds.yaml t.py", "torchrun ./t.py (without --config_file ds.yaml); or"),
        ("env A=1 srun -n 3 ./s", "--nodes 2 -- ./s (without env A=1; tasks 3); or"),
        ("mpirun -n 4 ./a : -n 2 ./b", "next: --nodes 1 --tasks-per-node 1 --launcher direct, to start it once"),
        ("srun --multi-prog conf", "next: --nodes 1 --tasks-per-node 1 --launcher direct, to start it once"),
        ("bash -c 'srun ./s $1' x 3", "next: --nodes 1 --tasks-per-node 1 --launcher direct, to start it once"),
        ("sbatch train.slurm", "sbatch submits a job of its own"),
    ],
)  # fmt: skip
def test_a_launcher_is_no_program_of_a_rank(cluster: Desk, typed: str, told: str) -> None:
    words = shlex.split(typed)
    assert told in refusal(cluster, "--nodes", "2", "--", *words)


PROPOSED = re.compile(
    r"hpclaunch (?:submit|shell) .*?(?=; |, when |, which | takes it in| submits it| names what| [(]|\n|$)"
)


def leads_on(desk: Desk, words: Sequence[str], seen: frozenset[str]) -> bool:
    """Whether a command, or one that its refusal proposes, is accepted; none is proposed that was typed before."""
    done = desk.type(*words, "--dry-run")
    if done.code == 0:
        return True
    assert done.code == 1, done.err
    proposed = [one.strip() for one in PROPOSED.findall(done.err) if one.strip() not in seen]
    return any(leads_on(desk, shlex.split(one)[1:], seen | {one}) for one in proposed)


@pytest.mark.parametrize(
    ("typed", "proposed"),
    [
        ("-- sbatch train.slurm", ["submit --nodes 2 --from-script train.slurm", "submit --as-is train.slurm"]),
        ("-- sbatch", []),
        ("-- sbatch none.slurm", []),
        ("-- sbatch train.py", ["submit --nodes 2 ./train.py"]),
        ("-- srun", []),
        (
            "-- sbatch -N4 --parsable ./train.slurm",
            ["submit --nodes 4 --from-script ./train.slurm", "submit --as-is ./train.slurm"],
        ),
        ("-- sbatch -N 4 --wrap='python3 train.py'", ["submit --nodes 4 -- bash -c 'python3 train.py'"]),
        ("-- sbatch --wrap 'srun ./x'", ["submit --nodes 2 -- bash -c 'srun ./x'"]),
        ("-- qsub job.pbs", ["submit --nodes 2 ./job.pbs"]),
        ("./job.pbs", ["submit --nodes 2 --tasks-per-node 4 ./train.py"]),
        ("--from-script job.pbs", ["submit ./job.pbs"]),
        ("--as-is job.pbs", ["submit ./job.pbs"]),
        ("./train.slurm", ["submit --from-script ./train.slurm", "submit --as-is ./train.slurm"]),
        ("-- salloc -N 3 -n 12 srun ./x", ["submit --nodes 3 --tasks-per-node 4 -- srun ./x"]),
        ("-- salloc -N 3", ["shell --nodes 3"]),
        ("-- srun -N 1 --pty bash -i", ["shell --nodes 1"]),
        ("-- flux run -N 2 -n 8 python3 train.py", ["submit --nodes 2 --tasks-per-node 4 ./train.py"]),
        ("-- bsub ./x", ["submit --nodes 2 -- ./x"]),
        ("-- oarsub -l nodes=2 ./x", ["submit --nodes 2 -- ./x"]),
        ("-- pjsub job.pbs", ["submit --nodes 2 ./job.pbs"]),
        ("-- accelerate launch train.py", ["submit --nodes 2 --launcher torchrun ./train.py"]),
    ],
)
def test_what_a_refusal_proposes_is_accepted_or_leads_on(cluster: Desk, typed: str, proposed: list[str]) -> None:
    cluster.write("train.slurm", SLURM)
    cluster.write("job.pbs", "#!/bin/bash\n#PBS -l select=2\nmpiexec -n 8 python3 train.py\n")
    cluster.write("x", "#!/bin/bash\n", mode=0o755)
    size = () if "--from-script" in typed or "--as-is" in typed else ("--nodes", "2")
    words = ("submit", *size, *shlex.split(typed))
    told = cluster.type(*words, "--dry-run").err if "-- " not in typed else refusal(cluster, *words[1:])
    assert [one.strip().removeprefix("hpclaunch ") for one in PROPOSED.findall(told)] == proposed, told
    for command in proposed:
        assert leads_on(cluster, shlex.split(command), frozenset({f"hpclaunch {command}"})), command


def test_the_proposed_command_repeats_what_was_typed_of_size_and_place(cluster: Desk) -> None:
    typed = ("--nodes", "2", "--partition", "gpu", "--account", "hpc1", "--walltime", "90m", "--memory", "16G")
    told = refusal(cluster, *typed, "--", "mpirun", "-np", "8", "./solver")
    place = "--account hpc1 --partition gpu --walltime 01:30:00 --memory 16G"
    assert f"hpclaunch submit --nodes 2 --tasks-per-node 4 {place} --launcher mpirun -- ./solver; or" in told


@pytest.mark.parametrize("line", ["srun python train.py", "exec torchrun train.py", "RUN='mpirun -np 2'\n$RUN ./x"])
def test_a_script_that_starts_ranks_itself_is_refused_with_the_line(cluster: Desk, line: str) -> None:
    cluster.write("run.sh", f"#!/bin/bash\nmodule load x\n{line}\n", mode=0o755)
    number = 3 + line.count("\n")
    for words in (("./run.sh",), ("--", "./run.sh")):
        assert f"./run.sh, line {number}: " in refusal(cluster, *words)


def test_one_process_of_a_launcher_may_be_asked_for(cluster: Desk) -> None:
    typed = ("--", "torchrun", "--nproc_per_node=4", "train.py")
    assert "starts ranks itself" in refusal(cluster, "--nodes", "2", *typed)
    script = cluster.type("submit", "--nodes", "2", "--tasks-per-node", "1", "--dry-run", *typed)
    assert script.code == 0 and "  torchrun --nproc_per_node=4 train.py\n" in script.out, script.err
    typed = ("--", "mpirun", "-np", "4", "./x")
    cluster.write("x", "#!/bin/bash\n", mode=0o755)
    assert "starts ranks itself" in refusal(cluster, "--nodes", "2", "--tasks-per-node", "1", *typed)
    alone = ("--nodes", "1", "--tasks-per-node", "1", "--launcher", "direct")
    assert cluster.type("submit", *alone, "--dry-run", *typed).code == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run.sh", "#!/bin/bash\n# srun python train.py\necho 'srun ./x'\npython train.py\n"),
        ("run.sh", "#!/bin/bash\ncat > job <<END\n#SBATCH -N 2\nsrun ./x\nEND\npython train.py\n"),
        ("run.sh", "#!/bin/bash\ncommand -v mpirun && module load mpirun\n./x\n"),
        ("ray_tracer.py", '"""Submit it so:\n#SBATCH --nodes=4\nsrun python ray_tracer.py\n"""\nprint("srun")\n'),
        ("train.py", "import os\r\nprint('CR LF is nothing to Python')\r\n"),
        ("run", "#!/bin/bash -l\nexec ./solver --launcher srun\n"),
    ],
)
def test_what_only_mentions_a_launcher_or_a_directive_runs(cluster: Desk, name: str, text: str) -> None:
    cluster.write(name, text, mode=0o755)
    done = cluster.type("submit", f"./{name}")
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("lines", "warned"),
    [
        ('if [ "$LOCAL_RANK" = 0 ]; then\nsrun --overlap nvidia-smi & fi\n./x', "line 3: srun starts ranks itself"),
        ('[ -n "$RANK" ] || exec srun "$0" "$@"\n./x', "line 2: srun starts ranks itself"),
        ('[ "$RANK" = 0 ] && ray start --head\n./x', "line 2: ray starts ranks itself"),
        ("cluster() {\n  mpirun ./x\n}\n./x", "line 3: mpirun starts ranks itself"),
        ('srun() { "$@"; }\nsrun ./x', ""),
        ("./x\nexit 0\nsrun ./x", ""),
    ],
)
def test_a_launcher_that_a_rank_may_not_come_to_refuses_nothing(cluster: Desk, lines: str, warned: str) -> None:
    cluster.write("run.sh", f"#!/bin/bash\n{lines}\n", mode=0o755)
    done = cluster.type("submit", "./run.sh")
    assert done.code == 0, done.err
    assert f"./run.sh, {warned}, once for every rank" in done.err if warned else "starts ranks" not in done.err


@pytest.mark.parametrize("line", ["cd x || exit 1; srun ./x", "module load x && srun ./x", "exec > log\nsrun ./x"])
def test_a_launcher_behind_a_step_that_may_fail_is_certain(cluster: Desk, line: str) -> None:
    cluster.write("run.sh", f"#!/bin/bash\n{line}\n", mode=0o755)
    assert "srun starts ranks itself" in refusal(cluster, "./run.sh")


def test_a_comment_that_tells_of_options_is_no_directive(cluster: Desk) -> None:
    cluster.write("note.py", "#SBATCH options are in run.slurm, as -N\nprint(1)\n")
    assert cluster.type("submit", "./note.py", "--dry-run").code == 0
    cluster.write("asks.py", "#!/usr/bin/env python3\n#SBATCH -N 2\nprint(1)\n")
    told = refusal(cluster, "./asks.py")
    assert "next: hpclaunch submit --nodes 2 ./asks.py, when these lines are taken out of it; or hpclaunch" in told
    cluster.write("typo.sh", "#!/bin/bash\n#SBATCH --nodez=2\n./x\n")
    assert "what it asks for (--nodez=2)" in refusal(cluster, "./typo.sh")


def test_the_command_of_a_job_file_is_its_authors_choice(cluster: Desk) -> None:
    cluster.write("jobs/own/job.yaml", "summary: x\ncommand: [mpirun, -np, '2', ./x]\n")
    done = cluster.type("submit", "own")
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("name", "text", "mode", "told"),
    [
        ("run.sh", "#!/bin/bash\r\necho a\r\n", 0o755, "run.sh: its lines end with CR LF"),
        ("run", "#!/usr/bin/env python3\r\nprint(1)\r\n", 0o755, "run: its lines end with CR LF"),
        ("run", "#!/opt/none/bin/python\n", 0o755, "run, line 1: its interpreter /opt/none/bin/python is not on this"),
        ("run", "#!/bin/bash\necho a\n", 0o644, "run: the script cannot be executed"),
        ("old.py", "import os\nprint 'epoch'\n", 0o644, "old.py, line 2: it is written for Python 2"),
        ("bad.py", "def f(:\n", 0o644, "which cannot read it: invalid syntax"),
        ("train.ipynb", '{"cells": []}', 0o644, "train.ipynb: a notebook is no program that a rank can run"),
    ],
)
def test_a_script_that_could_not_start_is_refused_before_the_queue(
    cluster: Desk, name: str, text: str, mode: int, told: str
) -> None:
    cluster.write(name, text, mode=mode)
    done = cluster.type("submit", f"./{name}")
    assert (done.code, done.err.count("error: ")) == (1, 1), done.err
    assert told in done.err and "next: " in done.err
    assert not (cluster.spool / "sbatch.args").exists() and not os.path.exists(cluster.project / "runs")


@pytest.mark.parametrize("name", ["run.sh", "run"])
def test_one_line_with_a_carriage_return_is_no_file_of_windows(cluster: Desk, name: str) -> None:
    cluster.write(name, "#!/bin/bash\nprintf 'a\r\nb\r\n'\n", mode=0o755)
    assert cluster.type("submit", f"./{name}").code == 0
