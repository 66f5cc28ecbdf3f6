"""The launcher ``local``: the library itself starts the ranks, passes signals on, and ends all when one has failed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import with_library
from tests.cli.conftest import wait_for
from tests.script.test_fencing import kill_all, processes_of

RANK = 'set_rank "$N" "${RANK-}" "${LOCAL_RANK-}" "${NODE_RANK-}"; rank_log "${RANK-}"'
QUICK = "sleep() { command sleep 0.02; }"
"""Nothing waits as long as it would: what ignores SIGTERM is killed soon."""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "job.sh").touch()
    yield tmp_path
    kill_all(tmp_path, signal.SIGKILL)


def launched(
    run: Path, ranks: int, program: str, before: str = "", hosts: str = "", **known: str
) -> subprocess.CompletedProcess[str]:
    """A script of so many ranks, here or on each of these hosts, each of which runs the program; its start is 7.0."""
    (run / "program").write_text(program)
    if hosts:
        (run / "hosts").write_text("".join(f"{host} slots={ranks}\n" for host in hosts.split()))
    nodes = len(hosts.split())
    launch = f"spawn_over_ssh {nodes} {ranks} {run}/hosts" if hosts else f"spawn_ranks {ranks}"
    text = f"cd {run}\n{before}\nbegin local\nexport HPCLAUNCH_WORLD_SIZE={ranks * (nodes or 1)} N={ranks}\n"
    text += f"rank() {{ {RANK}; bash program; }}\nlaunch {launch}\n{QUICK}\nfinish"
    return with_library(text, HPCLAUNCH_RUN_DIR=str(run), SUBMITIT_LOCAL_JOB_ID="7", **known)


def is_completed(run: Path) -> bool:
    return (run / "attempts/7.0/completed").exists()


@pytest.mark.parametrize("ranks", [2, 8])
def test_every_rank_learns_its_number_and_has_a_log_of_its_own(run: Path, ranks: int) -> None:
    names = ["RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR"]
    done = launched(run, ranks, f"echo {' '.join(f'${name}' for name in names)}; [ $MASTER_PORT -ge 20000 ]")
    assert (done.returncode, is_completed(run)) == (0, True), done.stderr
    told = [f"{rank} {rank} 0 {ranks} {ranks} localhost" for rank in range(ranks)]
    assert sorted(done.stdout.splitlines()) == told
    assert [(run / f"logs/rank-{rank}.out").read_text().strip() for rank in range(ranks)] == told


def test_the_exit_code_of_the_failing_rank_is_the_scripts_and_its_failure_ends_the_others(run: Path) -> None:
    done = launched(run, 3, '[ "$RANK" = 1 ] && exit 7; exec sleep 1000')
    assert (done.returncode, is_completed(run)) == (7, False), done.stderr
    assert (run / "attempts/7.0/first-failure").read_text() == "7\n"
    assert not processes_of(run)


@pytest.mark.parametrize("killed", ["$$", "0", "$PPID"], ids=["its program", "its process group", "its shell"])
def test_a_rank_that_is_killed_gives_137_and_its_end_ends_the_others(run: Path, killed: str) -> None:
    done = launched(run, 3, f'[ "$RANK" = 1 ] && kill -s KILL {killed}; exec sleep 1000')
    assert (done.returncode, is_completed(run)) == (137, False), done.stderr
    wait_for(lambda: not processes_of(run), "the end of all processes")


def test_a_rank_whose_supervisor_is_killed_ends_the_run(run: Path) -> None:
    """It would have reported the end of the rank: without it nothing would come, for ever."""
    program = """
        [ "$RANK" != 1 ] || { read -r _ _ _ supervisor _ < "/proc/$PPID/stat"; kill -s KILL "$supervisor"; }
        exec sleep 1000
        """
    done = launched(run, 3, program)
    assert (done.returncode, is_completed(run)) == (137, False), done.stderr
    wait_for(lambda: not processes_of(run), "the end of all processes")


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (7, 7)])
def test_a_rank_may_end_before_the_others_have_begun(run: Path, code: int, expected: int) -> None:
    text = """
        eval "real_$(declare -f spawn)"
        spawn() {
          real_spawn "$@"
          [ -n "${first-}" ] || first=$!
          while kill -s 0 "$first" 2> /dev/null; do command sleep 0.05; done
        }
        """
    done = launched(run, 3, f'[ "$RANK" != 0 ] || exit {code}; echo "$RANK"', before=text)
    assert (done.returncode, is_completed(run)) == (expected, expected == 0), done.stderr
    assert "expected" not in done.stderr
    if not code:
        assert sorted(done.stdout.split()) == ["1", "2"]


def test_a_rank_that_has_failed_ends_the_others_while_its_children_hold_its_log_open(run: Path) -> None:
    text = "end_rank_log() { until [ -e told ]; do command sleep 0.05; done; }"
    program = """
        [ "$RANK" != 1 ] || exit 7
        trap ': > told; exit 0' TERM
        while :; do sleep 0.05; done
        """
    done = launched(run, 2, program, before=text)
    assert (done.returncode, is_completed(run)) == (7, False), done.stderr


def test_the_others_get_sigterm_first_and_are_killed_if_they_ignore_it(run: Path) -> None:
    program = """
        [ "$RANK" != 0 ] || { until [ -e ready1 ] && [ -e ready2 ]; do command sleep 0.05; done; exit 5; }
        [ "$RANK" = 1 ] && trap 'echo asked > told; exit 0' TERM || trap '' TERM
        : > "ready$RANK"
        while :; do sleep 0.05; done
        """
    done = launched(run, 3, program, before=QUICK)
    assert (done.returncode, (run / "told").read_text()) == (5, "asked\n"), done.stderr
    wait_for(lambda: not processes_of(run), "the end of all processes")


def test_a_signal_that_comes_while_the_ranks_are_started_reaches_them_all(run: Path) -> None:
    text = """
        eval "real_$(declare -f spawn)"
        spawn() { kill -s USR1 "$BASHPID"; real_spawn "$@"; }
        eval "real_$(declare -f signal_spawned)"
        signal_spawned() {
          [ "$all_spawned" = no ] || until [ -e 0.ready ] && [ -e 1.ready ]; do command sleep 0.05; done
          real_signal_spawned "$1"
        }
        """
    program = "trap 'echo got USR1; exit 0' USR1; : > \"$RANK.ready\"; while :; do sleep 0.05; done"
    done = launched(run, 2, program, before=text)
    assert (done.returncode, done.stdout.count("got USR1\n")) == (0, 2), done.stderr


def test_the_ranks_are_on_cpus_of_their_own(run: Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("group cpus: this machine has one CPU")
    done = launched(run, 2, "grep Cpus_allowed_list /proc/self/status")
    first, second = (cpus_of(line.split()[1]) for line in done.stdout.splitlines())
    assert first and second and not first & second


def cpus_of(listed: str) -> set[int]:
    """The CPUs of a list as the kernel writes it: 0-3,8."""
    ranges = [[int(end) for end in part.split("-")] for part in listed.split(",")]
    return {cpu for ends in ranges for cpu in range(ends[0], ends[-1] + 1)}


def shares(cpus: list[str], ranks: int) -> list[str]:
    """The CPUs of each rank on a machine whose CPUs are ``SOCKET CORE CPU``."""
    listed = "".join(f"echo {one}; " for one in cpus)
    return with_library(f"list_cpus() {{ {listed} }}; taskset() {{ :; }}; share_cpus {ranks}").stdout.split()


HYPERTHREADS = [f"0 {cpu % 4} {cpu}" for cpu in range(8)]
"""Four cores with two threads each, numbered as Intel does: 4 is the second thread of core 0."""
ALTERNATING = [f"{cpu % 2} {cpu} {cpu}" for cpu in range(8)]
"""Two sockets whose cores are numbered in turn, as some BIOSes do."""


@pytest.mark.parametrize(
    ("cpus", "ranks", "expected"),
    [
        (HYPERTHREADS, 2, ["0,4,1,5", "2,6,3,7"]),
        (HYPERTHREADS, 3, ["0,4", "1,5", "2,6"]),
        (HYPERTHREADS, 8, ["0", "4", "1", "5", "2", "6", "3", "7"]),
        (HYPERTHREADS, 9, []),
        (ALTERNATING, 2, ["0,2,4,6", "1,3,5,7"]),
        (["0 10 10", "0 2 2", "0 3 3"], 2, ["2", "3"]),
    ],
)
def test_a_rank_gets_whole_cores_of_one_socket_where_there_are_enough(
    cpus: list[str], ranks: int, expected: list[str]
) -> None:
    assert shares(cpus, ranks) == expected


def test_where_cpus_cannot_be_bound_the_ranks_share_them() -> None:
    done = with_library("list_cpus() { printf '0 %s %s\\n' 0 0 1 1; }; taskset() { return 1; }; share_cpus 2")
    assert (done.returncode, done.stdout) == (0, "")


SSH = """\
#!{python}
# As strict as the real one: the words become one text for the login shell, which has neither the variables nor the
# folder of who calls. What it starts lives on without the connection, which lasts until all have closed its output.
import os, subprocess, sys, threading
words = sys.argv[1:]
assert words[:3] == ["-T", "-o", "BatchMode=yes"], words
host, home = words[3], os.path.dirname(os.path.abspath(__file__))
if host == "nowhere":
    print("ssh: Could not resolve hostname nowhere: Name or service not known", file=sys.stderr)
    sys.exit(255)
