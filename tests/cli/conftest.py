"""A desk to type at: hpclaunch as a process, a home and a project of its own, fake scheduler programs on PATH."""

from __future__ import annotations

import atexit
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hpclaunch import render
from tests.builders import ROOTS
from tests.forked.server import Server, Trial

PATIENCE = 120
TOOLS = [
    *("bash", "cat", "cut", "date", "dd", "env", "find", "git", "grep", "ln", "mkdir", "rm", "sed", "sha256sum"),
    *("sleep", "stat", "tail", "tee", "timeout", "wc"),
]
FAKE = """#!/bin/bash
printf '%s\\0' "$@" > {spool}/{name}.args
env -0 > {spool}/{name}.env
case {name},"${{@: -1}}" in
  sbatch,--test-only) cat > {spool}/script ;;
  sbatch,*) cat -- "${{@: -1}}" > {spool}/script ;;
esac
with_folders {spool}/{name}.out "$@"
cat {spool}/{name}.err >&2
exit {code}
"""

WITH_FOLDERS = """#!/bin/bash
# with_folders FILE ARGUMENT...: print the answer in FILE; where the format asks for the working folder of each job, add
# that of the run that has the job ID, and the time of its submission: as if each run's job were submitted here now.
# A job that completed has left its proof.
file=$1
shift
[ "$SLURM_TIME_FORMAT" = %s ] && form='%(%s)T' || form='%(%Y-%m-%dT%H:%M:%S)T'
printf -v now "$form" -1
case "$*" in
  *'%N|%Z'* | *NodeList,WorkDir*) bars=3 between= ;;
  *'%N|%V|%Z'* | *'%Q|%S|%V|%Z'*) bars=3 between="$now|" ;;
  *NodeList,Cluster,Submit,WorkDir*) bars=3 between="|$now|" ;;
  *ConsumedEnergyRaw,Cluster,Submit,WorkDir*) bars=7 between="|$now|" ;;
  *'=%i|%V|%Z'*) bars=0 between="$now|" ;;
  *) exec cat "$file" ;;
esac
declare -A home
prove() { # prove FOLDER ID: leave what the script of a job leaves that completed, unless there are marks of its own
  local folder=$1 id=$2 task line
  [ -e "$1/run.json" ] || return
  if [[ $2 == *_\\[* ]]; then # ARRAY_[1-3,7]
    line=${2#*_[}
    for line in ${line//[],]/ }; do
      for ((task = ${line%-*}; task <= ${line#*-}; task++)); do prove "$1" "${2%%_*}_$task"; done
    done
    return
  fi
  if [[ $2 == *_* ]]; then # a task has the folder that its line in the file of values names
    mapfile -t -s "${2#*_}" -n 1 line < "$1/values"
    folder+="/${line%%$'\\t'*}"
  fi
  compgen -G "$folder/attempts/$id.*" > /dev/null && return
  mkdir -p "$folder/attempts/$id.0" 2> /dev/null || return
  echo "$id.0 1" > "$folder/attempts/$id.0/completed"
  date -u +%Y-%m-%dT%H:%M:%SZ > "$folder/attempts/$id.0/started"
}
while IFS=: read -r record id; do
  id=${id//[^0-9]/}
  [[ -n ${home[$id]-} && ! $record -nt ${home[$id]}/run.json ]] || home[$id]=${record%/run.json}
done < <(grep -rosE --include=run.json '(job_id": |earlier": \\[|^  )"[0-9]+"' PROJECT)
while IFS= read -r line || [ -n "$line" ]; do
  id=${line%%|*}
  key=${id%%[_+]*}
  folder=
  [[ ! $key =~ ^[0-9]+$ ]] || folder=${home[$key]-}
  if [[ $line == *'|/'* ]]; then
    folder=/${line#*|/}
    line=${line%%|/*}
  fi
  [[ -z $folder || $line != "$id|COMPLETED"* ]] || prove "$folder" "$id"
  [ "$bars" -gt 0 ] || line=$id
  there=${line//[^|]/}
  while [ -n "$folder" ] && [ ${#there} -lt "$bars" ]; do
    line+='|'
    there+='|'
  done
  printf '%s\\n' "$line${folder:+|$between$folder}"
done < "$file"
"""


