"""Tells from its source whether a program may have options that no line of it declares in plain words; pure.

It errs on one side: where it cannot see that every option stands in the source, there may be more.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping

from hpclaunch.config.program_names import PARSERS, ProgramNames, last_name

_ADDING = ("add_argument", "add_option")
_UNREAD = ("_add_action", "add_options", "make_option")
_CLICK = ("click.option", "click.Option", "typer.Option")
_READING = (*_ADDING, "parse_args", "parse_intermixed_args")
_OPENING = ("parse_known_args", "parse_known_intermixed_args")
_LENIENT = ("ignore_unknown_options", "allow_extra_args")
"""With these functions of argparse, and settings of click, a program takes options that it does not declare."""
_KEYWORDS = ("parents", "prefix_chars", "option_list")
_MAKING = (*PARSERS, "add_argument_group", "add_mutually_exclusive_group", "add_parser", "add_subparsers")
_MAKING_OF_OPTPARSE = ("OptionGroup", "add_option_group")
_STANDARD = ("argparse", "optparse", "configargparse")
_LOADING = ("import_module", "__import__", "exec", "entry_points", "run_path", "run_module", "iter_modules")
_HARMLESS = (
    "parse_args",
    "parse_intermixed_args",
    "len",
    "print",
    "str",
    "repr",
    "list",
    "join",
    "basename",
    "dirname",
)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LIBRARIES = {
    "argbind", "argh", "cappa", "chz", "clize", "cyclopts", "datargs", "defopt", "detectron2", "docopt", "draccus",
    "fire", "getopt", "gflags", "gin", "hydra", "jsonargparse", "ml_collections", "mmcv", "mmengine", "plac",
    "pydantic_settings", "sacred", "simple_parsing", "tap", "typed_argparse", "tyro",
}  # fmt: skip
"""Modules that read the command line with options of their own, or with those of a file or a class."""


def may_have_more(nodes: Collection[ast.AST], names: ProgramNames) -> bool:
    """Return whether a program with these nodes may take options beside those that its calls spell out."""
    return bool(names.top_modules & _LIBRARIES) or _Judge(nodes, names).is_open()


def parts_that_run(sources: Mapping[str, ast.Module], program: str) -> Iterator[ast.AST]:
    """Yield the program's file, and of its other files what it may run: not what only runs if they are programs."""
    main = sources.get(program)
    others = [node for name, source in sources.items() if name != program for node in source.body]
    definitions = [node for node in others if isinstance(node, _DEFINITIONS)]
    running: list[ast.AST] = [node for node in others if node not in definitions and not _is_guard(node)]
    mentioned = _names_in(main) - _definitions_in(main) if main else set()
    for node in running:
        mentioned |= _names_in(node)
    while found := [node for node in definitions if node.name in mentioned]:
        definitions = [node for node in definitions if node not in found]
        running += found
        for node in found:
            mentioned |= _names_in(node)
    yield from ([main] if main else [])
    yield from running


