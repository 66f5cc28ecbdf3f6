from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from hpclaunch.catalog import SITE, Catalog
from hpclaunch.errors import InvalidFile
from hpclaunch.launchers import LAUNCHERS
from hpclaunch.schedulers import MODULES
from hpclaunch.site import DETECTED, cluster_name, detect_site, load_site
from tests.builders import BUNDLED, bundled_site

SITES = [found.name for found in BUNDLED.names(SITE)]
MINIMAL = """
    title: mine
    scheduler: slurm
    defaults: {node_type: gpu}
    node_types:
      gpu: {title: one, cores_per_node: 8}
    launchers: {default: srun, options: {srun: {}}}
"""


def load(tmp_path: Path, text: str) -> str:
    """Load it as a project's own site; return what is wrong with it."""
    path = tmp_path / "site_configs" / "mine.yaml"
    path.parent.mkdir()
    path.write_text(textwrap.dedent(text))
    try:
        load_site(Catalog(project=tmp_path, user=tmp_path / "user"), "mine")
    except InvalidFile as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", SITES)
def test_every_bundled_site_loads_and_can_be_planned_for(name: str) -> None:
    site = bundled_site(name)
    assert site.name == name
    assert site.scheduler in MODULES
    assert set(site.launchers.options) <= set(LAUNCHERS)
    assert site.sources or site.status == "test" or site.scheduler == "local"


def test_the_detection_table_says_what_the_site_files_say() -> None:
    written = {}
    for name in SITES:
        detect = bundled_site(name).detect
        if detect:
            written[name] = (tuple(detect.environment.items()), detect.cluster_name or "")
    assert {name: (variables, cluster) for name, variables, cluster in DETECTED} == written


@pytest.mark.parametrize(
    ("environment", "cluster", "site"),
    [
        ({"NERSC_HOST": "perlmutter"}, "", "perlmutter"),
        ({"NERSC_HOST": "cori"}, "", None),
        ({}, "hpctest", "testcluster"),
        ({}, "hpctest2", None),
        ({}, "", None),
    ],
)
def test_detection(environment: dict[str, str], cluster: str, site: str | None) -> None:
    assert detect_site(environment, cluster) == site


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


def test_a_small_site_file_is_enough(tmp_path: Path) -> None:
    assert load(tmp_path, MINIMAL) == ""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("node_type: gpu", "node_type: gpx", "defaults.node_type names 'gpx', which is not among gpu"),
        ("{node_type: gpu}", "{node_type: gpu, partition: b}\npartitions: {a: {}}", "defaults.partition names 'b'"),
        ("{node_type: gpu}", "{node_type: gpu, qos: b}\nqos: {a: {}}", "defaults.qos names 'b'"),
        ("default: srun", "default: mpirun", "launchers: default 'mpirun' is not among options: srun"),
        ("default: srun", "default: srum", "launchers.default: 'srum' is not allowed; did you mean 'srun'?"),
        ("scheduler: slurm", "scheduler: pbs", "scheduler: 'pbs' is not allowed"),
        ("cores_per_node: 8", "cores_per_node: 0", "node_types.gpu.cores_per_node: 0 is too small"),
        ("cores_per_node: 8", "cores_per_node: 8, gpus_per_node: -1", "node_types.gpu.gpus_per_node: -1 is too small"),
        ("title: mine", "titel: mine", "titel: unknown key; did you mean 'title'?"),
        ("title: mine", "title: mine\nname: x", "name: this key is set by hpclaunch itself"),
        ("title: mine", "title: mine\npartitions: {a: {node_types: [x]}}", "partitions.a.node_types names 'x'"),
        ("title: mine", 'title: mine\nsbatch: ["--a\\n#SBATCH --b"]', "sbatch.0: "),
    ],
)
def test_a_fault_names_file_and_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = load(tmp_path, textwrap.dedent(MINIMAL).replace(old, new))
    assert "site_configs/mine.yaml" in text
    assert message in text
