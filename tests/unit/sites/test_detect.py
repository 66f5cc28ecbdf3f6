from __future__ import annotations

from pathlib import Path

import pytest

from hpclaunch.config.catalog import SITE
from hpclaunch.config.detection import Detect
from hpclaunch.sites.detect import DETECTED, Host, cluster_name, detect_site, holds, is_other_cluster, machine
from tests.builders import BUNDLED, bundled_site

SITES = [found.name for found in BUNDLED.names(SITE)]


def test_the_detection_table_says_what_the_site_files_say() -> None:
    assert {name: bundled_site(name).detect for name in SITES if bundled_site(name).detect} == DETECTED


@pytest.mark.parametrize(
    ("environment", "cluster", "host", "site"),
    [
        ({"NERSC_HOST": "perlmutter"}, "", "login27", "perlmutter"),
        ({"NERSC_HOST": "somewhere"}, "", "login27", None),
        ({}, "hpctest", "box", "testcluster"),
        ({}, "hpctest2", "box", None),
        ({}, "", "", None),
    ],
)
def test_detection(environment: dict[str, str], cluster: str, host: str, site: str | None) -> None:
    assert detect_site(Host(environment=environment, cluster=cluster, hostnames=(host,))) == site


def test_no_host_belongs_to_two_sites() -> None:
    hosts = ["login1", "login01", "login2.frontera.tacc.utexas.edu", "login1.ls6.tacc.utexas.edu", "daint-ln001"]
    hosts += [
        "lumi-uan01",
        "uan01",
        "login07.frontier.olcf.ornl.gov",
        "login02.leonardo.cineca.it",
        "ln01",
        "jwlogin01",
        "login2.stampede3.tacc.utexas.edu",
        "roihu-gpu-login1.csc.fi",
    ]
    for host in hosts:
        here = Host(environment={}, hostnames=(host,))
        assert len([name for name, detect in DETECTED.items() if holds(detect, here)]) <= 1, host


@pytest.mark.parametrize(
    ("detect", "there"),
    [
        (Detect(), False),
        (Detect(hostname=r"login\d+\.x\.edu"), True),
        (Detect(hostname=r"login\d+\.x"), False),
        (Detect(hostname=r"login\d+\.x\.edu", environment={"A": "1"}), False),
        (Detect(cluster_name="c", environment={"B": "2"}), True),
    ],
)
def test_all_that_is_said_must_hold(detect: Detect, there: bool) -> None:
    here = Host(environment={"B": "2"}, cluster="c", hostnames=("login1", "login1.x.edu"))
    assert holds(detect, here) is there


def test_a_short_host_name_is_looked_at_with_the_domains_that_are_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpclaunch.sites.detect._search_domains", lambda: ["x.edu", "y.edu"])
    no_slurm = {"SLURM_CONF": str(tmp_path / "none")}
    assert machine(no_slurm, "login1").hostnames == ("login1", "login1.x.edu", "login1.y.edu")
    assert machine(no_slurm, "login1.z.edu").hostnames == ("login1.z.edu",)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("ClusterName=hpctest\n", "hpctest"),
        ("# ClusterName=old\n  clustername = new # it\n", "new"),
        ("SlurmctldHost=x\n", ""),
        ("", ""),
    ],
)
def test_the_cluster_name_is_read_from_slurm_conf(tmp_path: Path, content: str, name: str) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text(content)
    assert cluster_name({"SLURM_CONF": str(conf)}) == name
    assert cluster_name({"SLURM_CONF": str(tmp_path / "missing")}) == ""


@pytest.mark.parametrize(
    ("site", "cluster", "other"),
    [
        ("perlmutter", "lab", True),
        ("perlmutter", "perlmutter", False),
        ("juwels_booster", "juwels", False),
        ("juwels_booster", "juwelsbooster", False),
        ("testcluster", "HPCTEST", False),  # Slurm's programs and slurm.conf may spell it differently
        ("testcluster", "testcluster", True),
    ],
)
def test_a_cluster_is_another_one_by_its_name(site: str, cluster: str, other: bool) -> None:
    assert is_other_cluster(bundled_site(site), cluster, own=False) is other


def test_of_a_site_file_of_ones_own_only_its_cluster_name_counts() -> None:
    assert not is_other_cluster(bundled_site("perlmutter"), "lab", own=True)
    assert is_other_cluster(bundled_site("testcluster"), "lab", own=True)
