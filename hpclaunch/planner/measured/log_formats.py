"""The lines in which programs print their speed: one row for each known format, and a person's own pattern; pure.

A pattern names what it finds by its groups (`GROUPS`), so that a row and a typed pattern mean the same.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

from hpclaunch.core.errors import Fault, InvalidRequest, did_you_mean
from hpclaunch.core.records import record

Unit = Literal["samples", "tokens", "steps"]
Kind = Literal["step_s", "samples_per_s", "tokens_per_s"]
"""What a reading is: seconds of a step, or samples or tokens per second of all ranks."""

GROUPS: Mapping[str, tuple[Kind, float, bool, bool]] = {
    "step_s": ("step_s", 1.0, False, False),
    "step_ms": ("step_s", 1e-3, False, False),
    "step_us": ("step_s", 1e-6, False, False),
    "steps_per_s": ("step_s", 1.0, True, False),
    "rate": ("samples_per_s", 1.0, False, False),
    "samples_per_s": ("samples_per_s", 1.0, False, False),
    "rank_samples_per_s": ("samples_per_s", 1.0, False, True),
    "tokens_per_s": ("tokens_per_s", 1.0, False, False),
    "rank_tokens_per_s": ("tokens_per_s", 1.0, False, True),
}
"""Group -> the kind of its reading, its factor, whether it is the reciprocal, and whether it is that of one rank."""
FURTHER = ("step", "total", "time")
"""Groups beside them: the number of the step, the last one of a loop, and seconds since the start."""
LONGEST_LINE = 1000
"""Characters of a line that are looked at."""
LEAST_RATE, MOST_RATE = 1e-6, 1e12
"""Steps, samples or tokens per second that a program can have; another figure is no speed."""
_MOST_STEPS = 10**15
_GROUPED = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?")
_EXPONENT = re.compile(r"[eE][-+]?\d{1,4}(?!\d)")


@record
class Reading:
    """One printed speed. ``step``: the number of its step, ``total``: the last one of its loop, if they are printed.

    ``by_rank``: ``value`` is that of one rank. ``rounding``: relative, half a unit of its last digit. A reading of
    ``time`` alone has no kind: two of them make one. ``is_settled``: the mean of a loop's last
    steps at its end, without the first steps of the program; it is enough alone. ``is_validated``: the time of a
    validation is in it.
    """

    kind: Kind | None
    value: float
    by_rank: bool = False
    step: int | None = None
    total: int | None = None
    rounding: float = 0.0
    is_settled: bool = False
    is_validated: bool = False


@record
class LogFormat:
    """A format: how a line is read, and what its figures are. ``wanted``: a line without this text is passed over.

    ``ends_of_epochs``: a figure is the mean since its epoch began, so that only the last of an epoch counts, and the
    first epoch does not. ``whole``: the one figure is the mean of the whole training. ``bars``: its lines are bars of
    loops, and a program may have other loops than its training.
    """

    name: str
    words: str
    wanted: str
    read: Callable[[str], Reading | None]
    ends_of_epochs: bool = False
    whole: bool = False
    bars: bool = False


def _reader_of(pattern: str) -> Callable[[str], Reading | None]:
    found = re.compile(pattern)
    return lambda line: reading_of(found.search(line))


def reading_of(match: re.Match[str] | None) -> Reading | None:
    """Return the reading in a match of a pattern with the named `GROUPS`; None without a speed that can be."""
    if match is None:
        return None
    step, total = (_whole_number(match.groupdict().get(name)) for name in ("step", "total"))
    for name, (kind, factor, reciprocal, by_rank) in GROUPS.items():
        text = _text_of(match, name)
        value = _number(text)
        if value is None:
            continue
        figure = _speed_of(kind, factor, value, reciprocal)
        if figure is None:
            return None
        rounding = _half_a_digit(text) / value
        return Reading(kind=kind, value=figure, by_rank=by_rank, step=step, total=total, rounding=rounding)
    seconds = _number(_text_of(match, "time"))
    return None if seconds is None or step is None else Reading(kind=None, value=seconds, step=step, total=total)


def can_be(kind: Kind, value: float) -> bool:
    """Whether a program can have this speed, in seconds of a step or per second."""
    low, high = (1 / MOST_RATE, 1 / LEAST_RATE) if kind == "step_s" else (LEAST_RATE, MOST_RATE)
    return low <= value <= high


def _speed_of(kind: Kind, factor: float, value: float, reciprocal: bool) -> float | None:
    """Return a figure in the unit of its kind; None for one that no program can have."""
    if not 1e-15 < value < 1e15:
        return None
    figure = factor / value if reciprocal else factor * value
    return figure if can_be(kind, figure) else None


def _text_of(match: re.Match[str], name: str) -> str:
    """Return the text of a group, with the exponent that follows it; empty if the pattern or the line lacks it."""
    text = match.groupdict().get(name) or ""
    exponent = _EXPONENT.match(match.string, match.end(name)) if text[-1:].isdigit() else None
    return text + exponent[0] if exponent and not re.search("[eE]", text) else text


def _number(text: str | None) -> float | None:
    """Return a number above zero; commas are left out where they part groups of three digits, else it is none."""
    text = (text or "").strip()
    try:
        value = float(text.replace(",", "") if _GROUPED.fullmatch(text) else text)
    except ValueError:
        return None
    return value if 0 < value < math.inf else None


def _half_a_digit(text: str) -> float:
    """Return half a unit of the last digit of a number; 0 for one with an exponent."""
    digits = text.partition(".")[2]
    return 0.5 * 10.0 ** -len(digits) if digits.isdigit() or not digits else 0.0


def _whole_number(text: str | None) -> int | None:
    digits = (text or "").replace(",", "")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 16 else None


_JSON_KEYS = {
    **dict.fromkeys(("step_s", "step_time", "step_time_s", "seconds_per_step", "sec_per_step"), "step_s"),
    **dict.fromkeys(("step_ms", "step_time_ms", "ms_per_step"), "step_ms"),
    **dict.fromkeys(("steps_per_s", "steps_per_second", "steps_per_sec"), "steps_per_s"),
    **dict.fromkeys(("samples_per_s", "samples_per_second", "samples_per_sec"), "samples_per_s"),
    **dict.fromkeys(("images_per_s", "images_per_second", "images_per_sec"), "samples_per_s"),
    **dict.fromkeys(("tokens_per_s", "tokens_per_second", "tokens_per_sec"), "tokens_per_s"),
}
"""Key of a JSON line -> the group that it means; each says its unit."""


def _json(line: str) -> Reading | None:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    plain = {
        key: value for key, value in values.items() if isinstance(value, int | float) and not isinstance(value, bool)
    }
    step = plain.get("step", plain.get("global_step"))
    if not (isinstance(step, int) and 0 <= step < _MOST_STEPS):
        step = None
    for key, group in _JSON_KEYS.items():
        kind, factor, reciprocal, by_rank = GROUPS[group]
        value = plain.get(key)
        figure = None if value is None else _speed_of(kind, factor, value, reciprocal)
        if figure is not None:
            return Reading(kind=kind, value=figure, by_rank=by_rank, step=step)
    return None


_STEP = r"(?:it|ba|batch|batches|step|steps)\b"
"""The units of a bar that are steps; one of samples counts other things, and takes a pattern of the person's own."""
_TIMES = rf"(?:(?P<steps_per_s>[\d.]+) ?{_STEP}/s|(?P<step_s>[\d.]+)s/ ?{_STEP})"
_BAR = rf"(?P<step>\d+)/(?P<total>\d+|\?) \[(?:\d+:)*\d+<[^\]]{{1,12}}, *{_TIMES}"
_ENDLESS_BAR = rf"(?<![\d/])(?P<step>\d+) ?{_STEP} \[(?:\d+:)*\d+, *{_TIMES}"
_RICH_BAR = re.compile(
    r"Epoch (?P<epoch>\d+)/\d+ .{0,400}?(?P<step>\d+)/(?P<total>\d+) +"
    r"(?P<hours>\d+):(?P<minutes>\d+):\d+ \S \S+ (?P<steps_per_s>[\d.]+)it/s"
)
_KERAS = re.compile(
    r"(?<!\d)(?P<step>\d+)/(?P<total>\d+)\s.{0,200}?(?<![\d.])"
    r"(?:(?P<step_ms>\d+)ms|(?P<step_us>\d+)us|(?P<step_s>\d+)s)/step"
)

