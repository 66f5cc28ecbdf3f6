"""Byte-pair encoding of text, of any size of vocabulary from the 256 bytes on; it needs the standard library alone.

Sennrich et al. 2016 (arXiv 1508.07909): the most frequent pair of tokens becomes a token, again and again. As in GPT-2
(Radford et al. 2019) the first tokens are the bytes of UTF-8, so any text can be encoded, and pairs never reach over
the border of a word.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from typing import Iterable, Mapping, Sequence, Tuple

END = 256  # the token that ends a document
SMALLEST = 257  # tokens without any pair: the bytes, and END
LARGEST = 65536  # tokens are stored as uint16
RARE = 2  # a pair that occurs less often does not become a token
# Together the pieces are the text again. A piece is short, because the time to encode one grows with its square.
PIECE = re.compile(r" ?\w{1,64}| ?[^\w\s]{1,64}|\s{1,64}(?!\S)|\s{1,64}")
Pair = Tuple[int, int]


class BytePairs:
    """A vocabulary: the bytes, END, and a token for each pair of tokens in `pairs`, in this order."""

    def __init__(self, pairs: Sequence[Pair] = ()) -> None:
        self.pairs = [(int(left), int(right)) for left, right in pairs]
        self.size = SMALLEST + len(self.pairs)
        self._tokens = {pair: SMALLEST + number for number, pair in enumerate(self.pairs)}
        self._bytes = [bytes([number]) for number in range(256)] + [b""]
        for left, right in self.pairs:
            self._bytes.append(self._bytes[left] + self._bytes[right])
        self._pieces: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, without END."""
        return [token for piece in PIECE.findall(text) for token in self._encode_piece(piece)]

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of tokens; bytes that are no UTF-8, as in the middle of a character, become U+FFFD."""
        return b"".join(self._bytes[token] for token in tokens).decode("utf-8", "replace")

    def _encode_piece(self, piece: str) -> list[int]:
        tokens = self._pieces.get(piece)
        if tokens is None:
            tokens = list(piece.encode("utf-8"))
            while len(tokens) > 1:
                pair = min(zip(tokens, tokens[1:]), key=lambda pair: self._tokens.get(pair, LARGEST))
                if pair not in self._tokens:
                    break
                tokens = joined(tokens, pair, self._tokens[pair])
            self._pieces[piece] = tokens
        return tokens


def joined(tokens: Sequence[int], pair: Pair, token: int) -> list[int]:
    """The tokens with `token` in place of each occurrence of the pair, from left to right."""
    found: list[int] = []
    position = 0
    while position < len(tokens):
        here = position + 1 < len(tokens) and (tokens[position], tokens[position + 1]) == pair
        found.append(token if here else tokens[position])
        position += 2 if here else 1
    return found


class _Words:
    """The pieces of a text as tokens, and how often each pair of tokens occurs in them."""

    def __init__(self, pieces: Mapping[str, int]) -> None:
        self._words = [list(piece.encode("utf-8")) for piece in pieces]
        self._counts = list(pieces.values())
        self._places: dict[Pair, set[int]] = defaultdict(set)
        self.frequency: dict[Pair, int] = Counter()
        for number in range(len(self._words)):
            self._count(number, 1)

    def join(self, pair: Pair, token: int) -> set[Pair]:
        """Put `token` in place of a pair everywhere; returns the pairs whose frequency has changed."""
        changed: set[Pair] = set()
        for number in self._places.pop(pair):
            changed |= self._count(number, -1)
            self._words[number] = joined(self._words[number], pair, token)
            changed |= self._count(number, 1)
        return changed

    def _count(self, number: int, sign: int) -> set[Pair]:
        word = self._words[number]
        pairs = list(zip(word, word[1:]))
        for pair in pairs:
            self.frequency[pair] += sign * self._counts[number]
            if sign > 0:
                self._places[pair].add(number)
        return set(pairs)


def learn(pieces: Mapping[str, int], size: int) -> BytePairs:
    """The vocabulary of `size` tokens for a text, or a smaller one if its pairs are too rare.

    pieces: how often each piece (PIECE) occurs in the text. Of pairs that occur equally often the one of the smaller
    tokens comes first, so that the result depends on the text alone.
    """
    words = _Words(pieces)
    queue = [(-count, pair) for pair, count in words.frequency.items()]
    heapq.heapify(queue)
    pairs: list[Pair] = []
    while queue and SMALLEST + len(pairs) < size:
        count, pair = heapq.heappop(queue)
        if -count != words.frequency[pair]:
            continue  # an entry of an earlier count; there is a newer one, unless it does not occur any more
        if -count < RARE:
            break
        pairs.append(pair)
        for other in words.join(pair, SMALLEST + len(pairs) - 1):
            if words.frequency[other] > 0:
                heapq.heappush(queue, (-words.frequency[other], other))
    return BytePairs(pairs)
