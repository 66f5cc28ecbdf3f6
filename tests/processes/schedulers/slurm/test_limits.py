"""What Slurm's own programs tell of its limits: fakes on PATH, answering as Slurm 22.05 does."""

from __future__ import annotations

import os
import pwd
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hpclaunch.config.limits import Limits
from hpclaunch.config.site import Defaults
from hpclaunch.core.errors import Fault, SchedulerError
from hpclaunch.core.spec import JobSpec
from hpclaunch.schedulers.slurm import limits as slurm_limits
from hpclaunch.schedulers.slurm import programs, scheduler
from hpclaunch.schedulers.slurm.limits import _ask_all
from tests.builders import HOUR, a_site, partition_line, planned

ME = pwd.getpwuid(os.geteuid()).pw_name
BATCH = partition_line("batch", longest="1-00:00:00", default="YES")
DEBUG = partition_line("debug", most=2, longest="00:30:00")


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put fake programs on PATH: ``slurm(scontrol=…, sacctmgr=…, sshare=…)``; what is not given is not there."""
    monkeypatch.setenv("PATH", str(tmp_path))  # a real Slurm may be installed here

    def put(**answers: str) -> None:
        for name, answer in answers.items():
            (tmp_path / f"{name}.answer").write_text(answer)
            (tmp_path / name).write_text(
                f'#!/bin/bash\nprintf "%s\\n" "$@" > {tmp_path}/{name}.args\necho "$(< {tmp_path}/{name}.answer)"\n'
            )
            (tmp_path / name).chmod(0o755)

    return put


def objections(spec: JobSpec) -> list[Fault]:
    return list(slurm_limits.objections(spec).faults)


def against(**typed: Any) -> list[Fault]:
    """The objections to a plan that the site file itself, which knows no limits, lets pass."""
    nodes = {kind: replace(node, nodes=None) for kind, node in a_site().node_types.items()}
    site = a_site(node_types=nodes, partitions={}, defaults=Defaults(node_type="gpu", walltime=HOUR))
    return objections(planned(site, **typed))


def told(**typed: Any) -> list[str]:
    return [str(fault) for fault in against(**typed)]


def test_a_hidden_partition_may_be_named_and_is_never_proposed(slurm: Any, tmp_path: Path) -> None:
    """Without --all scontrol leaves hidden partitions out (its manual), and who may use one would be refused."""
    hidden = partition_line("secret").replace("Hidden=NO", "Hidden=YES")
    slurm(scontrol=f"{BATCH}\n{hidden}\n")
    assert told(partition="secret", walltime=60) == []
    assert "--all" in (tmp_path / "scontrol.args").read_text().splitlines()
    (fault,) = against(partition="secrte", walltime=60)
    assert (fault.allowed, fault.next) == ("batch", "--partition batch would be accepted")


def test_what_slurm_admits_is_not_objected_to(slurm: Any) -> None:
    slurm(scontrol=f"{BATCH}\n{DEBUG}\n", sshare=f"root||\n m1|{ME}|\n", sacctmgr="m1|normal\n")
    assert told(account="m1", qos="normal", partition="batch", nodes=4, walltime=24 * HOUR) == []
    assert told() == []


@pytest.mark.parametrize(
    ("typed", "objection"),
    [
        (
            {"partition": "debug", "walltime": HOUR},
            (
                "Slurm's partition debug: walltime 01:00:00 requested; allowed: at most 00:30:00\n"
                "    next: --partition batch would be accepted"
            ),
        ),
        (
            {"partition": "debug", "nodes": 3, "walltime": 60},
            (
                "Slurm's partition debug: 3 nodes requested; allowed: at most 2 nodes\n"
                "    next: --partition batch would be accepted"
            ),
        ),
        (
            {"walltime": 25 * HOUR},
            (
                "Slurm's partition batch: walltime 1-01:00:00 requested; allowed: at most 1-00:00:00\n"
                "    next: --walltime 1-00:00:00 --partition batch would be accepted"
            ),
        ),
        (
            {"partition": "batch", "nodes": 8},
            (
                "Slurm's partition batch: 8 nodes requested; allowed: at most 4 nodes\n"
                "    next: --nodes 4 --partition batch would be accepted"
            ),
        ),
        (
            {"partition": "debgu", "walltime": 60},
            (
                "Slurm has no partition 'debgu'; did you mean 'debug'?; allowed: batch, debug\n"
                "    next: --partition debug would be accepted"
            ),
        ),
    ],
)
def test_what_would_wait_for_ever_is_told_with_what_would_be_taken(
    slurm: Any, typed: dict[str, Any], objection: str
) -> None:
    slurm(scontrol=f"{BATCH}\n{DEBUG}\n")
    assert told(**typed) == [objection]


def test_all_limits_that_are_broken_are_told(slurm: Any) -> None:
    slurm(scontrol=f"{BATCH}\n{DEBUG}\n")
    assert [fault.what for fault in against(partition="debug", nodes=5)] == [
        "5 nodes requested",
        "walltime 01:00:00 requested",
    ]


def test_too_few_nodes_are_told(slurm: Any) -> None:
    slurm(scontrol=partition_line("large", least=3))
    assert [fault.allowed for fault in against(partition="large")] == ["at least 3 nodes"]


@pytest.mark.parametrize(("partitions", "objected"), [("debug,batch", False), ("debug,tiny", True), ("batch", False)])
def test_a_job_for_several_partitions_waits_for_ever_only_if_each_refuses_it(
    slurm: Any, partitions: str, objected: bool
) -> None:
    slurm(scontrol=f"{BATCH}\n{DEBUG}\n{partition_line('tiny', total=1)}\n")
    assert bool(told(partition=partitions, nodes=3)) is objected


@pytest.mark.parametrize(
    ("lists", "typed", "what"),
    [
        ({"accounts": "theirs,others"}, {"account": "m1"}, "account 'm1' may not use it; allowed: theirs,others"),
        ({"accounts": "theirs,M1"}, {"account": "m1"}, None),
        ({"accounts": "theirs,m1"}, {"account": "M1"}, None),
        ({"deny": "DenyAccounts=m1 "}, {"account": "m1"}, "account 'm1' may not use it"),
        ({"qos": "long"}, {"qos": "low"}, "QOS 'low' may not use it; allowed: long"),
        ({"deny": "DenyQos=low "}, {"qos": "low"}, "QOS 'low' may not use it"),
        ({"accounts": "theirs"}, {}, None),
    ],
)
def test_who_may_use_a_partition(slurm: Any, lists: dict[str, str], typed: dict[str, Any], what: str | None) -> None:
    slurm(scontrol=f"{partition_line('closed', **lists)}\n{BATCH}\n")
    found = told(partition="closed", **typed)
    assert [text.partition("\n")[0] for text in found] == ([f"Slurm's partition closed: {what}"] if what else [])
    assert all("--partition batch would be accepted" in text for text in found)


@pytest.mark.parametrize(
    "changes", [{"state": "DOWN"}, {"accounts": "theirs"}, {"tres": ""}, {"longest": "00:01:00", "most": 1}]
)
def test_what_is_down_or_closed_or_without_gpus_is_not_proposed(slurm: Any, changes: dict[str, Any]) -> None:
    slurm(scontrol=f"{partition_line('other', **changes)}\n{DEBUG}\n{BATCH}\n")
    (text,) = told(partition="debug", account="m1", nodes=2)
    assert "--partition batch would be accepted" in text


def test_a_partition_without_gpus_is_proposed_only_if_none_are_requested(slurm: Any) -> None:
    plain = partition_line("plain", tres="", default="YES")
    slurm(scontrol=f"{plain}\n{DEBUG}\n{partition_line('gpus')}\n")
    with_gpus = against(partition="debug", nodes=3)
    without = against(partition="debug", nodes=3, node_type="cpu")
    assert {fault.next for fault in with_gpus} == {"--partition gpus would be accepted"}
    assert {fault.next for fault in without} == {"--partition plain would be accepted"}


def test_a_partition_that_the_site_file_has_for_other_nodes_is_not_proposed(slurm: Any) -> None:
    slurm(scontrol=f"{BATCH}\n{partition_line('bigmem')}\n")
    spec = planned(a_site(partitions={}, defaults=Defaults(node_type="gpu", walltime=HOUR)), partition="largemem")
    (without,) = objections(spec)
    (fault,) = slurm_limits.objections(spec, {"batch": (Limits(node_types=("cpu",)),)}).faults
    assert without.next == "--partition batch would be accepted"
    assert fault.next == "--partition bigmem would be accepted"


def test_what_is_proposed_keeps_to_the_limits_of_the_site_file_too(slurm: Any) -> None:
    slurm(scontrol=f"{BATCH}\n{DEBUG}\n")
    spec = planned(a_site(partitions={}, defaults=Defaults(node_type="gpu", walltime=HOUR)), partition="debug")
    (without,) = objections(spec)
    assert without.next == "--partition batch would be accepted"
    (fault,) = slurm_limits.objections(spec, {"batch": (Limits(max_walltime=2 * HOUR), Limits(min_nodes=2))}).faults
    assert fault.next == "--walltime 00:30:00 --partition debug would be accepted"


ANSWERS = {"scontrol": f"{BATCH}\n", "sshare": "root||\n"}
TWO_CLUSTERS = "m1|normal|normal|here\nm2|debug|debug|there\n"


def test_associations_of_several_clusters_say_nothing(slurm: Any, tmp_path: Path) -> None:
    slurm(**ANSWERS, sacctmgr=TWO_CLUSTERS)
    assert told(account="m2", qos="debug", walltime=60) == []
    slurm(**ANSWERS, sacctmgr="m1|normal|normal|here\n")
    assert len(told(account="m2", walltime=60)) == 1
    assert not [word for word in (tmp_path / "sacctmgr.args").read_text().splitlines() if word.startswith("cluster=")]


def test_associations_are_those_of_the_cluster_that_slurm_names_itself(slurm: Any, tmp_path: Path) -> None:
    slurm(**ANSWERS | {"scontrol": f"ClusterName = here\n{BATCH}\n"}, sacctmgr="m1|normal|normal|here\n")
    assert told(account="m1", walltime=60) == []
    assert "cluster=here" in (tmp_path / "sacctmgr.args").read_text().splitlines()


@pytest.mark.parametrize(
    ("associations", "qos", "told_of"),
    [
        ("", "short", ""),
        ("m1||usual\n", "nonsense", "Slurm has no QOS 'nonsense'; allowed: normal, short, usual"),
        ("m1||usual\n", "nonsense", "next: --qos usual, the one of a job that names none"),
        ("", "nonsense", "next: --qos normal"),
        ("m1|a,normal,z|\n", "nonsense", "next: --qos normal"),
        ("", "shrot", "Slurm has no QOS 'shrot'; did you mean 'short'?"),
        ("m1|a,b,usual|usual\n", "nonsense", "you may not use QOS 'nonsense'; allowed: a, b, usual"),
        ("m1|a,b,usual|usual\n", "nonsense", "next: --qos usual, the one of a job that names none"),
    ],
)
def test_slurm_decides_whether_there_is_a_qos(
    slurm: Any, tmp_path: Path, associations: str, qos: str, told_of: str
) -> None:
    slurm(scontrol=f"{BATCH}\n", sacctmgr="")
    rows = "Name|Flags\nnormal|\nshort|\nusual|\n"
    (tmp_path / "sacctmgr").write_text(
        f"#!/bin/bash\ncase $* in *associations*) printf '{associations}';; *) printf '{rows}';; esac\n"
    )
    found = told(qos=qos, walltime=60)
    assert len(found) == bool(told_of)
    assert told_of in "".join(found)


LOGGED = """#!/bin/bash
echo "${{0##*/}} $*" >> {folder}/calls
case "${{0##*/}} $*" in
*"show config") printf 'ClusterName = here\nAccountingStorageEnforce = limits,qos\n' ;;
*"show partition"*) echo '{batch}' ;;
*associations*) printf '{associations}' ;;
*"show qos"*) printf 'Name|Flags\nnormal|\n' ;;
sshare*) printf 'root||\n m1|{me}|\n' ;;
esac
"""


@pytest.mark.parametrize(("associations", "asks_sshare"), [("m1|normal|normal|here\\n", False), ("", True)])
def test_where_limits_are_enforced_each_question_is_asked_once_and_sshare_only_for_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, associations: str, asks_sshare: bool
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    text = LOGGED.format(folder=tmp_path, batch=BATCH, associations=associations, me=ME)
    for name in ("scontrol", "sacctmgr", "sshare"):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    assert told(account="m1", qos="normal", partition="batch", walltime=60) == []
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == len(set(calls)), calls
    assert any(call.startswith("sshare ") for call in calls) is asks_sshare
    assert sum(call.startswith("sacctmgr ") for call in calls) == 2, calls


def test_a_qos_of_which_nothing_is_known_is_a_remark(slurm: Any) -> None:
    slurm(scontrol=f"{BATCH}\n")
    spec = planned(a_site(partitions={}), qos="nonsense", walltime=60)
    found = slurm_limits.objections(spec)
    assert (found.faults, len(found.delays)) == ((), 1)
    assert "whether there is a QOS 'nonsense' is not known" in found.delays[0]


@pytest.mark.parametrize(("gpus", "most"), [("", 0), (",gres/gpu=2", 2)])
def test_more_gpus_than_the_named_partition_has_are_refused(slurm: Any, gpus: str, most: int) -> None:
    slurm(scontrol=f"{partition_line('bigmem', tres=gpus)}\n{partition_line('gpus')}\n")
    (fault,) = against(partition="bigmem")
    assert (fault.where, fault.what) == ("Slurm's partition bigmem", "4 GPUs per node requested")
    assert fault.allowed.startswith(f"at most {most} GPU") and fault.next.startswith("--partition gpus")
    assert against(partition="gpus") == [] == against(partition="bigmem", node_type="cpu")


def test_the_default_partition_is_not_proposed_to_a_gpu_job_if_it_has_no_gpus(slurm: Any) -> None:
    plain = partition_line("plain", tres="", default="YES", longest="00:30:00")
    slurm(scontrol=f"{plain}\n{partition_line('gpus', longest='00:10:00')}\n")
    assert {fault.next for fault in against()} == {"--walltime 00:10:00 --partition gpus would be accepted"}


@pytest.mark.parametrize(
    ("typed", "objection"),
    [
        (
            {"account": "physcis"},
            (
                "Slurm's accounting: you have no account 'physcis'; did you mean 'physics'?; allowed: class, physics\n"
                "    next: --account physics"
            ),
        ),
        (
            {"account": "physics", "qos": "hgih"},
            (
                "Slurm's accounting: account physics may not use QOS 'hgih'; did you mean 'high'?; "
                "allowed: high, normal\n"
                "    next: --qos high"
            ),
        ),
        (
            {"account": "class", "qos": "high"},
            "Slurm's accounting: account class may not use QOS 'high'; allowed: normal\n    next: --qos normal",
        ),
        ({"account": "Physics", "qos": "High"}, None),
        ({"qos": "high"}, None),
    ],
)
def test_accounts_and_qos_are_those_of_the_persons_associations(
    slurm: Any, typed: dict[str, Any], objection: str | None
) -> None:
    rows = "physics|high,normal\nclass|normal\n"
    slurm(scontrol=f"{BATCH}\n", sacctmgr=rows, sshare=f"root||\n physics|{ME}|\n class|{ME}|\n")
    assert told(**typed) == ([objection] if objection else [])


def test_for_a_name_like_no_other_the_first_allowed_one_is_proposed(slurm: Any) -> None:
    slurm(scontrol=f"{BATCH}\n", sacctmgr="m1|aaa,bbb,ccc\nm2|aaa\n", sshare=f"root||\n m1|{ME}|\n m2|{ME}|\n")
    (unlike,) = against(account="m1", qos="xyz")
    (like,) = against(account="m1", qos="bbx")
    assert (unlike.next, like.next) == ("--qos aaa", "--qos bbb")
    (unlike,) = against(account="xyz")
    assert unlike.next == "--account m1"


def test_an_account_that_may_use_the_requested_qos_is_proposed(slurm: Any) -> None:
    rows = "art|normal\nclass|\nphysics|high,normal\n"  # without a list, an account may use any
    slurm(scontrol=f"{BATCH}\n", sacctmgr=rows, sshare=f"root||\n art|{ME}|\n class|{ME}|\n physics|{ME}|\n")
    (fault,) = against(account="xyz", qos="high")
    assert (fault.allowed, fault.next) == ("art, class, physics", "--account class")
    (fault,) = against(account="xyz")
    assert fault.next == "--account art"


def test_without_sacctmgr_the_shares_tell_the_accounts(slurm: Any) -> None:
    slurm(scontrol=f"{BATCH}\n", sshare=f"root||\n physics||\n  m1|{ME}|\n  theirs|somebody|\n")
    (text,) = told(account="theirs")
    assert "you have no account 'theirs'; allowed: m1" in text
    assert told(account="m1") == []
    assert told(account="m1", qos="any") == []  # sshare knows nothing of QOS


def test_without_sshare_the_associations_tell_the_accounts(slurm: Any) -> None:
    slurm(scontrol=f"{BATCH}\n", sacctmgr="m1|normal\n")
    (text,) = told(account="theirs")
    assert "you have no account 'theirs'; allowed: m1" in text


def test_a_person_without_any_association_is_not_refused(slurm: Any) -> None:
    slurm(scontrol=f"{BATCH}\n", sacctmgr="", sshare="root||\n")
    assert told(account="m1", qos="high") == []


def test_only_the_persons_own_rows_are_asked_for(slurm: Any, tmp_path: Path) -> None:
    slurm(scontrol=f"{BATCH}\n", sacctmgr="m1|normal\n", sshare="")
    told(account="m1")
    assert f"user={ME}" in (tmp_path / "sacctmgr.args").read_text().splitlines()
    assert f"--users={ME}" in (tmp_path / "sshare.args").read_text().splitlines()


def test_what_slurm_cannot_tell_is_not_refused(slurm: Any) -> None:
    assert told(partition="x", account="y", qos="z", nodes=10**6, walltime=10**9) == []  # no program at all
    slurm(scontrol="slurm_load_partitions: Unable to contact slurm controller\n", sacctmgr="Sorry\n\n", sshare="||||\n")
    assert told(partition="x", account="y", qos="z", nodes=10**6, walltime=10**9) == []


@pytest.mark.parametrize("name", ["scontrol", "sacctmgr", "sshare"])
def test_a_program_that_refuses_is_not_believed(slurm: Any, tmp_path: Path, name: str) -> None:
    slurm(scontrol=f"{DEBUG}\n", sacctmgr="m1|normal\n", sshare=f"m1|{ME}|\n")
    for other in ("scontrol", "sacctmgr", "sshare"):
        if other != name:
            (tmp_path / other).unlink()
    (tmp_path / name).write_text((tmp_path / name).read_text() + "exit 1\n")
    assert told(partition="debug", nodes=3, account="theirs", qos="high") == []


def test_a_program_that_cannot_be_started_is_as_good_as_none(slurm: Any, tmp_path: Path) -> None:
    slurm(scontrol=f"{DEBUG}\n")
    (tmp_path / "scontrol").write_text("#!/no/such/interpreter\n")
    assert told(partition="debug", nodes=3) == []


def test_a_program_that_hangs_is_given_up_with_all_that_it_started_and_the_others_count(
    slurm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm(sshare="an answer\n")
    for name in ("scontrol", "sacctmgr"):
        # Until what it started is killed too the pipe stays open, and this test waits for its end.
        (tmp_path / name).write_text(f"#!/bin/bash\n{shutil.which('sleep', path='/usr/bin:/bin')} 3600\n")
        (tmp_path / name).chmod(0o755)
    # A clock of its own: the time is over for the two that hang, and never for one that a busy machine keeps waiting.
    readings = iter([0.0, 60.0, 60.0, 0.0])
    monkeypatch.setattr(slurm_limits, "time", SimpleNamespace(monotonic=lambda: next(readings)))
    assert _ask_all(["scontrol"], ["sacctmgr"], ["sshare"], seconds=60) == ["", "", "an answer\n"]


def test_an_answer_without_an_end_is_one_clear_error(slurm: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    slurm(scontrol="")
    (tmp_path / "scontrol").write_text(f"#!/bin/sh\necho $$ > {tmp_path}/number\nexec yes\n")
    with pytest.raises(
        SchedulerError, match=r"(?s)scontrol: its answer has more than 64 MiB.*next: scontrol show part"
    ):
        objections(planned(a_site(), partition="batch"))
    assert not Path("/proc", (tmp_path / "number").read_text().strip()).exists()


def test_a_partition_may_have_blanks_in_its_name(slurm: Any) -> None:
    name = "GPU nodes (nvidia)"
    slurm(scontrol=f"{partition_line(name, longest='1-00:00:00')}\n{BATCH}\n")
    assert objections(replace(planned(a_site()), partition=name)) == []
    (fault,) = objections(replace(planned(a_site()), partition="gpu"))
    assert fault.allowed == f"{name}, batch"


# --- limits of QOS beside those of partitions (the columns are those of sacctmgr 22.05)

QOS_COLUMNS = (
    "Name|Priority|GraceTime|Preempt|PreemptExemptTime|PreemptMode|Flags|UsageThres|UsageFactor|GrpTRES|GrpTRESMins|"
    "GrpTRESRunMins|GrpJobs|GrpSubmit|GrpWall|MaxTRES|MaxTRESPerNode|MaxTRESMins|MaxWall|MaxTRESPU|MaxJobsPU|"
    "MaxSubmitPU|MaxTRESPA|MaxJobsPA|MaxSubmitPA|MinTRES|LimitFactor"
)
LONG = {"Name": "long", "Flags": "DenyOnLimit,PartitionMaxNodes,PartitionTimeLimit", "MaxWall": "7-00:00:00"}


def qos_table(*rows: dict[str, str]) -> str:
    names = QOS_COLUMNS.split("|")
    return "\n".join([QOS_COLUMNS, *("|".join(row.get(name, "") for name in names) for row in rows)])


@pytest.fixture
def with_qos(slurm: Any, tmp_path: Path) -> Any:
    """Put Slurm with accounting on PATH: partitions, rows of QOS, and those of the user, the default one first."""

    def put(partitions: str, *rows: dict[str, str], mine: str = "normal,long", enforce: str = "limits,qos") -> None:
        config = f"AccountingStorageEnforce = {enforce}\nClusterName = lab"
        slurm(scontrol=f"{config}\n{partitions}", sacctmgr="", sshare=f"root||\n m1|{ME}|")
        (tmp_path / "qos").write_text(qos_table({"Name": "normal"}, *rows))
        (tmp_path / "sacctmgr").write_text(
            f'#!/bin/bash\necho "$*" >> {tmp_path}/asked\ncase "$*" in *"show qos"*) echo "$(< {tmp_path}/qos)" ;; '
            f"*) echo 'm1|{mine}|{mine.partition(',')[0]}' ;; esac\n"
        )

    return put


def own(name: str = "gpu", qos: str = "", **changes: Any) -> str:
    line = partition_line(name, default="YES", **changes)
    return line.replace(" QoS=N/A ", f" QoS={qos} ") if qos else line


def test_the_line_of_a_partition_in_these_tests_has_its_qos() -> None:
    assert " QoS=N/A " in partition_line("gpu") and " AllocNodes=ALL " in partition_line("gpu")


@pytest.mark.parametrize(
    ("partition", "rows", "typed", "words"),
    [
        # flags of the job's QOS lift what the partition allows; its own limits count then
        ({"longest": "1-00:00:00"}, [LONG], {"walltime": 72 * HOUR}, []),
        ({"most": 2}, [LONG], {"nodes": 4}, []),
        ({"least": 3}, [{**LONG, "Flags": "PartitionMinNodes"}], {"nodes": 1}, []),
        (
            {"longest": "1-00:00:00"},
            [LONG],
            {"walltime": 8 * 24 * HOUR},
            ["Slurm's QOS long: walltime 8-00:00:00 requested; allowed: at most 7-00:00:00"],
        ),
        (
            {"most": 2},
            [{**LONG, "MaxTRES": "cpu=64,node=3"}],
            {"nodes": 4},
            [
                "Slurm's QOS long: 4 nodes requested; allowed: at most 3 nodes",
                "Slurm's QOS long: 128 CPUs requested; allowed: at most 64 CPUs",
            ],
        ),
        # without the flag the partition's own limit holds
        (
            {"longest": "1-00:00:00"},
            [{**LONG, "Flags": "DenyOnLimit,PartitionMaxNodes"}],
            {"walltime": 72 * HOUR},
            ["Slurm's partition gpu: walltime 3-00:00:00 requested; allowed: at most 1-00:00:00"],
        ),
        # what tightens it
        (
            {},
            [{"Name": "long", "MaxTRES": "gres/gpu=8"}],
            {"nodes": 3},
            ["Slurm's QOS long: 12 GPUs requested; allowed: at most 8 GPUs"],
        ),
        (
            {},
            [{"Name": "long", "MaxTRESPU": "cpu=64,gres/gpu=4"}],
            {"nodes": 2},
            ["Slurm's QOS long: 8 GPUs requested; allowed: at most 4 GPUs"],
        ),
        (
            {},
            [{"Name": "long", "GrpTRES": "node=2"}],
            {"nodes": 3},
            ["Slurm's QOS long: 3 nodes requested; allowed: at most 2 nodes"],
        ),
        (
            {},
            [{"Name": "long", "MinTRES": "gres/gpu=8,node=2"}],
            {"nodes": 1},
            [
                "Slurm's QOS long: 1 node requested; allowed: at least 2 nodes",
                "Slurm's QOS long: 4 GPUs requested; allowed: at least 8 GPUs",
            ],
        ),
        ({}, [{"Name": "long", "MaxTRESPerNode": "gres/gpu=4"}], {"nodes": 4}, []),
        # of a limit that both QOS have, that of the partition's counts; with OverPartQOS that of the job's
        (
            {"qos": "part"},
            [{"Name": "long", "MaxWall": "7-00:00:00"}, {"Name": "part", "MaxWall": "02:00:00"}],
            {"walltime": 3 * HOUR},
            ["Slurm's QOS part: walltime 03:00:00 requested; allowed: at most 02:00:00"],
        ),
        (
            {"qos": "part"},
            [{"Name": "long", "MaxWall": "00:30:00"}, {"Name": "part", "MaxWall": "4:00:00"}],
            {"walltime": 3 * HOUR},
            [],
        ),
        (
            {"qos": "part"},
            [{"Name": "long", "MaxWall": "4:00:00", "Flags": "OverPartQOS"}, {"Name": "part", "MaxWall": "02:00:00"}],
            {"walltime": 3 * HOUR},
            [],
        ),
        # a partition's QOS has no power over the partition's own limits
        (
            {"qos": "part", "longest": "1:00:00"},
            [{"Name": "long"}, {"Name": "part", "Flags": "PartitionTimeLimit"}],
            {"walltime": 3 * HOUR},
            ["Slurm's partition gpu: walltime 03:00:00 requested; allowed: at most 01:00:00"],
        ),
    ],
)
def test_a_qos_changes_what_a_partition_allows_as_slurm_says(
    with_qos: Any, partition: dict[str, Any], rows: list[dict[str, str]], typed: dict[str, Any], words: list[str]
) -> None:
    with_qos(own(**partition), *rows)
    faults = against(qos="long", account="m1", partition="gpu", **{"walltime": HOUR, **typed})
    assert [str(fault).partition("\n")[0] for fault in faults] == words
    assert all("would be accepted" in (fault.next or "") for fault in faults)


def test_a_default_qos_and_that_of_the_partition_count_without_being_named(with_qos: Any, tmp_path: Path) -> None:
    with_qos(own(longest="1-00:00:00"), LONG, mine="long,normal")
    assert told(partition="gpu", account="m1", walltime=72 * HOUR) == []
    with_qos(own(qos="part"), {"Name": "part", "MaxTRES": "node=1"})
    (fault,) = against(partition="gpu", account="m1", walltime=60, nodes=2)
    assert fault.where == "Slurm's QOS part"


# --- limits of associations, and what other jobs use

ASSOCIATION = (
    "ClusterName=lab Account=m1 UserName={who} Partition= Priority=0 ID=8 ParentAccount= Lft=5 DefAssoc=Yes "
    "GrpJobs=N(0) GrpJobsAccrue=N(0) GrpSubmitJobs={all}(3) GrpWall=N(0.00) GrpTRES={grp} GrpTRESMins=cpu=N(0) "
    "GrpTRESRunMins=cpu=N(0) MaxJobs={jobs}(2) MaxJobsAccrue= MaxSubmitJobs={submit}(3) MaxWallPJ= MaxTRESPJ={one} "
    "MaxTRESPN= MaxTRESMinsPJ={mins} MinPrioThresh="
)


def associations(**own: str) -> str:
    """The user's association; ``grp`` is of the account."""
    usual = {"all": "N", "grp": "cpu=N(0)", "jobs": "", "submit": "", "one": "", "mins": ""}
    mine = ASSOCIATION.format(who=f"{ME}(1)", **{**usual, **own, "grp": usual["grp"]})
    return f"{mine}\n{ASSOCIATION.format(who='', **{**usual, 'grp': own.get('grp', usual['grp'])})}"


