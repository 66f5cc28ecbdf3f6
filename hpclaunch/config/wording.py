"""How the value of a key is put into words for a reader stands at the key's field, in its metadata."""

WORDING = "wording"
"""The key of the metadata."""


def shown(words: str = "", **more: str) -> dict[str, dict[str, str]]:
    """Return the metadata of a field whose value is said so; sites/card/wording.py tells all names, and reads it.

    Every start makes a hundred of them, so they are no records yet.
    """
    return {WORDING: {"words": words, **more}}
