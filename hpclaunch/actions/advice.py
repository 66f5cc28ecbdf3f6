"""Asks the planner how many nodes a case is worth, where nobody says, and under which key measurements are kept."""

from __future__ import annotations

from dataclasses import replace

from hpclaunch.core.spec import HOROVOD
from hpclaunch.planner.measured.calibrations import with_key
from hpclaunch.resolve.case import Case


def advised(case: Case) -> Case:
    """Return the case with the planner's advice. Where the nodes are given it is asked about large models only.

    It plans Horovod's runs: those of a strategy of TensorFlow get as many nodes as are typed. A job that says how it
    trains gets the key of its measurements too.
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
    from hpclaunch.planner.submission import advice_for  # 100 ms, which a typed number does not need

    figures = known_figures(case.job, case.context.environment)
    if figures is None:
        return case
    return replace(case, advice=advice_for(case, figures, evidence_for(case)))
