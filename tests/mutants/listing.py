"""Lists what cosmic-ray's operators can change in the watched files, and draws a sample of mutants.

The order of the draw comes from a hash of each place, so a change of one line leaves the rest of the sample as it was.
"""

from __future__ import annotations

import difflib
import hashlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tests.mutants.running_part import is_counted

ROOT = Path(__file__).resolve().parents[2]
WATCHED = (
    *("hpclaunch/runs/*.py", "hpclaunch/schedulers/**/*.py"),
    *("hpclaunch/config/documents.py", "hpclaunch/config/fileformat.py"),
)
"""``runs/``, ``schedulers/`` and the YAML reader."""
TOOL = ROOT / ".cache" / "mutants" / "tool"
"""Where ``make mutants`` installs cosmic-ray (the extra ``mutants`` of pyproject.toml)."""
SEED = 20261123
SIZE = 200


@dataclass(frozen=True, slots=True)
class Change:
    """What an operator of cosmic-ray can change: its ``occurrence`` in the file, at a line that counts from 1.

    ``place`` is the operator, number or keyword that is changed; several changes may have the same.
    """

    file: str
    operator: str
    occurrence: int
    line: int
    place: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change with its effect: the lines ``before`` become ``after``, and the whole file is ``text``."""

    change: Change
    before: str
    after: str
    text: str

    @property
    def key(self) -> str:
        """What stays the same as long as the changed line does."""
        return f"{self.change.place} -> {self.after}"


def watched_files(root: Path = ROOT) -> list[Path]:
    """The files whose mutants are listed."""
    return sorted({path for pattern in WATCHED for path in root.glob(pattern)})


def all_changes(root: Path = ROOT) -> list[Change]:
    """Everything that cosmic-ray lists for the watched files."""
    return [change for path in watched_files(root) for change in changes_of(path, root)]


def changes_of(path: Path, root: Path = ROOT) -> Iterator[Change]:
    """Yield what cosmic-ray lists for one file. Operators that need names of variables are left out."""
    _find_tool()
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    source = path.read_text(encoding="utf-8")
    lines, nodes = source.splitlines(), list(ast_nodes(get_ast(source)))
    places: dict[tuple[int, int], str] = {}
    equal: Counter[str] = Counter()
    for operator in sorted(operator_names()):
        kind = get_operator(operator)
        if kind.arguments():
            continue
        starts = [start for node in nodes for start, _ in kind().mutation_positions(node)]
        for occurrence, start in enumerate(starts):
            if start not in places:
                place = f"{path.relative_to(root)}: {lines[start[0] - 1].strip()} @{start[1]}"
                equal[place] += 1
                places[start] = f"{place} #{equal[place]}"
            yield Change(str(path.relative_to(root)), operator, occurrence, start[0], places[start])


def draw(changes: Iterable[Change], root: Path = ROOT, size: int = SIZE, seed: int = SEED) -> list[Mutant]:
    """Return ``size`` mutants that count (`is_counted`), at most one for each place, in the order of the draw.

    Places are drawn, then one mutant of each: a ``+``, which eleven operators change, weighs as much as a ``not``.
    """
    places: dict[str, list[Change]] = {}
    for change in changes:
        places.setdefault(change.place, []).append(change)
    drawn: list[Mutant] = []
    for place in sorted(places, key=lambda place: _rank(seed, place)):
        if len(drawn) == size:
            break
        named = enumerate(sorted(places[place], key=lambda change: (change.operator, change.occurrence)))
        ordered = sorted(named, key=lambda pair: _rank(seed, f"{place} {pair[0]} {pair[1].operator}"))
        drawn += islice(filter(None, (_mutant(change, root) for _, change in ordered)), 1)
    return drawn


def _rank(seed: int, text: str) -> str:
    return hashlib.sha256(f"{seed} {text}".encode()).hexdigest()


def _mutant(change: Change, root: Path) -> Mutant | None:
    """Apply a change; None if the result does not count, or if cosmic-ray cannot apply it.

    It lists the name of a module's exception beside others (``except (waiting.TooLong, OSError)``), and then fails.
    """
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    source = (root / change.file).read_text(encoding="utf-8")
    try:
        text = mutate_code(source, get_operator(change.operator)(), change.occurrence)
    except AttributeError:
        return None
    if text is None or not is_counted(source, text):
        return None
    return Mutant(change, *changed_lines(source.splitlines(), text.splitlines()), text)


def changed_lines(before: Sequence[str], after: Sequence[str]) -> tuple[str, str]:
    """The lines that a change takes away, and those that it puts there, without their indentation."""
    removed, added = [], []
    for kind, old, old_end, new, new_end in difflib.SequenceMatcher(None, before, after, False).get_opcodes():
        if kind != "equal":
            removed += before[old:old_end]
            added += after[new:new_end]
    return _joined(removed), _joined(added)


def _joined(lines: Iterable[str]) -> str:
    return "\n".join(line.strip() for line in lines if line.strip())


def _find_tool() -> None:
    """Let Python find cosmic-ray, after everything that is installed."""
    if TOOL.is_dir() and str(TOOL) not in sys.path:
        sys.path.append(str(TOOL))
