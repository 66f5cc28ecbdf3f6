"""Says which changes of a file count as mutants: those of what runs, that the compiler accepts without a warning."""

from __future__ import annotations

import ast
import warnings
from functools import lru_cache


def is_counted(source: str, mutated: str) -> bool:
    """Whether a mutant changes what runs, and the compiler does not complain.

    Docstrings, annotations of functions (and of variables, in files that postpone them) and blocks under TYPE_CHECKING
    do not run. The compiler refuses wrong syntax, and warns of ``is`` beside a number or a text.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error", SyntaxWarning)
        try:
            compile(mutated, "mutant", "exec")
        except (SyntaxError, SyntaxWarning):
            return False
    return _running_part(source) != _running_part(mutated)


@lru_cache(maxsize=4)
def _running_part(source: str) -> str:
    tree = ast.parse(source)
    return ast.dump(_RunningPart("from __future__ import annotations" in source).visit(tree))


class _RunningPart(ast.NodeTransformer):
    """Removes what never runs."""

    def __init__(self, postponed: bool) -> None:
        self._postponed = postponed

    def visit_If(self, node: ast.If) -> ast.AST | None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return None
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if self._postponed:
            node.annotation = ast.Constant(None)
        return self.generic_visit(node)
