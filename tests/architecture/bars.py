"""The contracts of the structure that are counted; ``python tools/structure.py`` prints them.

Nothing here limits names, layers, parameters or lines: such numbers made writers cut files and pack lines to meet them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.architecture import source_tree

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure of the project and the most that it may be; ``names`` are what it counts, where it counts few."""

    title: str
    figure: int
    most: int
    names: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return self.figure <= self.most


def bars() -> Iterator[Bar]:
    """Yield every contract of the structure with its figure."""
    circles, elsewhere = source_tree.import_circles(), source_tree.systems_named_elsewhere()
    yield Bar("import circles", len(circles), 0, tuple(" - ".join(circle) for circle in circles))
    yield Bar(
        "other files that name a launcher, a scheduler or a container runtime",
        len(elsewhere),
        0,
        tuple(map(str, elsewhere.items())),
    )
