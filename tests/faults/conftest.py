"""Breaking the real test cluster on purpose, and mending it. The whole bed: HPCLAUNCH_FAULTS=all pytest tests/faults"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.conftest import Cluster, cluster, desk, ordinary_user  # noqa: F401
from tests.slurm.desk import HPCLAUNCH, Desk, Submitted, until
from tests.slurm.users import as_root

# What takes long is for the one documented command; CI has a case of every class.
collect_ignore = [] if os.environ.get("HPCLAUNCH_FAULTS") == "all" else ["bed"]
SCRIPTS = Path(__file__).resolve().parents[1] / "cluster"
SPAWN = "import sys, pathlib, cluster_daemons as d; d.spawn(pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:])"
# Calls the real sbatch when the test says so.
WAITING_SBATCH = """#!/bin/bash
touch {folder}/asked-$$
until [ -e {folder}/go ]; do sleep 0.1; done
exec /usr/bin/sbatch "$@"
"""
COMMANDS = {"slurmctld": ["slurmctld", "-D", "-f", "{root}/etc/slurm.conf"], "slurmdbd": ["slurmdbd", "-D"]}


@dataclasses.dataclass(frozen=True)
class Faults:
    """A cluster whose daemons can be killed, stopped and started again."""

    cluster: Cluster
    desk: Desk

    @property
    def daemons(self) -> Any:
        return self._script("cluster_daemons")

    @property
    def options(self) -> dict[str, Any]:
        """What the cluster was started with."""
        found: dict[str, Any] = json.loads((self.cluster.root / "cluster.json").read_text())
        return found

    @property
    def slot(self) -> int:
        return int(self.options["slot"])

    def _script(self, name: str) -> Any:
        if str(SCRIPTS) not in sys.path:
            sys.path.insert(0, str(SCRIPTS))
        return importlib.import_module(name)

    @contextlib.contextmanager
    def down(self, name: str) -> Iterator[None]:
        """End a daemon; afterwards start it again and wait until it answers.

        SIGTERM: Slurm's controller saves what it knows every 5 s, and killed it would forget the jobs of the last ones.
        """
        self._kill(name, signal.SIGTERM)
        try:
            until(lambda: name not in self.daemons.running(self.cluster.root), f"the end of {name}")
            yield
        finally:
            self._spawn(name, [word.format(root=self.cluster.root) for word in COMMANDS[name]])
            until(self.answers, f"{name} answers")

    def counts_from_the_start(self) -> None:
        """Let the controller lose its jobs, and their last number, as where a cluster is set up again."""
        with self.down("slurmctld"), as_root():
            for file in (self.cluster.root / "state").rglob("job_state*"):
                file.unlink()

    def _kill(self, name: str, number: signal.Signals) -> None:
        """Send a daemon a signal; one that ends it has ended it, and its port is free for the next."""
        with as_root():
            os.kill(self.daemons.running(self.cluster.root)[name], number)
        if number == signal.SIGKILL:
            until(lambda: name not in self.daemons.running(self.cluster.root), f"the end of {name}")

    def _spawn(self, name: str, words: Sequence[str]) -> None:
        """Start a daemon from a process of its own, which it outlives, as cluster.py does."""
        command = [sys.executable, "-c", SPAWN, str(self.cluster.root), name, *words]
        with as_root():
            subprocess.run(command, env={**os.environ, "PYTHONPATH": str(SCRIPTS)}, check=True)

    @contextlib.contextmanager
    def hanging(self, name: str) -> Iterator[None]:
        """Stop a daemon: it takes connections and does not answer. What it was sent it obeys afterwards."""
        self._kill(name, signal.SIGSTOP)
        try:
            yield
        finally:
            self._kill(name, signal.SIGCONT)
            until(self.answers, f"{name} answers")

    @contextlib.contextmanager
    def submitting(self, *commands: Sequence[str]) -> Iterator[list[subprocess.Popen[bytes]]]:
        """Start hpclaunch with each command, and give the processes when the controller hangs and all call sbatch."""
        programs = self.desk.folder / "waiting"
        programs.mkdir(exist_ok=True)
        for old in programs.iterdir():
            old.unlink()
        (programs / "sbatch").write_text(WAITING_SBATCH.format(folder=programs))
        (programs / "sbatch").chmod(0o755)
        environment = self.impatient(6)  # longer than hpclaunch waits for scontrol ping, which then says nothing
        environment["PATH"] = f"{programs}:{environment['PATH']}"
        words = {"cwd": self.desk.folder, "env": environment, "stderr": subprocess.PIPE}
        processes = [subprocess.Popen([HPCLAUNCH, *command], **words) for command in commands]
        until(lambda: len(list(programs.glob("asked-*"))) >= len(commands), "the calls of sbatch")
        with self.hanging("slurmctld"):
            (programs / "go").touch()
            yield processes

    @contextlib.contextmanager
    def node_daemon_down(self, node: str) -> Iterator[None]:
        """Kill a node's slurmd; what it has started goes on."""
        self._kill(f"slurmd-{node}", signal.SIGKILL)
        try:
            yield
        finally:
            self._start_node(node)

    @contextlib.contextmanager
    def node_cut_off(self, node: str) -> Iterator[None]:
        """Unplug a node's cable. What it has started goes on, and still sees the file system."""
        network = self._script("cluster_network")
        link = ["ip", "-n", f"{network.prefix(self.slot)}{node}", "link", "set", "eth0"]
        with as_root():
            subprocess.run([*link, "down"], check=True)
        try:
            yield
        finally:
            self._kill(f"slurmd-{node}", signal.SIGKILL)
            with as_root():
                subprocess.run([*link, "up"], check=True)
            self._start_node(node)

    @contextlib.contextmanager
    def node_killed(self, node: str) -> Iterator[None]:
        """Kill all processes of a node, as a failure of its power does; afterwards it comes back."""
        network = self._script("cluster_network")
        here = (network.NETNS / f"{network.prefix(self.slot)}{node}").stat().st_ino
        with as_root():
            for process in network.processes(self.slot):
                with contextlib.suppress(OSError):
                    if Path(f"/proc/{process}/ns/net").stat().st_ino == here:
                        os.kill(process, signal.SIGKILL)
        until(lambda: f"slurmd-{node}" not in self.daemons.running(self.cluster.root), f"the end of {node}")
        try:
            yield
        finally:
            self._start_node(node)

    @contextlib.contextmanager
    def node_lost(self, node: str) -> Iterator[None]:
        """Kill all processes of a node, which comes back before Slurm misses it (SlurmdTimeout)."""
        with self.node_killed(node):
            # A machine needs longer to boot. One that is back within BatchStartTimeout and 10 s of what was last heard
            # of its jobs is not missed, and was not asked again for them in the 16 minutes that somebody watched.
            found = re.search(r"^BatchStartTimeout=(\d+)$", self.cluster.conf.read_text(), re.MULTILINE)
            assert found
            time.sleep(int(found[1]) + 20)
            yield

    def _start_node(self, node: str) -> None:
        root = self.cluster.root
        shared = self.options.get("share", "")
        enter = self._script("cluster_network").enter(node, self.slot)
        self._spawn(f"slurmd-{node}", [*enter, "/bin/sh", str(SCRIPTS / "node-init.sh"), node, str(root), shared])
        well = ("idle", "mixed", "allocated", "completing")

        output = root / "log" / f"slurmd-{node}.out"

        def is_back() -> bool:
            assert f"slurmd-{node}" in self.daemons.running(root), output.read_text()[-1000:]
            state = self.desk.slurm("sinfo", "-h", "-n", node, "-o", "%T").strip().rstrip("*")
            if state in ("drained", "draining"):  # a step could not report its end in time: "Kill task failed"
                with as_root():
                    self.desk.slurm("scontrol", "update", f"nodename={node}", "state=resume")
            return state in well

        until(is_back, f"{node} back")

    @contextlib.contextmanager
    def small_disks(self, node: str, folders: Sequence[Path], kilobytes: int = 512) -> Iterator[Callable[..., None]]:
        """Put a small file system on each folder, on that node alone; gives what runs a shell command there."""
        inside = ["nsenter", f"--target={self.daemons.running(self.cluster.root)[f'slurmd-{node}']}", "--mount"]

        def shell(command: str, may_fail: bool = False) -> None:
            with as_root():
                subprocess.run([*inside, "sh", "-c", command], check=not may_fail, capture_output=True)

        for folder in folders:
            shell(f"mount -t tmpfs -o size={kilobytes}k disk {folder}")
        try:
            yield shell
        finally:
            for folder in folders:
                shell(f"umount -l {folder}", may_fail=True)

    def answers(self) -> bool:
        asked = ["squeue", "--noheader"], ["sacct", "--noheader"]
        return all(
            subprocess.run(words, env=self.desk.shell(), capture_output=True, timeout=60).returncode == 0
            for words in asked
        )

    def impatient(self, seconds: int = 2) -> dict[str, str]:
        """A shell whose Slurm programs wait this long for an answer (MessageTimeout)."""
        text = self.cluster.conf.read_text().replace("MessageTimeout=30", f"MessageTimeout={seconds}")
        conf = self.desk.folder / "impatient.conf"
        conf.write_text(text)
        return self.desk.shell(SLURM_CONF=str(conf))

    def jobs_of(self, run: Path) -> list[str]:
        """Ids of all jobs that Slurm has, or had, for this run directory."""
        lines = self.desk.slurm("squeue", "--noheader", "--states=all", "--format=%i|%Z").splitlines()
        return [line.partition("|")[0] for line in lines if line.endswith(f"|{run}")]

    def runs(self) -> list[Path]:
        return sorted((self.desk.folder / "runs").glob("*"))


@pytest.fixture
def faults(cluster: Cluster, desk: Desk) -> Faults:  # noqa: F811
    desk.job("short", "print('one line')")
    desk.job("long", "import time\nprint('begun', flush=True)\ntime.sleep(3600)\n")
    return Faults(cluster=cluster, desk=desk)


def told(desk: Desk, run: Submitted | Path, env: Mapping[str, str] | None = None) -> dict[str, Any]:  # noqa: F811
    """What ``status --json`` says of the run."""
    path = run if isinstance(run, Path) else run.path
    done = desk.run("status", str(path), "--json", env=env)
    assert done.returncode == 0, done.stderr
    (record,) = json.loads(done.stdout)["runs"]
    assert isinstance(record, dict)
    return record
