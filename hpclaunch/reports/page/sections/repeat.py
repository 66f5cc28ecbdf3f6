"""The section of how to repeat a run: the exact command, its folder and its code; it reads nothing."""

from __future__ import annotations

import contextlib
import shlex

from hpclaunch.core.errors import NotFound
from hpclaunch.reports.page.model import Block, CodeText, PageSection, Sentence
from hpclaunch.reports.page.recorded import RecordedRun
from hpclaunch.runs.typed_command import typed_command


def repeat_section(recorded: RecordedRun) -> PageSection:
    """Return the command that asks for the same run again, and what else must be the same."""
    request = recorded.request
    if request is None:
        words = "The record of what was typed (request.json) is missing or damaged, so the command is not known."
        return PageSection(name="repeat", title="How to repeat it", blocks=(Sentence(text=words),))
    lines = [f"cd {shlex.quote(str(recorded.folder))}"]
    commit, _, changes = recorded.run.git.partition("+")
    if commit and not changes:
        lines.append(f"git checkout {shlex.quote(commit)}")
    blocks: list[Block] = [
        CodeText(title="What was typed, with every flag written out", text="\n".join([*lines, typed_command(request)]))
    ]
    if changes:
        words = f"The code was commit {commit} with changes; its copy is in {recorded.run.home / 'code'}."
        blocks.append(Sentence(text=words))
    elif not commit:
        blocks.append(
            Sentence(text=f"The commit of the code is not known; its copy is in {recorded.run.home / 'code'}.")
        )
    if recorded.run.index >= 0:
        values = ", ".join(f"{name}={text}" for name, text in recorded.values.items())
        blocks.append(Sentence(text=f"This command makes the whole array. This run is the one with {values}."))
    words = f"hpclaunch rerun {recorded.run.home.name} makes the same run again from this record, with its code."
    with contextlib.suppress(NotFound):  # the scheduler of another version
        words += f" The script by hand: {recorded.run.start_command}"
    blocks.append(Sentence(text=words))
    return PageSection(name="repeat", title="How to repeat it", blocks=tuple(blocks))