@pytest.mark.parametrize(
    ("own_limits", "typed", "words"),
    [
        ({"one": "gres/gpu=8"}, {"nodes": 3}, ["12 GPUs requested; allowed: at most 8 GPUs"]),
        ({"one": "mem=102400"}, {"memory": 200 * 1024}, ["200G of memory requested; allowed: at most 100G of memory"]),
        ({"mins": "cpu=960"}, {}, ["walltime 01:00:00 requested; allowed: at most 00:30:00"]),
        ({"grp": "node=2(1)"}, {"nodes": 3}, ["3 nodes requested; allowed: at most 2 nodes"]),
        ({"submit": "3"}, {}, ["1 job submitted, beside 3 that wait or run; allowed: 3 jobs of yours at a time"]),
        ({"submit": "4"}, {}, []),
        ({"jobs": "0"}, {}, ["no job of it ever starts"]),
        ({"one": "license/x=1,billing=2,mem=7Q"}, {"nodes": 3}, []),
    ],
)
def test_limits_of_associations_count_where_slurm_enforces_limits(
    with_qos: Any, own_limits: dict[str, str], typed: dict[str, Any], words: list[str]
) -> None:
    with_qos(f"{own()}\n{associations(**own_limits)}")
    found = told(partition="gpu", **{"walltime": HOUR, **typed})
    assert [text.partition("\n")[0].partition(": ")[2] for text in found] == words
    with_qos(f"{own()}\n{associations(**own_limits)}".replace("ClusterName=lab Account", "Account"))
    assert told(partition="gpu", **{"walltime": HOUR, **typed}) == [], "not shown, so not known"


