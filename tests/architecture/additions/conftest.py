"""A desk to type at, as in tests/cli, whose hpclaunch is that of a copy of the tree."""

from tests.cli.conftest import desk

__all__ = ["desk"]
