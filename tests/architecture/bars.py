"""The bars of the project's structure, each with its figure now; ``python tools/structure.py`` prints them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hpclaunch.config.catalog import bundled
from hpclaunch.core.spec import LIBRARY
from tests.architecture import source_tree

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
LIBRARY_FILE = bundled("templates") / LIBRARY
MOST_PARAMETERS, MANY_PARAMETERS, FUNCTIONS_WITH_MANY = 6, 5, 28
"""The last is a bar that only falls: a function with five parameters is often one that wants a record."""
MOST_GOLDEN_LINES, MOST_SCRIPT_LINES, MOST_PERLMUTTER_LINES = 8000, 75, 60
"""Of all goldens and the library together; of one job.sh; of Perlmutter's for cifar on four nodes."""


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
    """Yield every bar of the structure."""
    roots, circles = source_tree.root_names(), source_tree.import_circles()
    yield Bar("root names", len(roots), 15, tuple(roots))
    yield Bar("layers", len(source_tree.layers()), 9)
    yield Bar("import circles", len(circles), 0, tuple(" - ".join(circle) for circle in circles))
    yield from _parameter_bars()
    elsewhere = source_tree.systems_named_elsewhere()
    yield Bar(
        "other files that name a launcher, a scheduler or a container runtime",
        len(elsewhere),
        0,
        tuple(map(str, elsewhere.items())),
    )
    yield from _script_bars()


def _parameter_bars() -> Iterator[Bar]:
    counted = source_tree.parameters_of_launcher()
    above = tuple(name for name, number in counted.items() if number > MOST_PARAMETERS)
    many = tuple(name for name, number in counted.items() if number >= MANY_PARAMETERS)
    yield Bar(f"functions with more than {MOST_PARAMETERS} parameters", len(above), 0, above)
    yield Bar(f"functions with {MANY_PARAMETERS} and more parameters", len(many), FUNCTIONS_WITH_MANY, many)


def _script_bars() -> Iterator[Bar]:
    yield Bar("lines of perlmutter/cifar-4.sh", lines(GOLDEN / "perlmutter/cifar-4.sh"), MOST_PERLMUTTER_LINES)
    for site in sorted(path for path in GOLDEN.iterdir() if any(path.glob("*.sh"))):
        longest = max(sorted(site.glob("*.sh")), key=lines)
        yield Bar(f"lines of the longest script of {site.name}", lines(longest), MOST_SCRIPT_LINES, (longest.name,))
    scripts = [*GOLDEN.glob("*/*.sh"), *GOLDEN.glob("*/*.diff"), LIBRARY_FILE]
    yield Bar("lines of all golden scripts and the library", sum(map(lines, scripts)), MOST_GOLDEN_LINES)


def lines(path: Path) -> int:
    """The lines of a file."""
    return path.read_bytes().count(b"\n")
