"""The trials of a search on the nodes of its allocation: what each gets, and what cannot be divided."""

from __future__ import annotations

from typing import Any

import pytest

from hpclaunch.config.fileformat import Environment
from hpclaunch.config.site import Container
from tests.builders import a_desk, a_job, a_site, bundled_site, planned, refused


def test_a_node_is_divided_among_its_trials_and_each_is_one_rank() -> None:
    spec = planned(bundled_site("perlmutter"), account="m1", qos="regular", nodes=4, search=("lr",), at_once=16)
    assert spec.trials is not None
    assert (spec.trials.per_node, spec.trials.cpus, spec.trials.gpus) == (4, 32, 1)
    assert (spec.layout.nodes, spec.layout.tasks_per_node, spec.layout.cpus_per_task) == (4, 1, 128)
    environment = dict(spec.environment)
    assert environment["HPCLAUNCH_WORLD_SIZE"] == "1"
    assert environment["OMP_NUM_THREADS"] == "16"
    assert spec.rank_identity == ()
    assert not any("CUDA_VISIBLE_DEVICES" in line for line in spec.rank_setup), "a trial has only one of the GPUs"


def test_the_workers_start_without_mpi_and_one_leaves_the_others_alone() -> None:
    launch = planned(a_site(), nodes=4, search=("lr",), at_once=8).launch
    assert launch[0] == "srun"
    assert {"--nodes=4", "--ntasks=4", "--mpi=none", "--wait=0"} <= {*launch}
    assert launch.index("--kill-on-bad-exit=0") > launch.index("--kill-on-bad-exit=1"), "the last one counts"


def test_on_one_node_and_without_a_scheduler_the_script_itself_starts_the_worker() -> None:
    for site in (a_site(), a_desk()):
        spec = planned(site, search=("lr",), at_once=2)
        assert (spec.launcher, spec.launch) == ("direct", ())


def test_without_a_number_every_gpu_has_a_trial_or_every_node() -> None:
    trials = planned(a_site(), nodes=2, search=("lr",)).trials
    assert trials is not None and trials.per_node == 4
    trials = planned(a_site(), nodes=2, node_type="cpu", search=("lr",)).trials
    assert trials is not None and (trials.per_node, trials.cpus) == (1, 32)


def test_the_values_stand_where_those_of_a_sweep_do() -> None:
    job = a_job(parameters={})
    trials = planned(a_site(), job, search=("lr", "n"), arguments=("--out", "x{n}")).trials
    assert trials is not None
    assert (trials.free, trials.filled, trials.arguments) == (True, ("n",), 2)


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ({"nodes": 4, "at_once": 10}, "10 trials cannot be divided evenly among 4 nodes"),
        ({"at_once": 5}, "5 trials on a node would share 4 GPUs"),
        ({"at_once": 33, "gpus_per_node": 0}, "33 trials on a node would share 32 CPUs"),
    ],
)
def test_what_cannot_be_divided_is_refused(typed: dict[str, Any], text: str) -> None:
    assert text in [fault.what for fault in refused(search=("lr",), **typed)]


def test_gpus_that_no_trial_gets_are_named() -> None:
    assert any(
        "1 of the 4 GPUs of every node stay idle" in text for text in planned(search=("lr",), at_once=3).warnings
    )


def test_a_container_that_only_srun_enters_has_no_place_for_a_worker() -> None:
    job = a_job(environment=Environment(container="/images/tf.sqsh"))
    faults = refused(a_site(container=Container(runtime="pyxis")), job, nodes=2, search=("lr",))
    assert any("start outside of the container" in fault.what for fault in faults)