def test_what_a_qos_limits_the_association_does_not(with_qos: Any) -> None:
    with_qos(f"{own()}\n{associations(one='gres/gpu=8')}", {"Name": "long", "MaxTRES": "gres/gpu=12"})
    assert told(partition="gpu", walltime=60, qos="long", nodes=3) == []
    (text,) = told(partition="gpu", walltime=60, qos="long", nodes=4)
    assert text.startswith("Slurm's QOS long: 16 GPUs requested")


@pytest.mark.parametrize(("factor", "refused"), [("", True), ("2.000000", False), ("?", False)])
def test_a_qos_that_multiplies_limits_of_associations_leaves_them_unknown(
    with_qos: Any, tmp_path: Path, factor: str, refused: bool
) -> None:
    programs._answers.clear()
    with_qos(f"{own()}\n{associations(one='gres/gpu=8')}")
    answer = f"Name|LimitFactor\\nnormal|{factor}" if factor != "?" else "no such field"
    text = (tmp_path / "sacctmgr").read_text()
    (tmp_path / "sacctmgr").write_text(text.replace("in *", f'in *LimitFactor*) printf "{answer}\\n" ;; *', 1))
    assert bool(told(partition="gpu", walltime=60, nodes=3)) is refused


def test_what_other_jobs_use_is_a_delay(with_qos: Any) -> None:
    spec = planned(a_site(), nodes=1, tasks_per_node=4, cpus_per_task=4, walltime=60, partition="batch")
    with_qos(f"{own('batch')}\n{associations(grp='cpu=16(8),gres/gpu=N(4)', jobs='2')}")
    found = slurm_limits.objections(spec)
    assert found.faults == ()
    assert [text.partition("): ")[2] for text in found.delays] == [
        "2 jobs of yours run, so this one waits until one has ended",
        "8 CPUs of 16 CPUs are in use by all its jobs, so this one, with 16 CPUs, waits until enough are free",
    ]


