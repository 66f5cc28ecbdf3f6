"""Two users in one project folder: each has every verb, and neither sees the other's files as an error of their own.

Needs root, which becomes users without a name. As `.ci/run` does this as root, it is skipped elsewhere.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.conftest import Desk, forking_server, make_desk, with_slurm
from tests.forked.server import Outcome, Server, Trial

ADA, BOB = 12345, 23456
# A controller whose jobs complete at once, with a script's proof. SPOOL/jobs has them as ID|WORKING FOLDER|USER.
SBATCH = """#!/bin/bash
umask 0
while IFS= read -r line; do
  case $line in '#SBATCH --chdir='*) folder=${{line#*=}} ;; esac
done < <([ "${{@: -1}}" = --test-only ] && cat || cat "${{@: -1}}")
jobs=(); [ -e {spool}/jobs ] && mapfile -t jobs < {spool}/jobs
id=$((4711 + ${{#jobs[@]}})); echo "$id|$folder|$UID" >> {spool}/jobs
echo "Submitted batch job $id"
[ -n "$folder" ] && [ -d "$folder/logs" ] || exit 0 # --test-only has no folder
umask 022; start=$folder/attempts/$id.0; mkdir -p "$start"
date -u +%Y-%m-%dT%H:%M:%SZ > "$start/started"; echo "$id.0 1" > "$start/completed"; echo 0 > "$start/exit-code"
"""
SACCT = """#!/bin/bash
while IFS='|' read -r id folder user; do
  [ "$user" = "$UID" ] || continue
  case "$*" in
    *State*Submit*) echo "$id|COMPLETED|0:0|n1||$EPOCHSECONDS|$folder" ;;
    *State*) echo "$id|COMPLETED|0:0|n1|$folder" ;;
  esac
done < {spool}/jobs
"""
# {mine} is the path of the user's own newest run.
VERBS = {
    "submit ./train.py": 0,
    "submit ./train.py --dry-run": 0,
    "submit cifar --synthetic --test-only": 0,
    "render ./train.py": 0,
    "plan cifar": 0,
    "status": 0,
    "status {mine}": 0,
    "status --watch": 0,
    "results": 0,
    "results {mine}": 0,
    "logs": 0,
    "logs {mine}": 0,
    "wait {mine}": 0,
    "wait": 0,
    "runs list": 0,
    "runs show {mine}": 0,
    "runs show": 0,
    "runs rebuild": 0,
    "runs clean --older-than 30d": 0,
    "runs clean --older-than 30d --all-folders --yes": 0,
    "jobs list": 0,
    "jobs show cifar": 0,
    "sites list": 0,
    "sites show slurmsite": 0,
    "cancel {mine}": 0,
    "cancel --all --yes": 1,  # nothing is left to cancel
}


@dataclass
class Shared:
    """A project that both users may write into; ``home`` is the home of each."""

    desk: Desk
    server: Server

    def home(self, user: int) -> Path:
        return self.desk.root / f"home-{user}"

    def type(self, user: int, *words: str) -> Outcome:
        environment = {**self.desk.environment, "HOME": str(self.home(user))}
        done = self.server.run(Trial(words=words, cwd=str(self.desk.project), environment=environment, user=user))
        assert "Traceback" not in done.text, done.text
        return done

    def submit(self, user: int) -> Path:
        done = self.type(user, "submit", "./train.py")
        assert done.code == 0, done.text
        return Path(done.out.strip())


@pytest.fixture
def shared() -> Iterator[Shared]:
    if os.geteuid() != 0:
        pytest.skip("group root: only root can become other users")
    # pytest's own folders may be entered only by root.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        desk = with_slurm(make_desk(Path(folder)))
        for name in ("squeue", "scancel", "srun", "scontrol", "sacctmgr", "sshare"):
            desk.program(name, "#!/bin/bash\nexit 0\n")
        for name, text in {"sbatch": SBATCH, "sacct": SACCT}.items():
            desk.program(name, text.format(spool=desk.spool))
        for place in (desk.project, desk.spool):
            place.chmod(0o777)
        both = Shared(desk, forking_server())
        for user in (ADA, BOB):
            both.home(user).mkdir()
            os.chown(both.home(user), user, user)
            # Both know that the other can change the project's files.
            assert both.type(user, "trust", "--despite-group").code == 0
        yield both


@pytest.mark.parametrize("opened", [False, True], ids=["private runs", "readable runs"])
def test_each_of_two_users_has_every_verb(shared: Shared, opened: bool) -> None:
    mine = {user: shared.submit(user) for user in (ADA, BOB)}
    for run in mine.values() if opened else ():
        subprocess.run(["chmod", "-R", "a+rX", run], check=True)
    faults = []
    for words, code in VERBS.items():
        for user in (ADA, BOB):
            done = shared.type(user, *words.format(mine=mine[user]).split())
            if done.code != code or "denied" in done.text:
                faults.append(f"{user}: {words}: {done.code}: {done.text[-400:]}")
    assert not faults, "\n".join(faults)
    assert shared.type(BOB, "runs", "clean", str(mine[ADA]), "--yes").code == 1
    assert all((run / "run.json").exists() for run in mine.values())


def test_a_part_of_another_users_run_that_is_closed_stops_no_verb(shared: Shared) -> None:
    """Whatever a run of Ada lets Bob read, and whatever it does not."""
    run = shared.submit(ADA)
    shared.submit(BOB)
    for name in ("attempts/4711.0/started", "attempts/4711.0/exit-code", "logs/slurm-4711.out", "logs/rank-0.out"):
        (run / name).write_text("0\n")
    (run / "metrics.jsonl").write_text('{"event": "end", "accuracy": 0.5}\n')
    subprocess.run(["chown", "-R", f"{ADA}:{ADA}", run], check=True)
    subprocess.run(["chmod", "-R", "a+rX", run], check=True)
    parts = [run, *(path for path in sorted(run.rglob("*")) if "code/" not in str(path.relative_to(run)))]
    faults = []
    for part in parts:
        mode = part.stat().st_mode
        for left in (0o700, 0o744) if part.is_dir() else (0o600,):
            part.chmod(left)
            for words in ("status", "results", "runs list", f"status {run}", f"runs show {run}", f"logs {run}"):
                done = shared.type(BOB, *words.split())
                told = "you may not read this" in done.err
                if done.code != 0 and not (told and done.code == 1 and str(run) in words):
                    faults.append(f"{part.relative_to(run)} {left:o}: {words}: {done.code}: {done.text[-300:]}")
        part.chmod(mode)
    assert not faults, "\n".join(faults[:20])


def test_a_user_without_a_name_and_a_home_has_every_verb(shared: Shared) -> None:
    del shared.desk.environment["HOME"]
    for words in ("status", "runs list", "sites list", "plan cifar", "submit ./train.py --dry-run", "data list"):
        environment = shared.desk.environment
        done = shared.server.run(
            Trial(words=words.split(), cwd=str(shared.desk.project), environment=environment, user=BOB)
        )
        assert "Traceback" not in done.text, done.text
    assert not (shared.desk.project / "~").exists()


def test_submit_beside_folders_that_one_may_not_enter(shared: Shared) -> None:
    for name in ("private", "package/inner", "jobs", "site_configs/other"):
        folder = shared.desk.project / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "secret.py").write_text("1")
        os.chown(folder, ADA, ADA)
        folder.chmod(0o700)
    closed = shared.desk.write("closed.py", "1", mode=0o600)
    os.chown(closed, ADA, ADA)
    done = shared.type(BOB, "submit", "./train.py")
    assert done.code == 0, done.text
    code = Path(done.out.strip()) / "code"
    assert (code / "train.py").exists() and not (code / "closed.py").exists()
    for told in ("private", "package/inner", "closed.py"):
        assert told in done.err
    assert f"the job files of the project are not used, as you may not read {shared.desk.project / 'jobs'}" in done.err
    assert shared.type(BOB, "submit", "cifar", "--synthetic").code == 0
    refused = shared.type(BOB, "submit", "private/secret.py")
    assert (refused.code, "you may not enter this folder" in refused.err) == (1, True)
