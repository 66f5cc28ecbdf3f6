"""Interactive shells on a pseudo-terminal, in which `hpclaunch` completes words, and tells what was typed on Enter."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import threading

from tests.cli.conftest import PATIENCE, Desk, forking_server
from tests.forked.server import Trial

_ASKED = ("_HPCLAUNCH_COMPLETE", "COMP_WORDS", "COMP_CWORD", "_TYPER_COMPLETE_ARGS", "_TYPER_COMPLETE_FISH_ACTION")
"""What a completion function tells hpclaunch, in variables."""
_PROGRAM = """#!/bin/sh
if [ -n "$_HPCLAUNCH_COMPLETE" ]; then
  printf '%s\\0' completed {count} {values} > {said}
  exec cat {answer}
fi
printf '%s\\0' typed $# "$@" > {said}
"""
_SET_UP = {
    "bash": ("bash", "--noprofile", "--rcfile", "{script}", "-i"),
    "zsh": ("zsh", "-f", "-i"),
    "fish": ("fish", "--no-config", "--interactive", "--init-command", "source {script}"),
}
_BASH = r"""
bind 'set enable-bracketed-paste off'
bind '"\C-xa": insert-completions'
set -o history -o histexpand
"""
_ZSH = r"""
autoload -Uz compinit
compinit -u -D
zstyle ':completion:all-matches::::' completer _all_matches _complete
zstyle ':completion:all-matches:*' insert true
zle -C all-matches complete-word _generic
bindkey '^Xa' all-matches
unset zle_bracketed_paste
setopt bang_hist
"""
_FISH = """
set -g fish_autosuggestion_enabled 0
function fish_prompt; end
"""
ALL = "\x18a"
"""The keys that insert all completions, each as if the Tab key had chosen it (bash, zsh)."""


class Shell:
    """An interactive shell in the project of a desk. Its `hpclaunch` is a script that lets this process answer."""

    def __init__(self, name: str, desk: Desk) -> None:
        self.name = name
        self._desk = desk
        self.folder = desk.project
        self.answer = ""
        self._folder = desk.root / "spool"
        self._said, self._answer_to = self._folder / "said", self._folder / "answer"
        for pipe in (self._said, self._answer_to):
            os.mkfifo(pipe)
        self._reading = os.open(self._said, os.O_RDWR | os.O_CLOEXEC)
        self._content = b""
        values = " ".join(f'"${variable}"' for variable in _ASKED)
        text = _PROGRAM.format(count=len(_ASKED), values=values, said=self._said, answer=self._answer_to)
        desk.program("hpclaunch", text)
        shown = desk.type("--show-completion", name, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
        extra = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}[name]
        script = self._folder / f"{name}.rc"
        script.write_text(f"{extra}\n{shown.out}\nhpclaunch ready\n")
        environment = {**desk.environment, "TERM": "dumb", "ZDOTDIR": str(self._folder), "SHELL": "/bin/sh"}
        environment["PATH"] += ":/usr/bin:/bin"
        program, *options = (word.format(script=script) for word in _SET_UP[name])
        found = shutil.which(program)
        assert found
        self._process, self._end = pty.fork()
        if self._process == 0:
            try:
                os.chdir(desk.project)
                os.execve(found, [program, *options], environment)
            finally:
                os._exit(127)
        threading.Thread(target=self._drain, daemon=True).start()
        self.screen = b""
        if name == "zsh":
            self.type(f"source {script}\r")
        assert self._typed() == ["ready"]

    def _drain(self) -> None:
        while True:
            try:
                content = os.read(self._end, 2**16)
            except OSError:
                return
            self.screen = (self.screen + content)[-20_000:]

    def type(self, text: str) -> None:
        content = text.encode("utf-8", "surrogateescape")
        while content:  # a terminal takes no more than 4096 bytes at once
            content = content[os.write(self._end, content[:1000]) :]

    def entered(self, text: str) -> list[str]:
        """Type a line, with keys that complete in it, and return the arguments that hpclaunch gets on Enter."""
        self.type(text + "\r")
        return self._typed()

    def _typed(self) -> list[str]:
        while True:
            kind, *values = self._message()
            if kind == "typed":
                return values
            asked = dict(zip(_ASKED, values, strict=True))
            asked = {variable: value for variable, value in asked.items() if value}
            environment = {**self._desk.environment, **asked}
            trial = Trial(words=(), cwd=str(self._desk.project), environment=environment, seconds=PATIENCE)
            outcome = forking_server().run(trial)
            assert "Traceback" not in outcome.err, outcome.err
            self.answer = outcome.out.strip("\n")
            self._answer_to.write_bytes(outcome.out.encode("utf-8", "surrogateescape"))

    def _message(self) -> list[str]:
        kind, count = self._word(), int(self._word())
        return [kind, *(self._word() for _ in range(count))]

    def _word(self) -> str:
        while b"\0" not in self._content:
            ready, _, _ = select.select([self._reading], [], [], PATIENCE)
            assert ready, f"nothing was entered:\n{self.screen.decode(errors='replace')}"
            self._content += os.read(self._reading, 2**16)
        word, self._content = self._content.split(b"\0", 1)
        return word.decode("utf-8", "surrogateescape")

    def close(self) -> None:
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._end)
        os.close(self._reading)
