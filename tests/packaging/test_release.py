"""A release: what is refused, and that its files can be checked and made again; with a key made for this test."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT, run

pytestmark = pytest.mark.timeout(600)
FILES = {"SHA256SUMS", "SHA256SUMS.sig", "provenance.intoto.json", "sbom.cdx.json"}


def release(checkout: Path) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "tools/release.py", cwd=checkout, check=False)


@pytest.fixture
def checkout(uv: str, tmp_path: Path) -> Path:
    """A clone of this repository with the files as they are, whose git signs with a key of its own."""
    if shutil.which("ssh-keygen") is None:
        pytest.skip("group signing: needs ssh-keygen (openssh-client)")
    clone = tmp_path / "hpclaunch"
    clone.mkdir()
    listing = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).stdout
    for name in filter(None, listing.split("\0")):
        if (ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, clone / name)
    key, allowed = tmp_path / "key", tmp_path / "allowed"
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key, cwd=tmp_path)
    allowed.write_text(f"releases@example.org {key.with_suffix('.pub').read_text()}")
    run("git", "init", "--quiet", cwd=clone)
    for name, value in {
        "user.name": "Release",
        "user.email": "releases@example.org",
        "user.signingKey": str(key),
        "gpg.format": "ssh",
        "gpg.ssh.allowedSignersFile": str(allowed),
    }.items():
        run("git", "config", name, value, cwd=clone)
    commit_all(clone)
    code = "import sys; sys.path.insert(0, '.'); from tools import long_tier as t; "
    code += "[t.write_row((name, t.PASSED, '1', '1', t.today(), 'abc1234')) for name in t.PARTS]"
    run(sys.executable, "-c", code, cwd=clone)
    commit_all(clone)
    return clone


def commit_all(clone: Path) -> None:
    run("git", "add", "--all", cwd=clone)
    run("git", "commit", "--quiet", "--message", "all", cwd=clone)


def test_only_a_clean_commit_with_a_signed_tag_is_released(checkout: Path) -> None:
    assert "no tag v" in release(checkout).stderr
    (tag,) = re.findall(r"git tag --sign (\S+)", release(checkout).stderr)
    run("git", "tag", "--no-sign", "--annotate", "--message", "unsigned", tag, cwd=checkout)
    assert "good signature" in release(checkout).stderr
    (checkout / "README.md").write_text("changed")
    assert "not committed" in release(checkout).stderr
    assert not (checkout / "dist").exists()


def test_a_release_needs_every_part_of_the_long_tier(checkout: Path) -> None:
    page = checkout / "docs" / "reliability.md"
    page.write_text(re.sub(r"\| once \| passed \|", "| once | failed (1) |", page.read_text()))
    commit_all(checkout)
    (tag,) = re.findall(r"git tag --sign (\S+)", release(checkout).stderr)
    run("git", "tag", "--sign", "--message", tag, tag, cwd=checkout)
    assert "these parts of make long have not passed within 14 days: once (failed (1) on" in release(checkout).stderr
    assert not (checkout / "dist").exists()


def test_the_files_of_a_release_can_be_checked_and_made_again(checkout: Path) -> None:
    (tag,) = re.findall(r"git tag --sign (\S+)", release(checkout).stderr)
    run("git", "tag", "--sign", "--message", tag, tag, cwd=checkout)
    done = release(checkout)
    assert done.returncode == 0, done.stderr
    dist = checkout / "dist"
    made = {file.name: file.read_bytes() for file in dist.iterdir()}
    (wheel,) = (name for name in made if name.endswith(".whl"))
    (sdist,) = (name for name in made if name.endswith(".tar.gz"))
    assert made.keys() == {wheel, sdist, *FILES}
    run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=dist)
    assert made["SHA256SUMS"].count(b"\n") == len(made) - 2
    about = json.loads(made["provenance.intoto.json"])
    head = run("git", "rev-parse", "HEAD", cwd=checkout).stdout.strip()
    assert {one["name"] for one in about["subject"]} == {wheel, sdist, "sbom.cdx.json"}
    sources = about["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert sources[0]["digest"] == {"gitCommit": head}
    verify = ["ssh-keygen", "-Y", "verify", "-n", "hpclaunch-release", "-I", "releases@example.org"]
    verify += ["-f", str(checkout.parent / "allowed"), "-s", str(dist / "SHA256SUMS.sig")]
    assert subprocess.run(verify, input=made["SHA256SUMS"], capture_output=True).returncode == 0
    assert subprocess.run(verify, input=made["SHA256SUMS"] + b" ", capture_output=True).returncode != 0
    assert release(checkout).returncode == 0
    again = {file.name: file.read_bytes() for file in dist.iterdir()}
    assert [name for name in made if name != "SHA256SUMS.sig" and made[name] != again[name]] == []


def test_the_sbom_names_all_that_is_required_with_its_version(checkout: Path) -> None:
    code = "import json, sys; sys.path.insert(0, 'tools'); import release; print(json.dumps(release.sbom()))"
    sbom = json.loads(run(sys.executable, "-c", code, cwd=checkout).stdout)
    parts = {part["name"]: part for part in sbom["components"]}
    assert {"typer", "jinja2", "markupsafe", "pyyaml", "rich", "submitit"} <= parts.keys()
    assert parts["jinja2"]["purl"] == f"pkg:pypi/jinja2@{parts['jinja2']['version']}"
    assert all(part["externalReferences"] for part in parts.values()), "each has the hashes of its files"
    assert {"ref": "jinja2", "dependsOn": ["markupsafe"]} in sbom["dependencies"]
