"""Which part of a whole variable a rank holds; the variable itself knows it. It communicates with no rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence


@dataclass(frozen=True)
class Split:
    """A whole variable in `parts` equal parts along `axis`; this rank has part `index`. whole: the length of the axis.

    Raises ValueError if the parts would not be equal.
    """

    axis: int
    whole: int
    parts: int
    index: int

    def __post_init__(self) -> None:
        if self.whole % self.parts:
            raise ValueError("{} cannot be divided into {} equal parts".format(self.whole, self.parts))

    @property
    def length(self) -> int:
        """The length of a part."""
        return self.whole // self.parts

    def own_shape(self, whole: Sequence[int]) -> tuple[int, ...]:
        """The shape of a part of a variable with the shape `whole`."""
        return (*whole[: self.axis], self.length, *whole[self.axis + 1 :])

    def whole_shape(self, own: Sequence[int]) -> tuple[int, ...]:
        """The shape of the whole variable of which a part has the shape `own`."""
        return (*own[: self.axis], self.whole, *own[self.axis + 1 :])

    def part(self, whole: Any, index: int | None = None) -> Any:
        """This rank's part of a whole array or tensor, or that of another `index`."""
        begin = (self.index if index is None else index) * self.length
        return whole[(slice(None),) * self.axis + (slice(begin, begin + self.length),)]


def mark(variable: Any, split: Split) -> None:
    """Note on a variable of Keras that it is a part."""
    _inner_variable(variable).split = split


def split_of(variable: Any) -> Split | None:
    """What a variable is a part of; None if it is whole."""
    return getattr(_inner_variable(variable), "split", None)


def _inner_variable(variable: Any) -> Any:
    """The variable inside a casting one of a 16-bit model."""
    return getattr(variable, "_variable", variable) if type(variable).__name__.startswith("AutoCast") else variable


class OwnPart:
    """An initializer of Keras that makes the whole variable and keeps this rank's part of it.

    So the model begins with the same weights whatever the number of parts is, if the ranks have the same seeds.
    """

    def __init__(self, initializer: Any, split: Split) -> None:
        self._initializer, self._split = initializer, split

    def __call__(self, shape: Any, dtype: Any = None, **options: Any) -> Any:
        whole = self._split.whole_shape(tuple(shape))
        return self._split.part(self._initializer(whole, dtype=dtype, **options))
