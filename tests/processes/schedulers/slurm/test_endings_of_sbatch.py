"""However sbatch ends: no queued job is called NOT_SUBMITTED, and none is queued twice.

Every text of Slurm's error table and of the system's (all in `make once`, each fourth in `make test`), and forty other
endings; with and without a queued job.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from hpclaunch import runs
from hpclaunch.actions.following.states import refreshed
from hpclaunch.actions.queueing.hand_over import hand_over
from hpclaunch.core.errors import Refused, SchedulerError, Unanswered
from hpclaunch.core.folders import state_folder
from hpclaunch.runs import Run
from hpclaunch.runs.ownership import new_token
from hpclaunch.schedulers.slurm import programs
from hpclaunch.schedulers.slurm.submit import search
from tests.builders import a_run
from tests.tiers import LONG

# SPOOL/ending is what sbatch does after it has, or has not, queued the job: SPOOL/jobs has a line for each one.
PROGRAMS = {
    "sbatch": "[ -e {spool}/refuse ] || echo '4711|PENDING|Priority||{folder}' >> {spool}/jobs\n. {spool}/ending",
    "squeue": 'while IFS= read -r line; do echo "$line"; done < {spool}/jobs',
    "sacct": ":",
    "scontrol": ":",
    "srun": ":",
    "scancel": "echo called >> {spool}/scancel",
}
QUEUED = "echo Submitted batch job 4711"
FAILED = "sbatch: error: Batch job submission failed: "
ENDINGS = {
    # with the job's ID
    "an ID": QUEUED,
    "an ID and exit code 1": f"{QUEUED}; exit 1",
    "an ID and exit code 255": f"{QUEUED}; exit 255",
    "an ID and a refusal": f"{QUEUED}; echo '{FAILED}Invalid partition name specified' >&2; exit 1",
    "an ID on stderr": f"{QUEUED} >&2",
    "an ID on a cluster": f"{QUEUED} on cluster x",
    "an ID after other lines": f"echo 'job 17 is an earlier one'; {QUEUED}",
    "an ID before other lines": f"{QUEUED}; echo 'welcome, your job 17 is welcome'",
    "an ID and Latin-1": f"{QUEUED}; printf 'compte \\351puis\\351\\n' >&2",
    "an ID in Latin-1": f"printf 'compte \\351puis\\351\\n'; {QUEUED}; exit 1",
    "an ID and a signal": f"{QUEUED}; kill -9 $$",
    "an ID without a line's end": "printf 'Submitted batch job 4711'",
    "an ID and a carriage return": "printf 'Submitted batch job 4711\\r\\n'",
    # with an ID that is none, or another one
    "two IDs": f"{QUEUED}; echo Submitted batch job 4712",
    "an ID alone": "echo 4711",
    "an ID in other words": "echo Job 4711 was accepted",
    "an ID in a sentence": "echo 'Submitted batch job 4711, have fun'",
    "an ID of 30 digits": "echo Submitted batch job 471147114711471147114711471147",
    # without an ID
    "silence": ":",
    "exit code 1 and silence": "exit 1",
    "exit code 255 and silence": "exit 255",
    "timeout's exit code": "exit 124",
    "a program that is missing": "exit 127",
    "other words": "echo plugin: welcome",
    "other words and exit code 1": "echo plugin: goodbye; exit 1",
    "Latin-1": "printf 'compte \\351puis\\351\\n' >&2; exit 1",
    "Latin-1 and success": "printf 'bient\\364t\\n'",
    "Latin-1 and a refusal": f"printf 'compte \\351puis\\351\\n{FAILED}Unspecified error\\n' >&2; exit 1",
    "UTF-16": "printf '\\377\\376S\\000u\\000b\\000' >&2; exit 1",
    "a null byte": "printf 'a\\000b\\n'; exit 1",
    "a megabyte": 'text=x; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do text="$text$text"; done; '
    'echo "$text" >&2; exit 1',
    "an unknown text": f"echo '{FAILED}The moon is in the wrong phase' >&2; exit 1",
    "a known text in other letters": f"echo '{FAILED}INVALID PARTITION NAME SPECIFIED' >&2; exit 1",
    "a known text and more": f"echo '{FAILED}Invalid partition name specified, or not' >&2; exit 1",
    "a refusal after a time-out": f"echo '{FAILED}Socket timed out on send/recv operation' >&2; "
    f"echo '{FAILED}Invalid partition name specified' >&2; exit 1",
    "a refusal and success": f"echo '{FAILED}Invalid partition name specified' >&2",
    "a refusal before sbatch calls": "echo 'sbatch: error: Invalid --time specification' >&2; exit 255",
    "an option of a site's filter": "echo 'sbatch: error: cli_filter plugin terminated with error' >&2; exit 1",
    "a wrapper that gave up": "echo 'sbatch timed out after 60 s' >&2; exit 1",
    "a number and exit code 1": "echo 4711; exit 1",
    "a sentence and exit code 1": "echo 'You submitted job 4711.'; exit 1",
    "fatal": "echo 'sbatch: fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.' >&2; exit 1",
    "a plugin's own code": f"echo '{FAILED}Unknown error 2072' >&2; exit 1",
    **{f"signal {number}": f"kill -{number} $$" for number in (1, 2, 3, 6, 9, 11, 13, 15)},
}


def texts_of_slurm() -> list[str]:
    """Return the texts of the installed Slurm's own table (slurm_strerror), else those of 22.05.8."""
    libraries = sorted(Path("/usr").glob("lib*/**/libslurmfull.so"))
    if not libraries:
        stored = Path(__file__).with_name("slurm_22_05_errors.txt")
        return stored.read_text().splitlines()
    describe = ctypes.CDLL(str(libraries[0])).slurm_strerror
    describe.restype = ctypes.c_char_p
    texts = [describe(number).decode() for number in (-1, 0, *range(1000, 10_100))]
    return [text for text in texts if not text.startswith("Unknown error")]