shell = {{"HOME": home, "PATH": "/usr/bin:/bin", "ON_HOST": host}}
pipe = subprocess.PIPE
remote = subprocess.Popen(
    ["sh", "-c", " ".join(words[4:])], cwd="/", env=shell, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
)
def copy(source, target):
    while chunk := os.read(source, 65536):
        os.write(target, chunk)
    if target == remote.stdin.fileno():
        remote.stdin.close()
threading.Thread(target=copy, args=(0, remote.stdin.fileno()), daemon=True).start()
outputs = [threading.Thread(target=copy, args=(remote.stdout.fileno(), 1))]
outputs += [threading.Thread(target=copy, args=(remote.stderr.fileno(), 2))]
for output in outputs:
    output.start()
for output in outputs:
    output.join()
code = remote.wait()
os._exit(code if code >= 0 else 255)
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH with an ssh."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "ssh").write_text(SSH.format(python=sys.executable))
    (folder / "ssh").chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def test_over_ssh_the_ranks_of_all_hosts_are_one_world(run: Path, path: str) -> None:
    program = 'echo "$RANK $LOCAL_RANK $NODE_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR $ON_HOST $CHOSEN $PWD"'
    done = launched(run, 2, program, hosts="n1 n2", PATH=path, CHOSEN="it's\n$1")
    assert (done.returncode, is_completed(run)) == (0, True), done.stderr
    told = [f"{rank} {rank % 2} {rank // 2} 4 2 n1 n{rank // 2 + 1} it's\n$1 {run}\n" for rank in range(4)]
    assert sorted(path.name for path in (run / "logs").iterdir()) == [f"rank-{rank}.out" for rank in range(4)]
    assert [(run / "logs" / f"rank-{rank}.out").read_text() for rank in range(4)] == told
    # Between two lines of a rank may stand one of another.
    assert sorted(done.stdout.splitlines()) == sorted("".join(told).splitlines())


