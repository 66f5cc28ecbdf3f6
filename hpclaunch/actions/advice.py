"""Asks the planner for the node count where no one set it, and for the key under which measurements are stored."""

from __future__ import annotations

from dataclasses import replace

from hpclaunch.core.spec import HOROVOD
from hpclaunch.planner.measured.calibrations import with_key
from hpclaunch.resolve.case import Case


def advised(case: Case) -> Case:
    """Return the case with the planner's advice and the key of its measurements.

    If the node count is given, the planner is asked only about large models. It plans only Horovod's runs: other
    strategies run on the nodes that are typed. Only a job with a ``training`` section has measurements.
    """
    training, request = case.job.training, case.request
    if training is not None:
        case = with_key(case)
    given = request.nodes is not None or case.job.resources.nodes != "auto"
    if request.strategy not in (None, HOROVOD):
        return case
    if training is None or not (training.figures or training.model) or (given and not training.large):
        return case
    from hpclaunch.planner.measured.finished_runs import evidence_for
    from hpclaunch.planner.measured.model_figures import known_figures
    from hpclaunch.planner.submission import advice_for  # takes 100 ms, which a typed node count does not need

    figures = known_figures(case.job, case.context.environment)
    if figures is None:
        return case
    return replace(case, advice=advice_for(case, figures, evidence_for(case)))
