"""What a person can type: the strings that break launchers, and hypothesis strategies around them."""

from __future__ import annotations

from hypothesis import strategies as st

NASTY = [
    "",
    " ",
    "  two  blanks ",
    ":",
    "-",
    "--",
    "---x",
    "-n 4",
    "$HOME",
    "${HOME}",
    "$(touch pwned)",
    "`touch pwned`",
    "a;b",
    "a|b",
    "a&b",
    "a && b",
    "> out",
    "*",
    "?",
    "[a-z]",
    "~",
    "~root",
    "{a,b}",
    "!x",
    "#x",
    "\\",
    "\\n",
    "trailing\\",
    "'",
    '"',
    "it's",
    "'\"'\"'",
    '{"a": [1, "b c"]}',
    "two\nlines",
    "\n",
    "\nEND_OF_RANK\n",
    "END_OF_RANK",
    "#SBATCH --nodes=99",
    "\n#SBATCH --nodes=99",
    "x\r\n#SBATCH --nodes=99\r\n",
    "tab\tand\x0bmore",
    "\x01\x02\x1b[31m\x7f",
    "\x0cf",
    "\x85",
    "\u2028",
    "\xa0",
    "ü 日本 🎉",
    "e\u0301",
    "\ufeff",
    "\udcff\udcfe",
    "a\udc80b\n",
    "%j %%",
    "{code} {run_dir}",
    "{{ spec.name }} {% raw %}",
    "k=v",
    "--epochs=2",
    "x" * 5000,
]

# A surrogate between DC80 and DCFF stands for a byte that is not UTF-8, as in sys.argv.
_characters = st.one_of(
    st.sampled_from(" '\"\\$`;|&<>*?[]{}()#!~=%:-\n\r\t\x1b\x7f\udc80\udcffEé日"),
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]),
)
texts = st.one_of(st.sampled_from(NASTY), st.text(_characters, max_size=40))
"""Anything that can be an argument of a process."""
plain_texts = texts.filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text))
"""Anything that can stand in a UTF-8 file."""
lines = st.text(_characters, min_size=1, max_size=40).filter(lambda text: all(c >= " " and c != "\x7f" for c in text))
file_names = st.one_of(
    st.sampled_from(
        [text for text in NASTY if "/" not in text and 0 < len(text.encode("utf-8", "surrogateescape")) < 200]
    ),
    st.text(_characters.filter(lambda c: c != "/"), min_size=1, max_size=30),
).filter(lambda name: name not in (".", ".."))
"""Anything that can be the name of a file."""
variable_names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,12}", fullmatch=True).map("MINE_".__add__)
