"""The facts about each scheduler that every layer may use: one row per scheduler. It calls no scheduler.

The functions of a scheduler are in ``schedulers/``, in the module that its row names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hpclaunch.core.errors import Fault, NotFound, did_you_mean
from hpclaunch.core.records import record

REQUESTS = {
    "account": ("an account", "leave --account out"),
    "priority_class": ("a QOS", "leave --qos out"),
    "memory": ("memory", "leave --memory out, and 'request_memory' of the site file"),
    "gpus_per_node": ("GPUs", "--gpus-per-node 0"),
    "gpu_type": ("GPUs of a type", "delete 'gpu_type' from the site file"),
    "gpu_part": ("a part of a GPU", "delete 'gpu_shards' from the site file"),
    "features": ("features of nodes", "delete 'constraint' from the site file"),
    "array": ("the tasks of a job array", "submit each run with --set"),
    "at_once": ("a limit of the tasks that run at a time", "leave --at-once out"),
    "after_success": ("the completion of other jobs", "hpclaunch wait RUN, then submit without --after"),
    "after_end": ("the end of other jobs", "hpclaunch wait RUN, then submit without --after-any"),
    "after_same_name": ("the end of earlier jobs of its name", "hpclaunch wait RUN, then submit without --after"),
    "requeue": ("its requeueing", "write 'restart: resubmit' in the site file"),
    "mail_to": ("mail", "delete 'mail' from the settings for this site"),
}
"""What a job may ask for and the scripts of not every scheduler can write: field of ``job_request.JobRequest`` -> (its
words, what to do without it)."""


@record
class SchedulerRow:
    """One scheduler. An optional text is empty if the scheduler has nothing of the kind."""

    title: str
    """Its name in a sentence."""
    module: str
    """The module below ``hpclaunch.schedulers`` with its functions (the protocol ``schedulers.Scheduler``)."""
    template: str
    """The template of its scripts."""
    has_queue: bool
    """Whether it assigns the nodes of a cluster: then a run has directives, an account, a partition and a QOS, has
    limits and a cost, and can be started again by its script. Without a queue a run starts on this machine at once."""
    writes: frozenset[str] = frozenset()
    """Those of ``REQUESTS`` that its scripts ask for; any other is refused."""
    start_command: str
    """The program that submits a script: ``PROGRAM SCRIPT`` is the command by hand."""
    directive: str = ""
    """The line of a script that sets an option, with ``{}`` for the option; empty if its scripts have none."""
    estimate_command: str = ""
    """The command that estimates when a script would start."""
    programs: tuple[str, ...]
    """The programs of a machine that starts runs: all of them with ``needs_all_programs``, else at least one."""
    needs_all_programs: bool
    programs_hint: str
    """What to do if programs are missing."""
    usual_launcher: str
    """The launcher of a site whose file names no launcher."""
    first_state: str
    """The state of a run after its submission."""
    log: str = "{}.out"
    """The name of a job's log in the run directory's ``logs``, with ``{}`` for the job ID."""
    log_ids: tuple[str, str] = ("", "")
    """How the directive of the log spells the job ID: of a job, and of an array's task."""
    log_escapes: tuple[tuple[str, str], ...] = ()
    """(text, its spelling in the directive of the log, which the scheduler would else read as a pattern)."""
    broadcasts: bool = False
    """Whether its scripts can copy a file to every node of a job."""
    array_index: str = ""
    """The variable with the index of an array's task; empty if it has no job arrays."""
    array_option: str = ""
    """The option that submits some tasks of an array, with ``{}`` for their indices (``0,5-9%4``: four at once)."""
    component_directive: str = ""
    """The directive between the components of a heterogeneous job; empty if all nodes of a job are of one type."""
    exclude_option: str = ""
    """The option that excludes nodes from a job, with ``{}`` for their list; empty if there is none."""
    require_option: str = ""
    """The option that names nodes which a job must have, with ``{}`` for their list; empty if there is none."""
    wait_option: str = ""
    """The option with which a job waits for others, with ``{}`` for ``wait_ok`` and ``wait_any``; empty if there is
    none."""
    wait_ok: str = ""
    """How ``wait_option`` spells that these jobs must have completed, with ``{}`` for their IDs, joined by colons."""
    wait_any: str = ""
    """The same for jobs that must have ended."""
    wait_begun: str = ""
    """The same for jobs that must have begun."""
    wait_same_name: str = ""
    """How it spells that every earlier job of the user with the job's name must have ended; also the word that a person
    types. Empty if there is no such condition."""
    script_signals: tuple[str, ...] = ("",)
    """The beginnings of ``signal``'s value with which the signal before the end reaches the script itself; the first
    is written. None if it sends no such signal."""
    error_lines: str = ""
    """A regular expression for the error messages of its own programs in a job's log."""
    task_cpus: str = ""
    """The variable with the CPUs of a task."""
    gpu_listing: str = ""
    """The command that lists its GPUs."""
    gpu_binding: tuple[str, ...] = ()
    """The variables of a job by which its launcher binds each task to GPUs of its own."""
    assigns_gpus: bool
    """Whether it gives each task its GPUs; else the script does."""
    binds_cpus: bool
    """Whether it can bind each task to its own CPUs."""
    keeps_shell_out: bool
    """Whether it can start a script without the variables of the submitting shell."""
    remembers_cancelled: bool
    """Whether it reports the state of a cancelled run as CANCELLED; else hpclaunch records it."""
    shell_choices: tuple[tuple[str, str], ...] = ()
    """(key of the settings, shell variable that sets the same value)."""
    clusters_variables: tuple[str, ...] = ()
    """The variables of a shell that send what its programs do to other clusters, the one that counts most first."""
    clusters_option: str = ""
    """The option that sends a script to other clusters, with ``{}`` for their names; empty if there is none."""
    inside_job: str = ""
    """A variable that every job has. Inside a job the scheduler itself sets ``shell_choices``, to that job's values."""
    host_variable: str = ""
    """A variable of the processes that it starts: its own name of their host."""
    variables: tuple[str, ...] = ()
    """The beginnings of the names of the variables that it sets itself."""
    enter_allocation: str = ""
    """The command that opens a shell on the first node of the allocation that one is in."""
    allocation_programs: tuple[str, ...] = ()
    """The programs that open a shell in a new allocation."""
    path_faults: tuple[tuple[str, str], ...] = ()
    """(character that the path of a run directory may not contain, the reason)."""
    first_pause_s: float
    longest_pause_s: float
    """Seconds between two queries for the states of runs that a command waits for; the pause grows."""

    def start_words(self, clusters: str = "") -> list[str]:
        """Return the command that submits a script by hand, without the script; ``clusters``: to which others."""
        return [self.start_command, *([self.clusters_option.format(clusters)] if clusters else [])]

    def wait_words(self, success: Sequence[str], end: Sequence[str], *, same_name: bool) -> str:
        """Return ``wait_option`` for jobs that must have completed, or ended; empty if the job waits for nothing."""
        conditions = [(self.wait_ok, success), (self.wait_any, end)]
        words = [words.format(":".join(jobs)) for words, jobs in conditions if jobs]
        words += [self.wait_same_name] if same_name else []
        return self.wait_option.format(",".join(words)) if words else ""

    def log_path(self, folder: str, *, is_array: bool) -> str:
        """Return the path of the log in ``folder``, as the directive of the log spells it."""
        for text, spelling in self.log_escapes:
            folder = folder.replace(text, spelling)
        return f"{folder}/{self.log.format(self.log_ids[is_array])}"


