"""A Slurm that is only numbers, and processes of hpclaunch that submit, ask and retry by a fake clock.

Each process is a real one (a fork), so that its end is real, and files, locks and process numbers are those of the
system. It runs hpclaunch's own code; only its clock and the programs that it starts come from here. One process runs
at a time: it is given the word, runs until it waits for a program or sleeps, and gives the word back. So a seed
decides everything that happens.
"""

from __future__ import annotations

import heapq
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hpclaunch import runs
from hpclaunch.actions.following.states import refreshed
from hpclaunch.actions.queueing.array_parts import submit_array
from hpclaunch.actions.queueing.hand_over import hand_over
from hpclaunch.actions.queueing.retry import retry
from hpclaunch.core import waiting
from hpclaunch.core.errors import HpclaunchError
from hpclaunch.core.folders import state_folder
from hpclaunch.core.job_script import read_job_script
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.runs.ownership import new_token
from tests.builders import a_run

ARRAY_LINE = "array_task 4 SLURM_ARRAY_TASK_ID"
HOSTS = ("login1", "login2", "login3")
LONGEST_SBATCH = 400.0
SKEW = 3600.0
EPOCH = 1.8e9
VERBS = ("status", "retry")
REFUSED = b"sbatch: error: Batch job submission failed: Invalid qos specification\n"
TIMED_OUT = b"sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n"
UNREACHED = b"sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)\n"
LATIN = "sbatch: error: compte épuisé\n".encode("latin-1")


@dataclass
class Job:
    number: int
    queued_at: float
    run: int = 0
    cancelled_at: float = float("inf")


@dataclass
class Result:
    """What remains of one interleaving: live jobs, the run's record, and the most jobs of a run that lived at once.

    ``job_ids``: those that the record names; of an array the present ones of its runs.
    """

    seed: int
    live: list[str]
    job_ids: list[str]
    state: str
    most_at_once: int
    story: list[str] = field(default_factory=list)

    @property
    def is_lost(self) -> bool:
        """Whether a job is queued that the record does not name."""
        return self.live != self.job_ids


class Slurm:
    """The controller: what it was asked, when it obeys, and what it answers."""

    def __init__(self, dice: random.Random, folder: Path, is_array: bool) -> None:
        self.dice, self.folder, self.is_array = dice, folder, is_array
        self.jobs: list[Job] = []
        self.always_answers = False

    def call(self, now: float, command: list[str]) -> tuple[float, int, bytes, bytes]:
        """Return (seconds, exit code, stdout, stderr) of a program that starts now."""
        words = [Path(word).name for word in command]
        if "sbatch" in words:
            patience = float(words[words.index("timeout") + 2]) if "timeout" in words else float("inf")
            seconds, code, out, err = self._sbatch(now, Path(command[-1]).read_text())
            return (seconds, code, out, err) if seconds <= patience else (patience, 124, b"", b"")
        if words[0] in ("squeue", "sacct"):
            return self._list(now, words[0], " ".join(command))
        if words[:3] == ["scontrol", "show", "config"]:
            return 0.05, 0, b"ClusterName = simulated\nMaxArraySize = 1\n", b""
        if words[0] == "scancel":
            for job in self.jobs:
                if str(job.number) in words:
                    job.cancelled_at = min(job.cancelled_at, now)
        return 0.05, 0, b"", b""

    def _sbatch(self, now: float, script: str) -> tuple[float, int, bytes, bytes]:
        dice = self.dice
        seconds = dice.uniform(0.1, 5) if dice.random() < 0.4 else dice.uniform(1, LONGEST_SBATCH)
        if dice.random() < 0.4:  # nothing is queued
            endings = [(1, b"", REFUSED), (1, b"", TIMED_OUT), (1, b"", UNREACHED), (1, b"", b""), (1, b"", LATIN)]
            return (seconds, *dice.choice(endings))
        number = 4711 + len(self.jobs)
        latest = LONGEST_SBATCH if dice.random() < 0.5 else seconds
        first = re.search(f"^{ARRAY_LINE}(?: ([0-9]+))?$", script, re.MULTILINE)
        self.jobs.append(Job(number, now + dice.uniform(0, latest), int(first[1] or 0) if first else 0))
        doubtful = [(1, b"", TIMED_OUT), (-9, b"", b""), (0, b"welcome\n", b"")]
        if self.jobs[-1].queued_at > now + seconds:  # the controller obeys later, so sbatch heard no answer
            return (seconds, *dice.choice(doubtful))
        if dice.random() < 0.4:
            return (seconds, *dice.choice([*doubtful, (1, b"", LATIN), (1, b"", b""), (1, b"goodbye\n", REFUSED)]))
        return seconds, dice.choice([0, 0, 0, 1]), f"Submitted batch job {number}\n".encode(), b""

    def _list(self, now: float, program: str, words: str) -> tuple[float, int, bytes, bytes]:
        seconds = self.dice.uniform(0.01, 20)
        if not self.always_answers and self.dice.random() < 0.15:
            return seconds, 1, b"", b"Unable to contact slurm controller"
        live = self.live(now)
        form = "{0}|PENDING|Priority||{1}" if "%N|%Z" in words else "{0}|PENDING|Priority||{2}|{1}"
        form = "{0}|{2}|{1}" if "=%i|%V|%Z" in words else form
        form = "{0}|PENDING|0:0||simulated|{2}|{1}" if "Cluster,Submit,WorkDir" in words else form
        is_known = program == "squeue" or "--starttime" in words  # accounting shows no state of a job that waits
        tasks = "_[0]" if self.is_array else ""  # one array may have one task
        lines = [form.format(f"{job.number}{tasks}", self.folder, int(EPOCH + job.queued_at)) for job in live]
        lines = lines if is_known else []
        return seconds, 0, "".join(f"{line}\n" for line in lines).encode(), b""

    def live(self, now: float) -> list[Job]:
        return [job for job in self.jobs if job.queued_at <= now < job.cancelled_at]

    def most_at_once(self) -> int:
        lived = [[other for other in self.live(job.queued_at) if other.run == job.run] for job in self.jobs]
        return max(map(len, lived), default=0)


