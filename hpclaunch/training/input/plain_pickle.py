"""Reads pickles of plain values and byte arrays, as CIFAR-10's are; it never imports, calls or compares anything.

Python's own unpickler cannot be limited: ten bytes make its memo gigabytes long, and a few hundred bytes spell a value
that takes for ever to hash or to print. Here every step adds at most what the file itself contains
(opcodes: Lib/pickletools.py).
"""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

MOST_STEPS = 1_000_000  # a file of CIFAR-10 has 60,000
LONGEST_NAME = 200  # characters of a name in a message


class Refused(Exception):
    """The pickle asks for a class or function that is not allowed."""


class Damaged(Exception):
    """The bytes are no pickle of plain values."""


class _Name:
    """The name of a class or function in a pickle; only those in `CALLS` have an effect."""

    def __init__(self, text: str) -> None:
        self.text = text


class _UInt8:
    """NumPy's type of bytes, in a pickle."""


class _Array:
    """An array in a pickle: empty until its state follows."""

    def __init__(self) -> None:
        self.value = np.empty((0,), np.uint8)


def read(content: bytes) -> Any:
    """The value in a pickle: lists, tuples, dictionaries with text as keys, text, bytes, whole numbers, uint8 arrays.

    An array inside the value of a key stands for itself. Raises Refused and Damaged.
    """
    reader = _Reader(content)
    try:
        value = reader.run()
    except (IndexError, UnicodeDecodeError, UnicodeEncodeError) as error:
        raise Damaged("{} at byte {}".format(type(error).__name__, reader.place)) from None
    if isinstance(value, dict):
        return {key: _unwrap(member) for key, member in value.items()}
    return _unwrap(value)


def _unwrap(value: Any) -> Any:
    return value.value if isinstance(value, _Array) else value


class _Reader:
    def __init__(self, content: bytes) -> None:
        self.content = content
        self.place = 0
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._encoded = 0

    def run(self) -> Any:
        for _ in range(MOST_STEPS):
            code = self._take(1)
            if code == b".":
                return self._stack.pop()
            step = STEPS.get(code)
            if step is None:
                raise Damaged("byte {!r} at {}, which plain values do not need".format(code, self.place - 1))
            step(self)
        raise Damaged("more than {} steps".format(MOST_STEPS))

    def _take(self, count: int) -> bytes:
        """The next bytes. Their number is compared with the file's length before anything is copied."""
        if count > len(self.content) - self.place:
            raise Damaged("ends within a value, at byte {}".format(self.place))
        self.place += count
        return self.content[self.place - count : self.place]

    def _number(self, count: int, signed: bool = False) -> int:
        return int.from_bytes(self._take(count), "little", signed=signed)

    def _line(self) -> str:
        end = self.content.find(b"\n", self.place, self.place + 1000)
        if end < 0:
            raise Damaged("a name without an end, at byte {}".format(self.place))
        line = self._take(end - self.place).decode("utf-8")
        self.place += 1
        return line

    def _pop_to_mark(self) -> list[Any]:
        start = self._marks.pop()
        members = self._stack[start:]
        del self._stack[start:]
        return members

    def skip(self, count: int) -> None:
        self._take(count)

    def push(self, value: Any) -> None:
        self._stack.append(value)

    def number(self, count: int, signed: bool = False) -> None:
        self.push(self._number(count, signed))

    def text(self, length: int, encoding: str = "utf-8") -> None:
        self.push(
            self._take(self._number(length)).decode(encoding, "surrogatepass" if encoding == "utf-8" else "strict")
        )

    def octets(self, length: int) -> None:
        self.push(self._take(self._number(length)))

    def long(self) -> None:
        size = self._number(1)
        if size > 8:
            raise Damaged("a number of {} bytes".format(size))
        self.number(size, signed=True)

    def mark(self) -> None:
        self._marks.append(len(self._stack))

    def pair(self, count: int) -> None:
        members = [self._stack.pop() for _ in range(count)]
        self.push(tuple(reversed(members)))

    def marked_tuple(self) -> None:
        self.push(tuple(self._pop_to_mark()))

    def append(self, marked: bool) -> None:
        members = self._pop_to_mark() if marked else [self._stack.pop()]
        if type(self._stack[-1]) is not list:
            raise Damaged("members without a list")
        self._stack[-1].extend(members)

    def set_items(self, marked: bool) -> None:
        members = self._pop_to_mark() if marked else [self._stack.pop() for _ in range(2)][::-1]
        keys, values = members[0::2], members[1::2]
        if type(self._stack[-1]) is not dict or len(keys) != len(values):
            raise Damaged("keys without values or without a dictionary")
        if not all(type(key) in (str, bytes) for key in keys):
            raise Damaged("a key that is not text")
        self._stack[-1].update(zip(keys, values))

    def put(self, count: int) -> None:
        self._memo[self._number(count)] = self._stack[-1]

    def memoize(self) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def get(self, count: int) -> None:
        number = self._number(count)
        if number not in self._memo:
            raise Damaged("a reference to nothing, at byte {}".format(self.place))
        self.push(self._memo[number])

    def name(self) -> None:
        self._push_name(self._line(), self._line())

    def stack_name(self) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        if type(name) is not str or type(module) is not str:
            raise Damaged("a name that is not text")
        self._push_name(module, name)

    def _push_name(self, module: str, name: str) -> None:
        whole = "{}.{}".format(module[:LONGEST_NAME], name[:LONGEST_NAME])
        if whole not in NAMES:
            raise Refused(whole)
        self.push(_Name(whole))

    def reduce(self) -> None:
        """The call of a function: only four are known, and each is replaced by what it means here."""
        arguments, function = self._stack.pop(), self._stack.pop()
        if not isinstance(function, _Name) or type(arguments) is not tuple:
            raise Damaged("a call of no function")
        call = function.text.rpartition(".")[2]
        if call == "_reconstruct" and len(arguments) == 3:
            if not isinstance(arguments[0], _Name) or arguments[0].text != "numpy.ndarray":
                raise Refused("an array of another class")
            self.push(_Array())
        elif call == "dtype" and len(arguments) in (1, 2, 3):
            if arguments[0] not in ("u1", b"u1"):
                raise Refused("an array of {}".format(_describe(arguments[0])))
            self.push(_UInt8())
        elif call == "encode" and len(arguments) == 2:
            self.push(self._encode(*arguments))
        elif call == "_frombuffer" and len(arguments) == 4:
            self.push(_fill(_Array(), arguments[2], arguments[1], arguments[3] == "F", self._octets(arguments[0])))
        else:
            raise Damaged("a call of {} with {} arguments".format(call, len(arguments)))

    def _encode(self, text: Any, encoding: Any) -> bytes:
        if type(text) is not str or encoding not in ("latin1", "latin-1"):
            raise Refused("the encoding {}".format(_describe(encoding)))
        self._encoded += len(text)  # the same text may be named again and again
        if self._encoded > len(self.content):
            raise Damaged("more text to encode than the file contains")
        return text.encode("latin1")

    def build(self) -> None:
        """The state of an array, or of its type, which has none that matters."""
        state = self._stack.pop()
        made = self._stack[-1]
        if type(state) is not tuple or not isinstance(made, (_Array, _UInt8)):
            raise Damaged("a state of something else than an array")
        if isinstance(made, _Array):
            if len(state) != 5:
                raise Damaged("an array's state of {} parts".format(len(state)))
            _fill(made, state[1], state[2], bool(state[3]), self._octets(state[4]))

    def _octets(self, content: Any) -> Any:
        return self._encode(content, "latin1") if type(content) is str else content  # text: of Python 2