@pytest.mark.parametrize("asked", ["show qos", "associations", "assoc_mgr"])
def test_where_limits_are_enforced_each_question_is_asked_once(with_qos: Any, tmp_path: Path, asked: str) -> None:
    with_qos(f"{own()}\n{associations()}")
    (tmp_path / "asked").write_text("")
    scontrol = (tmp_path / "scontrol").read_text()
    (tmp_path / "scontrol").write_text(scontrol.replace("printf", f'echo "$*" >> {tmp_path}/asked; printf', 1))
    assert told(partition="gpu", account="m1", walltime=60) == []
    assert sum(asked in line for line in (tmp_path / "asked").read_text().splitlines()) == 1


def test_accounting_that_does_not_answer_refuses_nothing(with_qos: Any, tmp_path: Path) -> None:
    with_qos(own())
    for name in ("sacctmgr", "sshare"):
        (tmp_path / name).write_text("#!/bin/bash\necho 'slurm_persist_conn_open: Connection refused' >&2; exit 1\n")
    assert told(partition="gpu", walltime=60, nodes=3) == []


def test_where_no_limits_are_enforced_accounting_is_not_asked_for_them(with_qos: Any, tmp_path: Path) -> None:
    (tmp_path / "asked").write_text("")
    with_qos(own(), enforce="associations,qos")
    assert told(partition="gpu", account="m1", walltime=60) == []
    assert "show qos" not in (tmp_path / "asked").read_text(), "a quarter of a second, for nothing"