def test_a_host_that_is_this_machine_needs_no_ssh(run: Path, path: str) -> None:
    done = launched(run, 1, 'echo "$RANK ${ON_HOST-here}"', hosts="localhost n2", PATH=path)
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, ["0 here", "1 n2"]), done.stderr


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ('[ "$RANK" = 3 ] && exit 7; exec sleep 1000', 7),
        ('[ "$RANK" = 3 ] && kill -s KILL $$; exec sleep 1000', 137),
        ('setsid sleep 1000 & [ "$RANK" = 0 ] || exit 7; exec sleep 1000', 7),
    ],
    ids=["its code", "killed", "processes of their own"],
)
def test_over_ssh_the_first_failure_ends_all_hosts(run: Path, path: str, program: str, code: int) -> None:
    done = launched(run, 2, program, hosts="n1 n2", PATH=path)
    assert (done.returncode, is_completed(run)) == (code, False), done.stderr
    wait_for(lambda: not processes_of(run), "the end of all processes")


def test_a_host_that_ssh_does_not_reach_is_named_and_ends_the_others(run: Path, path: str) -> None:
    done = launched(run, 1, "exec sleep 1000", hosts="n1 nowhere", PATH=path)
    assert (done.returncode, is_completed(run)) == (255, False), done.stderr
    assert "Could not resolve hostname nowhere" in done.stderr
    assert "no ranks on nowhere, or the connection was lost: ssh ended with 255" in done.stderr
    wait_for(lambda: not processes_of(run), "the end of all processes")


