"""Tables of what a script decides: who may follow a start, how a script ends, and whether it asks for another start."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.builders import with_library
from tests.script.test_claims import began, claimed, left, says

HERE = os.uname().nodename

# --- which state of the job before lets another start follow

ENDED = (
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "TIMEOUT",
)
OPEN = (
    *("CONFIGURING", "COMPLETING", "PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESIZING", "RESV_DEL_HOLD"),
    *("RUNNING", "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED", "SUSPENDED", "REVOKED", "UNKNOWN", "NEW_STATE"),
)
"""States of squeue(1), and one that is not known yet."""


@pytest.mark.parametrize("successor", [False, True])
def test_only_after_an_end_that_is_known_another_start_follows(tmp_path: Path, successor: bool) -> None:
    for number, state in enumerate((*ENDED, *OPEN)):
        run = tmp_path / str(number)
        run.mkdir()
        left(run, "7.0", **({"next_job": "8"} if successor else {}))
        code, said = claimed(run, "9.0", says(state))
        assert code == (0 if state in ENDED else 78), (state, said)
        if state in OPEN:
            words = "it is not known whether it has ended" if state == "UNKNOWN" else f"and is {state}. See hpclaunch"
            assert f"job {8 if successor else 7} has this run directory" in said and words in said
    run = tmp_path / "reason"
    run.mkdir()
    left(run, "7.0")
    assert claimed(run, "9.0", says("'CANCELLED by 0'"))[0] == 0


@pytest.mark.parametrize("scheduler", ["slurm", "local"])
@pytest.mark.parametrize(
    ("host", "process", "ranks", "code"),
    [
        ("elsewhere", "living", False, 78),
        ("elsewhere", "ended", False, 78),
        (HERE, "living", False, 78),
        (HERE, "ended", True, 78),
        (HERE, "ended", False, 0),
        (HERE, "another", False, 0),
    ],
)
def test_a_start_by_hand_has_ended_with_its_process_and_its_ranks(
    tmp_path: Path, scheduler: str, host: str, process: str, ranks: bool, code: int
) -> None:
    """Slurm knows nothing of it, also where it was made in a job."""
    me, when = os.getpid(), began(os.getpid())
    number, ticks = {"living": (me, when), "ended": (4194305, when), "another": (me, "1")}[process]
    left(tmp_path, "by-hand-5.0", claim=f"by-hand-5.0 {host} {number} {ticks}")
    of_ranks = {"PATH": os.environ["PATH"]}
    if ranks:
        of_ranks["HPCLAUNCH_EXIT_FILE"] = f"{tmp_path}/attempts/by-hand-5.0/first-failure"
    with subprocess.Popen(["sleep", "1000"], env=of_ranks) as rank:
        found, said = claimed(tmp_path, "6.0", "squeue() { echo RUNNING; }", scheduler=scheduler)
        rank.kill()
    assert found == code, said
    if code:
        words = "is RUNNING" if host == HERE else "it is not known whether it has ended"
        assert "job by-hand-5 has this run directory" in said and words in said


@pytest.mark.parametrize(
    ("newest", "names", "number"),
    [
        ("2.0", ("1", "2"), 3),
        ("10.0", ("9", "10"), 11),
        ("1.0", ("1", "02", "x", "3x", ".4", "1234567890", "0"), 2),
    ],
)
def test_the_newest_claim_is_that_of_the_highest_number(
    tmp_path: Path, newest: str, names: tuple[str, ...], number: int
) -> None:
    """Names as a person or another program may leave them are no claims."""
    (tmp_path / "claims").mkdir()
    for name in names:
        (tmp_path / "claims" / name).write_text(f"{name}.0 elsewhere 1 1\n")
    before = f'squeue() {{ echo "$*" >> {tmp_path}/asked; echo FAILED; }}'
    assert claimed(tmp_path, "99.0", before) == (0, "")
    assert (tmp_path / f"claims/{number}").read_text().startswith("99.0 ")
    assert (tmp_path / "asked").read_text().endswith(f"--jobs={newest.partition('.')[0]}\n")
    assert len((tmp_path / "asked").read_text().splitlines()) == 1


def test_a_path_with_spaces_is_quoted_in_what_is_to_be_typed(tmp_path: Path) -> None:
    run = tmp_path / "a run;x"
    run.mkdir()
    left(run, "7.0", completed="7.0 1")
    place = shlex.quote(str(run)).strip("'").replace(" ", "\\ ").replace(";", "\\;")
    assert f"hpclaunch results {place};" in claimed(run, "8.0", says("COMPLETED"))[1]
    (run / "attempts/7.0/completed").unlink()
    said = claimed(run, "8.0", says("RUNNING"))[1]
    assert f"hpclaunch status {place};" in said and f"hpclaunch cancel {place} ends it" in said
    assert f"echo free > {place}/claims/2, and" in claimed(run, "8.0", says("UNKNOWN"))[1]


def test_no_more_than_forty_steps_are_skipped(tmp_path: Path) -> None:
    count = f"timeout() {{ echo >> {tmp_path}/steps; }}"
    for restart, steps in ((0, 0), (1, 2), (19, 38), (20, 40), (500, 40)):
        (tmp_path / "steps").write_text("")
        assert with_library(f"{count}; restart={restart}; slurm_skip_steps").returncode == 0
        assert len((tmp_path / "steps").read_text()) == steps


def test_the_exit_code_and_the_mark_are_those_of_this_start_alone(tmp_path: Path) -> None:
    """Files that a start before has left under the same job count for nothing."""
    left(tmp_path, "7.0", exit_code="0", completed="7.0 1", trained="", training="")
    (tmp_path / "claims/2").write_text("free\n")
    text = "begin slurm\nrank() { return 3; }\nlaunch\nfinish"
    done = with_library(text, HPCLAUNCH_RUN_DIR=str(tmp_path), SLURM_JOB_ID="7")
    assert done.returncode == 3, done.stderr
    assert (tmp_path / "attempts/7.1/exit-code").read_text() == "3\n"
    assert not (tmp_path / "attempts/7.1/completed").exists()


def test_a_start_counts_those_that_began_before_it(tmp_path: Path) -> None:
    for name in ("5.0", "6.0"):
        left(tmp_path, name, started="")
    left(tmp_path, "6.1", claim="free")  # it has not begun
    text = 'begin slurm; echo "$HPCLAUNCH_RESTART_COUNT $HPCLAUNCH_START"'
    done = with_library(text, HPCLAUNCH_RUN_DIR=str(tmp_path), SLURM_JOB_ID="7")
    assert done.stdout == "2 4\n", done.stderr


@pytest.mark.parametrize(
    ("lines", "restart", "again"),
    [
        ("JobId=7 Restarts=1 X=0", 0, True),
        ("JobId=7 Restarts=1 X=0", 1, False),
        ("JobId=7 Restarts=0 X=0", 0, False),
        ("JobId=7 Restarts=1 X=0\nJobId=8 Restarts=0 X=0", 0, True),
        ("JobId=7 Restarts=0 X=0\nJobId=8 Restarts=1 X=0", 0, False),
        ("", 0, False),
    ],
)
def test_the_first_line_of_a_job_says_whether_it_is_queued_again(lines: str, restart: int, again: bool) -> None:
    """A heterogeneous job has a line for each component."""
    stand_in = 'scontrol() { printf "%s\\n" "$LINES_OF_IT"; }'
    done = with_library(f"{stand_in}; job=7 restart={restart}; slurm_requeued && echo again", LINES_OF_IT=lines)
    assert (done.stdout == "again\n", done.stderr) == (again, "")


# --- how a script ends

FINISH = """
slurm_finish() { :; }
slurm_preempted() { [ "$PREEMPTED" = yes ]; }
superseded() { [ "$SUPERSEDED" = yes ]; }
prove_success() { echo proof; code=$PROVEN; again=$AGAIN; }
start_again() { echo "again: $1"; }
scheduler=slurm attempt=. overdue=$OVERDUE restarts=$RESTARTS code=$CODE
finish
"""


@pytest.mark.parametrize(
    ("known", "code", "said"),
    [
        ({}, 0, "proof"),
        ({"CODE": "7"}, 7, ""),
        ({"CODE": "75"}, 75, "again: saved"),
        ({"CODE": "75", "RESTARTS": "0"}, 75, ""),
        ({"CODE": "75", "PREEMPTED": "yes"}, 75, "again: saved"),
        ({"CODE": "7", "PREEMPTED": "yes"}, 7, "again: preempted"),
        ({"CODE": "7", "PREEMPTED": "yes", "RESTARTS": "0"}, 7, ""),
        ({"PREEMPTED": "yes"}, 0, "proof"),
        ({"FIRST": "7"}, 7, ""),
        ({"FIRST": "75"}, 75, "again: saved"),
        ({"FIRST": "75", "CODE": "9"}, 75, "again: saved"),
        ({"FIRST": "7", "CODE": "75"}, 7, ""),
        ({"FIRST": "7", "PREEMPTED": "yes"}, 7, "again: preempted"),
        ({"PROVEN": "69", "AGAIN": "not completed"}, 69, "proof again: not completed"),
        ({"PROVEN": "69", "AGAIN": "not completed", "RESTARTS": "0"}, 69, "proof"),
        ({"PROVEN": "69", "AGAIN": "not completed", "PREEMPTED": "yes"}, 69, "proof again: preempted"),
        ({"PROVEN": "143"}, 143, "proof"),
        ({"PROVEN": "143", "PREEMPTED": "yes"}, 143, "proof again: preempted"),
        ({"PROVEN": "74"}, 74, "proof"),
        ({"OVERDUE": "yes"}, 124, ""),
        ({"OVERDUE": "yes", "CODE": "75"}, 124, ""),
        ({"OVERDUE": "yes", "FIRST": "7", "PREEMPTED": "yes"}, 124, ""),
        ({"SUPERSEDED": "yes"}, 75, ""),
        ({"SUPERSEDED": "yes", "CODE": "75", "OVERDUE": "yes", "FIRST": "7"}, 75, ""),
    ],
)
def test_how_a_script_ends_and_why_it_asks_for_another_start(
    tmp_path: Path, known: dict[str, str], code: int, said: str
) -> None:
    first = tmp_path / "first-failure"
    first.write_text(f"{known['FIRST']}\n" if "FIRST" in known else "")
    usual = {"CODE": "0", "RESTARTS": "2", "PREEMPTED": "no", "SUPERSEDED": "no", "OVERDUE": "no", "PROVEN": "0"}
    variables = {**usual, "AGAIN": "", **known, "HPCLAUNCH_EXIT_FILE": str(first)}
    done = with_library(f"cd {tmp_path}{FINISH}", **variables)
    assert (done.returncode, " ".join(done.stdout.split("\n")).strip()) == (code, said), done.stderr


PROVE = """
find_fault() { fault=$FAULT asked_to_end=$ASKED recorded=$RECORDED; [ -z "$LOST" ] || lost=($LOST); }
leave_mark() { echo "$1: $2"; [ "$1" != completed ] || [ "$FULL" = no ]; }
attempt=$PWD/attempt start=7.0 code=0 again=
prove_success
echo "code $code again $again"
"""


@pytest.mark.parametrize(
    ("known", "lines"),
    [
        ({}, ["completed: 7.0 4", "code 0 again "]),
        ({"FAULT": "x"}, ["code 69 again not completed, as x"]),
        ({"FAULT": "x", "ASKED": "yes"}, ["code 143 again "]),
        ({"FAULT": "x", "RECORDED": "no"}, ["not-recorded: x. Is the disk full?", "code 74 again "]),
        ({"FAULT": "x", "RECORDED": "no", "ASKED": "yes"}, ["not-recorded: x. Is the disk full?", "code 74 again "]),
        ({"FAULT": "x", "LOST": "1 2"}, ["code 69 again not completed, as x"]),
        (
            {"LOST": "1 2"},
            ["the log is incomplete: output of 2 of 4 ranks could not be written (1 2). Is the disk full?"],
        ),
        ({"LOST": "0 1 2 3 4 5 6 7"}, ["output of 8 of 4 ranks could not be written (0 1 2 3 4 5 6 7). Is the"]),
        ({"LOST": "0 1 2 3 4 5 6 7 8"}, ["output of 9 of 4 ranks could not be written (0 1 2 3 4 5 6 7 ...). Is"]),
        (
            {"FULL": "yes"},
            ["completed: 7.0 4", "/attempt/completed cannot be written. Is the disk full?", "code 74 again "],
        ),
    ],
)
def test_what_speaks_against_a_success_decides_the_code(
    tmp_path: Path, known: dict[str, str], lines: list[str]
) -> None:
    (tmp_path / "attempt/ranks").mkdir(parents=True)
    usual = {"FAULT": "", "ASKED": "no", "RECORDED": "yes", "LOST": "", "FULL": "no"}
    done = with_library(f"cd {tmp_path}{PROVE}", HPCLAUNCH_WORLD_SIZE="4", **{**usual, **known})
    for line in lines:
        assert line in done.stdout, done.stdout
    assert (tmp_path / "attempt/ranks").exists() is bool(known), "the files of the ranks stay to be looked at"
    if "LOST" in known and "FAULT" not in known:
        assert "code 74 again \n" in done.stdout and "completed: 7.0" not in done.stdout


# --- which ranks have reported

COUNT = """
attempt=$PWD
count_ranks
echo "$recorded|${lost[*]}|$fault"
"""


@pytest.mark.parametrize(
    ("files", "world", "found"),
    [
        ({"0": "0", "1": "0"}, 2, "yes||"),
        ({"0": "0", "1": "0", "2": "1"}, 2, "yes||"),
        ({"0": "0"}, 2, "yes||1 of 2 ranks did not report that they ended with 0 (1)"),
        ({"1": "0"}, 1, "yes||1 of 1 ranks did not report that they ended with 0"),
        ({"0": "00", "1": "0"}, 2, "yes||1 of 2 ranks did not report that they ended with 0 (0)"),
        ({"0": "", "1": "0"}, 2, "no||1 of 2 ranks did not report that they ended with 0 (0)"),
        ({"n1-5-9": "0", "n2-6-9": "0"}, 2, "yes||"),
        ({"n1-5-9": "0", "n2-6-9": "1"}, 2, "yes||1 of 2 ranks did not report that they ended with 0"),
        ({"n1-5-9": "0", "1": "0"}, 2, "yes||"),
        ({"n1-5-9": "0", "n1-6-9": "0", "n1-7-9": "0"}, 2, "yes||"),
        ({"0": "0", "1": "0", "1.lost": ""}, 2, "yes|1|"),
        ({"0": "0", "1.lost": ""}, 2, "yes|1|1 of 2 ranks did not report that they ended with 0 (1)"),
        ({"0": "0", "../training": ""}, 1, "yes||its training did not reach its end"),
        ({"0": "0", "../training": "", "../trained": ""}, 1, "yes||"),
        ({"../training": ""}, 1, "yes||1 of 1 ranks did not report that they ended with 0"),
    ],
)
def test_a_success_needs_the_0_of_every_rank(tmp_path: Path, files: dict[str, str], world: int, found: str) -> None:
    (tmp_path / "ranks").mkdir()
    for name, text in files.items():
        (tmp_path / "ranks" / name).write_text(f"{text}\n" if text else "")
    done = with_library(f"cd {tmp_path}{COUNT}", HPCLAUNCH_WORLD_SIZE=str(world))
    assert done.stdout == f"{found}\n", done.stderr


@pytest.mark.parametrize(
    ("files", "fault"),
    [({"0": "0", "1": "0"}, False), ({"0": "0"}, True)],
)
def test_of_a_search_its_workers_are_counted_and_not_the_ranks_of_a_trial(
    tmp_path: Path, files: dict[str, str], fault: bool
) -> None:
    (tmp_path / "ranks").mkdir()
    for name, text in files.items():
        (tmp_path / "ranks" / name).write_text(f"{text}\n")
    done = with_library(f"cd {tmp_path}; ranks=2{COUNT}", HPCLAUNCH_WORLD_SIZE="1")
    assert ("did not report" in done.stdout) is fault


# --- what the log says of a node

FAILED_NODE = "srun: error: Node failure on n3"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (FAILED_NODE, FAILED_NODE),
        (f"x {FAILED_NODE}", ""),
        ("srun: error: Node failure", ""),
        (
            "slurmstepd: error: *** STEP 7.0 ON n3 CANCELLED AT 2026-01-02T03:04:05 DUE TO NODE FAILURE, SEE LOG ***",
            "*",
        ),
        ("slurmstepd: error: *** JOB 7 ON n3 CANCELLED AT 2026-01-02T03:04:05 DUE TO NODE FAILURE ***", "*"),
        ("slurmstepd-n3: error: *** JOB 7 ON n3 CANCELLED AT 2026-01-02T03:04:05 DUE TO NODE FAILURE ***", "*"),
        ("slurmstepd: error: *** STEP 7.0 ON n3 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***", ""),
        ("slurmstepd: error: *** JOB 7 ON n3 CANCELLED AT 2026-01-02T03:04:05 DUE TO PREEMPTION ***", ""),
        ("the program: slurmstepd: error: *** JOB 7 ON n3 CANCELLED AT x DUE TO NODE FAILURE", ""),
    ],
)
def test_only_slurms_own_line_about_a_failed_node_counts(tmp_path: Path, line: str, found: str) -> None:
    wanted = line.partition(", SEE")[0].removesuffix(" ***") if found == "*" else found
    log = tmp_path / "log"
    for before, after, is_seen in (
        (b"a\n\xff\0\n", b"b\n", True),
        (b"", b"", True),
        (f"{line}\n".encode(), b"", False),
    ):
        log.write_bytes(before)
        begins = len(before)
        if is_seen:
            with log.open("ab") as file:
                file.write(f"{line}\n".encode() + after)
        done = with_library(f"exec 2>> {log}; log_begins={begins}; slurm_lost_node")
        assert done.stdout == (f"{wanted}\n" if wanted and is_seen else "")


def test_of_a_large_log_the_last_16_mib_count(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for size, is_seen in ((16 * 2**20 - len(FAILED_NODE) - 1, True), (16 * 2**20, False)):
        with log.open("wb") as file:
            file.write(f"{FAILED_NODE}\n".encode())
            file.truncate(len(FAILED_NODE) + 1 + size)
        done = with_library(f"exec 2>> {log}; log_begins=0; slurm_lost_node")
        assert (done.stdout == f"{FAILED_NODE}\n") is is_seen
    assert with_library("log_begins=0; slurm_lost_node").stdout == "", "a pipe cannot be read again"


# --- signals

SIGNALS = """
kill() { [ "$1" = -s ] && echo "$2 ${*:4}"; }
step() { echo "step $1"; [ "$STEP" = takes ]; }
processes_with() { [ -z "$RANKS" ] || printf '%s\\n' $RANKS; }
launcher=50 HPCLAUNCH_EXIT_FILE=/x signal_to=$TO
[ "$STEP" = none ] || signal_by=step
"""


@pytest.mark.parametrize(
    ("to", "step", "ranks", "signal", "sent"),
    [
        ("launcher", "none", "60 61", "TERM", "TERM 50"),
        ("launcher", "takes", "60 61", "TERM", "step TERM"),
        ("launcher", "refuses", "60 61", "USR1", "step USR1 USR1 50"),
        ("group", "none", "60 61", "USR2", "USR2 -50"),
        ("group", "refuses", "", "TERM", "step TERM TERM -50"),
        ("ranks", "none", "60 61", "TERM", "TERM 60 61"),
        ("ranks", "none", "60 61", "USR1", "USR1 60 61"),
        ("ranks", "none", "", "TERM", "TERM 50"),
        ("ranks", "none", "", "USR1", "USR1"),
    ],
)
def test_who_gets_a_signal(to: str, step: str, ranks: str, signal: str, sent: str) -> None:
    known = {"TO": to, "STEP": step, "RANKS": ranks}
    done = with_library(f"{SIGNALS}signal_ranks {signal}", **known)
    assert " ".join(done.stdout.split()) == sent, done.stderr


@pytest.mark.parametrize(
    ("signals", "pass_on", "launcher", "sent", "asked", "marked"),
    [
        ("TERM", "", "50", "TERM", "3", True),
        ("USR1", "", "50", "USR1", "3", False),
        ("USR1", "TERM", "50", "TERM", "3", False),
        ("USR1 TERM", "USR2", "50", "USR2 USR2", "3", True),
        ("USR2", "", "", "", "3", False),
    ],
)
def test_a_signal_is_passed_on_and_the_first_one_counts(
    tmp_path: Path, signals: str, pass_on: str, launcher: str, sent: str, asked: str, marked: bool
) -> None:
    steps = "; ".join(f"SECONDS={3 + number}; pass_signal {one}" for number, one in enumerate(signals.split()))
    text = f'signal_ranks() {{ echo "$1"; }}; pass_on={pass_on} launcher={launcher} attempt={tmp_path}'
    done = with_library(f'unset SECONDS; {text}; {steps}; echo "asked $asked, received $received"')
    *told, last = done.stdout.splitlines()
    assert " ".join(told) == sent
    assert last == f"asked {asked}, received {sent.split(maxsplit=1)[0] if sent else signals}"
    assert (tmp_path / "terminated").exists() is marked


@pytest.mark.parametrize(
    ("fails", "lead_ends", "asked", "pauses", "code"),
    [
        (0, 60, 1, "", 0),
        (1, 60, 2, "1", 0),
        (5, 60, 6, "1 2 4 8 16", 0),
        (6, 60, 6, "1 2 4 8 16", 1),
        (9, 1, 1, "", 1),
        (9, 2, 2, "1", 1),
        (9, 5, 3, "1 2", 1),
    ],
)
def test_the_scheduler_is_asked_again_while_the_lead_lasts(
    tmp_path: Path, fails: int, lead_ends: int, asked: int, pauses: str, code: int
) -> None:
    call = f"call() {{ echo >> calls; [ $(wc -l < calls) -gt {fails} ]; }}"
    sleep = "sleep() { echo $1; SECONDS=$((SECONDS + $1)); }; unset SECONDS; SECONDS=0"  # no clock's any more
    done = with_library(f"cd {tmp_path}; {call}; {sleep} lead_ends={lead_ends}; patiently call; echo code $?")
    assert done.stdout.split() == [*pauses.split(), "code", str(code)]
    assert len((tmp_path / "calls").read_text()) == asked


STEP = """
text_of() { echo "$COMM"; }
scontrol() {
  echo "$*" >> asked
  case $* in
    *' 7') printf 'StepId=%s UserId=0 SrunHost:Pid=%s State=RUNNING\\n' 7.2 n1:500 7.1 n2:50 7.0 n1:5 ;;
    *' 8') echo 'StepId=8.1 UserId=0 State=RUNNING SrunHost:Pid=n2:50' ;;
  esac
}
scancel() { echo "$*"; }
launcher=50
stepped=no
for signal in $SIGNALS; do signal_step "$signal" && echo sent || echo refused; done
"""
SENT = "--signal=TERM {}\nsent\n"
HETEROGENEOUS = {"SLURM_JOB_ID_HET_GROUP_0": "7", "SLURM_JOB_ID_HET_GROUP_1": "8"}


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({}, SENT.format("7.1")),
        ({"SIGNALS": "TERM TERM"}, SENT.format("7.1") + "refused\n"),
        ({"SIGNALS": "USR1 TERM"}, "refused\n" + SENT.format("7.1")),
        ({"COMM": "mpirun"}, "refused\n"),
        ({"SLURM_JOB_ID": "9"}, "refused\n"),
        ({"SLURM_JOB_ID": "9", "SIGNALS": "TERM TERM"}, "refused\nrefused\n"),
        (HETEROGENEOUS, SENT.format("7.1 8.1")),
        ({**HETEROGENEOUS, "SLURM_JOB_ID_HET_GROUP_0": "9"}, SENT.format("8.1")),
    ],
)
def test_sigterm_goes_once_to_the_tasks_of_sruns_own_step(tmp_path: Path, known: dict[str, str], said: str) -> None:
    """srun passes other signals on, but at SIGTERM it kills the tasks before they can save."""
    usual = {"COMM": "srun", "SLURM_JOB_ID": "7", "SIGNALS": "TERM"}
    done = with_library(f"cd {tmp_path}{STEP}", **{**usual, **known})
    assert done.stdout == said, done.stderr


# --- a launcher that does not end


@pytest.mark.parametrize(
    ("launcher", "may"), [("srun bash -c x", True), ("mpirun srun", False), ("srun bash torchrun --x", False)]
)
def test_only_srun_without_torchrun_is_known_to_hang(launcher: str, may: bool) -> None:
    assert (with_library(f"may_hang {launcher} && echo yes").stdout == "yes\n") is may


@pytest.mark.parametrize(
    ("files", "world", "reported"),
    [
        ((), 1, False),
        (("0",), 1, True),
        (("0",), 2, False),
        (("0", "1"), 2, True),
        (("0", "1.lost"), 2, False),
        (("0", "1", "1.lost"), 2, True),
        (("n1-5-9", "n2-6-9"), 2, True),
        (("0", "1", "2"), 2, True),
    ],
)
def test_a_launcher_hangs_if_all_ranks_had_reported_four_looks_before(
    tmp_path: Path, files: tuple[str, ...], world: int, reported: bool
) -> None:
    (tmp_path / "ranks").mkdir()
    for name in files:
        (tmp_path / "ranks" / name).touch()
    looks = f"attempt={tmp_path} world={world}; for _ in 1 2 3 4 5 6; do launcher_hangs && echo -n 1 || echo -n 0; done"
    assert with_library(looks).stdout == ("000011" if reported else "000000")


# --- what the ranks left behind


@pytest.mark.parametrize(
    ("filter", "left"), [("", "61 62 63"), ("A=b", "62"), ("A=", ""), ("A=bc", "63"), ("B=c", "61 62")]
)
def test_only_other_processes_of_this_start_are_left(tmp_path: Path, filter: str, left: str) -> None:
    for process, variables in {"61": "B=c\0A=x\0", "62": "A=b\0B=c\0", "63": "XA=b\0A=bc\0"}.items():
        (tmp_path / process).mkdir()
        (tmp_path / process / "environ").write_text(variables)
    text = with_library("declare -f find_left").stdout.replace("/proc/", f"{tmp_path}/")
    stand_in = 'processes_with() { [ "$1=$2" = HPCLAUNCH_EXIT_FILE=/x ] && printf "%s\\n" 61 $$ 62 63; }'
    done = with_library(f'{text}\n{stand_in}\nfind_left {filter}; echo "${{left[*]}}"', HPCLAUNCH_EXIT_FILE="/x")
    assert done.stdout == f"{left}\n", done.stderr


@pytest.mark.parametrize(
    ("ends_after", "said"), [(0, ""), (1, "-s TERM 61"), (50, "-s TERM 61"), (51, "-s TERM 61;-s KILL 61")]
)
def test_what_is_left_is_killed_five_seconds_after_sigterm(ends_after: int, said: str) -> None:
    find = f"find_left() {{ looks=$((looks + 1)); left=(61); [ $looks -le {ends_after} ] || left=(); }}"
    done = with_library(f'looks=0; {find}; sleep() {{ :; }}; kill() {{ echo "$*"; }}; end_left')
    assert ";".join(done.stdout.splitlines()) == said


# --- what squeue says


@pytest.mark.parametrize(
    ("answer", "code", "state"),
    [
        ("RUNNING", 0, "RUNNING"),
        ("CANCELLED by 0", 0, "CANCELLED"),
        ("", 0, ""),
        ("slurm_load_jobs error: Invalid job id specified", 1, ""),
        ("slurm_load_jobs error: Unable to contact slurm controller", 1, "UNKNOWN"),
        ("", 1, "UNKNOWN"),
    ],
)
def test_only_slurm_itself_can_say_that_it_no_longer_knows_a_job(answer: str, code: int, state: str) -> None:
    stand_in = f'squeue() {{ echo "$*" >&3; echo "{answer}" >&2; return {code}; }}'
    if not code:
        stand_in = stand_in.replace(" >&2", "")
    done = with_library(f"exec 3>&2; {stand_in}; sleep() {{ :; }}; slurm_state 7")
    assert done.stdout == state
    assert done.stderr.splitlines()[0] == "--noheader --states=all --format=%T --jobs=7"
    assert done.stderr.count("--jobs=7") == (6 if state == "UNKNOWN" else 1)
