"""The copies of environment, image and code on the nodes, as the library makes, uses and removes them.

srun and sbcast are stand-ins here that do their work on this machine, the only node; tests/slurm has the real ones.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.builders import with_library

SRUN = '#!/bin/bash\nwhile [[ "$1" == --* ]]; do shift; done\nexec "$@"\n'
SBCAST = '#!/bin/bash\nset -o noclobber\ncat -- "${@: -2:1}" > "${@: -1}"\n'
MAIN = """
import os, sys
import helper, inside
for where in (sys.prefix, __file__, helper.__file__, inside.__file__, os.environ["HPCLAUNCH_BROADCAST"]):
    print(where)
"""


@dataclass(frozen=True)
class Bed:
    """A run directory, a venv on the "shared" file system, and the folder of the only node."""

    root: Path

    @property
    def run(self) -> Path:
        return self.root / "runs/my run"

    @property
    def venv(self) -> Path:
        return self.root / "venv"

    @property
    def node(self) -> Path:
        return self.root / "node"

    @property
    def copy(self) -> str:
        return f"{self.node}/hpclaunch-{os.getuid()}-7.0"

    def program(self, name: str, text: str) -> None:
        path = self.root / "programs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def job(self, command: str, how: str = "required", before: str = "") -> subprocess.CompletedProcess[str]:
        """The script of a run whose only rank runs ``command``."""
        return with_library(
            f"export HPCLAUNCH_RUN_DIR='{self.run}'\n"
            "begin slurm signal_to=group\n"
            f"source {self.venv}/bin/activate\n{before}\n"
            f"rank() {{\n  set_rank 1 0\n  {command}\n}}\n"
            f"broadcast {how} {self.node} {self.venv}\n"
            "launch\nfinish\n",
            PATH=f"{self.root}/programs:/usr/bin:/bin",
            SLURM_JOB_ID="7",
            SLURM_JOB_NUM_NODES="1",
            HOME=str(self.root),
        )

    def left(self) -> list[str]:
        """What is on the node."""
        return sorted(path.name for path in self.node.iterdir())


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    made = Bed(tmp_path)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(made.venv)], check=True)
    (library,) = made.venv.glob("lib/python3*/site-packages")
    (library / "inside.py").write_text("")
    (made.run / "code").mkdir(parents=True)
    (made.run / "code/main.py").write_text(MAIN)
    (made.run / "code/helper.py").write_text("")
    made.node.mkdir(mode=0o700)
    made.program("srun", SRUN)
    made.program("sbcast", SBCAST)
    return made


def test_the_rank_runs_the_copies_and_the_end_of_the_job_removes_them(bed: Bed) -> None:
    done = bed.job(f"python '{bed.run}/code/main.py' '--data={bed.venv}2/data'")
    prefix, script, helper, inside, told = done.stdout.splitlines()
    assert (done.returncode, prefix, told) == (0, f"{bed.copy}/env", bed.copy), done.stderr
    assert (script, helper) == (f"{bed.copy}/code/main.py", f"{bed.copy}/code/helper.py")
    assert inside.startswith(f"{bed.copy}/env/lib/")
    assert bed.left() == []
    (record,) = bed.run.glob("attempts/7.0/broadcast")
    assert f"{bed.venv} and {bed.run}/code, " in record.read_text()
    assert f"MB, copied to {bed.copy} on every node in " in done.stderr


def test_an_environment_is_packed_once_until_it_changes(bed: Bed) -> None:
    told = []
    for change in (False, False, True):
        if change:
            next(bed.venv.glob("lib/python3*/site-packages")).joinpath("more.py").write_text("")
        done = bed.job("python -c ''")
        assert done.returncode == 0, done.stderr
        told.append(f"packing {bed.venv} for the nodes" in done.stderr)
        for name in ("claims", "attempts"):
            subprocess.run(["rm", "-r", str(bed.run / name)], check=True)
    assert told == [True, False, True]
    kept = bed.run.parent / f".broadcast-{os.getuid()}"
    assert kept.stat().st_mode & 0o077 == 0
    assert [path.stat().st_mode & 0o077 for path in kept.iterdir()] == [0, 0]


def test_the_standard_library_is_copied_if_it_is_on_a_shared_file_system_too(bed: Bed) -> None:
    code = "import json, os, ssl, sys; print(os.__file__, json.__file__, sys.base_prefix, sys.prefix)"
    done = bed.job(f'python -c "{code}"', before="is_local() { false; }")
    assert done.returncode == 0, done.stderr
    assert all(path.startswith(f"{bed.copy}/env") for path in done.stdout.split()), done.stdout
    assert bed.left() == []


def test_a_program_of_the_environment_starts_the_python_of_the_copy(bed: Bed) -> None:
    tool = bed.venv / "bin/tool"
    tool.write_text(f"#!{bed.venv}/bin/python\nimport sys; print(sys.prefix)\n")
    tool.chmod(0o755)
    done = bed.job("tool; echo $VIRTUAL_ENV")
    assert done.stdout.splitlines() == [f"{bed.copy}/env"] * 2, done.stderr
    assert str(bed.venv) in tool.read_text()


@pytest.mark.parametrize("typed", ["link to the venv", "venv"])
def test_an_environment_with_a_second_path_is_used_from_its_copy(bed: Bed, typed: str) -> None:
    """Its activate names the path at which it was made; a home folder often has a second one."""
    real, link = bed.root / "disk/venv", bed.root / "link to the venv"
    real.parent.mkdir()
    bed.venv.rename(real)
    link.symlink_to(real)
    bed.venv.symlink_to(real)  # the path in activate
    tool = real / "bin/tool"
    tool.write_text(f"#!{bed.venv}/bin/python\nimport sys; print(sys.prefix)\n")
    tool.chmod(0o755)
    done = with_library(
        f"export HPCLAUNCH_RUN_DIR='{bed.run}' OTHER={real}/lib\n"
        f"begin slurm\nsource '{bed.root}/{typed}/bin/activate'\n"
        f"rank() {{\n  python -c 'import sys; print(sys.prefix)'\n  tool\n  echo $OTHER {bed.venv}/share\n}}\n"
        f"broadcast required {bed.node} '{bed.root}/{typed}'\nlaunch\nfinish\n",
        PATH=f"{bed.root}/programs:/usr/bin:/bin",
        SLURM_JOB_ID="7",
        SLURM_JOB_NUM_NODES="1",
    )
    copy = f"{bed.copy}/env"
    assert done.stdout.split() == [copy, copy, f"{copy}/lib", f"{copy}/share"], done.stderr
    assert bed.left() == []


@pytest.mark.parametrize("broken", ["sbcast", "srun"])
@pytest.mark.parametrize("how", ["optional", "required"])
def test_a_failure_is_a_warning_unless_the_broadcast_was_asked_for(bed: Bed, broken: str, how: str) -> None:
    only_removes = SRUN.replace("exec", '[[ "$*" != *unpack_copies* ]] || exit 1\nexec')
    bed.program(broken, "#!/bin/bash\nexit 1\n" if broken == "sbcast" else only_removes)
    done = bed.job(f"ls '{bed.run}/code' > /dev/null && python -c 'import sys; print(sys.prefix)'", how)
    assert "hpclaunch: " in done.stderr and "the broadcast failed: " in done.stderr
    if how == "required":
        assert (done.returncode, done.stdout) == (78, "")
        assert "nothing was started" in done.stderr and "--no-broadcast" in done.stderr
    else:
        assert (done.returncode, done.stdout) == (0, f"{bed.venv}\n")
        assert "The ranks use the files on the shared file system" in done.stderr
    assert bed.left() == []


def test_a_folder_that_others_may_change_is_not_used(bed: Bed) -> None:
    bed.node.chmod(0o777)
    done = bed.job("true")
    assert (done.returncode, "other users can change what this job writes" in done.stderr) == (78, True)
    bed.node.chmod(0o1777)  # as /tmp and /dev/shm
    assert bed.job("true", before=f"rm -rf '{bed.run}/claims'").returncode == 0


@pytest.mark.parametrize(("owner", "safe"), [("0", True), (str(os.getuid()), True), ("4711", False)])
def test_a_folder_of_another_user_is_not_used(tmp_path: Path, owner: str, safe: bool) -> None:
    """Whoever owns a folder can open it to others at any time, whatever its mode is now."""
    known = f"stat() {{ echo '{owner} 700'; }}\nhas_safe_owner {tmp_path} || echo \"$problem\""
    done = with_library(known)
    assert ("other users can change what this job writes" not in done.stdout) is safe, done.stderr


def test_packed_environments_in_a_folder_of_another_user_are_not_used(bed: Bed) -> None:
    """Whoever owns it could exchange what the ranks will run."""
    kept = bed.run.parent / f".broadcast-{os.getuid()}"
    if os.getuid():
        kept.symlink_to("/")
    else:
        kept.mkdir()
        os.chown(kept, 4711, 4711)
    done = bed.job("true", "optional")
    assert f"the broadcast failed: {kept} cannot be written, or belongs to another user" in done.stderr
    assert (done.returncode, bed.left()) == (0, [])


def test_the_variables_of_the_run_itself_name_no_copies() -> None:
    """Else the results of a run inside an environment would go where the end of the job removes them."""
    variables = {"HPCLAUNCH_RUN_DIR": "/e/runs/x", "HPCLAUNCH_CHECKPOINT_DIR": "/e/runs/x/checkpoints", "DATA": "/e/d"}
    show = 'echo "$HPCLAUNCH_RUN_DIR $HPCLAUNCH_CHECKPOINT_DIR $DATA $HPCLAUNCH_BROADCAST"'
    done = with_library(f"copies=(/e /n/copy/env); use_copies /n/copy; {show}", **variables)
    assert done.stdout == "/e/runs/x /e/runs/x/checkpoints /n/copy/env/d /n/copy\n", done.stderr


def test_every_node_unpacks_once_and_with_the_memory_of_the_whole_job() -> None:
    """A task has but its share of the memory, which counts what is written to a folder in memory."""
    done = with_library('srun() { echo "$*"; }; slurm_on_nodes unpack it', SLURM_JOB_NUM_NODES="3")
    options, _, command = done.stdout.rpartition(" unpack")
    assert {"--nodes=3", "--ntasks=3", "--ntasks-per-node=1", "--mem=0"} <= set(options.split())
    assert command == " it\n"


def test_the_last_rank_of_a_node_removes_the_copies_and_no_rank_before_it(tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    ends = 'bash -c "$(declare -f leave_copies); is_ended=yes; leave_copies"'
    of_a_rank = f"export HPCLAUNCH_BROADCAST={copies} LOCAL_WORLD_SIZE=3"
    done = with_library(f"{of_a_rank}\n{ends}\n{ends}")
    assert copies.is_dir(), done.stderr
    with_library(f"{of_a_rank}\n{ends}")
    assert not copies.exists()


def test_a_job_that_is_ended_leaves_nothing_on_its_nodes(bed: Bed) -> None:
    """The scheduler starts no more steps then: the last rank of a node cleans up."""
    wait = "import signal; signal.signal(signal.SIGTERM, lambda *_: exit(3)); open('up', 'w'); signal.pause()"
    kill = "(until [ -e up ]; do sleep 0.05; done; kill -s TERM $$) &"
    done = bed.job(f'cd {bed.root}; python -c "{wait}"', before=f"cd {bed.root}; {kill}\nremove_copies() {{ :; }}")
    assert (done.returncode, bed.left()) == (3, []), done.stderr


def test_a_rank_removes_no_folder_that_its_job_has_not_made(bed: Bed) -> None:
    (bed.root / "results").mkdir()
    wait = "import signal; signal.signal(signal.SIGTERM, lambda *_: exit(3)); open('up', 'w'); signal.pause()"
    done = with_library(
        f"export HPCLAUNCH_RUN_DIR='{bed.run}'\nbegin slurm signal_to=group\ncd {bed.root}\n"
        f"export HPCLAUNCH_BROADCAST={bed.root}/results\n(until [ -e up ]; do sleep 0.05; done; kill -s TERM $$) &\n"
        f'rank() {{\n  python3 -c "{wait}"\n}}\nlaunch\nfinish\n',
        SLURM_JOB_ID="7",
    )
    assert (done.returncode, list((bed.root / "results").iterdir())) == (3, []), done.stderr


def test_what_a_killed_job_has_left_is_removed_by_the_next_one(bed: Bed) -> None:
    long_ago = time.time() - 2 * 3600
    for name, is_old in (("1.0", True), ("2.0", False)):
        left = bed.node / f"hpclaunch-{os.getuid()}-{name}"
        (left / "env").mkdir(parents=True)
        if is_old:
            os.utime(left, (long_ago, long_ago))
    (bed.node / "mine").mkdir()
    os.utime(bed.node / "mine", (long_ago, long_ago))
    assert bed.job("true").returncode == 0
    assert bed.left() == [f"hpclaunch-{os.getuid()}-2.0", "mine"]


@pytest.mark.skipif(os.getuid() != 0, reason="group root: only root can give a file to another user")
def test_what_another_user_has_left_under_such_a_name_stays(bed: Bed) -> None:
    theirs = bed.node / f"hpclaunch-{os.getuid()}-1.0"
    theirs.mkdir()
    os.utime(theirs, (0, 0))
    os.chown(theirs, 4711, 4711)
    assert bed.job("true").returncode == 0
    assert bed.left() == [theirs.name]


def test_the_image_of_a_container_is_copied_as_it_is(bed: Bed) -> None:
    image = bed.root / "my.sif"
    image.write_text("an image\n")
    bed.program("runtime", '#!/bin/bash\ncat -- "$2"; echo "$@"\n')
    done = with_library(
        f"export HPCLAUNCH_RUN_DIR='{bed.run}'\nbegin slurm\n"
        f"rank() {{\n  runtime exec {image} python '{bed.run}/code/main.py'\n}}\n"
        f"broadcast required {bed.node} {image}\nlaunch\nfinish\n",
        PATH=f"{bed.root}/programs:/usr/bin:/bin",
        SLURM_JOB_ID="7",
        SLURM_JOB_NUM_NODES="1",
    )
    assert done.stdout == f"an image\nexec {bed.copy}/my.sif python {bed.copy}/code/main.py\n", done.stderr
    assert bed.left() == []


def test_a_run_of_an_array_uses_the_code_of_the_array(bed: Bed) -> None:
    array = bed.run.parent
    (bed.run / "code").rename(array / "code")
    done = with_library(
        f"export HPCLAUNCH_ARRAY_DIR='{array}' HPCLAUNCH_RUN_DIR='{bed.run}'\nbegin slurm\n"
        f"rank() {{\n  ls '{array}/code'\n  echo '{array}/code'/x\n}}\nbroadcast required {bed.node}\nlaunch\nfinish\n",
        PATH=f"{bed.root}/programs:/usr/bin:/bin",
        SLURM_ARRAY_JOB_ID="7",
        SLURM_ARRAY_TASK_ID="3",
        SLURM_JOB_NUM_NODES="1",
    )
    copy = f"{bed.node}/hpclaunch-{os.getuid()}-7_3.0/code"
    assert done.stdout.split() == ["helper.py", "main.py", f"{copy}/x"], done.stderr
    assert bed.left() == []


def test_other_environments_in_a_conda_installation_stay_where_they_are(bed: Bed) -> None:
    conda = bed.root / "conda"
    for name in ("conda-meta", "pkgs/x", "envs/y", "lib/pkgs"):
        (conda / name).mkdir(parents=True)
    done = with_library(
        f"export HPCLAUNCH_RUN_DIR='{bed.run}' CONDA_PREFIX={conda}\nbegin slurm\n"
        "rank() {\n  ls $CONDA_PREFIX $CONDA_PREFIX/lib\n}\n"
        f'broadcast required {bed.node} "$CONDA_PREFIX"\nlaunch\nfinish\n',
        PATH=f"{bed.root}/programs:/usr/bin:/bin",
        SLURM_JOB_ID="7",
        SLURM_JOB_NUM_NODES="1",
    )
    copy = f"{bed.copy}/env"
    assert done.stdout.split() == [f"{copy}:", "conda-meta", "lib", f"{copy}/lib:", "pkgs"], done.stderr


def test_a_job_without_room_for_the_copies_in_its_memory_says_so() -> None:
    text = "scheduler=slurm; size=600000; has_room /dev/shm || echo $problem"
    done = with_library(text, SLURM_MEM_PER_NODE="1", HOSTNAME="n1")
    assert done.stdout.startswith("/dev/shm of each node needs 1.3 MB, which is more than half of the memory"), done
    assert with_library(text, SLURM_MEM_PER_NODE="10").stdout == ""
    assert with_library(text, SLURM_MEM_PER_CPU="1", SLURM_CPUS_ON_NODE="8").stdout == ""
    many = with_library(text.replace("600000", "600000000000000"))
    assert "MB, and has " in many.stdout


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("/a/my venv", "/n/env"),
        ("/a/my venv/bin:/usr/bin", "/n/env/bin:/usr/bin"),
        ("/x:/a/my venv:/a/my venv/lib", "/x:/n/env:/n/env/lib"),
        ("'/a/my venv/bin/python' --x=/r/code/y", "'/n/env/bin/python' --x=/n/code/y"),
        ("/b/a/my venv/x", "/b/a/my venv/x"),
        ("/a/my venv2/x", "/a/my venv2/x"),
        ("/a/my venv+cuda", "/a/my venv+cuda"),
        ("/rxcode/y", "/rxcode/y"),
        ("two\n/r/code\nlines", "two\n/n/code\nlines"),
    ],
)
def test_only_whole_paths_are_those_of_the_copies(text: str, changed: str) -> None:
    done = with_library('copies=("/a/my venv" /n/env /r/code /n/code); in_copies "$TEXT"', TEXT=text)
    assert (done.stdout, done.stderr) == (changed, "")


@pytest.mark.parametrize(("mode", "safe"), [(0o770, False), (0o707, False), (0o1777, True), (0o755, True)])
def test_a_folder_that_a_group_may_change_is_not_used_either(bed: Bed, mode: int, safe: bool) -> None:
    bed.node.chmod(mode)
    done = bed.job("true")
    assert ("other users can change what this job writes" not in done.stderr) is safe


def test_a_copy_goes_into_no_folder_that_somebody_has_made_before(bed: Bed) -> None:
    """In a folder of all users it may be another's, who can then exchange what the ranks run."""
    Path(bed.copy).mkdir()
    done = bed.job("python -c 'import sys; print(sys.prefix)'", "optional")
    assert "the broadcast failed: the copies were not unpacked on all nodes" in done.stderr
    assert (done.returncode, done.stdout) == (0, f"{bed.venv}\n")


