"""Where the ranks ran, and what came back to this machine."""

from __future__ import annotations

from hpclaunch.schedulers import UNOPENED_LOG
from tests.unit.actions.diagnosis.probes import SPEC, a_rank, evidence, failed


def test_a_log_folder_that_the_nodes_lack_is_named() -> None:
    (check,) = failed(evidence(ranks=[], log=None, state="FAILED", reason=UNOPENED_LOG, exit_code="0:53"))
    assert check.name == "shared paths"
    assert f"{SPEC['run_dir']}/logs does not exist on the nodes" in check.what
    assert "--runs-dir" in check.next


def test_results_that_stay_on_the_nodes_are_named() -> None:
    (check,) = failed(evidence(ranks=[], log=None))
    assert check.name == "shared paths" and "neither its log nor its files" in check.what
    found = failed(evidence(ranks=[a_rank(n) for n in range(3)]))
    assert "1 rank ran, but their files" in found[0].what


def test_too_few_ranks_and_wrong_nodes_are_named() -> None:
    checks = failed(evidence(ranks=[a_rank(n, host="n0") for n in range(4)]))
    assert "4 of 4 ranks were seen (n0 4), but 2 nodes x 2 tasks were requested" in checks[0].what
