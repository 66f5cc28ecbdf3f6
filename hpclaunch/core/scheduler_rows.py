"""What the steps around a submission must know of each scheduler: one row a scheduler, and nothing that acts.

What a scheduler does is in ``schedulers/``, in the module that its row names; here is what can be known without it.
"""

from __future__ import annotations

from collections.abc import Iterable

from hpclaunch.core.errors import Fault, NotFound, did_you_mean
from hpclaunch.core.records import record


@record
class SchedulerRow:
    """One scheduler. Texts may be empty where there is nothing of the kind."""

    title: str
    """How a sentence names it."""
    module: str
    """Its functions (schedulers.Scheduler), a module below ``hpclaunch.schedulers``."""
    template: str
    """The template of its scripts."""
    has_queue: bool
    """It hands out the nodes of a cluster: account, partition, QOS and directives mean something, what a run takes is
    limited and charged, and a job can be started again. Without a queue a run starts on this machine, at once."""
    start_command: str
    """The program that takes a script; a person types its name before the script's."""
    estimate_command: str = ""
    """What tells when a script would start."""
    programs: tuple[str, ...]
    """What a machine has from which runs are started: all of it with ``needs_all_programs``, else one."""
    needs_all_programs: bool
    programs_hint: str
    """What to do where programs are missing."""
    usual_launcher: str
    """The launcher of a site whose file names none."""
    first_state: str
    """The state of a run that was just submitted."""
    log: str = "{}.out"
    """What the log of a job is called in the run directory's ``logs``, with ``{}`` for the job's id."""
    array_index: str = ""
    """The variable that tells a task of an array its index; empty where there are no arrays."""
    array_option: str = ""
    """What submits some tasks of an array only, with ``{}`` for their indices (0,5-9, and %4: so many at once)."""
    exclude_option: str = ""
    """What keeps a job from nodes, with ``{}`` for their list; empty where that cannot be asked for."""
    assigns_gpus: bool
    """It tells each task which GPUs it has; else the script does."""
    binds_cpus: bool
    """It can bind each task to CPUs of its own."""
    keeps_shell_out: bool
    """It can start a script without the variables of the submitting shell."""
    remembers_cancelled: bool
    """It tells of a run that was cancelled that it was; else hpclaunch records it."""
    shell_choices: tuple[tuple[str, str], ...] = ()
    """(key of the settings, variable of the shell that says the same)."""
    inside_job: str = ""
    """The variable that shows that a shell is inside a job, where ``shell_choices`` are echoes of that job."""
    path_faults: tuple[tuple[str, str], ...] = ()
    """(character that a run directory may not have, what would go wrong)."""
    first_pause_s: float
    longest_pause_s: float
    """Seconds between two questions after the states of runs that are waited for: they grow."""

    def excluding(self, nodes: str) -> list[str]:
        """Return the options that keep a job from these nodes, if there are any."""
        return [self.exclude_option.format(nodes)] if nodes and self.exclude_option else []


SCHEDULERS: dict[str, SchedulerRow] = {
    "slurm": SchedulerRow(
        title="Slurm",
        module="slurm.scheduler",
        template="slurm.sh.j2",
        has_queue=True,
        start_command="sbatch",
        estimate_command="sbatch --test-only",
        programs=("sbatch", "squeue", "scontrol", "srun"),
        needs_all_programs=True,
        programs_hint="log in to the site; or put Slurm's bin folder on PATH",
        usual_launcher="srun",
        first_state="PENDING",
        log="slurm-{}.out",
        array_index="SLURM_ARRAY_TASK_ID",
        array_option="--array={}",
        exclude_option="--exclude={}",
        assigns_gpus=True,
        binds_cpus=True,
        keeps_shell_out=True,
        remembers_cancelled=True,
        shell_choices=(("account", "SBATCH_ACCOUNT"), ("partition", "SBATCH_PARTITION"), ("qos", "SBATCH_QOS")),
        inside_job="SLURM_JOB_ID",
        path_faults=(("\\", "a backslash, after which Slurm expands no %j in the log's name"),),
        first_pause_s=1.0,
        longest_pause_s=15.0,
    ),
    "local": SchedulerRow(
        title="this machine",
        module="local",
        template="mpirun.sh.j2",
        has_queue=False,
        start_command="bash",
        programs=("horovodrun", "mpirun"),
        needs_all_programs=False,
        programs_hint="a Horovod in this environment brings horovodrun",
        usual_launcher="horovodrun",
        first_state="RUNNING",
        assigns_gpus=False,
        binds_cpus=False,
        keeps_shell_out=False,
        remembers_cancelled=False,
        first_pause_s=0.5,
        longest_pause_s=0.5,
    ),
}


def scheduler_row(name: str) -> SchedulerRow:
    """Return what is known of the scheduler of that name. Raises NotFound."""
    if name not in SCHEDULERS:
        what = f"no scheduler is called {name!r}{did_you_mean(name, SCHEDULERS)}"
        raise NotFound(Fault(what=what, allowed=", ".join(SCHEDULERS)))
    return SCHEDULERS[name]


def longest_pause(names: Iterable[str]) -> float:
    """Return the longest pause (seconds) between two questions after runs of these schedulers."""
    return max((scheduler_row(name).longest_pause_s for name in names), default=0.0)
