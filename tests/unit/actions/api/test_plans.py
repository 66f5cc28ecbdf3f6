"""A plan can be submitted: its command and its keywords say the same."""

from __future__ import annotations

import pytest

from hpclaunch.actions.api.options import submit_request
from hpclaunch.actions.api.plans import plan_of
from hpclaunch.actions.system import System
from hpclaunch.core.errors import Fault
from hpclaunch.planner.values import Forecast
from hpclaunch.runs.typed_command import typed_command


def a_forecast(command: str = "hpclaunch submit cifar --nodes 4", **more: tuple[Fault, ...]) -> Forecast:
    return Forecast(
        job="cifar", site="x", node_type="gpu", nodes=4, typed=False, known=True, summary="s", command=command,
        settings=(("epochs", "3"),), **more,  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.mark.parametrize(
    "flags",
    [
        "--nodes 4",
        "--site x --tasks-per-node 4 --nodes 1 --set epochs=3 --set learning_rate=0.1",
        "--site x --node-type gpu --nodes 2 --walltime 02:00:00 --memory 64G --accept-unverified",
        "--site x --account a --partition p --qos q --hosts 'my hosts' --nodes 2",
    ],
)
def test_the_keywords_of_a_plan_are_the_flags_of_its_command(flags: str) -> None:
    plan = plan_of(a_forecast(f"hpclaunch submit cifar {flags}"))
    command = typed_command(submit_request(System(), plan.job, plan.options))
    assert sorted(command.split()) == sorted(f"hpclaunch submit cifar {flags}".split())


def test_a_plan_has_what_the_forecast_has() -> None:
    plan = plan_of(a_forecast())
    assert (plan.nodes, plan.settings, plan.feasible) == (4, {"epochs": "3"}, True)
    assert plan.to_json()["feasible"] is True
    refused = plan_of(a_forecast(refusals=(Fault(what="too <large>"),)))
    assert not refused.feasible
    assert "too &lt;large&gt;" in refused._repr_html_()
