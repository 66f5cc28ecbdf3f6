"""What is known of the options of a program that declares no parameters; its source is read by `program_reader`."""

from __future__ import annotations

from typing import Literal

from hpclaunch.core.records import record

Form = Literal["dashes", "underscores", "either", "key=value"]
"""How a library spells every option of a program: ``--learning-rate=1``, ``--learning_rate=1``, or ``learning_rate=1``.

``either``: the first two are the same to it.
"""


@record
class DeclaredOption:
    """One option of a program. ``spelled``: its forms, such as -l and --learning-rate; none: a positional argument.

    ``name``: what the program calls its value, if it says so. ``off``: the form that turns it off, of one without a
    value. ``glued``: a short form takes its value without a sign (``-n8``). ``where``: its file and line.
    """

    spelled: tuple[str, ...]
    where: str
    name: str = ""
    takes_value: bool = True
    off: str = ""
    glued: bool = False


@record
class ProgramOptions:
    """What the source of a program says about its options. ``program``: the name of its file.

    ``form``: the rule for options that no line of the source declares. ``is_complete``: it has no others than these.
    """

    program: str
    options: tuple[DeclaredOption, ...] = ()
    form: Form | None = None
    form_source: str = ""
    is_complete: bool = False
