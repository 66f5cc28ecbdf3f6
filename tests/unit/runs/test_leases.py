"""One process at a time submits a run, and the first recorded outcome of a submission counts."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.core import files
from hpclaunch.runs import leases
from tests.builders import a_run


def give_to_another_process(run: Path, host: str = "elsewhere", **signs: str) -> None:
    """Let the newest lease belong to process 1 of a host, which is not the process that reads it."""
    lease = leases.newest(run)
    assert lease
    fields = lease.text.split(" ")
    host = fields[0] if host == "here" else host
    (lease.folder / str(lease.number)).write_text(" ".join([host, *fields[1:3], "1", "7", *fields[5:]]) + "\n")
    for name, text in signs.items():
        (lease.folder / f"{lease.number}.{name}").write_text(f"{text}\n")


def test_one_process_has_the_lease_until_its_submission_has_ended(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    first = leases.take(run)
    assert first and first.number == 1
    assert first.folder.stat().st_mode & 0o777 == 0o700
    assert leases.take(run) is None
    assert leases.end(first, leases.NOT_SUBMITTED) == leases.NOT_SUBMITTED
    second = leases.take(run)
    assert second and (second.number, second.before) == (2, leases.NOT_SUBMITTED)


def test_the_first_outcome_counts(tmp_path: Path) -> None:
    lease = leases.take(a_run(tmp_path))
    assert lease
    assert [leases.end(lease, "4711"), leases.end(lease, leases.NOT_SUBMITTED), lease.outcome] == ["4711"] * 3
    assert leases.settle(lease, "4712") == "4711"


def test_a_record_that_was_read_before_the_last_submission_gives_no_lease(tmp_path: Path) -> None:
    run = a_run(tmp_path, job_id="4700", state="FAILED")
    lease = leases.take(run)
    assert lease
    leases.end(lease, "4711")
    assert leases.take(run) is None
    assert leases.take(replace(run, job_id="4711", earlier=("4700",)))


def test_after_a_successor_that_the_script_submitted_the_next_submission_has_the_lease(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    lease = leases.take(run)
    assert lease
    leases.end(lease, "4711")
    again = leases.take(replace(run, job_id="4712", earlier=("4711",)))
    assert again and again.number == 2


def test_the_process_is_known_to_live_on_its_own_host(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    assert leases.take(run)
    assert (leases.silence(run.path), leases.renew(run.path)) == (0.0, True)
    give_to_another_process(run.path, host="here", renewed="1.0")
    assert leases.silence(run.path) > 0
    assert not leases.renew(run.path)
    give_to_another_process(run.path, host="here", renewed="99999999999.0")
    assert leases.silence(run.path) == 0.0, "a sign of the future is damaged"


def test_a_process_that_ended_before_it_called_a_program_leaves_the_lease(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    assert leases.take(run)
    give_to_another_process(run.path, host="here")
    again = leases.take(run)
    assert again and again.number == 2
    give_to_another_process(run.path, host="here", renewed="1.0")
    assert leases.take(run) is None  # sbatch may have been called


def test_of_another_hosts_process_only_the_change_of_its_signs_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, clock = a_run(tmp_path), [5000.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    assert leases.take(run)
    give_to_another_process(run.path, renewed="999999.0")
    assert leases.silence(run.path) == 0.0
    clock[0] += 700
    assert leases.silence(run.path) == 700.0
    give_to_another_process(run.path, renewed="999999.9")
    assert leases.silence(run.path) == 0.0
    clock[0] += 500
    assert leases.silence(run.path) == 500.0


def test_a_record_without_a_lease_is_watched_in_the_same_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, clock = a_run(tmp_path), [5000.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    (run.path / "run.json").touch()
    assert leases.silence(run.path) == 0.0
    clock[0] += 601
    assert leases.silence(run.path) == 601.0
    os.utime(run.path / "run.json", (1, 1))
    assert leases.silence(run.path) == 0.0


@pytest.mark.parametrize("code", ["EPERM", "ENOTSUP", "ENOSYS", "EMLINK", "EXDEV", "EACCES"])
def test_without_hard_links_files_are_made_exclusively(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    def link(*_: object) -> None:
        raise OSError(getattr(errno, code), code)

    monkeypatch.setattr("os.link", link)
    run = a_run(tmp_path)
    lease = leases.take(run)
    assert lease
    assert leases.take(run) is None
    assert [leases.end(lease, "4711"), leases.end(lease, "4712")] == ["4711"] * 2
    assert leases.make_once(lease.folder / "1.ended", "4712") == "4711"
    assert sorted(path.name for path in lease.folder.iterdir()) == ["1", "1.ended"]


def test_an_outcome_counts_where_it_cannot_be_written(tmp_path: Path) -> None:
    lease = leases.take(a_run(tmp_path))
    assert lease
    for file in lease.folder.iterdir():
        file.unlink()
    lease.folder.rmdir()
    assert leases.end(lease, "4711") == "4711"


def test_a_submission_ended_here_if_this_process_made_it_and_it_gave_the_run_its_job(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    assert not leases.ended_here(run)
    lease = leases.take(run)
    assert lease and not leases.ended_here(run)
    leases.end(lease, "4711")
    assert leases.ended_here(replace(run, job_id="4711"))
    assert not leases.ended_here(replace(run, job_id="4712"))
    give_to_another_process(run.path, host="here")
    assert not leases.ended_here(replace(run, job_id="4711"))


def test_a_process_of_an_earlier_boot_is_none_of_this_one(tmp_path: Path) -> None:
    """Numbers and ticks begin again with every boot: a process with both may be another one."""
    me = leases.this_process()
    host, _, *rest = me.split(" ")
    assert leases.process_lives(me) is True
    assert leases.process_lives(" ".join([host, "4c1f4f5e-6d5e-4f0a-9f0e-000000000000", *rest])) is None


def test_what_was_seen_before_a_boot_is_seen_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The monotonic clock begins again with every boot, so its times before and after are never compared."""
    run, clock, boot = a_run(tmp_path), [5000.0], ["first"]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr(leases, "_boot", lambda: boot[0])
    assert leases.take(run)
    give_to_another_process(run.path)
    assert leases.silence(run.path) == 0.0
    boot[0], clock[0] = "second", 9000.0
    assert leases.silence(run.path) == 0.0
    clock[0] += 5
    assert leases.silence(run.path) == 5.0


