"""sites detect: a known cluster by name, an unknown one as a site file that is used from then on; asked once each."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.cli.conftest import Desk
from tests.unit.sites.describe.texts import FOLDER

ASK = """#!/bin/bash
echo "${{0##*/}} $*" >> {spool}/asked
case "${{0##*/}} $1 $2 $3" in
  'scontrol show config '*) file=config ;;
  'scontrol show partition '*) file=partitions ;;
  'scontrol show node '*) file=nodes ;;
  'sacctmgr --parsable2 show qos') file=qos ;;
  'sacctmgr --parsable2 show associations') file=associations ;;
  'srun --mpi=list '*) file=mpi ;;
  'srun --help '*) printf '      --container-image=IMAGE\\n'; exit ;;
esac
cat {texts}/$file.txt
"""


@pytest.fixture
def cluster(desk: Desk) -> Desk:
    """A desk on a login node of a cluster that nobody has described, with Slurm 23.11."""
    (desk.root / "slurm.conf").write_text("ClusterName=Hypatia\n")
    texts = FOLDER / "slurm_23_11"
    for name in ("scontrol", "sacctmgr", "srun"):
        desk.program(name, ASK.format(spool=desk.spool, texts=texts))
    return desk


def test_a_known_cluster_is_named_and_nothing_is_asked(desk: Desk) -> None:
    (desk.root / "slurm.conf").write_text("ClusterName=hpctest\n")
    done = desk.type("sites", "detect")
    assert (done.code, done.out) == (0, "testcluster\n")
    assert desk.type("sites", "detect", "--json").json["known"]["origin"] == "bundled"


def test_an_unknown_cluster_is_printed_as_a_site_file_and_nothing_is_written(cluster: Desk) -> None:
    before = set(cluster.listing())
    done = cluster.type("sites", "detect")
    assert done.code == 0, done.err
    assert 'title: "Hypatia, 8 nodes, as Slurm 23.11.4 shows it"\n' in done.out
    assert "# FILL IN charging" in done.out
    assert "to fill in: charging (Slurm does not show what the site charges)" in done.err
    assert "to use this as your own site: hpclaunch sites detect --name Hypatia" in done.err
    assert set(cluster.listing()) == before


def test_a_cluster_of_a_clouds_tool_takes_folders_and_variables_from_the_bundled_site_file(cluster: Desk) -> None:
    texts = cluster.root / "texts"
    shutil.copytree(FOLDER / "slurm_23_11", texts)
    with (texts / "config.txt").open("a", encoding="utf-8") as config:
        config.write("ResumeProgram           = /opt/parallelcluster/scripts/slurm/slurm_resume\n")
    for name in ("scontrol", "sacctmgr", "srun"):
        cluster.program(name, ASK.format(spool=cluster.spool, texts=texts))
    done = cluster.type("sites", "detect")
    assert done.code == 0, done.err
    assert "FI_PROVIDER: efa" in done.out
    assert "runs: /fsx/$USER/hpclaunch/runs" in done.out
    assert "hpclaunch sites show aws_parallelcluster" in done.out


def test_every_program_is_asked_once_however_many_nodes_there_are(cluster: Desk) -> None:
    assert cluster.type("sites", "detect").code == 0
    asked = Counter((cluster.spool / "asked").read_text().splitlines())
    assert set(asked.values()) == {1}
    assert len(asked) == 7


def test_a_file_that_is_kept_is_the_site_from_then_on(cluster: Desk) -> None:
    done = cluster.type("sites", "detect", "--name", "hypatia")
    path = cluster.config / "site_configs" / "hypatia.yaml"
    assert (done.code, done.out) == (0, f"{path}\n"), done.err
    assert "hpclaunch doctor --site hypatia" in done.err
    assert cluster.type("sites", "detect").out == "hypatia\n"
    planned = cluster.type("submit", "cifar", "--synthetic", "--nodes", "2", "--dry-run", "--runs-dir", "/srv/runs")
    assert planned.code == 0, planned.err
    assert "#SBATCH --gpus-per-node=h100:4\n" in planned.out
    assert "--mpi=pmix" in planned.out
    assert "container" in cluster.type("sites", "show", "hypatia").out.lower()  # pyxis, as srun's help says


def test_the_same_as_json(cluster: Desk) -> None:
    told = cluster.type("sites", "detect", "--json").json
    assert (told["known"], told["name"], told["path"]) == (None, "Hypatia", None)
    assert told["site"]["container"] == {"runtime": "pyxis"}
    assert {gap["key"] for gap in told["fill_in"]} == set(told["site"]["unverified"])
    assert told["text"].startswith("# Written by hpclaunch")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--name", "a/b"), 2, "'a/b' is not a site's name"),
        (("--name", "x", "--write", "y"), 2, "cannot be used together"),
        (("--name", "local"), 1, "there is a site local already (bundled: "),
        (("--name", "perlmutter"), 1, "there is a site perlmutter already (bundled: "),
        (("--write", "there.yaml"), 1, "exists already"),
        (("--write", "nowhere/x.yaml"), 1, "its folder does not exist"),
    ],
)
def test_where_it_cannot_be_written_nothing_is(cluster: Desk, words: tuple[str, ...], code: int, said: str) -> None:
    cluster.write("there.yaml", "mine\n")
    before = cluster.listing()
    done = cluster.type("sites", "detect", *words)
    assert done.code == code
    assert said in done.err
    assert cluster.listing() == before


def test_a_site_of_the_same_name_is_not_replaced(cluster: Desk) -> None:
    assert cluster.type("sites", "detect", "--name", "hypatia").code == 0
    before = cluster.listing()
    done = cluster.type("sites", "detect", "--name", "hypatia")
    assert done.code == 1 and "there is a site hypatia already (user: " in done.err
    assert cluster.listing() == before


def test_where_its_folder_cannot_be_made_it_says_so(cluster: Desk) -> None:
    (cluster.config / "site_configs").parent.mkdir(parents=True, exist_ok=True)
    (cluster.config / "site_configs").write_text("a file where the folder should be")
    done = cluster.type("sites", "detect", "--name", "hypatia")
    assert done.code == 1 and "site_configs" in done.err and "Traceback" not in done.err


def test_without_slurm_it_says_so(desk: Desk) -> None:
    (Path(desk.root) / "bin" / "scontrol").unlink(missing_ok=True)
    done = desk.type("sites", "detect")
    assert (done.code, done.out) == (1, "")
    assert "Slurm does not describe this cluster: scontrol is not on this machine" in done.err


def test_a_slurm_that_does_not_answer_is_an_error_in_its_words_and_no_other_program_is_waited_for(
    cluster: Desk,
) -> None:
    cluster.fake("scontrol", err="slurm_load_ctl_conf error: Unable to contact slurm controller\n", code=1)
    done = cluster.type("sites", "detect")
    assert done.code == 1
    assert "Unable to contact slurm controller" in done.err
    assert not (cluster.spool / "asked").exists()


def test_a_cluster_that_shows_no_nodes_is_not_described(cluster: Desk) -> None:
    config = (FOLDER / "slurm_23_11" / "config.txt").read_text()
    cluster.fake("scontrol", out=config)
    cluster.fake("sinfo")
    done = cluster.type("sites", "detect")
    assert done.code == 1
    assert "Slurm shows you no node in any partition" in done.err
