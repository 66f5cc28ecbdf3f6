"""The flag ``--since``: its type, and how its text is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hpclaunch.core.errors import Fault, InvalidRequest
from hpclaunch.core.units import WALLTIME_FORMS, parse_walltime

if TYPE_CHECKING:
    from datetime import datetime

Since = Annotated[
    str | None,
    typer.Option(metavar="TIME|DATE", help="Only runs of the last 7d (or 12h, …), or since 2026-11-24 (UTC)."),
]

_DATES = ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ")


def since_of(text: str | None, now: datetime) -> str:
    """Return the earliest time of ``--since`` as a record has it (UTC); empty if it was not typed.

    It is a time before ``now``, or a date. Raises InvalidRequest.
    """
    from datetime import timedelta

    if text is None:
        return ""
    begin = next((day for form in _DATES if (day := _date(text, form)) is not None), None)
    try:
        if begin is None:
            begin = now - timedelta(seconds=parse_walltime(text))
    except (ValueError, OverflowError) as error:
        allowed = f"{WALLTIME_FORMS}, before now; or a date, 2026-11-24 or 2026-11-24T18:00 (UTC)"
        raise InvalidRequest(Fault(where="--since", what=str(error), allowed=allowed, next="--since 7d")) from None
    return f"{begin:%Y-%m-%dT%H:%M:%SZ}"


def _date(text: str, form: str) -> datetime | None:
    from datetime import datetime

    try:
        return datetime.strptime(text.strip(), form)
    except ValueError:
        return None
