"""``sites check`` on a login node of a real cluster: wrong values of every kind, and a file in which none is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.slurm.conftest import Cluster
from tests.slurm.desk import Desk

pytestmark = pytest.mark.timeout(300)
BUNDLED = Path(__file__).resolve().parents[2] / "site_configs" / "testcluster.yaml"
MODULES = """module() {
  case "$1" in
    load) [ "$2" = tensorflow/2.15.0 ] || return 1; export LOADEDMODULES="$LOADEDMODULES:$2" ;;
    *) printf '/opt/modulefiles:\\ntensorflow/2.15.0\\n' >&2 ;;
  esac
}
"""
RIGHT = (
    ("environment:\n", "environment:\n  modules: [tensorflow/2.15.0]\n"),
    ("gpus: {", "qos: {normal: {}}\ngpus: {"),
    ("folders:\n", "folders:\n  runs: {folder}/runs\n"),
)
"""What the bundled file does not name, and the cluster has."""
WRONG = (
    (
        'debug: {max_nodes: 4, max_walltime: "00:30:00"}',
        'debug: {max_nodes: 4, max_walltime: "12:00:00"} # of last year',
    ),
    ("gpus_per_node: 4", "gpus_per_node: 8"),
    ("  preempt: {", "  gone: {max_nodes: 1}\n  preempt: {"),
    ("qos: {normal: {}}", "qos: {normal: {}, overrun: {}}"),
    ("tensorflow/2.15.0", "tensorflow/2.9.0"),
    ("{folder}/runs", "/dev/null/runs"),
)


def keep(desk: Desk, *changes: tuple[str, str]) -> Path:
    """Write the user's own file of the test cluster."""
    text = BUNDLED.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = desk.folder / "home/config/hpclaunch/site_configs/testcluster.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace("{folder}", str(desk.folder)))
    path.chmod(0o600)
    return path


def checked(desk: Desk, *words: str) -> tuple[int, Any]:
    home = desk.folder / "modules"
    (home / "init").mkdir(parents=True, exist_ok=True)
    (home / "init" / "bash").write_text(MODULES)
    done = desk.run("sites", "check", "testcluster", "--json", *words, env=desk.shell(MODULESHOME=str(home)))
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_the_bundled_file_of_the_cluster_has_no_difference(desk: Desk) -> None:
    done = desk.run("sites", "check")
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_a_file_in_which_nothing_is_wrong_has_no_difference(desk: Desk, cluster: Cluster) -> None:
    if not cluster.accounting:
        pytest.skip("group accounting: this cluster has none, and so no QOS")
    keep(desk, *RIGHT)
    code, found = checked(desk)
    assert (code, found["patch"]) == (0, ""), found
    agreed = {one["key"] for one in found["values"] if one["verdict"] == "agrees"}
    assert {"environment.modules", "folders.runs", "qos.normal", "node_types.gpu.gpus_per_node"} <= agreed


def test_every_wrong_value_is_found_and_what_slurm_knows_is_corrected(desk: Desk, cluster: Cluster) -> None:
    if not cluster.accounting:
        pytest.skip("group accounting: this cluster has none, and so no QOS")
    path = keep(desk, *RIGHT, *WRONG)
    code, found = checked(desk, "--write")
    assert code == 1
    assert {one["key"]: (one["file"], one["now"], one["corrected"]) for one in different(found)} == {
        "partitions.debug.max_walltime": ("12:00:00", "00:30:00", True),
        "partitions.gone": ({"max_nodes": 1}, None, True),
        "qos.overrun": ({}, None, True),
        "node_types.gpu.gpus_per_node": (8, 4, True),
        "environment.modules": (["tensorflow/2.9.0"], None, False),
        "folders.runs": ("/dev/null/runs", None, False),
    }
    text = path.read_text()
    assert 'debug: {max_nodes: 4, max_walltime: "00:30:00"} # of last year' in text
    assert "# The real Slurm cluster that" in text and "gone" not in text and "overrun" not in text
    assert list(yaml.safe_load(text)["partitions"]) == ["batch", "debug", "preempt"]
    code, again = checked(desk)
    assert code == 1
    assert [one["key"] for one in different(again)] == ["environment.modules", "folders.runs"]


def different(found: Any) -> list[dict[str, Any]]:
    return [one for one in found["values"] if one["verdict"] == "differs"]
