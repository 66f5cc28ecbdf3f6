"""What the output of sbatch means: only a broken conversation with the controller leaves a doubt."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from hpclaunch.schedulers.slurm.refusals import read_answer

FAILED = "sbatch: error: Batch job submission failed: "


@pytest.mark.parametrize(
    ("code", "out", "job_id"),
    [
        (0, b"Submitted batch job 4711\n", "4711"),
        (1, b"Submitted batch job 4711", "4711"),
        (-9, b"caf\xe9\nSubmitted batch job 4711 on cluster x\r\nwelcome\n", "4711"),
        (None, b"Submitted batch job 4711\n", "4711"),
        (0, b"Submitted batch job 4711\nSubmitted batch job 4712\n", ""),
        (0, b"Submitted batch job 4711\nSubmitted batch job 4711\n", "4711"),
        (0, b"your job 17 was not Submitted batch job 4711\n", ""),
        (0, b"Submitted batch job 1234567890123456789\n", ""),
    ],
)
def test_a_line_with_a_job_id_counts_whatever_else_there_is(code: int | None, out: bytes, job_id: str) -> None:
    answer = read_answer(code, out, f"{FAILED}Invalid partition name specified\n".encode())
    assert answer.job_id == job_id
    assert (answer.meaning == "queued") == bool(job_id)


@pytest.mark.parametrize(
    ("out", "cluster"),
    [
        (b"Submitted batch job 4711 on cluster hpcother\n", "hpcother"),
        (b"Submitted batch job 4711\n", ""),
        (b"Submitted batch job 4711 on cluster a\nSubmitted batch job 4711 on cluster b\n", None),
    ],
)
def test_the_cluster_is_the_one_in_the_line_with_the_job_id(out: bytes, cluster: str | None) -> None:
    """The same number on two clusters is two jobs."""
    answer = read_answer(0, out, b"")
    assert (answer.meaning, answer.cluster) == (("queued", cluster) if cluster is not None else ("unknown", ""))


# print_db_notok of Slurm's src/common/slurmdb_defs.c, in 20.11 to 24.11.
SEE = "Use 'sacctmgr list clusters' to see available clusters."
CONTACT = "or contact your admin to resolve the problem."
LOCAL = "Only local cluster communication is available, remove --cluster from your command line"
NO_CLUSTER = (
    f"'mars' can't be reached now, or it is an invalid entry for --cluster.  {SEE}",
    f"'mars' can't be reached now, or it is an invalid entry for SLURM_CLUSTERS.  {SEE}",
    "No clusters can be reached now. Contact your admin to resolve the problem.",
    f"There is a problem talking to the database: Connection timed out.  {LOCAL} {CONTACT}",
)


@pytest.mark.parametrize("words", NO_CLUSTER)
def test_without_a_way_to_a_cluster_nothing_was_sent(words: str) -> None:
    answer = read_answer(1, b"", f"sbatch: error: {words}\n".encode())
    assert (answer.meaning, answer.unsent) == ("refused", True)
    assert not read_answer(1, b"", f"{FAILED}Invalid partition name specified\n".encode()).unsent
    assert read_answer(None, b"", f"sbatch: error: {words}\n".encode()).meaning == "unknown"
    assert read_answer(1, b"Submitted batch job 4711\n", f"sbatch: error: {words}\n".encode()).meaning == "queued"


@pytest.mark.parametrize(
    ("code", "err", "meaning"),
    [
        (1, f"{FAILED}Invalid partition name specified\n", "refused"),
        (1, f"compte \udce9puis\udce9\n{FAILED}Unspecified error\n", "refused"),
        (255, "sbatch: error: Invalid --time specification\n", "refused"),
        (1, f"{FAILED}Unable to contact slurm controller (connect failure)\n", "unreachable"),
        (1, "sbatch: fatal: Could not establish a configuration source\n", "unreachable"),
        (0, f"{FAILED}Invalid partition name specified\n", "unknown"),
        (124, f"{FAILED}Invalid partition name specified\n", "unknown"),
        (-15, f"{FAILED}Invalid partition name specified\n", "unknown"),
        (None, f"{FAILED}Invalid partition name specified\n", "unknown"),
        (1, f"{FAILED}Invalid partition name specified, or not\n", "refused"),
        (1, "sbatch: fatal: --mem and --mem-per-cpu are mutually exclusive.\n", "refused"),
        (127, "sbatch: not found\n", "refused"),
        (128, "", "refused"),
        (1, "Your job needs 4711 hours, and your account has 12.\n", "refused"),
        (1, f"{FAILED}Connection refused\n{FAILED}Invalid qos specification\n", "refused"),
        (129, "", "unknown"),
        (192, "", "unknown"),
        (193, "", "refused"),
        (1, "sbatch: error: slurm_receive_msg: Zero Bytes were transmitted or received\n", "unknown"),
        (1, "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\n", "unknown"),
        (1, "4711\n", "unknown"),
        (1, "> 4711;cluster\n", "unknown"),
        (1, "Thank you, you have submitted the job with job ID: 4711\n", "unknown"),
        (1, f"{FAILED}Invalid partition name specified\n{FAILED}Socket timed out on send/recv operation\n", "unknown"),
        (1, f"{FAILED}Unable to contact slurm controller (receive failure)\n", "unknown"),
        (1, "", "refused"),
        (1, f"-- Jobs that timed out on Monday were refunded --\n{FAILED}Invalid qos specification\n", "refused"),
        (1, f"   12   \n{FAILED}Invalid qos specification\n", "refused"),
        (1, f"sbatch: error: Allocations: Input/output error in /etc/projects\n{FAILED}Unspecified error\n", "refused"),
        (1, f"sbatch: error: You may have at most 2 jobs. Protocol error 7\n{FAILED}Unspecified error\n", "refused"),
        (1, "You submitted a job: 4 GPUs at most\nsbatch: error: cli_filter plugin terminated with error\n", "refused"),
        (1, f"sbatch: error: slurm_receive_msg [10.0.0.1:6817]: Broken pipe\n{FAILED}Unspecified error\n", "unknown"),
    ],
)
def test_an_sbatch_that_ended_by_itself_has_refused_unless_the_conversation_broke(
    code: int | None, err: str, meaning: str
) -> None:
    assert read_answer(code, b"", err.encode("utf-8", "surrogateescape")).meaning == meaning


@pytest.mark.parametrize("out", ["4711\n", "You have submitted job 4711\n"])
def test_a_number_on_stdout_leaves_a_doubt_beside_a_refusal(out: str) -> None:
    """A wrapper may submit two jobs, of which the second one is refused."""
    assert read_answer(1, out.encode(), f"{FAILED}Invalid qos specification\n".encode()).meaning == "unknown"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (None, "did not answer in time"),
        (124, "did not answer in time"),
        (-9, "ended by signal 9"),
        (137, "ended by signal 9"),
        (3, "ended with exit code 3 and without a message"),
    ],
)
def test_a_silent_end_has_words(code: int | None, words: str) -> None:
    assert words in read_answer(code, b"", b"").words


def test_the_words_are_those_of_both_streams() -> None:
    answer = read_answer(1, b"--> budget...FAILED\n", b"sbatch: error: no time\n")
    assert (answer.words, answer.own_words) == ("no time --> budget...FAILED", True)
    assert not read_answer(1, b"see sbatch: error: x\n", b"").own_words


def test_a_job_id_counts_on_either_stream_with_all_else_that_was_printed() -> None:
    """A filter of the site warns on stderr; a wrapper may print everything there."""
    line = b"Submitted batch job 4711\n"
    for out, err, printed in (
        (line, b"", ""),
        (line, b"sbatch: moved to preempt\n", "sbatch: moved to preempt"),
        (b"Welcome\n\n" + line, b"", "Welcome"),
        (b"", b"Welcome\n" + line, "Welcome"),
        (b"out\n" + line, b"err \n", "out\nerr"),
        (line, line, ""),
    ):
        answer = read_answer(0, out, err)
        assert (answer.meaning, answer.job_id, answer.printed) == ("queued", "4711", printed)
    assert read_answer(0, line, b"Submitted batch job 4712\n").job_id == "4711", "stdout is sbatch's own"


def test_endless_words_are_kept_in_part() -> None:
    banner = b"a line of a banner\n" * 10_000
    queued, refused = read_answer(0, banner + b"Submitted batch job 4711\n", b""), read_answer(1, banner, b"")
    assert (queued.job_id, refused.meaning) == ("4711", "refused")
    for answer in (queued, refused):
        assert 9_000 < len(answer.printed) < 11_000 and answer.printed.endswith("more characters)")


NOT_TAKEN = {
    "Unable to contact slurm controller (connect failure)",
    "Slurm backup controller in standby mode",
    "Controller is in standby mode, try a different controller",
    "Connection refused",
    "Rate limit exceeded, please retry later",
    "Rate limit exceeded, please retry momentarily",
}
"""No controller took the request."""
DOUBTFUL = {
    # of Slurm's table
    "Unexpected message received",
    "Communication connection failure",
    "Message send failure",
    "Message receive failure",
    "Communication shutdown failure",
    "Incompatible versions of client and server code",
    "Protocol authentication error",
    "Insane message length",
    "Unexpected missing socket error",
    "Unable to contact slurm controller (send failure)",
    "Unable to contact slurm controller (receive failure)",
    "Unable to contact slurm controller (shutdown failure)",
    "Received zero length message",
    "Received message length < 0",
    "Failed to send entire message",
    "Socket timed out on send/recv operation",
    "Zero Bytes were transmitted or received",
    "Invalid authentication credential",
    "Failed to connect to authentication agent",
    "Authentication credential invalid",
    "Slurm temporarily unable to accept job, sleeping and retrying",
    # of the system
    "No route to host",
    "Broken pipe",
    "Interrupted system call",
    "Interrupted system call should be restarted",
    "No buffer space available",
    "Protocol error",
    "Host is down",
    "Resource temporarily unavailable",
    "Transport endpoint is already connected",
    "Transport endpoint is not connected",
    "Cannot send after transport endpoint shutdown",
    "Input/output error",
    "Remote I/O error",
    "Operation already in progress",
    "Operation now in progress",
    "Network is down",
    "Network is unreachable",
    "Network dropped connection on reset",
    "Communication error on send",
    "Link has been severed",
    "Connection timed out",
    "Connection reset by peer",
    "Software caused connection abort",
    "Timer expired",
}
"""The controller may have read the request."""


def texts() -> set[str]:
    """The texts of Slurm 22.05's table and of the system's, and those of newer versions of Slurm."""
    stored = Path(__file__).parents[3] / "processes/schedulers/slurm/slurm_22_05_errors.txt"
    return {*stored.read_text().splitlines(), *map(os.strerror, errno.errorcode), *NOT_TAKEN, *DOUBTFUL}


def meaning(*words: str, code: int = 1) -> str:
    return read_answer(code, b"", "".join(f"{FAILED}{text}\n" for text in words).encode()).meaning


def test_of_all_texts_only_those_of_a_broken_conversation_leave_a_doubt() -> None:
    found: dict[str, set[str]] = {}
    for text in texts():
        found.setdefault(meaning(text), set()).add(text)
    assert (found["unreachable"], found["unknown"]) == (NOT_TAKEN, DOUBTFUL)
    assert len(found["refused"]) > 300


def test_a_doubt_counts_more_than_a_refusal_and_that_more_than_a_controller_that_was_not_reached() -> None:
    refusal = "Invalid qos specification"
    for text in DOUBTFUL:
        assert read_answer(1, b"", f"sbatch: error: {text.upper()}\n".encode()).meaning == "unknown", text
        for other in (refusal, *NOT_TAKEN):
            assert meaning(text, other) == meaning(other, text) == "unknown", (text, other)
    for text in NOT_TAKEN:
        assert meaning(text, refusal) == meaning(refusal, text) == "refused", text
        assert [meaning(text, code=code) for code in (0, 124, -9, 143)] == ["unknown"] * 4
    assert meaning(*NOT_TAKEN) == "unreachable"
