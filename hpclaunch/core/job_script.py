"""A script as a value: its directives, and its body. It is read once, changed as a value, and is text again at its end.

What a scheduler reads of a script is its head: the lines before its first command.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hpclaunch.core.records import placed_record, record
from hpclaunch.core.scheduler_rows import SchedulerRow

_ARRAY_TASK = "array_task"
"""The call of the library with which the script of an array begins."""


@placed_record
class ScriptOption:
    """An option in the head of a script, as it is written there (``--nodes=4``)."""

    option: str


@record
class JobScript:
    """A script for a scheduler. Without directives of that scheduler, all of it is the body.

    ``head``: the directives, and the other lines among them. ``body``: the lines from the first command on.
    """

    row: SchedulerRow
    head: tuple[ScriptOption | str, ...]
    body: tuple[str, ...]

    @property
    def text(self) -> str:
        """The script as the scheduler gets it."""
        form = self.row.directive
        head = [form.format(line.option) if isinstance(line, ScriptOption) else line for line in self.head]
        return "\n".join([*head, *self.body])

    @property
    def waits(self) -> tuple[str, ...]:
        """The conditions that its job waits for, as the scheduler spells them."""
        value = self._value(self.row.wait_option)
        return tuple(value.split(",")) if value else ()

    @property
    def waits_for_same_name(self) -> bool:
        """Whether its job waits for all earlier jobs of its name."""
        return bool(self.row.wait_same_name) and self.row.wait_same_name in self.waits

    @property
    def required_nodes(self) -> str:
        """The nodes that its job must have, as the scheduler spells them; empty if it names none."""
        return self._value(self.row.require_option)

    def without_nodes(self, nodes: str) -> JobScript:
        """Return the script of a job that avoids these nodes, instead of those that it avoids already."""
        if not nodes or not self.row.exclude_option:
            return self
        return self._replace_options(self.row.exclude_option, [nodes])

    def with_tasks(self, tasks: str) -> JobScript:
        """Return the script of an array that starts these tasks only (``0,5-9%4``: four at once).

        A directive may be longer than a word of a command line, which Linux limits to 128 KiB.
        """
        return self._replace_options(self.row.array_option, [tasks])

    def with_first_run(self, number: int, digits: int) -> JobScript | None:
        """Return the script whose task 0 is the run of this number; None if it does not number its runs with one call.

        ``digits``: those in the name of a run.
        """
        call = f"{_ARRAY_TASK} {digits} {self.row.array_index}"
        if self.body.count(call) != 1:
            return None
        place = self.body.index(call)
        return replace(self, body=(*self.body[:place], f"{call} {number}", *self.body[place + 1 :]))

    def without_waiting(self) -> JobScript:
        """Return the script of a job that waits for nothing, but that earlier jobs of its name have ended.

        A scheduler forgets jobs that are over, and cannot wait for them then.
        """
        if not self.row.wait_option:
            return self
        lasting = [self.row.wait_same_name] if self.waits_for_same_name else []
        return self._replace_options(self.row.wait_option, lasting)

    def _value(self, option: str) -> str:
        """Return the value of the first directive of an option; empty without one."""
        begin = option.format("")
        for line in self.head:
            if option and isinstance(line, ScriptOption) and line.option.startswith(begin):
                return line.option.removeprefix(begin)
        return ""

    def _replace_options(self, option: str, values: Sequence[str]) -> JobScript:
        """Return the script with ``option`` of these values, after its last directive and instead of those before."""
        if not self.row.directive:
            return self
        begin = option.format("")
        kept = [line for line in self.head if not (isinstance(line, ScriptOption) and line.option.startswith(begin))]
        separator, first = ScriptOption(self.row.component_directive), kept
        if separator.option and separator in kept:  # Slurm takes them from the first component for the others, too
            first = kept[: kept.index(separator)]
        places = [number for number, line in enumerate(first) if isinstance(line, ScriptOption)]
        place = max(places, default=0) + 1
        added = [ScriptOption(option.format(value)) for value in values]
        return replace(self, head=(*kept[:place], *added, *kept[place:]))


def read_job_script(text: str, row: SchedulerRow) -> JobScript:
    """Return the script of a text, which it gives again unchanged."""
    lines = text.split("\n")
    if not row.directive:
        return JobScript(row=row, head=(), body=tuple(lines))
    begin = row.directive.format("")
    length = next((number for number, line in enumerate(lines) if line and not line.startswith("#")), len(lines))
    head = [ScriptOption(line.removeprefix(begin)) if line.startswith(begin) else line for line in lines[:length]]
    return JobScript(row=row, head=tuple(head), body=tuple(lines[length:]))