SCHEDULERS: dict[str, SchedulerRow] = {
    "slurm": SchedulerRow(
        title="Slurm",
        module="slurm.scheduler",
        template="slurm.sh.j2",
        has_queue=True,
        writes=frozenset(REQUESTS),
        start_command="sbatch",
        directive="#SBATCH {}",
        estimate_command="sbatch --test-only",
        programs=("sbatch", "squeue", "scontrol", "srun"),
        needs_all_programs=True,
        programs_hint="log in to the site; or put Slurm's bin folder on PATH",
        usual_launcher="srun",
        first_state="PENDING",
        log="slurm-{}.out",
        log_ids=("%j", "%A_%a"),
        log_escapes=(("%", "%%"),),  # Slurm 22.05 does so in --chdir's path too
        broadcasts=True,
        array_index="SLURM_ARRAY_TASK_ID",
        array_option="--array={}",
        component_directive="hetjob",
        exclude_option="--exclude={}",
        require_option="--nodelist={}",
        wait_option="--dependency={}",
        wait_ok="afterok:{}",
        wait_any="afterany:{}",
        wait_begun="after:{}",
        wait_same_name="singleton",
        script_signals=("B:", "RB:"),
        error_lines=r"(srun|slurmstepd(-\S+)?|sbatch): (fatal|error): .*",
        task_cpus="SLURM_CPUS_PER_TASK",
        gpu_listing="sinfo --format='%P %G'",
        gpu_binding=("SLURM_GPUS_PER_TASK", "SLURM_TRES_PER_TASK", "SLURM_GPU_BIND", "SLURM_TRES_BIND"),
        assigns_gpus=True,
        binds_cpus=True,
        keeps_shell_out=True,
        remembers_cancelled=True,
        shell_choices=(("account", "SBATCH_ACCOUNT"), ("partition", "SBATCH_PARTITION"), ("qos", "SBATCH_QOS")),
        clusters_variables=("SLURM_CLUSTERS", "SBATCH_CLUSTERS"),
        clusters_option="--clusters={}",
        inside_job="SLURM_JOB_ID",
        host_variable="SLURMD_NODENAME",
        variables=("SLURM_", "SLURMD_"),
        enter_allocation="srun --interactive --preserve-env --pty bash",
        allocation_programs=("salloc", "srun"),
        path_faults=(("\\", "a backslash, which makes Slurm leave %j in the log's name as it is"),),
        first_pause_s=1.0,
        longest_pause_s=15.0,
    ),
    "local": SchedulerRow(
        title="this machine",
        module="local",
        template="local.sh.j2",
        has_queue=False,
        start_command="bash",
        programs=("horovodrun", "mpirun"),
        needs_all_programs=False,
        programs_hint="only programs of Horovod or MPI need one: hpclaunch docs installing",
        usual_launcher="local",
        first_state="RUNNING",
        assigns_gpus=False,
        binds_cpus=False,
        keeps_shell_out=False,
        remembers_cancelled=False,
        first_pause_s=0.5,
        longest_pause_s=0.5,
    ),
}


