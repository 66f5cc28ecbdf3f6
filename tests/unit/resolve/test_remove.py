"""Row 16: a site, a user or a project can take any line out, and put any sbatch option in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.config.fileformat import Environment
from hpclaunch.config.settings import Settings, SiteSettings
from hpclaunch.config.site import LauncherOptions, Launchers, WholeNode
from tests.builders import a_job, a_site, planned, refused

SETUP = Environment(modules=("tf/2",), setup=("ulimit -n 4096",), variables={"MINE": "1"})


def kept(item: str, **typed: Any) -> Any:
    """The plan with a user's settings that remove ``item``."""
    return planned(job=a_job(environment=SETUP), users=Settings(remove=(item,)), **typed)


def whole() -> Any:
    return planned(job=a_job(environment=SETUP))


def no_such_line(spec: Any) -> bool:
    return any(warning.startswith("remove: this script has no line") for warning in spec.warnings)


def test_row_16_a_directive_is_removed() -> None:
    spec = kept("--open-mode")
    assert spec.directives == tuple(pair for pair in whole().directives if pair[0] != "open-mode")
    assert len(spec.directives) == len(whole().directives) - 1
    assert not no_such_line(spec)


def test_row_16_an_option_is_removed_from_directives_and_srun_alike() -> None:
    spec = kept("--cpus-per-task")
    assert "cpus-per-task" not in dict(spec.directives)
    assert not [word for word in spec.launch if "cpus-per-task" in word]


def test_row_16_an_option_of_srun_is_removed() -> None:
    assert kept("--mpi").launch == tuple(word for word in whole().launch if word != "--mpi=pmix")
    assert kept("--mpi").directives == whole().directives


def test_row_16_an_option_is_removed_by_its_whole_name_only() -> None:
    spec = kept("--ntasks")
    assert "ntasks-per-node" in dict(spec.directives)
    assert [word for word in spec.launch if word.startswith("--ntasks")] == ["--ntasks-per-node=4"]


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ("--bind-to", "--bind-to none"),
        ("--map-by", "--map-by ppr:4:node"),
        ("-mca", "-mca pml ob1 -mca btl ^openib"),
        ("OMP_NUM_THREADS", "-x OMP_NUM_THREADS"),
        ("MINE", "-x MINE"),
    ],
)
def test_row_16_mpiruns_options_and_variables_go_with_their_values(item: str, words: str) -> None:
    spec = planned(job=a_job(environment=SETUP), launcher="mpirun")
    assert words in " ".join(spec.launch)
    left = " ".join(kept(item, launcher="mpirun").launch)
    assert left.split() == " ".join(spec.launch).replace(words, "").split()


def test_row_16_a_variable_is_removed() -> None:
    spec = kept("OMP_NUM_THREADS")
    assert dict(spec.environment) == {k: v for k, v in whole().environment if k != "OMP_NUM_THREADS"}


def test_row_16_a_line_of_set_up_is_removed() -> None:
    assert [step.line for step in kept("module load tf/2").steps] == ["ulimit -n 4096"]
    assert [step.line for step in kept("ulimit -n 4096").steps] == ["module load tf/2"]


@pytest.mark.parametrize("item", ["CUDA_VISIBLE_DEVICES", "export FIRST=1", "check_gpus any 1 || return 78"])
def test_row_16_a_line_of_the_ranks_is_removed(item: str) -> None:
    node = a_site().node_types["gpu"]
    order = WholeNode(variables={"CUDA_VISIBLE_DEVICES": "3,2,1,0"})
    site = a_site(node_types={"gpu": replace(node, rank_setup=("export FIRST=1",), whole_node=order)})
    lines = ("export FIRST=1", "export CUDA_VISIBLE_DEVICES=3,2,1,0", "check_gpus any 1 || return 78")
    assert planned(site).rank_setup == lines
    assert planned(site, users=Settings(remove=(item,))).rank_setup == tuple(line for line in lines if item not in line)


@pytest.mark.parametrize("name", ["HPCLAUNCH_WORLD_SIZE", "HPCLAUNCH_RUN_DIR", "HPCLAUNCH_ANYTHING"])
def test_what_the_ranks_need_cannot_be_removed(name: str) -> None:
    (fault,) = refused(users=Settings(remove=(name,)))
    assert fault.what.startswith(f"{name} cannot be removed")


@pytest.mark.parametrize("item", ["--no-such", "NO_SUCH", "module load no/such", "open-mode", "--open"])
def test_what_is_in_no_line_is_warned_of(item: str) -> None:
    spec = kept(item)
    assert f"remove: this script has no line {item!r}" in spec.warnings
    assert replace(spec, warnings=()) == replace(whole(), warnings=())


def test_row_16_site_user_and_user_at_a_site_all_remove() -> None:
    users = Settings(remove=("--export",), sites={"cluster": SiteSettings(remove=("--no-requeue",))})
    names = dict(planned(a_site(remove=("--open-mode",)), users=users).directives)
    assert {"export", "no-requeue", "open-mode"}.isdisjoint(names)
    elsewhere = Settings(sites={"elsewhere": SiteSettings(remove=("--export",))})
    assert "export" in dict(planned(users=elsewhere).directives)


def test_row_16_a_removed_option_can_be_said_otherwise() -> None:
    site = a_site(remove=("--gpus-per-node",), sbatch=("--gres=lustre:1",))
    names = dict(planned(site).directives)
    assert "gpus-per-node" not in names and names["gres"] == "lustre:1"


def test_row_16_what_is_typed_outlives_a_removal() -> None:
    users = Settings(remove=("--comment", "--hold"))
    spec = planned(a_site(sbatch=("--comment=site", "--hold")), users=users, sbatch=("--comment=typed",))
    assert ("comment", "typed") in spec.directives
    assert "hold" not in dict(spec.directives)


@pytest.mark.parametrize("item", ["mpirun", "none", "4", "ob1"])
def test_a_word_of_the_launcher_that_is_no_option_stays(item: str) -> None:
    assert kept(item, launcher="mpirun").launch == planned(job=a_job(environment=SETUP), launcher="mpirun").launch


def test_row_16_the_program_after_srun_is_not_taken_for_a_value() -> None:
    site = a_site(launchers=Launchers(default="srun", options={"srun": LauncherOptions(extra=("--exclusive",))}))
    launch = planned(site, users=Settings(remove=("--exclusive",)), launcher="torchrun").launch
    assert "torchrun" in launch and "--exclusive" not in launch


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ("--bind-to", ("--bind-to", "none")),
        ("--map-by", ("--map-by", "ppr:4:node")),
        ("-mca", ("-mca", "pml", "ob1", "-mca", "btl", "^openib")),
        ("OMP_NUM_THREADS", ("-x", "OMP_NUM_THREADS")),
    ],
)
def test_row_16_an_option_of_mpirun_is_removed_with_its_values(item: str, words: tuple[str, ...]) -> None:
    before = planned(job=a_job(environment=SETUP), launcher="mpirun").launch
    place = before.index(words[1]) - 1
    assert kept(item, launcher="mpirun").launch == before[:place] + before[place + len(words) :]
