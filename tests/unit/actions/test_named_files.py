"""``sites check`` looks for the folders and files of a site file; what it cannot see is not known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.actions.clusters.named_files import file_findings
from hpclaunch.config.fileformat import Environment
from hpclaunch.config.site import EnvironmentRecipe, Folders, Site
from tests.builders import a_context, a_site


def verdicts(site: Site, **variables: str) -> dict[str, tuple[str, str]]:
    found = file_findings(site, a_context(environment=variables))
    return {one.key: (one.verdict, one.what) for one in found}


def test_folders_that_hpclaunch_makes_need_a_place_where_it_can(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folders = Folders(runs="$SCRATCH/a/runs", data=str(tmp_path), environments=f"{tmp_path}/file/x")
    found = verdicts(a_site(folders=folders), SCRATCH=str(tmp_path))
    assert found["folders.runs"] == ("agrees", "")
    assert found["folders.data"] == ("agrees", "")
    what = f"{tmp_path}/file/x does not exist, and you cannot make it in {tmp_path}/file"
    assert found["folders.environments"] == ("differs", what)


def test_images_environments_and_sourced_files_must_exist(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("")
    environment = Environment(
        container=f"{tmp_path}/there",
        setup=(
            f"source {tmp_path}/gone.sh",
            'source "$(find /)"',
            "export X=/nowhere",
            f"cd / && . '{tmp_path}/there'",
        ),
    )
    site = a_site(
        environment=environment,
        frameworks={"jax": Environment(container="docker://image"), "pytorch": Environment(venv=f"{tmp_path}/venv")},
        recipes={"jax": EnvironmentRecipe(kind="container", image="/nowhere/jax.sif")},
    )
    found = file_findings(site, a_context())
    assert [(one.key, one.verdict) for one in found] == [
        ("environment.container", "agrees"),
        ("environment.setup", "differs"),
        ("environment.setup", "agrees"),
        ("frameworks.pytorch.venv", "differs"),
        ("recipes.jax.image", "differs"),
    ]
    assert found[1].what == f"{tmp_path}/gone.sh does not exist"


def test_a_variable_that_is_not_set_here_leaves_its_place_unknown() -> None:
    site = replace(a_site(), folders=Folders(runs="$PROJECT_x/runs"))
    assert verdicts(site) == {"folders.runs": ("not asked", "$PROJECT_x is not set in this shell")}


@pytest.mark.parametrize("place", ["/x\0y", "/" + "a" * 5000])
def test_a_name_that_no_file_can_have_is_not_known(place: str) -> None:
    site = replace(a_site(), environment=Environment(container=place))
    assert verdicts(site)["environment.container"][0] == "not asked"