def test_a_folder_that_a_host_does_not_have_is_said(run: Path, path: str) -> None:
    done = launched(run, 1, ":", hosts="n1", PATH=path, before="mkdir gone && cd gone && rmdir ../gone")
    assert (done.returncode, is_completed(run)) == (78, False), done.stderr
    assert f"the folder {run}/gone does not exist, or cannot be entered" in done.stderr


@pytest.mark.parametrize("name", ["USR1", "USR2", "TERM"])
def test_over_ssh_a_signal_to_the_script_reaches_every_rank(run: Path, path: str, name: str) -> None:
    program = f"trap 'echo got {name}; exit 3' {name}; : > \"$RANK.ready\"; while :; do sleep 0.05; done"
    send = f"{{ until [ -e 0.ready ] && [ -e 1.ready ]; do command sleep 0.05; done; kill -s {name} $$; }} &"
    done = launched(run, 1, program, hosts="n1 n2", PATH=path, before=send)
    assert (done.returncode, done.stdout.count(f"got {name}\n")) == (3, 2), done.stderr
    wait_for(lambda: not processes_of(run), "the end of all processes")


def test_if_the_connection_is_lost_the_ranks_on_the_host_end(run: Path, path: str) -> None:
    program = """
        : > "$RANK.ready"
        [ "$RANK" != 0 ] || { until [ -e 1.ready ]; do sleep 0.05; done; pkill -KILL -f "ssh -T -o BatchMode=yes n2"; }
        exec sleep 1000
        """
    done = launched(run, 1, program.replace("ssh -T", f"{run}/bin/ssh -T"), hosts="n1 n2", PATH=path)
    # The first code is that of the killed ssh, or of a rank that its host has ended for the lack of a connection.
    assert done.returncode in (137, 143) and not is_completed(run), done.stderr
    wait_for(lambda: not processes_of(run), "the end of all processes")


def test_a_list_with_fewer_hosts_than_nodes_starts_nothing(run: Path, path: str) -> None:
    (run / "hosts").write_text("n1 slots=1\n")
    done = with_library(f"rank() {{ :; }}; spawn_over_ssh 2 1 {run}/hosts true; echo on", PATH=path)
    assert (done.returncode, done.stdout) == (78, "")
    assert f"{run}/hosts lists 1 hosts, not 2" in done.stderr


def test_a_rank_that_ends_with_255_is_no_lost_connection(run: Path, path: str) -> None:
    done = launched(run, 1, "exit 255", hosts="n1", PATH=path)
    assert (done.returncode, is_completed(run)) == (255, False), done.stderr
    assert "the connection was lost" not in done.stderr


def test_a_host_keeps_its_own_folders_and_user(run: Path, path: str) -> None:
    """A folder of the first host need not be there."""
    names = ("HOME", "LOGNAME", "USER", "XDG_RUNTIME_DIR", "XAUTHORITY", "DISPLAY", "SSH_AUTH_SOCK")
    shown = "; ".join(f'echo "{name}=${{{name}-}}"' for name in names)
    given = dict.fromkeys(names, "/of/the/first/host")
    done = launched(run, 1, shown, hosts="n1", PATH=path, **given)
    assert done.returncode == 0, done.stderr
    told = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert told == {**dict.fromkeys(names, ""), "HOME": f"{run}/bin"}


