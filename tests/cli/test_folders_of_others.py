"""Settings, sites, jobs and templates that somebody else can change: none is used, until the user consents once.

Needs root, which becomes a user without a name. As `.ci/run` does this as root, it is skipped elsewhere.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.test_two_users import ADA, BOB, SACCT, SBATCH, Shared
from tests.cli.test_two_users import shared as both_consent

__all__ = ["SACCT", "SBATCH", "both_consent"]

SETTINGS = "environment:\n  setup: ['echo > {}/set-up']\n"


@pytest.fixture
def shared(both_consent: Shared) -> Shared:
    """A project of Ada, who has no consents, and into which only she may write."""
    for user in (ADA, BOB):
        shutil.rmtree(both_consent.home(user) / ".local/state/hpclaunch")
    give(both_consent.desk.project, ADA)
    both_consent.desk.project.chmod(0o755)
    return both_consent


def give(path: Path, user: int) -> None:
    for each in (path, *path.rglob("*")):
        os.chown(each, user, user, follow_symlinks=False)


def put(shared: Shared, name: str, text: str, owner: int = ADA) -> Path:
    path = shared.desk.write(name, text)
    for each in (path, *path.parents):
        if each == shared.desk.project:
            break
        os.chown(each, owner, owner)
    return path


JOB = "summary: x\nscript: train.py\n"
CASES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "settings": ("hpclaunch.yaml", "walltime: '00:04:00'\n", ("submit", "./train.py", "--dry-run")),
    "settings of plan": ("hpclaunch.yaml", "walltime: '00:04:00'\n", ("plan", "cifar")),
    "site": ("site_configs/slurmsite.yaml", "", ("submit", "./train.py", "--dry-run")),
    "job": ("jobs/mine/job.yaml", JOB, ("submit", "mine", "--dry-run")),
    "template": ("templates/base.sh.j2", '{% extends "bundled/base.sh.j2" %}\n', ("submit", "./train.py", "--dry-run")),
    "part of a template": ("templates/base.sh.j2", '{% extends "own.j2" %}\n', ("render", "./train.py")),
    "library": ("templates/hpclaunch.sh", "true\n", ("submit", "./train.py", "--dry-run")),
}


@pytest.mark.parametrize("case", CASES)
def test_a_file_of_another_user_is_refused_with_the_command_to_go_on(shared: Shared, case: str) -> None:
    """Bob types in Ada's project."""
    name, text, words = CASES[case]
    if text:
        put(shared, name, text)
    if case == "part of a template":
        put(shared, "templates/own.j2", '{% extends "bundled/base.sh.j2" %}\n', owner=0)
    shared.desk.project.chmod(0o755)
    for path in (shared.desk.project, shared.desk.project / "site_configs"):
        os.chown(path, 0, 0)
    os.chown(shared.desk.project / "site_configs/slurmsite.yaml", 0 if text else ADA, 0)
    file = shared.desk.project / name
    done = shared.type(BOB, *words)
    assert (done.code, f"error: {file}: is not used, as others can change it: " in done.err) == (1, True), done.text
    assert f"belongs to the user with uid {ADA}" in done.err
    assert f"next: if you trust them: hpclaunch trust {shared.desk.project} --despite-group" in done.err
    assert shared.type(ADA, *words).code == 0
    assert shared.type(BOB, "trust", "--despite-group").code == 0
    done = shared.type(BOB, *words)
    assert done.code == 0, done.text


@pytest.mark.parametrize(
    "change",
    [
        lambda project: project.chmod(0o775),
        lambda project: os.chown(project, BOB, ADA),
        lambda project: os.chown(project, ADA, BOB),
        lambda project: (
            shutil.copytree(project, f"{project}2"),
            shutil.rmtree(project),
            os.rename(f"{project}2", project),
        ),
    ],
    ids=["permissions", "owner", "group", "inode"],
)
def test_a_consent_ends_when_what_it_was_given_for_changes(shared: Shared, change: Callable[[Path], object]) -> None:
    put(shared, "hpclaunch.yaml", "walltime: '00:04:00'\n")
    assert shared.type(BOB, "trust", "--despite-group").code == 0
    assert shared.type(BOB, "submit", "./train.py", "--dry-run").code == 0
    change(shared.desk.project)
    if shared.desk.project.stat().st_uid == 0:
        give(shared.desk.project, ADA)
    done = shared.type(BOB, "submit", "./train.py", "--dry-run")
    assert (done.code, "--despite-group" in done.err) == (1, True), done.text


