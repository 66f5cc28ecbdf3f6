"""What jobs share in ``scontrol --oneliner show assoc_mgr``, as 22.05 wrote it on the test cluster."""

from __future__ import annotations

import pytest

from hpclaunch.sites.slurm_shares import Pool, associations_of, default_account, used_of_qos, without

TRES = "cpu=N(2),mem={mem}(1000),node=N(1),gres/gpu=N(2),gres/gpu:a100=4(2)"
LINE = (
    "ClusterName=lab Account={account} UserName={user} Partition={partition} Priority=0 ID=3 SharesRaw/Norm/Level/"
    "Factor=1/18446744073709551616.00/1/0.00 UsageRaw/Norm/Efctv=0.00/1.00/0.00 ParentAccount={parent} Lft=2 "
    "DefAssoc={usual} GrpJobs=N(1) GrpJobsAccrue=N(0) GrpSubmitJobs=9(4) GrpWall=60(1.50) GrpTRES={tres} "
    "GrpTRESMins=cpu=1000(7),mem=N(0) GrpTRESRunMins=cpu=N(480) MaxJobs={jobs}(1) MaxJobsAccrue= MaxSubmitJobs=20(3) "
    "MaxWallPJ=1440 MaxTRESPJ=cpu=8,mem=102400,gres/gpu:a100=4 MaxTRESPN= MaxTRESMinsPJ=cpu=500 MinPrioThresh="
)
USUAL = {"account": "m1", "user": "", "partition": "", "parent": "", "usual": "No", "jobs": "5"}
QOS = (
    "QOS=long(7) UsageRaw=0.000000 GrpJobs=3(1) GrpJobsAccrue=N(0) GrpSubmitJobs=N(4) GrpWall=N(0.00) "
    "GrpTRES=cpu=8(2),gres/gpu=N(2) GrpTRESMins=cpu=N(0) GrpTRESRunMins=cpu=N(480) MaxWallPJ= MaxTRESPJ= MaxTRESPN= "
    "MaxTRESMinsPJ= MinPrioThresh=  MinTRESPJ= PreemptMode=OFF Priority=0 Account Limits= m1={MaxJobsPA=N(1) "
    "MaxJobsAccruePA=N(0) MaxSubmitJobsPA=N(4) MaxTRESPA=cpu=N(2),gres/gpu=N(2)} User Limits= %s={MaxJobsPU=N(1) "
    "MaxJobsAccruePU=N(0) MaxSubmitJobsPU=5(4) MaxTRESPU=cpu=N(2),gres/gpu=N(2)}"
)


def line(mem: str = "204800", **changes: str) -> str:
    return LINE.format(tres=TRES.format(mem=mem), **{**USUAL, **changes})


TEXT = "\n".join(
    [
        "Current Association Manager state",
        "Association Records",
        line(account="root", mem="N"),
        line(account="physics", parent="root(1)"),
        line(parent="physics(2)"),
        line(user="ada(1001)", usual="Yes"),
        line(user="ada(1001)", partition="gpu", jobs="1"),
        line(account="other", user="bob(1002)"),
        "QOS Records",
        QOS % "1001",
    ]
)


def test_an_association_has_its_limits_and_the_accounts_above_have_those_of_all_jobs() -> None:
    own, *above = associations_of(TEXT, "ada", "m1", "batch")
    assert own.bounds["MaxTRES", "mem"] == 102400 and own.bounds["MaxWall", ""] == 86400
    assert (own.bounds["MaxJobs", ""], own.used["MaxJobs", ""]) == (5, 1)
    assert [one.whose for one in above] == ["account m1", "account physics", "account root"]
    assert above[0].bounds == {
        ("GrpTRES", "mem"): 204800,
        ("GrpTRES", "gres/gpu:a100"): 4,
        ("GrpTRESMins", "cpu"): 1000,
        ("GrpSubmit", ""): 9,
        ("GrpWall", ""): 3600,
    }
    assert (above[0].used["GrpTRES", "cpu"], above[0].used["GrpSubmit", ""]) == (2, 4)
    assert ("GrpTRES", "mem") not in above[2].bounds


def test_the_association_for_the_partition_counts() -> None:
    assert associations_of(TEXT, "ada", "m1", "gpu")[0].bounds["MaxJobs", ""] == 1


@pytest.mark.parametrize("number", ["1001", "ada(1001)"])  # as 22.05 writes it, and as 25.11 does
def test_what_is_used_of_a_qos_by_all_by_the_account_and_by_the_user(number: str) -> None:
    used = used_of_qos(QOS % number, "long", 1001, "m1")
    assert used["GrpTRES", "cpu"] == 2 and used["GrpJobs", ""] == 1
    assert used["MaxTRESPA", "gres/gpu"] == 2 and used["MaxSubmitPA", ""] == 4
    assert used["MaxTRESPU", "cpu"] == 2 and used["MaxJobsPU", ""] == 1
    of_nobody = used_of_qos(QOS % number, "long", 1, "m2")
    assert of_nobody["MaxSubmitPU", ""] == 0, "without a block there is no job of the user's"


@pytest.mark.parametrize(
    "text", ["", "Current Association Manager state\nNo associations", "slurm_load: \x00 Error", TEXT.replace("=", " ")]
)
def test_of_what_is_not_shown_nothing_is_known(text: str) -> None:
    assert associations_of(text, "ada", "m1", "batch") == []
    assert used_of_qos(text, "long", 1001, "m1") == {}
    assert default_account(text, "ada") == ""


def test_accounts_above_one_another_in_a_ring_end() -> None:
    ring = "\n".join([line(parent="m2(2)"), line(account="m2", parent="m1(1)"), line(user="ada(1)")])
    assert [one.whose for one in associations_of(ring, "ada", "m1", "")][1:] == ["account m1", "account m2"]


def test_the_account_of_a_job_without_one_is_the_users_default() -> None:
    assert default_account(TEXT, "ada") == "m1"
    assert default_account(TEXT, "bob") == ""


def test_a_limit_that_a_qos_has_counts_in_place_of_that_of_an_association() -> None:
    pool = Pool(
        whose="x", bounds={("MaxTRES", "cpu"): 1, ("MaxTRES", "mem"): 2, ("MaxJobs", ""): 3, ("GrpJobs", ""): 4}
    )
    left = without(pool, {("MaxTRES", "cpu"): 9, ("MaxJobsPA", ""): 9})
    assert left.bounds == {("MaxTRES", "mem"): 2, ("GrpJobs", ""): 4}
