"""What the names in the source of a Python program mean: what is imported, what is its own; pure."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable

PARSERS = ("ArgumentParser", "OptionParser")


class ProgramNames:
    """The imports and definitions among the nodes of a program. ``local``: the top names of its own modules."""

    def __init__(self, nodes: Iterable[ast.AST], local: Collection[str]) -> None:
        self._local = frozenset(local)
        self._modules: dict[str, str] = {}
        self.functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self._classes: dict[str, list[ast.expr]] = {}
        self._bound: set[str] = set()
        for node in nodes:
            self._add(node)
        while foreign := [name for name, bases in self._classes.items() if not self._are_own(bases)]:
            for name in foreign:
                del self._classes[name]
        self.defined = frozenset((*self.functions, *self._classes))
        """The functions of the program, and its classes that inherit from nothing but its own and from parsers."""

    def _add(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for one in node.names:
                bound = one.asname or one.name.split(".")[0]
                self._modules[bound] = one.name if one.asname else bound
                self._bound.add(bound)
        elif isinstance(node, ast.ImportFrom):
            for one in node.names:
                self._bound.add(one.asname or one.name)
                if not node.level and node.module:
                    self._modules[one.asname or one.name] = f"{node.module}.{one.name}"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self.functions[node.name] = node
        elif isinstance(node, ast.ClassDef):
            self._classes[node.name] = node.bases
        elif isinstance(node, ast.arg):
            self._bound.add(node.arg)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            self._bound.add(last_name(node))

    def _are_own(self, bases: Collection[ast.expr]) -> bool:
        known = (*PARSERS, "object")
        return all(
            last_name(base) in known or (last_name(base) in self._classes and not self.full(base)) for base in bases
        )

    @property
    def top_modules(self) -> set[str]:
        """The modules of others that it imports, by their top names."""
        return {module.split(".")[0] for module in self._modules.values()} - self._local

    def full(self, node: ast.expr | None) -> str:
        """Return the name of something of another module, ``module.name``; empty if it is not imported."""
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self._modules:
            return ""
        module = self._modules[node.id]
        return "" if module.split(".")[0] in self._local else ".".join([module, *reversed(parts)])

    def is_own(self, node: ast.expr) -> bool:
        """Whether a function or class is defined in these files."""
        owner = node.value if isinstance(node, ast.Attribute) else None
        if isinstance(owner, ast.Call) and last_name(owner.func) == "super":
            return False  # the method of another class
        return last_name(node) in self.defined and not self.full(node)

    def is_bound(self, node: ast.expr) -> bool:
        """Whether these files give a variable its value."""
        return last_name(node) in self._bound and not self.full(node)


def last_name(node: ast.expr | None) -> str:
    """Return the last part of a dotted name; empty for anything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
