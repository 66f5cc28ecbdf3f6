from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.config.catalog import JOB, SITE, Catalog, Found, bundled
from hpclaunch.config.job import load_job
from hpclaunch.config.site import load_site
from hpclaunch.core.errors import InvalidFile, NotFound, did_you_mean
from hpclaunch.core.folders import user_folder


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(project=tmp_path / "project", user=tmp_path / "user")


def put(root: Path, text: str) -> Path:
    path = root / text
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    return path


def test_the_project_wins_over_the_user_and_the_user_over_what_is_bundled(catalog: Catalog) -> None:
    def found() -> Found:
        return replace(catalog, _known_roots={}, _known_files={}).find(SITE, "local")

    assert found().origin == "bundled"
    user = put(catalog.user, "site_configs/local.yaml")
    assert (found().path, found().origin) == (user, "user")
    project = put(catalog.project, "site_configs/local.yaml")
    assert (found().path, found().origin) == (project, "project")


def test_what_a_command_has_found_stays_the_same_until_it_ends(catalog: Catalog) -> None:
    user = put(catalog.user, "site_configs/local.yaml")
    assert catalog.find(SITE, "local").path == user
    put(catalog.project, "site_configs/local.yaml")
    assert catalog.find(SITE, "local").path == user


def test_a_job_is_a_folder_with_a_job_file(catalog: Catalog) -> None:
    put(catalog.project, "jobs/mine/job.yaml")
    put(catalog.project, "jobs/no-job-file/train.py")
    names = {found.name: found.origin for found in catalog.names(JOB)}
    assert names["mine"] == "project"
    assert names["cifar"] == "bundled"
    assert "no-job-file" not in names


def test_names_lists_the_winner_only(catalog: Catalog) -> None:
    put(catalog.user, "site_configs/local.yaml")
    assert [found.origin for found in catalog.names(SITE) if found.name == "local"] == ["user"]


def test_a_project_that_is_the_checkout_counts_as_bundled(tmp_path: Path) -> None:
    here = Catalog(project=bundled("jobs").parent, user=tmp_path)
    assert here.find(JOB, "cifar").origin == "bundled"


def test_an_unknown_name_brings_the_nearest_and_all_known_ones(catalog: Catalog) -> None:
    with pytest.raises(NotFound) as caught:
        catalog.find(SITE, "perlmuter")
    (fault,) = caught.value.faults
    assert "no site is called 'perlmuter'; did you mean 'perlmutter'?" in str(fault)
    assert "local" in fault.allowed
    assert fault.next == "hpclaunch sites list"


@pytest.mark.parametrize("name", ["", ".", "..", "../local", "a/b", "-x", "a b", "local\n", "x" * 65, "ä"])
def test_a_name_never_leaves_its_folder(catalog: Catalog, name: str) -> None:
    with pytest.raises(NotFound):
        catalog.find(SITE, name)


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"HOME": "/home/ada"}, "/home/ada/.config/hpclaunch"),
        ({"HOME": "/home/ada", "XDG_CONFIG_HOME": "/etc/xdg"}, "/etc/xdg/hpclaunch"),
        ({"HOME": "/home/ada", "XDG_CONFIG_HOME": ""}, "/home/ada/.config/hpclaunch"),
    ],
)
def test_the_users_folder_is_where_xdg_says(environment: dict[str, str], folder: str) -> None:
    assert user_folder(environment) == Path(folder)


@pytest.mark.parametrize(("typed", "answer"), [("DEBUG", "; did you mean 'debug'?"), ("xyz", "")])
def test_did_you_mean(typed: str, answer: str) -> None:
    assert did_you_mean(typed, ["batch", "debug"]) == answer


def test_a_file_that_cannot_be_read_is_not_a_missing_one(catalog: Catalog) -> None:
    """Whoever reads it tells why; that no site has this name would be wrong."""
    folder = catalog.project / "site_configs"
    (folder / "folder.yaml").mkdir(parents=True)
    (folder / "loop.yaml").symlink_to("loop.yaml")
    (folder / "dangling.yaml").symlink_to("nowhere.yaml")
    put(catalog.project, "site_configs/latin.yaml").write_bytes(b"title: \xe9\n")
    put(catalog.project, "site_configs/notes.txt")
    told = {
        "folder": "folder.yaml: cannot be read: is a folder",
        "loop": "loop.yaml: cannot be read: Too many levels of symbolic links",
        "dangling": "dangling.yaml: is a link to nowhere.yaml, which does not exist",
        "latin": "latin.yaml: is not UTF-8 text",
    }
    assert {found.name for found in catalog.names(SITE) if found.origin == "project"} == set(told)
    for name, what in told.items():
        with pytest.raises(InvalidFile) as caught:
            load_site(catalog, name)
        assert str(caught.value) == f"{folder}/{what}"


def test_a_jobs_file_that_cannot_be_read_is_not_a_missing_one(catalog: Catalog) -> None:
    (catalog.project / "jobs/folder/job.yaml").mkdir(parents=True)
    (catalog.project / "jobs/dangling").mkdir()
    (catalog.project / "jobs/dangling/job.yaml").symlink_to("nowhere.yaml")
    put(catalog.project, "jobs/README")
    names = [found.name for found in catalog.names(JOB) if found.origin == "project"]
    assert names == ["dangling", "folder"]
    for name in names:
        with pytest.raises(InvalidFile, match=f"jobs/{name}/job.yaml: "):
            load_job(catalog, name, catalog.project)
