"""What all studies check alike in their command lines: seeds, epochs, names of runs, results; it starts nothing."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TypeVar

Name = TypeVar("Name", str, int)


def seed(text: str) -> int:
    """Read a seed: a whole number, 0 or above."""
    return _whole_number(text, "a seed", least=0)


def epochs(text: str) -> int:
    """Read a number of epochs: a whole number, 1 or above."""
    return _whole_number(text, "a number of epochs", least=1)


def parse(parser: argparse.ArgumentParser, small: str = "small") -> argparse.Namespace:
    """Parse the command line. Ends the program if a run for tests would write among the committed results.

    small: the option that asks for such runs. The default of --results is the folder of the committed results.
    """
    options = parser.parse_args()
    if getattr(options, small) and options.results == parser.get_default("results"):
        parser.error(f"--{small} makes no real results: name another folder with --results")
    return options


def chosen(parser: argparse.ArgumentParser, flag: str, typed: Sequence[Name], allowed: Sequence[Name]) -> list[Name]:
    """Return what was typed, or all that is allowed if nothing was. Ends the program if a typed name is not allowed."""
    unknown = [name for name in typed if name not in allowed]
    if unknown:
        parser.error(f"{flag} {', '.join(map(str, unknown))}: not among {', '.join(map(str, allowed))}")
    return list(typed or allowed)


def _whole_number(text: str, what: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"{text}: {what} is a whole number, {least} or above")
    return number