def _fill(made: _Array, shape: Any, kind: Any, by_columns: bool, octets: Any) -> _Array:
    """Give an array its content, whose length must be that of its shape."""
    if not isinstance(kind, _UInt8):
        raise Refused("an array of {}".format(_describe(kind)))
    sides = shape if type(shape) is tuple and len(shape) <= 4 else ()
    size = 1
    for side in sides:
        if type(side) is not int or side < 0:
            raise Damaged("an array's shape that is not whole numbers")
        size = min(size * side, 2**62)
    if type(octets) not in (bytes, bytearray) or not sides or size != len(octets):
        raise Damaged("an array of {} elements without as many bytes".format(size))
    made.value = np.frombuffer(octets, np.uint8).reshape(sides, order="F" if by_columns else "C")
    return made


def _describe(value: Any) -> str:
    """A value in a message: text is cut, and anything that could be deep is only named."""
    return repr(value[:LONGEST_NAME]) if type(value) in (str, bytes) else type(value).__name__


NAMES = frozenset(
    ["numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct", "numpy.ndarray", "numpy.dtype"]
    + ["numpy.core.numeric._frombuffer", "numpy._core.numeric._frombuffer", "_codecs.encode"]
)
STEPS: dict[bytes, Callable[[_Reader], None]] = {
    b"\x80": lambda reader: reader.skip(1),  # the protocol
    b"\x95": lambda reader: reader.skip(8),  # the length of a frame
    b"N": lambda reader: reader.push(None),
    b"\x88": lambda reader: reader.push(True),
    b"\x89": lambda reader: reader.push(False),
    b"K": lambda reader: reader.number(1),
    b"M": lambda reader: reader.number(2),
    b"J": lambda reader: reader.number(4, signed=True),
    b"\x8a": lambda reader: reader.long(),
    b"U": lambda reader: reader.text(1, "latin1"),
    b"T": lambda reader: reader.text(4, "latin1"),
    b"\x8c": lambda reader: reader.text(1),
    b"X": lambda reader: reader.text(4),
    b"\x8d": lambda reader: reader.text(8),
    b"C": lambda reader: reader.octets(1),
    b"B": lambda reader: reader.octets(4),
    b"\x8e": lambda reader: reader.octets(8),
    b"\x96": lambda reader: reader.octets(8),
    b"(": lambda reader: reader.mark(),
    b")": lambda reader: reader.push(()),
    b"]": lambda reader: reader.push([]),
    b"}": lambda reader: reader.push({}),
    b"\x85": lambda reader: reader.pair(1),
    b"\x86": lambda reader: reader.pair(2),
    b"\x87": lambda reader: reader.pair(3),
    b"t": lambda reader: reader.marked_tuple(),
    b"a": lambda reader: reader.append(False),
    b"e": lambda reader: reader.append(True),
    b"s": lambda reader: reader.set_items(False),
    b"u": lambda reader: reader.set_items(True),
    b"q": lambda reader: reader.put(1),
    b"r": lambda reader: reader.put(4),
    b"\x94": lambda reader: reader.memoize(),
    b"h": lambda reader: reader.get(1),
    b"j": lambda reader: reader.get(4),
    b"c": lambda reader: reader.name(),
    b"\x93": lambda reader: reader.stack_name(),
    b"R": lambda reader: reader.reduce(),
    b"b": lambda reader: reader.build(),
}
