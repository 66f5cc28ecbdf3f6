"""What the output of sbatch says: a job ID, that nothing was queued, a controller that was not reached, or doubt.

sbatch that ends by itself with an exit code other than 0, and without a job ID, has queued nothing, in whatever words:
the controller's, a plugin's, a filter's of the site, or its own. Only a broken conversation with the controller leaves
a doubt, as the controller may have read the request, or may obey it later. So this module knows the words for that, and
none for the many kinds of refusal. Where sbatch's own last words say why it failed, what filters and banners say beside
them counts no more. Sources: slurm_errno.c, slurm_protocol_api.c and sbatch.c of 22.05 and 24.11, errno(3).
"""

from __future__ import annotations

import re
from typing import Literal

from hpclaunch.core.errors import shorten
from hpclaunch.core.records import record

Meaning = Literal["queued", "refused", "unreachable", "unknown"]

_UNREACHABLE = frozenset(
    {
        "Connection refused",
        "Controller is in standby mode, try a different controller",
        "Rate limit exceeded, please retry later",
        "Rate limit exceeded, please retry momentarily",
        "Slurm backup controller in standby mode",
        "Unable to contact slurm controller (connect failure)",
    }
)
"""Texts which mean that no controller took the request, so that it can be sent again."""
_DOUBT = "|".join(
    (
        # of Slurm's own table: the request was sent, perhaps in part, or its answer was lost
        r"Unable to contact slurm controller \((?:send|receive|shutdown) failure\)",
        r"Communication (?:connection|shutdown) failure|Message (?:send|receive) failure",
        r"Unexpected message received|Unexpected missing socket error|Insane message length",
        r"Received zero length message|Received message length < 0|Failed to send entire message",
        r"Zero Bytes were transmitted or received|Incompatible versions of client and server code",
        r"Protocol authentication error|Invalid authentication credential|Authentication credential \w+",
        r"Failed to connect to authentication agent|Slurm temporarily unable to accept job",
        # of the system, about a connection
        r"Connection (?:reset by peer|timed out)|Software caused connection abort|Broken pipe",
        r"Network (?:is down|is unreachable|dropped connection on reset)|No route to host|Host is down",
        r"Transport endpoint is (?:not|already) connected|Cannot send after transport endpoint shutdown",
        r"Communication error on send|Resource temporarily unavailable|Interrupted system call",
        r"Operation (?:now|already) in progress|Input/output error|Remote I/O error|Protocol error",
        r"No buffer space available|Link has been severed|Timer expired|timed out",
    )
)
"""Words after which the controller may have queued the job, or may queue it later."""
_NUMBER = (
    r"(?im)^[^\w\n]{0,20}[0-9]{1,18}(?:;\S{1,99})?[^\w\n]{0,20}$"
    r"|\bsubmitted\b[^\n]{0,40}\bjob\b[\s:#]{0,3}(?:id\b)?[\s:#=]{0,3}[0-9]"
)
"""What may be a job ID, in a form that is not sbatch's own: of ``--parsable``, or in a wrapper's sentence."""
_SUBMITTED = re.compile(rb"^Submitted batch job ([0-9]{1,18})(?: on cluster (\S+))?[ \t\r]*$", re.MULTILINE)
# Most submissions are accepted, so what follows is compiled only where it is needed.
_FAILED = r"(?m)^(?:sbatch: (?:error|fatal): )?Batch job submission failed: (.*?)\s*$"
_FILTERED = r"(?m)^(?:sbatch: (?:error|fatal): )?cli_filter plugin terminated with error\s*$"
"""Before anything is sent to the controller."""
_NO_CLUSTER = (
    r"(?m)^sbatch: error: (?:"
    r".* can't be reached now, or it is an invalid entry for .*"
    r"|No clusters can be reached now\..*"
    r"|There is a problem talking to the database: .*)$"
)
"""What it says of the clusters of ``--clusters`` before it sends a script to one (print_db_notok, slurmdb_defs.c)."""
_CONVERSATION = r"(?m)^sbatch: error: (_?slurm_\w+\b.*)$"
"""What Slurm's functions that talk with the controller say, which are named first."""
_NO_SOURCE = r"(?m)^sbatch: (?:error|fatal): .*establish (?:a )?configuration source.*$"
_OWN_WORDS = r"(?m)^sbatch: (?:error|fatal): "
_PREFIX = r"(?m)^sbatch: (?:(?:error|fatal): )?"
_MOST_SAID = 10_000
"""Characters of sbatch's output that are kept."""
_TIME_IS_UP = 124
"""The exit code of timeout(1)."""
_SIGNALS = range(129, 193)
"""Exit codes of shells after a signal (128 and its number): sbatch did not end by itself."""


