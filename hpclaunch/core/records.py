"""Frozen dataclasses that are quick to define.

``@dataclass(frozen=True)`` writes and compiles six methods for every class, about a millisecond each time hpclaunch
starts, and a submission defines some eighty classes. These methods are the same for all classes, and stand here once.
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
    made: Any = dataclasses.dataclass(init=False, eq=False, repr=False, slots=True, kw_only=True)(cls)
    made.__init__, made.__setattr__, made.__delattr__ = _initialize, _set_once, _refuse_to_delete
    for name, method in (("__eq__", _equal), ("__hash__", _hash), ("__repr__", _show)):
        if name not in own:
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]


def _initialize(self: Any, **values: Any) -> None:
    """Set every field to its value or its default. Raises TypeError for a missing or an unknown name."""
    for name, field in self.__dataclass_fields__.items():
        if name in values:
            value = values.pop(name)
        elif field.default is not dataclasses.MISSING:
            value = field.default
        elif field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        else:
            raise TypeError(f"{type(self).__qualname__}() needs {name}=")
        object.__setattr__(self, name, value)
    if values:
        raise TypeError(f"{type(self).__qualname__}() has no {', '.join(values)}")
    if hasattr(self, "__post_init__"):
        self.__post_init__()


def _set_once(self: Any, name: str, value: Any) -> None:
    if hasattr(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)  # copy and pickle set the fields of a new object


def _refuse_to_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _compared(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, field.name) for field in dataclasses.fields(self) if field.compare)


def _equal(self: Any, other: object) -> Any:
    return _compared(self) == _compared(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash(_compared(self))


def _show(self: Any) -> str:
    fields = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(fields)})"
