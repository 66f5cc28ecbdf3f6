"""All ways in, by name."""

from __future__ import annotations

from tests.fuzz.data_ways import DATA_WAYS
from tests.fuzz.scene import Way
from tests.fuzz.text_ways import TEXT_WAYS

WAYS: dict[str, Way] = {**TEXT_WAYS, **DATA_WAYS}
SHARES = dict.fromkeys(WAYS, 1.0) | {"YAML and JSON": 2.0, "answers of Slurm's programs": 2.0}
"""How often a way is taken, compared with the others."""
