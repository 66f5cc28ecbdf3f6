"""Run directories: making and finding them, reading and changing their records."""

from hpclaunch.core.files import write_text
from hpclaunch.core.locks import locked
from hpclaunch.runs.arrays import (
    STATES,
    current_jobs,
    each,
    index_of,
    is_unfinished,
    jobs_of,
    load_any,
    numbers,
    record_tasks,
    spelled,
    swept,
    task_of,
    tasks_of,
    whole_of,
)
from hpclaunch.runs.claims import began_by_hand, holder_of, release, reserve
from hpclaunch.runs.create import Submission, create
from hpclaunch.runs.git import git_state
from hpclaunch.runs.index import Rebuilt, find, find_all, forget, index_file, indexed, inside, known, rebuild, remember
from hpclaunch.runs.ownership import adopt, is_own, list_own, newest_own, unlist_own
from hpclaunch.runs.record import FINAL, HISTORY, JOB_ID, RECORD, RecordChange, Run, change, claim, load, save

__all__ = [
    "FINAL",
    "HISTORY",
    "JOB_ID",
    "RECORD",
    "STATES",
    "Rebuilt",
    "RecordChange",
    "Run",
    "Submission",
    "adopt",
    "began_by_hand",
    "change",
    "claim",
    "create",
    "current_jobs",
    "each",
    "find",
    "find_all",
    "forget",
    "git_state",
    "holder_of",
    "index_file",
    "index_of",
    "indexed",
    "inside",
    "is_own",
    "is_unfinished",
    "jobs_of",
    "known",
    "list_own",
    "load",
    "load_any",
    "locked",
    "newest_own",
    "numbers",
    "rebuild",
    "record_tasks",
    "release",
    "remember",
    "reserve",
    "save",
    "spelled",
    "swept",
    "task_of",
    "tasks_of",
    "unlist_own",
    "whole_of",
    "write_text",
]