def test_nobody_else_can_read_the_copies(bed: Bed) -> None:
    see = '#!/bin/bash\nstat --format=%a "${@: -2:1}" >> {log}\n' + SBCAST.partition("\n")[2]
    bed.program("sbcast", see.replace("{log}", str(bed.root / "modes")))
    done = bed.job(f"stat --format=%a {bed.copy}; ls {bed.node}", before="umask 022")
    mode, names = done.stdout.split()
    assert mode == "700", done.stderr
    assert names == Path(bed.copy).name, "the archives are removed as soon as they are unpacked"
    assert {mode[1:] for mode in (bed.root / "modes").read_text().split()} == {"00"}


@pytest.mark.parametrize("how", ["optional", "required"])
def test_what_was_sent_before_a_failure_is_removed(bed: Bed, how: str) -> None:
    bed.program("sbcast", SBCAST.replace("set -o", '[[ "$*" != *.code.tar ]] || exit 1\nset -o'))
    done = bed.job("true", how)
    assert "the broadcast failed: " in done.stderr
    assert bed.left() == []
    assert not list(bed.run.glob("attempts/*/code.tar"))


def test_a_file_that_changes_while_it_is_packed_is_no_failure(bed: Bed) -> None:
    """As a log in an environment. tar ends with 1 then, and with 2 if it could not read something."""
    tar = 'tar() {{ command tar "$@"; [[ "$*" != *--anchored* || "$*" == *--append* ]] || return {}; }}'
    done = bed.job("python -c 'import sys; print(sys.prefix)'", before=tar.format(1))
    assert (done.returncode, done.stdout) == (0, f"{bed.copy}/env\n"), done.stderr
    for name in ("claims", "attempts", f"../.broadcast-{os.getuid()}"):
        subprocess.run(["rm", "-r", str(bed.run / name)], check=True)
    assert "cannot be packed into" in bed.job("true", before=tar.format(2)).stderr


