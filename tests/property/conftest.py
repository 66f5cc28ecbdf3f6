"""Profiles: few, deterministic examples (each batch starts bash once), or with HYPOTHESIS_PROFILE=thorough many."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_CALM = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile("quick", max_examples=40, deadline=None, derandomize=True, suppress_health_check=_CALM)
settings.register_profile("thorough", max_examples=1000, deadline=None, suppress_health_check=_CALM)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
