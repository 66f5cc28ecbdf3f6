"""The profiles of the property tests hold here too: a deadline would make an example fail on a busy machine."""

from __future__ import annotations

try:
    from tests.property import conftest as profiles
except ImportError:  # where a part of the tests runs without hypothesis
    profiles = None  # type: ignore[assignment]

__all__ = ["profiles"]
