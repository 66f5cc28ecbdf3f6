"""The framework of a run's program, which chooses the site's software and the launchers that can start its ranks."""

from __future__ import annotations

from hpclaunch.config.job import TRAINING_LIBRARY
from hpclaunch.core.errors import did_you_mean
from hpclaunch.core.spec import FRAMEWORKS, HOROVOD, JAX, MPI, NO_FRAMEWORK, PYTORCH, TENSORFLOW, Layout
from hpclaunch.launchers import LAUNCHERS
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions

_IMPORTED = {
    "tensorflow": TENSORFLOW,
    "horovod": TENSORFLOW,
    TRAINING_LIBRARY: TENSORFLOW,
    "torch": PYTORCH,
    "torchvision": PYTORCH,
    "torchaudio": PYTORCH,
    "lightning": PYTORCH,
    "pytorch_lightning": PYTORCH,
    "accelerate": PYTORCH,
    "deepspeed": PYTORCH,
    "timm": PYTORCH,
    "jax": JAX,
    "flax": JAX,
    "optax": JAX,
    "mpi4py": MPI,
    f"{TRAINING_LIBRARY}.on_pytorch": PYTORCH,
    f"{TRAINING_LIBRARY}.on_jax": JAX,
}
"""Python modules -> the framework of a script that imports them."""

PACKAGES = {TENSORFLOW: ("tensorflow", "horovod"), PYTORCH: ("torch",), JAX: ("jax",), MPI: ("mpi4py",)}
"""Framework -> the packages that a program of it needs."""
_PACKAGES_OF_MODULE = {TRAINING_LIBRARY: PACKAGES[TENSORFLOW]}


def stated_framework(case: Case) -> tuple[str, str | None]:
    """Return (origin, framework): the typed one, that of the job, or that of the modules which a script imports."""
    found = _imported_frameworks(case)
    by_import = next(iter(found)) if len(found) == 1 else None
    modules = ", ".join(found[by_import]) if by_import else ""
    offers = (("--framework", case.request.framework), ("job", case.job.framework), (f"imports {modules}", by_import))
    return next(((origin, value) for origin, value in offers if value is not None), ("", None))


def needs_reading(case: Case) -> bool:
    """Whether neither a person nor the first look at a script tells the framework, so that its source must be read."""
    return stated_framework(case)[1] is None


def _imported_frameworks(case: Case) -> dict[str, list[str]]:
    """Return the frameworks that a program imports, each with the modules that show it."""
    found: dict[str, list[str]] = {}
    names = _modules_of(case)
    of_torch = "horovod.torch" in names and not {"horovod.tensorflow", "horovod.keras"} & {*names}
    for name in names:
        framework = PYTORCH if name == HOROVOD and of_torch else _IMPORTED.get(name)
        if framework:
            found.setdefault(framework, []).append(name)
    if len(found) > 1:
        found.pop(MPI, None)  # mpi4py is also what other frameworks use beside their own
    if TRAINING_LIBRARY in names:
        found = {TENSORFLOW: found[TENSORFLOW]}  # it trains with TensorFlow, whatever else the program imports
    return found


def _modules_of(case: Case) -> tuple[str, ...]:
    """Return the modules of others that a program may import."""
    names = dict.fromkeys((*case.job.imports, *(case.job.may_import or ())))
    if any(name.startswith(f"{TRAINING_LIBRARY}.on_") for name in names):
        names.pop(TRAINING_LIBRARY, None)  # what this program imports is not the one for TensorFlow
    return tuple(names)


def uses_horovod(case: Case) -> bool:
    """Whether the ranks find each other through Horovod.

    A script's imports tell it: the training library imports Horovod, too. Any other program of TensorFlow may use it.
    """
    job, (origin, framework) = case.job, stated_framework(case)
    if case.request.strategy not in (None, HOROVOD) or (origin, framework) == ("--framework", NO_FRAMEWORK):
        return False
    if {HOROVOD, TRAINING_LIBRARY} & {*_modules_of(case)}:
        return True
    if job.source_only and origin != "--framework":
        return False
    return framework in (None, TENSORFLOW)


def refusal_of(case: Case, launcher: str, framework: str | None) -> tuple[str, str] | None:
    """Return (framework or Horovod, reason) if the ranks could not find each other under a launcher, else None."""
    refuses = LAUNCHERS[launcher].refuses
    ways = [framework or "", *([HOROVOD] if uses_horovod(case) else [])]
    return next(((way.replace(HOROVOD, "Horovod"), refuses[way]) for way in ways if way in refuses), None)


