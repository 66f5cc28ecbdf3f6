"""The software of a program at every site in production, as the printed words name it, or the one line that helps."""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpclaunch.config.catalog import SITE
from tests.builders import BUNDLED, bundled_site
from tests.cli.conftest import Desk, Done

_SITES = [bundled_site(found.name) for found in BUNDLED.names(SITE)]
PRODUCTION = [site.name for site in _SITES if site.status == "production" and site.scheduler != "local"]
SCRIPTS = {
    "./torch_script.py": "import torch\n",
    "./jax_script.py": "import jax\n",
    "./tf_script.py": "import tensorflow\n",
}
FRAMEWORKS = {
    "cifar": "tensorflow",
    "ddp": "pytorch",
    "./torch_script.py": "pytorch",
    "./jax_script.py": "jax",
    "./tf_script.py": "tensorflow",
}


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder that nodes could share: pytest's own is below /tmp, from which no site would start a run."""
    with tempfile.TemporaryDirectory(prefix="hpclaunch-sites-", dir="/var/tmp") as folder:
        yield Path(folder)


def printed(desk: Desk, program: str, site: str) -> Done:
    where = ("--site", site, "--account", "m1", "--accept-unverified")
    return desk.type("submit", program, "--nodes", "4", "--dry-run", "-v", *where)


def lines_with(text: str, done: Done) -> list[str]:
    return [line for line in done.err.splitlines() if text in line]


@pytest.mark.parametrize("site", PRODUCTION)
def test_a_program_is_told_its_software_with_source_and_date_or_the_one_way_on(desk: Desk, site: str) -> None:
    for name, text in SCRIPTS.items():
        desk.write(name, text)
    have = {}
    for program, framework in FRAMEWORKS.items():
        done = printed(desk, program, site)
        software, ways = lines_with("  software   ", done), lines_with("hpclaunch environment make", done)
        have[program] = bool(software)
        assert len(software) + len(ways) == 1, (program, done.err)
        if software:
            # A user's script may have no date, which is said.
            assert re.search(rf" \(site {site}: \S.*, (20\d\d(-\d\d)*|undated)\)$", software[0]), software
            continue
        if done.code == 0:
            assert done.out.splitlines()[-1] == f"# {ways[0].removeprefix('warning: ')}"
        else:
            assert "ibrun cannot start ranks of jax" in done.err, done.err
        check_command(desk, ways[0], framework, site)
        assert program == "cifar" or "submit ddp" not in ways[0]
        if program == "cifar":
            cifar = ways[0]
    if not have["cifar"]:
        assert ("hpclaunch submit ddp" in cifar) == have["ddp"], cifar


def check_command(desk: Desk, line: str, framework: str, site: str) -> None:
    """The named command is accepted as it stands, but for the address or the image that only a person knows."""
    found = re.search(r"hpclaunch (environment make \S+ .*?), then --environment (\S+);", line)
    assert found, line
    text = re.sub(
        r"URL \(PyTorch's page Start Locally has that for [A-Za-z0-9.]+\)", "https://wheels.example/", found[1]
    )
    words = shlex.split(text.replace(" IMAGE", " docker://example/image"))
    assert words[2] == found[2]
    assert words[3:7] == ["--framework", framework, "--site", site]
    made = desk.type(*words, "--dry-run")
    assert (made.code, made.out.startswith("#!/bin/bash")) == (0, True), (words, made.err)


@pytest.mark.parametrize("site", PRODUCTION)
def test_a_program_without_a_framework_loads_none(desk: Desk, site: str) -> None:
    desk.write("hello.py", "print('hello')\n")
    done = printed(desk, "./hello.py", site)
    assert done.code == 0, done.err
    assert lines_with("  software   ", done) + lines_with("hpclaunch environment make", done) == []
    file = bundled_site(site)
    node = next(file.node_types[name] for name in file.node_types if f" ({name})" in done.out.splitlines()[1])
    of_frameworks = {module for one in (node.frameworks or file.frameworks).values() for module in one.modules}
    general = set((node.environment or file.environment).modules)
    loaded = set(re.findall(r"^module load '?([^'\s]+)'?$", done.out, re.MULTILINE))
    assert loaded == general
    assert not loaded & (of_frameworks - general)