_TQDM, _ENDLESS_TQDM = _reader_of(_BAR), _reader_of(_ENDLESS_BAR)
_LIGHTNING = _reader_of(rf"Epoch \d+: .{{0,400}}?{_BAR}")


def _bar_of_rich(match: re.Match[str] | None) -> Reading | None:
    """Return a bar of rich, whose speed is that of the last 30 s: at the end of a later epoch without the first steps.

    In a file, rich writes it once, when the training has ended.
    """
    reading = reading_of(match)
    if reading is None or match is None:
        return None
    is_later = any(int(match[name]) for name in ("epoch", "hours", "minutes"))
    return replace(reading, is_settled=is_later and reading.step == reading.total)


_HUGGINGFACE = re.compile(
    r"'train_runtime': '?(?P<time>[\d.]+).{0,200}?'train_steps_per_second': '?(?P<steps_per_s>[\d.]+)"
)


def _whole_training(match: re.Match[str] | None) -> Reading | None:
    """Return the mean step of a training; its ``total`` is the number of its steps."""
    reading, seconds = reading_of(match), _number(_text_of(match, "time")) if match else None
    if reading is None or seconds is None or seconds > _MOST_STEPS:
        return None
    return Reading(kind="step_s", value=reading.value, total=round(seconds / reading.value))


