"""The tutorial's first steps, as a person types them who has only Debian's Python and the wheel; what they print."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import wait_for
from tests.docs.page_commands import Block, blocks_of
from tests.packaging.conftest import ROOT

PYTHON = Path("/usr/bin/python3")
TUTORIAL = ROOT / "docs" / "tutorial.md"
OF_THE_MACHINE = re.compile(r"PIP_|UV_|SSL_|.*_proxy|.*_PROXY|.*_CA_BUNDLE|TMPDIR")
"""Variables with which this machine reaches a package index."""


class Person:
    """Somebody with an empty home, who types into a shell that has only the programs of the system."""

    def __init__(self, home: Path) -> None:
        self.home = home
        kept = {name: value for name, value in os.environ.items() if OF_THE_MACHINE.fullmatch(name)}
        pip = Path.home() / ".config" / "pip" / "pip.conf"
        kept |= {"PIP_CONFIG_FILE": str(pip)} if pip.is_file() else {}
        path = f"{home}/hpclaunch-env/bin:/usr/bin:/bin"
        self.environment = {**kept, "HOME": str(home), "PATH": path, "LANG": "C.UTF-8"}

    def types(self, text: str, code: int = 0) -> str:
        """Type some lines, and return what they print."""
        done = subprocess.run(
            ["bash", "-c", f"exec 2>&1\n{text}"], cwd=self.home, env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == code, text + done.stdout
        return done.stdout


def blocks_of_step(number: int) -> list[Block]:
    """The code blocks of a step."""
    all_blocks, text = blocks_of(TUTORIAL), TUTORIAL.read_text(encoding="utf-8")
    part = text.split(f"\n## {number}. ")[1].split("\n## ")[0]
    return [block for block in all_blocks if f"\n{block.text}```" in part]


@pytest.fixture(scope="module")
def person(distributions: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Person:
    """A person who has done step 1, with the wheel in place of the checkout that it is built from."""
    if subprocess.run([PYTHON, "-c", "import ensurepip"], capture_output=True).returncode != 0:
        pytest.skip("group debian-python: needs /usr/bin/python3 with venv (apt-get install python3-venv)")
    found = Person(tmp_path_factory.mktemp("home"))
    (block,) = blocks_of_step(1)
    assert "'./hpclaunch[plot]'" in block.text and "python3 -m venv" in block.text
    printed = found.types("set -e\n" + block.text.replace("./hpclaunch[", f"{distributions[0]}["))
    assert re.search(r"^Successfully installed .*\bhpclaunch-", printed, re.MULTILINE), printed
    lacking = found.types("! python3 -c 'import torch' && ! python3 -c 'import horovod' && ! type horovodrun")
    assert "No module named 'torch'" in lacking
    return found


def is_printed(shown: str, printed: str) -> bool:
    """Whether a page shows what was printed: ``…`` is any text, a line of it any lines; ranks print in any order."""
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    parts = ["(?:.*\n)*" if line == "…" else re.escape(line).replace("…", ".*") + "\n" for line in lines]
    found = [" ".join(line.split()) for line in printed.splitlines()]
    ranks = sorted(line for line in found if re.match(r"rank \d+ of", line))
    found = [ranks.pop(0) if re.match(r"rank \d+ of", line) else line for line in found]
    return re.fullmatch("".join(parts), "".join(f"{line}\n" for line in found)) is not None


@pytest.mark.timeout(900)
def test_the_second_step_prints_what_the_page_shows(person: Person) -> None:
    blocks, compared = blocks_of_step(2), 0
    for block, following in zip(blocks, [*blocks[1:], blocks[-1]], strict=True):
        if block.kind == "file":
            (person.home / block.detail).write_text(block.text, encoding="utf-8")
        if block.kind == "here":
            assert following.kind == "output", f"the page shows nothing for: {block.text}"
            printed = person.types("set -e\n" + block.text)
            assert is_printed(following.text, printed), f"{following.text}\nbut:\n{printed}"
            compared += 1
    assert compared == 2


def test_what_a_page_shows_is_compared_whole() -> None:
    assert is_printed("run  x-…\nrank 0 of 2\nrank 1 of 2\n", "run\tx-17\nrank 1 of 2\nrank 0 of 2\n")
    assert is_printed("a\n…\nz\n", "a\nb\nc\nz\n")
    for printed in ("a\nz\nrank 1 of 2\n", "a\nb\n", "z\n"):
        assert not is_printed("a\n…\nz\n", printed)


@pytest.mark.timeout(300)
def test_eight_ranks_and_a_rank_that_fails_need_nothing_else(person: Person) -> None:
    (person.home / "number.py").write_text("import os\nprint('number ' + os.environ['RANK'] + '\\n', end='')\n")
    printed = person.types("hpclaunch submit ./number.py --site local --tasks-per-node 8 --wait")
    assert sorted(re.findall(r"^number (\d)$", printed, re.MULTILINE)) == list("01234567")
    (person.home / "fails.py").write_text(
        'import os, time\nif os.environ["RANK"] == "1":\n    os._exit(7)\ntime.sleep(999)'
    )
    printed = person.types("hpclaunch submit ./fails.py --site local --tasks-per-node 2 --wait", code=1)
    assert "FAILED (exit code 7:0)" in printed


@pytest.fixture
def script(person: Person) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A script of two ranks that was started by hand, in a terminal's process group of its own; its run directory."""
    (person.home / "waits.py").write_text(
        'import os, subprocess\nchild = subprocess.Popen(["sleep", "999"])\n'
        'open(os.environ["HPCLAUNCH_RUN_DIR"] + "/began-" + os.environ["RANK"], "w")\nchild.wait()\n'
    )
    run = Path(
        person.types("hpclaunch render ./waits.py --site local --tasks-per-node 2 -o job.sh 2> /dev/null").strip()
    )
    process = subprocess.Popen(["bash", "job.sh"], cwd=person.home, env=person.environment, start_new_session=True)
    yield process, run
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.timeout(300)
def test_control_c_leaves_no_process(script: tuple[subprocess.Popen[bytes], Path]) -> None:
    process, run = script
    wait_for(lambda: len(list(run.glob("began-*"))) == 2, "both ranks run")
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait() == 128 + signal.SIGTERM
    found = subprocess.run(
        f"grep --files-with-matches --no-messages --null-data --line-regexp --fixed-strings "
        f"{shlex.quote(f'HPCLAUNCH_RUN_DIR={run}')} /proc/[0-9]*/environ",
        shell=True,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert found.stdout == ""
