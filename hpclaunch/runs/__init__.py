"""The run directory is the truth about a run: making it, reading it, finding it, and changing its record."""

from hpclaunch.runs.directory import create
from hpclaunch.runs.files import locked, write_text
from hpclaunch.runs.index import find, forget, index_file, indexed, inside, known, rebuild, remember
from hpclaunch.runs.record import FINAL, HISTORY, JOB_ID, RECORD, Run, change, claim, load, save

__all__ = [
    "FINAL",
    "HISTORY",
    "JOB_ID",
    "RECORD",
    "Run",
    "change",
    "claim",
    "create",
    "find",
    "forget",
    "index_file",
    "indexed",
    "inside",
    "known",
    "load",
    "locked",
    "rebuild",
    "remember",
    "save",
    "write_text",
]
