"""What is expected of a job before anything was measured."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from hpclaunch.config.parameters import Parameter
from hpclaunch.guidelines.expected_timing import FACTOR_2
from hpclaunch.planner.fitting.machine import NodeModel, node_of
from hpclaunch.planner.job.question import Evidence, Question, trial_of
from hpclaunch.planner.job.workload import Workload, workload_of
from hpclaunch.planner.speed.prior import keeps_samples, overhead_of, prior_of, reading_on
from tests.builders import bundled_job
from tests.unit.planner.questions import PARAMETERS, a_trained_job, ask, plan_of


def parts(question: Question) -> tuple[Workload, NodeModel]:
    case, trial = question.case, trial_of(question, 1)
    assert case.job.training is not None
    node = node_of(case.site.node_types[trial.sizing.node_type], trial.sizing.layout)
    return workload_of(case.job, case.job.training, case.request.settings), node


def test_the_operations_of_a_job_give_its_fixed_time() -> None:
    question = ask(bundled_job("cifar"))
    assert question.figures is not None
    found = prior_of(question, *parts(question), question.figures)
    assert found.fixed_s == pytest.approx(10.61e-3)
    assert (found.joining_s, found.fixed_spread) == (3e-3, pytest.approx(FACTOR_2))
    unknown = ask(a_trained_job())
    assert unknown.figures is not None
    assert prior_of(unknown, *parts(unknown), unknown.figures).fixed_spread == pytest.approx(2 * FACTOR_2)


@pytest.mark.parametrize(
    ("framework", "site", "nodes", "library"),
    [
        ("tensorflow", "perlmutter", None, "Horovod"),
        ("pytorch", "perlmutter", None, "NCCL"),
        ("jax", "perlmutter", None, "NCCL"),
        ("pytorch", "lumi", None, "RCCL"),
        ("pytorch", "perlmutter", "cpu", "Gloo"),
        ("mpi", "perlmutter", None, "Horovod"),
    ],
)
def test_the_network_is_used_as_the_library_of_the_framework_does(
    framework: str, site: str, nodes: str | None, library: str
) -> None:
    question = ask(a_trained_job(), site=site, framework=framework, node_type=nodes, accept_unverified=True)
    trial = trial_of(question, 1)
    kind = question.case.site.node_types[trial.sizing.node_type]
    found = node_of(kind, trial.sizing.layout, calls_nccl=question.calls_nccl).links
    assert found.library.name == library
    fast = replace(found, node_gbytes_per_s=200)
    assert fast.between_bytes_per_s == pytest.approx({"NCCL": 140e9, "RCCL": 140e9}.get(library, 20e9))


def test_the_same_job_has_other_figures_with_another_framework() -> None:
    rates = []
    for framework in ("tensorflow", "pytorch"):
        plan = plan_of(bundled_job("resnet50"), nodes=16, framework=framework)
        assert plan.chosen is not None and plan.chosen.throughput is not None
        rates.append(plan.chosen.throughput.samples_per_s.middle)
    assert rates[1] > 1.02 * rates[0]


def test_samples_in_memory_are_those_that_the_job_says() -> None:
    assert keeps_samples(ask(bundled_job("cifar")))
    assert not keeps_samples(ask(bundled_job("cifar"), settings=(("input", "stream"),)))
    assert not keeps_samples(ask(bundled_job("cosmoflow")))
    assert not keeps_samples(ask(a_trained_job()))  # it has no such parameter
    assert "input" not in PARAMETERS and isinstance(PARAMETERS["epochs"], Parameter)


def test_nodes_that_hold_the_data_set_together_do_not_read_it_again() -> None:
    question = ask(bundled_job("cosmoflow"))
    work, node = parts(question)
    # 4.4e12 bytes in 0.6 x 256 x 2^30 a node: from 27 nodes on. Then 64 cores decode 60 MB/s each.
    assert reading_on(26, question, work, node) == pytest.approx(2e9)
    assert reading_on(27, question, work, node) == pytest.approx(3.84e9)


def test_a_measured_overhead_replaces_the_priors() -> None:
    question = ask(bundled_job("cifar"), evidence=Evidence(overhead_s=45.0))
    assert question.figures is not None
    work, _ = parts(question)
    assert overhead_of(question, work, 4, 10.0).total(12).middle == 45
    unmeasured = ask(bundled_job("cifar"))
    found = overhead_of(unmeasured, work, 4, 10.0)
    assert found.once_s.middle == pytest.approx(24 + 50_000 * 3072 / 8e9)
    assert math.isclose(found.epoch_s.middle, 0.05 * 10 + 0.1 + 3 * 4 * 486_410 / 1e9)
