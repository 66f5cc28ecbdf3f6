"""The files for a forge and for other package managers: valid by their schemas, and of this version of the project."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

import hpclaunch
from tests.packaging.conftest import ROOT, run

FORGE = ROOT / ".github"
CONDA = ROOT / "tools" / "packages" / "conda" / "recipe.yaml"
SPACK = ROOT / "tools" / "packages" / "spack" / "package.py"
WORKFLOWS = sorted((FORGE / "workflows").glob("*.yml"))


def content(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.github-workflows", ".github/workflows/*.yml"),
        ("vendor.github-issue-forms", ".github/ISSUE_TEMPLATE/[!c]*.yml"),
        ("vendor.github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
        ("vendor.citation-file-format", "CITATION.cff"),
    ],
)
def test_a_file_is_valid_by_its_schema(linters: Path, schema: str, files: str) -> None:
    found = sorted(ROOT.glob(files))
    assert found
    run(linters / "check-jsonschema", "--builtin-schema", schema, *found, cwd=ROOT)


@pytest.mark.timeout(900)
def test_the_linters_of_workflows_and_recipes_find_nothing(linters: Path) -> None:
    run(linters / "zizmor", "--offline", "--quiet", *WORKFLOWS, cwd=ROOT)
    render = "import sys, rattler_build; print(rattler_build.Stage0Recipe.from_file(sys.argv[1]).render())"
    assert hpclaunch.__version__ in run(linters / "python", "-c", render, CONDA, cwd=ROOT).stdout


def test_every_action_has_the_hash_of_a_version_and_every_job_a_limit_and_few_rights() -> None:
    assert {path.stem for path in WORKFLOWS} == {"tests", "docs", "release"}
    for path in WORKFLOWS:
        workflow = content(path)
        assert workflow["permissions"] == {"contents": "read"}
        for job in workflow["jobs"].values():
            assert int(job["timeout-minutes"]) <= 60
            used = [step["uses"] for step in job["steps"] if "uses" in step]
            assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action) for action in used)


def test_what_the_workflows_run_exists() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in WORKFLOWS)
    named = set(re.findall(r"(?<![\w./-])(?:tests|tools|templates|hpclaunch)/[\w./-]+", text))
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
    groups = set(re.findall(r"--group (\w+)", text))
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert groups and not [group for group in groups if not re.search(rf"^{group} = \[", project, re.MULTILINE)]


def steps_of(job: dict[str, Any]) -> str:
    """What a job runs and uses, as text."""
    return "\n".join(step.get("run", step.get("uses", "")) for step in job["steps"])


def test_a_release_is_published_without_a_stored_password() -> None:
    publish = content(FORGE / "workflows" / "release.yml")["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"} and publish["environment"]["name"] == "pypi"
    assert "secrets." not in (FORGE / "workflows" / "release.yml").read_text(encoding="utf-8")


def test_what_attests_or_publishes_a_release_runs_no_code_of_it() -> None:
    jobs = content(FORGE / "workflows" / "release.yml")["jobs"]
    assert list(jobs) == ["tag", "build", "attest", "publish"]
    assert jobs["build"]["permissions"] == {}
    for name in ("attest", "publish"):
        assert not any("run" in step for step in jobs[name]["steps"])
        assert "actions/checkout" not in steps_of(jobs[name])
    assert [jobs[name].get("needs") for name in jobs] == [None, "tag", "build", ["build", "attest"]]


def test_a_release_is_built_from_a_signed_tag_with_tools_of_known_hashes() -> None:
    jobs = content(FORGE / "workflows" / "release.yml")["jobs"]
    assert "verify-tag" in steps_of(jobs["tag"])
    installed = [line.strip() for line in steps_of(jobs["build"]).splitlines() if "pip install" in line]
    assert installed and all("--require-hashes" in line for line in installed)
    assert "uv build --build-constraints tools/constraints.txt --require-hashes" in steps_of(jobs["build"])


def test_the_hooks_before_a_commit_are_the_commands_of_make_lint() -> None:
    hooks = content(ROOT / ".pre-commit-config.yaml")["repos"][0]["hooks"]
    entries = {" ".join(shlex.split(hook["entry"])).replace(" --force-exclude", "") for hook in hooks}
    linted = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nlint: ")[2].partition("\n\n")[0]
    assert entries == {line.strip() for line in linted.splitlines()[1:]}


def test_the_versions_are_that_of_the_package() -> None:
    citation = content(ROOT / "CITATION.cff")
    spack = re.search(r'version\("([\d.]+)", sha256="[0-9a-f]{64}"\)', SPACK.read_text(encoding="utf-8"))
    assert spack
    assert {citation["version"], content(CONDA)["context"]["version"], spack[1]} == {hpclaunch.__version__}
    assert f"hpclaunch-{hpclaunch.__version__}.tar.gz" in SPACK.read_text(encoding="utf-8")


def required() -> dict[str, str]:
    """What the package requires: name -> its lowest version."""
    import tomllib

    texts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    lowest = {}
    for requirement in map(Requirement, texts):
        (bound,) = (one.version for one in requirement.specifier if one.operator == ">=")
        lowest[requirement.name] = bound
    return lowest


def test_conda_requires_what_the_package_requires() -> None:
    lines = [line.partition(" ") for line in content(CONDA)["requirements"]["run"]]
    found = {name: bound.removeprefix(">=").partition(",")[0] for name, _, bound in lines}
    assert found == {**required(), "__linux": "", "python": "3.10"}


def test_spack_requires_what_the_package_requires() -> None:
    tree = ast.parse(SPACK.read_text(encoding="utf-8"))
    words = [node.args[0] for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    specs = [str(word.value) for word in words if isinstance(word, ast.Constant) and "@" in str(word.value)]
    found = {spec.partition("@")[0]: spec.partition("@")[2].partition(":")[0] for spec in specs}
    built = {"python": "3.10", "py-hatchling": "1.27", "py-hatch-fancy-pypi-readme": "24.1"}
    assert found == {**{f"py-{name.replace('.', '-')}": bound for name, bound in required().items()}, **built}
