"""The variables of the ranks, against the script's."""

from __future__ import annotations

from hpclaunch.actions.clusters.diagnosis import diagnose
from tests.unit.actions.diagnosis.probes import PROMISED, SPEC, evidence, failed, with_ranks


def test_variables_that_changed_on_their_way_are_named() -> None:
    changed = {**PROMISED, "OMP_NUM_THREADS": "1"}
    (check,) = failed(evidence(ranks=with_ranks(variables=changed)))
    assert check.name == "environment" and "OMP_NUM_THREADS='1'" in check.what


def test_a_variable_of_the_submitting_shell_among_the_ranks_is_a_warning() -> None:
    spec = {**SPEC, "directives": [["export", "NONE"]]}
    checks = diagnose(evidence(spec=spec, ranks=with_ranks(strays=["MARK"])))
    assert "in spite of --export=NONE" in next(one.what for one in checks if one.verdict == "WARN")
    allowed = diagnose(evidence(spec={**SPEC, "directives": []}, ranks=with_ranks(strays=["MARK"])))
    assert {check.verdict for check in allowed} == {"PASS"}