def test_the_end_of_one_host_leaves_the_ranks_of_another_alone(run: Path, path: str) -> None:
    """Where both are one machine, as two names of it."""
    program = 'if [ "$RANK" = 1 ]; then until [ -e ended ]; do sleep 0.02; done; fi; echo "$RANK"'
    ended = """
        eval "real_$(declare -f spawn_on_host)"
        spawn_on_host() { real_spawn_on_host "$@" && : > ended; }
        """
    done = launched(run, 1, program, hosts="n1 n2", PATH=path, before=ended)
    assert (done.returncode, sorted(done.stdout.split()), is_completed(run)) == (0, ["0", "1"], True), done.stderr


@pytest.mark.parametrize("lines", ["", "USR1\n", "USR2\nTERM\n"])
def test_a_host_that_hears_nothing_more_asks_its_ranks_to_end_and_kills_them_later(lines: str) -> None:
    stand_ins = 'kill() { echo "$2 $3"; }; sleep() { echo "sleep $1"; }'
    done = with_library(f'{stand_ins}; relay_signals 61 < <(printf "$LINES_OF_IT")', LINES_OF_IT=lines)
    assert done.stdout.splitlines() == [*(f"{name} 61" for name in lines.split()), "TERM 61", "sleep 5", "ALRM 61"]


@pytest.mark.parametrize("code", ["0", "7"])
def test_a_host_ends_with_the_code_of_its_ranks_and_what_they_left(code: str) -> None:
    ranks = f'spawn_node() {{ return {code}; }}; end_left() {{ echo "left $1"; }}'
    stand_ins = f"{ranks}; relay_signals() {{ exec sleep 1000; }}"
    done = with_library(f"{stand_ins}; serve_host 3 1 true")
    assert (done.returncode, done.stdout, done.stderr) == (int(code), "left NODE_RANK=3\n", "")


def test_the_children_of_a_rank_get_its_signals(run: Path) -> None:
    """As the processes that load its data."""
    program = """
        bash -c "trap 'echo child >> told; exit' TERM; : > child; while :; do sleep 0.02; done" &
        trap 'wait; echo rank >> told; exit 3' TERM
        until [ -e child ]; do sleep 0.02; done
        kill -s TERM "$SCRIPT"
        while :; do sleep 0.02; done
        """
    done = launched(run, 1, program, before="export SCRIPT=$$")
    assert (done.returncode, (run / "told").read_text()) == (3, "child\nrank\n"), done.stderr


@pytest.mark.parametrize("function", ["keep", "spawn_on_host"])
def test_a_signal_that_comes_before_there_is_anybody_is_passed_on_later(run: Path, path: str, function: str) -> None:
    program = "trap 'echo got USR1; exit 3' USR1; : > ready; while :; do sleep 0.02; done"
    early = """
        eval "real_$(declare -f start_apart)"
        start_apart() {
          if [ "$1" = without_reports ]; then
            kill -s USR1 "$BASHPID"
            real_start_apart "$@"
            until [ -e ready ]; do command sleep 0.02; done
          else
            real_start_apart "$@"
          fi
        }
        """
    if function == "spawn_on_host":
        early = """
        eval "real_$(declare -f host_program)"
        host_program() {
          [ -e sent ] || { : > sent; kill -s USR1 "$BASHPID"; }
          real_host_program "$@"
        }
        eval "real_$(declare -f signal_host)"
        signal_host() { [ "$knows" = no ] || until [ -e ready ]; do command sleep 0.02; done; real_signal_host "$1"; }
        """
    done = launched(run, 1, program, before=early, hosts="n1" if function == "spawn_on_host" else "", PATH=path)
    assert (done.returncode, "got USR1\n" in done.stdout) == (3, True), done.stderr


def test_the_ranks_on_a_host_end_if_the_process_that_is_connected_with_it_is_killed(run: Path, path: str) -> None:
    program = """
        connection=$(pgrep -f "BIN/ssh -T -o BatchMode=yes n1")
        read -r _ _ _ parent _ < "/proc/$connection/stat"
        kill -s KILL "$parent"
        exec sleep 1000
        """.replace("BIN", f"{run}/bin")
    done = launched(run, 1, program, hosts="n1", PATH=path)
    # Either is noticed first: the process that was killed, or the ranks that its host ends as their input is over.
    assert done.returncode in (137, 143), done.stderr
    assert not is_completed(run)
    wait_for(lambda: not processes_of(run), "the end of all processes")