class _Judge:
    """Looks at every node of the files."""

    def __init__(self, nodes: Collection[ast.AST], names: ProgramNames) -> None:
        self._nodes = nodes
        self._names = names
        self._called = {id(node.func) for node in self._nodes if isinstance(node, ast.Call)}
        self._parsers = {
            ast.unparse(node.func.value)
            for node in self._nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _READING
        }
        assigned = [(ast.unparse(target), value) for node in self._nodes for target, value in _assignments(node)]
        while more := {ast.unparse(value) for name, value in assigned if name in self._parsers and _is_place(value)}:
            if more <= self._parsers:
                break
            self._parsers |= more

    def is_open(self) -> bool:
        return any(self._opens(node) for node in self._nodes) or self._reads_the_line_itself()

    def _opens(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Call):
            return self._opens_by_call(node)
        if isinstance(node, ast.Attribute | ast.Name):
            is_called = id(node) in self._called
            is_adding = last_name(node) in _ADDING or self._names.full(node) in _CLICK
            return (is_adding and not is_called) or last_name(node) in (*_UNREAD, "REMAINDER")
        if isinstance(node, ast.Constant):
            return node.value in (*_ADDING, *_LENIENT)
        if isinstance(node, ast.keyword):
            return node.arg in (*_LENIENT, *_KEYWORDS) or (node.arg == "nargs" and _is_rest(node.value))
        if isinstance(node, ast.ClassDef):
            adds = "self" in self._parsers and any(name in ast.dump(node) for name in _ADDING)
            return adds and node.name not in self._names.defined
        return any(
            ast.unparse(target) in self._parsers and not self._is_known_parser(value)
            for target, value in _assignments(node)
        )

    def _opens_by_call(self, call: ast.Call) -> bool:
        name, full = last_name(call.func), self._names.full(call.func)
        words = {word.arg for word in call.keywords}
        if name in (*_OPENING, *_LOADING) or (name in ("command", "group") and "cls" in words):
            return True  # a class of commands can add options
        if name in PARSERS and full and full.split(".")[0] not in _STANDARD:
            return True
        if name in ("add_command", "add_typer") and any(self._names.full(one) for one in call.args):
            return True
        if name in _READING and isinstance(call.func, ast.Attribute):
            # A parser that reads a list of the source leaves the command line to something else.
            has_list = name == "parse_args" and any(
                isinstance(one, ast.List | ast.Tuple) for one in _arguments_of(call)
            )
            return has_list or self._is_foreign(call.func.value)
        if name in (*_MAKING, *_MAKING_OF_OPTPARSE) or self._names.is_own(call.func):
            return False
        return any(_is_place(one) and ast.unparse(one) in self._parsers for one in _arguments_of(call))

    def _is_foreign(self, receiver: ast.expr) -> bool:
        """Whether a parser comes from elsewhere, so that it may already have options."""
        if isinstance(receiver, ast.Call):
            return last_name(receiver.func) != "super" and not self._is_known_parser(receiver)
        return _is_place(receiver) and not self._names.is_bound(receiver)

    def _is_known_parser(self, value: ast.expr) -> bool:
        if isinstance(value, ast.Call):
            return last_name(value.func) in (*_MAKING, *_MAKING_OF_OPTPARSE) or self._names.is_own(value.func)
        if isinstance(value, ast.IfExp):
            return self._is_known_parser(value.body) and self._is_known_parser(value.orelse)
        if isinstance(value, ast.Tuple | ast.List):
            return all(self._is_known_parser(one) for one in value.elts)
        is_none = isinstance(value, ast.Constant) and value.value is None
        return is_none or (_is_place(value) and self._names.is_bound(value))

    def _reads_the_line_itself(self) -> bool:
        """Whether it looks for options in sys.argv, or changes it; to print it or to hand it to a parser is neither."""
        allowed: set[int] = set()
        for node in self._nodes:
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
                allowed.add(id(node.value))
            elif isinstance(node, ast.Call) and (last_name(node.func) in _HARMLESS or self._names.is_own(node.func)):
                allowed.update(map(id, _arguments_of(node)))
        searched = [part for node in self._nodes for part in _iterables_in(node)]
        if any(self._is_line(inner) for part in searched for inner in ast.walk(part)):
            return True
        return any(self._is_line(node) and id(node) not in allowed for node in self._nodes)

    def _is_line(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute | ast.Name) and self._names.full(node) == "sys.argv"


def _iterables_in(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what a loop goes through, and what something is looked for in."""
    if isinstance(node, ast.For | ast.comprehension):
        yield node.iter
    elif isinstance(node, ast.Compare) and any(isinstance(one, ast.In | ast.NotIn) for one in node.ops):
        yield from node.comparators


def _assignments(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield what a statement gives a value, with the value; that of a loop is what it goes through."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from ((one, node.value) for one in _parts(target))
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, ast.For):
        yield from ((one, node.iter) for one in _parts(node.target))
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield node.optional_vars, node.context_expr


def _parts(target: ast.expr) -> list[ast.expr]:
    return list(target.elts) if isinstance(target, ast.Tuple | ast.List) else [target]


def _arguments_of(call: ast.Call) -> list[ast.expr]:
    """Return what a call gets, and the members of lists that it gets."""
    found = [*call.args, *(word.value for word in call.keywords)]
    found += [part for one in found if isinstance(one, ast.List | ast.Tuple) for part in one.elts]
    return found + [one.value for one in found if isinstance(one, ast.Starred)]


def _is_place(node: ast.expr) -> bool:
    return isinstance(node, ast.Name | ast.Attribute)


def _is_rest(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in ("...", "A...")


def _is_guard(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "__name__" in _names_in(node.test)


def _definitions_in(source: ast.Module) -> set[str]:
    return {node.name for node in ast.walk(source) if isinstance(node, _DEFINITIONS)}


def _names_in(node: ast.AST) -> set[str]:
    return {last_name(one) for one in ast.walk(node) if isinstance(one, ast.Name | ast.Attribute)} | {
        alias.name for one in ast.walk(node) if isinstance(one, ast.ImportFrom) for alias in one.names
    }
