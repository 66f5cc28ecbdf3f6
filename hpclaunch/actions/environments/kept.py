"""The folders of environments: which there are, and whether each is complete; it builds and removes none.

An environment is the folder ROOT/NAME, with a folder for each build of it: 1, 2, … A build stays where it is, because
runs in the queue name it. A build is complete when it has ``built.json``, which its script writes last.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from hpclaunch.actions.environments.build_recipe import CONTAINER
from hpclaunch.actions.system import System
from hpclaunch.config.site import Site
from hpclaunch.core.consents import make_private
from hpclaunch.core.errors import Fault, InvalidRequest, NotFound, Refused, did_you_mean, unwritable
from hpclaunch.core.files import append_line, json_object, read_text
from hpclaunch.core.folders import data_folder, state_folder
from hpclaunch.core.records import record
from hpclaunch.core.spec import Context
from hpclaunch.resolve.environment.folders import expanded, has_variables, variables_in

RECIPE, SCRIPT, LOG, BUILT, FAILED = "recipe.json", "build.sh", "build.log", "built.json", "failed"
FREEZE, DOCTOR, ENVIRONMENT, IMAGE = "freeze.txt", "doctor.json", "env", "image.sif"
FORMAT = 1
VARIABLE = "HPCLAUNCH_ENVIRONMENTS"
_ROOTS = "environment-folders.txt"
"""One folder a line, as JSON text: those in which environments were made."""
COMPLETE, BROKEN, UNFINISHED, GONE = "complete", "failed", "unfinished", "damaged"


@record
class KeptEnvironment:
    """One build of an environment. ``recipe``, ``built`` and ``doctor`` are its files; empty where there is none."""

    name: str
    number: int
    path: Path
    state: str
    recipe: Mapping[str, Any] = field(default_factory=dict)
    built: Mapping[str, Any] = field(default_factory=dict)
    doctor: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_image(self) -> bool:
        """Whether it is a container's image, and no folder."""
        return self.recipe.get("make_with") == CONTAINER

    @property
    def folder(self) -> Path:
        """The folder that is activated; of a container the file with its image."""
        return self.path / (IMAGE if self.is_image else ENVIRONMENT)

    def value(self, key: str) -> str:
        """Return a text of the recipe; empty if it has none of that name."""
        found = self.recipe.get(key)
        return found if isinstance(found, str) else ""

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts of the recipe; empty if it has none of that name."""
        found = self.recipe.get(key)
        return tuple(text for text in found if isinstance(text, str)) if isinstance(found, list) else ()

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "name": self.name,
            "number": self.number,
            "state": self.state,
            "path": str(self.path),
            "environment": str(self.folder),
            "recipe": dict(self.recipe),
            "built": dict(self.built) or None,
            "doctor": dict(self.doctor) or None,
        }


def root_of(system: System, site: Site, prefix: str | None) -> tuple[Path, str]:
    """Return the folder for new environments, and who chose it: the flag, the variable, the site, else hpclaunch.

    Raises InvalidRequest for a folder of the user's own that is empty, or names a variable that is not set.
    """
    context = Context(now="", cwd=str(system.cwd), run_dir="", python="", version="", environment=system.environment)
    offers = [("--prefix", prefix), (VARIABLE, system.environment.get(VARIABLE))]
    for origin, offer in offers:
        _check_offer(origin, offer, expanded(offer or "", context))
    offers.append((f"site {site.name}", site.folders.environments))
    for origin, offer in offers:
        folder = expanded(offer, context) if offer else ""
        if folder and not has_variables(folder):
            return Path(os.path.realpath(system.cwd / folder)), origin
    return Path(os.path.realpath(data_folder(system.environment) / "environments")), "hpclaunch"


def _check_offer(origin: str, offer: str | None, folder: str) -> None:
    if offer == "" and origin == "--prefix":
        raise InvalidRequest(Fault(what="the text is empty", where=origin, allowed="a folder"))
    unset = variables_in(folder)
    if unset:
        what = f"{offer!r} contains {' and '.join(f'${name}' for name in unset)}, which is not set"
        raise InvalidRequest(
            Fault(what=what, where=origin, next=f"export {unset[0]}=FOLDER, or name the folder without it")
        )


def known_roots(system: System) -> list[Path]:
    """Return the folders in which environments were made, and those in which they would be."""
    file = state_folder(system.environment) / _ROOTS
    lines = [] if system.keeper.doubtful(file) else read_text(file).splitlines()
    found = [Path(text) for text in map(_text_in, lines) if text.startswith("/")]
    named = system.environment.get(VARIABLE)
    usual = [system.cwd / named] if named else []
    usual.append(data_folder(system.environment) / "environments")
    return list(dict.fromkeys([*found, *(Path(os.path.realpath(folder)) for folder in usual)]))


def _text_in(line: str) -> str:
    with contextlib.suppress(ValueError, RecursionError):
        text = json.loads(line)
        return text if isinstance(text, str) else ""
    return ""


def remember_root(system: System, root: Path) -> None:
    """Note that environments are made in a folder. Raises Refused."""
    file = state_folder(system.environment) / _ROOTS
    if root in known_roots(system):
        return
    try:
        make_private(file)
        system.keeper.require_own(file)
        append_line(file, json.dumps(str(root)))
    except OSError as error:
        raise unwritable(file, error, "the list of folders with environments cannot be written") from None


def builds_in(folder: Path) -> list[KeptEnvironment]:
    """Return the builds in the folder of an environment, oldest first."""
    try:
        numbers = sorted(int(name) for name in os.listdir(folder) if name.isascii() and name.isdigit())
    except OSError:
        return []
    return [read_build(folder / str(number)) for number in numbers]


def read_build(path: Path) -> KeptEnvironment:
    """Return a build as its files describe it."""
    recipe, built = (json_object(read_text(path / name)) for name in (RECIPE, BUILT))
    state = COMPLETE if built.get("format") == FORMAT and recipe.get("format") == FORMAT else UNFINISHED
    is_image = recipe.get("make_with") == CONTAINER
    if state == COMPLETE and not os.path.lexists(path / IMAGE if is_image else path / ENVIRONMENT / "bin" / "python"):
        state = GONE
    if state == UNFINISHED and (path / FAILED).exists():
        state = BROKEN
    return KeptEnvironment(
        name=path.parent.name,
        number=int(path.name) if path.name.isdigit() else 0,
        path=path,
        state=state,
        recipe=recipe,
        built=built,
        doctor=json_object(read_text(path / DOCTOR)),
    )


def kept_environments(system: System) -> list[KeptEnvironment]:
    """Return the newest build of every environment, by name: a complete one if there is one."""
    found = []
    for root in known_roots(system):
        try:
            names = sorted(os.listdir(root))
        except OSError:
            continue
        found += [build for name in names if (build := newest(builds_in(root / name)))]
    return sorted(found, key=lambda build: (build.name, str(build.path)))


def newest(builds: list[KeptEnvironment]) -> KeptEnvironment | None:
    """Return the newest complete build, else the newest one; None if there is none."""
    complete = [build for build in builds if build.state == COMPLETE]
    found = complete or builds
    return found[-1] if found else None


def find(system: System, named: str) -> KeptEnvironment:
    """Return the environment of a name, or the build in a folder. Raises NotFound, and ChangeableByOthers."""
    if "/" in named:
        found = [_find_build(Path(os.path.realpath(system.cwd / named)))]
        known: list[str] = []
    else:
        kept = kept_environments(system)
        found = [build for build in kept if build.name == named]
        known = list(dict.fromkeys(build.name for build in kept))
    there = [build for build in found if build is not None]
    if not there:
        what = f"there is no environment {named!r}{did_you_mean(named, known)}"
        listed = "hpclaunch environment list; or hpclaunch environment make --help, to make one"
        raise NotFound(Fault(where="--environment", what=what, allowed=", ".join(known), next=listed))
    if len(there) > 1:
        places = ", ".join(str(build.path) for build in there)
        raise Refused(Fault(where=named, what="several environments have this name", next=f"name its folder: {places}"))
    system.keeper.require(there[0].path / RECIPE, there[0].path)
    return there[0]


def _find_build(path: Path) -> KeptEnvironment | None:
    """Return the build in a folder: that of a build, that of an environment, or the one that is activated."""
    for place in (path, path.parent):
        if (place / RECIPE).is_file():
            return read_build(place)
    return newest(builds_in(path))