def test_a_consent_ends_when_a_folder_above_changes(shared: Shared) -> None:
    os.chown(shared.desk.root, ADA, ADA)
    assert shared.type(BOB, "trust", "--despite-group").code == 0
    assert shared.type(BOB, "submit", "./train.py", "--dry-run").code == 0
    shared.desk.root.chmod(0o777)
    assert shared.type(BOB, "submit", "./train.py", "--dry-run").code == 1


def test_a_consent_is_for_its_folder_alone_and_can_be_taken_back(shared: Shared) -> None:
    beside = shared.desk.root / "beside"
    shutil.copytree(shared.desk.project, beside)
    give(beside, ADA)
    assert shared.type(BOB, "trust", str(beside), "--despite-group").code == 0
    assert shared.type(BOB, "submit", "./train.py", "--dry-run").code == 1
    assert shared.type(BOB, "trust", "--despite-group").code == 0
    assert shared.type(BOB, "submit", "./train.py", "--dry-run").code == 0
    assert shared.type(BOB, "trust", "--remove").code == 0
    assert shared.type(BOB, "submit", "./train.py", "--dry-run").code == 1
    assert shared.type(BOB, "trust", "--remove").code == 1
    assert shared.type(BOB, "trust", "--list").out == f"{beside}\n"


@pytest.mark.parametrize("mode", [0o1777, 0o777, 0o775, 0o1775])
def test_a_folder_that_others_may_write_to_is_not_trusted(shared: Shared, mode: int) -> None:
    """Also a sticky one: whoever may add files to it writes the job that runs."""
    shared.desk.project.chmod(mode)
    done = shared.type(ADA, "trust")
    assert (done.code, done.out) == (1, ""), done.text
    assert f"{shared.desk.project}: is not trusted, as others can change it: " in done.err
    assert f"next: chmod go-w {shared.desk.project}; or, if you trust them: hpclaunch trust" in done.err
    assert shared.type(ADA, "trust", "--list").out == ""
    assert shared.type(ADA, "trust", "--despite-group").out == f"{shared.desk.project}\n"
    assert shared.type(ADA, "trust", "--list").out == f"{shared.desk.project}\n"


def test_trust_rests_while_others_can_change_the_folder(shared: Shared) -> None:
    put(shared, "hpclaunch.yaml", SETTINGS.format(shared.desk.spool))
    put(shared, "elsewhere.sh", "true\n")
    elsewhere = shared.desk.root / "elsewhere"
    elsewhere.mkdir()
    shutil.move(shared.desk.project / "elsewhere.sh", elsewhere / "run.sh")
    words = ("submit", str(elsewhere / "run.sh"), "--site", "local", "--wait")
    assert shared.type(ADA, "trust").code == 0
    assert shared.type(ADA, *words).code == 0
    assert (shared.desk.spool / "set-up").exists()
    (shared.desk.spool / "set-up").unlink()
    assert shared.type(ADA, "trust", "--despite-group").code == 0
    shared.desk.project.chmod(0o1777)
    assert shared.type(ADA, *words).code == 1
    assert not (shared.desk.spool / "set-up").exists()


