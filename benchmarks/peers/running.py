"""Runs one case with one tool on the test cluster, and returns what was seen; it judges nothing.

A program named sbatch stands before Slurm's own on PATH: it keeps the script and the words that it was given, and what
Slurm answered. So a dry run is compared with the bytes that Slurm gets, however a tool hands them over.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cases
from cases import Case
from peer import Peer, Place

PATIENCE_S = 300
PROGRAM = Path(__file__).with_name("program.py")
USER = "hpclaunch-tester"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OVER = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "BOOT_FAIL"}
# One job that makes room for itself at a time: two of them would disturb each other's case.
PREEMPTING = threading.Lock()
# Jobs that held nodes when such a job was queued. It got all nodes, so they were preempted.
PREEMPTED: set[str] = set()
# It names the configuration, which on most machines stands in /etc/slurm: a tool may drop SLURM_CONF.
SBATCH = """#!/bin/sh
export SLURM_CONF={conf}
call=$(mktemp -d {record}/call-XXXXXXXX); chmod 755 "$call"
script=
for word; do printf '%s\\0' "$word"; [ -z "$script" ] && [ -f "$word" ] && script=$word; done > "$call/words"
if [ -n "$script" ]; then
    cp "$script" "$call/script"
    {sbatch} "$@" > "$call/stdout" 2> "$call/stderr"; code=$?
else
    case " $* " in
        *" --version "*|*" -V "*|*" --help "*|*" --wrap"*) : > "$call/script" ;;
        *) cat > "$call/script" ;;
    esac
    {sbatch} "$@" < "$call/script" > "$call/stdout" 2> "$call/stderr"; code=$?
fi
echo "$code" > "$call/code"
if [ "$code" = 0 ] && [ -s "$call/script" ] && mv {record}/lose "$call/lost" 2> /dev/null; then
    echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2
    exit 1
