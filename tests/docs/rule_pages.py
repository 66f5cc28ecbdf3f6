"""docs/planning-rules.md: every rule of the planner with its source, read from the code that applies it."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import hpclaunch
from hpclaunch.guidelines import rungs
from hpclaunch.guidelines.published import PUBLISHED

FOLDERS = ("guidelines", "planner")
PACKAGE = Path(hpclaunch.__file__).parent
TITLES = {
    "Nodes and batch": ("batch", "choice", "candidates", "distribution", "dataset"),
    "Learning rate, optimizer and epochs": ("rates", "optimizers", "epochs"),
    "How ranks share the work": ("parallelism", "framework", "precision", "memory", "sections", "own_program"),
    "Time and cost": (
        "throughput",
        "hardware",
        "communication",
        "machine",
        "overhead",
        "calibration",
        "program_plan",
        "queue",
    ),
    "Checkpoints": ("checkpoints", "saving"),
}
# Where a rule or source depends on the job: what it can be, from the same constants.
VARIES = {
    "batch.rule": "'global batch size below sqrt(N), or below a measured noise scale'",
    "batch.source": "f'{SOURCE}; {MCCANDLISH}'",
    "checkpoints.source": "f'{DALY}; first order: {YOUNG}'",
    "epochs.source": "f'{MCCANDLISH}; the source of the published batch'",
    "optimizers.source": "f'{SOURCE}; the source of the published batch'",
    "hardware.rule": "f'3 x FLOPs / (a share of the peak) + {SWEEPS:g} x saved bytes / memory bandwidth'",
    "hardware.source": "f'{SOURCE}; the data sheet of the device'",
    "rates.source": "'; '.join(dict.fromkeys(SOURCES.values()))",
    "rates.warm_up.source": "f'{SOURCE}; Goyal et al. 2017; LEGW, You et al. 2019, arXiv 1901.08256'",
    "machine.source": "'hpclaunch doctor; nccl-tests PERFORMANCE.md'",
    "own_program.source": "f'{SOURCE}; the data sheet of the GPU'",
    "program_plan.rule": "'step = fixed + per sample x batch of a rank + communication'",
    "sections.rule": "'the first rung of the ladder that fits a GPU'",
    "sections.source": "'the table of rungs below'",
}
HEAD = """# Planning rules: each with its source

`hpclaunch plan JOB --explain` shows every rule with its numbers and its verdict. This page lists all of them. It is
written from the code that applies them, so no rule is missing. [Planning](planning.md) explains how they work together,
and [compares them with the guidelines](planning-details.md#the-guidelines-rule-by-rule) that most of them come from.
"""
RUNGS = """## The ladder: models that one GPU cannot hold

The first rung that fits is taken ([the ladder](planning-details.md#the-ladder)).

| rung | what it saves | what it costs | source |
|---|---|---|---|
"""
BATCHES = """## Published batches

Up to these global batch sizes somebody trained to full accuracy, so optimizer and schedule of a job stay.

| task | optimizer | global batch size | source |
|---|---|---|---|
"""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule as the code has it: its text, what is done with it, its source, and its function."""

    module: str
    text: str
    purpose: str
    source: str
    code: str


def rules() -> list[Rule]:
    """Every rule that gives a Reason, in the order of the code."""
    return [rule for path in _files() for rule in _rules(path)]


def _files() -> list[Path]:
    return [path for folder in FOLDERS for path in sorted((PACKAGE / folder).rglob("*.py"))]


def _rules(path: Path) -> Iterator[Rule]:
    dotted = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    module: ModuleType | None = None
    for function, call in _calls(ast.parse(path.read_text(encoding="utf-8"))):
        module = module or importlib.import_module(f"hpclaunch.{dotted}")
        values = {one.arg: one.value for one in call.keywords if one.arg}
        name = function.name if function else ""
        purpose = (ast.get_docstring(function) or "").partition("\n")[0] if function else ""
        yield Rule(
            module=path.stem,
            text=_value(module, name, "rule", values["rule"]),
            purpose="" if name.startswith("_") else purpose.removeprefix("Return ").replace("``", "`"),
            source=_value(module, name, "source", values["source"]),
            code=dotted + (f":{name}" if name else ""),
        )


def _calls(tree: ast.Module) -> Iterator[tuple[ast.FunctionDef | None, ast.Call]]:
    for statement in tree.body:
        function = statement if isinstance(statement, ast.FunctionDef) else None
        for one in ast.walk(statement):
            if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == "Reason":
                yield function, one


def _value(module: ModuleType, function: str, part: str, expression: ast.expr) -> str:
    """A text of the code: of its constants, or what it can be if it depends on the job."""
    names = dict(vars(module))
    try:
        return str(eval(compile(ast.Expression(expression), module.__name__, "eval"), names))
    except NameError:
        stem = module.__name__.rpartition(".")[2]
        known = VARIES.get(f"{stem}.{function}.{part}") or VARIES[f"{stem}.{part}"]
        return str(eval(known, names))


def document() -> str:
    """The whole page."""
    found = rules()
    parts = [HEAD]
    for title, modules in TITLES.items():
        rows = _rows(rule for name in modules for rule in found if rule.module == name)
        parts.append(
            "\n".join([f"## {title}", "", "| rule | what is computed | source | code |", "|---|---|---|---|", *rows])
            + "\n"
        )
    parts.append(RUNGS + "\n".join(_cells(*one) for one in _rungs()) + "\n")
    parts.append(BATCHES + "\n".join(_cells(*one) for one in _batches()) + "\n")
    return "\n".join(parts)


def _rows(found: Iterable[Rule]) -> list[str]:
    """The rows of a table. A function that gives the rule of an earlier row, and says no more of it, stands there."""
    rows: list[list[Rule]] = []
    for rule in found:
        earlier = next((row for row in rows if _is_repeated(rule, row[0])), None)
        if earlier is None:
            rows.append([rule])
        else:
            earlier.append(rule)
    return [_row(*row) for row in rows]


def _is_repeated(rule: Rule, earlier: Rule) -> bool:
    return rule.text == earlier.text and not rule.purpose and earlier.source.startswith(rule.source)


def _row(rule: Rule, *others: Rule) -> str:
    codes = dict.fromkeys(f"`{one.code}`" for one in (rule, *others))
    return _cells(rule.text, rule.purpose[:1].upper() + rule.purpose[1:], rule.source, ", ".join(codes))


def _rungs() -> Iterator[tuple[str, ...]]:
    for one in vars(rungs).values():
        rows = one if isinstance(one, tuple) else [one]
        yield from ((row.name, row.saves, row.takes, row.source) for row in rows if isinstance(row, rungs.RungRule))


def _batches() -> Iterator[tuple[str, ...]]:
    for row in PUBLISHED:
        yield row.task, row.optimizer, f"{row.batch:,}", row.source


def _cells(*cells: str) -> str:
    texts = [re.sub(r"\s+", " ", cell).replace("|", "\\|").replace("*", "\\*") for cell in cells]
    return f"| {' | '.join(texts)} |"


def unplaced() -> set[str]:
    """Modules with rules that no title has, and those under a title that have no rule."""
    return {rule.module for rule in rules()} ^ {name for names in TITLES.values() for name in names}


def reasons_in_code() -> int:
    """How often the code makes a Reason."""
    texts = [path.read_text(encoding="utf-8") for path in _files()]
    return sum(len(re.findall(r"(?<!class )\bReason\(", text)) for text in texts)
