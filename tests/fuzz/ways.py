"""All ways in, by name."""

from __future__ import annotations

from tests.fuzz.beside_ways import BESIDE_WAYS
from tests.fuzz.cluster_ways import CLUSTER_WAYS
from tests.fuzz.command_lines import COMMAND_LINES
from tests.fuzz.data_ways import DATA_WAYS
from tests.fuzz.measured_ways import MEASURED_WAYS
from tests.fuzz.scene import Way
from tests.fuzz.set_ways import SET_WAYS
from tests.fuzz.sweep_ways import SWEEP_WAYS
from tests.fuzz.text_ways import TEXT_WAYS

_FOUND = {**TEXT_WAYS, **COMMAND_LINES, **DATA_WAYS, **SET_WAYS}
_FOUND |= {**BESIDE_WAYS, **MEASURED_WAYS, **CLUSTER_WAYS, **SWEEP_WAYS}
_WRITTEN = ("site files", "job files", "settings files", "templates", "command lines")
"""What people write comes first in the table."""
WAYS: dict[str, Way] = {name: _FOUND[name] for name in dict.fromkeys([*_WRITTEN, *_FOUND])}
SHARES = dict.fromkeys(WAYS, 1.0) | {"YAML and JSON": 2.0, "answers of Slurm's programs": 2.0}
"""How often a way is taken, compared with the others."""