@record
class SbatchAnswer:
    """One call of sbatch: its meaning, the job ID of a queued job, and its ``words`` for the user, on one line.

    ``cluster``: where the job is, if sbatch names a cluster. ``unsent``: no cluster was asked to queue the script.

    ``printed``: what it printed beside the line with the job ID, line by line.
    ``own_words``: whether sbatch itself, and not only a wrapper, said why it failed.
    """

    meaning: Meaning
    job_id: str = ""
    cluster: str = ""
    words: str = ""
    printed: str = ""
    own_words: bool = False
    unsent: bool = False


def read_answer(code: int | None, out: bytes, err: bytes) -> SbatchAnswer:
    """Return the meaning of what sbatch printed, and of its exit code (None: it did not end in time).

    A job ID counts whatever else was printed, in any encoding, and whatever the exit code.
    """
    for stream in (out, err):
        jobs = {found.groups() for found in _SUBMITTED.finditer(stream)}
        if len(jobs) == 1:
            job_id, cluster = jobs.pop()
            rest = _SUBMITTED.sub(b"", out + b"\n" + err) if err or len(out.splitlines()) > 1 else b""
            name = (cluster or b"").decode("utf-8", errors="replace")
            return SbatchAnswer(meaning="queued", job_id=job_id.decode(), cluster=name, printed=_lines_in(rest))
    text = _lines_in(err + b"\n" + out)
    words = " ".join(re.sub(_PREFIX, "", text).split())
    own_words = re.search(_OWN_WORDS, text) is not None
    meaning = _meaning_of(code, text, _lines_in(out))
    unsent = meaning != "queued" and bool(code and code > 0) and re.search(_NO_CLUSTER, text) is not None
    return SbatchAnswer(
        meaning="refused" if unsent else meaning,
        words=words or _silent_ending(code),
        printed=text,
        own_words=own_words,
        unsent=unsent,
    )


def _lines_in(text: bytes) -> str:
    lines = text.decode("utf-8", errors="replace").splitlines()
    return shorten("\n".join(line.rstrip() for line in lines if line.strip()), _MOST_SAID)


def _meaning_of(code: int | None, text: str, out: str) -> Meaning:
    """Return the meaning of an exit code and of all the text, of which ``out`` is that of stdout."""
    if code is None or code <= 0 or code == _TIME_IS_UP or code in _SIGNALS:
        return "unknown"
    reasons = re.findall(_FAILED, text)
    said, numbered = text, text
    if reasons or re.search(_FILTERED, text):
        said, numbered = "\n".join([*reasons, *re.findall(_CONVERSATION, text)]), out
    if re.search(_DOUBT, said, re.IGNORECASE) or re.search(_NUMBER, numbered):
        return "unknown"
    if (reasons and set(reasons) <= _UNREACHABLE) or re.search(_NO_SOURCE, text):
        return "unreachable"
    return "refused"


def _silent_ending(code: int | None) -> str:
    if code is None or code == _TIME_IS_UP:
        return "sbatch did not answer in time"
    if code < 0 or code in _SIGNALS:
        return f"sbatch was ended by signal {-code if code < 0 else code - 128}"
    return f"sbatch ended with exit code {code} and without a message"