@record
class OtherScheduler:
    """A scheduler that hpclaunch does not submit to; ``program``, which submits its jobs, is on its head nodes.

    ``inside_job``: variables of which each of its jobs has one. ``hosts``: how a job of it gives its hosts to --hosts;
    empty if its jobs have one host. ``directive``: a regular expression for a line with which a batch script asks it
    for something; empty if its requests stand in a file of their own.
    """

    title: str
    program: str
    inside_job: tuple[str, ...]
    hosts: str
    directive: str


_OF_LOADLEVELER = (
    "job_name|job_type|class|node|tasks_per_node|total_tasks|blocking|wall_clock_limit|output|error|initialdir|"
    "environment|executable|arguments|account_no|node_usage|network\\.\\w+|resources|requirements|step_name|dependency|"
    "island_count|energy_policy_tag|notification|notify_user|restart|bg_size|bg_shape"
)
"""The keywords of LoadLeveler's directives by which one is known: any other ``# @ word = …`` may be a remark."""

OTHER_SCHEDULERS = (
    OtherScheduler(
        title="PBS or Grid Engine",
        program="qsub",
        inside_job=("PBS_JOBID", "SGE_TASK_ID"),
        hosts='--hosts "$PBS_NODEFILE" (of Grid Engine: "$PE_HOSTFILE")',
        directive=r"^#(PBS|\$)[ \t]+-[A-Za-z].*",
    ),
    OtherScheduler(
        title="LSF",
        program="bsub",
        inside_job=("LSB_JOBID",),
        hosts='--hosts "$LSB_DJOB_HOSTFILE"',
        directive=r"^#BSUB[ \t]+-[A-Za-z].*",
    ),
    OtherScheduler(
        title="Flux",
        program="flux",
        inside_job=("FLUX_JOB_ID", "FLUX_ENCLOSING_ID"),
        hosts="--hosts FILE, with the output of: flux hostlist --expand --delimiter='\\n' local",
        directive=r"^#[ \t]*(flux|FLUX):[ \t]*-.*",
    ),
    OtherScheduler(
        title="OAR",
        program="oarsub",
        inside_job=("OAR_JOB_ID",),
        hosts='--hosts "$OAR_NODEFILE"',
        directive=r"^#OAR[ \t]+-{1,2}[A-Za-z].*",
    ),
    OtherScheduler(
        title="Cobalt",
        program="qsub",
        inside_job=("COBALT_JOBID",),
        hosts='--hosts "$COBALT_NODEFILE"',
        directive=r"^#COBALT[ \t]+-{1,2}[A-Za-z].*",
    ),
    OtherScheduler(
        title="PJM",
        program="pjsub",
        inside_job=("PJM_JOBID",),
        hosts='--hosts "$PJM_O_NODEINF"',
        directive=r"^#PJM[ \t]+-{1,2}[A-Za-z].*",
    ),
    OtherScheduler(
        title="Moab",
        program="msub",
        inside_job=("MOAB_JOBID",),
        hosts='--hosts "$PBS_NODEFILE" (of TORQUE below it)',
        directive=r"^#MSUB[ \t]+-[A-Za-z].*",
    ),
    OtherScheduler(
        title="LoadLeveler",
        program="llsubmit",
        inside_job=("LOADL_STEP_ID",),
        hosts='--hosts "$LOADL_HOSTFILE"',
        directive=rf"^#[ \t]*@[ \t]*((?:{_OF_LOADLEVELER})[ \t]*=.*|queue[ \t\r]*$)",
    ),
    OtherScheduler(
        title="HTCondor",
        program="condor_submit",
        inside_job=("_CONDOR_JOB_AD", "_CONDOR_SCRATCH_DIR"),
        hosts="",
        directive="",
    ),
)
"""Their variables: PBS Professional's qsub(1B), Grid Engine's sge_pe(5) and submit(1), LSF's "environment variables set
for job execution", Flux's flux-environment(7), oarsub(1), Cobalt's qsub(1), PJM's pjsub(1), Moab's msub, LoadLeveler's
"run-time environment variables", and HTCondor's "Environment Variables" of running jobs. Their directives: the same
pages, bsub(1), flux-batch(1), and LoadLeveler's "job command file keywords". Slurm's own wrappers for PBS users install
a qsub, too."""


SAME_NAME = frozenset(row.wait_same_name for row in SCHEDULERS.values() if row.wait_same_name)
"""The words that name no job, but every earlier one of the new job's name."""


def scheduler_row(name: str) -> SchedulerRow:
    """Return the row of a scheduler. Raises NotFound."""
    if name not in SCHEDULERS:
        what = f"no scheduler is called {name!r}{did_you_mean(name, SCHEDULERS)}"
        raise NotFound(Fault(what=what, allowed=", ".join(SCHEDULERS)))
    return SCHEDULERS[name]


def longest_pause(names: Iterable[str]) -> float:
    """Return the longest pause (seconds) between two queries for the states of runs of these schedulers."""
    return max((scheduler_row(name).longest_pause_s for name in names), default=0.0)