TEXTS = list(dict.fromkeys([*texts_of_slurm(), *map(os.strerror, errno.errorcode)]))


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with Slurm's programs on PATH. No time passes: the pauses between lookups are left out."""
    (tmp_path / "bin").mkdir()
    for name, text in PROGRAMS.items():
        program = tmp_path / "bin" / name
        program.write_text(f"#!/bin/sh\n{text.format(spool=tmp_path, folder=tmp_path / 'run-')}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    return tmp_path


def fresh_runs(spool: Path, ending: str, queued: bool) -> Iterator[Run]:
    """Yield a rendered run, whose submission ends so."""
    (spool / "ending").write_text(f"{ending}\n")
    (spool / "jobs").write_text("")
    (spool / "refuse").unlink(missing_ok=True)
    if not queued:
        (spool / "refuse").touch()
    run = runs.save(replace(a_run(spool, state="RENDERED"), token=new_token()), durable=False)
    runs.list_own(state_folder(os.environ), run)
    yield run
    for path in sorted(run.path.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def outcome_of(run: Run) -> Run:
    """Submit the run, ask for its state, and return what is recorded."""
    text = f"#!/bin/bash\n#SBATCH --chdir={run.path}\n"
    try:
        hand_over(run, text, 60)
    except (Refused, SchedulerError):
        refreshed([runs.load(run.path)])
    return runs.load(run.path)


def jobs_in(spool: Path) -> list[str]:
    return [line.partition("|")[0] for line in (spool / "jobs").read_text().splitlines()]


def check(spool: Path, ending: str) -> None:
    for run in fresh_runs(spool, ending, queued=True):
        recorded = outcome_of(run)
        assert (recorded.job_id, jobs_in(spool)) == ("4711", ["4711"]), ending
        assert recorded.state != "NOT_SUBMITTED"
    assert not (spool / "scancel").exists()


def test_there_are_forty_endings_and_every_text_of_the_table() -> None:
    assert len(ENDINGS) >= 40
    assert len(TEXTS) >= 240


def test_a_queued_job_is_found_whatever_sbatch_says(spool: Path) -> None:
    for ending in ENDINGS.values():
        check(spool, ending)


def test_a_queued_job_is_found_after_every_text_of_slurms_table(spool: Path) -> None:
    for text in TEXTS if LONG else TEXTS[::4]:
        quoted = (FAILED + text).replace("'", "'\\''")
        check(spool, f"echo '{quoted}' >&2; exit 1")


IN_DOUBT = {
    *("silence", "timeout's exit code", "other words", "Latin-1 and success", "a refusal and success"),
    *("a refusal after a time-out", "a wrapper that gave up", "a number and exit code 1", "a sentence and exit code 1"),
    *(name for name in ENDINGS if name.startswith("signal ")),
}
"""Endings without a job ID after which a job may still appear; after all others nothing was queued."""
DOUBTFUL = re.compile(
    "(?i)receive failure|send failure|shutdown failure|connection failure|authenticat|socket|zero bytes|zero length|"
    "message (send|receive|length)|entire message|unexpected message|incompatible versions|connection (reset|timed)|"
    "connection abort|broken pipe|^network (is|dropped)|no route|host is down|endpoint|temporarily|interrupted system|"
    "in progress|I/O error|input/output|communication|protocol error|buffer space|link has been severed|expired"
)
"""Texts of the tables that speak of a broken conversation, in words of this test."""


def test_only_a_broken_conversation_leaves_a_doubt(spool: Path) -> None:
    """A job that was not queued is NOT_SUBMITTED at once, whatever the words, unless the controller was not heard."""
    said = {}
    for text in TEXTS if LONG else TEXTS[::12]:
        quoted = (FAILED + text).replace("'", "'\\''")
        for run in fresh_runs(spool, f"echo '{quoted}' >&2; exit 1", queued=False):
            said[text] = outcome_of(run).state
    unclear = {text for text in said if DOUBTFUL.search(text)}
    in_doubt = {text for text, state in said.items() if state == "SUBMITTING"}
    assert in_doubt <= unclear, in_doubt - unclear
    assert {state for text, state in said.items() if text not in unclear} == {"NOT_SUBMITTED"}


def test_the_other_endings_without_a_job_are_refusals(spool: Path) -> None:
    said = {}
    for name, ending in ENDINGS.items():
        if not name.startswith(("an ID", "two IDs")):
            for run in fresh_runs(spool, ending, queued=False):
                said[name] = outcome_of(run).state
    assert {name for name, state in said.items() if state == "SUBMITTING"} == IN_DOUBT
    assert {said[name] for name in said.keys() - IN_DOUBT} == {"NOT_SUBMITTED"}


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("Invalid partition name specified", "NOT_SUBMITTED"),
        ("Unable to contact slurm controller (connect failure)", "NOT_SUBMITTED"),
        ("Socket timed out on send/recv operation", "SUBMITTING"),
        ("Unable to contact slurm controller (receive failure)", "SUBMITTING"),
        ("Protocol authentication error", "SUBMITTING"),
        ("Unknown error 2072", "NOT_SUBMITTED"),
        ("Operation not permitted", "NOT_SUBMITTED"),
    ],
)
def test_the_texts_that_matter_most(spool: Path, text: str, state: str) -> None:
    for run in fresh_runs(spool, f"echo '{FAILED}{text}' >&2; exit 1", queued=False):
        assert outcome_of(run).state == state