def test_packed_environments_are_kept_for_a_month_after_their_last_use(bed: Bed) -> None:
    assert bed.job("true").returncode == 0
    kept = bed.run.parent / f".broadcast-{os.getuid()}"
    (own,) = (path for path in kept.iterdir() if path.suffix == ".tar")
    for name, days in ((own.name, 40), ("old.tar", 32), ("recent.tar", 20)):
        (kept / name).touch()
        os.utime(kept / name, (time.time() - days * 86400,) * 2)
    subprocess.run(["rm", "-r", str(bed.run / "claims")], check=True)
    done = bed.job("true")
    assert (done.returncode, "packing " in done.stderr) == (0, False), done.stderr
    assert sorted(path.name for path in kept.iterdir() if path.suffix == ".tar") == sorted([own.name, "recent.tar"])


def test_an_environment_is_packed_again_if_a_file_has_the_same_size_and_another_time(bed: Bed) -> None:
    assert bed.job("true").returncode == 0
    os.utime(next(bed.venv.glob("lib/python3*/site-packages")) / "inside.py", (1, 1))
    subprocess.run(["rm", "-r", str(bed.run / "claims")], check=True)
    assert f"packing {bed.venv} for the nodes" in bed.job("true").stderr


def test_the_copies_of_a_job_that_runs_stay_and_so_do_those_of_a_few_minutes(bed: Bed) -> None:
    now = time.time()
    for name, minutes in (("1.0", 90), ("2.0", 90), ("3.0", 30)):
        left = bed.node / f"hpclaunch-{os.getuid()}-{name}"
        left.mkdir()
        os.utime(left, (now - minutes * 60,) * 2)
    user = {"HPCLAUNCH_BROADCAST": f"{bed.node}/hpclaunch-{os.getuid()}-1.0"}
    with subprocess.Popen(["sleep", "1000"], env=user) as rank:
        done = bed.job("true")
        rank.kill()
    assert done.returncode == 0, done.stderr
    assert bed.left() == [f"hpclaunch-{os.getuid()}-{name}" for name in ("1.0", "3.0")]


