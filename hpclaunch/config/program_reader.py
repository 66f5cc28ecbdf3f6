"""Reads the options of a Python program from its source: argparse, click, typer, absl and others; pure.

The source is only parsed. Nothing of the program is executed, so what it makes while it runs is not known.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Collection, Iterator, Mapping
from itertools import chain

from hpclaunch.config.open_programs import may_have_more, parts_that_run
from hpclaunch.config.program_names import PARSERS, ProgramNames, last_name
from hpclaunch.config.program_options import DeclaredOption, Form, ProgramOptions

_FORMS: Mapping[str, Form] = {
    "hpclaunch.training.settings": "dashes",
    "hpclaunch.training.on_pytorch.settings": "dashes",
    "hpclaunch.training.on_jax.settings": "dashes",
    "fire.Fire": "either",
    "tyro.cli": "either",
    "hydra.main": "key=value",
    "omegaconf.OmegaConf.from_cli": "key=value",
    "jsonargparse.CLI": "underscores",
    "jsonargparse.auto_cli": "underscores",
    "lightning.pytorch.cli.LightningCLI": "underscores",
    "pytorch_lightning.cli.LightningCLI": "underscores",
    "transformers.HfArgumentParser": "underscores",
    "simple_parsing.ArgumentParser": "underscores",
    "simple_parsing.parse": "underscores",
}
"""Functions that make options from the parameters of functions and classes, or from files. Seen with fire 0.7, tyro
1.0, hydra 1.3, jsonargparse 4.53 and simple-parsing 0.1; the others as their documentation says."""
_LIBRARY = "hpclaunch.training"
_VALUELESS = ("store_true", "store_false", "store_const", "append_const", "count", "help", "version")
_OWN_DECORATORS = ("command", "group", "option", "argument", "pass_context", "pass_obj", "callback")

Source = ast.Module
"""A parsed file of Python."""


def parsed(text: str) -> Source | None:
    """Return the source of a file, parsed; None if this Python cannot parse it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the program's own escape sequences
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def imports_of(source: Source) -> Iterator[tuple[int, str]]:
    """Yield the modules that a file may import, as (dots before a relative name, dotted name)."""
    for node in ast.walk(source):
        if isinstance(node, ast.Import):
            yield from ((0, one.name) for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            yield node.level, module
            yield from ((node.level, f"{module}.{one.name}".lstrip(".")) for one in node.names)


def options_in(
    sources: Mapping[str, Source | None], program: str, local: Collection[str] = (), library: Collection[str] = ()
) -> ProgramOptions:
    """Return the options that the source of a program declares.

    ``sources``: by name the program's file and the modules beside it that it imports, whose top names are ``local``;
    None is one that cannot be read. ``library``: the settings of hpclaunch.training.
    """
    known = {name: source for name, source in sources.items() if source is not None}
    nodes = {name: list(ast.walk(source)) for name, source in known.items()}
    every = list(chain.from_iterable(nodes.values()))
    names = ProgramNames(every, local)
    parts = parts_that_run(known, program) if len(known) > 1 else ()
    running = {id(node) for part in parts for node in ast.walk(part)} or {id(node) for node in every}
    reader = _OptionReader(names, running)
    reader.is_open = len(known) < len(sources) or may_have_more(every, names)
    for name, found in nodes.items():
        reader.read(name, found)
    return reader.found(program, library)


class _OptionReader:
    """Collects the options of several files. ``running``: the nodes of what the program may run."""

    def __init__(self, names: ProgramNames, running: Collection[int]) -> None:
        self._names = names
        self._running = running
        self._options: list[DeclaredOption] = []
        self._forms: dict[Form, str] = {}
        self._settings: list[DeclaredOption] = []
        self._has_parser = self._uses_library = False
        self.is_open = False
        """Whether the program may have options that were not found."""

    def read(self, name: str, nodes: Collection[ast.AST]) -> None:
        """Note the options of a file."""
        for node in nodes:
            if isinstance(node, ast.Call):
                self._read_call(node, f"{name}:{node.lineno}")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._read_function(node, name)
            elif isinstance(node, ast.ClassDef):
                self._note_parser(node, any(last_name(base) in PARSERS for base in node.bases))

    def _note_parser(self, node: ast.AST, is_parser: bool = True) -> None:
        """Note that a node makes a parser, unless the program never runs it."""
        self._has_parser |= is_parser and id(node) in self._running

    def found(self, program: str, library: Collection[str]) -> ProgramOptions:
        """Return everything that was noted."""
        form = next(iter(self._forms), None) if len(self._forms) == 1 else None
        options = list(self._options)
        is_complete = self._has_parser and not self.is_open and not self._forms
        if self._uses_library:
            where = self._forms.get("dashes", "")
            own = {one.name for one in self._settings}
            options += self._settings
            options += [_option_with_dashes(name, where) for name in library if name not in own]
            is_complete = not self.is_open and form == "dashes" and bool(library)
        where = self._forms[form] if form else ""
        return ProgramOptions(
            program=program, options=tuple(options), form=form, form_source=where, is_complete=is_complete
        )

    def _read_call(self, call: ast.Call, where: str) -> None:
        name, full = last_name(call.func), self._names.full(call.func)
        self._note_parser(call, name in PARSERS)
        if full in _FORMS:
            self._forms.setdefault(_FORMS[full], where)
            if full.startswith(_LIBRARY):
                self._read_settings(call, where)
        if name in ("add_argument", "add_option"):
            self._read_argument(call, where, glued=name == "add_option")
        elif name == "option" or full in ("click.Option", "typer.Option"):
            self._read_click(call, where, full)
        elif name == "argument" and call.args:
            self._options += [DeclaredOption(spelled=(), where=where, name=text) for text in _texts(call.args[:1])]
        elif name.startswith("DEFINE_"):
            self._read_absl(call, name, where)
        elif full == "typer.run" and call.args:
            self._note_parser(call)
            self._read_typer(self._names.functions.get(last_name(call.args[0])), where)

    def _read_settings(self, call: ast.Call, where: str) -> None:
        """Note the settings of a program of hpclaunch.training; those of its own stand in the call."""
        self._uses_library = True
        self.is_open |= any(word.arg is None for word in call.keywords)
        self._settings += [
            _option_with_dashes(word.arg, where) for word in call.keywords if word.arg not in (None, "description")
        ]

    def _read_argument(self, call: ast.Call, where: str, glued: bool) -> None:
        """Note an option or a positional argument of argparse, an option of optparse."""
        words = {word.arg: word.value for word in call.keywords}
        texts = _texts(call.args)
        self.is_open |= len(texts) < len(call.args)
        spelled = tuple(text for text in texts if text.startswith("-"))
        dest = _text(words.get("dest"))
        if not spelled:
            if texts or dest:
                self._options.append(DeclaredOption(spelled=(), where=where, name=texts[0] if texts else dest))
            return
        action = words.get("action")
        is_flag = _text(action) in _VALUELESS or last_name(action) == "BooleanOptionalAction"
        off = f"--no-{spelled[-1].lstrip('-')}" if last_name(action) == "BooleanOptionalAction" else ""
        self._options.append(
            DeclaredOption(spelled=spelled, where=where, name=dest, takes_value=not is_flag, off=off, glued=glued)
        )

    def _read_click(self, call: ast.Call, where: str, full: str) -> None:
        """Note an option of click, or one of typer with forms of its own; that may begin with its default."""
        given = call.args
        if full == "typer.Option" and not any(text.startswith("-") for text in _texts(given[:1])):
            given = given[1:]
        if full == "click.Option" and given and isinstance(given[0], ast.List | ast.Tuple):
            given = given[0].elts
        texts = _texts(given)
        self.is_open |= len(texts) < len(given)
        declared = [text for text in texts if text.startswith("-")]
        # "--shout/--quiet" declares an option and the one that undoes it.
        forms = [form.strip() for text in declared for form in text.split("/")]
        spelled = tuple(form for form in forms if form.startswith("-"))
        if not spelled:
            return
        self._note_parser(call)
        name = next((text for text in texts if not text.startswith("-")), "")
        off = next((text.split("/")[1].strip() for text in declared if "/" in text), "")
        words = {word.arg: word.value for word in call.keywords}
        is_flag = bool(off) or "flag_value" in words or any(_is_true(words.get(key)) for key in ("is_flag", "count"))
        self._options.append(
            DeclaredOption(spelled=spelled, where=where, name=name, takes_value=not is_flag, off=off, glued=True)
        )

    def _read_absl(self, call: ast.Call, kind: str, where: str) -> None:
        """Note a flag of absl. Every imported module may define more of them."""
        self.is_open = True
        self._options += [
            DeclaredOption(spelled=(f"--{text}",), where=where, name=text) for text in _texts(call.args[:1])
        ]

    def _read_function(self, function: ast.FunctionDef | ast.AsyncFunctionDef, file: str) -> None:
        """Note the options of a command of click or typer; a decorator of another library may add options."""
        names = [last_name(one.func if isinstance(one, ast.Call) else one) for one in function.decorator_list]
        full = [self._names.full(one.func if isinstance(one, ast.Call) else one) for one in function.decorator_list]
        for one in full:
            if one in _FORMS:
                self._forms.setdefault(_FORMS[one], f"{file}:{function.lineno}")
        if "command" not in names and "callback" not in names:
            return
        self._note_parser(function)
        self.is_open |= any(name not in (*_OWN_DECORATORS, *self._names.defined) for name in names)
        if "typer" in self._names.top_modules and "option" not in names:
            self._read_typer(function, f"{file}:{function.lineno}")

    def _read_typer(self, function: ast.FunctionDef | ast.AsyncFunctionDef | None, where: str) -> None:
        """Note the options of a command of typer: its parameters with a default, and those that say Option."""
        if function is None:
            self.is_open = True
            return
        file = where.rpartition(":")[0]
        for argument, default in _parameters(function):
            marks = [node for node in ast.walk(argument) if isinstance(node, ast.Call)]
            marks += [default] if isinstance(default, ast.Call) else []
            kinds = [last_name(mark.func) for mark in marks]
            if "Context" in _names_in(argument.annotation):
                continue
            place = f"{file}:{argument.lineno}"
            if "Argument" in kinds or (default is None and "Option" not in kinds):
                self._options.append(DeclaredOption(spelled=(), where=place, name=argument.arg))
                continue
            if any(text.startswith("-") for mark in marks for text in _texts(mark.args)):
                continue  # with forms of its own, which its call tells
            dashed = argument.arg.replace("_", "-")
            is_flag = "bool" in _names_in(argument.annotation)
            self._options.append(
                DeclaredOption(
                    spelled=(f"--{dashed}",),
                    where=place,
                    name=argument.arg,
                    takes_value=not is_flag,
                    off=f"--no-{dashed}" if is_flag else "",
                    glued=True,
                )
            )


def _option_with_dashes(name: str | None, where: str) -> DeclaredOption:
    return DeclaredOption(spelled=(f"--{(name or '').replace('_', '-')}",), where=where, name=name or "")


def _parameters(
    function: ast.FunctionDef | ast.AsyncFunctionDef,
) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """Yield the parameters of a function, each with its default."""
    ordered = [*function.args.posonlyargs, *function.args.args]
    none = [None] * (len(ordered) - len(function.args.defaults))
    yield from zip(ordered, [*none, *function.args.defaults], strict=True)
    yield from zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)


def _names_in(node: ast.expr | None) -> set[str]:
    return {last_name(one) for one in ast.walk(node) if isinstance(one, ast.expr)} if node else set()


def _texts(nodes: Collection[ast.expr]) -> list[str]:
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True
