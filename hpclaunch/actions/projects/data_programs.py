"""Makes a data set with the job's own program (``data.make`` of its job file), and keeps what it was made from."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from hpclaunch.config.data_sets import Make
from hpclaunch.config.job import Job
from hpclaunch.config.parameters import spell
from hpclaunch.core.errors import Fault, Refused, did_you_mean
from hpclaunch.core.files import read_text, write_text
from hpclaunch.core.records import record
from hpclaunch.core.spec import Pairs, parameter_word

_LONGEST_LINE = 65_536
"""Characters that are read at once of a program, which may write no end of a line."""

KEPT = "made.json"
"""The file in a made data set with the parameters that the program got, and with the path of its source."""


@record
class DataProgram:
    """A job's program that makes its data set, ready to run; ``python`` is the interpreter that runs hpclaunch.

    ``parameters`` are those that it gets, ``typed`` the names of those that were typed.
    """

    python: str
    path: Path
    parameters: Pairs
    typed: tuple[str, ...]

    def run(self, folder: Path, source: str | None, say: Callable[[str], None]) -> None:
        """Let the program write the data set into ``folder``; what it prints goes to ``say``. Raises Refused."""
        words = [str(folder), *([f"--from={source}"] if source else [])]
        words += [parameter_word(name, value) for name, value in self.parameters]
        code, last = _run([self.python, "-B", str(self.path), *words], say)
        if code:
            raise Refused(Fault(where=str(self.path), what=last or f"ended with exit code {code}, without a message"))
        content = {"parameters": dict(self.parameters), "from": str(Path(source).resolve()) if source else None}
        write_text(folder / KEPT, json.dumps(content), durable=False)

    def check_kept(self, folder: Path, source: str | None) -> None:
        """Raise Refused if the data set in ``folder`` was made from something else than what was typed now."""
        try:
            kept = json.loads(read_text(folder / KEPT))
            parameters, path = dict(kept["parameters"]), kept["from"]
        except (KeyError, OSError, TypeError, ValueError):
            return  # made by hand, or copied: nothing is known
        now = dict(self.parameters)
        differ = [f"{name}={parameters.get(name)}" for name in self.typed if parameters.get(name) != now[name]]
        if source and path != str(Path(source).resolve()):
            differ.append(f"from {path or 'its own source'}")
        if differ:
            raise Refused(
                Fault(
                    where=str(folder),
                    what=f"holds a data set that was made with {' '.join(differ)}",
                    next="use another folder with --data-dir, or move this one away",
                )
            )


def program_of(job: Job, make: Make, settings: Pairs, python: str) -> DataProgram:
    """Return the program with the values of its parameters: the typed ones, else the job's defaults. Raises Refused."""
    values = {name: spell(job.parameters[name].default) for name in make.parameters}
    faults = []
    for name, text in settings:
        where = f"--set {name}"
        if name not in values:
            what = f"the program that makes the data has no parameter {name!r}{did_you_mean(name, values)}"
            faults.append(Fault(where=where, what=what, allowed=", ".join(values) or "none"))
            continue
        try:
            values[name] = spell(job.parameters[name].parse(text))
        except ValueError as error:
            faults.append(Fault(where=where, what=str(error), next=f"hpclaunch jobs show {job.name}"))
    if faults:
        raise Refused(faults)
    typed = tuple(name for name, _ in settings)
    return DataProgram(
        python=python, path=Path(job.folder, make.program), parameters=tuple(values.items()), typed=typed
    )


def _run(command: Sequence[str], say: Callable[[str], None]) -> tuple[int, str]:
    """Run a program, and return its exit code and the last line of its stderr; its lines of stdout go to ``say``."""
    with tempfile.TemporaryFile() as messages:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=messages,
            encoding="utf-8",
            errors="replace",
        )
        try:
            assert process.stdout is not None
            while line := process.stdout.readline(_LONGEST_LINE):
                say(line.rstrip("\n"))
            code = process.wait()
        except BaseException:
            process.kill()
            process.wait()
            raise
        messages.seek(max(0, messages.seek(0, os.SEEK_END) - _LONGEST_LINE))
        lines = [line for line in messages.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return code, lines[-1].strip() if lines else ""