def _epoch_of_keras(match: re.Match[str] | None) -> Reading | None:
    """Return a line of Keras; an epoch's last one has the time of its validation in it, and that one's values."""
    reading = reading_of(match)
    if reading is None or match is None:
        return None
    return replace(reading, is_validated=" val_" in match.string[match.end() :])


_MEGATRON = re.compile(
    r"iteration {1,12}(?P<step>\d+)/.{0,300}?elapsed time per iteration \(ms\): (?P<step_ms>[\d.]+)"
    r"(?:.{0,300}?global batch size: {1,12}(?P<batch>\d+))?"
)


def _iteration(match: re.Match[str] | None) -> Reading | None:
    """Return an iteration of Megatron: samples/s of all ranks if its line has their batch, else its seconds."""
    reading, batch = reading_of(match), _whole_number(match["batch"]) if match else None
    if reading is None or not batch:
        return reading
    rate = batch / reading.value
    return replace(reading, kind="samples_per_s", value=rate) if can_be("samples_per_s", rate) else None


FORMATS: tuple[LogFormat, ...] = (
    LogFormat(
        name="torchtitan",
        words="step: 10  loss: 8.1  …  tps: 12,345  (tokens per second of one device)",
        wanted="tps:",
        read=_reader_of(r"(?<!validate )step: {1,8}(?P<step>\d+) .{0,300}?\btps: (?P<rank_tokens_per_s>[\d,]+)"),
    ),
    LogFormat(
        name="megatron",
        words="iteration 10/ 500 | … elapsed time per iteration (ms): 512.3 | … global batch size: 256 |",
        wanted="elapsed time per iteration (ms):",
        read=lambda line: _iteration(_MEGATRON.search(line)),
    ),
    LogFormat(
        name="nanogpt",
        words="iter 10: loss 3.2, time 123.45ms, mfu 12.3%",
        wanted="iter ",
        read=_reader_of(r"\biter (?P<step>\d+): loss .{0,100}?, {0,40}time (?P<step_ms>[\d.]+)ms"),
    ),
    LogFormat(
        name="pytorch-examples",
        words="Epoch: [0][ 10/5005]  Time 0.345 ( 0.512)  Data …",
        wanted="Time",
        read=_reader_of(r"Epoch: ?\[\d+\]\[ *(?P<step>\d+)/(?P<total>\d+)\].{0,40}?Time +(?P<step_s>[\d.]+)"),
    ),
    LogFormat(
        name="lightning",
        words="Epoch 0:  12%|█▏ | 37/313 [00:05<00:38,  7.14it/s, v_num=0], and its bar of rich",
        wanted="Epoch",
        read=lambda line: _LIGHTNING(line) or _bar_of_rich(_RICH_BAR.search(line)),
        bars=True,
    ),
    LogFormat(
        name="tqdm",
        words="12%|█▏ | 37/313 [00:05<00:38,  7.14it/s], or 1.19s/it, batch/s, step/s; 37it [00:05,  7.14it/s]",
        wanted="[",
        read=lambda line: _TQDM(line) or _ENDLESS_TQDM(line),
        bars=True,
    ),
    LogFormat(
        name="keras",
        words="313/313 [=====] - 12s 38ms/step, or 313/313 ━━━━━ 12s 38ms/step",
        wanted="s/step",
        read=lambda line: _epoch_of_keras(_KERAS.search(line)),
        ends_of_epochs=True,
    ),
    LogFormat(
        name="json",
        words='{"step": 10, "samples_per_s": 810} (also step_s, step_ms, steps_per_s, images_per_s, tokens_per_s)',
        wanted="{",
        read=_json,
    ),
    LogFormat(
        name="huggingface",
        words="{'train_runtime': 71.5, 'train_samples_per_second': 6.7, 'train_steps_per_second': 0.839, …}",
        wanted="train_steps_per_second",
        read=lambda line: _whole_training(_HUGGINGFACE.search(line)),
        whole=True,
    ),
)
"""The known formats, the more special ones first: of several that a log has, the first with enough readings counts."""


