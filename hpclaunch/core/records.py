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
    """Make a class a frozen dataclass with keyword-only arguments.

    Equality, hash and repr use its fields, as with ``@dataclass(frozen=True, kw_only=True)``. It has no slots: for them
    `dataclasses` makes every class twice.
    """
    own = set(vars(cls))
    made: Any = dataclasses.dataclass(init=False, eq=False, repr=False, kw_only=True)(cls)
    made.__init__, made.__setattr__, made.__delattr__ = _initialize, _refuse_to_set, _refuse_to_delete
    for name, method in (("__eq__", _is_equal), ("__hash__", _hash), ("__repr__", _show)):
        if name not in own:
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def placed_record(cls: type[T]) -> type[T]:
    """Make a class a record whose arguments may be given by their place, too: for values of one or two fields."""
    made: Any = record(cls)
    made.__init__ = _initialize_by_place
    return made  # type: ignore[no-any-return]


def _initialize_by_place(self: Any, *given: Any, **values: Any) -> None:
    names = [*self.__dataclass_fields__]
    if len(given) > len(names) or not values.keys().isdisjoint(names[: len(given)]):
        raise TypeError(f"{type(self).__qualname__}() takes {', '.join(names)}, each once")
    _initialize(self, **dict(zip(names, given, strict=False)), **values)


def _initialize(self: Any, **values: Any) -> None:
    """Set every field to its value or its default. Raises TypeError for a missing or an unknown name."""
    fields = self.__dataclass_fields__
    if values.keys() != fields.keys():  # dataclasses.replace gives all of them: a plan makes thousands of records so
        _complete(self, values)
    self.__dict__.update(values)
    if hasattr(self, "__post_init__"):
        self.__post_init__()


def _complete(self: Any, values: dict[str, Any]) -> None:
    """Add the defaults of the fields that have no value. Raises TypeError for a missing or an unknown name."""
    fields = self.__dataclass_fields__
    if unknown := values.keys() - fields.keys():
        raise TypeError(f"{type(self).__qualname__}() has no {', '.join(sorted(unknown))}")
    for name, field in fields.items():
        if name in values:
            continue
        if field.default is not dataclasses.MISSING:
            values[name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            values[name] = field.default_factory()
        else:
            raise TypeError(f"{type(self).__qualname__}() needs {name}=")


def _refuse_to_set(self: Any, name: str, value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


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
