"""The layers of a run's trained model, as its program has listed them in ``model/model.json``; it reads no weights."""

from __future__ import annotations

from typing import Any

from hpclaunch.actions.following.inspect import MODEL
from hpclaunch.core import inside
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.files import json_object
from hpclaunch.reports.charts.model_chart import DrawnLayer
from hpclaunch.runs import Run

ABOUT = "model.json"
MOST_LAYERS, MOST_SIDES, MOST_LENGTH, MOST_LETTERS = 500, 8, 2**40, 60
"""What a picture can hold: a file that says more is damaged, or the picture would be of no use."""


def layers_of(run: Run) -> list[DrawnLayer]:
    """Return the layers in their order. Raises Refused if the run has no such list, or one that cannot be drawn."""
    path = run.path / MODEL / ABOUT
    text = inside.read_text(run.home, run.name_of(f"{MODEL}/{ABOUT}"))
    if not text:
        next_step = "a training writes it at its end (training.fit, training.loop), unless export_model=false"
        raise Refused(Fault(where=str(path), what="the run has written no trained model", next=next_step))
    found = json_object(text).get("layers")
    try:
        layers = [_layer(one) for one in found] if isinstance(found, list) else []
    except (KeyError, TypeError, ValueError) as error:
        raise Refused(Fault(where=f"{path}: layers", what=f"cannot be read: {error}")) from None
    if not 0 < len(layers) <= MOST_LAYERS:
        what = f"{len(layers)} layers cannot be drawn" if layers else "there is no list of layers"
        raise Refused(Fault(where=str(path), what=what, allowed=f"1 to {MOST_LAYERS} layers"))
    return layers


def _layer(found: Any) -> DrawnLayer:
    """Check a layer of the file. Raises KeyError, TypeError or ValueError."""
    shape = tuple(map(_length, found["shape"]))
    if len(shape) > MOST_SIDES:
        raise ValueError(f"a shape of {len(shape)} sides")
    name, kind = (str(found[key])[:MOST_LETTERS] for key in ("name", "kind"))
    return DrawnLayer(name=name, kind=kind, shape=shape, parameters=_length(found["parameters"]))


def _length(found: Any) -> int:
    if not isinstance(found, int) or not 0 <= found <= MOST_LENGTH:
        raise ValueError(f"{found!r:.40} is not a whole number of at most {MOST_LENGTH}")
    return found