class Process:
    """A forked process of hpclaunch on one of the hosts; it asks for what it needs through two pipes."""

    def __init__(self, host: str, skew: float, began: float, work: Callable[[], None]) -> None:
        self.name, self.paused_until = f"{host} {work.__name__}", 0.0
        down, up = os.pipe(), os.pipe()
        self.number = os.fork()
        if self.number == 0:
            os.close(down[1])
            os.close(up[0])
            _become(host, skew, began, os.fdopen(down[0], "r"), os.fdopen(up[1], "w"))
            try:
                work()
            except HpclaunchError:
                pass
            except BaseException as error:
                print(f"{host} {work.__name__}: {error!r}", file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)
        os.close(down[0])
        os.close(up[1])
        self._to, self._from = os.fdopen(down[1], "w"), os.fdopen(up[0], "r")

    def give_word(self, now: float, answer: Any) -> list[Any] | None:
        """Let it run; return what it asks for next, or None at its end."""
        print(json.dumps([now, answer]), file=self._to, flush=True)
        asked = self._from.readline()
        return json.loads(asked) if asked else None

    def kill(self) -> None:
        os.kill(self.number, signal.SIGKILL)

    def close(self) -> int:
        for pipe in (self._to, self._from):
            try:
                pipe.close()
            except BrokenPipeError:
                pass
        return os.waitstatus_to_exitcode(os.waitpid(self.number, 0)[1])


def _become(  # noqa: C901  the class of programs belongs to the clock that it waits for
    host: str, skew: float, began: float, answers: Any, questions: Any
) -> None:
    """Take clock, host name and programs from the simulation, in this process for good."""
    clock = [json.loads(answers.readline())[0]]

    def ask(what: str, value: Any) -> Any:
        print(json.dumps([what, value]), file=questions, flush=True)
        clock[0], answer = json.loads(answers.readline())
        return answer

    class Popen:
        """What `subprocess.Popen` is: a program whose end is known, and comes when the clock says so."""

        stdout = stderr = stdin = None

        def __init__(self, command: list[str], **_: Any) -> None:
            self.args, self.returncode = command, None
            self._left, self._ending = -1.0, (0, "", "")

        def communicate(self, input: bytes | None = None, timeout: float | None = None) -> tuple[bytes, bytes]:
            if self._left < 0:
                self._left, *self._ending = ask("run", [[str(word) for word in self.args], timeout])
            else:  # it was waited for already
                pause = self._left if timeout is None else min(self._left, timeout)
                ask("sleep", pause)
                self._left -= pause
            if self._left > 0:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0, b"", b"")
            self.returncode, out, err = self._ending
            return out.encode("latin-1"), err.encode("latin-1")

        def poll(self) -> int | None:
            return self.returncode

        def wait(self, timeout: float | None = None) -> int | None:
            return self.returncode

        def kill(self) -> None:
            self.returncode = -9

        def __enter__(self) -> Popen:
            return self

        def __exit__(self, *_: object) -> None:
            return

    def communicate(process: Popen, name: str, seconds: float, content: bytes = b"", **_: Any) -> tuple[bytes, bytes]:
        return process.communicate(content, timeout=seconds)

    machine = os.uname()
    os.uname = lambda: os.uname_result((machine[0], host, *machine[2:]))  # type: ignore[method-assign]
    time.sleep = lambda seconds: ask("sleep", seconds)
    time.time = lambda: EPOCH + clock[0] + skew
    time.monotonic = lambda: clock[0] + began
    subprocess.Popen = Popen  # type: ignore[assignment,misc]
    waiting.communicate = communicate  # type: ignore[assignment]  # the pipes have real time


