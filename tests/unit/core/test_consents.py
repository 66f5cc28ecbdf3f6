"""Which files are taken, and how long a consent lasts."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from hpclaunch.core.consents import FILE, Keeper, keeper_of, make_private
from hpclaunch.core.errors import ChangeableByOthers
from tests.unit.core.test_protection import ME, OTHER, base, put

__all__ = ["base"]


@pytest.fixture
def keeper(base: Path) -> Keeper:
    """The keeper of ME, with a home of its own and a project that a group may write to."""
    put(base / "home", 0o755)
    put(base / "group", 0o775)
    put(base / "group/p/s.yaml", 0o644)
    return Keeper(state=base / "home/state", home=str(base / "home"))


def consent(keeper: Keeper, folder: Path) -> None:
    """As ME, who then owns the file."""
    keeper.consent(folder)
    assert keeper.state
    for path in (keeper.state, keeper.state / FILE):
        os.chown(path, ME, ME)


def refusal(keeper: Keeper, path: Path, folder: Path, **words: str) -> str:
    with pytest.raises(ChangeableByOthers) as caught:
        keeper.require(path, folder, **words)
    return str(caught.value)


def test_a_refusal_names_the_file_the_reason_and_the_commands(base: Path, keeper: Keeper) -> None:
    file, project = base / "group/p/s.yaml", base / "group/p"
    consent_to = f"if you trust them: hpclaunch trust {project} --despite-group"
    assert refusal(keeper, file, project) == (
        f"{file}: is not used, as others can change it: {base}/group can be written by the group with gid {ME}\n"
        f"    next: chmod go-w {base}/group; or, {consent_to}"
    )
    put(base / "group", 0o755, OTHER)
    assert refusal(keeper, file, project, outcome="is not trusted") == (
        f"{file}: is not trusted, as others can change it: {base}/group belongs to the user with uid {OTHER}\n"
        f"    next: {consent_to}"
    )
    put(base / "group", 0o755)
    keeper.require(file, project)
    assert keeper.doubtful(file) == []


def test_no_chmod_is_told_where_it_would_not_be_enough(base: Path, keeper: Keeper) -> None:
    """Of two places one is another's, who alone can close it."""
    put(base / "group/p", 0o755, OTHER)
    assert refusal(keeper, base / "group/p/s.yaml", base / "group/p").partition("next: ")[2].startswith("if you trust")


def test_only_some_of_many_places_are_named(base: Path, keeper: Keeper) -> None:
    for name in ("group/p", "group/p/a", "group/p/a/b"):
        put(base / name, 0o775)
    put(base / "group/p/a/b/s.yaml", 0o644)
    told = refusal(keeper, base / "group/p/a/b/s.yaml", base / "group/p")
    assert (told.count("can be written"), "; ...\n" in told) == (3, True)
    put(base / "group", 0o755)
    told = refusal(keeper, base / "group/p/a/b/s.yaml", base / "group/p")
    assert (told.count("can be written"), "; ...\n" in told) == (3, False)


def test_a_consent_is_for_a_folder_and_what_is_in_it(base: Path, keeper: Keeper) -> None:
    consent(keeper, base / "group/p")
    put(base / "group/p/below", 0o777, OTHER)
    put(base / "group/p/below/theirs.yaml", 0o666, OTHER)
    put(base / "group/p2/s.yaml", 0o644)
    for name in ("group/p", "group/p/s.yaml", "group/p/below/theirs.yaml"):
        assert keeper.doubtful(base / name) == [], name
    for name in ("group", "group/p2", "group/p2/s.yaml"):
        assert keeper.doubtful(base / name) != [], name


def test_a_consent_is_not_for_a_neighbour_through_which_a_link_leads(base: Path, keeper: Keeper) -> None:
    """Who may write into the neighbour decides where the link leads."""
    put(base / "group/p-of-others", 0o777)
    (base / "group/p-of-others/back").symlink_to(base / "group/p/s.yaml")
    (base / "group/p/link.yaml").symlink_to(base / "group/p-of-others/back")
    consent(keeper, base / "group/p")
    assert keeper.doubtful(base / "group/p/s.yaml") == []
    assert str(base / "group/p-of-others") in {place.path for place in keeper.doubtful(base / "group/p/link.yaml")}


@pytest.mark.parametrize("folder", ["group/p", "group"])
@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.chmod(0o777),
        lambda path: os.chown(path, OTHER, -1),
        lambda path: os.chown(path, -1, OTHER),
        lambda path: (path.rename(f"{path}.old"), shutil.copytree(f"{path}.old", path), os.chown(path, ME, ME)),
    ],
    ids=["permissions", "owner", "group", "inode"],
)
def test_a_consent_ends_with_each_change(
    base: Path, keeper: Keeper, folder: str, change: Callable[[Path], object]
) -> None:
    consent(keeper, base / "group/p")
    assert keeper.doubtful(base / "group/p/s.yaml") == []
    change(base / folder)
    put(base / "group/p/s.yaml", 0o644)
    assert keeper.doubtful(base / "group/p/s.yaml") != []
    consent(keeper, base / "group/p")
    assert keeper.doubtful(base / "group/p/s.yaml") == []