def framework_of(case: Case, layout: Layout, launcher: str, decisions: Decisions) -> str:
    """Return the framework's name; a fault where its ranks cannot find each other under the launcher.

    Where nothing states it: that of the launcher, none for a program of one's own (what is not known of it is said),
    TensorFlow for a job whose program nobody has looked at.
    """
    row = LAUNCHERS[launcher]
    origin, framework = stated_framework(case)
    if framework is None and row.usual_framework:
        origin, framework = launcher, row.usual_framework
    if framework is None and (case.job.source_only or case.job.may_import is not None):
        origin, framework = _origin_of_none(case), NO_FRAMEWORK
        _warn_of_unread(case, decisions)
    if framework is not None and framework not in FRAMEWORKS:
        near = did_you_mean(framework, FRAMEWORKS)
        decisions.fault(f"no framework is called {framework!r}{near}", where=origin, allowed=", ".join(FRAMEWORKS))
        return NO_FRAMEWORK
    if framework not in (None, TENSORFLOW) or origin == "--framework":
        decisions.pick("framework", (origin, framework))
    refusal = refusal_of(case, launcher, framework)
    if layout.world_size > 1 and refusal:
        _refuse(case, launcher, framework, refusal, decisions)
    if layout.world_size > 1 and framework and framework in row.asks and not case.job.uses_library:
        decisions.warnings.append(f"under the launcher {launcher}, {row.asks[framework]}")
    return framework or TENSORFLOW


def _origin_of_none(case: Case) -> str:
    if not case.job.script and not case.job.may_import:
        return "a program of your own"
    several = [name for names in _imported_frameworks(case).values() for name in names]
    return f"imports {' and '.join(several)}" if several else "imports none"


def _warn_of_unread(case: Case, decisions: Decisions) -> None:
    """Say what is not known of a program's framework, where that decides which software of the site it gets."""
    several = _imported_frameworks(case)
    names = [" and ".join(modules) for modules in several.values()]
    reason = f"the program imports {' and '.join(names)}" if several else case.job.unread
    levels = (case.settings.environment_at(case.site.name), case.job.environment)
    request = case.request
    has_own = request.venv or request.conda or request.python or any(level.has_python for level in levels)
    offered = [name for name in FRAMEWORKS if _is_offered(case, name)]
    if reason and offered and not has_own:
        choices = [f"--framework {name}" for name in (several or (*offered, NO_FRAMEWORK))]
        decisions.warnings.append(
            f"no framework of {case.site.name} is loaded: {reason}; {' or '.join(choices)} settles it"
        )


def _is_offered(case: Case, framework: str) -> bool:
    nodes = case.site.node_types.values()
    return framework in case.site.frameworks or any(framework in node.frameworks for node in nodes)


def packages_of(case: Case) -> tuple[str, ...]:
    """Return the packages that the ranks' Python must have: those of a Python program whose needs are known.

    A script needs the frameworks that it imports; a job needs those that its file names: ``framework`` and
    ``packages``. Horovod is needed by jobs whose ranks hpclaunch trains (``training``), unless a strategy of TensorFlow
    is typed; another program may use TensorFlow alone.
    """
    job = case.job
    if job.script is None:
        return ()
    if job.source_only:
        imported = [name for name in job.imports if name in _IMPORTED]
        return tuple(dict.fromkeys(package for name in imported for package in _PACKAGES_OF_MODULE.get(name, (name,))))
    packages = PACKAGES.get(job.framework or "", ())
    all_needed = job.training and case.request.strategy in (None, HOROVOD)
    return tuple(dict.fromkeys((*(packages if all_needed else packages[:1]), *job.packages)))


def _refuse(case: Case, launcher: str, framework: str | None, refusal: tuple[str, str], decisions: Decisions) -> None:
    offered = case.site.launchers.options if case.site.launchers else (case.site.scheduler_row.usual_launcher,)
    fit = [name for name in offered if refusal_of(case, name, framework) is None]
    other = f"--launcher {fit[0]}; or " if fit else ""
    decisions.fault(
        f"{launcher} cannot start ranks of {refusal[0]}: {refusal[1]}",
        next=f"{other}--framework none, if the ranks need not find each other",
        subject="MPI",
    )
