"""How a run outlives its walltime: who says how often, the lead of the signal, chains, and the script."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from hpclaunch.config.settings import Settings, SiteSettings
from hpclaunch.config.site import LauncherOptions, Launchers
from hpclaunch.render import render
from tests.builders import (
    CONTEXT,
    HOUR,
    ROOTS,
    a_desk,
    a_job,
    a_site,
    origin_of,
    planned,
    refused,
)

RESUMES = a_job(restarts=5)


def test_row_11_what_saves_nothing_is_not_started_again() -> None:
    spec = planned()
    assert spec.restarts.most == 0
    assert "no-requeue" in dict(spec.directives) and "signal" not in dict(spec.directives)
    assert "HPCLAUNCH_SIGNAL" not in dict(spec.environment)
    assert "restart" not in render(spec, ROOTS)


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
    assert "\nbegin slurm restarts=5 restart_by=requeue restart_lead=120 pass_on=USR2\n" in render(spec, ROOTS)


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
    ("typed", "what"), [("USR2@3600", "the whole walltime is only"), ("KILL@60", "'KILL'"), ("x", "'x'")]
)
def test_row_09_a_signal_that_could_not_help_is_refused(typed: str, what: str) -> None:
    [fault] = refused(job=RESUMES, walltime=HOUR, signal=typed)
    assert what.strip("'") in fault.what
    assert fault.where == "--signal"


def test_a_signal_among_sbatch_options_is_the_one_that_the_program_is_told() -> None:
    spec = planned(job=RESUMES, sbatch=("--signal=B:USR1@90",))
    assert (spec.restarts.signal, dict(spec.environment)["HPCLAUNCH_SIGNAL"]) == ("USR1", "USR1")
    assert dict(spec.directives)["signal"] == "B:USR1@90"


@pytest.mark.parametrize(
    ("launcher", "nodes", "pass_on", "signal_to"),
    [
        ("srun", 1, "USR2", ""),
        ("mpirun", 1, "USR2", ""),
        ("torchrun", 1, "TERM", ""),
        ("horovodrun", 1, "USR2", "ranks"),
        ("horovodrun", 2, "TERM", ""),
    ],
)
def test_a_launcher_gets_a_signal_that_it_passes_on(launcher: str, nodes: int, pass_on: str, signal_to: str) -> None:
    options = {"srun": LauncherOptions(), "mpirun": LauncherOptions(), "horovodrun": LauncherOptions(ssh=True)}
    site = a_site(launchers=Launchers(default="srun", options=options))
    spec = planned(site, RESUMES, launcher=launcher, nodes=nodes)
    assert (spec.restarts.pass_on, spec.restarts.signal_to) == (pass_on, signal_to)
    asked = f" pass_on={pass_on}" + (f" signal_to={signal_to}" if signal_to else "")
    assert f" restart_lead=120{asked}\n" in render(spec, ROOTS)


@pytest.mark.parametrize(
    ("launcher", "nodes", "settings"),
    [
        ("srun", 2, ""),
        ("mpirun", 2, ""),
        ("torchrun", 2, " pass_on=TERM"),
        ("horovodrun", 1, " signal_to=ranks"),
        ("direct", 1, " signal_to=group"),
    ],
)
def test_row_25_signals_reach_the_ranks_of_a_run_that_never_starts_again(
    launcher: str, nodes: int, settings: str
) -> None:
    spec = planned(launcher=launcher, nodes=nodes, tasks_per_node=1)
    assert f"\nbegin slurm{settings}\n" in render(spec, ROOTS)


def test_work_that_is_longer_than_a_job_may_run_becomes_a_chain() -> None:
    spec = planned(job=RESUMES, walltime=240 * HOUR)
    assert (spec.walltime, spec.restarts.most) == (24 * HOUR, 9)
    assert "chain of up to 10 jobs of 1-00:00:00" in "".join(spec.warnings)
    spec = planned(job=RESUMES, walltime=2 * HOUR, partition="debug")
    assert (spec.partition, spec.walltime, spec.restarts.most) == ("debug", HOUR // 2, 5)
    assert "no partition accepts" in refused(walltime=240 * HOUR)[0].what


def test_too_many_nodes_are_no_reason_for_a_chain() -> None:
    [fault] = refused(job=RESUMES, nodes=100, walltime=240 * HOUR)[:1]
    assert "100 nodes" in fault.what


def test_without_a_scheduler_nothing_starts_it_again() -> None:
    spec = planned(a_desk(), RESUMES)
    assert spec.restarts.most == 0
    assert "use hpclaunch resume" in "".join(planned(a_desk(), RESUMES, restarts=3).warnings)


def test_secrets_are_named_and_their_values_are_nowhere() -> None:
    spec = planned(a_site(secret_env=("TOKEN",)), a_job(secret_env=("WANDB_API_KEY", "TOKEN")), launcher="mpirun")
    assert spec.secrets == ("TOKEN", "WANDB_API_KEY")
    text = render(spec, ROOTS)
    assert f"\nsecret {CONTEXT.user_folder}/secrets/TOKEN\nsecret {CONTEXT.user_folder}/secrets/WANDB_API_KEY\n" in text
    assert "-x WANDB_API_KEY" in " ".join(spec.launch)
    assert text.index("\nsecret ") < text.index("\nlaunch ")


def test_a_secrets_file_is_looked_for_where_the_submitting_shell_has_it() -> None:
    spec = planned(job=a_job(secret_env=("TOKEN",)), context=replace(CONTEXT, user_folder="/home/ada's/hpclaunch"))
    assert spec.secrets_folder == "/home/ada's/hpclaunch/secrets"
    text = render(spec, ROOTS)
    assert f"\nsecret {shlex.quote(spec.secrets_folder + '/TOKEN')}\n" in text
    assert "XDG_CONFIG_HOME" not in text
    assert planned().secrets_folder == ""
