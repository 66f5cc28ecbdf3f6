"""Checks what a checkpoint says of the epochs so far, as JSON gives it: the best epoch, an early end, callbacks."""

from __future__ import annotations

from typing import Any

KEYS = {"best", "rate_factor", "stopped", "callbacks"}
BEST_KEYS = {"metric", "value", "epoch", "step"}


def fault_in(found: Any) -> str:
    """What is wrong with the facts under "epochs", in words; empty if they are good, or none (older checkpoints)."""
    if found is None:
        return ""
    if not isinstance(found, dict) or set(found) != KEYS:
        return "its facts of the epochs are not {}".format(", ".join(sorted(KEYS)))
    if not is_number(found["rate_factor"]) or found["rate_factor"] < 0:
        return "its factor of the learning rate is not a number from 0"
    if type(found["stopped"]) is not bool:
        return "it does not say whether training was stopped"
    if not isinstance(found["callbacks"], list) or not all(map(_is_callback, found["callbacks"])):
        return "its callbacks are not names with numbers"
    return _fault_in_best(found["best"])


def _fault_in_best(best: Any) -> str:
    if best is None:
        return ""
    if not isinstance(best, dict) or set(best) != BEST_KEYS or not isinstance(best["metric"], str):
        return "its best epoch is not {}".format(", ".join(sorted(BEST_KEYS)))
    if any(type(best[name]) is not int or not 0 <= best[name] < 2**53 for name in ("epoch", "step")):
        return "its best epoch or step is not a whole number from 0"
    return "" if is_number(best["value"]) else "the value of its best epoch is not a finite number"


def _is_callback(one: Any) -> bool:
    if not isinstance(one, list) or len(one) != 2 or not isinstance(one[0], str) or not isinstance(one[1], dict):
        return False
    return all(is_number(value) for value in one[1].values())


def is_number(value: Any) -> bool:
    """Whether a value of JSON is a finite number that float can hold."""
    return type(value) in (int, float) and abs(value) < 1e308
