"""A person at a desk: a project folder, a home, hpclaunch as a program, and a look at what Slurm did."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

HPCLAUNCH = str(Path(sys.executable).with_name("hpclaunch"))
# Others may use the same machine and the same cluster at the same time.
PATIENCE_S = 120

# What a rank saw, as JSON in RUN/seen/RANK.json.
PROBE = """
import json, os, socket, sys
rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("SLURM_PROCID") or "0"
seen = {"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd(), "host": socket.gethostname()}
folder = os.path.join(os.environ["HPCLAUNCH_RUN_DIR"], "seen")
os.makedirs(folder, exist_ok=True)
with open(os.path.join(folder, rank + ".json"), "w") as file:
    json.dump(seen, file)
"""
# Nodes need no virtual environment for a probe: the system's Python does.
PROBE_JOB: dict[str, Any] = {
    "summary": "says what a rank sees",
    "script": "probe.py",
    "resources": {"cpus_per_task": 1, "gpus_per_node": 0},
    "environment": {"python": "/usr/bin/python3"},
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A run as submit --json told it."""

    path: Path
    job_id: str

    def metrics(self, event: str) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl that tell of this event."""
        lines = map(json.loads, (self.path / "metrics.jsonl").read_text().splitlines())
        return [line for line in lines if line["event"] == event]

    def log(self) -> str:
        """What the job has said; the ranks' own logs repeat parts of it."""
        files = [file for file in (self.path / "logs").glob("*.out") if not file.name.startswith("rank-")]
        return "".join(file.read_text(errors="replace") for file in sorted(files))

    def ranks(self) -> list[dict[str, Any]]:
        """What the probe's ranks saw, by rank."""
        files = sorted((self.path / "seen").glob("*.json"), key=lambda file: int(file.stem))
        assert [file.stem for file in files] == [str(rank) for rank in range(len(files))], self.log()
        return [json.loads(file.read_text()) for file in files]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """``folder`` is where the person types; nothing of the tester's own shell or home reaches the programs."""

    folder: Path
    conf: Path

    def shell(self, **extra: str) -> dict[str, str]:
        home = self.folder / "home"
        plain = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_STATE_HOME": str(home / "state"),
            "SLURM_CONF": str(self.conf),
            "LC_ALL": "C.UTF-8",
            # The code that is tested, where that is not the one that is installed.
            **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
        }
        return {**plain, **extra}

    def job(self, name: str, code: str = PROBE, **keys: Any) -> None:
        """Write a job folder; a key of None leaves that of the probe out."""
        folder = self.folder / "jobs" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "probe.py").write_text(code)
        content = {key: value for key, value in {**PROBE_JOB, **keys}.items() if value is not None}
        (folder / "job.yaml").write_text(json.dumps(content, ensure_ascii=False))  # JSON is YAML

    def site(self, name: str, **keys: Any) -> None:
        """Write a site of the project's own: the test cluster's with other keys."""
        import yaml

        bundled = Path(__file__).resolve().parents[2] / "site_configs" / "testcluster.yaml"
        content = yaml.safe_load(bundled.read_text())
        for path, value in keys.items():
            place = content
            *steps, last = path.split("__")
            for step in steps:
                place = place[step]
            place[last] = value
        folder = self.folder / "site_configs"
        folder.mkdir(exist_ok=True)
        content["partitions"], content["defaults"]["walltime"] = {}, "00:30:00"  # plain YAML reads 04:00:00 otherwise
        (folder / f"{name}.yaml").write_text(json.dumps(content))

    def settings(self, **keys: Any) -> None:
        """Write the project's settings file."""
        (self.folder / "hpclaunch.yaml").write_text(json.dumps(keys))

    def program(self, name: str, code: str) -> str:
        """Put a program into the folder of stand-ins; return the line of set-up that finds it there."""
        folder = self.folder / "programs"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(code)
        (folder / name).chmod(0o755)
        return f'export PATH={shlex.quote(str(folder))}:"$PATH"'

    def run(
        self, *arguments: str, env: Mapping[str, str] | None = None, seconds: float = PATIENCE_S
    ) -> subprocess.CompletedProcess[str]:
        """hpclaunch ARGUMENTS, whatever its exit code."""
        return subprocess.run(
            [HPCLAUNCH, *arguments],
            cwd=self.folder,
            env=dict(env or self.shell()),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            stdin=subprocess.DEVNULL,
        )

    def submit(self, *arguments: str, env: Mapping[str, str] | None = None) -> Submitted:
        """hpclaunch submit ARGUMENTS, which must be accepted."""
        done = self.run("submit", "--json", *arguments, env=env)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        return Submitted(path=Path(told["run_dir"]), job_id=told["job_id"])

    def newest(self) -> Submitted:
        """The run that was submitted last."""
        told = json.loads(self.run("status", "--json").stdout)["runs"][0]
        return Submitted(path=Path(told["run_dir"]), job_id=told["job_id"])

    def slurm(self, *command: str) -> str:
        """One of Slurm's programs, which must succeed."""
        done = subprocess.run(
            command, cwd=self.folder, env=self.shell(), capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def states(self, *runs: Submitted) -> dict[str, str]:
        """Job id -> state, of jobs that Slurm still knows."""
        ids = ",".join(run.job_id for run in runs)
        lines = self.slurm("squeue", "--noheader", "--states=all", "--format=%i %T", f"--jobs={ids}").splitlines()
        return {line.split()[0]: line.split()[1] for line in lines}

    def wait(self, *runs: Submitted, seconds: float = PATIENCE_S) -> None:
        """Wait until all have ended."""
        over = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"}
        until(lambda: set(self.states(*runs).values()) <= over, f"the end of {[run.job_id for run in runs]}", seconds)

    def wait_for(self, run: Submitted, state: str) -> None:
        until(lambda: self.states(run)[run.job_id] == state, f"job {run.job_id} {state}")

    def wait_for_line(self, run: Submitted, text: str, times: int = 1) -> None:
        until(lambda: run.log().count(text) >= times, f"{text!r} {times} times in the log of {run.path}")

    def field(self, run: Submitted, name: str) -> str:
        """A field of scontrol show job; a value with blanks is its whole line's."""
        for line in self.slurm("scontrol", "show", "job", run.job_id).splitlines():
            word = line.strip()
            if word.startswith(f"{name}="):
                return word.removeprefix(f"{name}=").split(" ")[0]
            if f" {name}=" in word:
                return word.split(f" {name}=", 1)[1].split(" ")[0]
        raise AssertionError(f"scontrol shows no {name}")

    def tres(self, run: Submitted) -> str:
        """What the job was given, such as ``cpu=4,node=2,gres/gpu=4``."""
        return self.field(run, "AllocTRES" if self.is_newer() else "TRES")

    def is_newer(self) -> bool:
        """Whether this Slurm behaves as 24.11 does, and not as 22.05; what lies between was not tried."""
        return tuple(map(int, re.findall(r"\d+", self.slurm("squeue", "--version"))[:2])) >= (23, 11)

    def ended(self, run: Submitted) -> str:
        """State and exit code as sacct gives them, such as ``FAILED 7:0``."""
        command = (
            "sacct",
            "--noheader",
            "--parsable2",
            "--allocations",
            f"--jobs={run.job_id}",
            "--format=State,ExitCode",
        )
        told = ""

        def known() -> bool:
            nonlocal told
            told = self.slurm(*command).strip().replace("|", " ")
            # slurmdbd may learn of a job's start when it has ended: with the state FAILED, and no exit code yet.
            return told.split(" ")[0] not in ("", "RUNNING", "PENDING", "COMPLETING") and told != "FAILED 0:0"

        until(known, f"job {run.job_id} in sacct")
        return told


def until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.2)


def new_desk(root: Path, conf: Path, name: str) -> Desk:
    """A desk in a fresh folder ROOT/work/NAME-N, which all nodes see; it is kept after the tests."""
    for number in itertools.count(1):
        folder = root / "work" / f"{name}-{number}"
        try:
            (folder / "home").mkdir(parents=True)
        except FileExistsError:
            continue
        return Desk(folder=folder, conf=conf)
    raise AssertionError("unreachable")
