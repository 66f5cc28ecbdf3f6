from __future__ import annotations

import pytest

from hpclaunch.config.batch_script import head_of, near_option, split_directive


def options_of(text: str) -> list[str]:
    return [str(one) for one in head_of(f"#!/bin/bash\n{text}\n").directives]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("-N4 -t 1-12:00", ["-N4", "-t", "1-12:00"]),
        ('--job-name="a b" # a comment', ["--job-name=a b"]),
        ("--comment='it # stays' --mem=1G", ["--comment=it # stays", "--mem=1G"]),
        (r"--comment=a\ b\#c", ["--comment=a b#c"]),
        ("-p gpu#cpu", ["-p", "gpu"]),
        ("--comment ''", ["--comment", ""]),
    ],
)
def test_a_directive_is_divided_as_sbatch_divides_it(line: str, words: list[str]) -> None:
    assert split_directive(line) == words


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("#SBATCH --nodes=4 --time 12:00:00", ["--nodes=4", "--time=12:00:00"]),
        ("#SBATCH -N4 -t 1-12:00 -p gpu", ["--nodes=4", "--time=1-12:00", "--partition=gpu"]),
        ("#SBATCH -HN 4", ["--hold", "--nodes=4"]),
        ("#SBATCH --exclusive --nodes 2", ["--exclusive", "--nodes=2"]),
        ("#SBATCH --exclusive=user --gres=gpu:a100:4", ["--exclusive=user", "--gres=gpu:a100:4"]),
        ("#SBATCH --ntasks-per-n 4", ["--ntasks-per-node=4"]),
        ("\n# a comment\n\n#SBATCH -n 1\r", ["--ntasks=1"]),
        ("##SBATCH -n 1\n# SBATCH -n 2\n #SBATCH -n 3", []),
    ],
)
def test_the_options_of_a_batch_script_have_their_long_names(text: str, options: list[str]) -> None:
    assert options_of(text) == options


def test_lines_behind_the_first_command_are_told_apart() -> None:
    head = head_of("#!/bin/bash\n#SBATCH -N 1\nmodule load x\n#SBATCH -t 1:00\ncat <<E\n#SBATCH -p y\nE\n")
    assert ([str(one) for one in head.directives], head.late) == (["--nodes=1"], (4, 6))


def test_what_is_no_option_is_named_with_its_line() -> None:
    head = head_of("#!/bin/bash\n#SBATCH --nodse=4 gpu -Z1\n")
    assert head.unknown == ((2, "--nodse=4"), (2, "gpu"), (2, "-Z1"))
    assert near_option("--nodse=4") == "nodes"


@pytest.mark.parametrize(
    ("line", "scheduler"),
    [
        ("#PBS -l select=4", "PBS or Grid Engine"),
        ("#$ -pe mpi 64", "PBS or Grid Engine"),
        ("#BSUB -n 4", "LSF"),
        ("#flux: -N4", "Flux"),
        ("# flux: --nodes=4", "Flux"),
        ("#OAR -l nodes=4/gpu=4,walltime=2:00:00", "OAR"),
        ("#OAR --project lab", "OAR"),
        ("#COBALT -n 4 -t 60", "Cobalt"),
        ("#COBALT --attrs mcdram=flat", "Cobalt"),
        ('#PJM -L "node=8"', "PJM"),
        ("#PJM --rsc-list elapse=1:00:00", "PJM"),
        ("#MSUB -l nodes=2:ppn=16", "Moab"),
        ("# @ job_type = parallel", "LoadLeveler"),
        ("#@ node=4", "LoadLeveler"),
        ("# @ network.MPI = sn_all,not_shared,us", "LoadLeveler"),
        ("# @ queue\r", "LoadLeveler"),
        ("# @ author = a person", ""),
        ("# @queue of papers to read", ""),
        ("#OARS and other boats", ""),
        ("# OAR -l is not used here", ""),
        ("#PJM was our scheduler", ""),
        ("#$Id: train.py 12 $", ""),
        ("# PBS is not used here", ""),
        ("# flux: the result of a measurement", ""),
    ],
)
def test_directives_of_other_schedulers_are_known(line: str, scheduler: str) -> None:
    head = head_of(f"#!/bin/bash\n{line}\ntrue\n")
    assert (head.scheduler, head.is_empty) == (scheduler, not scheduler)


@pytest.mark.parametrize(
    "text",
    [
        '#!/usr/bin/env python3\n"""Usage:\n\n#SBATCH --nodes=4\n"""\n',
        "#!/bin/bash\ncat > job <<END\n#SBATCH --nodes=4\n#PBS -l x\nEND\n",
        "#!/bin/bash\n",
        "",
    ],
)
def test_a_script_that_only_contains_directives_as_text_asks_for_nothing(text: str) -> None:
    assert head_of(text).is_empty