def test_the_newest_submission_is_the_one_of_the_highest_number(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    for number in range(1, 11):
        lease = leases.take(run)
        assert lease and lease.number == number
        leases.end(lease, leases.NOT_SUBMITTED)
    assert leases.newest(run.path) == lease
    assert lease.before == leases.NOT_SUBMITTED


def test_a_sign_of_life_is_given_only_by_the_process_that_still_submits(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    assert leases.renew(run.path), "a run without a lease, of an older hpclaunch"
    lease = leases.take(run)
    assert lease and lease.sign == ""
    assert leases.renew(run.path)
    assert float(lease.sign) >= float(lease.text.split(" ")[-2])
    leases.end(lease, "4711")
    assert not leases.renew(run.path), "it has ended"


def test_a_submission_goes_on_where_its_sign_of_life_cannot_be_written(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    lease = leases.take(run)
    assert lease
    (lease.folder / "1.renewed").mkdir()
    assert leases.renew(run.path)


def test_an_outcome_is_settled_once_and_an_unknown_one_records_nothing(tmp_path: Path) -> None:
    assert leases.settle(None, "4711") == "4711"
    lease = leases.take(a_run(tmp_path))
    assert lease
    assert leases.settle(lease, "") == ""
    assert not (lease.folder / "1.ended").exists()
    assert leases.settle(lease, "4711") == lease.outcome == "4711"
    assert leases.settle(lease, "") == "4711"


def test_silence_counts_from_the_last_sign_and_before_the_first_from_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, clock = a_run(tmp_path), [5000.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    assert leases.take(run)
    give_to_another_process(run.path, host="here")
    clock[0] += 90
    assert leases.silence(run.path) == 90.0
    give_to_another_process(run.path, host="here", renewed="5060.0")
    assert leases.silence(run.path) == 30.0
    give_to_another_process(run.path, host="here", renewed="damaged")
    assert leases.silence(run.path) == 5090.0, "a sign that cannot be read is as old as this start of the machine"


def test_an_empty_lease_is_that_of_no_process_that_died(tmp_path: Path) -> None:
    """Its process may be writing it: nobody knows that it has ended."""
    run = a_run(tmp_path)
    lease = leases.take(run)
    assert lease
    (lease.folder / "1").write_text("\n")
    assert leases.take(run) is None


def test_a_time_after_now_was_seen_by_another_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, clock = a_run(tmp_path), [5000.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    assert leases.take(run)
    give_to_another_process(run.path)
    assert leases.silence(run.path) == 0.0
    clock[0] = 100.0
    assert leases.silence(run.path) == 0.0
    clock[0] = 103.0
    assert leases.silence(run.path) == 3.0


def test_a_process_that_has_ended_or_waits_to_be_reaped_does_not_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, boot, space, process, began = leases.this_process().split(" ")
    assert leases.process_lives(f"{host} {boot} {space} {process} {int(began) + 1}") is False
    assert leases.process_lives(f"{host} {boot} {space} 4194305 ") is False, "no process has this number"
    assert leases.process_lives(f"elsewhere {boot} {space} {process} {began}") is None
    assert leases.process_lives(f"{host} {boot} pid:[1] {process} {began}") is None
    read = leases.read_text
    for state, lives in (("Z", False), ("X", False), ("S", True)):
        line = f"7 (a) b) {state} " + " ".join(map(str, range(4, 22))) + f" {began} 23"
        monkeypatch.setattr(leases, "read_text", lambda file, line=line: line if "/stat" in str(file) else read(file))
        assert leases.process_lives(f"{host} {boot} {space} {process} {began}") is lives


def test_a_file_is_made_once_and_its_draft_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "1"
    assert [leases.make_once(file, "one"), leases.make_once(file, "two")] == ["one", "one"]
    assert (file.read_text(), os.listdir(tmp_path)) == ("one\n", ["1"])

    def link(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("os.link", link)
    with pytest.raises(OSError, match="Input/output error"):
        leases.make_once(tmp_path / "2", "one")
    assert os.listdir(tmp_path) == ["1"]


def test_where_there_are_no_spaces_of_process_numbers_the_name_of_a_process_has_as_many_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = leases.this_process().split(" ")

    def fail(path: str) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "readlink", fail)
    words = leases.this_process().split(" ")
    assert words == [*usual[:2], "unknown", *usual[3:]] and all(words)


def test_a_lease_and_its_outcome_go_to_the_disk_and_signs_of_life_need_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash of this machine nobody may submit the run again; a sign only shows how old a submission is."""
    waits: list[str] = []
    monkeypatch.setattr(files, "send_to_disk", lambda descriptor: waits.append("send"))
    monkeypatch.setattr("os.fsync", lambda descriptor: waits.append("fsync"))
    run = a_run(tmp_path)
    waits.clear()
    lease = leases.take(run)
    assert lease and waits == ["send"]
    assert leases.renew(run.path) and waits == ["send"]
    leases.end(lease, "4711")
    assert waits == ["send", "send"]
    give_to_another_process(run.path)
    assert leases.silence(run.path) == 0.0 and waits == ["send", "send"]


def test_of_an_outcome_that_cannot_be_written_the_recorded_one_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = leases.take(a_run(tmp_path))
    assert lease
    (lease.folder / "1.ended").touch()
    assert leases.end(lease, "4712") == "4712", "the recorded one cannot be read"
    (lease.folder / "1.ended").write_text("4711\n")

    def link(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("os.link", link)
    assert leases.end(lease, "4712") == "4711"


def test_only_numbers_as_hpclaunch_writes_them_name_submissions(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    lease = leases.take(run)
    assert lease
    for name in ("\N{ARABIC-INDIC DIGIT THREE}", "\N{SUPERSCRIPT TWO}", "7.ended", ".8"):
        (lease.folder / name).touch()
    assert leases.newest(run.path) == lease


def test_what_this_host_saw_of_others_is_the_users_own_and_may_be_lacking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, clock = a_run(tmp_path), [5000.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    assert leases.silence(run.path) == 0.0
    assert (run.path / leases.FOLDER).stat().st_mode & 0o777 == 0o700
    (seen,) = (run.path / leases.FOLDER).iterdir()
    seen.unlink()
    seen.mkdir()  # it can neither be read nor written
    clock[0] += 700
    assert leases.silence(run.path) == 0.0
    assert leases.silence(tmp_path / "missing") == 0.0


def test_a_process_is_named_in_one_line_and_its_lease_says_who_it_is(tmp_path: Path) -> None:
    words = leases.this_process().split()
    assert leases.this_process() == " ".join(words) and len(words) == 5
    lease = leases.take(a_run(tmp_path))
    assert lease and lease.holder == f"process {os.getpid()} on {os.uname().nodename}"
    assert replace(lease, text="").holder == "process  on "
