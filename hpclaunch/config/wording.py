"""The metadata of a field that says how the value of its key is put into words for a reader."""

WORDING = "wording"
"""The key of the metadata."""


def shown(words: str = "", **more: str) -> dict[str, dict[str, str]]:
    """Return the metadata of a field; sites/card/wording.py reads it, and lists all names.

    Every start of hpclaunch makes about a hundred of them, so they are plain dicts, which are cheaper than records.
    """
    return {WORDING: {"words": words, **more}}