FORKING = threading.Lock()
"""The server of forked children answers one after the other."""


@functools.cache
def forking_server() -> Server:
    """Of this process of the tests; it ends when they do, because its stdin is closed then."""
    return Server()


KEPT = ("templates", "files")
"""Where any command keeps what it has compiled or read, in the cache folder."""


@functools.cache
def compiled_templates() -> Path:
    """The bundled templates, compiled once for all desks: compiling them takes longer than the rest of a dry run."""
    folder = Path(tempfile.mkdtemp(prefix="compiled-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    environment = render._environment(ROOTS, folder)
    for name in environment.list_templates(extensions=["j2"]):
        environment.get_template(name)
    return folder


def _is_usual(environment: Mapping[str, str]) -> bool:
    """Whether an interpreter would begin with these variables as the server did."""
    if environment.get("LANG") != "C.UTF-8" or any(name.startswith("LC_") for name in environment):
        return False
    return {name: environment[name] for name in environment if name.startswith(("PYTHON", "LD_"))} == this_checkout()


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def runs(self) -> Any:
        """The list of runs in the JSON of a verb that shows several."""
        return self.json["runs"]


@dataclass
class Desk:
    """``project`` is where one types; ``spool`` is what the fake programs were given."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    before: tuple[str, ...] = ()
    """Words that stand before ``hpclaunch``: a program that starts it in another way."""

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def spool(self) -> Path:
        return self.root / "spool"

    @property
    def config(self) -> Path:
        return self.home / ".config/hpclaunch"

    def write(self, name: str, content: str, mode: int = 0o644) -> Path:
        """A file in the project, or (absolute) anywhere."""
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(mode)
        return path

    def fake(self, name: str, out: str = "", err: str = "", code: int = 0) -> None:
        """Put a program on PATH that answers so, and remembers what it was given."""
        (self.spool / f"{name}.out").write_text(out)
        (self.spool / f"{name}.err").write_text(err)
        self.program(name, FAKE.format(spool=self.spool, name=name, code=code))

    def program(self, name: str, text: str) -> None:
        fresh = self.root / "bin" / f".{name}"
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(self.root / "bin" / name)

    def given(self, name: str) -> list[str]:
        """The arguments of the fake program's last call."""
        return (self.spool / f"{name}.args").read_text().split("\0")[:-1]

    def environment_of(self, name: str) -> dict[str, str]:
        pairs = (self.spool / f"{name}.env").read_text().split("\0")[:-1]
        return dict(pair.split("=", 1) for pair in pairs)

    def start(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        """Type ``hpclaunch WORDS`` and go on."""
        return subprocess.Popen(
            [*self.before, sys.executable, "-m", "hpclaunch", *words],
            cwd=self.project,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="surrogateescape",
            start_new_session=True,
        )

    def type(self, *words: str, **variables: str) -> Done:
        """Type ``hpclaunch WORDS`` and wait for its end. A traceback is a failure of the test.

        It runs in a forked child, whose modules are loaded already: that takes a tenth of the time of a new process.
        Where the interpreter itself would begin in another way, or another test types, it is a new process.
        """
        environment = {**self.environment, **variables}
        if not self.before and _is_usual(environment) and FORKING.acquire(blocking=False):
            try:
                done = self._forked(words, environment)
            finally:
                FORKING.release()
        else:
            process = self.start(*words, **variables)
            out, err = process.communicate(timeout=PATIENCE)
            done = Done(process.returncode, out, err)
        assert "Traceback" not in done.err, done.err
        return done

    def _forked(self, words: Sequence[str], environment: Mapping[str, str]) -> Done:
        trial = Trial(words=words, cwd=str(self.project), environment=environment, seconds=PATIENCE)
        outcome = forking_server().run(trial)
        out, err = (re.sub("\r\n?", "\n", text) for text in (outcome.out, outcome.err))
        return Done(outcome.code, out, err)

    def listing(self) -> dict[str, bytes | None]:
        """All files and folders under the desk but the notes of the fake programs, and what any command may keep."""
        cache = self.root / "home" / ".cache" / "hpclaunch"
        kept = {cache / name for name in KEPT}
        left_out = {self.spool, cache, cache.parent, *kept}
        written = [path for path in self.root.rglob("*") if path not in left_out]
        written = [path for path in written if not {self.spool, *kept}.intersection(path.parents)]
        return {str(path): path.read_bytes() if path.is_file() else None for path in written}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    yield make_desk(tmp_path)
    _end_what_is_left(tmp_path)


def make_desk(root: Path) -> Desk:
    """Make a desk in a folder, with nothing on PATH but a shell's own tools."""
    desk = Desk(root)
    for folder in ("project", "home", "spool", "bin", "tools"):
        (root / folder).mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found, tool
        (root / "tools" / tool).symlink_to(found)
    shutil.copytree(compiled_templates(), desk.home / ".cache/hpclaunch/templates")
    (root / "tools/python3").symlink_to(os.path.realpath(sys.executable))
    (root / "tools/with_folders").write_text(WITH_FOLDERS.replace("PROJECT", str(desk.project)))
    (root / "tools/with_folders").chmod(0o755)
    desk.environment = {
        "PATH": f"{root}/bin:{root}/tools",
        "HOME": str(desk.home),
        "LANG": "C.UTF-8",
        "SLURM_CONF": str(root / "slurm.conf"),
        **this_checkout(),
    }
    return desk


@pytest.fixture
def cluster(desk: Desk) -> Desk:
    """A desk at a Slurm site called ``slurmsite``, with fakes of Slurm's programs; those of its limits tell nothing."""
    return with_slurm(desk)


def with_slurm(desk: Desk) -> Desk:
    desk.write(
        "site_configs/slurmsite.yaml",
        """
        title: fake
        scheduler: slurm
        defaults: {node_type: cpu, partition: batch, walltime: "00:10:00"}
        node_types: {cpu: {title: x, nodes: 8, cores_per_node: 8}}
        partitions: {batch: {max_nodes: 4}, debug: {max_walltime: "00:05:00"}}
        launchers: {default: srun, options: {srun: {mpi: pmix}, mpirun: {}}}
        environment: {python: current}
        """.replace("\n        ", "\n"),
    )
    desk.write("train.py", "print('hello')\n")
    desk.environment["HPCLAUNCH_SITE"] = "slurmsite"
    desk.fake("sbatch", out="Submitted batch job 4711\n")
    for name in ("squeue", "sacct", "scancel", "srun", "scontrol", "sacctmgr", "sshare"):
        desk.fake(name)
    return desk


@pytest.fixture
def ordinary_user(cluster: Desk) -> Desk:
    """A desk where file permissions count: root types without the capabilities to read and write everything."""
    if os.geteuid() == 0:
        program = shutil.which("setpriv")
        assert program, "setpriv is part of Debian's util-linux"
        cluster.before = (program, "--bounding-set=-dac_override,-dac_read_search")
    return cluster


def _end_what_is_left(root: Path) -> None:
    """End processes of this test's own runs, known by their working or script folder."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if os.fsencode(root) in command and int(entry.name) != os.getpid():
            try:
                os.kill(int(entry.name), signal.SIGKILL)
            except OSError:
                pass


def this_checkout() -> dict[str, str]:
    """What makes a process use the code that is tested, where that is not the one that is installed."""
    return {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}


def wait_for(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Wait until ``condition`` holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"after {seconds} s still not: {what}"
        time.sleep(0.05)


def without(environment: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in names}
