"""hpclaunch: Slurm scripts, plans and launches for sharded multi-node training. Importing this imports nothing.

``hpclaunch.submit``, ``plan``, ``sweep``, ``status`` and ``run`` are loaded when they are first used.
"""

TYPE_CHECKING = False  # type checkers take this name for true; the module `typing` would be an import
if TYPE_CHECKING:
    from hpclaunch.actions.api import (
        DryRun,
        Fault,
        HpclaunchError,
        InvalidRequest,
        NotFound,
        NotRecorded,
        Plan,
        PlanOptions,
        Refused,
        Run,
        RunStatus,
        SchedulerError,
        SubmitOptions,
        Unanswered,
        plan,
        run,
        status,
        submit,
        sweep,
    )
    from hpclaunch.core.version import __version__

__all__ = [
    "DryRun",
    "Fault",
    "HpclaunchError",
    "InvalidRequest",
    "NotFound",
    "NotRecorded",
    "Plan",
    "PlanOptions",
    "Refused",
    "Run",
    "RunStatus",
    "SchedulerError",
    "SubmitOptions",
    "Unanswered",
    "__version__",
    "plan",
    "run",
    "status",
    "submit",
    "sweep",
]

if not TYPE_CHECKING:  # a type checker would allow any name

    def __getattr__(name):
        if name == "__version__":
            from hpclaunch.core import version as home
        elif name in __all__:
            from hpclaunch.actions import api as home
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = getattr(home, name)
        return globals()[name]

    def __dir__():
        return sorted({*globals(), *__all__})
