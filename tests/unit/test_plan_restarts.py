"""How a run outlives its walltime: who says how often, the lead of the signal, chains, and the script."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from hpclaunch.render import render
from hpclaunch.settings import Settings, SiteSettings
from tests.builders import AROUND, HOUR, ROOTS, a_desk, a_job, a_site, origin_of, planned, refused

RESUMES = a_job(restarts=5)


def test_row_11_what_saves_nothing_is_not_started_again() -> None:
    spec = planned()
    assert spec.restarts.most == 0
    assert "no-requeue" in dict(spec.directives) and "signal" not in dict(spec.directives)
    assert "HPCLAUNCH_SIGNAL" not in dict(spec.environment)
    assert "again" not in render(spec, ROOTS)


def test_flag_job_and_settings_say_how_often() -> None:
    users = Settings(restarts=2, sites={"cluster": SiteSettings(restarts=3)})
    assert planned(users=users).restarts.most == 3
    assert planned(job=RESUMES, users=users).restarts.most == 5
    spec = planned(job=RESUMES, users=users, restarts=0)
    assert spec.restarts.most == 0
    assert origin_of(spec, "restarts") == ("0", "--restarts")


def test_a_run_that_resumes_is_requeued_and_asked_to_save() -> None:
    spec = planned(job=RESUMES)
    directives = dict(spec.directives)
    assert "requeue" in directives and "no-requeue" not in directives
    assert directives["signal"] == "B:USR2@120"
    assert dict(spec.environment)["HPCLAUNCH_SIGNAL"] == "USR2"
    assert 'scontrol requeue "$SLURM_JOB_ID"' in render(spec, ROOTS)


@pytest.mark.parametrize(
    ("walltime", "typed", "lead"),
    [
        (HOUR, None, 120),
        (240, None, 60),
        (3, None, 1),
        (HOUR, "TERM@300", 300),
        (400, "USR1@399", 399),
        (HOUR, "USR1", 60),
    ],
)
def test_row_09_the_usual_lead_is_at_most_a_quarter_of_the_walltime(
    walltime: int, typed: str | None, lead: int
) -> None:
    spec = planned(job=RESUMES, walltime=walltime, signal=typed)
    assert spec.restarts.lead == lead
    assert dict(spec.directives)["signal"] == f"B:{spec.restarts.signal}@{lead}"


@pytest.mark.parametrize(
    ("typed", "what"), [("USR2@3600", "at or before the beginning"), ("KILL@60", "'KILL'"), ("x", "'x'")]
)
def test_row_09_a_signal_that_could_not_help_is_refused(typed: str, what: str) -> None:
    [fault] = refused(job=RESUMES, walltime=HOUR, signal=typed)
    assert what.strip("'") in fault.what
    assert fault.where == "--signal"


def test_a_signal_among_sbatch_options_is_the_one_that_the_program_is_told() -> None:
    spec = planned(job=RESUMES, sbatch=("--signal=B:USR1@90",))
    assert (spec.restarts.signal, dict(spec.environment)["HPCLAUNCH_SIGNAL"]) == ("USR1", "USR1")
    assert dict(spec.directives)["signal"] == "B:USR1@90"


@pytest.mark.parametrize(("launcher", "passed"), [("srun", "USR2"), ("mpirun", "USR2"), ("horovodrun", "TERM")])
def test_a_launcher_gets_a_signal_that_it_passes_on(launcher: str, passed: str) -> None:
    spec = planned(job=RESUMES, launcher=launcher, nodes=1)
    assert spec.restarts.passed == passed
    assert f'kill -s {passed} "$launcher" 2> /dev/null\' TERM USR1 USR2' in render(spec, ROOTS)


@pytest.mark.parametrize(("way", "line"), [("resubmit", "sbatch --parsable"), ("none", 'say "$1. $go_on"')])
def test_a_site_says_how_a_job_goes_on(way: str, line: str) -> None:
    spec = planned(a_site(restart=way), RESUMES)
    assert "no-requeue" in dict(spec.directives)
    text = render(spec, ROOTS)
    assert line in text and "scontrol requeue" not in text


def test_work_that_is_longer_than_a_job_may_run_becomes_a_chain() -> None:
    spec = planned(job=RESUMES, walltime=240 * HOUR)
    assert (spec.walltime, spec.restarts.most) == (24 * HOUR, 9)
    assert "chain of up to 10 jobs of 1-00:00:00" in "".join(spec.warnings)
    spec = planned(job=RESUMES, walltime=2 * HOUR, partition="debug")
    assert (spec.partition, spec.walltime, spec.restarts.most) == ("debug", HOUR // 2, 5)
    assert "no partition takes" in refused(walltime=240 * HOUR)[0].what


def test_too_many_nodes_are_no_reason_for_a_chain() -> None:
    [fault] = refused(job=RESUMES, nodes=100, walltime=240 * HOUR)[:1]
    assert "100 nodes" in fault.what


def test_without_a_scheduler_nothing_starts_it_again() -> None:
    spec = planned(a_desk(), RESUMES)
    assert spec.restarts.most == 0
    assert "hpclaunch resume does" in "".join(planned(a_desk(), RESUMES, restarts=3).warnings)


def test_secrets_are_named_and_their_values_are_nowhere() -> None:
    spec = planned(a_site(secret_env=("TOKEN",)), a_job(secret_env=("WANDB_API_KEY", "TOKEN")), launcher="mpirun")
    assert spec.secrets == ("TOKEN", "WANDB_API_KEY")
    text = render(spec, ROOTS)
    assert "\nsecret TOKEN\nsecret WANDB_API_KEY\n" in text
    assert "-x WANDB_API_KEY" in text
    assert text.index("secret TOKEN") < text.index("# --- launch")


def test_a_secrets_file_is_looked_for_where_the_submitting_shell_has_it() -> None:
    spec = planned(job=a_job(secret_env=("TOKEN",)), surroundings=replace(AROUND, user_folder="/home/ada's/hpclaunch"))
    assert spec.secrets_folder == "/home/ada's/hpclaunch/secrets"
    text = render(spec, ROOTS)
    assert f'local file={shlex.quote(spec.secrets_folder)}"/$1" mode\n' in text
    assert "XDG_CONFIG_HOME" not in text
    assert planned().secrets_folder == ""