def test_a_list_of_trusted_folders_that_others_can_change_is_empty(shared: Shared) -> None:
    state = shared.home(ADA) / ".local/state/hpclaunch"
    assert shared.type(ADA, "trust", "--despite-group").code == 0
    for file in ("trusted-folders.txt", "shared-folders.jsonl"):
        assert stat.S_IMODE((state / file).stat().st_mode) == 0o600
    (state / "shared-folders.jsonl").chmod(0o666)
    shared.home(ADA).chmod(0o755)
    for folder in (state, state.parent, state.parent.parent):
        folder.chmod(0o755)
    done = shared.type(ADA, "trust", "--despite-group")
    assert (done.code, "others can change what is kept here" in done.err) == (1, True)
    assert f"next: chmod go-w {state}/shared-folders.jsonl\n" in done.err
    (state / "trusted-folders.txt").chmod(0o666)
    assert shared.type(ADA, "trust", "--list").out == ""
    (state / "trusted-folders.txt").chmod(0o600)
    assert shared.type(ADA, "trust", "--list").out == f"{shared.desk.project}\n"


def test_what_others_can_change_is_not_completed(shared: Shared) -> None:
    put(shared, "jobs/mine/job.yaml", JOB)
    completing = {"COMP_WORDS": "hpclaunch\nsubmit\nmi", "COMP_CWORD": "2", "_HPCLAUNCH_COMPLETE": "complete_bash"}
    shared.desk.environment.update(completing)
    assert [shared.type(user).out.split() for user in (ADA, BOB)] == [["mine"], []]


def test_a_users_own_folder_that_a_group_may_write_to(shared: Shared) -> None:
    """``umask 002`` with a group that is not private: only where others can get into the home folder."""
    folder = shared.home(ADA) / ".config/hpclaunch"
    folder.mkdir(parents=True)
    (folder / "settings.yaml").write_text("walltime: '00:04:00'\n")
    give(shared.home(ADA), ADA)
    folder.chmod(0o775)
    words = ("submit", "./train.py", "--dry-run")
    shared.home(ADA).chmod(0o700)
    assert shared.type(ADA, *words).code == 0
    shared.home(ADA).chmod(0o755)
    done = shared.type(ADA, *words)
    assert (done.code, f"next: chmod go-w {folder}; or, if" in done.err) == (1, True), done.text
    assert shared.type(ADA, "trust", str(folder), "--despite-group").code == 0
    assert shared.type(ADA, *words).code == 0


def test_the_flags_of_trust_that_exclude_each_other(shared: Shared) -> None:
    for words in (("--list", "--despite-group"), ("--remove", "--despite-group")):
        assert shared.type(ADA, "trust", *words).code == 2


def open_project(shared: Shared) -> None:
    """A project into which everybody may write, with a job that says who wrote it."""
    shared.desk.environment.update({"HPCLAUNCH_SITE": "slurmsite"})
    for user in (ADA, BOB):
        sites = shared.home(user) / ".config/hpclaunch/site_configs"
        sites.mkdir(parents=True)
        shutil.copy(shared.desk.project / "site_configs/slurmsite.yaml", sites)
        give(shared.home(user), user)
    shutil.rmtree(shared.desk.project / "site_configs")
    shared.desk.project.chmod(0o777)


EVIL = "#!/bin/bash\n#SBATCH --chdir={}\ntouch {}/pwned\n"


def exchange(shared: Shared, run: Path) -> Path:
    """Bob puts a folder of runs of his own in the place of Ada's, with a copy of all that he may know."""
    runs, away = shared.desk.project / "runs", shared.desk.project / "away"
    runs.rename(away)
    shutil.copytree(away, runs)
    (run / "job.sh").write_text(EVIL.format(run, shared.desk.spool))
    (run / "code/train.py").write_text(f"open('{shared.desk.spool}/pwned', 'w')\n")
    give(runs, BOB)
    for each in (run, *run.rglob("*")):
        each.chmod(0o777)
    return away / run.name