class Simulation:
    """One interleaving. The order of events, and with it everything, follows from the seed."""

    def __init__(self, seed: int, folder: Path, tasks: int) -> None:
        self.dice = random.Random(seed)
        rendered = replace(a_run(folder, state="RENDERED"), created="2026-01-02T03:04:05Z", token=new_token())
        rendered = replace(rendered, tasks=tasks)
        self.run = runs.save(rendered, durable=False)
        runs.list_own(state_folder(os.environ), self.run)
        text = f"#!/bin/bash\n#SBATCH --chdir={self.run.path}\n" + (f"{ARRAY_LINE}\n" if tasks else "")
        (self.run.path / "job.sh").write_text(text)
        self.slurm = Slurm(self.dice, self.run.path, tasks > 0)
        self.clocks = {host: (self.dice.uniform(-SKEW, SKEW), self.dice.uniform(0, 1e6)) for host in HOSTS}
        self.story: list[str] = []
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = itertools.count()

    def at(self, moment: float, action: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (moment, next(self._order), action))

    def play(self) -> float:
        """Let everything happen; return the moment of the last event."""
        now = 0.0
        while self._events:
            now, _, action = heapq.heappop(self._events)
            action(now)
        return now

    def begin(self, host: str, work: Callable[[], None]) -> Callable[[float], None]:
        """Return the action that begins a process of hpclaunch on a host."""

        def action(now: float) -> None:
            process = Process(host, *self.clocks[host], work)
            self.story.append(f"{now:.1f} {process.name} begins")
            fate = self.dice.random()
            if work == self.submit and fate < 0.25:
                self.at(now + self.dice.uniform(0, 200), lambda moment: self._kill(process, moment))
            elif fate < 0.4:  # it is stopped for a while, as by Ctrl-Z or a suspended machine
                self.at(now + self.dice.uniform(0, 500), lambda moment: self._pause(process, moment))
            self._go_on(process, now, None)

        return action

    def _kill(self, process: Process, now: float) -> None:
        if process.paused_until >= 0:
            self.story.append(f"{now:.1f} {process.name} is killed")
            process.kill()
            process.close()
            process.paused_until = -1.0

    def _pause(self, process: Process, now: float) -> None:
        if process.paused_until >= 0:
            process.paused_until = now + self.dice.uniform(0, 3000)
            self.story.append(f"{now:.1f} {process.name} is stopped until {process.paused_until:.1f}")

    def _go_on(self, process: Process, now: float, answer: Any) -> None:
        """Give a process the word, and put down when it gets it again."""
        if process.paused_until < 0:
            return
        if process.paused_until > now:
            self.at(process.paused_until, lambda moment: self._go_on(process, moment, answer))
            return
        asked = process.give_word(now, answer)
        if asked:
            seconds, reply = self._run(process, now, *asked[1]) if asked[0] == "run" else (asked[1], None)
            self.at(now + seconds, lambda moment: self._go_on(process, moment, reply))
            return
        process.paused_until = -1.0
        code = process.close()
        assert code == 0, (process.name, self.story)

    def _run(self, process: Process, now: float, command: list[str], timeout: float | None) -> tuple[float, Any]:
        """Return the seconds until a process hears of the program that it starts now, and what it hears."""
        seconds, code, out, err = self.slurm.call(now, command)
        words = " ".join(command[command.index("sbatch") :] if "sbatch" in command else command)
        self.story.append(f"{now:.1f} {process.name}: {words[:50]} -> {seconds:.1f} s, {code} {out!r}")
        waited = seconds if timeout is None else min(seconds, timeout)
        return waited, [seconds - waited, code, out.decode("latin-1"), err.decode("latin-1")]

    # --- what the processes do

    def submit(self) -> None:
        text = (self.run.path / "job.sh").read_text()
        if self.run.tasks:
            submit_array(self.run, read_job_script(text, scheduler_row(self.run.scheduler)), range(self.run.tasks))
        else:
            hand_over(self.run, text, 3600)

    def status(self) -> None:
        refreshed([runs.load(self.run.path)])

    def retry(self) -> None:
        (found,) = refreshed([runs.load(self.run.path)])
        retry(found, lambda words: None)

    def status_for_hours(self) -> None:
        for _ in range(4):
            self.status()
            time.sleep(1000)


def play(seed: int, folder: Path, tasks: int = 0) -> Result:
    """Submit a run, and ask and retry from three hosts at random moments; then ask for an hour, and return what is.

    With ``tasks`` it is an array of so many runs, of which Slurm accepts only one in each array.
    """
    simulation = Simulation(seed, folder, tasks)
    dice = simulation.dice
    simulation.at(0.0, simulation.begin(dice.choice(HOSTS), simulation.submit))
    for _ in range(dice.randint(3, 9)):
        work = getattr(simulation, dice.choice(VERBS))
        simulation.at(dice.uniform(0, 4000), simulation.begin(dice.choice(HOSTS), work))
    end = simulation.play() + LONGEST_SBATCH
    simulation.slurm.always_answers = True
    process = Process(HOSTS[0], *simulation.clocks[HOSTS[0]], simulation.status_for_hours)
    simulation._go_on(process, end, None)
    end = simulation.play()
    recorded = runs.load(simulation.run.path)
    named = runs.current_jobs(recorded) if tasks else [recorded.job_id]
    return Result(
        seed=seed,
        live=sorted(str(job.number) for job in simulation.slurm.live(end)),
        job_ids=sorted(filter(None, named)),
        state=recorded.state,
        most_at_once=simulation.slurm.most_at_once(),
        story=simulation.story,
    )
