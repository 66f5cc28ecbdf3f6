from __future__ import annotations

import re
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.config.catalog import SITE, Catalog
from hpclaunch.config.documents import read_yaml
from hpclaunch.config.provenance import useless, values
from hpclaunch.config.site import Source, load_site
from hpclaunch.core.errors import InvalidFile
from hpclaunch.core.scheduler_rows import SCHEDULERS
from hpclaunch.launchers import LAUNCHERS
from tests.builders import BUNDLED, a_site, bundled_site

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
    assert site.scheduler in SCHEDULERS
    assert site.launchers is None or set(site.launchers.options) <= set(LAUNCHERS)


@pytest.mark.parametrize("name", SITES)
def test_every_value_has_its_source_and_every_source_its_date(name: str) -> None:
    site, content = bundled_site(name), read_yaml(BUNDLED.find(SITE, name).path)
    assert [value.key for value in values(site, content) if not value.sources] == []
    assert useless(site, content) == []
    cited = {source for value in values(site, content) for source in value.sources}
    assert set(site.sources) <= cited, "a source that nothing is from"
    assert all(re.fullmatch(r"undated|\d{4}(-\d\d){0,2}", source.read) for source in site.sources.values())


@pytest.mark.parametrize("name", SITES)
def test_what_is_not_verified_is_not_shipped(name: str) -> None:
    site, content = bundled_site(name), read_yaml(BUNDLED.find(SITE, name).path)
    shipped = [value.key for value in values(site, content)]
    for left_out in site.unverified:
        assert not [key for key in shipped if key == left_out or key.startswith(f"{left_out}.")]


def test_the_longest_key_that_leads_to_a_value_says_where_it_is_from() -> None:
    content = {"title": "t", "qos": {"a": {"max_nodes": 3, "note": "n"}, "ab": {"note": "m"}}}
    site = replace(
        a_site(),
        origins={"qos": ("x",), "qos.a.max_nodes": ("y", "z"), "title": ("hpclaunch",), "gone": ("x",)},
        sources={
            "x": Source(ref="x", read="2026"),
            "y": Source(ref="y", read="2026"),
            "z": Source(ref="z", read="2026"),
        },
        third_party=("qos.a",),
        derived={"qos.ab.note": "from a"},
    )
    found = {value.key: (value.sources, value.mark, value.how) for value in values(site, content)}
    assert found == {
        "title": (("hpclaunch",), "", ""),
        "qos.a.max_nodes": (("y", "z"), "third-party", ""),
        "qos.a.note": (("x",), "third-party", ""),
        "qos.ab.note": (("x",), "derived", "from a"),
    }
    assert useless(site, content) == ["gone"]


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
        ("options: {srun: {}}", "options: {srun: {}, ibrum: {}}", "'ibrum' is not allowed; did you mean 'ibrun'?"),
        ("scheduler: slurm", "scheduler: slurn", "scheduler: 'slurn' is not allowed; did you mean 'slurm'?"),
        ("scheduler: slurm", "scheduler: pbs", "scheduler: 'pbs' is not allowed"),
        ("cores_per_node: 8", "cores_per_node: 0", "node_types.gpu.cores_per_node: 0 is too small"),
        ("cores_per_node: 8", "cores_per_node: 8, gpus_per_node: -1", "node_types.gpu.gpus_per_node: -1 is too small"),
        ("title: mine", "titel: mine", "titel: unknown key; did you mean 'title'?"),
        ("title: mine", "title: mine\nname: x", "name: hpclaunch itself sets this key"),
        ("title: mine", "title: mine\npartitions: {a: {node_types: [x]}}", "partitions.a.node_types names 'x'"),
        ("title: mine", "title: mine\nqos: {a: {by_node_type: {x: {max_nodes: 1}}}}", "qos.a.by_node_type names 'x'"),
        ("title: mine", "title: mine\nqos: {a: {preemption: {}}}", "give 'safe', 'grace' or both"),
        ("title: mine", "title: mine\norigins: {title: [x]}", "origins.title names 'x', which is not among hpclaunch"),
        ("title: mine", 'title: mine\ndetect: {hostname: "a("}', "detect.hostname: is not a pattern for host names"),
        ("title: mine", 'title: mine\nsbatch: ["--a\\n#SBATCH --b"]', "sbatch.0: "),
        ("title: mine", 'title: mine\npartitions: {"a\\ntouch x": {}}', "is not allowed here"),
        ("title: mine", 'title: mine\nqos: {"a\\ntouch x": {}}', "is not allowed here"),
        ("{title: one,", '{title: one, whole_node: {variables: {A: "1\\nEND_OF_RANK"}},', "is not allowed here"),
        ("gpu: {", '"g\\ntouch x": {title: t}\n  gpu: {', "is not allowed here"),
        ("gpu: {", "../../x: {title: t}\n  gpu: {", "allowed: letters, digits and _ . + -, a letter or digit first"),
        ("gpu: {", '"a:1,b": {title: t}\n  gpu: {', "is not allowed here"),
    ],
)
def test_a_fault_names_file_and_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = load(tmp_path, textwrap.dedent(MINIMAL).replace(old, new))
    assert "site_configs/mine.yaml" in text
    assert message in text
