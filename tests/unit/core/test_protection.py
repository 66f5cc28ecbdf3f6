"""Who else can change a file: owners, permissions, sticky folders, links, private groups and ACLs."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpclaunch.core import protection
from hpclaunch.core.protection import place_of, private_group, weak_places

ME, OTHER = 12345, 23456


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of root that everybody may enter, looked at by the user ME."""
    if os.geteuid() != 0:
        pytest.skip("group root: only root can give files to other users")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setattr(os, "geteuid", lambda: ME)
        yield Path(folder)
        monkeypatch.undo()


def put(path: Path, mode: int, owner: int = ME, group: int = ME) -> Path:
    """A folder, or a file if its name has a suffix, below folders of ME with mode 0755."""
    for parent in reversed(path.parents):
        if not parent.exists():
            put(parent, 0o755)
    if not path.exists():
        path.touch() if path.suffix else path.mkdir()
    os.chown(path, owner, group)
    path.chmod(mode)
    return path


def told(path: Path, base: Path, home: Path | str = "") -> list[str]:
    return [str(place).replace(str(base), "") for place in weak_places(path, home)]


@pytest.mark.parametrize(
    ("owner", "mode", "expected"),
    [
        (ME, 0o644, []),
        (ME, 0o600, []),
        (0, 0o644, []),
        (OTHER, 0o644, ["/p/s.yaml belongs to the user with uid 23456"]),
        (OTHER, 0o666, ["/p/s.yaml belongs to the user with uid 23456"]),
        (ME, 0o664, ["/p/s.yaml can be written by the group with gid 12345"]),
        (ME, 0o646, ["/p/s.yaml can be written by everybody"]),
        (0, 0o664, ["/p/s.yaml can be written by the group with gid 12345"]),
    ],
)
def test_a_file(base: Path, owner: int, mode: int, expected: list[str]) -> None:
    put(base / "p/s.yaml", mode, owner)
    assert told(base / "p/s.yaml", base) == expected


@pytest.mark.parametrize(
    ("owner", "mode", "of_file", "of_folder_below"),
    [
        (ME, 0o755, "", ""),
        (0, 0o755, "", ""),
        (OTHER, 0o755, "belongs to", "belongs to"),
        (OTHER, 0o1777, "belongs to", "belongs to"),
        (ME, 0o775, "the group", "the group"),
        (ME, 0o757, "everybody", "everybody"),
        (0, 0o777, "everybody", "everybody"),
        # In a sticky folder only a folder is safe: others can give a file another name, by a hard link.
        (ME, 0o1777, "everybody", ""),
        (0, 0o1777, "everybody", ""),
        (0, 0o1775, "the group", ""),
    ],
)
def test_a_folder_on_the_way(base: Path, owner: int, mode: int, of_file: str, of_folder_below: str) -> None:
    put(base / "p", mode, owner)
    put(base / "p/s.yaml", 0o644)
    put(base / "p/below/s.yaml", 0o644)
    for path, expected in (("p/s.yaml", of_file), ("p/below/s.yaml", of_folder_below)):
        found = told(base / path, base)
        assert len(found) == bool(expected)
        assert not found or (found[0].startswith("/p ") and expected in found[0])


def test_a_named_folder_may_be_written_by_nobody_else_sticky_or_not(base: Path) -> None:
    put(base / "p", 0o1777)
    assert told(base / "p", base) == ["/p can be written by everybody"]


def test_in_a_sticky_folder_the_next_one_must_be_ones_own(base: Path) -> None:
    put(base / "p", 0o1777)
    put(base / "p/of-other", 0o755, OTHER)
    put(base / "p/of-other/s.yaml", 0o644)
    assert told(base / "p/of-other/s.yaml", base) == [
        "/p can be written by everybody",
        "/p/of-other belongs to the user with uid 23456",
    ]
    put(base / "p/of-root", 0o755, 0)
    put(base / "p/of-root/s.yaml", 0o644)
    assert told(base / "p/of-root/s.yaml", base) == []


def test_a_link_counts_with_the_folders_on_both_sides(base: Path) -> None:
    put(base / "mine/s.yaml", 0o644)
    put(base / "open", 0o1777, 0)
    (base / "open/link").symlink_to(base / "mine")
    (base / "open/relative").symlink_to("../mine")
    (base / "safe").mkdir()
    (base / "safe/link").symlink_to("../open/relative/s.yaml")
    for name in ("open/link/s.yaml", "open/relative/s.yaml", "safe/link"):
        assert told(base / name, base) == ["/open can be written by everybody"], name
    put(base / "open", 0o755, 0)
    for name in ("open/link/s.yaml", "open/relative/s.yaml", "safe/link"):
        assert told(base / name, base) == [], name
    put(base / "mine/s.yaml", 0o646)
    assert told(base / "safe/link", base) == ["/mine/s.yaml can be written by everybody"]


