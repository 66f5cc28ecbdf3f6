"""What is refused before anything is written or queued: with every reason at once, and what to type instead."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from tests.cli.conftest import Desk
from tests.cli.test_submit import directives

ME = pwd.getpwuid(os.geteuid()).pw_name
TAIL = "AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL Hidden=NO RootOnly=NO State=UP TRES=cpu=64,mem=64000M,node=8"
PARTITIONS = (
    f"PartitionName=batch Default=YES MaxNodes=UNLIMITED MaxTime=1-00:00:00 MinNodes=0 TotalNodes=3 {TAIL}\n"
    f"PartitionName=debug Default=NO MaxNodes=2 MaxTime=00:05:00 MinNodes=0 TotalNodes=3 {TAIL}\n"
)


@pytest.fixture
def limited(cluster: Desk) -> Desk:
    """A desk whose Slurm tells its limits, in the format of 22.05."""
    cluster.fake("scontrol", out=PARTITIONS)
    cluster.fake("sacctmgr", out="physics|high,normal\nclass|normal\n")
    cluster.fake("sshare", out=f"root||\n physics|{ME}|\n class|{ME}|\n")
    return cluster


def refusal(desk: Desk, *words: str, **variables: str) -> str:
    """Type a submission that is refused: nothing is written, sbatch is not called. Return what is said of it."""
    before = desk.listing()
    done = desk.type("submit", *words, **variables)
    assert (done.code, done.out) == (1, "")
    assert desk.listing() == before
    assert not (desk.spool / "sbatch.args").exists()
    return done.err


@pytest.mark.parametrize(
    ("words", "reason", "instead"),
    [
        (
            ["--walltime", "25h"],
            "Slurm's partition batch: walltime 1-01:00:00 requested; allowed: at most 1-00:00:00",
            "--walltime 1-00:00:00 --partition batch would be accepted",
        ),
        (
            ["--nodes", "4"],
            "Slurm's partition batch: 4 nodes requested; allowed: at most 3 nodes",
            "--nodes 3 --partition batch would be accepted",
        ),
        (
            ["--account", "phsyics"],
            "you have no account 'phsyics'; did you mean 'physics'?; allowed: class, physics",
            "--account physics",
        ),
        (
            ["--account", "class", "--qos", "high"],
            "account class may not use QOS 'high'; allowed: normal",
            "--qos normal",
        ),
    ],
)
def test_what_sbatch_would_let_wait_for_ever_is_refused(
    limited: Desk, words: list[str], reason: str, instead: str
) -> None:
    told = refusal(limited, "./train.py", *words)
    assert told.count("error: ") == 1
    assert reason in told
    assert f"next: {instead}\n" in told


def test_a_partition_that_slurm_does_not_have_is_refused(limited: Desk) -> None:
    site = limited.project / "site_configs/slurmsite.yaml"
    site.write_text(site.read_text().replace("partitions: {batch: {max_nodes: 4}, debug: {", "qos: {x: {"))
    told = refusal(limited, "./train.py", "--partition", "debgu", "--walltime", "1")
    assert "Slurm has no partition 'debgu'; did you mean 'debug'?; allowed: batch, debug" in told
    assert "next: --partition debug would be accepted" in told


def test_every_reason_is_in_one_refusal(limited: Desk) -> None:
    words = ["./missing.py", "--nodes", "9", "--account", "theirs", "--launcher", "jsrun", "--sbatch", "--nodes=3"]
    told = refusal(limited, *words)
    for reason in (
        "no partition accepts 9 cpu nodes",
        "9 nodes requested; allowed: at most 8 nodes",
        "launcher 'jsrun'",
        "hpclaunch itself writes --nodes",
        "missing.py: the script does not exist",
        "you have no account 'theirs'",
    ):
        assert reason in told


def test_missing_data_is_told_with_the_other_reasons(limited: Desk) -> None:
    words = ["cifar", "--data-dir", ".", "--nodes", "5", "--gpus-per-node", "0", "--account", "theirs"]
    told = refusal(limited, *words, "--restarts", "0")  # a run that may start again would fit as a chain
    for reason in ("the data set cifar10 was not found", "no partition accepts 5 cpu nodes", "you have no account"):
        assert reason in told


def test_a_reason_that_site_file_and_slurm_both_give_is_told_once(limited: Desk) -> None:
    told = refusal(limited, "./train.py", "--partition", "debug")
    assert told.count("walltime 00:10:00 requested; allowed: at most 00:05:00") == 1
    assert "next: --partition batch would be accepted" in told


def test_what_slurm_admits_is_submitted(limited: Desk) -> None:
    done = limited.type("submit", "./train.py", "--nodes", "3", "--account", "physics", "--qos", "high")
    assert done.code == 0, done.err
    assert "--nodes=3" in directives((limited.spool / "script").read_text())


@pytest.mark.parametrize("how", ["missing", "refusing", "talking"])
def test_where_slurm_cannot_tell_nothing_is_refused(cluster: Desk, how: str) -> None:
    for name in ("scontrol", "sacctmgr", "sshare"):
        if how == "missing":
            (cluster.root / "bin" / name).unlink()
        else:
            cluster.fake(name, out="Unable to contact slurm controller\n", code=int(how == "refusing"))
    done = cluster.type("submit", "./train.py", "--account", "any", "--qos", "any")
    assert done.code == 0, done.err
    assert (cluster.spool / "sbatch.args").exists()


def test_a_dry_run_asks_no_program(limited: Desk) -> None:
    done = limited.type("submit", "./train.py", "--dry-run", "--walltime", "25h", "--account", "theirs")
    assert done.code == 0, done.err
    assert not [path for path in limited.spool.iterdir() if path.name.endswith(".args")]


def test_test_only_prints_slurms_own_word_and_writes_nothing(limited: Desk) -> None:
    words = "sbatch: Job 4711 to start at 2026-01-02T03:04:05 using 8 processors on nodes n1 in partition batch\n"
    limited.fake("sbatch", err=words)
    before = limited.listing()
    done = limited.type("submit", "./train.py", "--test-only", SBATCH_TIMELIMIT="1", SLURM_NTASKS="1")
    assert (done.code, done.out) == (0, words.removeprefix("sbatch: "))
    assert limited.given("sbatch") == ["--test-only"]
    assert not {"SBATCH_TIMELIMIT", "SLURM_NTASKS"} & limited.environment_of("sbatch").keys()
    assert "--time=00:10:00" in directives((limited.spool / "script").read_text())
    assert limited.listing() == before


def test_test_only_checks_first(limited: Desk) -> None:
    assert "4 nodes requested" in refusal(limited, "./train.py", "--test-only", "--nodes", "4")


def test_test_only_tells_slurms_own_refusal(limited: Desk) -> None:
    limited.fake("sbatch", err="sbatch: error: Batch job submission failed: Invalid qos\n", code=1)
    done = limited.type("submit", "./train.py", "--test-only")
    assert (done.code, done.out) == (1, "")
    assert "error: sbatch --test-only: Batch job submission failed: Invalid qos\n" in done.err
    assert not (limited.project / "runs").exists()


def test_a_retired_site_is_told_with_the_other_reasons_and_its_slurm_is_not_asked(limited: Desk) -> None:
    site = limited.project / "site_configs/slurmsite.yaml"
    site.write_text(site.read_text() + "status: retired\n")
    told = refusal(limited, "./missing.py", "--account", "theirs")
    assert "slurmsite is retired: scripts can be rendered for it, but not submitted" in told
    assert "missing.py: the script does not exist" in told
    assert "theirs'" not in told
    assert not (limited.spool / "scontrol.args").exists()


def test_another_clusters_slurm_is_not_asked(limited: Desk) -> None:
    done = limited.type("submit", "./train.py", "--site", "cori", NERSC_HOST="perlmutter")
    assert (done.code, "cori is retired" in done.err) == (1, True)
    assert not (limited.spool / "scontrol.args").exists()


def test_what_a_site_file_does_not_know_needs_consent_and_is_marked(cluster: Desk) -> None:
    site = cluster.project / "site_configs/slurmsite.yaml"
    lines = [line for line in site.read_text().splitlines() if not line.startswith("launchers:")]
    site.write_text("\n".join([*lines, "unverified: {launchers: two pages differ}\n"]))
    told = refusal(cluster, "./train.py")
    assert "the launcher is not verified for slurmsite (two pages differ)" in told
    assert "next: pass --accept-unverified to use Slurm's default (srun)" in told
    done = cluster.type("submit", "./train.py", "--accept-unverified")
    assert done.code == 0, done.err
    mark = "Not verified for this site: the launcher; Slurm's default is used (srun)."
    assert f"warning: {mark}" in done.err
    assert f"# {mark}" in (cluster.spool / "script").read_text().splitlines()


def test_the_projects_settings_count_over_the_users(cluster: Desk) -> None:
    cluster.write(
        str(cluster.config / "settings.yaml"),
        "account: mine\npartition: batch\nmail: {to: ada@example.org, events: [FAIL]}\nsbatch: [--comment=user]\n",
    )
    project = cluster.write("hpclaunch.yaml", "account: the-projects\nremove: [--no-requeue]\nsbatch: [--nice=5]\n")
    done = cluster.type("submit", "./train.py")
    assert done.code == 0, done.err
    assert f"the project's settings apply: {project}" in done.err
    assert "(project hpclaunch.yaml)" in done.err
    written = directives((cluster.spool / "script").read_text())
    assert {"--account=the-projects", "--partition=batch", "--mail-user=ada@example.org"} <= set(written)
    assert {"--mail-type=FAIL", "--comment=user", "--nice=5"} <= set(written)
    assert "--no-requeue" not in written


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("hpclaunch.yaml", "sbatch: [--time=1]\n", "hpclaunch itself writes --time"),
        ("hpclaunch.yaml", "remove: [HPCLAUNCH_RUN_DIR]\n", "HPCLAUNCH_RUN_DIR cannot be removed"),
        ("hpclaunch.yaml", "acount: x\n", "acount: unknown key; did you mean 'account'?"),
        ("hpclaunch.yaml", "sites: {slurmsit: {account: x}}\n", "no such site; did you mean 'slurmsite'?"),
    ],
)
def test_a_faulty_project_file_is_told(cluster: Desk, file: str, content: str, message: str) -> None:
    cluster.write(file, content)
    assert message in refusal(cluster, "./train.py")


def test_row_01_what_the_shell_names_is_held_to_the_limits_too(limited: Desk) -> None:
    told = refusal(limited, "./train.py", SBATCH_PARTITION="debug", SBATCH_ACCOUNT="theirs")
    assert "slurmsite partition debug: walltime 00:10:00 requested" in told
    assert "you have no account 'theirs'" in told


def test_row_01_inside_a_job_what_that_job_was_started_with_is_not_held_against_the_next(limited: Desk) -> None:
    inside = {"SLURM_JOB_ID": "7", "SBATCH_PARTITION": "debug", "SBATCH_ACCOUNT": "theirs", "SBATCH_QOS": "theirs"}
    done = limited.type("submit", "./train.py", **inside)
    assert done.code == 0, done.err
    written = directives((limited.spool / "script").read_text())
    assert "--partition=batch" in written
    assert not [line for line in written if line.startswith(("--account", "--qos"))]


def test_the_cost_is_shown_before_anything_is_refused_or_queued(limited: Desk) -> None:
    words = ["./train.py", "--nodes", "3", "--walltime", "2h"]
    done = limited.type("submit", *words)
    assert done.code == 0, done.err
    assert done.err.index("at most 02:00:00, 6 node-hours\n") < done.err.index("submitted ")
    assert "cost, at most   6 node-hours (3 nodes x 02:00:00" in limited.type("submit", *words, "--dry-run", "-v").err


def test_partitions_that_were_not_chosen_are_told_with_their_reasons(cluster: Desk) -> None:
    assert "not partition" not in cluster.type("submit", "./train.py", "--dry-run").err
    done = cluster.type("submit", "./train.py", "--dry-run", "-v")
    assert "not partition debug: walltime 00:10:00 requested; allowed: at most 00:05:00" in done.err


def test_refusals_as_json_carry_what_to_type_instead(limited: Desk) -> None:
    done = limited.type("submit", "./train.py", "--nodes", "4", "--json")
    assert done.json == {
        "schema_version": 1,
        "document": "error",
        "error": "Refused",
        "exit_code": 1,
        "faults": [
            {
                "what": "4 nodes requested",
                "where": "Slurm's partition batch",
                "allowed": "at most 3 nodes",
                "next": "--nodes 3 --partition batch would be accepted",
            }
        ],
    }
    assert not Path(limited.project / "runs").exists()


def test_a_run_that_can_restart_becomes_a_chain_where_slurm_allows_less_than_the_site_file(limited: Desk) -> None:
    """The site file has no limit for batch; Slurm allows a day now. A dry run asks no program."""
    done = limited.type("submit", "./train.py", "--walltime", "3-00:00:00", "--restarts", "5")
    assert done.code == 0, done.err
    assert "the scheduler allows 1-00:00:00 per job now" in done.err
    assert "a chain of up to 3 jobs of 1-00:00:00" in done.err
    assert "#SBATCH --time=1-00:00:00\n" in (limited.spool / "script").read_text()
    dry = limited.type("submit", "./train.py", "--walltime", "3-00:00:00", "--restarts", "5", "--dry-run")
    assert "#SBATCH --time=3-00:00:00\n" in dry.out


def test_a_controller_that_is_down_is_reported_with_the_verb_that_works(limited: Desk) -> None:
    limited.fake("scontrol", out="Slurmctld(primary) at login1 is DOWN\n", code=1)
    done = limited.type("submit", "./train.py", "--restarts", "2", "--walltime", "3-00:00:00")
    (run,) = (limited.project / "runs").iterdir()
    assert done.code == 1
    assert "Slurm's controller is down (login1)" in done.err
    assert f"hpclaunch retry {run.name}" in done.err
    assert limited.given("scontrol") == ["ping"]  # nothing that would wait for the controller
    assert not (limited.spool / "sbatch.args").exists()
    limited.fake("scontrol", out=PARTITIONS)
    retried = limited.type("retry", run.name)  # the walltime could not be looked at before
    assert (retried.code, f"hpclaunch resume {run.name} --walltime 1-00:00:00" in retried.err) == (1, True)
    assert limited.type("resume", run.name, "--walltime", "1-00:00:00").code == 0
    assert "#SBATCH --time=1-00:00:00\n" in (limited.spool / "script").read_text()


NEW = PARTITIONS + f"PartitionName=new Default=NO MaxNodes=2 MaxTime=01:00:00 MinNodes=0 TotalNodes=3 {TAIL}\n"
COUNTING = """#!/bin/bash
printf '%s\\n' "$*" >> {spool}/scontrol.calls
case "$*" in *partition*) cat {spool}/partitions ;; esac
"""


@pytest.fixture
def counting(limited: Desk) -> Desk:
    """The same, with a partition that the site file does not know; it keeps what scontrol is asked."""
    (limited.spool / "partitions").write_text(NEW)
    limited.program("scontrol", COUNTING.format(spool=limited.spool))
    return limited


def questions(desk: Desk) -> list[str]:
    file = desk.spool / "scontrol.calls"
    return [line for line in file.read_text().splitlines() if "partition" in line] if file.exists() else []


def test_a_partition_that_only_slurm_knows_is_accepted_after_one_question(counting: Desk) -> None:
    done = counting.type("submit", "./train.py", "--partition", "new")
    assert done.code == 0, done.err
    assert "partition new is not in the site file, but Slurm has it" in done.err
    assert len(questions(counting)) == 1
    assert counting.type("render", "./train.py", "--partition", "new").code == 0


def test_a_partition_that_slurm_does_not_know_either_is_refused_once_with_the_nearest(counting: Desk) -> None:
    told = refusal(counting, "./train.py", "--partition", "nwe")
    assert told.count("has no partition") == 1 and "--accept-unverified" not in told
    assert "Slurm has no partition 'nwe'; did you mean 'new'?; allowed: batch, debug, new" in told


def test_slurm_is_asked_for_names_only_if_the_site_file_lacks_one(counting: Desk) -> None:
    assert counting.type("render", "./train.py", "--partition", "debug", "--walltime", "1").code == 0
    assert questions(counting) == []


def test_without_an_answer_an_unknown_name_needs_consent(limited: Desk) -> None:
    limited.fake("scontrol", code=1)
    told = refusal(limited, "./train.py", "--partition", "new")
    assert "the site file of slurmsite lists no partition 'new'; allowed: batch, debug" in told
    assert "or use 'new' without a check, with --accept-unverified" in told
    assert limited.type("submit", "./train.py", "--partition", "new", "--accept-unverified").code == 0
