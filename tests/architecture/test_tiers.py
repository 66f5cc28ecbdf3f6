"""The long tier runs every test that has more cases there than in `make test`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_DIVIDED = re.compile(r"^from tests\.tiers import|^@pytest\.mark\.long_tier", re.MULTILINE)


def test_every_divided_test_is_one_of_make_long_or_make_once() -> None:
    command = ["make", "--silent", "--eval", "listed: ; @echo $(LONG) $(ONCE)", "listed"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    files = [path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py")]
    divided = [path for path in files if _DIVIDED.search((ROOT / path).read_text(encoding="utf-8"))]
    assert len(divided) > 20
    assert [str(path) for path in divided if not any(path.is_relative_to(place) for place in listed)] == []
