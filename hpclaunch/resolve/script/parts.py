"""What is decided of a run, in the order in which the decisions depend on each other; no line of a script yet."""

from __future__ import annotations

from hpclaunch.core.records import record
from hpclaunch.core.spec import Layout, Restarts, Sweep
from hpclaunch.core.spec_parts import Broadcast, DataNeed, TrialLayout
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.environment.broadcast import broadcast_of
from hpclaunch.resolve.environment.folders import data_need, private_faults
from hpclaunch.resolve.environment.framework import framework_of
from hpclaunch.resolve.environment.software import Software, software_of
from hpclaunch.resolve.environment.unverified import third_party_of, unverified_of
from hpclaunch.resolve.nodes.restarts import restarts_of, with_signals
from hpclaunch.resolve.nodes.sizing import Sizing, check_components, sizing_of
from hpclaunch.resolve.program.compatible_settings import check_effects, check_options
from hpclaunch.resolve.program.division import check_update_groups
from hpclaunch.resolve.program.sweep import restarts_in_array, sweep_of, workers_of
from hpclaunch.resolve.program.trials import layout_of_trial, trials_of
from hpclaunch.resolve.ranks.gpu_view import gpu_view_of
from hpclaunch.resolve.ranks.launch import check_software_has, launcher_of
from hpclaunch.resolve.script.clusters import clusters_of
from hpclaunch.resolve.strategies import can_divide, strategy_of

_WORDS = {True: "yes", False: "no", None: None}


@record
class Parts:
    """What was decided of a run. ``unverified``: remarks on site values that the centre's own pages do not confirm."""

    sizing: Sizing
    launcher: str
    gpu_view: str
    software: Software
    data: DataNeed | None
    unverified: tuple[str, ...]
    sweep: Sweep | None
    strategy: str
    restarts: Restarts
    broadcast: Broadcast | None
    samples: bool
    trials: TrialLayout | None = None
    clusters: str = ""

    @property
    def rank_layout(self) -> Layout:
        """The layout that the ranks of a program see: in a search that of one trial."""
        return layout_of_trial(self.sizing.layout, self.trials)


def parts_of(case: Case, decisions: Decisions) -> Parts:
    """Return the parts; every reason to refuse the request becomes a fault in the decisions."""
    sizing = sizing_of(case, decisions)
    check_components(case, sizing, decisions)
    launcher = launcher_of(case, sizing.layout, decisions)
    trials = trials_of(case, sizing.layout, decisions)
    own = layout_of_trial(sizing.layout, trials)
    framework = framework_of(case, own, launcher, decisions)
    software = software_of(case, sizing, framework, decisions)
    if software.is_the_sites:
        check_software_has(case, launcher, framework, decisions)
    data = data_need(case, decisions)
    private_faults(case, software.python, data, decisions)
    third_party = third_party_of(case.site, sizing, launcher, software)
    unverified = unverified_of(case, sizing.layout, decisions)
    sweep = (workers_of if case.request.search else sweep_of)(case, launcher, sizing.layout, decisions)
    strategy = strategy_of(case, own, launcher, decisions)
    if can_divide(case.job):
        from hpclaunch.resolve.program.division import check_split  # few jobs divide their model

        check_split(case, own, launcher, decisions, sweep)
    check_update_groups(case, own, decisions, sweep)
    check_options(case, strategy, decisions, sweep)
    check_effects(case, decisions, sweep)
    restarts = restarts_of(case, sizing.restart_request, sizing.placement.walltime, decisions)
    restarts = restarts_in_array(case.site, restarts, sweep, decisions)
    return Parts(
        sizing=sizing,
        launcher=launcher,
        gpu_view=gpu_view_of(case, sizing, launcher, framework, decisions),
        software=software,
        data=data,
        unverified=(*third_party, *unverified),
        sweep=sweep,
        strategy=strategy,
        restarts=with_signals(restarts, launcher, sizing.layout),
        broadcast=broadcast_of(case, sizing.layout, software, launcher, decisions),
        samples=has_samples(case, decisions),
        trials=trials,
        clusters=clusters_of(case, sizing.placement, software, decisions),
    )


def has_samples(case: Case, decisions: Decisions) -> bool:
    """Return whether the nodes are measured: as typed, else as in the settings or the site file, else they are."""
    origin, wanted = case.settings.offer("samples", case.site.name)
    chosen = decisions.pick(
        "samples",
        ("--samples" if case.request.samples else "--no-samples", _WORDS[case.request.samples]),
        (origin, _WORDS[wanted]),
        (f"site {case.site.name}", _WORDS[case.site.samples]),
        ("default", "yes"),
    )
    return chosen == "yes"
