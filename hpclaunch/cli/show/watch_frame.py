"""The live screen as lines of text for a width and a height; pure: it reads nothing and writes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hpclaunch.cli.show.run_columns import Piece, cut, fitted
from hpclaunch.cli.show.watch_details import Line, details
from hpclaunch.cli.show.watch_scene import Scene
from hpclaunch.cli.show.watch_view import View, arranged, place_of
from hpclaunch.core.units import count

_COLUMNS = ("run", "job", "state", "nodes", "elapsed", "left", "epoch", "loss", "curve", "reason")
_DETAILS = 5
"""Lines about the selected run, with their rule."""
_LEAST_WITH_DETAILS = 14
_KEYS = "q quit  l log  c cancel  s sort  r reverse  / filter  u ask  ? help"
HELP = (
    ("arrows, j k", "select a run; PgUp PgDn, Home End: further"),
    ("l, Enter", "its log; arrows scroll, q or Esc goes back"),
    ("c", "cancel it; asks first"),
    ("s", "another order: active, newest, name, left, epoch, loss"),
    ("r", "the order reversed"),
    ("/", "filter: parts of the name, job ID, site, state; Esc: all runs"),
    ("u", "ask the scheduler now"),
    ("q, Ctrl-C", "quit; the runs continue"),
    ("", ""),
    ("left", "until its training ends; <: at most, the rest of its walltime"),
    ("CPU/rank", "one character a rank: the share of its cores that it used"),
)


def page_of(height: int) -> int:
    """Return how many runs the list shows at once in a terminal of that height."""
    return max(height - 3 - (_DETAILS if height >= _LEAST_WITH_DETAILS else 0), 1)


def frame(view: View, scene: Scene, width: int, height: int) -> list[Line]:
    """Return ``height`` lines of at most ``width`` characters each."""
    if view.mode == "help":
        body = [((f"  {key:<12}", "label"), (text, "")) for key, text in HELP]
        lines = [_head(scene, width), *body]
    elif view.mode == "log":
        lines = _log(view, scene, width, height)
    else:
        lines = _list(view, scene, width, height)
    lines = [_cut(line, width) for line in lines[: max(height - 1, 0)]]
    lines += [()] * (max(height - 1, 0) - len(lines))
    return [*lines, _cut(_foot(view), width)][:height]


def _head(scene: Scene, width: int) -> Line:
    states = Counter(run.state for run in scene.runs)
    words = ", ".join(f"{number} {state}" for state, number in states.most_common())
    asked = "asking ..." if scene.asked_s is None else f"{scene.asked_s:.0f} s ago"
    if scene.trouble:
        asked = scene.trouble
    left = f"{count(len(scene.runs), 'run')}: {words}" if scene.runs else "no run yet"
    room = max(width - len(asked) - 2, 12)
    return (cut(left, room).ljust(room), "heading"), ("  ", ""), (asked, "bad" if scene.trouble else "source")


def _list(view: View, scene: Scene, width: int, height: int) -> list[Line]:
    shown = arranged(scene.runs, view, scene.progress)
    place, page = place_of(view, shown), page_of(height)
    # The page that has the selected run: pages do not move while the selection does.
    first = place // page * page
    listed = [scene.listed(run) for run in shown[first : first + page]]
    table = fitted(listed, _COLUMNS, max(width - 2, 1))
    lines: list[Line] = [_head(scene, width), (("  ", ""), *table.lines[0])]
    for number, pieces in enumerate(table.lines[1:]):
        chosen = first + number == place
        lines.append(
            (("> ", "selected"), *((text, "selected") for text, _ in pieces)) if chosen else (("  ", ""), *pieces)
        )
    if scene.runs and not shown:
        lines.append(((f"  no run matches {view.filter!r}; Esc shows all", ""),))
    if height >= _LEAST_WITH_DETAILS and shown:
        lines += [()] * (2 + page - len(lines))
        lines += details(listed[place - first], scene, width)[:_DETAILS]
    return lines


def _log(view: View, scene: Scene, width: int, height: int) -> list[Line]:
    run = next((run for run in scene.runs if run.path == view.selected), None)
    room = max(height - 2, 1)
    lines = [part for line in scene.log for part in _fold_line(line, width)]
    last = max(len(lines) - min(view.scrolled, max(len(lines) - room, 0)), 0)
    title = f"log of {run.label}: {run.state}" if run else "this run is not in the list any more"
    more = f"  ({len(lines) - last} lines below)" if last < len(lines) else ""
    shown = lines[max(last - room, 0) : last] or ["the log is still empty"]
    return [((title + more, "heading"),), *(((line, ""),) for line in shown)]


def _fold_line(line: str, width: int) -> list[str]:
    return [line[begin : begin + width] for begin in range(0, max(len(line), 1), max(width, 1))]


def _foot(view: View) -> Line:
    if view.asked is not None:
        return ((f"cancel {view.asked.label}? [y/N]", "bad"),)
    if view.typing:
        return (("filter: ", "label"), (f"{view.filter}_", ""))
    if view.message:
        return ((view.message, "third-party"),)
    if view.mode == "help":
        return (("any key goes back", "source"),)
    if view.mode == "log":
        return (("q back  arrows PgUp PgDn scroll  End newest", "source"),)
    order = f"{view.sort}{' reversed' if view.reverse else ''}"
    limits = f"[{order}{f'; filter {view.filter}' if view.filter else ''}]  "
    return ((limits, "label"), (_KEYS, "source"))


def _cut(line: Sequence[Piece], width: int) -> Line:
    """Return the pieces of a line, without what is beyond the width."""
    kept: list[Piece] = []
    room = width
    for text, style in line:
        if room <= 0:
            break
        kept.append((text[:room], style))
        room -= len(text)
    return tuple(kept)
