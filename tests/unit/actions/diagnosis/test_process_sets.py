"""The process sets that ranks proved: what the check says, and which all-reduces a plan takes."""

from __future__ import annotations

from typing import Any

import pytest

from hpclaunch.actions.clusters.diagnosis import diagnose
from hpclaunch.actions.clusters.diagnosis.process_sets import inside_report
from tests.unit.actions.diagnosis.probes import a_rank, evidence, failed, with_ranks
from tests.unit.actions.diagnosis.test_all_reduce import FACTS

GROUPS = [[0, 1], [0, 2], [1, 3], [2, 3]]


def proved(**changes: Any) -> Any:
    sets = {"groups": GROUPS, "shared_by": 2, "inside": FACTS, **changes}
    return evidence(ranks=with_ranks(all_reduce=FACTS, process_sets=sets))


def check_of(found: Any) -> Any:
    return next((check for check in diagnose(found) if check.name == "process sets"), None)


def test_the_check_names_the_groups_and_their_times() -> None:
    check = check_of(proved())
    assert (check.verdict, check.what) == (
        "PASS",
        "4 groups of 2 ranks, each with its own sum; in a node 6.67 GB/s, latency 50 us",
    )
    found = inside_report(proved())
    assert found is not None and (found.group.nodes, found.group.per_node) == (1, 2)


def test_a_wrong_sum_is_one_sentence() -> None:
    words = "ArithmeticError: the ranks 0, 2 added 5 in their process set, not 4"
    (check,) = failed(evidence(ranks=with_ranks(step="process_sets", problem=words), state="FAILED", exit_code="1:0"))
    assert (check.name, check.what) == ("process sets", words)
    assert check.next == "models that ranks share need them; all other jobs can run"


def test_a_group_that_is_a_part_of_a_node_tells_no_plan_the_speed_of_its_node() -> None:
    assert inside_report(proved(shared_by=4)) is None
    assert inside_report(proved(inside=None)) is None


@pytest.mark.parametrize("facts", [{}, None])
def test_without_groups_nothing_is_said(facts: dict[str, Any] | None) -> None:
    ranks = [a_rank(number) if facts is None else a_rank(number, process_sets=facts) for number in range(4)]
    assert check_of(evidence(ranks=ranks)) is None