def test_the_way_through_the_folder_above(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(base / "p/s.yaml", 0o644)
    put(base / "open", 0o777)
    assert told(base / "open/../p/s.yaml", base) == []  # nobody can make .. another folder
    monkeypatch.chdir(base / "p")
    assert told(Path("s.yaml"), base) == told(Path("./s.yaml"), base) == []
    put(base, 0o777, 0)
    assert told(Path("s.yaml"), base) == [" can be written by everybody"]


def test_what_does_not_exist_and_what_leads_nowhere_is_nobodys(base: Path) -> None:
    (base / "loop").symlink_to("loop")
    for name in ("nothing", "nothing/below.yaml", "loop", "a\0b"):
        assert told(base / name, base) == []


def test_as_many_links_are_followed_as_the_kernel_follows(base: Path) -> None:
    put(base / "p/s.yaml", 0o666)
    (base / "1").symlink_to("p/s.yaml")
    for number in range(2, 42):
        (base / str(number)).symlink_to(str(number - 1))
    assert told(base / "40", base) == ["/p/s.yaml can be written by everybody"]
    assert told(base / "41", base) == []
    assert (base / "40").exists()
    with pytest.raises(OSError, match="Too many levels"):
        (base / "41").stat()


def test_below_a_folder_that_lets_nobody_in_permissions_do_not_count(base: Path) -> None:
    put(base / "home", 0o700)
    put(base / "home/open", 0o777)
    put(base / "home/open/s.yaml", 0o666)
    assert told(base / "home/open/s.yaml", base) == []
    assert told(base / "home/open", base) == []
    for mode in (0o710, 0o701):
        put(base / "home", mode)
        assert len(told(base / "home/open/s.yaml", base)) == 2
    put(base / "home", 0o700)
    put(base / "outside.yaml", 0o646)
    for place, target in (("link.yaml", base / "outside.yaml"), ("relative.yaml", "../outside.yaml")):
        (base / "home" / place).symlink_to(target)
        assert told(base / "home" / place, base) == ["/outside.yaml can be written by everybody"]
    put(base / "home/open/theirs.yaml", 0o644, OTHER)
    assert told(base / "home/open/theirs.yaml", base) == ["/home/open/theirs.yaml belongs to the user with uid 23456"]


def test_a_closed_folder_of_root_is_not_this_users(base: Path) -> None:
    put(base / "roots", 0o700, 0)
    put(base / "roots/s.yaml", 0o666)
    assert told(base / "roots/s.yaml", base) == ["/roots/s.yaml can be written by everybody"]


def test_above_the_home_folder_nothing_counts(base: Path) -> None:
    put(base / "group", 0o775, OTHER)
    put(base / "group/home", 0o755)
    put(base / "group/home/s.yaml", 0o644)
    (base / "named").symlink_to(base / "group/home")
    home = base / "group/home"
    above = ["/group belongs to the user with uid 23456"]
    assert told(home / "s.yaml", base) == above
    for name in (home, f"{home}/", base / "named"):
        assert told(home / "s.yaml", base, name) == []
    assert told(base / "named/s.yaml", base, base / "named") == []
    assert told(base / "named/s.yaml", base, home) == [], "a link leads to the home folder"
    (base / "relative").symlink_to("group/home")
    assert told(base / "relative/s.yaml", base, home) == above, "the kernel looks at the folder above"
    assert told(home / "../home/s.yaml", base, home) == above
    assert told(base / "group/home-of-mine", base, home) == []  # there is none
    put(base / "group/home-of-mine", 0o755)
    assert told(base / "group/home-of-mine", base, home) == above
    put(home, 0o775)
    assert told(home / "s.yaml", base, home) == ["/group/home can be written by the group with gid 12345"]
    for no_home in ("/", "", "home"):
        assert told(base / "group", base, no_home) == above


def test_the_private_group_of_a_user_is_nobody_else(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    person = pwd.getpwnam("daemon")
    monkeypatch.setattr(os, "geteuid", lambda: person.pw_uid)
    put(base / "p", 0o775, person.pw_uid, person.pw_gid)
    put(base / "p/s.yaml", 0o664, person.pw_uid, person.pw_gid)
    assert told(base / "p/s.yaml", base) == []
    put(base / "p/s.yaml", 0o664, person.pw_uid, grp.getgrnam("users").gr_gid)
    assert told(base / "p/s.yaml", base) == ["/p/s.yaml can be written by the group users (gid 100)"]
    put(base / "p/s.yaml", 0o646, person.pw_uid, person.pw_gid)
    assert told(base / "p/s.yaml", base) == ["/p/s.yaml can be written by everybody"]
    monkeypatch.setattr(os, "geteuid", lambda: ME)
    assert told(base / "p", base) == ["/p belongs to daemon (uid 1)"]


def test_a_group_counts_where_it_is_not_known_whether_an_acl_lets_others_write(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = pwd.getpwnam("daemon")
    monkeypatch.setattr(os, "geteuid", lambda: person.pw_uid)
    file = put(base / "p/s.yaml", 0o664, person.pw_uid, person.pw_gid)
    put(base / "p", 0o755, person.pw_uid, person.pw_gid)

    def told_with(number: int) -> list[str]:
        def fail(path: str, name: str) -> bytes:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "getxattr", fail)
        return told(file, base)

    for number in (errno.ENODATA, errno.ENOTSUP):
        assert told_with(number) == []
    for number in (errno.EIO, errno.EACCES):
        assert told_with(number) == ["/p/s.yaml can be written by the group daemon (gid 1)"]


@pytest.mark.parametrize(
    ("name", "members", "expected"),
    [
        ("daemon", [], 1),
        ("daemon", ["daemon"], 1),
        ("daemon", ["bob"], -1),
        ("daemon", ["daemon", "bob"], -1),
        ("staff", [], -1),
    ],
)
def test_which_group_is_private(name: str, members: list[str], expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group((name, "x", gid, members)))
    private_group.cache_clear()
    try:
        assert private_group(pwd.getpwnam("daemon").pw_uid) == expected
        assert private_group(ME) == -1
    finally:
        private_group.cache_clear()


ACL_USER_OBJ, ACL_USER, ACL_GROUP_OBJ, ACL_MASK, ACL_OTHER = 1, 2, 4, 16, 32


def test_an_acl_that_lets_others_write_is_seen_in_the_mode(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    person = pwd.getpwnam("daemon")
    monkeypatch.setattr(os, "geteuid", lambda: person.pw_uid)
    file = put(base / "p/s.yaml", 0o664, person.pw_uid, person.pw_gid)
    put(base / "p", 0o755, person.pw_uid, person.pw_gid)
    assert told(file, base) == []
    entries = [(ACL_USER_OBJ, 6, -1), (ACL_USER, 6, OTHER), (ACL_GROUP_OBJ, 6, -1), (ACL_MASK, 6, -1)]
    value = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in [*entries, (ACL_OTHER, 4, -1)])
    try:
        os.setxattr(file, "system.posix_acl_access", value)
    except OSError:
        pytest.skip("group acl: this file system has no POSIX ACLs")
    assert told(file, base) == ["/p/s.yaml can be written by the group daemon (gid 1)"]
    file.chmod(0o644)  # the mask
    assert told(file, base) == []


@pytest.mark.parametrize(
    ("users", "are_roots"),
    [("0 0 4294967295\n", False), ("0 12345 1\n1 100000 65536\n", True), ("12345 12345 1\n", True), ("x", False)],
)
def test_roots_folders_in_a_namespace_without_root(
    base: Path, monkeypatch: pytest.MonkeyPatch, users: str, are_roots: bool
) -> None:
    """There `/` and `/home` belong to nobody; the folder that holds the file must be one's own."""
    put(base / "top", 0o755, OTHER)
    put(base / "top/p/s.yaml", 0o644)
    put(base / "top/s.yaml", 0o644)
    for name, text in (("_USERS", users), ("_UNMAPPED", f"{OTHER}\n")):
        monkeypatch.setattr(protection, name, base / name)
        (base / name).write_text(text)
    protection._unmapped_owner.cache_clear()
    try:
        of_other = ["/top belongs to the user with uid 23456"]
        assert told(base / "top/p/s.yaml", base) == ([] if are_roots else of_other)
        for name in ("top/s.yaml", "top/p", "top"):
            assert told(base / name, base) == of_other
    finally:
        protection._unmapped_owner.cache_clear()


@pytest.mark.parametrize(
    ("owner", "mode", "why"),
    [(ME, 0o755, ""), (0, 0o755, ""), (OTHER, 0o700, "belongs to"), (ME, 0o775, "the group"), (0, 0o757, "everybody")],
)
def test_who_else_can_change_what_is_in_a_folder_itself(base: Path, owner: int, mode: int, why: str) -> None:
    put(base / "p", mode, owner)
    put(base, 0o777, 0)  # the way to it does not count here
    found = protection.weakness(str(base / "p"))
    assert why in found and bool(found) == bool(why)


def test_what_identifies_a_place(base: Path) -> None:
    path = put(base / "p", 0o1775, ME, OTHER)
    (found,) = weak_places(path)
    assert found.identity == place_of(str(path)).identity == (str(path), ME, OTHER, 0o1775, path.stat().st_ino)