def test_a_submission_warns_once_where_others_can_exchange_the_run(shared: Shared) -> None:
    open_project(shared)
    done = shared.type(ADA, "submit", "./train.py")
    told = "warning: others can exchange the run directory while the job waits or runs: "
    assert (done.code, told in done.err) == (0, True), done.text
    assert f"hpclaunch trust {shared.desk.project}/runs --despite-group accepts this one" in done.err
    assert stat.S_IMODE(Path(done.out.strip()).stat().st_mode) == 0o700
    for folder in (shared.desk.project / "runs", shared.desk.project):
        assert shared.type(ADA, "trust", str(folder), "--despite-group").code == 0
        done = shared.type(ADA, "submit", "./train.py")
        assert (done.code, told in done.err) == (0, False), done.text
    elsewhere = shared.home(ADA) / "runs"
    assert shared.type(ADA, "trust", "--remove").code == 0
    done = shared.type(ADA, "submit", "./train.py", "--runs-dir", str(elsewhere))
    assert (done.code, told in done.err) == (0, False), done.text


@pytest.mark.parametrize("words", ["resume {}", "retry {}", "wait {} --retries 2"])
def test_nothing_of_an_exchanged_run_is_submitted(shared: Shared, words: str) -> None:
    open_project(shared)
    done = shared.type(ADA, "submit", "./train.py")
    run = Path(done.out.strip())
    shared.desk.program("sacct", SACCT.format(spool=shared.desk.spool).replace("COMPLETED|0:0", "NODE_FAIL|1:0"))
    assert "NODE_FAIL" in shared.type(ADA, "status", run.name).out
    exchange(shared, run)
    jobs = (shared.desk.spool / "jobs").read_text()
    for name in (run.name, str(run)):
        done = shared.type(ADA, *words.format(name).split())
        assert done.code != 0, done.text
        assert "is not known as a run of yours" in done.err, done.text
    assert (shared.desk.spool / "jobs").read_text() == jobs
    assert not (shared.desk.spool / "pwned").exists()


# sbatch, which Slurm's filters may slow down, sees the folder of runs exchanged before it reads the script.
LATE_SBATCH = """#!/bin/bash
cd {project}
mv runs away
cp -r away runs
while read -r file; do printf '#!/bin/bash\ntouch {spool}/pwned\n' > "$file"; done < <(find runs -name '*.sh')
cat -- "${{@: -1}}" > {spool}/script
printf %s "${{@: -1}}" > {spool}/name
echo 'Submitted batch job 4711'
"""


def test_what_sbatch_reads_cannot_be_exchanged(shared: Shared) -> None:
    open_project(shared)
    shared.desk.program("sbatch", LATE_SBATCH.format(project=shared.desk.project, spool=shared.desk.spool))
    assert shared.type(ADA, "submit", "./train.py").code == 0
    script = (shared.desk.spool / "script").read_text()
    assert "pwned" not in script and "#SBATCH --job-name=train" in script
    copy = Path((shared.desk.spool / "name").read_text())
    assert copy.parent.name.startswith("hpclaunch-") and not copy.parent.exists()


def test_a_job_whose_run_was_exchanged_runs_nothing_of_it(shared: Shared) -> None:
    """Slurm starts Ada's script, which it has read at the submission, in Bob's directory."""
    open_project(shared)
    stand_in = SBATCH.format(spool=shared.desk.spool)
    kept = stand_in.replace("|| cat ", f"|| tee {shared.desk.spool}/script < ")
    assert kept != stand_in
    shared.desk.program("sbatch", kept)
    run = Path(shared.type(ADA, "submit", "./train.py").out.strip())
    exchange(shared, run)
    starts = sorted((run / "attempts").rglob("*"))  # that of the job, which has completed
    done = start_as(shared, ADA, run)
    assert done.returncode == 78
    assert f"{run} belongs to the user with uid {BOB} and not to you: the run directory was exchanged" in done.stderr
    for each in (run, *run.rglob("*")):  # only the code is Bob's
        if "code" not in each.relative_to(run).parts:
            os.chown(each, ADA, ADA)
    done = start_as(shared, ADA, run)
    assert (done.returncode, f"{run}/code belongs to the user with uid {BOB}" in done.stderr) == (78, True)
    assert not (shared.desk.spool / "pwned").exists()
    assert sorted((run / "attempts").rglob("*")) == starts


