"""Reads times and spans of time as a person types them; commands about runs need no more of a request."""

from __future__ import annotations

from datetime import datetime, timedelta

from hpclaunch.core.errors import Fault, InvalidRequest
from hpclaunch.core.units import WALLTIME_FORMS, parse_walltime


def seconds_of(text: str | None, flag: str = "--walltime") -> int | None:
    """Return a flag's time in seconds; None if it was not typed. Raises InvalidRequest."""
    try:
        return None if text is None else parse_walltime(text)
    except ValueError as error:
        raise InvalidRequest(Fault(where=flag, what=str(error), allowed=WALLTIME_FORMS)) from None


_DATES = ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ")


def since_of(text: str | None, now: datetime) -> str:
    """Return the earliest time of ``--since`` as a record has it (UTC); empty if it was not typed.

    It is a time before ``now``, or a date. Raises InvalidRequest.
    """
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
    try:
        return datetime.strptime(text.strip(), form)
    except ValueError:
        return None