def test_a_consent_is_withdrawn(base: Path, keeper: Keeper) -> None:
    assert keeper.withdraw(base / "group/p") is False
    consent(keeper, base / "group/p")
    consent(keeper, base / "group")
    assert keeper.withdraw(base / "home") is False
    assert keeper.withdraw(base / "group") is True
    os.chown(base / "home/state" / FILE, ME, ME)
    assert keeper.doubtful(base / "group/p/s.yaml") == []
    assert keeper.doubtful(base / "group") != []
    assert keeper.withdraw(base / "group/p") is True
    assert keeper.doubtful(base / "group/p/s.yaml") != []


@pytest.mark.parametrize(
    "line", ["", "x", "[]", "{}", '{"folder": "/"}', '{"folder": 1, "places": []}', '{"folder": "FOLDER", "places": 1}']
)
def test_damaged_consents_allow_nothing(base: Path, keeper: Keeper, line: str) -> None:
    consent(keeper, base / "group/p")
    file = base / "home/state" / FILE
    good = file.read_text()
    file.write_text(f"{line.replace('FOLDER', str(base / 'group/p'))}\n")
    assert keeper.doubtful(base / "group/p/s.yaml") != []
    file.write_text(f"{line}\n{good}")
    assert keeper.doubtful(base / "group/p/s.yaml") == []


def test_a_consent_is_not_kept_where_others_could_write_it_first(base: Path, keeper: Keeper) -> None:
    put(base / "home/state", 0o777)
    with pytest.raises(ChangeableByOthers, match="others can change what is kept here"):
        keeper.consent(base / "group/p")
    assert (base / "home/state" / FILE).read_text() == ""


def test_a_consent_whose_folder_is_gone_allows_nothing(base: Path, keeper: Keeper) -> None:
    consent(keeper, base / "group/p")
    (base / "group/p").rename(base / "group/moved")
    (base / "group/p").symlink_to("moved")
    assert keeper.doubtful(base / "group/p/s.yaml") != []
    (base / "group/moved").rename(base / "moved")
    put(base, 0o757, 0)
    assert keeper.doubtful(base / "moved/s.yaml") != []


def test_consents_that_others_could_write_allow_nothing(base: Path, keeper: Keeper) -> None:
    consent(keeper, base / "group/p")
    state = base / "home/state"
    assert (stat.S_IMODE(state.stat().st_mode), stat.S_IMODE((state / FILE).stat().st_mode)) == (0o700, 0o600)
    assert keeper.doubtful(base / "group/p/s.yaml") == []
    for path, mode in ((state / FILE, 0o666), (base / "home", 0o777)):
        before = stat.S_IMODE(path.stat().st_mode)
        state.chmod(0o755)  # a closed folder keeps others from its files
        path.chmod(mode)
        assert keeper.doubtful(base / "group/p/s.yaml") != []
        path.chmod(before)
    state.chmod(0o777)
    assert keeper.doubtful(base / "group/p/s.yaml") != []
    with pytest.raises(ChangeableByOthers) as caught:
        keeper.consent(base / "group/p")
    assert str(caught.value) == (
        f"{state}/{FILE}: others can change what is kept here: {state} can be written by everybody\n"
        f"    next: chmod go-w {state}"
    )
    os.chown(state, OTHER, OTHER)
    with pytest.raises(ChangeableByOthers, match="next: set XDG_STATE_HOME to a folder that only you can change"):
        keeper.consent(base / "group/p")


def test_a_keeper_without_a_folder_of_state_has_no_consents(base: Path, keeper: Keeper) -> None:
    alone = Keeper()
    assert alone.doubtful(base / "group/p/s.yaml") != []
    assert alone.withdraw(base / "group/p") is False
    with pytest.raises(ValueError, match="no folder"):
        alone.consent(base / "group/p")


def test_the_keeper_of_an_environment() -> None:
    assert keeper_of({"HOME": "/h", "XDG_STATE_HOME": "/s"}) == Keeper(state=Path("/s/hpclaunch"), home="/h")
    assert keeper_of({"XDG_STATE_HOME": "/s"}).home == ""


def test_a_private_file_that_exists_stays(tmp_path: Path) -> None:
    make_private(tmp_path / "a/b/c")
    (tmp_path / "a/b/c").write_text(json.dumps(1))
    make_private(tmp_path / "a/b/c")
    assert (tmp_path / "a/b/c").read_text() == "1"
