"""Which clusters are asked about which jobs: each once, and only those that can be reached from this machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.runs import UNKNOWN_CLUSTER, JobPlace, Jobs
from hpclaunch.schedulers import ClusterIdentity
from hpclaunch.schedulers.slurm import addresses
from hpclaunch.schedulers.slurm.programs import asking, undirected, with_address
from tests.builders import a_run


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A login node of the cluster ``lab``, whose shell names no other."""
    monkeypatch.setattr(addresses, "cluster", lambda: ClusterIdentity(name="lab"))
    for name in ("SLURM_CLUSTERS", "SBATCH_CLUSTERS"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    ("place", "address"),
    [
        (JobPlace("", ""), ""),
        (JobPlace("lab", ""), ""),
        (JobPlace("lab", "other"), ""),  # sent from there to here
        (JobPlace("other", "lab"), "other"),
        (JobPlace("other", UNKNOWN_CLUSTER), "other"),
        (JobPlace("other,third", "lab"), "other,third"),  # not yet known which one has it
        (JobPlace("other", ""), None),  # it was submitted on a machine of the other cluster
        (JobPlace("other", "third"), None),
    ],
)
def test_a_cluster_is_reached_if_a_job_was_sent_there_from_here(
    here: pytest.MonkeyPatch, place: JobPlace, address: str | None
) -> None:
    assert addresses.address_of(place) == address


def test_another_job_that_was_sent_there_shows_that_it_is_reached(here: pytest.MonkeyPatch) -> None:
    assert addresses.address_of(JobPlace("other", ""), [JobPlace("other", "lab")]) == "other"
    assert addresses.address_of(JobPlace("other", ""), [JobPlace("third", "lab"), JobPlace("other", "third")]) is None


@pytest.mark.parametrize("variable", ["SLURM_CLUSTERS", "SBATCH_CLUSTERS"])
def test_so_does_a_variable_of_the_shell(here: pytest.MonkeyPatch, variable: str) -> None:
    here.setenv(variable, "third,Other")
    assert addresses.address_of(JobPlace("other", "")) == "other"
    assert addresses.address_of(JobPlace("fourth", "")) is None


def test_without_the_name_of_the_own_cluster_only_what_was_sent_has_an_address(here: pytest.MonkeyPatch) -> None:
    here.setattr(addresses, "cluster", ClusterIdentity)
    assert addresses.address_of(JobPlace("other", "")) == ""
    assert addresses.address_of(JobPlace("other", "lab")) == "other"


def test_every_cluster_is_asked_once_and_the_own_one_also_about_jobs_without_a_cluster(
    here: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    places = {"1": ("", ""), "2": ("lab", ""), "3": ("other", "lab"), "4": ("other", ""), "5": ("third", "")}
    runs = [replace(a_run(tmp_path, job_id), cluster=name, via=via) for job_id, (name, via) in places.items()]
    asked = {address: sorted(job.job_id for job in jobs) for address, jobs in addresses.jobs_by_address(Jobs(runs))}
    assert asked == {"": ["1", "2"], "other": ["3", "4"]}


def test_who_uses_one_cluster_gets_all_jobs_at_one_address(here: pytest.MonkeyPatch, tmp_path: Path) -> None:
    jobs = Jobs([replace(a_run(tmp_path, "1"), cluster="lab"), replace(a_run(tmp_path, "2"), cluster="lab")])
    assert list(addresses.jobs_by_address(jobs)) == [("", jobs)]


def test_programs_get_the_address_of_the_moment_and_never_that_of_the_shell() -> None:
    assert with_address(["squeue", "--noheader"]) == ["squeue", "--noheader"]
    with asking("other"):
        assert with_address(["squeue", "--noheader"]) == ["squeue", "--clusters=other", "--noheader"]
        assert with_address(["sacctmgr", "show", "qos"]) == ["sacctmgr", "show", "qos"]  # it asks the database
        with asking(""):
            assert with_address(["squeue"]) == ["squeue"]
    assert undirected({"SLURM_CLUSTERS": "a", "SBATCH_CLUSTERS": "b", "SLURM_CONF": "c"}) == {"SLURM_CONF": "c"}
