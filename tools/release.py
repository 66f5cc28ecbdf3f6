"""Makes the files of a release in dist/: `make release`, on the commit that a signed tag names. It publishes nothing.

The wheel and the source distribution are built from what git has, with build tools of known hashes, and are the same
bytes whenever they are built. Beside them: an SBOM (CycloneDX), the provenance (in-toto), SHA256SUMS and its signature.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools import long_tier  # noqa: E402

DIST = ROOT / "dist"
CONSTRAINTS = Path("tools/constraints.txt")
EXTRAS = {"", "train"}
NAMESPACE = "hpclaunch-release"


def main() -> int:
    """Make all files; 1 with the reason if this commit is not one to release."""
    tag = f"v{version()}"
    if reason := objection(tag):
        print(f"release: {reason}", file=sys.stderr)
        return 1
    shutil.rmtree(DIST, ignore_errors=True)
    build(tag)
    (DIST / "sbom.cdx.json").write_text(json.dumps(sbom(), indent=2) + "\n")
    subjects = {file.name: sha256(file) for file in sorted(DIST.iterdir())}
    (DIST / "provenance.intoto.json").write_text(json.dumps(provenance(tag, subjects), indent=2) + "\n")
    sums = [f"{sha256(file)}  {file.name}\n" for file in sorted(DIST.iterdir())]
    (DIST / "SHA256SUMS").write_text("".join(sums))
    sign(DIST / "SHA256SUMS")
    print("".join(f"dist/{file.name}\n" for file in sorted(DIST.iterdir())), end="")
    return 0


def version() -> str:
    """Return the version as the package has it."""
    text = (ROOT / "hpclaunch" / "core" / "version.py").read_text()
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    assert found
    return found[1]


def objection(tag: str) -> str:
    """Return why this commit cannot be released; nothing if it can."""
    if git("status", "--porcelain"):
        return "there are changes that are not committed: commit them, or put them away"
    if subprocess.run(["git", "verify-tag", tag], cwd=ROOT, capture_output=True).returncode:
        return f"there is no tag {tag} with a good signature: git tag --sign {tag} (CONTRIBUTING.md: Releases)"
    if git("rev-parse", f"{tag}^{{commit}}") != git("rev-parse", "HEAD"):
        return f"the tag {tag} names another commit: git checkout {tag}, or raise the version"
    late = long_tier.missing(long_tier.today())
    if late:
        days = long_tier.OLDEST_DAYS
        return f"these parts of make long have not passed within {days} days: {', '.join(late)} (docs/reliability.md)"
    return ""


def build(tag: str) -> None:
    """Build both distributions from the tag's files alone, all times in them being that of the commit."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": git("log", "-1", "--format=%ct", tag), "UV_SYSTEM_CERTS": "1"}
    uv = str(Path(sys.executable).with_name("uv"))
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, "source.tar")
        git("archive", f"--output={archive}", tag)
        source = Path(folder, "source")
        with tarfile.open(archive) as packed:
            packed.extractall(source)
        checked = ("--build-constraints", str(CONSTRAINTS), "--require-hashes")
        subprocess.run(
            [uv, "build", "--quiet", *checked, "--out-dir", str(DIST)], cwd=source, env=environment, check=True
        )
    (DIST / ".gitignore").unlink(missing_ok=True)


def sbom() -> dict[str, Any]:
    """Return the bill of materials of this environment: hpclaunch with the extra train, and all that these require."""
    hashes, parts = hashes_by_name(), closure("hpclaunch")
    components = [component(name, hashes.get(name, [])) for name in sorted(parts) if name != "hpclaunch"]
    main_part = {"type": "application", "bom-ref": "hpclaunch", "name": "hpclaunch", "version": version()}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": main_part},
        "components": components,
        "dependencies": [{"ref": name, "dependsOn": sorted(parts[name])} for name in sorted(parts)],
    }


def closure(first: str) -> dict[str, set[str]]:
    """Return the name of every distribution that is needed -> the names of those that it requires."""
    found: dict[str, set[str]] = {}
    waiting = [(first, EXTRAS)]
    while waiting:
        name, extras = waiting.pop()
        required = [Requirement(text) for text in distribution(name).requires or []]
        needed = [one for one in required if not one.marker or any(one.marker.evaluate({"extra": e}) for e in extras)]
        new = {canonicalize_name(one.name) for one in needed} - found.setdefault(name, set())
        found[name] |= new
        waiting += [
            (canonicalize_name(one.name), {"", *one.extras}) for one in needed if canonicalize_name(one.name) in new
        ]
    return found


def component(name: str, hashes: list[str]) -> dict[str, Any]:
    """Return a distribution as CycloneDX has it; the hashes are those of the files of this version."""
    about = distribution(name)
    purl = f"pkg:pypi/{name}@{about.version}"
    files = [{"type": "distribution", "url": purl, "hashes": [{"alg": "SHA-256", "content": one}]} for one in hashes]
    return {
        "type": "library",
        "bom-ref": name,
        "name": name,
        "version": about.version,
        "purl": purl,
        "externalReferences": files,
    }


def hashes_by_name() -> dict[str, list[str]]:
    """Return name -> SHA-256 of its files, as tools/constraints.txt has them."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in (ROOT / CONSTRAINTS).read_text().splitlines():
        if start := re.match(r"([a-z0-9.-]+)==", line):
            name = start[1]
        found.setdefault(name, []).extend(re.findall(r"--hash=sha256:([0-9a-f]{64})", line))
    return found


def provenance(tag: str, subjects: dict[str, str]) -> dict[str, Any]:
    """Return where the files come from, as an in-toto statement with SLSA's predicate."""
    sources = [
        {"name": "git commit", "digest": {"gitCommit": git("rev-parse", "HEAD")}},
        {"name": str(CONSTRAINTS), "digest": {"sha256": sha256(ROOT / CONSTRAINTS)}},
    ]
    definition = {"buildType": "urn:hpclaunch:make-release", "externalParameters": {"tag": tag}}
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in subjects.items()],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {**definition, "resolvedDependencies": sources},
            "runDetails": {"builder": {"id": "urn:hpclaunch:maintainer"}},
        },
    }


def sign(file: Path) -> None:
    """Sign the file with the key that git signs tags with: FILE.sig of OpenSSH, or FILE.asc of GnuPG."""
    key = git("config", "user.signingKey")
    if git("config", "--default", "openpgp", "gpg.format") == "ssh":
        command = ["ssh-keygen", "-q", "-Y", "sign", "-n", NAMESPACE, "-f", os.path.expanduser(key), str(file)]
    else:
        command = ["gpg", "--armor", "--detach-sign", "--local-user", key, str(file)]
    subprocess.run(command, check=True)


def sha256(file: Path) -> str:
    """Return the file's checksum."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def git(*arguments: str) -> str:
    """Return the output of git in this checkout."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
