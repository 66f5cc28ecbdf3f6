"""Reads the options of a Python program from its source: argparse, click, typer, absl and others; pure.

The source is only parsed. Nothing of the program is executed, so what it makes while it runs is not known.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Collection, Iterator, Mapping

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
_PARSERS = ("ArgumentParser", "OptionParser")
_PARTS = (*_PARSERS, "add_argument_group", "add_mutually_exclusive_group", "add_parser", "add_subparsers")
_VALUELESS = ("store_true", "store_false", "store_const", "append_const", "count", "help", "version")
_OWN_DECORATORS = ("command", "group", "option", "argument", "pass_context", "pass_obj", "callback")
_OPENING = ("parse_known_args", "parse_known_intermixed_args")
_LENIENT = ("ignore_unknown_options", "allow_extra_args")
"""With these functions of argparse, and settings of click, a program takes options that it does not declare."""

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
    reader = _OptionReader(local)
    reader.is_open = len(known) < len(sources)
    for source in known.values():
        reader.add(source)
    for name, source in known.items():
        reader.read(name, source)
    return reader.found(program, library)


class _OptionReader:
    """Collects the options of several files."""

    def __init__(self, local: Collection[str]) -> None:
        self._local = frozenset(local)
        self._modules: dict[str, str] = {}
        self._functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self._known: set[str] = set()
        self._parsers: set[str] = set()
        self._options: list[DeclaredOption] = []
        self._forms: dict[Form, str] = {}
        self._settings: list[DeclaredOption] = []
        self._has_parser = self._uses_library = False
        self.is_open = False
        """Whether the program may have options that were not found."""

    def add(self, tree: Source) -> None:
        """Note the imports and definitions of a file."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for one in node.names:
                    bound = one.asname or one.name.split(".")[0]
                    self._modules[bound] = one.name if one.asname else bound
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                for one in node.names:
                    self._modules[one.asname or one.name] = f"{node.module}.{one.name}"
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._functions[node.name] = node
                self._known.add(node.name)
            elif isinstance(node, ast.ClassDef):
                self._known.add(node.name)
            elif isinstance(node, ast.Call) and _last_name(node.func) in ("add_argument", "add_option"):
                self._parsers.update(_receiver(node.func))
            self.is_open |= isinstance(node, ast.keyword) and node.arg in _LENIENT
            self.is_open |= isinstance(node, ast.Constant) and node.value in _LENIENT

    def read(self, name: str, tree: Source) -> None:
        """Note the options of a file."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                self._read_call(node, f"{name}:{node.lineno}")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._read_function(node, name)
            elif isinstance(node, ast.ClassDef):
                bases = [_last_name(base) for base in node.bases]
                self._has_parser |= any(base in _PARSERS for base in bases)
                if "add_argument" in ast.dump(node) and "self" in self._parsers:
                    self.is_open |= not all(base in (*_PARSERS, *self._known, "object") for base in bases)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                made = any(isinstance(target, ast.Name) and target.id in self._parsers for target in node.targets)
                self.is_open |= made and _last_name(node.value.func) not in (*_PARTS, *self._known)

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
        name, full = _last_name(call.func), self._full_name(call.func)
        self._has_parser |= name in _PARSERS
        if full in _FORMS:
            self._forms.setdefault(_FORMS[full], where)
            if full.startswith(_LIBRARY):
                self._read_settings(call, where)
        if name in ("add_argument", "add_option"):
            self._read_argument(call, where)
        elif name == "option" or full in ("click.Option", "typer.Option"):
            self._read_click(call, where)
        elif name == "argument" and call.args:
            self._options += [DeclaredOption(spelled=(), where=where, name=text) for text in _texts(call.args[:1])]
        elif name.startswith("DEFINE_"):
            self._read_absl(call, name, where)
        elif full == "typer.run" and call.args:
            self._read_typer(self._functions.get(_last_name(call.args[0])), where)
        self.is_open |= name in _OPENING or any(word.arg == "parents" for word in call.keywords)
        given = [*call.args, *(word.value for word in call.keywords)]
        passed = any(isinstance(one, ast.Name) and one.id in self._parsers for one in given)
        self.is_open |= passed and name not in self._known

    def _read_settings(self, call: ast.Call, where: str) -> None:
        """Note the settings of a program of hpclaunch.training; those of its own stand in the call."""
        self._uses_library = True
        self.is_open |= any(word.arg is None for word in call.keywords)
        self._settings += [
            _option_with_dashes(word.arg, where) for word in call.keywords if word.arg not in (None, "description")
        ]

    def _read_argument(self, call: ast.Call, where: str) -> None:
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
        is_flag = _text(action) in _VALUELESS or _last_name(action) == "BooleanOptionalAction"
        off = f"--no-{spelled[-1].lstrip('-')}" if _last_name(action) == "BooleanOptionalAction" else ""
        self._options.append(DeclaredOption(spelled=spelled, where=where, name=dest, takes_value=not is_flag, off=off))

    def _read_click(self, call: ast.Call, where: str) -> None:
        """Note an option of click, or one of typer with forms of its own."""
        texts = _texts(call.args)
        forms = [form for text in texts if text.startswith("-") for form in text.split("/")]
        spelled = tuple(form.strip() for form in forms if form.strip().startswith("-"))
        if not spelled:
            return
        self._has_parser = True
        name = next((text for text in texts if not text.startswith("-")), "")
        off = next((text.split("/")[1].strip() for text in texts if text.startswith("-") and "/" in text), "")
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
        names = [_last_name(one.func if isinstance(one, ast.Call) else one) for one in function.decorator_list]
        full = [self._full_name(one.func if isinstance(one, ast.Call) else one) for one in function.decorator_list]
        for one in full:
            if one in _FORMS:
                self._forms.setdefault(_FORMS[one], f"{file}:{function.lineno}")
        if "command" not in names and "callback" not in names:
            return
        self._has_parser = True
        self.is_open |= any(name not in (*_OWN_DECORATORS, *self._known) for name in names)
        if "typer" in self._top_modules() and "option" not in names:
            self._read_typer(function, f"{file}:{function.lineno}")

    def _read_typer(self, function: ast.FunctionDef | ast.AsyncFunctionDef | None, where: str) -> None:
        """Note the options of a command of typer: its parameters with a default, and those that say Option."""
        self._has_parser = True
        if function is None:
            self.is_open = True
            return
        file = where.rpartition(":")[0]
        for argument, default in _parameters(function):
            marks = [node for node in ast.walk(argument) if isinstance(node, ast.Call)]
            marks += [default] if isinstance(default, ast.Call) else []
            kinds = [_last_name(mark.func) for mark in marks]
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

    def _full_name(self, node: ast.expr | None) -> str:
        """Return the name of a function with that of its module, ``module.name``; empty if it is not imported."""
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self._modules:
            return ""
        module = self._modules[node.id]
        return "" if module.split(".")[0] in self._local else ".".join([module, *reversed(parts)])

    def _top_modules(self) -> set[str]:
        return {module.split(".")[0] for module in self._modules.values()} - self._local


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


def _last_name(node: ast.expr | None) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _receiver(node: ast.expr) -> list[str]:
    return [node.value.id] if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) else []


def _names_in(node: ast.expr | None) -> set[str]:
    return {_last_name(one) for one in ast.walk(node) if isinstance(one, ast.expr)} if node else set()


def _texts(nodes: Collection[ast.expr]) -> list[str]:
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True
