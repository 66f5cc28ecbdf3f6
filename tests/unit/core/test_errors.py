from __future__ import annotations

import errno
import os
import shlex
from pathlib import Path

import pytest

from hpclaunch.core.errors import (
    Fault,
    HpclaunchError,
    InvalidFile,
    InvalidRequest,
    NotFound,
    Refused,
    unwritable,
    without_folder,
)


def test_a_fault_says_where_what_what_is_allowed_and_what_to_do_next() -> None:
    fault = Fault(what="9 nodes requested", where="cluster gpu", allowed="at most 8", next="--nodes 8")
    assert str(fault) == "cluster gpu: 9 nodes requested; allowed: at most 8\n    next: --nodes 8"


def test_a_fault_without_more_to_say_says_no_more() -> None:
    assert str(Fault(what="no")) == "no"


def test_an_error_carries_every_fault() -> None:
    error = Refused([Fault(what="one"), Fault(what="two")])
    assert [fault.what for fault in error.faults] == ["one", "two"]
    assert str(error) == "one\ntwo"


@pytest.mark.parametrize(("kind", "code"), [(NotFound, 1), (InvalidFile, 1), (Refused, 1), (InvalidRequest, 2)])
def test_each_error_ends_the_program_with_its_exit_code(kind: type[HpclaunchError], code: int) -> None:
    assert kind(Fault(what="x")).exit_code == code


@pytest.mark.parametrize(
    ("number", "step"),
    [(errno.ENOSPC, "make room"), (errno.EROFS, "ls -ld"), (errno.EIO, "retry; if the error")],
)
def test_what_cannot_be_written_has_a_next_step(number: int, step: str) -> None:
    (fault,) = unwritable("/runs/x", OSError(number, os.strerror(number), "/other")).faults
    assert (fault.where, fault.what) == ("/runs/x", f"cannot be written: {os.strerror(number)}")
    assert fault.next.startswith(step)


def test_the_folder_to_make_is_one_word_of_the_shell() -> None:
    (fault,) = without_folder(Path("/new place/$(date)/x.html")).faults
    assert shlex.split(fault.next) == ["mkdir", "-p", "/new place/$(date)"]
