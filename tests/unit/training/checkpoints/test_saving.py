"""How a rank writes its files: to read the arrays may be a collective, so every rank reads all in the same order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

try:
    import numpy as np

    from hpclaunch.training.checkpoints import folders, saving
except ImportError:
    pytest.skip("group horovod: horovod is not installed (the extra `train` brings it)", allow_module_level=True)

from hpclaunch.training.rank.failure import TrainingError

PARTS = {"parts": {"count": 2, "arrays": {"weight-000": {"shape": [4], "axis": 0}}}}
MESH = [SimpleNamespace(part=0), SimpleNamespace(part=1)]
WORLDS = {
    "root": {"is_root": True, "leads_copy": True, "data_rank": 0, "mesh": MESH[0]},
    "second part": {"is_root": False, "leads_copy": False, "data_rank": 0, "mesh": MESH[1]},
    "second copy": {"is_root": False, "leads_copy": True, "data_rank": 1, "mesh": MESH[0]},
    "its second part": {"is_root": False, "leads_copy": False, "data_rank": 1, "mesh": MESH[1]},
}
WRITTEN = {
    "root": {"rank-0000.npz", "shared.npz", "part-0000.npz"},
    "second part": {"part-0001.npz"},
    "second copy": {"rank-0001.npz"},
    "its second part": set(),
}


def arrays(read: list[str]) -> Any:
    """Own, shared and parts of a rank; `read` gets what is read, in its order."""

    def of(kind: str) -> Iterator[tuple[str, Any]]:
        for number in range(2):
            read.append(f"{kind}-{number}")
            yield read[-1], np.zeros(2)

    return of("own"), of("shared"), of("part")


@pytest.mark.parametrize("role", WORLDS)
def test_every_rank_reads_what_is_shared_before_its_parts(role: str, tmp_path: Path) -> None:
    read: list[str] = []
    partial = folders.begin(str(tmp_path), 1)
    files = saving._write(SimpleNamespace(**WORLDS[role]), partial, arrays(read), PARTS)
    assert {file["name"] for file in files} == WRITTEN[role]
    assert [name for name in read if not name.startswith("own")] == ["shared-0", "shared-1", "part-0", "part-1"]


@pytest.mark.parametrize("role", [role for role, files in WRITTEN.items() if files])
def test_a_rank_that_cannot_write_reads_the_rest_too(role: str, tmp_path: Path) -> None:
    read: list[str] = []
    with pytest.raises(TrainingError, match="cannot write the checkpoint"):
        saving._write(SimpleNamespace(**WORLDS[role]), str(tmp_path / "missing"), arrays(read), PARTS)
    assert [name for name in read if not name.startswith("own")] == ["shared-0", "shared-1", "part-0", "part-1"]
