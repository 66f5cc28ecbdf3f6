"""The job that every tool submits, and the situations in which it does; nothing is run here.

The job is the same for all: program.py on four nodes with two ranks each, one GPU a rank where the situation asks for
GPUs. A situation says what is odd about the shell, the place or Slurm's answers.
"""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass, field
from typing import Any

NODES = 4
RANKS_PER_NODE = 2
RANKS = NODES * RANKS_PER_NODE
MINUTES = 10

# What a shell, a template or a parser of options could take for its own.
HOSTILE_ARGUMENTS = (
    "two words",
    "it's",
    'say "hello"',
    "line 1\nline 2",
    "$(touch command-was-run)",
    "`touch command-was-run`",
    "$HOME",
    "*",
    "--leading=dash",
    "-n",
    "a; b | c & d > e",
    "back\\slash",
    "{braces} {{ more }} %j",
    "",
    "ünïcødé ✓ 日本",
)
# Variables of the submitting shell. A module system exports functions, as the second one.
ODD_VARIABLES = {
    "ODD": 'line 1\nline 2 "quoted" it\'s $(touch command-was-run) `touch command-was-run` ; \\',
    "BASH_FUNC_module%%": '() {  echo module "$@"\n}',
}
STRAY_VARIABLES = {"STRAY": "left over from another project", "OMP_NUM_THREADS": "77"}
TYPED_VARIABLES = {"TYPED": 'two words, "quoted", it\'s $HOME'}
WATCHED = ("ODD", *STRAY_VARIABLES, *TYPED_VARIABLES)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One situation.

    shell: variables of the submitting shell beside PATH, HOME and SLURM_CONF. typed: variables that the job is asked to
    have. clean: the job is asked to have nothing else of the shell. plan: what the ranks do, read by program.py.
    """

    name: str
    about: str
    arguments: tuple[str, ...] = ()
    gpus_per_rank: int = 0
    partition: str = "batch"
    requeue: bool = False
    shell: dict[str, str] = field(default_factory=dict)
    typed: dict[str, str] = field(default_factory=dict)
    clean: bool = False
    inside: bool = False
    lost_answer: bool = False
    dry_run: bool = False
    plan: dict[str, Any] = field(default_factory=dict)

    def exports(self) -> list[str]:
        """The lines of a script that set the typed variables."""
        return [f"export {name}={shlex.quote(value)}" for name, value in self.typed.items()]

    def settings(self) -> dict[str, Any]:
        """What decides the outcome, for the file of a result."""
        return {"nodes": NODES, "ranks_per_node": RANKS_PER_NODE, **asdict(self)}


CASES = {
    case.name: case
    for case in (
        Case(
            name="plain",
            about="a shell with odd values; hostile arguments; one GPU a rank; a dry run first",
            arguments=HOSTILE_ARGUMENTS,
            gpus_per_rank=1,
            shell=ODD_VARIABLES,
            dry_run=True,
        ),
        Case(
            name="environment",
            about="variables in the shell that the job must not have, and one that it is asked to have",
            shell=STRAY_VARIABLES,
            typed=TYPED_VARIABLES,
            clean=True,
        ),
        Case(name="exit", about="rank 1 ends with 3, the others with 0", plan={"exit": {"rank": 1, "code": 3}}),
        Case(name="inside", about="submitted from inside a job of one node and one task", inside=True),
        Case(
            name="lost",
            about="sbatch queues the job, but answers with Slurm's time-out and exit code 1, once",
            lost_answer=True,
        ),
        Case(
            name="preempted",
            about="in a partition whose jobs are preempted and requeued; the first start stays through SIGTERM",
            partition="preempt",
            requeue=True,
            plan={"hold_first_start": True, "ignore_terminate": True},
        ),
        Case(
            name="terminated",
            about="in a partition whose jobs are preempted and requeued; the program knows no signals",
            partition="preempt",
            requeue=True,
            plan={"hold_first_start": True},
        ),
    )
}
