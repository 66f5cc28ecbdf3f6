"""What is left for the long tier, `make long`: more of what one case in `make test` already shows."""

from __future__ import annotations

import os

LONG = os.environ.get("HPCLAUNCH_TIER") == "long"
