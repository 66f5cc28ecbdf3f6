"""Frozen dataclasses that are quick to define.

``@dataclass(frozen=True)`` generates and compiles six methods per class. That takes about a millisecond for each class
at every start, and a submission defines about eighty classes. All classes can share these methods, as they do here.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Any:
        """Do nothing: the decorator is for type checkers only, and Python 3.10 does not have that of 3.11."""
        return lambda made: made


T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,))
def record(cls: type[T]) -> type[T]:
    """Make a class a dataclass with slots, keyword-only arguments, and attributes that can be set only once.

    Equality, hash and repr use its fields, as with ``@dataclass(frozen=True, slots=True, kw_only=True)``.
    """
    own = set(vars(cls))
    made: Any = dataclasses.dataclass(init=False, eq=False, repr=False, slots=True, kw_only=True)(cls)
    made.__init__, made.__setattr__, made.__delattr__ = _initialize, _set_once, _refuse_to_delete
    for name, method in (("__eq__", _is_equal), ("__hash__", _hash), ("__repr__", _show)):
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


def _values_of(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, field.name) for field in dataclasses.fields(self) if field.compare)


def _is_equal(self: Any, other: object) -> Any:
    return _values_of(self) == _values_of(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values_of(self))


def _show(self: Any) -> str:
    fields = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(fields)})"
