"""Hostile files beside a script: lists of hosts, .hpclaunchignore, patterns of --include, and git's index."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from hpclaunch.actions.place import context_of
from hpclaunch.actions.system import System
from hpclaunch.core.spec import Code, Request
from hpclaunch.runs.code_folder import CodeFolder
from hpclaunch.runs.snapshot import examine
from tests.fuzz.data_ways import edited, edits
from tests.fuzz.scene import Scene, Way
from tests.fuzz.text_ways import words

NAMES = ["n1", "n2", "n[1-3]", "login1.example.org", "10.0.0.1", "fe80::1", "a:b:c", "n1:4", "n1:", ":4", "n1:4:5"]
PARTS = [
    *NAMES,
    "slots=2",
    "max_slots=0",
    "binding=user:0",
    "2",
    "-1",
    "0",
    "9" * 5000,
    "\u00b2",
    "all.q@n1",
    "#",
    "+n1",
]
BREAKS = [" ", "\t", "\n", "\n\n", "\r\n", "\r", "\x0b", "\x85", "\u2028", ""]
host_lists = st.tuples(
    st.lists(st.tuples(st.one_of(st.sampled_from(PARTS), words), st.sampled_from(BREAKS)), max_size=12),
    st.sampled_from([1, 1, 1, 1, 300]),
).map(lambda made: "".join(word + after for word, after in made[0]).encode("utf-8", "surrogatepass") * made[1])

PATTERNS = [
    "*",
    "**",
    "/",
    "!",
    "#",
    "\\",
    "a",
    "*.csv",
    "lib/",
    "/lib",
    "**/b.py",
    "[a-z]",
    "[!a]",
    "[",
    "]",
    "[]",
    "[z-a]",
]
PATTERNS += [
    "?",
    "[[:alpha:]]",
    "\\ ",
    " ",
    "!*",
    "!lib/**",
    "***",
    "**/**/**",
    "a*",
    "{a,b}",
    "../",
    "(",
    ")",
    "(?i)",
    "|",
    "+",
    "$",
]
one_pattern = st.lists(st.one_of(st.sampled_from(PATTERNS), words), min_size=1, max_size=4).map("".join)
ignore_files = st.tuples(
    st.lists(st.tuples(one_pattern, st.sampled_from([1, 1, 1, 1, 9])), max_size=6),
    st.sampled_from(["\n", "\r\n", "\x85"]),
).map(lambda made: made[1].join(text * times for text, times in made[0]).encode("utf-8", "surrogatepass"))
IN_CODE = [
    "train.py",
    "table.csv",
    "lib/__init__.py",
    "lib/deep/b.py",
    "run.sh",
    "a b",
    "[x]",
    ".hidden",
    "lib/deep/n\u00e9.txt",
]
"""What is beside the script."""

HASH = 20


def git_index(version: int, names: list[str], surplus: bytes = b"") -> bytes:
    """An index as git writes it, without real hashes: its header, an entry for each name, extensions, a checksum."""
    made, before = b"DIRC" + struct.pack(">II", version, len(names)), b""
    for name in sorted(name.encode() for name in names):
        extended = b"\0\0" if version == 3 else b""
        flags = min(len(name), 0xFFF) | (0x4000 if extended else 0)
        mode = 0o160000 if name.endswith(b"module") else 0o100644
        entry = struct.pack(">6I", 0, 0, 0, 0, 0, 0) + struct.pack(">I", mode) + bytes(12 + HASH)
        entry += struct.pack(">H", flags) + extended
        if version == 4:
            common = next((n for n, (one, other) in enumerate(zip(before, name, strict=False)) if one != other), 0)
            made += entry + bytes([min(len(before) - common, 127)]) + name[common:] + b"\0"
        else:
            whole = entry + name
            made += whole + bytes(8 - len(whole) % 8)
        before = name
    return made + surplus + bytes(HASH)


TRACKED = ["train.py", "table.csv", "lib/__init__.py", "module", "x" * 300]
INDEXES = [git_index(version, TRACKED) for version in (2, 3, 4)]
INDEXES += [git_index(2, TRACKED, b"link" + struct.pack(">I", 4) + b"1234"), git_index(2, []), b""]
FURTHER = ["gitdir: ../../project", "gitdir: .git", "gitdir: /", "gitdir: \0", "gitdir: " + "a/" * 3000, "x", ""]
"""What a file .git says in a submodule."""


def prepare_code(scene: Scene) -> None:
    """A script and what is beside it, in a repository."""
    code = scene.place / "project/code"
    for name in IN_CODE:
        (code / name).parent.mkdir(parents=True, exist_ok=True)
        (code / name).write_text("x = 1\n")
    (code / "folder").symlink_to(code / "lib")
    (code / "nowhere").symlink_to("/nonexistent/x")
    (code / ".git").mkdir()
    (code / "module").mkdir()
    (code / ".hpclaunchignore").write_text("*.csv\n")
    examine(Code(folder=str(code), entry="train.py"))  # what is loaded late is loaded now


def feed_beside(scene: Scene, hosts: bytes, ignored: bytes, include: list[str], index: tuple[int, Any, str]) -> None:
    """One input of each kind: every parser gets as many inputs as this way has."""
    code, outcomes = scene.place / "project/code", []
    (scene.place / "project/hosts").write_bytes(hosts)
    (code / ".hpclaunchignore").write_bytes(ignored)
    which, changes, link = index
    (code / ".git/index").write_bytes(edited(INDEXES[which], changes))
    (code / "module/.git").write_bytes(link.encode("utf-8", "surrogatepass"))
    read: list[Callable[[], None]] = [
        lambda: read_hosts(scene),
        lambda: read_code(Code(folder=str(code), entry="train.py"), scene),
        lambda: read_code(Code(folder=str(code), entry="train.py", source_only=True, include=tuple(include)), scene),
        lambda: read_index(scene),
    ]
    for one in read:
        one()
        outcomes.append(scene.outcome)
    scene.outcome = "result" if "result" in outcomes else "refused"


def read_hosts(scene: Scene) -> None:
    with scene.met():
        system = System(cwd=scene.place / "project")
        hosts = context_of(system, Request(target="train", hosts_file="hosts")).hosts
        assert len(set(hosts)) == len(hosts)
        assert all(host and not set(host) & set(" \t\n#") for host in hosts)


def read_code(code: Code, scene: Scene) -> None:
    with scene.met():
        found, faults = examine(code)
        assert (found is None) != (not faults)
        assert found is None or all((found.folder / name).is_file() for name in found.files)
    assert all(fault.what and str(fault).encode("utf-8", "surrogateescape") for fault in faults)
    scene.outcome = "refused" if faults else "result"


def read_index(scene: Scene) -> None:
    with scene.met():
        names = CodeFolder(scene.place / "project/code").tracked
    scene.outcome = "refused" if names is None else "result"


patterns = st.lists(st.one_of(one_pattern, st.sampled_from(["*.csv", "lib", "train.py"])), max_size=2)
indexes = st.tuples(st.integers(0, len(INDEXES) - 1), edits, st.one_of(st.sampled_from(FURTHER), words))
BESIDE_WAYS = {
    "files beside a script": Way(st.tuples(host_lists, ignore_files, patterns, indexes), feed_beside, prepare_code)
}
