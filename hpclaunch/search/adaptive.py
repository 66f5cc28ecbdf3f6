"""Trials that Optuna proposes or ends early: its samplers and pruners, and the journal file that all workers share."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from typing import Any

from hpclaunch.core.errors import Fault, Refused
from hpclaunch.search.events import COMPLETED, PRUNED
from hpclaunch.search.space import Dimension, Values
from hpclaunch.search.terms import ADAPTIVE, MAXIMIZE, MINIMIZE, SearchTerms

INSTALL = "pip install 'hpclaunch[search]'"


def missing_optuna(terms: SearchTerms) -> list[Fault]:
    """Return why these terms cannot be met here: they need Optuna, and this Python has none."""
    if not terms.needs_optuna or importlib.util.find_spec("optuna"):
        return []
    cause = f"the sampler {terms.sampler}" if terms.sampler in ADAPTIVE else f"the pruner {terms.pruner}"
    what = f"{cause} is one of Optuna's, which the Python of hpclaunch does not have"
    return [Fault(what=what, next=f"{INSTALL}; or --sampler random, without a pruner")]


class Study:
    """A study of Optuna for a search. Its journal file has an open-file lock, which holds on NFS and Lustre too."""

    def __init__(self, terms: SearchTerms, journal: Path, worker: int) -> None:
        faults = missing_optuna(terms)
        if faults:
            raise Refused(faults)
        import optuna
        from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._optuna, self._terms = optuna, terms
        self._distributions = {one.name: distribution_of(optuna, one) for one in terms.space.dimensions}
        self._fixed = _fixed_sampler(optuna)
        self._sampler = _sampler(optuna, terms, worker) if terms.sampler in ADAPTIVE else self._fixed
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            backend = JournalFileBackend(str(journal), lock_obj=JournalFileOpenLock(str(journal)))
            self._study = optuna.create_study(
                storage=optuna.storages.JournalStorage(backend),
                study_name="search",
                direction=MINIMIZE if terms.is_minimized else MAXIMIZE,
                sampler=self._sampler,
                pruner=_pruner(optuna, terms.pruner),
                load_if_exists=True,
            )
        self._open: dict[int, Any] = {}

    def ask(self, values: Values | None) -> tuple[Values, int]:
        """Return the values of a trial and its number in the study; ``values`` are given ones, None: the sampler's."""
        if values is None:
            trial = self._study.ask(self._distributions)
            values = self._untried_in_place_of(trial)
            if values is None:
                self._open[trial.number] = trial
                return dict(trial.params), trial.number
            self._study.tell(trial.number, state=self._optuna.trial.TrialState.FAIL)
        self._fixed.values = values
        self._study.sampler = self._fixed
        trial = self._study.ask(self._distributions)
        self._study.sampler = self._sampler
        self._open[trial.number] = trial
        return values, trial.number

    def _untried_in_place_of(self, trial: Any) -> Values | None:
        """Return another combination if the space is finite and this one was tried already; else None."""
        space = self._terms.space
        if space.count is None:
            return None
        failed = self._optuna.trial.TrialState.FAIL
        others = [one for one in self._study.get_trials(deepcopy=False) if one.state != failed]
        tried = {_key(one.params) for one in others if one.number != trial.number}
        if _key(trial.params) not in tried:
            return None
        left = (space.at(number) for number in range(space.count))
        return next((values for values in left if _key(values) not in tried), None)

    def report(self, number: int, step: int, value: float) -> bool:
        """Report an intermediate value of an open trial; whether the trial should end now."""
        trial = self._open.get(number)
        if trial is None:
            return False
        trial.report(value, step)
        return bool(trial.should_prune())

    def tell(self, number: int, state: str, value: float | None) -> None:
        """Record the end of a trial; an end without a value teaches the sampler nothing."""
        self._open.pop(number, None)
        states = self._optuna.trial.TrialState
        if state == COMPLETED and value is not None:
            self._study.tell(number, value)
        else:
            self._study.tell(number, state=states.PRUNED if state == PRUNED else states.FAIL)


def _key(values: Values) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, repr(value)) for name, value in values.items()))


def distribution_of(optuna: Any, one: Dimension) -> Any:
    """Return a dimension as Optuna knows it; a normal one, which only a random search has, as any number."""
    kinds = optuna.distributions
    if one.values:
        return kinds.CategoricalDistribution(one.values)
    if one.deviation is not None:
        return kinds.FloatDistribution(-1e300, 1e300)
    count = one.count
    high = one.at(count - 1) if count is not None else one.high  # the last step, which Optuna wants as the end
    if one.whole:
        step = int(one.step) or 1
        return kinds.IntDistribution(int(one.low or 0), high, log=one.log, step=step)
    return kinds.FloatDistribution(one.low, high, log=one.log, step=one.step or None)


def _sampler(optuna: Any, terms: SearchTerms, worker: int) -> Any:
    seed = terms.seed + worker - 1  # workers with the same seed would propose the same trials
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        if terms.sampler == "tpe":
            return optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        if terms.sampler == "cmaes":
            return optuna.samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False)
        return optuna.samplers.NSGAIISampler(seed=seed)


def _pruner(optuna: Any, name: str) -> Any:
    pruners = optuna.pruners
    return {
        "": pruners.NopPruner,
        "median": pruners.MedianPruner,
        "percentile": lambda: pruners.PercentilePruner(25.0),
        "halving": pruners.SuccessiveHalvingPruner,
        "hyperband": pruners.HyperbandPruner,
    }[name]()


def _fixed_sampler(optuna: Any) -> Any:
    """Return a sampler that proposes the values in its attribute ``values``."""

    class Fixed(optuna.samplers.BaseSampler):  # type: ignore[misc]
        values: Values = {}

        def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
            return {}

        def sample_relative(self, study: Any, trial: Any, search_space: Any) -> dict[str, Any]:
            return {}

        def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
            return self.values[param_name]

    return Fixed()
