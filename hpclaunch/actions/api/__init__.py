"""What ``import hpclaunch`` offers: the verbs of the command line as functions, by the same steps. Prints nothing."""

from hpclaunch.actions.api.options import PlanOptions
from hpclaunch.actions.api.plans import Plan
from hpclaunch.actions.api.submitted import RunStatus
from hpclaunch.actions.api.submitted import SubmittedRun as Run
from hpclaunch.actions.api.verbs import DryRun, plan, run, status, submit, sweep
from hpclaunch.core.errors import (
    Fault,
    HpclaunchError,
    InvalidRequest,
    NotFound,
    NotRecorded,
    Refused,
    SchedulerError,
    Unanswered,
)
from hpclaunch.core.spec import SubmitOptions

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
    "plan",
    "run",
    "status",
    "submit",
    "sweep",
]