def start_as(shared: Shared, user: int, run: Path) -> subprocess.CompletedProcess[str]:
    """Start the script as slurmd does."""
    environment = {**shared.desk.environment, "HOME": str(shared.home(user)), "SLURM_JOB_ID": "4711"}
    return subprocess.run(
        ["bash", shared.desk.spool / "script"],
        user=user,
        group=user,
        extra_groups=[],
        cwd=run,
        env=environment,
        capture_output=True,
        text=True,
    )


MADE = """
summary: x
script: train.py
parameters: {from: own.json}
data: {name: words, layouts: [made], make: {program: pack.py}}
"""


def make_job(shared: Shared) -> Path:
    """Return the folder of a job of Ada whose program makes its data, with a trusted project around it."""
    file = put(shared, "jobs/own/job.yaml", MADE)
    put(shared, "jobs/own/train.py", "")
    put(shared, "jobs/own/own.json", '{"width": {"default": 1, "help": "x"}}')
    put(
        shared,
        "jobs/own/pack.py",
        f"import sys; open(sys.argv[1] + '/made', 'w'); open('{shared.desk.spool}/ran', 'w')",
    )
    assert shared.type(ADA, "trust").out == f"{shared.desk.project}\n"
    return file.parent


def exchange_for_a_link(shared: Shared, file: Path) -> Path:
    """Put a link to a copy that belongs to Bob, and that everybody can write, in place of a file."""
    theirs = shared.home(BOB) / file.name
    shutil.copyfile(file, theirs)
    os.chown(theirs, BOB, BOB)
    theirs.chmod(0o666)
    file.unlink()
    file.symlink_to(theirs)
    os.chown(file, ADA, ADA, follow_symlinks=False)
    return theirs


@pytest.mark.parametrize("part", ["pack.py", "helper.py"])
def test_a_trusted_folder_with_a_link_to_code_of_others_runs_nothing(shared: Shared, part: str) -> None:
    shared.home(BOB).chmod(0o755)
    folder, ran = make_job(shared), shared.desk.spool / "ran"
    put(shared, "jobs/own/helper.py", "")
    words = ("data", "fetch", "own", "--site", "local", "--data-dir", str(shared.desk.spool / "data"))
    assert shared.type(ADA, *words).code == 0 and ran.exists()
    ran.unlink()
    shutil.rmtree(shared.desk.spool / "data")
    theirs = exchange_for_a_link(shared, folder / part)
    done = shared.type(ADA, *words)
    assert done.code == 1 and not ran.exists(), done.text
    assert f"others can change {folder / part}: " in done.err and f"belongs to the user with uid {BOB}" in done.err
    command = f"hpclaunch trust {theirs.parent} --despite-group"
    assert f"if you trust them: {command})" in done.err
    assert shared.type(ADA, *command.split()[1:]).code == 0
    assert shared.type(ADA, *words).code == 0 and ran.exists()


def test_data_beside_a_job_is_not_looked_through_for_code_of_others(shared: Shared) -> None:
    make_job(shared)
    for name in ("runs/old/run.json", "runs/old/code/theirs.py", ".venv/pyvenv.cfg", ".venv/lib/theirs.py"):
        os.chown(put(shared, f"jobs/own/{name}", "{}"), BOB, BOB)
    words = ("data", "fetch", "own", "--site", "local", "--data-dir", str(shared.desk.spool / "data"))
    done = shared.type(ADA, *words)
    assert done.code == 0, done.text


def test_a_link_to_parameters_of_others_is_not_followed(shared: Shared) -> None:
    shared.home(BOB).chmod(0o755)
    folder = make_job(shared)
    words = ("submit", "own", "--dry-run")
    assert shared.type(ADA, *words).code == 0
    exchange_for_a_link(shared, folder / "own.json")
    done = shared.type(ADA, *words)
    assert done.code == 1, done.text
    assert f"error: {folder / 'own.json'}: is not used, as others can change it: " in done.err
