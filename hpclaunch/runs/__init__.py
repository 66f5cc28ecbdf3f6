"""Run directories: making and finding them, reading and changing their records.

What is named here is loaded when it is first used: a dry run reads no record, and a list of runs makes no directory.
"""

TYPE_CHECKING = False  # type checkers take this name for true
if TYPE_CHECKING:
    from hpclaunch.runs.arrays import STATES as STATES
    from hpclaunch.runs.arrays import ArrayTasks as ArrayTasks
    from hpclaunch.runs.arrays import Jobs as Jobs
    from hpclaunch.runs.arrays import TaskState as TaskState
    from hpclaunch.runs.arrays import counts_of as counts_of
    from hpclaunch.runs.arrays import current_jobs as current_jobs
    from hpclaunch.runs.arrays import each as each
    from hpclaunch.runs.arrays import has_failed as has_failed
    from hpclaunch.runs.arrays import index_of as index_of
    from hpclaunch.runs.arrays import is_unfinished as is_unfinished
    from hpclaunch.runs.arrays import jobs_of as jobs_of
    from hpclaunch.runs.arrays import load_any as load_any
    from hpclaunch.runs.arrays import numbers as numbers
    from hpclaunch.runs.arrays import present_states as present_states
    from hpclaunch.runs.arrays import record_tasks as record_tasks
    from hpclaunch.runs.arrays import spelled as spelled
    from hpclaunch.runs.arrays import swept as swept
    from hpclaunch.runs.arrays import task_of as task_of
    from hpclaunch.runs.arrays import tasks_of as tasks_of
    from hpclaunch.runs.arrays import whole_of as whole_of
    from hpclaunch.runs.claims import began_by_hand as began_by_hand
    from hpclaunch.runs.claims import holder_of as holder_of
    from hpclaunch.runs.claims import release as release
    from hpclaunch.runs.claims import reserve as reserve
    from hpclaunch.runs.claims import start_after as start_after
    from hpclaunch.runs.create import Submission as Submission
    from hpclaunch.runs.ended import drop_ended as drop_ended
    from hpclaunch.runs.ended import keep_ended as keep_ended
    from hpclaunch.runs.ended import stamp_of as stamp_of
    from hpclaunch.runs.git import git_state as git_state
    from hpclaunch.runs.index import Known as Known
    from hpclaunch.runs.index import Rebuilt as Rebuilt
    from hpclaunch.runs.index import find as find
    from hpclaunch.runs.index import find_all as find_all
    from hpclaunch.runs.index import forget as forget
    from hpclaunch.runs.index import index_file as index_file
    from hpclaunch.runs.index import indexed as indexed
    from hpclaunch.runs.index import inside as inside
    from hpclaunch.runs.index import known as known
    from hpclaunch.runs.index import newest_first as newest_first
    from hpclaunch.runs.index import rebuild as rebuild
    from hpclaunch.runs.index import remember as remember
    from hpclaunch.runs.job_identity import JobIdentity as JobIdentity
    from hpclaunch.runs.job_identity import identity_of as identity_of
    from hpclaunch.runs.ownership import adopt as adopt
    from hpclaunch.runs.ownership import is_own as is_own
    from hpclaunch.runs.ownership import is_unlisted as is_unlisted
    from hpclaunch.runs.ownership import list_own as list_own
    from hpclaunch.runs.ownership import opened as opened
    from hpclaunch.runs.ownership import unlist_own as unlist_own
    from hpclaunch.runs.record import HISTORY as HISTORY
    from hpclaunch.runs.record import JOB_ID as JOB_ID
    from hpclaunch.runs.record import MOST_IN_PARTS as MOST_IN_PARTS
    from hpclaunch.runs.record import RECORD as RECORD
    from hpclaunch.runs.record import UNKNOWN_CLUSTER as UNKNOWN_CLUSTER
    from hpclaunch.runs.record import JobPlace as JobPlace
    from hpclaunch.runs.record import RecordChange as RecordChange
    from hpclaunch.runs.record import Run as Run
    from hpclaunch.runs.record import add_note as add_note
    from hpclaunch.runs.record import change as change
    from hpclaunch.runs.record import claim as claim
    from hpclaunch.runs.record import load as load
    from hpclaunch.runs.record import save as save
    from hpclaunch.runs.record import utc_now as utc_now

_NAMES = {
    "arrays": (
        "ArrayTasks Jobs STATES TaskState counts_of current_jobs each has_failed index_of is_unfinished "
        "jobs_of load_any numbers present_states record_tasks spelled swept task_of tasks_of whole_of"
    ),
    "claims": "began_by_hand holder_of release reserve start_after",
    "create": "Submission",
    "ended": "drop_ended keep_ended stamp_of",
    "git": "git_state",
    "index": "Known Rebuilt find find_all forget index_file indexed inside known newest_first rebuild remember",
    "job_identity": "JobIdentity identity_of",
    "ownership": "adopt is_own is_unlisted list_own opened unlist_own",
    "record": (
        "HISTORY JOB_ID JobPlace MOST_IN_PARTS RECORD RecordChange Run UNKNOWN_CLUSTER add_note change claim "
        "load save utc_now"
    ),
}
"""Module of this folder -> the names that it is asked for here."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # a type checker would allow any name

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        return globals()[name]

    def __dir__():
        return sorted({*globals(), *_HOMES})