def test_nothing_is_written_through_a_link_of_the_environment(bed: Bed) -> None:
    """It leads back to the original, which other jobs use."""
    tool = bed.venv / "bin/tool"
    tool.write_text(f"#!{bed.venv}/bin/python\n")
    (bed.venv / "bin/second").symlink_to(tool)
    assert bed.job("true").returncode == 0
    assert tool.read_text() == f"#!{bed.venv}/bin/python\n"


def test_a_path_of_another_environment_is_none_of_the_copy(bed: Bed) -> None:
    other = bed.root / "other"
    (other / "bin").mkdir(parents=True)
    done = bed.job("echo $CONDA_PREFIX", before=f"export CONDA_PREFIX={other}")
    assert done.stdout == f"{other}\n", done.stderr


def test_a_path_may_have_any_character() -> None:
    done = with_library('copies=("/a&b[1]" "/n&m" "/c.d*" "/n/\\$x"); in_copies "$TEXT"', TEXT="/a&b[1]/x /c.d*:/cxd*")
    assert (done.stdout, done.stderr) == ("/n&m/x /n/$x:/cxd*", "")


@pytest.mark.parametrize(("memory", "fits"), [("2", False), ("3", True), ("", True)])
def test_the_copies_take_half_of_a_jobs_memory_at_most(memory: str, fits: bool) -> None:
    """Without a limit of its own a job has the memory of the node."""
    stand_in = "stat() { case $* in *%T*) echo tmpfs ;; *) echo '1000000 * 4096' ;; esac; }"
    done = with_library(
        f"{stand_in}; scheduler=slurm; size=600000; has_room /x && echo fits", SLURM_MEM_PER_NODE=memory
    )
    assert (done.stdout == "fits\n") is fits, done.stderr


