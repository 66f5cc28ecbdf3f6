from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.actions.preparing import preflight
from hpclaunch.actions.preparing.preflight import check_resolved, found_layout, missing, missing_here
from hpclaunch.actions.preparing.submit import prepare
from hpclaunch.actions.system import System
from hpclaunch.config.data_sets import DataSet
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.spec import JobSpec, Request
from hpclaunch.core.spec_parts import DataNeed
from hpclaunch.schedulers import Objections
from tests.builders import a_desk, a_job, planned

DATA = DataSet(name="cifar10", layouts=("train", "cifar10.npz"))


@pytest.fixture
def alone() -> JobSpec:
    """A run that needs nothing but its data."""
    return planned(a_desk(), a_job(data=DATA))


@pytest.mark.parametrize("layout", ["train", "cifar10/train", "cifar10.npz", "cifar10/cifar10.npz"])
def test_a_layout_is_found_in_the_folder_or_in_its_folder_of_that_name(
    tmp_path: Path, alone: JobSpec, layout: str
) -> None:
    (tmp_path / layout).mkdir(parents=True)
    need = DataNeed(name="cifar10", folder=str(tmp_path), layouts=DATA.layouts, origin="--data-dir")
    assert found_layout(need) == tmp_path / layout
    assert missing_here(replace(alone, data=need), {}) == []


def test_a_star_in_a_layout_stands_for_any_part_of_a_name(tmp_path: Path, alone: JobSpec) -> None:
    need = DataNeed(
        name="imagenet", folder=str(tmp_path / "a [1]"), layouts=("x?", "train-*-of-*"), origin="--data-dir"
    )
    place = tmp_path / "a [1]" / "imagenet"
    place.mkdir(parents=True)
    (place / "xy").touch()
    (place / "validation-00000-of-00128").touch()
    assert found_layout(need) is None
    (place / "train-00007-of-00256").touch()
    assert found_layout(need) == place / "train-00007-of-00256"
    assert found_layout(replace(need, layouts=("/nowhere*", "[t]*"))) is None


def test_missing_data_says_where_it_looked_who_said_so_and_how_to_get_it(tmp_path: Path, alone: JobSpec) -> None:
    need = DataNeed(name="cifar10", folder=str(tmp_path), layouts=DATA.layouts, origin="settings")
    (fault,) = missing_here(replace(alone, data=need), {})
    assert fault.where == f"{tmp_path} (from settings)"
    assert fault.allowed == "train, cifar10.npz, in this folder or in its sub-folder cifar10"
    assert "hpclaunch data fetch train" in fault.next and "--synthetic" in fault.next


def test_no_data_folder_at_all(alone: JobSpec) -> None:
    (fault,) = missing_here(alone, {})
    assert fault.next.startswith("hpclaunch data fetch train --from PATH, or --data-dir")  # the job has no address
    assert fault.what == "no data folder is known for cifar10 at desk"


def test_no_sbatch_on_this_machine(tmp_path: Path) -> None:
    (fault,) = missing_here(planned(), {"PATH": str(tmp_path)})
    assert "there is no sbatch on this machine" in fault.what
    assert "--dry-run" in fault.next


def test_all_that_is_missing_is_told_at_once(tmp_path: Path) -> None:
    data, sbatch = missing_here(planned(job=a_job(data=DATA)), {"PATH": str(tmp_path)})
    assert data.what == "no data folder is known for cifar10 at cluster"
    assert sbatch.what.startswith("there is no sbatch on this machine")


def test_a_slurm_sites_own_programs_are_not_looked_for_here(tmp_path: Path) -> None:
    (tmp_path / "sbatch").symlink_to(sys.executable)
    assert (
        missing_here(planned(launcher="mpirun"), {"PATH": str(tmp_path)}) == []
    )  # mpirun may come with a module on the node


def test_no_launcher_on_this_machine(tmp_path: Path) -> None:
    spec = planned(a_desk(), tasks_per_node=2)
    (fault,) = missing_here(replace(spec, interpreter=str(tmp_path / "python")), {"PATH": str(tmp_path)})
    assert fault.what == "the launcher horovodrun is not on this machine"
    assert "hpclaunch docs installing" in fault.next


def test_a_launcher_beside_the_jobs_python_is_found(tmp_path: Path) -> None:
    (tmp_path / "horovodrun").symlink_to(sys.executable)
    spec = planned(a_desk(), tasks_per_node=2)
    assert missing_here(replace(spec, interpreter=str(tmp_path / "python")), {"PATH": "/nonexistent"}) == []


def test_a_secret_is_looked_for_in_the_environment_that_the_system_supplies() -> None:
    spec = planned(a_desk(), a_job(secret_env=("API_KEY",)))
    assert [fault.where for fault in missing_here(spec, {})] == ["secret_env API_KEY"]
    assert missing_here(spec, {"API_KEY": "x"}) == []


def test_what_is_missing_here_never_hides_or_joins_the_faults_of_a_script(system: System, tmp_path: Path) -> None:
    system = replace(system, environment={**system.environment, "PATH": str(tmp_path)})
    asked = Request(target="cifar", site="perlmutter", account="m1234_g")
    prepared = prepare(system, replace(asked, nodes=4))
    assert [fault.subject for fault in missing(prepared)][-1] == "scheduler"
    check_resolved(prepared)
    refused = prepare(system, replace(asked, nodes=100_000))
    with pytest.raises(Refused) as caught:
        check_resolved(refused)
    assert tuple(caught.value.faults) == refused.faults != ()
    assert missing(refused) == missing(prepared)


@pytest.mark.parametrize(("walltime", "is_compared"), [(72 * 3600, False), (24 * 3600, True)])
def test_a_request_that_the_site_file_placed_nowhere_is_not_compared_with_slurms_default_partition(
    system: System, monkeypatch: pytest.MonkeyPatch, walltime: int, is_compared: bool
) -> None:
    of_account = Fault(where="accounting", what="you have no account 'p'")
    of_default = Fault(where="partition cpu", what="72:00:00 requested")
    found = Objections(faults=(of_account, of_default), anywhere=(of_account,))
    monkeypatch.setattr(preflight, "misplaced", lambda case, spec: [])
    monkeypatch.setattr(preflight, "_objections", lambda spec: found)
    asked = Request(target="cifar", site="vega", account="p", nodes=1, walltime=walltime, restarts=0)
    with pytest.raises(Refused) as refused:  # there are no data and no sbatch here, either
        preflight.check(prepare(system, asked))
    assert of_account in refused.value.faults
    assert (of_default in refused.value.faults) is is_compared
