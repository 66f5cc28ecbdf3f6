"""Finds the source of a program, and the modules beside it that it imports, for its options and its framework.

It runs nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import deque
from dataclasses import replace
from pathlib import Path

from hpclaunch.actions.preparing.programs import find_on_path
from hpclaunch.config.parameter_files import training_parameters_of
from hpclaunch.config.plain_files import read_json
from hpclaunch.config.program_imports import modules_in
from hpclaunch.config.program_options import ProgramOptions
from hpclaunch.config.program_reader import Source, imports_of, options_in, parsed
from hpclaunch.resolve.case import Case
from hpclaunch.runs.code_files import UnusableCode

_MOST_FILES = 200
_SHEBANG = re.compile(rb"#![^\n]*\bpython")


def with_program_options(case: Case) -> Case:
    """Return the case with the options of its program, which a sweep or a search has to spell as the program does."""
    return case if case.job.parameters else replace(case, program_options=_options_of(case))


def with_program_imports(case: Case) -> Case:
    """Return the case with the modules that its program may import.

    What cannot be seen without running the program is said, and not guessed.
    """
    job = case.job
    main, root = _main_file(case)
    if main is None:
        reason = _python_in(case)
        return replace(case, job=replace(job, may_import=(), unread=reason)) if job.source_only or reason else case
    if not os.path.isfile(main):
        return case  # that is told elsewhere
    sources, local = _sources(case, main, root)
    modules, reasons = modules_in(sources, local)
    return replace(case, job=replace(job, may_import=modules, unread="; ".join(reasons[:_MOST_REASONS])))


_MOST_REASONS = 2
_STARTS_PYTHON = re.compile(rb"^[^#\n]*\b(python[\d.]*|torchrun|ipython|papermill)\b", re.MULTILINE)


def _python_in(case: Case) -> str:
    """Return why the modules of a command are not known if it starts Python; empty if it does not seem to."""
    job = case.job
    words = [word.replace("{code}", job.folder) for word in (*job.command, *case.request.arguments)]
    for word in words:
        name = os.path.basename(word)
        if re.fullmatch(r"python[\d.]*", name):
            return f"which modules {' '.join(map(os.path.basename, words[:3]))} imports is not known"
        path = Path(case.context.cwd) / word
        try:
            if path.suffix in (".sh", ".bash", ".ipynb") and _STARTS_PYTHON.search(case.code_folders.content(path)):
                return f"{name} starts Python, and which modules that imports is not known"
        except (OSError, ValueError):
            continue
    return ""


def _options_of(case: Case) -> ProgramOptions | None:
    """Return what the program's source says; None if there is no Python source to read here."""
    main, root = _main_file(case)
    if main is None:
        return None
    sources, local = _sources(case, main, root)
    return options_in(sources, main.name, local, _settings_of_the_library(main.parent))


def _settings_of_the_library(folder: Path) -> list[str]:
    """Return the names of all settings that a program of hpclaunch.training can have."""
    groups = read_json(training_parameters_of(folder)).get("groups", {})
    return ["data_dir", "strategy", *(name for rows in groups.values() if isinstance(rows, dict) for name in rows)]


def _main_file(case: Case) -> tuple[Path | None, Path]:
    """Return the file of Python that runs, and the folder in which it looks for its modules first."""
    job, cwd = case.job, Path(case.context.cwd)
    if job.script:
        main = Path(job.folder) / job.script
        return main, main.parent
    path_of_programs = case.context.environment.get("PATH", os.defpath)
    words = [word.replace("{code}", job.folder) for word in (*job.command, *case.request.arguments)]
    for place, word in enumerate(words):
        path = cwd / (word if os.sep in word or place else find_on_path(path_of_programs, word) or word)
        if word == "-m" and place + 1 < len(words):
            return _module_file(words[place + 1], cwd), cwd
        if word.endswith(".py") and os.path.isfile(path):
            return path, path.parent
        if place == 0 and _is_python(path):
            return path, path.parent
    return None, cwd


def _is_python(path: Path) -> bool:
    """Whether a program is a text that Python runs."""
    try:
        with open(path, "rb") as file:
            return path.is_file() and bool(_SHEBANG.match(file.read(200)))
    except OSError:
        return False


def _module_file(module: str, root: Path) -> Path | None:
    """Return the file that ``python -m MODULE`` runs, if it is below the folder."""
    place = root.joinpath(*module.split("."))
    return next((path for path in (place.with_suffix(".py"), place / "__main__.py") if path.is_file()), None)


def _sources(case: Case, main: Path, root: Path) -> tuple[dict[str, Source | None], set[str]]:
    """Return a program and the modules beside it that it imports, and the top names of these."""
    sources: dict[str, Source | None] = {}
    local: set[str] = set()
    waiting, seen = deque([main]), {main}
    names: dict[Path, set[str]] = {}
    while waiting and len(sources) < _MOST_FILES:
        path = waiting.popleft()
        source = sources[os.path.relpath(path, main.parent)] = _source(path, case)
        for level, module in imports_of(source) if source else ():
            folder = path.parents[level - 1] if 0 < level <= len(path.parents) else root
            top = module.split(".")[0]
            if folder not in names:
                names[folder] = _names_in(folder, case)
            if module and not {top, f"{top}.py"} & names[folder]:
                continue  # a module of others: no file is looked for
            place = folder.joinpath(*module.split("."))
            for file in (place.with_suffix(".py"), place / "__init__.py"):
                if file not in seen and file.is_file():
                    seen.add(file)
                    waiting.append(file)
                    local.update([] if level else [top])
    if waiting:
        sources["…"] = None  # the files that are not read
    return sources, local


def _names_in(folder: Path, case: Case) -> set[str]:
    """Return the names in a folder; those of code that is copied are listed once, for this and for the copy."""
    code = Path(case.job.folder)
    if not case.job.in_place and (folder == code or code in folder.parents):
        with contextlib.suppress(UnusableCode):  # that is told elsewhere
            known = case.code_folders.at(str(code))
            names = known.names.get("" if folder == code else folder.relative_to(code).as_posix())
            if names and not known.found.is_part:
                return names
    try:
        return set(os.listdir(folder))
    except OSError:
        return set()


def _source(path: Path, case: Case) -> Source | None:
    try:
        return parsed(case.code_folders.content(path).decode("utf-8", "replace"))
    except (OSError, ValueError):
        return None
