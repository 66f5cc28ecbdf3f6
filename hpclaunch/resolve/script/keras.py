"""The line of the script that lets tf.keras be Keras 2, for programs that use ``hpclaunch.training``."""

from __future__ import annotations

import shlex

from hpclaunch.core.spec import TENSORFLOW
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.script.parts import Parts

_VARIABLE = "TF_USE_LEGACY_KERAS"


def keras_variable_of(case: Case, parts: Parts) -> tuple[str, ...]:
    """Return the name of the variable if the script sets it.

    It is not set if someone has chosen a value, nor for a container, whose Python only a rank can ask. There
    ``import hpclaunch.training`` sets it, which is too late only for a program that imports TensorFlow before.
    """
    software = parts.software
    is_needed = case.job.uses_library and software.framework == TENSORFLOW and not software.image
    return (_VARIABLE,) if is_needed and _VARIABLE not in software.variables else ()


def keras_lines_of(case: Case, parts: Parts) -> tuple[str, ...]:
    """Return the line that sets the variable, before the ranks start; the library asks their Python for the value."""
    python = shlex.quote(parts.software.python)
    return tuple(f"set_legacy_keras {python} # exports {name}" for name in keras_variable_of(case, parts))
