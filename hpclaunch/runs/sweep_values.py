"""The file ``values`` of a job array: one line for each run, with its name and its arguments; the script reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import product, repeat
from pathlib import Path
from typing import TYPE_CHECKING

from hpclaunch.core import inside
from hpclaunch.core.files import write_text
from hpclaunch.core.units import CONTROL, whole_number

if TYPE_CHECKING:
    from hpclaunch.core.spec import Sweep

VALUES = "values"
_MOST_BYTES = 64 * 2**20


def write_values(folder: Path, sweep: Sweep) -> None:
    """Write one line for each run: ``0007<TAB>--learning-rate=0.1<TAB>--seed=3``, and the values that follow these."""
    words = [[encode(sweep.word(name, value)) for value in values] for name, values in sweep.axes]
    followers = _follower_words(sweep)
    lines = (
        "\t".join((f"{n:0{sweep.digits}d}", *line, *following))
        for n, (line, following) in enumerate(zip(product(*words), followers, strict=False))
    )
    write_text(folder / VALUES, "\n".join(lines) + "\n")


def _follower_words(sweep: Sweep) -> Iterable[tuple[str, ...]]:
    """Yield the words of the followers for every run, in the order of the runs."""
    followers = sweep.followers
    if followers is None:
        return repeat(())
    from hpclaunch.core.spec import parameter_word  # a list of runs only reads values, and needs no spec

    words = [
        [encode(parameter_word(name, text, default=name not in followers.typed)) for text in values]
        for name, values in followers.values
    ]
    combined = list(zip(*words, strict=True))
    axes = [range(len(values)) if name in followers.by else [0] * len(values) for name, values in sweep.axes]
    sizes = [len(values) if name in followers.by else 1 for name, values in sweep.axes]
    return (combined[_number(places, sizes)] for places in product(*axes))


def _number(places: Sequence[int], sizes: Sequence[int]) -> int:
    """Return the number of a combination among all; the last place varies fastest."""
    number = 0
    for place, size in zip(places, sizes, strict=True):
        number = number * size + place
    return number


def encode(text: str) -> str:
    r"""Return text as one word of a line, for bash's ``printf %b``: ``\\`` for a backslash, ``\0nnn`` for a byte.

    Control characters and bytes that are not UTF-8 are written in this form; other characters are unchanged.
    """
    return CONTROL.sub(lambda found: f"\\0{ord(found[0]) & 0xFF:03o}", text.replace("\\", "\\\\"))


def decode(word: str) -> str:
    """Return the text that ``encode`` encoded."""
    return "".join(_decode_word(word)) if "\\" in word else word


def _decode_word(word: str) -> Iterator[str]:
    position = 0
    while position < len(word):
        at = word.find("\\", position)
        if at < 0 or at + 1 == len(word):
            yield word[position:]
            return
        yield word[position:at]
        if word[at + 1] == "0":
            byte = int(word[at + 2 : at + 5], 8)
            yield chr(byte) if byte < 0x80 else chr(0xDC00 + byte)
            position = at + 5
        else:
            yield word[at + 1]
            position = at + 2


def values_at(folder: Path, index: int) -> dict[str, str]:
    """Return a run's values by parameter name, followers too; none if its line is missing or damaged."""
    lines = _lines(folder, inside.changed_at(folder, VALUES) or 0.0)
    words = lines[index].split("\t") if 0 <= index < len(lines) else []
    if not words or whole_number(words[0]) != index:
        return {}
    try:
        pairs = [decode(word).removeprefix("--default=").lstrip("-").partition("=") for word in words[1:]]
    except ValueError:
        return {}
    return {name.replace("-", "_"): value for name, _, value in pairs}


@lru_cache(maxsize=8)
def _lines(folder: Path, age: float) -> list[str]:
    """Return the lines of the file. It is read once for all runs, and again when its time of change differs."""
    try:
        return inside.read_bytes(folder, VALUES, _MOST_BYTES).decode("utf-8", errors="replace").split("\n")
    except (OSError, ValueError):
        return []