@pytest.mark.parametrize(("free", "fits"), [("1349999", False), ("1350000", True)])
def test_a_node_needs_room_for_what_is_sent_and_what_is_unpacked(bed: Bed, free: str, fits: bool) -> None:
    stand_in = f"stat() {{ case $* in *%T*) echo xfs ;; *) echo '{free} * 1' ;; esac; }}"
    done = with_library(f"{stand_in}; scheduler=slurm; size=600000; has_room /x && echo fits")
    assert (done.stdout == "fits\n") is fits, done.stderr
    full = "has_room() { problem='there is no room'; return 1; }"
    done = bed.job("true", before=full)
    assert (done.returncode, "the broadcast failed: there is no room" in done.stderr) == (78, True)


def test_room_is_needed_for_all_that_is_sent(bed: Bed) -> None:
    size = "stat --dereference --format=%s"
    all_files = f'$(($({size} "${{files[0]}}") + $({size} "${{files[2]}}")))'
    done = bed.job("true", before=f'has_room() {{ problem="$size of {all_files} bytes"; return 1; }}')
    found = re.search(r"the broadcast failed: ([1-9][0-9]*) of ([0-9]+) bytes", done.stderr)
    assert found is not None, done.stderr
    assert found[1] == found[2]


def test_what_is_not_copied_of_the_base_of_a_venv_stays_where_it_is(tmp_path: Path) -> None:
    """Its packages, which a venv with those of the system uses, and the libraries beside the standard one."""
    base, copy = tmp_path / "base", tmp_path / "copy"
    for folder in (base / "lib/python3.9/site-packages/numpy", copy / ".base/lib/python3.9", copy / "bin"):
        folder.mkdir(parents=True)
    (base / "lib/libx.so").touch()
    (copy / "bin/python").symlink_to(base / "bin/python3.9")
    (copy / "pyvenv.cfg").write_text("home = /x/bin\nversion = 3.9\n")
    done = with_library(f"link_base {copy} {base}/lib/python3.9 {base}/bin/python3.9")
    assert done.stderr == ""
    assert (copy / ".base/lib/python3.9/site-packages/numpy").is_dir()
    assert (copy / ".base/lib/libx.so").resolve() == base / "lib/libx.so"
    assert os.readlink(copy / "bin/python") == f"{copy}/.base/bin/python3.9"
    assert (copy / "pyvenv.cfg").read_text() == f"home = {copy}/.base/bin\nversion = 3.9\n"
