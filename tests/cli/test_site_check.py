"""``sites check``: what differs, its patch and its exit code; a question that failed is never an agreement."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpclaunch.config.catalog import bundled
from tests.cli.conftest import Desk
from tests.unit.sites.describe.texts import FOLDER

ASK = """#!/bin/bash
case "${{0##*/}} $1 $2 $3" in
  'scontrol show config '*) file=config ;;
  'scontrol show partition '*) file=partitions ;;
  'scontrol show node '*) file=nodes ;;
  'sacctmgr --parsable2 show qos') file=qos ;;
  'srun --mpi=list '*) file=mpi ;;
  'scontrol ping '*) echo 'Slurmctld(primary) at head is UP'; exit ;;
esac
[ -n "$file" ] && [ "$file" != "$(cat {spool}/silent 2> /dev/null)" ] || {{ echo 'no answer' >&2; exit 1; }}
cat {texts}/$file.txt
"""


@pytest.fixture
def login(desk: Desk) -> Desk:
    """A desk on a login node of the test cluster, whose Slurm answers as it did when these texts were kept."""
    (desk.root / "slurm.conf").write_text("ClusterName=hpctest\n")
    texts = desk.root / "texts"
    shutil.copytree(FOLDER / "slurm_22_05", texts)
    for name in ("scontrol", "sacctmgr", "srun", "sbatch", "sinfo"):
        desk.program(name, ASK.format(spool=desk.spool, texts=texts))
    return desk


def own(desk: Desk, *changes: tuple[str, str]) -> Path:
    """Keep the test cluster's file as the user's own, with other values."""
    path = Path(desk.home) / ".config/hpclaunch/site_configs/testcluster.yaml"
    path = Path(desk.environment.get("XDG_CONFIG_HOME", str(path.parents[2]))) / "hpclaunch/site_configs" / path.name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = (bundled("site_configs") / path.name).read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path.write_text(text)
    path.chmod(0o644)
    return path


WRONG = (
    ('debug: {max_nodes: 4, max_walltime: "00:30:00"}', 'debug: {max_nodes: 4, max_walltime: "02:00:00"} # short'),
    ("gpus_per_node: 4", "gpus_per_node: 8"),
    ("  preempt: {", "  gone: {max_nodes: 1}\n  preempt: {"),
)


def values(done: Any) -> dict[str, dict[str, Any]]:
    return {one["key"]: one for one in done.json["values"]}


def test_a_file_that_agrees_ends_with_0_and_prints_nothing(login: Desk) -> None:
    done = login.type("sites", "check")
    assert (done.code, done.out) == (0, ""), done.err
    assert re.fullmatch(r".*: 0 values differ, \d+ agree\n", done.err), "nothing else is told"


def test_what_differs_is_a_table_and_a_patch_that_applies(login: Desk, tmp_path: Path) -> None:
    path = own(login, *WRONG)
    done = login.type("sites", "check", "testcluster")
    assert done.code == 1, done.err
    table, patch = done.out.split("\n\n", 1)
    rows = [line.split("\t") for line in table.splitlines()]
    assert rows[0] == ["key", "in the file", "from", "now", "asked"]
    assert rows[1:] == [
        [
            "partitions.debug.max_walltime",
            '"02:00:00"',
            "conf (2026-11-21)",
            '"00:30:00"',
            "scontrol show partition",
        ],
        ["partitions.gone", "{max_nodes: 1}", "conf (2026-11-21)", "Slurm has no partition gone", rows[2][-1]],
        ["node_types.gpu.gpus_per_node", "8", "conf (2026-11-21)", "4", "scontrol show node"],
    ]
    copy = tmp_path / path.name
    copy.write_text(path.read_text())
    subprocess.run(["git", "apply", f"-p{len(path.parts) - 1}"], cwd=tmp_path, input=patch, text=True, check=True)
    content = yaml.safe_load(copy.read_text())
    assert list(content["partitions"]) == ["batch", "debug", "preempt"]
    assert 'debug: {max_nodes: 4, max_walltime: "00:30:00"} # short' in copy.read_text()
    assert content["origins"]["partitions.debug.max_walltime"] == list(content["sources"])[-1:]
    assert path.read_text().count("02:00:00") == 1, "it writes nothing"


def test_write_replaces_the_users_own_file_and_keeps_the_old_one(login: Desk) -> None:
    path = own(login, *WRONG)
    before = path.read_text()
    done = login.type("sites", "check", "--write", "--json")
    assert (done.code, done.json["written"]) == (1, str(path)), done.err
    assert all(one["corrected"] for one in values(done).values() if one["verdict"] == "differs")
    (kept,) = [one for one in path.parent.iterdir() if one != path]
    assert kept.read_text() == before
    assert login.type("sites", "check").code == 0
    assert [one["origin"] for one in login.type("sites", "list", "--json").json["sites"]].count("user") == 1


def test_a_value_that_slurm_gave_is_no_third_partys_any_more(login: Desk) -> None:
    listed = "".join(f"  - {one}\n" for one in ("detect", "partitions", "node_types.gpu.gpus_per_node"))
    path = own(login, *WRONG, ("\nsources:", f"\nthird_party:\n{listed}sources:"))
    done = login.type("sites", "check", "--write")
    assert done.code == 1, done.err
    marked = yaml.safe_load(path.read_text())["third_party"]
    assert marked == ["detect", "partitions.batch", "partitions.debug.max_nodes", "partitions.preempt"]


def test_write_of_a_bundled_file_makes_one_of_the_users_own(login: Desk) -> None:
    partitions = login.root / "texts" / "partitions.txt"
    partitions.write_text(partitions.read_text().replace("MaxTime=00:30:00", "MaxTime=00:20:00"))
    shipped = (bundled("site_configs") / "testcluster.yaml").read_bytes()
    done = login.type("sites", "check", "--write", "--json")
    assert done.code == 1 and done.json["origin"] == "bundled"
    written = Path(done.json["written"])
    assert 'max_walltime: "00:20:00"' in written.read_text()
    assert (bundled("site_configs") / "testcluster.yaml").read_bytes() == shipped
    assert login.type("sites", "check").code == 0


def test_a_file_of_the_project_is_not_written_over_another_of_the_user(login: Desk) -> None:
    path = own(login)
    project = login.project / "site_configs"
    project.mkdir(exist_ok=True)
    (project / path.name).write_text(path.read_text().replace("gpus_per_node: 4", "gpus_per_node: 8"))
    done = login.type("sites", "check", "--write")
    assert done.code == 1 and "exists already, and is not the file that was checked" in done.err


@pytest.mark.parametrize("silent", ["partitions", "nodes", "qos", "mpi"])
def test_a_question_without_an_answer_is_no_agreement(login: Desk, silent: str) -> None:
    own(login, ("gpus: {", "qos: {normal: {}}\ngpus: {"))
    (login.spool / "silent").write_text(silent)
    done = login.type("sites", "check")
    assert (done.code, done.out) == (3, "")
    assert "not asked: " in done.err and "no answer" in done.err


def test_a_difference_counts_even_if_not_all_could_be_asked(login: Desk) -> None:
    own(login, *WRONG)
    (login.spool / "silent").write_text("nodes")
    assert login.type("sites", "check").code == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("perlmutter",), "this machine belongs to testcluster"),
        (("cori",), "next: hpclaunch sites list"),
        (("aws_parallelcluster",), "next: hpclaunch sites detect --name NAME, on a cluster of aws_parallelcluster"),
        (("local",), "local has no scheduler"),
        ((), "scontrol no answer"),
    ],
)
def test_where_nothing_can_be_asked_it_ends_with_a_code_of_its_own(
    login: Desk, words: tuple[str, ...], message: str
) -> None:
    (login.spool / "silent").write_text("config")
    done = login.type("sites", "check", *words)
    assert (done.code, done.out) == (3, "")
    assert message in done.err and "--dry-run" not in done.err
    assert login.type("sites", "check", *words, "--json").json["exit_code"] == 3


def test_a_machine_without_the_scheduler_cannot_ask(desk: Desk) -> None:
    done = desk.type("sites", "check", "perlmutter")
    assert done.code == 3 and "this machine has no sbatch" in done.err


@pytest.mark.parametrize("text", ["", "\x00\xff" * 100, "PartitionName=\n" * 50, "NodeName=a=b " * 99, "|" * 999])
@pytest.mark.parametrize("file", ["partitions", "nodes", "qos", "mpi", "config"])
def test_a_hostile_answer_ends_in_a_table_or_a_refusal(login: Desk, file: str, text: str) -> None:
    own(login, ("gpus: {", "qos: {normal: {max_nodes: 1}}\ngpus: {"))
    (login.root / "texts" / f"{file}.txt").write_bytes(text.encode("latin-1"))
    assert login.type("sites", "check").code in (0, 1, 3)
