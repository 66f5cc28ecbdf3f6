"""Frozen dataclasses that are quick to make.

``@dataclass(frozen=True)`` writes and compiles six methods for every class, about a millisecond each time hpclaunch
starts, and there are some hundred classes. All but ``__init__`` are the same for all, and stand here once.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Any:
        """Tell type checkers only, of which 3.11's own is unknown to Python 3.10."""
        return lambda made: made


T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,))
def record(cls: type[T]) -> type[T]:
    """Make a class a dataclass with slots whose attributes are set once, when it is made, and by name only.

    Equal, hashed and shown by its fields, as ``@dataclass(frozen=True, slots=True, kw_only=True)`` would be.
    """
    own = set(vars(cls))
    made: Any = dataclasses.dataclass(eq=False, repr=False, slots=True, kw_only=True)(cls)
    made.__setattr__, made.__delattr__ = _set_once, _keep
    for name, method in (("__eq__", _equal), ("__hash__", _hashed), ("__repr__", _shown)):
        if name not in own:
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]


def _set_once(self: Any, name: str, value: Any) -> None:
    if hasattr(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _keep(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _compared(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, field.name) for field in dataclasses.fields(self) if field.compare)


def _equal(self: Any, other: object) -> Any:
    return _compared(self) == _compared(other) if other.__class__ is self.__class__ else NotImplemented


def _hashed(self: Any) -> int:
    return hash(_compared(self))


def _shown(self: Any) -> str:
    told = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(told)})"