@pytest.mark.parametrize("enforce", ["none", "associations", "associations,qos"])
def test_limits_of_a_qos_hold_only_where_slurm_enforces_them_and_its_flags_always(with_qos: Any, enforce: str) -> None:
    with_qos(own(most=2), {**LONG, "MaxTRES": "node=3"}, enforce=enforce)
    assert told(qos="long", partition="gpu", walltime=60, nodes=4) == []


def test_the_qos_that_a_job_gets_without_one_may_not_fit_the_partition(with_qos: Any) -> None:
    with_qos(own(qos="").replace("AllowQos=ALL", "AllowQos=long"))
    (fault,) = against(partition="gpu", account="m1", walltime=60)
    assert fault.what == "QOS 'normal', which it gets without one, may not use it"
    assert (fault.allowed, fault.next) == ("long", "--qos long")
    assert told(partition="gpu", account="m1", walltime=60, qos="long") == []


@pytest.mark.parametrize(
    ("hosts", "taken"), [("ALL", True), ("{me}", True), ("login[1-2],{me}", True), ("login9", False)]
)
def test_a_partition_may_take_jobs_from_some_hosts_only(slurm: Any, hosts: str, taken: bool) -> None:
    me = os.uname().nodename.partition(".")[0]
    slurm(scontrol=own().replace("AllocNodes=ALL", f"AllocNodes={hosts.format(me=me)}"))
    words = told(partition="gpu", walltime=60)
    assert (words == []) is taken
    assert taken or f"jobs of it cannot be submitted from {me}; allowed: login9" in words[0]


