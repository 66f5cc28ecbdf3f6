"""What an index shows of the package: metadata without a relative link, whose addresses lead to files that exist."""

from __future__ import annotations

import email
import email.message
import re
import zipfile
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT, run

ADDRESS = "https://github.com/hpclaunch/hpclaunch"
LINK = re.compile(r"\]\(([^)\s]+)[^)]*\)")


@pytest.fixture(scope="module")
def metadata(distributions: tuple[Path, Path]) -> email.message.Message:
    wheel = zipfile.ZipFile(distributions[0])
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return email.message_from_string(wheel.read(name).decode("utf-8"))


def test_the_metadata_names_authors_license_and_addresses(metadata: email.message.Message) -> None:
    assert metadata["Author"] == "hpclaunch developers"
    assert metadata["License-Expression"] == "MIT"
    addresses = dict(line.split(", ") for line in metadata.get_all("Project-URL", []))
    assert addresses.keys() == {"Homepage", "Documentation", "Source", "Issues", "Changelog"}
    assert all(address.startswith(ADDRESS) for address in addresses.values())
    assert not [line for line in metadata.get_all("Classifier", []) if line.startswith("License ::")]


def test_the_readme_of_an_index_has_no_relative_link(metadata: email.message.Message) -> None:
    targets = LINK.findall(metadata.get_payload())
    assert len(targets) > 20
    assert [target for target in targets if not re.match("https://|#", target)] == []


def test_its_links_lead_to_files_of_this_version(metadata: email.message.Message) -> None:
    raw = ADDRESS.replace("//github.com", "//raw.githubusercontent.com")
    places = (f"{ADDRESS}/blob/v{metadata['Version']}/", f"{raw}/v{metadata['Version']}/")
    ours = [target for target in LINK.findall(metadata.get_payload()) if target.startswith((ADDRESS, raw))]
    assert ours and all(target.startswith(places) for target in ours)
    paths = {target.partition(f"/v{metadata['Version']}/")[2].partition("#")[0] for target in ours}
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


@pytest.mark.timeout(900)
def test_the_tool_that_uploads_accepts_both_distributions(linters: Path, distributions: tuple[Path, Path]) -> None:
    checked = run(linters / "twine", "check", "--strict", *distributions, cwd=ROOT)
    assert checked.stdout.count("PASSED") == 2


def test_every_address_of_the_project_is_the_same() -> None:
    """One placeholder until the project has a public address (CONTRIBUTING.md, Releases)."""
    listing = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).stdout.split()
    found = set()
    for path in (ROOT / name for name in listing):
        if path.suffix in {".md", ".toml", ".yml", ".yaml", ".cff", ".py"} and path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            found |= set(re.findall(r"github\.com[/:]([\w.-]*/hpclaunch)\b", text))
            found |= set(re.findall(r"[\w-]+\.github\.io/hpclaunch", text))
    assert found == {"hpclaunch/hpclaunch"}
