"""Options of a training script, in the launcher's style (--name=value, true/false); reads no file and no TensorFlow."""

from __future__ import annotations

import argparse
import os


def boolean(text: str) -> bool:
    """Read true or false (also 1/0, yes/no, on/off); raises for anything else."""
    if text.lower() in ("true", "1", "yes", "on"):
        return True
    if text.lower() in ("false", "0", "no", "off"):
        return False
    raise argparse.ArgumentTypeError("{!r}: true or false is expected".format(text))


def at_least(low: int, kind: type = int):  # type: ignore[no-untyped-def]
    """A type for argparse: a number of `kind` that is not below `low`."""

    def number(text: str):  # type: ignore[no-untyped-def]
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not low <= value < float("inf"):
            raise argparse.ArgumentTypeError("{!r}: a number from {} is expected".format(text, low))
        return value

    return number


def positive(text: str) -> float:
    """A finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError("{!r}: a number above 0 is expected".format(text))
    return value


def below_one(text: str) -> float:
    """A number from 0 and below 1."""
    value = at_least(0, float)(text)
    if value >= 1:
        raise argparse.ArgumentTypeError("{!r}: a number from 0 and below 1 is expected".format(text))
    return float(value)


def parser(description: str, seed: int) -> argparse.ArgumentParser:
    """A parser with the options that every bundled job has: seed and data. `seed`: the default."""
    made = argparse.ArgumentParser(
        description=description, allow_abbrev=False, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    made.add_argument("--seed", type=at_least(0), default=seed, help="decides weights, shuffling and dropout")
    made.add_argument(
        "--data-dir",
        default="",
        help="the data set's folder or the one above it (empty: HPCLAUNCH_DATA_DIR)",
    )
    made.add_argument("--synthetic", type=boolean, default=False, help="train on made-up images instead of data")
    made.add_argument(
        "--synthetic-samples",
        type=at_least(1),
        default=4096,
        help="made-up training images; a quarter more for testing",
    )
    made.add_argument(
        "--train-samples", type=at_least(0), default=0, help="use only so many of the shuffled training images (0: all)"
    )
    made.add_argument(
        "--record-shards",
        type=boolean,
        default=False,
        help="write every rank's sample numbers to shards/ in the run directory",
    )
    return made


def data_dir(typed: str) -> str:
    """The data folder: what was typed, else HPCLAUNCH_DATA_DIR, else empty."""
    return typed or os.environ.get("HPCLAUNCH_DATA_DIR", "")
