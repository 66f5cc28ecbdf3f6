from __future__ import annotations

from pathlib import Path

import pytest

from hpclaunch.config.catalog import Catalog
from hpclaunch.config.settings import Settings, load_settings, shell_choices
from hpclaunch.core.errors import InvalidFile
from hpclaunch.core.scheduler_rows import SCHEDULERS


def test_an_absent_file_is_an_empty_one(tmp_path: Path) -> None:
    assert load_settings(Catalog(user=tmp_path / "user", project=tmp_path / "project")) == Settings()


def test_a_value_for_one_site_wins_over_the_one_for_all(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("site: here\naccount: all\nqos: low\nsites: {there: {account: special}}\n")
    settings = load_settings(Catalog(user=tmp_path, project=tmp_path))
    assert settings.default_site() == ("settings", "here")
    assert settings.offer("account", "there") == ("settings", "special")
    assert settings.offer("account", "here") == ("settings", "all")
    assert settings.offer("qos", "there") == ("settings", "low")
    assert settings.offer("partition", "there") == ("settings", None)


@pytest.fixture
def both(tmp_path: Path) -> Settings:
    """A user's settings and, over them, a project's."""
    user, project = tmp_path / "user", tmp_path / "project"
    user.mkdir()
    project.mkdir()
    (user / "settings.yaml").write_text("""
site: here
account: mine
mail: {to: ada@example.org}
sbatch: [--user]
remove: [--a]
environment: {modules: [m], venv: /v, setup: [one], variables: {A: user, B: user}}
sites: {here: {qos: special, sbatch: [--user-here]}}
""")
    (project / "hpclaunch.yaml").write_text("""
account: the-projects
sbatch: [--project]
remove: [--b]
environment: {setup: [two], variables: {B: project}}
sites: {there: {walltime: 2h}}
""")
    return load_settings(Catalog(user=user, project=project))


def test_the_projects_settings_win_over_the_users(both: Settings) -> None:
    assert both.default_site() == ("settings", "here")
    assert both.offer("account", "here") == ("project hpclaunch.yaml", "the-projects")
    assert both.offer("qos", "here") == ("settings", "special")
    assert both.offer("walltime", "there") == ("project hpclaunch.yaml", 7200)
    assert both.offer("mail", "here")[1].events == ("END", "FAIL")
    assert both.named_sites() == [("project hpclaunch.yaml", "there"), ("settings", "here")]


def test_lists_of_all_levels_follow_each_other_weakest_first(both: Settings) -> None:
    assert both.all("sbatch", "here") == ("--user", "--user-here", "--project")
    assert both.all("sbatch", "there") == ("--user", "--project")
    assert both.all("remove", "here") == ("--a", "--b")


def test_environments_of_all_levels_are_one(both: Settings) -> None:
    whole = both.environment_at("here")
    assert (whole.modules, whole.venv, whole.setup) == (("m",), "/v", ("one", "two"))
    assert whole.variables == {"A": "user", "B": "project"}


def test_every_fault_of_the_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("acount: x\nsites: {there: {qso: low}}\n")
    with pytest.raises(InvalidFile) as caught:
        load_settings(Catalog(user=tmp_path, project=tmp_path))
    text = str(caught.value)
    assert "settings.yaml: acount: unknown key; did you mean 'account'?" in text
    assert "settings.yaml: sites.there.qso: unknown key; did you mean 'qos'?" in text


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, {}),
        ({"SBATCH_ACCOUNT": "a"}, {"account": ("SBATCH_ACCOUNT", "a")}),
        (
            {"SBATCH_PARTITION": "p", "SBATCH_QOS": "q"},
            {"partition": ("SBATCH_PARTITION", "p"), "qos": ("SBATCH_QOS", "q")},
        ),
        ({"SBATCH_ACCOUNT": ""}, {}),
        ({"SBATCH_ACCOUNT": "a", "SLURM_JOB_ID": "7"}, {}),
    ],
)
def test_row_01_sbatch_variables_count_outside_a_job_only(
    environment: dict[str, str], found: dict[str, tuple[str, str]]
) -> None:
    assert shell_choices(SCHEDULERS["slurm"], environment) == found
    assert shell_choices(SCHEDULERS["local"], environment) == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("mail: {to: a@b, events: [DONE]}\n", "mail.events.0: 'DONE' is not allowed"),
        ("mail: {to: a@b, events: []}\n", "mail.events: has too few members"),
        ("mail: {events: [END]}\n", "mail.to: this key is required, but missing"),
        ('mail: {to: "a@b\\n#SBATCH --nodes=99"}\n', "mail.to: "),
        ("launcher: mprun\n", "launcher: 'mprun' is not allowed; did you mean 'mpirun'?"),
        ("walltime: soon\n", "walltime: 'soon' is not a length of time"),
        ("sbatch: --comment=x\n", "sbatch: '--comment=x' is not a list"),
        ('remove: ["a\\nb"]\n', "remove.0: "),
        ("weaker: {account: x}\n", "weaker: hpclaunch itself sets this key"),
        ("origin: x\n", "origin: hpclaunch itself sets this key"),
    ],
)
@pytest.mark.parametrize("file", ["settings.yaml", "hpclaunch.yaml"])
def test_what_settings_may_not_say_is_told_with_file_and_key(
    tmp_path: Path, file: str, content: str, message: str
) -> None:
    (tmp_path / file).write_text(content)
    with pytest.raises(InvalidFile) as caught:
        load_settings(Catalog(user=tmp_path, project=tmp_path))
    assert f"{tmp_path / file}: {message}" in str(caught.value)


def test_the_projects_value_for_all_sites_wins_over_the_users_for_one(tmp_path: Path) -> None:
    user, project = tmp_path / "user", tmp_path / "project"
    for folder, content in ((user, "sites: {here: {qos: a}}\n"), (project, "qos: b\n")):
        folder.mkdir()
        (folder / ("settings.yaml" if folder == user else "hpclaunch.yaml")).write_text(content)
    settings = load_settings(Catalog(user=user, project=project))
    assert settings.offer("qos", "here") == ("project hpclaunch.yaml", "b")
    assert [origin for origin, _ in settings.levels("here")] == ["project hpclaunch.yaml"] * 2 + ["settings"] * 2


def test_only_a_projects_file_is_read_in_the_project(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project/settings.yaml").write_text("account: x\n")
    assert load_settings(Catalog(user=tmp_path / "user", project=tmp_path / "project")) == Settings()


@pytest.mark.parametrize("name", ["settings.yaml", "hpclaunch.yaml"])
def test_settings_that_cannot_be_read_are_an_error_and_not_none(tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to("nowhere")
    with pytest.raises(InvalidFile, match=f"{name}: is a link to nowhere, which does not exist"):
        load_settings(Catalog(user=tmp_path, project=tmp_path))
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    with pytest.raises(InvalidFile, match=f"{name}: cannot be read: is a folder"):
        load_settings(Catalog(user=tmp_path, project=tmp_path))