def formats_for(typed: str | None) -> tuple[LogFormat, ...]:
    """Return the formats to look for: all, the one that ``--rate-from`` names, or the pattern that it is.

    Raises InvalidRequest for a pattern that is none, or that has none of the named groups.
    """
    if typed is None:
        return FORMATS
    named = [row for row in FORMATS if row.name == typed]
    return tuple(named) if named else (_format_of(typed),)


def _format_of(typed: str) -> LogFormat:
    names = [row.name for row in FORMATS]
    allowed = f"{', '.join(names)}; or a regular expression with a named group: {', '.join(GROUPS)}, or step and time"
    if re.fullmatch(r"[A-Za-z-]+", typed):
        what = f"there is no format {typed!r}{did_you_mean(typed, names)}"
        raise InvalidRequest(Fault(where="--rate-from", what=what, allowed=allowed))
    try:
        pattern = re.compile(typed)
    except (re.error, RecursionError, OverflowError) as error:
        what = f"{typed[:200]!r} is no regular expression of Python: {error}"
        raise InvalidRequest(Fault(where="--rate-from", what=what, allowed=allowed)) from None
    groups = set(pattern.groupindex)
    strange = sorted(groups - {*GROUPS, *FURTHER})
    if strange or not (groups & set(GROUPS) or {"step", "time"} <= groups):
        what = f"the group {strange[0]!r} has no meaning" if strange else "no group of the pattern names a speed"
        example = "'speed=(?P<samples_per_s>[0-9.]+)'"
        raise InvalidRequest(Fault(where="--rate-from", what=what, allowed=allowed, next=f"for example {example}"))
    return LogFormat(
        name="pattern", words=typed, wanted="", read=lambda line: reading_of(pattern.search(line[:LONGEST_LINE]))
    )
