"""``sites compare``: one look at every case, and whether a site's software has Horovod."""

from __future__ import annotations

import pytest

from hpclaunch.actions.clusters.compare_sites import compare_sites
from hpclaunch.actions.system import System
from hpclaunch.core.spec import Request
from hpclaunch.guidelines.choice import Objective
from tests.unit.actions.conftest import calls

ONCE = {
    "hpclaunch.actions.preparing.load": {"load"},
    "hpclaunch.actions.preparing.advice": {"advised"},
    "hpclaunch.planner.forecasting": {"forecast"},
    "hpclaunch.resolve": {"resolve"},
}


def test_each_case_is_loaded_planned_advised_and_resolved_once(system: System) -> None:
    sites = ("perlmutter", "lumi")
    request = Request(target="cifar", accept_unverified=True)
    with calls(ONCE) as found:
        compare_sites(system, request, sites, Objective())
    assert sorted(found) == sorted(
        [*ONCE["hpclaunch.actions.preparing.load"], "advised", "forecast", "resolve"] * len(sites)
    )


@pytest.mark.parametrize(
    ("provides", "horovod"), [("[tensorflow, horovod]", True), ("[tensorflow]", False), ("[]", None)]
)
def test_whether_horovod_is_in_the_software(system: System, provides: str, horovod: bool | None) -> None:
    folder = system.cwd / "site_configs"
    folder.mkdir()
    (folder / "lab.yaml").write_text(
        f"""
title: a lab
scheduler: slurm
defaults: {{node_type: cpu}}
node_types: {{cpu: {{title: x, nodes: 8, cores_per_node: 8}}}}
launchers: {{default: srun, options: {{srun: {{mpi: pmix}}}}}}
frameworks: {{tensorflow: {{modules: [tf/2]}}, pytorch: {{modules: [torch/2]}}}}
provides: {provides}
"""
    )
    folder.chmod(0o755)
    (found,) = compare_sites(system, Request(target="cifar", nodes=1), ("lab",), Objective())
    assert (found.software, found.horovod) == ("tf/2", horovod)
    (found,) = compare_sites(system, Request(target="ddp", nodes=1), ("lab",), Objective())
    assert (found.software, found.horovod) == ("torch/2", None)


def test_a_site_whose_charging_is_not_known_has_no_cost(system: System) -> None:
    found = compare_sites(system, Request(target="ddp", accept_unverified=True), ("vega", "perlmutter"), Objective())
    assert {one.site: one.cost is None for one in found} == {"vega": True, "perlmutter": False}
    assert all(one.seconds for one in found)
