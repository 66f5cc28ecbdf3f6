"""Which cluster answers: asked again after a silence, for each cluster by itself, and not for long."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpclaunch.schedulers import ClusterIdentity
from hpclaunch.schedulers.slurm import configuration, programs


class Cluster:
    """scontrol on PATH; ``says`` is its answer to ``show config``, by the name of SLURM_CONF."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.environment = monkeypatch
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        self.choose("a.conf")
        configuration._known.clear()
        programs._answers.clear()

    def choose(self, name: str) -> None:
        self.environment.setenv("SLURM_CONF", str(self.folder / name))

    def says(self, text: str, first: str = "") -> None:
        program = self.folder / "scontrol"
        program.write_text(
            f'#!/bin/sh\n{first}\n[ "$*" = "show config" ] || exit 0\necho x >> {self.folder}/asked\n{text}\n'
        )
        program.chmod(0o755)

    @property
    def asked(self) -> int:
        file = self.folder / "asked"
        return len(file.read_text().split()) if file.exists() else 0


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(tmp_path, monkeypatch)


CONFIG = """
ClusterName             = lab
SlurmctldHost[0]        = ctl1(10.0.0.1)
SlurmctldHost[1]        = ctl2
AccountingStorageHost   = db
"""


def test_the_controllers_are_those_of_the_configuration_in_order(cluster: Cluster) -> None:
    cluster.says(f"cat << 'END'{CONFIG}END")
    assert configuration.cluster() == ClusterIdentity(name="lab", controllers=("ctl1", "ctl2"))
    assert configuration.cluster_name() == "lab"
    old = "ClusterName = old\nControlMachine = ctl1\nBackupController = (null)\n"
    cluster.choose("b.conf")
    cluster.says(f"cat << 'END'\n{old}END")
    assert configuration.cluster() == ClusterIdentity(name="old", controllers=("ctl1",))


def test_a_silence_is_not_kept_and_an_answer_is(cluster: Cluster) -> None:
    cluster.says("exit 1")
    assert (configuration.configuration(), configuration.cluster_name()) == ({}, "")
    cluster.says("echo 'ClusterName = lab'")
    for _ in range(2):
        assert configuration.configuration() == {"ClusterName": "lab"}
        assert configuration.cluster_name() == "lab"
    assert cluster.asked == 2 + 1


def test_the_name_and_the_configuration_are_one_question_and_its_answer_is_as_good_as_that_of_a_ping(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.says(f"cat << 'END'{CONFIG}END", first=f'echo "$1" >> {tmp_path}/words')
    assert configuration.cluster_name() == "lab"
    assert configuration.configuration()["ClusterName"] == "lab"
    assert programs.down_controllers() == ""
    assert (tmp_path / "words").read_text().split() == ["show"]


def test_each_cluster_answers_for_itself(cluster: Cluster) -> None:
    cluster.says('echo "ClusterName = $(basename "$SLURM_CONF" .conf)"')
    for name in ("a", "b", "a"):
        cluster.choose(f"{name}.conf")
        assert configuration.cluster().name == configuration.cluster_name() == name


def test_a_cluster_that_may_not_be_the_runs_is_not_waited_for_long(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float] = []
    ask = configuration.ask

    def noting(command: list[str], seconds: float = 60) -> programs.Answer:
        limits.append(seconds)
        return ask(command, seconds=seconds)

    monkeypatch.setattr(configuration, "ask", noting)
    cluster.says("echo 'ClusterName = lab'")
    assert configuration.cluster_name() == "lab"
    assert limits == [15]
