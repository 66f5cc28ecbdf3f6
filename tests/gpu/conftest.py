"""A desk on a machine with a GPU that PyTorch or JAX sees; elsewhere the group gpu is skipped (make gpu)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

LOOK = """
import json
found = {"framework": "", "gpus": 0, "models": [], "memory": []}
try:
    import torch
    if torch.cuda.is_available():
        number = torch.cuda.device_count()
        all_of_them = [torch.cuda.get_device_properties(place) for place in range(number)]
        found = {"framework": "torch", "version": torch.__version__, "gpus": number}
        found |= {"models": [one.name for one in all_of_them], "memory": [one.total_memory for one in all_of_them]}
except ImportError:
    pass
if not found["framework"]:
    try:
        import jax
        devices = [one for one in jax.devices() if one.platform != "cpu"]
        if devices:
            found = {"framework": "jax", "version": jax.__version__, "gpus": len(devices), "memory": []}
            found |= {"models": [one.device_kind for one in devices]}
    except (ImportError, RuntimeError):
        pass
print(json.dumps(found))
"""
MINUTES = 5


@dataclass
class Machine:
    """A machine with GPUs: what its framework sees, a project to type in, and the figures of the session."""

    seen: dict[str, Any]
    project: Path
    environment: dict[str, str]
    figures: dict[str, Any] = field(default_factory=dict)

    def type(self, *words: str, code: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
        """Type a command of hpclaunch; it must end with this exit code."""
        done = subprocess.run(
            [sys.executable, "-m", "hpclaunch", *words],
            cwd=self.project,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            timeout=60 * MINUTES,
        )
        assert done.returncode == code, f"{words}\n{done.stdout}{done.stderr}"
        return done

    def json(self, *words: str, **variables: str) -> Any:
        """What a command writes with --json."""
        return json.loads(self.type(*words, "--json", **variables).stdout)

    def log(self, run: str) -> str:
        """The log of a run, or of its first rank."""
        return "".join(path.read_text(errors="replace") for path in sorted(Path(run).glob("logs/*.out")))


def look(python: str) -> dict[str, Any]:
    done = subprocess.run([python, "-c", LOOK], capture_output=True, text=True, timeout=120)
    lines = done.stdout.splitlines()
    found: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    return found


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    seen = look(sys.executable)
    if not seen.get("framework"):
        pytest.skip("group gpu: needs a GPU that PyTorch or JAX of this Python sees (make gpu PYTHON=...)")
    home = tmp_path_factory.mktemp("home")
    (home / "project").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HPCLAUNCH_", "PYTEST_", "COV_"))}
    environment = {**kept, "HOME": str(home), "XDG_CONFIG_HOME": str(home), "XDG_CACHE_HOME": str(home)}
    environment |= {"XDG_STATE_HOME": str(home), "XDG_DATA_HOME": str(home), "HPCLAUNCH_SITE": "local"}
    environment.pop("PYTHONPATH", None)
    found = Machine(seen=seen, project=home / "project", environment=environment)
    yield found
    if found.figures:
        text = json.dumps({"machine": seen, **found.figures}, indent=2)
        print(f"\n{text}")
        if "HPCLAUNCH_GPU_FIGURES" in os.environ:
            Path(os.environ["HPCLAUNCH_GPU_FIGURES"]).write_text(text + "\n")
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def of_torch(machine: Machine) -> Machine:
    """The machine, if it is PyTorch that sees its GPUs."""
    if machine.seen["framework"] != "torch":
        pytest.skip("group gpu: needs PyTorch; this Python has JAX")
    return machine
