r"""Patterns for host names: regular expressions without what makes matching slow, compared in linear time.

Allowed are characters, ``.``, ``\d``, ``\w``, ``[a-z0-9-]``, ``[^.]``, groups, ``|``, ``*``, ``+``, ``?``, ``{2}``,
``{1,3}``; the whole name must match (decision 7).
A pattern becomes a table of states. All states that are possible after a character are followed together, so that no
text is read twice.
"""

from collections.abc import Callable

_MOST_STATES = 1000
_MOST_STEPS = 10 * _MOST_STATES
"""To add the states: a repetition of nothing adds none."""
_DEEPEST = 20
_DIGITS = frozenset("0123456789")
_WORD = _DIGITS | frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_CLASSES = {"d": _DIGITS, "w": _WORD}
_LINE_END = frozenset("\n")
_SPECIAL = frozenset("|*+?(){}[]^$\\")
_MATCH = -1


class State:
    """One step of a pattern: it accepts a character and goes to ``then``; or it goes to each of ``either``.

    It accepts the characters of ``accepts``, or with ``negated`` all others.
    """

    __slots__ = ("accepts", "either", "negated", "then")

    def __init__(
        self,
        accepts: frozenset[str] = frozenset(),
        negated: bool = False,
        then: int = _MATCH,
        either: tuple[int, ...] = (),
    ) -> None:
        self.accepts = accepts
        self.negated = negated
        self.then = then
        self.either = either


class HostPattern:
    """A pattern that can be compared with texts: its states, and the number of the first one."""

    def __init__(self, states: list[State], start: int) -> None:
        self.states = states
        self.start = start

    def matches(self, text: str) -> bool:
        """Whether the whole text matches; takes at most the text's length times the number of states."""
        now = self._reachable({self.start})
        for character in text:
            follow = {
                state.then
                for number in now
                if number != _MATCH and not (state := self.states[number]).either
                if (character in state.accepts) != state.negated
            }
            if not follow:
                return False
            now = self._reachable(follow)
        return _MATCH in now

    def _reachable(self, begin: set[int]) -> set[int]:
        """Return these states and all that follow without a character."""
        found, waiting = set(begin), list(begin)
        while waiting:
            number = waiting.pop()
            for other in self.states[number].either if number != _MATCH else ():
                if other not in found:
                    found.add(other)
                    waiting.append(other)
        return found


def host_pattern(text: str) -> HostPattern:
    """Return the pattern that ``text`` spells. Raises ValueError with the place of what is not allowed."""
    reader = _Reader(text)
    part = reader.read_choice(0)
    if reader.place < len(text):
        raise reader.fault("')' closes no group")
    start = part(_MATCH)
    return HostPattern(reader.states, start)


def plain_beginning(text: str) -> str:
    """Return characters with which each text begins that the pattern matches; empty where alternatives differ."""
    if "|" in text:
        return ""
    length = next((place for place, one in enumerate(text) if one in _SPECIAL or one == "."), len(text))
    is_optional = text[length : length + 1] in ("*", "?", "{")
    return text[: length - 1] if is_optional else text[:length]


Part = Callable[[int], int]
"""A part of a pattern: it adds its states, which end in the given state, and returns the first of them."""


