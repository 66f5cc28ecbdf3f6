"""Reads the simple commands of a shell script from its text, as POSIX and bash divide it; it runs and expands nothing.

Source: the Open Group's "Shell Command Language", 2.3 (tokens), 2.4 (reserved words), 2.7.4 (here-documents).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from hpclaunch.core.records import record

_OPERATORS = ("&&", "||", ";;&", ";;", ";&", "|&", "&", ";", "|", "(", ")", "\n")
_OPENING = ("if", "while", "until", "case", "for", "select", "{")
_CLOSING = ("fi", "done", "esac", "}")
_LINKING = ("then", "else", "elif", "do", "!", "time", "coproc", "function")
_REDIRECTION = re.compile(r"([0-9]*|\{\w+\}|&)(<<<|<<-?|<>|<&|>&|>>|>\||[<>](?!\())")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\[[^]]*\])?\+?=")
_NAME = re.compile(r"[A-Za-z_]\w*")


class NotShell(ValueError):
    """The text is no complete shell script, such as one with an open quote."""


@record
class ShellWord:
    """One word: ``text`` as it stands in the script, ``value`` as the shell reads it.

    ``is_literal``: no expansion changes it; else ``value`` keeps the expansions (``$HOME/x``) as they are written.
    """

    text: str
    value: str
    is_literal: bool = True


@record
class ShellCommand:
    """A simple command. ``line`` counts from 1; ``text`` is the whole command as it stands, with its redirections.

    ``depth``: in how many of if, loops, functions, braces and subshells it is. ``ended_by``: the operator behind it.
    """

    words: tuple[ShellWord, ...]
    assignments: tuple[tuple[str, ShellWord], ...]
    redirections: tuple[str, ...]
    line: int
    text: str
    depth: int = 0
    ended_by: str = ""

    @property
    def values(self) -> tuple[str, ...]:
        """The words as the shell reads them."""
        return tuple(word.value for word in self.words)


def commands_in(text: str) -> list[ShellCommand]:
    """Return the simple commands of a script in their order, without the bodies of here-documents. Raises NotShell."""
    return list(_ShellReader(text).commands())


class _ShellReader:
    def __init__(self, text: str) -> None:
        self.text, self.place, self.line = text, 0, 1
        self.waiting: list[tuple[str, bool]] = []
        """The delimiters of here-documents that begin after this line, and whether tabs before them do not count."""
        self.depth = 0
        self.patterns: list[int] = []
        """The depths of the open case statements."""

    def commands(self) -> Iterator[ShellCommand]:
        while True:
            pieces, start, line, operator = self._pieces()
            words = self._drop_keywords([piece for piece, is_word in pieces if is_word])
            begins_function = operator == "(" and len(words) == 1
            is_pattern = operator == ")" and self.patterns[-1:] == [self.depth]
            redirections = [piece.text for piece, is_word in pieces if not is_word]
            made = None if begins_function or is_pattern else _command(words, redirections, line)
            if made:
                text = self.text[start : self.place - len(operator)].strip()
                yield replace(made, text=text, depth=max(0, self.depth), ended_by=operator.strip())
            if operator in ("(", ")") and not is_pattern:
                self.depth += 1 if operator == "(" else -1
            if not operator:
                return

    def _drop_keywords(self, words: list[ShellWord]) -> list[ShellWord]:
        """Return the words of a command without the reserved words before it, which change the depth."""
        while words and words[0].text in (*_LINKING, *_CLOSING, *_OPENING):
            first, *words = words
            self.depth += (first.text in _OPENING) - (first.text in _CLOSING)
            if first.text == "case":
                self.patterns.append(self.depth)
            elif first.text == "esac":
                del self.patterns[-1:]
            if first.text in ("case", "for", "select"):
                return []
            words = words[1:] if first.text == "function" else words
        return words

    def _pieces(self) -> tuple[list[tuple[ShellWord, bool]], int, int, str]:
        """Return words (True) and redirections (False) up to the next operator, with their place, line and operator."""
        found: list[tuple[ShellWord, bool]] = []
        start, line = -1, self.line
        while True:
            self._skip_blanks()
            if start < 0:
                start, line = self.place, self.line
            if self.place >= len(self.text):
                return found, start, line, ""
            redirection = _REDIRECTION.match(self.text, self.place)
            if redirection:
                found.append((self._redirection(redirection), False))
                continue
            operator = next((one for one in _OPERATORS if self.text.startswith(one, self.place)), "")
            condition = [piece.text for piece, _ in found]
            if operator and operator != "\n" and "[[" in condition and "]]" not in condition:
                self.place += len(operator)
                continue
            if operator == "(" and not found and self.text.startswith("((", self.place):
                self._skip_arithmetic()
                found.append((ShellWord(text="((", value="((", is_literal=True), True))
                continue
            if operator:
                self.place += len(operator)
                if operator == "\n":
                    self.line += 1
                    self._skip_documents()
                return found, start, line, operator
            found.append((self._word(), True))

    def _skip_blanks(self) -> None:
        while self.place < len(self.text):
            if self.text.startswith("\\\n", self.place):
                self.place += 2
                self.line += 1
            elif self.text[self.place] in " \t\r":
                self.place += 1
            elif self.text[self.place] == "#":
                end = self.text.find("\n", self.place)
                self.place = len(self.text) if end < 0 else end
            else:
                return

    def _redirection(self, match: re.Match[str]) -> ShellWord:
        start, operator = self.place, match[2]
        self.place = match.end()
        self._skip_blanks()
        target = self._word()
        if operator.startswith("<<") and operator != "<<<":
            self.waiting.append((re.sub(r"[\\'\"]", "", target.text), operator == "<<-"))
        text = self.text[start : self.place]
        return ShellWord(text=text, value=text)

    def _skip_documents(self) -> None:
        """Pass over the here-documents that begin at this line."""
        for delimiter, tabs in self.waiting:
            while self.place < len(self.text):
                end = self.text.find("\n", self.place)
                end = len(self.text) if end < 0 else end
                row = self.text[self.place : end].rstrip("\r")
                self.place = min(end + 1, len(self.text))
                self.line += 1
                if (row.lstrip("\t") if tabs else row) == delimiter:
                    break
        self.waiting = []

    def _skip_arithmetic(self) -> None:
        end = self.text.find("))", self.place)
        if end < 0:
            raise NotShell("an arithmetic command is not closed")
        self.line += self.text.count("\n", self.place, end)
        self.place = end + 2

    def _word(self) -> ShellWord:
        start, value, literal = self.place, "", True
        while self.place < len(self.text):
            if self._ends_word() and not self._begins_list(start):
                break
            part, plain = self._part()
            value, literal = value + part, literal and plain
        if self.place == start:
            raise NotShell(f"line {self.line} cannot be read as a command")
        text = self.text[start : self.place]
        return ShellWord(text=text, value=value, is_literal=literal and not text.startswith("~"))

    def _ends_word(self) -> bool:
        character = self.text[self.place]
        return character in " \t\n;&|()<>" or self.text.startswith("\r\n", self.place)

    def _begins_list(self, start: int) -> bool:
        """Whether the values of an array begin here, or a process substitution."""
        if self.text[self.place] == "(":
            return bool(_ASSIGNMENT.fullmatch(self.text[start : self.place]))
        return self.text.startswith(("<(", ">("), self.place)

    def _part(self) -> tuple[str, bool]:
        """Return the next part of a word as the shell reads it, and whether nothing in it is expanded."""
        character = self.text[self.place]
        if character == "\\":
            following = self.text[self.place + 1 : self.place + 2]
            self.line += following == "\n"
            self.place += 2
            return following.replace("\n", ""), True
        if character == '"':
            return self._double_quotes()
        has_escapes = self.text.startswith("$'", self.place)
        if character == "'" or has_escapes:
            self.place += has_escapes
            return self._read_to("'", has_escapes), True
        if character in "$`":
            part = self._expansion()
            return part, part == "$"
        if character in "(<>":
            self.place += character != "("
            return character.replace("(", "") + self._brackets("(", ")"), False
        self.place += 1
        return character, character not in "*?["

    def _read_to(self, quote: str, escapes: bool = False) -> str:
        """Return the text between two quotes, the first of which is here. Raises NotShell."""
        place = self.place + 1
        while place < len(self.text) and self.text[place] != quote:
            place += 2 if escapes and self.text[place] == "\\" else 1
        if place >= len(self.text):
            raise NotShell(f"the quote {quote} in line {self.line} is not closed")
        inner = self.text[self.place + 1 : place]
        self.line += inner.count("\n")
        self.place = place + 1
        return inner

    def _double_quotes(self) -> tuple[str, bool]:
        """Return the text in double quotes, and whether nothing in it is expanded."""
        value, plain, line = "", True, self.line
        self.place += 1
        while self.place < len(self.text):
            character = self.text[self.place]
            if character == '"':
                self.place += 1
                return value, plain
            if character == "\\" and self.place + 1 < len(self.text):
                following = self.text[self.place + 1]
                if following == "\n":
                    pass  # bash joins the two lines
                elif following in '$`"\\':
                    value += following
                else:  # before any other character the backslash is one of the text
                    value += "\\" + following
                self.line += following == "\n"
                self.place += 2
            elif character in "$`":
                part = self._expansion()
                value, plain = value + part, plain and part == "$"
            else:
                self.line += character == "\n"
                value += character
                self.place += 1
        raise NotShell(f'the quote " in line {line} is not closed')

    def _expansion(self) -> str:
        """Return an expansion as it is written; a lone ``$`` is one character."""
        start = self.place
        if self.text[start] == "`":
            self._read_to("`", escapes=True)
            return self.text[start : self.place]
        self.place += 1
        following = self.text[self.place : self.place + 1]
        if following == "(":
            self._brackets("(", ")")
        elif following == "{":
            self._brackets("{", "}")
        elif name := _NAME.match(self.text, self.place):
            self.place = name.end()
        elif following and following in "0123456789@*#?$!-":
            self.place += 1
        return self.text[start : self.place]

    def _brackets(self, opening: str, closing: str) -> str:
        """Return the text from the bracket here to the one that closes it. Raises NotShell."""
        start, line, depth = self.place, self.line, 0
        while self.place < len(self.text):
            character = self.text[self.place]
            if character == "\\":
                self.place += 2
                continue
            if character == "'":
                self._read_to("'")
                continue
            if character == '"':
                self._double_quotes()
                continue
            self.line += character == "\n"
            depth += (character == opening) - (character == closing)
            self.place += 1
            if not depth:
                return self.text[start : self.place]
        raise NotShell(f"the bracket {opening} in line {line} is not closed")


def _command(words: list[ShellWord], redirections: list[str], line: int) -> ShellCommand | None:
    """Return the simple command of these words, or None if there is none."""
    assignments = []
    while words and (found := _ASSIGNMENT.match(words[0].text)):
        word = words.pop(0)
        value = word.value.partition("=")[2]
        assignments.append((found[1], replace(word, text=word.text[found.end() :], value=value)))
    if not words and not assignments:
        return None
    return ShellCommand(
        words=tuple(words),
        assignments=tuple(assignments),
        redirections=tuple(redirections),
        line=line,
        text="",
    )
