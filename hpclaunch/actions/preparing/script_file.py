"""Writes the file of ``render -o``, a script for the user to submit; it submits nothing."""

from __future__ import annotations

from pathlib import Path

from hpclaunch.actions.preparing.submit import Prepared
from hpclaunch.actions.system import System
from hpclaunch.core.errors import Fault, Refused, without_folder
from hpclaunch.core.files import write_text


def check_output(path: Path) -> None:
    """Raise Refused if the script cannot be written to ``path``: only an older script of hpclaunch is replaced."""
    name_it = "name a new file with -o"
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise Refused(Fault(where=str(path), what="is not a regular file, and is not overwritten", next=name_it))
    if path.exists():
        with path.open("rb") as file:
            if b"\n# Rendered by hpclaunch " not in file.read(1000):
                raise Refused(Fault(where=str(path), what="exists and was not rendered by hpclaunch", next=name_it))
    elif not path.parent.is_dir():
        raise without_folder(path)


def write_script(path: Path, text: str) -> None:
    """Write a rendered script to a path that ``check_output`` has accepted. Raises Refused."""
    try:
        write_text(path, text)
        path.chmod(0o700)  # the job's variables are private to the user
    except OSError as error:
        raise Refused(Fault(where=str(path), what=f"cannot be written: {error.strerror}")) from None


def strays(system: System, prepared: Prepared) -> list[str]:
    """Return the variables of this shell that would override the script's options if the user submits it from here."""
    from hpclaunch.schedulers import scheduler_of

    return scheduler_of(prepared.spec.scheduler).overriding(system.environment)
