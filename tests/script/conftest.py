"""The profiles of the property tests hold here too: few, deterministic examples without a deadline."""

from tests.property import conftest as profiles

__all__ = ["profiles"]
