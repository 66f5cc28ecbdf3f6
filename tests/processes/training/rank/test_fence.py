"""The ranks of a superseded start: which of them sees it, how they end, and that no writer changes anything more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tensorflow", reason="group horovod: tensorflow is not installed (the extra `train` brings it)")

WRITERS = Path(__file__).with_name("fenced_writers.py")
SENTENCE = "start 3 of this run ends here and writes nothing more: a later start has taken the run over (claims/4)\n"


@pytest.fixture(scope="module")
def writers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each writer of the library did, by its name."""
    done = subprocess.run(
        [sys.executable, str(WRITERS), str(tmp_path_factory.mktemp("runs"))],
        env={"PYTHONPATH": ":".join(sys.path), "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return {one["name"]: one for one in map(json.loads, done.stdout.splitlines())}


def names_of_writers() -> list[str]:
    text = WRITERS.read_text().split("WRITERS = {")[1].split("}")[0]
    return [line.strip(" ,") for line in text.splitlines() if line.startswith("        ")]


@pytest.mark.parametrize("name", names_of_writers())
def test_no_writer_changes_anything_after_the_claim_of_a_later_start(name: str, writers: dict[str, Any]) -> None:
    one = writers[name]
    assert one["wrote"], one  # before it the same writer works
    assert (one["code"], one["recorded"]) == (75, "75\n"), one
    assert one["said"].endswith(SENTENCE) and "Traceback" not in one["said"]
    assert one["changed"] == []
    assert [path for path in one["added"] if not (one["adds"] and path.startswith(one["adds"]))] == []


ENDINGS = [
    ("pass", 0, ""),
    ("1 / 0", 75, SENTENCE),
    ("raise failure.TrainingError('a file is gone')", 75, SENTENCE),
    ("raise failure.AgreedError('a file is gone', speaks=True)", 75, SENTENCE),
    ("raise failure.Superseded(speaks=True)", 75, SENTENCE),
    ("raise failure.Superseded(speaks=False)", 75, ""),
    ("raise RuntimeError('Horovod has been shut down')", 75, SENTENCE),  # another rank has ended first
    ("failure.leave_as_first(1, 'a rank hangs')", 75, SENTENCE),
    ("sys.exit(7)", 75, SENTENCE),
    ("failure.leave_if_superseded()", 75, SENTENCE),
]


@pytest.mark.parametrize(("body", "code", "said"), ENDINGS)
def test_whatever_ends_a_rank_of_a_superseded_start_it_ends_with_75(
    tmp_path: Path, body: str, code: int, said: str
) -> None:
    done, recorded = ended(tmp_path, body, claims=(1, 2, 3, 4))
    assert (done.returncode, recorded) == (code, f"{code}\n" if code else ""), done.stderr
    assert done.stderr == said


def test_only_the_first_rank_says_it(tmp_path: Path) -> None:
    (tmp_path / "code").write_text("75\n")
    done, recorded = ended(tmp_path, "failure.leave_if_superseded()", claims=(3, 4))
    assert (done.returncode, recorded, done.stderr) == (75, "75\n", "")


@pytest.mark.parametrize("body", ["1 / 0", "failure.leave_if_superseded(); 1 / 0"])
def test_a_start_that_was_not_superseded_ends_as_ever(tmp_path: Path, body: str) -> None:
    done, recorded = ended(tmp_path, body, claims=(1, 2, 3))
    assert (done.returncode, recorded) == (1, "1\n") and "ZeroDivisionError" in done.stderr


def ended(tmp_path: Path, body: str, claims: tuple[int, ...]) -> tuple[subprocess.CompletedProcess[str], str]:
    """Run `body` on a rank of start 3: how it ended, and the exit code that it recorded."""
    (tmp_path / "claims").mkdir()
    for number in claims:
        (tmp_path / "claims" / str(number)).touch()
    script = f"import sys\nfrom hpclaunch.training.rank import failure\nwith failure.reported():\n    {body}\n"
    environment = {"HPCLAUNCH_EXIT_FILE": str(tmp_path / "code"), "PYTHONPATH": ":".join(sys.path)}
    environment |= {"HPCLAUNCH_RUN_DIR": str(tmp_path), "HPCLAUNCH_START": "3"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=60)
    return done, (tmp_path / "code").read_text() if (tmp_path / "code").exists() else ""
