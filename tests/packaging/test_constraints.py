"""tools/constraints.txt: a version and hashes of all that the set-up installs, from whatever index."""

from __future__ import annotations

import re

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.conftest import ROOT

TEXT = (ROOT / "tools" / "constraints.txt").read_text()
BLOCKS = re.findall(
    r"^([a-z0-9][a-z0-9.-]*)==([^ \n]+)(?: ;[^\\\n]*)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", TEXT, re.M
)


def test_it_holds_versions_and_hashes_and_nothing_else() -> None:
    lines = [line for line in TEXT.splitlines() if not line.startswith("#")]
    assert len(lines) == sum(1 + block[2].count("\n") for block in BLOCKS)
    assert "://" not in TEXT


def test_an_extra_with_tensorflow_is_refused_by_pip_where_python_has_no_such_tensorflow() -> None:
    """A marker on the Python version would let pip install nothing there, without a word."""
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for text in (*extras["train"], *extras["gpu"]):
        assert "python_version" not in text and "python_full_version" not in text


def test_it_has_all_that_pyproject_names() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    named = [*project["project"]["dependencies"], *extras["train"], *extras["plot"]]
    named += [text for group in project["dependency-groups"].values() for text in group if isinstance(text, str)]
    named += [text for texts in project["tool"]["uv"]["extra-build-dependencies"].values() for text in texts]
    versions = {name: [version for other, version, _ in BLOCKS if other == name] for name, _, _ in BLOCKS}
    for requirement in map(Requirement, named):
        found = versions.get(canonicalize_name(requirement.name), [])
        assert any(requirement.specifier.contains(version) for version in found), requirement
