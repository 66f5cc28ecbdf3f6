"""Whether the Python that will run a file can read it, as far as that is known here; nothing is started."""

from __future__ import annotations

import ast
import os
import re
import sys
import warnings
from pathlib import Path

from hpclaunch.core.errors import Fault
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.spec import JobSpec

_OLDEST_CHECKED = (3, 7)
"""Since then the parser can be asked for the syntax of an earlier version (``ast.parse``, feature_version)."""
_PYTHON_2 = (
    r"print\s+[^\s(=.,)\]]"  # the statement
    r"|exec\s+['\"\w]"
    r"|except\s+[\w.()\s,]+,\s*\w+\s*:"
    r"|raise\s+[\w.]+\s*,"
    r"|<>|`[^`]+`"
    r"|\b[uU][rR]['\"]"
    r"|\b0[0-7]+\b|\b[0-9]+[lL]\b"
)
"""What Python 2 reads and Python 3 does not ("What's New In Python 3.0"), in the line of a syntax error."""

Version = tuple[int, int]


def syntax_faults(name: str, text: str, spec: JobSpec) -> list[Fault]:
    """Return why the ranks' Python cannot read a file; nothing if that is not known for sure.

    ``name``: the file as it is typed. A newer Python than this one, or one of an unknown version, may read more.
    """
    version = python_version(spec.interpreter)
    error = _syntax_error(text, None)
    if error is not None and re.search(_PYTHON_2, error.text or ""):
        next_step = f"2to3 -w {shell_word(name)} rewrites it; or -- python2 {shell_word(name)}, where that is installed"
        what = "it is written for Python 2, and its ranks get Python 3"
        return [Fault(where=f"{name}, line {error.lineno}", what=what, next=next_step)]
    if version is None or version > sys.version_info[:2]:
        return []
    if error is None and version >= _OLDEST_CHECKED:
        error = _syntax_error(text, version)
    if error is None:
        return []
    what = f"{spec.interpreter} is Python {version[0]}.{version[1]}, which cannot read it: {error.msg}"
    next_step = "correct this line, or name another Python with --venv, --conda or --python"
    return [Fault(where=f"{name}, line {error.lineno}", what=what, next=next_step)]


def _syntax_error(text: str, version: Version | None) -> SyntaxError | None:
    """Return the error of a text in the syntax of a version (None: of this Python)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the program's own escape sequences
            ast.parse(text.removeprefix("\ufeff"), feature_version=version)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError):
        return None
    return None


def python_version(interpreter: str) -> Version | None:
    """Return the version of a Python on this machine by the names of its files; None if they do not tell."""
    if not interpreter.startswith("/"):
        return None
    if interpreter == sys.executable:
        return sys.version_info[:2]
    path = Path(interpreter)
    try:
        configuration = path.parent.parent / "pyvenv.cfg"
        if configuration.is_file():
            found = re.search(r"(?im)^version(?:_info)?\s*=\s*(\d+)\.(\d+)", configuration.read_text(errors="replace"))
        else:
            found = re.fullmatch(r"python(\d+)\.(\d+)", os.path.basename(os.path.realpath(path)))
    except OSError:
        return None
    return (int(found[1]), int(found[2])) if found else None