class _Reader:
    """Reads a pattern from left to right; ``place`` is the index of the next character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.states: list[State] = []
        self._steps = 0

    def fault(self, what: str) -> ValueError:
        return ValueError(f"{what} (character {self.place + 1})")

    def read_choice(self, depth: int) -> Part:
        """Read alternatives: ``a|b``."""
        if depth > _DEEPEST:
            raise self.fault(f"groups are more than {_DEEPEST} levels deep")
        parts = [self._read_sequence(depth)]
        while self._peek() == "|":
            self.place += 1
            parts.append(self._read_sequence(depth))
        if len(parts) == 1:
            return parts[0]
        return lambda after: self._add(State(either=tuple([part(after) for part in parts])))

    def _read_sequence(self, depth: int) -> Part:
        parts: list[Part] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._read_repeated(depth))

        def build(after: int) -> int:
            for part in reversed(parts):
                after = part(after)
            return after

        return build

    def _read_repeated(self, depth: int) -> Part:
        part = self._read_one(depth)
        mark = self._peek()
        if mark not in ("*", "+", "?", "{") or not mark:
            return part
        least, most = self._read_times(mark)
        if self._peek() in ("*", "+", "?", "{") and self._peek():
            raise self.fault(f"{self._peek()!r} repeats what is repeated already")

        def build(after: int) -> int:
            if most is None:
                loop = self._add(State())  # its place is taken: what is repeated ends in it
                self.states[loop] = State(either=(part(loop), after))
                after = loop
            optional = (most or least) - least
            for number in range(optional + least):
                self._count_step()
                first = part(after)
                after = self._add(State(either=(first, after))) if number < optional else first
            return after

        return build

    def _read_times(self, mark: str) -> tuple[int, int | None]:
        """Read how often a part is repeated: at least and at most, None if there is no upper limit."""
        self.place += 1
        if mark != "{":
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[mark]
        inside, closed, _ = self.text[self.place :].partition("}")
        low, comma, high = inside.partition(",")
        is_count = all(word.isascii() and word.isdigit() and len(word) < 4 for word in (low, high if comma else low))
        if not closed or not is_count or (comma and int(low) > int(high)):
            raise self.fault("'{' must begin a count such as {2} or {1,3}")
        self.place += len(inside) + 1
        return int(low), int(high if comma else low)

    def _read_one(self, depth: int) -> Part:
        """Read a character, a set of characters or a group."""
        character = self._take()
        if character == "(":
            return self._read_group(depth)
        if character == "[":
            negated = self._peek() == "^"
            self.place += negated
            return self._accept(self._read_set(), negated)
        if character == "\\":
            return self._accept(self._read_escaped())
        if character == ".":
            return self._accept(_LINE_END, negated=True)
        if (character == "^" and self.place == 1) or (character == "$" and self.place == len(self.text)):
            return lambda after: after  # the whole name must match anyway
        if character in _SPECIAL:
            self.place -= 1
            raise self.fault(f"{character!r} is not allowed here")
        return self._accept(frozenset(character))

    def _read_group(self, depth: int) -> Part:
        if self._peek() == "?":
            if not self.text.startswith("?:", self.place):
                raise self.fault("groups that begin with (? are not supported, except (?:")
            self.place += 2
        part = self.read_choice(depth + 1)
        if self._peek() != ")":
            raise self.fault("a group is not closed")
        self.place += 1
        return part

    def _read_escaped(self) -> frozenset[str]:
        character = self._take()
        if not character or (character.isalnum() and character not in _CLASSES):
            self.place -= 1
            raise self.fault("'\\' must stand before d, w or a punctuation character")
        return _CLASSES.get(character, frozenset(character))

    def _read_set(self) -> frozenset[str]:
        found: set[str] = set()
        if self._peek() == "]":
            raise self.fault("']' is not supported at the beginning of a set")
        while (character := self._take()) != "]":
            if not character or not character.isascii():
                raise self.fault("a set of characters is not closed, or holds other characters than ASCII")
            if character == "\\":
                found |= self._read_escaped()
            elif self._peek() == "-" and self.text[self.place + 1 : self.place + 2] not in ("", "]"):
                self.place += 1
                last = self._take()
                if not last.isascii() or not last.isalnum() or last < character:
                    raise self.fault(f"{character}-{last} is not a range of letters or digits")
                found.update(map(chr, range(ord(character), ord(last) + 1)))
            else:
                found.add(character)
        return frozenset(found)

    def _accept(self, characters: frozenset[str], negated: bool = False) -> Part:
        return lambda after: self._add(State(characters, negated, after))

    def _count_step(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise ValueError("the pattern repeats too much")

    def _add(self, state: State) -> int:
        if len(self.states) >= _MOST_STATES:
            raise ValueError(f"the pattern is too long: with its repetitions, it has more than {_MOST_STATES} parts")
        self.states.append(state)
        return len(self.states) - 1

    def _peek(self) -> str:
        return self.text[self.place : self.place + 1]

    def _take(self) -> str:
        self.place += 1
        return self.text[self.place - 1 : self.place]