@pytest.mark.parametrize("name", ["GPU nodes (nvidia)", "very large memory", "a (b)"])
def test_a_partition_with_blanks_in_its_name_is_known(slurm: Any, name: str) -> None:
    line = partition_line("x", longest="00:30:00").replace("PartitionName=x", f"PartitionName={name}")
    slurm(scontrol=f"{BATCH}\n{line}")
    assert told(partition=name, walltime=60) == []
    (fault,) = against(partition=name, walltime=HOUR, nodes=1)
    assert "walltime 01:00:00 requested" in fault.what
    (unknown,) = against(partition=name[:-1], walltime=60)
    assert name in unknown.allowed and unknown.next == f"--partition '{name}' would be accepted"


@pytest.mark.parametrize(
    ("partition", "longest"),
    [
        ("", 24 * HOUR),
        ("debug", HOUR // 2),
        ("debug,batch", 24 * HOUR),
        ("debug,free", None),
        ("debug,gone", HOUR // 2),
        ("gone", None),
    ],
)
def test_the_longest_walltime_is_that_of_the_most_generous_partition(
    slurm: Any, partition: str, longest: int | None
) -> None:
    slurm(scontrol=f"{BATCH}\n{DEBUG}\n{partition_line('free', longest='UNLIMITED')}\n")
    assert slurm_limits.longest_walltime(partition) == longest


def test_while_all_controllers_are_down_nothing_else_is_asked(slurm: Any, tmp_path: Path) -> None:
    slurm(scontrol="Slurmctld(primary) at c1 is DOWN\nSlurmctld(backup) at c2 is DOWN", sshare="", sacctmgr="")
    assert slurm_limits.longest_walltime("batch") is None
    assert (tmp_path / "scontrol.args").read_text() == "ping\n"
    assert told(account="m1", qos="normal", walltime=99 * HOUR) == []
    assert (tmp_path / "scontrol.args").read_text() == "ping\n"
    assert not [name for name in ("sshare", "sacctmgr") if (tmp_path / f"{name}.args").exists()]
    assert scheduler.compare(a_site()) is None
    assert (tmp_path / "scontrol.args").read_text() == "ping\n"


@pytest.mark.parametrize(("typed", "times"), [({}, 0), ({"account": "m1"}, 1), ({"account": "m1", "qos": "normal"}, 1)])
def test_accounting_is_asked_once_at_most_for_the_associations(
    slurm: Any, tmp_path: Path, typed: dict[str, Any], times: int
) -> None:
    slurm(scontrol=BATCH, sshare="", sacctmgr="")
    (tmp_path / "sacctmgr").write_text(f'#!/bin/bash\necho "$*" >> {tmp_path}/asked\n')
    told(**typed)
    asked = (tmp_path / "asked").read_text().splitlines() if times else []
    assert len([line for line in asked if "associations" in line]) == times


def test_of_equally_near_partitions_the_one_with_the_most_similar_name_is_proposed(slurm: Any) -> None:
    default = partition_line("debugger", default="YES")
    slurm(scontrol=f"{partition_line('debug')}\n{default}\n")
    (fault,) = against(partition="debuk", walltime=60)
    assert fault.next == "--partition debug would be accepted"