def count_calls(spool: Path, *programs_of_slurm: str) -> None:
    """From now on each of these programs adds its name to SPOOL/calls."""
    for name in programs_of_slurm:
        program = spool / "bin" / name
        program.write_text(program.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\necho {name} >> {spool}/calls\n"))


def calls(spool: Path) -> list[str]:
    return (spool / "calls").read_text().split()


FILTER = """echo; echo ' Welcome to the Supercomputer'; echo '--> Verifying jobname...OK'
echo '--> Verifying your budget...FAILED'; echo 'No time left on account A-1.' >&2; exit 1"""


def test_a_refusal_is_looked_up_once_and_told_in_all_words(spool: Path) -> None:
    """As the filters of some sites refuse: on both streams, and not in sbatch's form."""
    count_calls(spool, "sbatch", "squeue", "sacct")
    for run in fresh_runs(spool, FILTER, queued=False):
        with pytest.raises(SchedulerError) as caught:
            hand_over(run, f"#!/bin/bash\n#SBATCH --chdir={run.path}\n", 60)
        recorded = runs.load(run.path)
    assert calls(spool) == ["sbatch", "squeue", "sacct"]
    assert caught.value.faults[0].what == (
        "No time left on account A-1. Welcome to the Supercomputer "
        "--> Verifying jobname...OK --> Verifying your budget...FAILED"
    )
    assert (recorded.state, "A-1. Welcome" in recorded.reason) == ("NOT_SUBMITTED", True)


def test_an_sbatch_whose_output_has_no_end_is_ended_and_its_job_counts(spool: Path) -> None:
    """More than sbatch may print: it cannot write the rest."""
    for run in fresh_runs(spool, f"{QUEUED}; head -c 9000000 /dev/zero && touch {spool}/all-of-it", queued=True):
        hand_over(run, f"#!/bin/bash\n#SBATCH --chdir={run.path}\n", 60)
        assert runs.load(run.path).job_id == "4711"
    assert not (spool / "all-of-it").exists()


def test_a_refusal_is_certain_without_accounting(spool: Path) -> None:
    (spool / "bin/sacct").write_text("#!/bin/sh\necho Slurm accounting storage is disabled >&2; exit 1\n")
    for run in fresh_runs(spool, FILTER, queued=False):
        assert outcome_of(run).state == "NOT_SUBMITTED"


def test_a_refusal_is_not_certain_while_the_controller_does_not_answer(spool: Path) -> None:
    (spool / "bin/squeue").write_text("#!/bin/sh\necho Unable to contact slurm controller >&2; exit 1\n")
    for run in fresh_runs(spool, FILTER, queued=False):
        assert outcome_of(run).state == "SUBMITTING"


def test_a_job_that_only_accounting_knows_is_found(spool: Path) -> None:
    """squeue does not answer; the job is in accounting, although sbatch refused."""
    (spool / "bin/squeue").write_text("#!/bin/sh\nexit 1\n")
    (spool / "bin/sacct").write_text(f"#!/bin/sh\ncat {spool}/jobs\n")
    for run in fresh_runs(spool, FILTER, queued=True):
        (spool / "jobs").write_text(f"4711|COMPLETED|0:0|node1|{run.path}\n")
        hand_over(run, f"#!/bin/bash\n#SBATCH --chdir={run.path}\n", 60)
        assert runs.load(run.path).job_id == "4711"
        assert len((spool / "jobs").read_text().splitlines()) == 2


def test_without_the_working_folder_only_sbatchs_own_words_are_certain(spool: Path) -> None:
    """Where a site's file removes --chdir the lookup by the folder proves nothing."""
    for words, state in (("sbatch: fatal: too much", "NOT_SUBMITTED"), ("too much", "SUBMITTING")):
        for run in fresh_runs(spool, f"echo '{words}' >&2; exit 1", queued=False):
            with pytest.raises(SchedulerError):
                hand_over(run, "#!/bin/bash\n", 60)
            assert runs.load(run.path).state == state


def test_an_sbatch_that_cannot_be_started_has_queued_nothing(spool: Path) -> None:
    (spool / "bin/squeue").write_text("#!/bin/sh\nexit 1\n")
    for run in fresh_runs(spool, QUEUED, queued=False):
        (run.path / "submitit").touch()  # no folder for the file that sbatch gets
        with pytest.raises(SchedulerError, match="sbatch was not called"):
            hand_over(run, f"#!/bin/bash\n#SBATCH --chdir={run.path}\n", 60)
        assert runs.load(run.path).state == "NOT_SUBMITTED"


def test_a_refused_run_can_be_submitted_again_and_cancelled(spool: Path) -> None:
    for run in fresh_runs(spool, "echo too much >&2; exit 1", queued=False):
        refused = outcome_of(run)
        assert refused.final
        for path in ("ending", "refuse"):
            (spool / path).unlink()
        (spool / "ending").write_text(f"{QUEUED}\n")
        again = hand_over(refused, f"#!/bin/bash\n#SBATCH --chdir={run.path}\n", 60)
        assert (again.job_id, again.state, again.reason) == ("4711", "PENDING", "")


def test_a_job_of_an_earlier_submission_is_found_before_a_second_one_is_queued(spool: Path) -> None:
    for run in fresh_runs(spool, f"echo '{FAILED}Invalid partition name specified' >&2; exit 1", queued=False):
        refused = outcome_of(run)
        assert refused.state == "NOT_SUBMITTED"
        (spool / "jobs").write_text(f"4700|PENDING|Priority||{run.path}\n")
        (spool / "refuse").unlink()
        again = hand_over(refused, f"#!/bin/bash\n#SBATCH --chdir={run.path}\n", 60)
        assert (again.job_id, jobs_in(spool)) == ("4700", ["4700"])


def test_a_refused_job_that_slurm_still_lists_was_not_queued(spool: Path) -> None:
    """As 22.05 and 24.11 list it for MinJobAge: FAILED, without nodes. squeue and sacct spell these in two ways."""
    refusal = f"echo '{FAILED}Requested node configuration is not available' >&2; exit 1"
    for listed in ("4711|FAILED|BadConstraints||", "4711|FAILED|1:0|None assigned|"):
        for run in fresh_runs(spool, f"echo '{listed}{spool}/run-' > {spool}/jobs; {refusal}", queued=False):
            recorded = outcome_of(run)
            assert (recorded.state, recorded.job_id, len(jobs_in(spool))) == ("NOT_SUBMITTED", "", 1)


def test_a_folder_whose_name_holds_other_line_separators_is_found(spool: Path) -> None:
    """str.splitlines divides at these, and the job belonged to no run: sbatch was called three times."""
    path = spool / "a\u2028b\x0bc\x85d"
    path.mkdir()
    undecodable = spool / os.fsdecode(b"caf\xe9")
    undecodable.mkdir()
    for folder in (path, undecodable):
        (spool / "jobs").write_bytes(b"4711|PENDING|Priority||" + os.fsencode(folder) + b"\n")
        run = replace(a_run(spool), path=folder)
        assert search([run]).jobs == {folder: ("4711",)}


def test_an_unanswered_submission_names_the_next_step(spool: Path) -> None:
    for run in fresh_runs(spool, "exit 124", queued=False):
        with pytest.raises(Unanswered, match=f"hpclaunch status {run.label}"):
            hand_over(run, f"#!/bin/bash\n#SBATCH --chdir={run.path}\n", 60)


def test_a_controller_that_is_down_is_reported_before_sbatch_is_called(spool: Path) -> None:
    (spool / "bin/scontrol").write_text("#!/bin/sh\necho 'Slurmctld(primary) at login is DOWN'\nexit 1\n")
    for run in fresh_runs(spool, QUEUED, queued=True):
        with pytest.raises(SchedulerError, match=f"(?s)controller is down .login.*hpclaunch retry {run.label}"):
            hand_over(run, f"#!/bin/bash\n#SBATCH --chdir={run.path}\n", 60)
        assert (runs.load(run.path).state, jobs_in(spool)) == ("NOT_SUBMITTED", [])


def test_one_controller_of_two_is_enough(spool: Path) -> None:
    lines = "Slurmctld(primary) at a is DOWN\\nSlurmctld(backup) at b is UP\\n"
    (spool / "bin/scontrol").write_text(f"#!/bin/sh\nprintf '{lines}'\n")
    for run in fresh_runs(spool, QUEUED, queued=True):
        assert hand_over(run, f"#!/bin/bash\n#SBATCH --chdir={run.path}\n", 60).job_id == "4711"


def test_the_steps_of_one_submission_ask_once_whether_a_controller_is_up(
    spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(programs, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    asked = spool / "asked"
    (spool / "bin/scontrol").write_text(f'#!/bin/sh\necho "$1" >> {asked}\n')
    for times in (1, 2):
        for run in fresh_runs(spool, QUEUED, queued=True):
            hand_over(run, f"#!/bin/bash\n#SBATCH --chdir={run.path}\n", 60)
        assert asked.read_text().split().count("ping") == times
        clock[0] += 5


def test_a_job_is_looked_for_by_its_folder_if_the_script_names_it(spool: Path) -> None:
    for run in fresh_runs(spool, ":", queued=True):
        hand_over(run, f"#!/bin/bash\n#SBATCH --chdir={run.path}\n", 60)
        assert runs.load(run.path).job_id == "4711"
    for run in fresh_runs(spool, ":", queued=True):
        with pytest.raises(Unanswered):
            hand_over(run, "#!/bin/bash\n", 60)
