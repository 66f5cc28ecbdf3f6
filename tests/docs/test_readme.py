"""The README's commands, run as they stand there; and that every file it names exists."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "tests/README.md")


def marked_command(name: str) -> str:
    """The command in the code block under ``<!-- run: NAME -->``."""
    found = re.search(rf"<!-- run: {name} -->\n```\n(.+?)\n```", README)
    assert found, name
    return found[1]


def commands() -> list[str]:
    """Every line of the README's code blocks and table that calls hpclaunch, without its remark."""
    blocks = "\n".join(re.findall(r"```\n(.*?)```", README, re.DOTALL))
    lines = [line.split(" #")[0].strip() for line in blocks.splitlines() if line.startswith("hpclaunch ")]
    return sorted({*lines, *re.findall(r"`(hpclaunch [^`\[]+)`", README)})


def hpclaunch(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HPCLAUNCH", "SBATCH"))}
    environment |= {"HOME": str(folder), "SCRATCH": "/scratch", "COLUMNS": "200"}
    command = [sys.executable, "-m", "hpclaunch", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("command", [line for line in commands() if " submit " in line or " render " in line])
def test_the_readmes_submissions_render(command: str, tmp_path: Path) -> None:
    (tmp_path / "my_train.py").write_text("print('hello')\n", encoding="utf-8")
    rendering = command.replace("submit", "render", 1).replace(" --dry-run", "").replace(" -o cifar.sh", "")
    words = shlex.split(rendering)[1:]
    cut = words.index("--") if "--" in words else len(words)
    # Perlmutter's nodes have a /tmp of their own, and this test's folder may lie in it.
    shared = (
        (ROOT / "site_configs" / "perlmutter.yaml").read_text(encoding="utf-8").replace("node_private", "# private")
    )
    (tmp_path / "site_configs").mkdir()
    (tmp_path / "site_configs" / "shared.yaml").write_text(shared, encoding="utf-8")
    options = ["--site", "shared"] + ([] if "--account" in words else ["--account", "m1"])
    done = hpclaunch([*words[:cut], *options, *words[cut:]], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("#!/bin/bash")


@pytest.mark.parametrize("command", [line for line in commands() if " submit " not in line and " render " not in line])
def test_the_readmes_other_verbs_and_options_exist(command: str, tmp_path: Path) -> None:
    words = [word for word in shlex.split(command)[1:] if not re.fullmatch(r"[A-Z]+|cifar|mine|train\.py", word)]
    verbs = [word for word in words if not word.startswith("-")]
    done = hpclaunch([*verbs, "--help-all"], tmp_path)
    assert done.returncode == 0, done.stderr
    missing = [word for word in words if word.startswith("-") and word not in done.stdout]
    assert not missing


def flags() -> list[str]:
    """Every long option that stands in backticks."""
    spans = re.findall(r"`([^`\n]+)`", README)
    return sorted({flag for span in spans for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", span)})


@pytest.fixture(scope="module")
def help_texts(tmp_path_factory: pytest.TempPathFactory) -> str:
    words = ("--help", "submit --help-all", "render --help-all", "jobs new --help-all", "search start --help-all")
    return "".join(hpclaunch(typed.split(), tmp_path_factory.mktemp("help")).stdout for typed in words)


@pytest.mark.parametrize("flag", flags())
def test_every_flag_that_the_readme_names_exists(flag: str, help_texts: str) -> None:
    passed_on = "--mail-type"  # an example of an sbatch option
    assert flag in help_texts + passed_on


def test_every_file_that_the_documents_name_exists() -> None:
    for document in [*(ROOT / name for name in DOCUMENTS), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_ci_calls_the_readmes_own_commands_as_a_newcomer() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for name in ("demo", "test"):
        assert f"\nas_newcomer '{marked_command(name)}'\n" in script


if os.environ.get("CI") != "true":  # .ci/run types this command before the tests, and looks at the run that it leaves

    @pytest.mark.timeout(900)
    def test_the_first_command_trains_on_this_machine() -> None:
        try:
            import horovod  # type: ignore[import-not-found, import-untyped]  # noqa: F401
        except ImportError:
            pytest.skip("group horovod: TensorFlow and Horovod are not installed")
        if (ROOT / ".venv").is_symlink():
            pytest.skip("group set-up: .venv is a link, and the set-up would change that of another checkout")
        # A surrounding make (make test) would have the inner one talk of folders that it enters and leaves.
        strays = ("HPCLAUNCH", "MAKE", "MFLAGS")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(strays)}
        command = shlex.split(marked_command("demo"))
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "test_accuracy" in done.stderr
        assert "stand-in images" in done.stdout
        run = Path(done.stdout.strip().splitlines()[-1])
        assert (run / "metrics.jsonl").is_file()