fi
cat "$call/stdout"; cat "$call/stderr" >&2
exit "$code"
"""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The running test cluster: its slurm.conf, and a folder that all nodes see."""

    conf: Path
    work: Path

    def slurm(self, *command: str) -> str:
        """One of Slurm's programs, run by root."""
        environment = {"PATH": PATH, "SLURM_CONF": str(self.conf), "LC_ALL": "C.UTF-8"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
        if done.returncode:
            raise RuntimeError(f"{shlex.join(command)}: {done.stderr}")
        return done.stdout


@dataclass(frozen=True, kw_only=True)
class Done:
    """A command that ended, or that had handed its job to Slurm: output, exit code and times in seconds."""

    output: str
    error: str
    code: int
    wall_s: float
    cpu_s: float


def seen_of(cluster: Cluster, peer: Peer, case: Case, place: Place) -> dict[str, Any]:
    """Run the case once in the folder of `place`, which is made, and return what was seen (see `columns.Seen`)."""
    record = _prepare(peer, case, place, cluster)
    environment = _environment(cluster, case, place, record)
    if peer.prepare:
        _command(peer.prepare(case, place), place, environment)
    dry = None
    if case.dry_run and peer.dry_run:
        dry = _command(peer.dry_run(case, place), place, environment)
        dry_jobs = len(_jobs(record))
        shown = peer.shown(dry.output, place)
        (place.folder / "shown-by-dry-run").write_text(shown)
    if case.lost_answer:
        (record / "lose").touch()
    was_preempted = False
    if case.inside:
        done = _inside(cluster, peer.submit(case, place), place, environment)
        jobs = _jobs(record)
    else:
        # A tool that stays follows its job, which must be preempted meanwhile: it is waited for in a thread of its own.
        until = (lambda: bool(_jobs(record))) if peer.stays else None
        with ThreadPoolExecutor(1) as pool:
            command = pool.submit(_command, peer.submit(case, place), place, environment, until)
            while not command.done() and not (until and until()):
                time.sleep(0.2)
            jobs = _jobs(record)
            was_preempted = case.requeue and bool(jobs) and _preempt(cluster, jobs, place)
            done = command.result()
    _wait(cluster, jobs)
    jobs = _jobs(record)  # a chain's successors too
    ranks = [json.loads(path.read_text()) for path in sorted(place.seen.glob("rank-*.json"))]
    if case.requeue and set(jobs) & PREEMPTED and sum(not rank["restart"] for rank in ranks) < cases.RANKS:
        raise RuntimeError("preempted before all ranks of the first start ran: call this command again")
    seen = {
        "exit_code": done.code,
        "error": (done.error or done.output)[-2000:] if done.code or len(jobs) != 1 else "",
        "cpu_s": round(done.cpu_s, 3),
        "wall_s": round(done.wall_s, 3),
        "jobs": jobs,
        "shows_job": bool(jobs) and re.search(rf"(?<!\d){jobs[0]}(?!\d)", done.output + done.error) is not None,
        "was_preempted": was_preempted,
        "command_was_run": any(place.folder.parent.rglob("command-was-run")),
        "ranks": ranks,
        **_accounted(cluster, jobs, parts=1 + sum(text.count("\n#SBATCH hetjob\n") for text in _scripts(record))),
        "dry_run": None,
    }
    if dry is not None:
        seen["dry_cpu_s"], seen["dry_wall_s"] = round(dry.cpu_s, 3), round(dry.wall_s, 3)
        same, difference = _compare(shown, _scripts(record), peer.run_names)
        seen["dry_run"] = {"jobs": dry_jobs, "exit_code": dry.code, "same": same, "difference": difference}
    return seen


def _prepare(peer: Peer, case: Case, place: Place, cluster: Cluster) -> Path:
    """Make the project's folder, a home and the sbatch that keeps its input; return the folder of what it keeps."""
    shutil.rmtree(place.folder.parent, ignore_errors=True)
    record = place.folder.parent / "record"
    for folder in (place.folder, place.seen, record, place.folder.parent / "home", place.folder.parent / "programs"):
        folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(PROGRAM, place.program)
    (place.seen / "plan.json").write_text(json.dumps(case.plan))
    for name, text in peer.files(case, place).items():
        (place.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (place.folder / name).write_text(text)
    sbatch = place.folder.parent / "programs" / "sbatch"
    sbatch.write_text(SBATCH.format(record=record, conf=cluster.conf, sbatch=shutil.which("sbatch", path=PATH)))
    sbatch.chmod(0o755)
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", f"{USER}:", str(place.folder.parent)], check=True)
    return record


def _environment(cluster: Cluster, case: Case, place: Place, record: Path) -> dict[str, str]:
    return {
        "PATH": f"{place.folder.parent}/programs:{place.programs}:{PATH}",
        "HOME": str(place.folder.parent / "home"),
        "USER": USER,
        "LOGNAME": USER,
        "SLURM_CONF": str(cluster.conf),
        "LC_ALL": "C.UTF-8",
        **case.shell,
    }


def _command(words: list[str], place: Place, environment: Mapping[str, str], until: Any = None) -> Done:
    """Run a command as the tester; with `until` measure it only until this is true, and let it go on to its end."""
    out, err = place.folder.parent / "output", place.folder.parent / "error"
    user = {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}
    began = time.monotonic()
    with out.open("wb") as output, err.open("wb") as error:
        process = subprocess.Popen(
            words, cwd=place.folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=error, **user
        )
    early: tuple[float, float] | None = None
    deadline = began + PATIENCE_S
    while True:
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        if until and early is None and until():
            early = time.monotonic() - began, _processor_time(process.pid)
        if time.monotonic() > deadline:
            process.kill()
        time.sleep(0.005)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall, cpu = early or (time.monotonic() - began, used.ru_utime + used.ru_stime)
    return Done(
        output=out.read_text(errors="replace"),
        error=err.read_text(errors="replace"),
        code=process.returncode,
        wall_s=wall,
        cpu_s=cpu,
    )


def _processor_time(pid: int) -> float:
    """Seconds that a process and its ended children have used until now."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _inside(cluster: Cluster, words: list[str], place: Place, environment: Mapping[str, str]) -> Done:
    """Type the command in a job of one node and one task, which keeps that job's variables."""
    folder = place.folder.parent
    script = folder / "outer.sh"
    for name in ("output", "error"):  # of an earlier command, which root opened
        (folder / name).unlink(missing_ok=True)
    lines = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    command = f"{shlex.join(words)} > {folder}/output 2> {folder}/error < /dev/null"
    script.write_text("\n".join(["#!/bin/bash", *lines, f"cd {place.folder}", command, f"echo $? > {folder}/code", ""]))
    user = {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}
    sbatch = [
        "sbatch",
        "--parsable",
        "--nodes=1",
        "--ntasks=1",
        "--ntasks-per-node=1",
        "--time=10",
        "--output=/dev/null",
    ]
    began = time.monotonic()
    outer = subprocess.run(
        [*sbatch, str(script)],
        env={"PATH": PATH, "HOME": str(folder / "home"), "SLURM_CONF": str(cluster.conf)},
        cwd=place.folder,
        capture_output=True,
        text=True,
        check=True,
        **user,
    )
    _wait(cluster, [outer.stdout.strip()])
    code = folder / "code"
    return Done(
        output=(folder / "output").read_text(errors="replace"),
        error=(folder / "error").read_text(errors="replace"),
        code=int(code.read_text()) if code.exists() else -1,
        wall_s=time.monotonic() - began,
        cpu_s=0.0,
    )


def _jobs(record: Path) -> list[str]:
    """IDs of the jobs that Slurm queued, in their order."""
    found = []
    for call in record.glob("call-*"):
        answer = (call / "stdout").read_text() if (call / "code").exists() else ""
        job = re.fullmatch(r"(?:Submitted batch job )?(\d+)(?:;\S+)?", answer.strip())
        found += [int(job[1])] if job else []
    return [str(job) for job in sorted(found)]


def _scripts(record: Path) -> list[str]:
    return [(call / "script").read_text() for call in record.glob("call-*") if (call / "script").stat().st_size]


def _compare(shown: str, given: list[str], run_names: tuple[str, ...]) -> tuple[str, str]:
    """How the script that was shown equals what sbatch got: in bytes, but for the run's name, or not; and the line."""
    if len(given) != 1:
        return "", f"{len(given)} scripts"
    if shown == given[0]:
        return "the same bytes", ""
    plain = [shown, given[0]]
    for pattern in run_names:
        plain = [re.sub(pattern, "NAME", text) for text in plain]
    if plain[0] == plain[1]:
        return "the same but for the run's name", ""
    lines = zip([*plain[0].splitlines(), ""], [*plain[1].splitlines(), ""], strict=False)
    return "", next((f"{a[:80]!r}, {b[:80]!r}" for a, b in lines if a != b), "one is longer")


def _preempt(cluster: Cluster, jobs: list[str], place: Place) -> bool:
    """Once all ranks of the first start run, queue a job that takes all nodes; return whether ours had to go for it.

    Jobs of other tools that run in the same partition must go as well; theirs need no further one.
    """
    deadline = time.monotonic() + PATIENCE_S
    while len(list(place.seen.glob("rank-*.json"))) < cases.RANKS:
        if time.monotonic() > deadline or not _unfinished(cluster, jobs):
            return False
        time.sleep(0.5)
    with PREEMPTING:
        if jobs[0] not in PREEMPTED:
            _until_all_run(cluster)
            holding = cluster.slurm("squeue", "--noheader", "--partition=preempt", "--states=RUNNING", "--format=%A")
            words = ("--partition=batch", f"--nodes={cases.NODES}", "--exclusive", "--ntasks-per-node=1", "--time=5")
            other = cluster.slurm("sbatch", "--parsable", *words, "--output=/dev/null", "--chdir=/", "--wrap=sleep 3")
            _wait(cluster, [other.strip()])
            PREEMPTED.update(holding.split())
    return jobs[0] in PREEMPTED


def _until_all_run(cluster: Cluster) -> None:
    """Wait until no job of the partition waits, and a few seconds more, in which its ranks start."""
    deadline = time.monotonic() + 20
    question = ("squeue", "--noheader", "--partition=preempt", "--states=PENDING,CONFIGURING", "--format=%A")
    while cluster.slurm(*question).strip() and time.monotonic() < deadline:
        time.sleep(0.5)
    time.sleep(5)


def _unfinished(cluster: Cluster, jobs: list[str]) -> bool:
    """Whether a job is queued, running or completing."""
    known = cluster.slurm("squeue", "--noheader", "--format=%A %T").splitlines()
    return any(line.split()[0] in jobs for line in known)


def _wait(cluster: Cluster, jobs: list[str]) -> None:
    """Wait until the jobs have ended; one that has not after five minutes is cancelled."""
    deadline = time.monotonic() + PATIENCE_S
    while _unfinished(cluster, jobs):
        if time.monotonic() > deadline:
            cluster.slurm("scancel", *jobs)
            deadline += 60
        time.sleep(0.5)


def _accounted(cluster: Cluster, jobs: list[str], parts: int) -> dict[str, Any]:
    """State and exit code of the last job, and the GPUs of all its parts, as sacct gives them.

    parts: the components of a heterogeneous job, of which slurmdbd may learn one after the other.
    """
    if not jobs:
        return {"state": "", "sacct_exit_code": "", "gpus": 0}
    form = "--format=JobID,State,ExitCode,AllocTRES"
    for _ in range(60):
        answer = cluster.slurm("sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={jobs[-1]}", form)
        rows = [line.split("|") for line in answer.splitlines()]
        # slurmdbd may learn of a job's start when it has ended: with the state FAILED, and no exit code yet.
        ended = {row[1].split()[0] for row in rows} <= OVER and ["FAILED", "0:0"] not in [row[1:3] for row in rows]
        if len(rows) >= parts and ended:
            break
        time.sleep(1)
    gpus = sum(int(found) for row in rows for found in re.findall(r"gres/gpu=(\d+)", row[3]))
    return {"state": rows[0][1].split()[0], "sacct_exit_code": rows[0][2], "gpus": gpus}
