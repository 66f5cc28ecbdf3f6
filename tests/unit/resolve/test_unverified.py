"""Values that are not the centre's own word are marked, and essential ones that are missing need consent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.config.fileformat import Environment
from hpclaunch.config.limits import Limits
from hpclaunch.config.site import Container, Site
from hpclaunch.render import render
from tests.builders import ROOTS, a_desk, a_job, a_site, bundled_site, planned, refused

THIRD = "Found only in users' files, not on the centre's own pages: "
LAUNCHER = "Not verified for this site: the launcher; Slurm's default is used (srun)."
GPUS = "Not verified for this site: the GPU option; Slurm's default is used (--gpus-per-node)."


def lacking(**missing: Any) -> Site:
    return a_site(**dict.fromkeys(missing), unverified={key: why for key, why in missing.items() if why})


@pytest.mark.parametrize(
    ("site", "what", "taken"),
    [
        (lacking(launchers="two pages differ"), "the launcher is not verified for cluster (two pages differ)", "srun"),
        (lacking(launchers=""), "the launcher is not verified for cluster", "srun"),
        (lacking(gpus="not seen"), "the GPU option is not verified for cluster (not seen)", "--gpus-per-node"),
    ],
)
def test_an_essential_key_that_is_missing_is_refused_without_consent(site: Site, what: str, taken: str) -> None:
    (fault,) = refused(site)
    assert fault.what == what
    assert fault.next.startswith(f"pass --accept-unverified to use Slurm's default ({taken}), or write '")


def test_all_missing_keys_are_told_at_once() -> None:
    assert len(refused(lacking(launchers="", gpus=""))) == 2


def test_with_consent_slurms_usual_way_is_taken_and_marked() -> None:
    spec = planned(lacking(launchers="", gpus=""), accept_unverified=True)
    assert spec.launch[0] == "srun"
    assert dict(spec.directives)["gpus-per-node"] == "4"
    assert spec.unverified == (LAUNCHER, GPUS)
    header = render(spec, ROOTS).split("#SBATCH")[0].splitlines()
    assert {f"# {LAUNCHER}", f"# {GPUS}"} <= set(header)


def test_how_gpus_are_asked_for_does_not_matter_where_none_are() -> None:
    assert planned(lacking(gpus=""), node_type="cpu").unverified == ()
    assert planned(lacking(gpus=""), gpus_per_node=0, tasks_per_node=1).unverified == ()


def test_a_site_without_a_scheduler_has_no_usual_way() -> None:
    assert planned(a_desk(launchers=None), launcher="direct").unverified == ()


@pytest.mark.parametrize(
    ("third_party", "marked"),
    [
        (("partitions.batch",), "partitions.batch"),
        (("partitions.batch.max_nodes",), "partitions.batch.max_nodes"),
        (("partitions",), "partitions"),
        (("partitions.debug",), ""),
        (("node_types.gpu.cores_per_node",), "node_types.gpu.cores_per_node"),
        (("node_types.cpu",), ""),
        (("launchers",), "launchers"),
        (("launchers.options.srun",), "launchers.options.srun"),
        (("launchers.options.mpirun",), ""),
        (("qos.low", "gpus"), "qos.low, gpus"),
        (("detect", "notes", "container"), ""),
    ],
)
def test_third_party_values_are_marked_where_the_script_uses_them(third_party: tuple[str, ...], marked: str) -> None:
    site = a_site(third_party=third_party, qos={"low": Limits(), "high": Limits()})
    spec = planned(site, qos="low")
    assert spec.unverified == ((THIRD + marked,) if marked else ())
    assert (f"# {THIRD}" in render(spec, ROOTS)) is bool(marked)


def test_torchrun_is_started_as_the_sites_srun_is() -> None:
    site = a_site(third_party=("launchers.options.srun",))
    assert planned(site, launcher="torchrun").unverified == (f"{THIRD}launchers.options.srun",)


def test_a_third_party_container_is_marked_where_one_is_used() -> None:
    site = a_site(third_party=("container",), container=Container(runtime="apptainer"))
    assert planned(site).unverified == ()
    assert planned(site, a_job(environment=Environment(container="x.sif"))).unverified == (f"{THIRD}container",)


def test_marks_are_part_of_the_spec() -> None:
    document = planned(a_site(third_party=("gpus",))).to_json()
    assert document["unverified"] == (f"{THIRD}gpus",)


def test_perlmutters_script_says_what_only_users_files_say() -> None:
    site = bundled_site("perlmutter")
    (mark,) = planned(site, account="m1").unverified
    assert "qos.regular.max_walltime" in mark and "qos.debug" not in mark
    (mark,) = planned(site, account="m1", qos="debug").unverified
    assert "qos.debug.max_nodes" in mark and "qos.regular" not in mark


def test_a_mark_cannot_end_the_comment_that_it_stands_in() -> None:
    spec = replace(planned(), unverified=("a\n#SBATCH --nodes=99",))
    assert "# a #SBATCH --nodes=99\n" in render(spec, ROOTS)
