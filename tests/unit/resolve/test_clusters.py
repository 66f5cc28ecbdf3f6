"""Which other cluster gets a script: typed, in a file, or left in the shell; and what may be named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpclaunch.core.spec import Context
from hpclaunch.core.spec_parts import Allocation, Predecessor
from tests.builders import a_context, a_job, a_site, origin_of, planned, refused


def at_lab(**variables: str) -> Context:
    """A login node of the cluster ``lab``."""
    return a_context(cluster="lab", environment=variables)


@pytest.mark.parametrize("option", ["--clusters=Other", "--cluster=other", "-M other", "-Mother", "--clusters other"])
def test_a_cluster_is_no_directive_and_may_be_spelled_as_sbatch_reads_it(option: str) -> None:
    spec = planned(context=at_lab(), sbatch=(option,))
    assert (spec.clusters, origin_of(spec, "cluster")) == ("other", ("other", "--sbatch"))
    assert "clusters" not in dict(spec.directives)


def test_the_last_option_of_a_level_counts_and_a_higher_level_first() -> None:
    site, job = a_site(sbatch=("--clusters=a",)), a_job(sbatch=("--clusters=b",))
    shell = at_lab(SLURM_CLUSTERS="c", SBATCH_CLUSTERS="d")
    assert planned(context=shell).clusters == "c"
    assert planned(context=at_lab(SLURM_CLUSTERS="", SBATCH_CLUSTERS="d")).clusters == "d"
    assert planned(site, context=shell).clusters == "a"
    assert planned(site, job, context=shell).clusters == "b"
    assert planned(site, job, context=shell, sbatch=("-M e", "-M f")).clusters == "f"


@pytest.mark.parametrize("name", ["lab", "LAB", "lab,lab"])
def test_the_own_cluster_needs_no_address(name: str) -> None:
    spec = planned(context=at_lab(SLURM_CLUSTERS="other"), sbatch=(f"--clusters={name}",))
    assert spec.clusters == ""
    assert "cluster" not in {choice.key for choice in spec.choices}


def test_of_several_clusters_the_scheduler_chooses_and_that_is_said() -> None:
    spec = planned(context=at_lab(), sbatch=("--clusters=other, lab",))
    assert spec.clusters == "other,lab"
    assert "the scheduler chooses one of the clusters other,lab: their limits are not asked for" in spec.warnings


@pytest.mark.parametrize("text", ["all", "other,all", "", "a,,b", "../x", "a b"])
def test_what_names_no_clusters_is_refused_where_it_stands(text: str) -> None:
    (typed,) = refused(context=at_lab(), sbatch=(f"--clusters={text}",))
    assert typed.where == "--sbatch" and "is no list of clusters" in typed.what
    if text:
        (left,) = refused(context=at_lab(SLURM_CLUSTERS=text))
        assert (left.where, "unset SLURM_CLUSTERS" in left.next) == ("SLURM_CLUSTERS", True)


def test_in_an_allocation_nothing_is_sent_elsewhere() -> None:
    inside = Allocation(job_id="1", hosts=("n1", "n2"), nodes="n[1-2]", walltime=3600, left=3600, cpus=64, gpus=4)
    assert planned(context=replace(at_lab(SLURM_CLUSTERS="other"), allocation=inside), nodes=1).clusters == ""


def waiting_for(cluster: str, context: Context, **typed: object) -> list[str]:
    run = Predecessor(run="r1", must_complete=True, site="cluster", state="PENDING", jobs=("7",), cluster=cluster)
    context = replace(context, predecessors=(run,))
    return [f"{one.what}; {one.next}" for one in refused(context=context, **typed)]


def test_a_job_waits_only_for_jobs_of_its_own_cluster() -> None:
    (there,) = waiting_for("other", at_lab())
    assert "r1 is on the cluster other, and a job can wait only for jobs of its own cluster" in there
    assert "--sbatch=--clusters=other" in there
    (here,) = waiting_for("lab", at_lab(), sbatch=("-M other",))
    assert "submit to this machine's own cluster" in here
    for cluster, sbatch in (("other", ("-M other",)), ("lab", ()), ("", ("-M other",)), ("Lab", ())):
        run = Predecessor(run="r1", must_complete=True, site="cluster", state="PENDING", jobs=("7",), cluster=cluster)
        spec = planned(context=replace(at_lab(), predecessors=(run,)), sbatch=sbatch)
        assert dict(spec.directives)["dependency"] == "afterok:7"


def test_a_job_that_was_sent_elsewhere_is_not_on_a_cluster_whose_name_no_file_tells() -> None:
    run = Predecessor(
        run="r1", must_complete=True, site="cluster", state="PENDING", jobs=("7",), cluster="other", sent_from="lab"
    )
    (fault,) = refused(context=a_context(predecessors=(run,)))
    assert "r1 is on the cluster other" in fault.what


def test_the_number_of_a_job_says_nothing_where_several_clusters_may_have_it() -> None:
    job = Predecessor(run="job 7", must_complete=True, site="", state="UNKNOWN", jobs=("7",), is_run=False)
    (fault,) = refused(context=replace(at_lab(), predecessors=(job,)), sbatch=("-M a,b",))
    assert "job 7 may be a job of any of the clusters a,b" in fault.what
