"""Every command of the tutorial's steps 3 to 6 is typed, and what it prints is compared, but for times and IDs."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import this_checkout
from tests.docs.page_commands import ROOT, blocks_of, for_site, give_site, is_rendered, prepare
from tests.docs.typed import fault_of, unknown_in
from tests.frameworks.environments import torch_environment

PAGE = ROOT / "docs" / "tutorial.md"
TORCH = """import torch

from hpclaunch.training import on_pytorch as training


def loss_of(model, inputs, targets):
    return torch.nn.functional.mse_loss(model(inputs)[:, 0], targets)


settings = training.settings(epochs=4, batch_size_per_rank=4, learning_rate=0.01)
with training.start(settings) as run:
    data = training.arrays(run, inputs="features", targets="price")
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), settings.learning_rate)
    loop = training.loop(run, model, optimizer, data, validate=loss_of)
    for inputs, targets in loop:
        loop.step(loss_of(loop.model, inputs, targets))
    training.evaluate(run, model, data)
"""
MARKS = {
    "<run>": r"[a-z_]+-\d{8}-\d{6}-[0-9a-f]{8}",
    "<n>": r"-?[0-9.]+(?:e-?[0-9]+)?",
    "<any>": r"[^\n]*",
    "<lines>\n": r"(?:[^\n]*\n)*?",
}
"""What differs from time to time: the name of a run, a number, a part of a line, some lines."""

CHOICES = """\
houses: 1 node x 2 tasks = 2 ranks
  at local, node type workstation
  launcher <any>, data houses.npz; -v shows every choice with its origin
  code: <n> files, <n> kB
submitted <run> as job <n> at local; run directory <any>/runs/<run>
<lines>
<any>rank 0 on <any>: 180 samples
<lines>
<any>epoch 4<any> <n> s <any>
<lines>
<run>: COMPLETED
<lines>
"""
SEARCH = """\
<lines>
  launcher <any>option --learning-rate=…<any>
<lines>
  search          grid over learning_rate: 2 trials, minimize val_loss
  trials at once  1: 1 per node, <n> CPU<any> each
the search <run> has begun; Ctrl-C leaves it running
<lines>
<run>: COMPLETED, 2 of 2 trials finished; best <n> (trial <n>)
"""
TRIALS = """\
trial\tstate\tval_loss\tlearning_rate\tseconds\tattempts
<n>\tCOMPLETED\t<n>\t<n>\t<n>\t1
<n>\tCOMPLETED\t<n>\t<n>\t<n>\t1
"""
RESULTS = """\
run\tstate\tsynthetic\tepochs\tseconds\ttest_mae\ttest_mse\ttest_samples
<run>\tCOMPLETED\tFalse\t4\t<n>\t<n>\t<n>\t40
"""
PLAN = """\
nodes  64 nodes x 4 GPUs = 256 ranks <any>guess
batch  B = 256 = 256 x 1 samples <any>guess
rate   <n>, sgd, warm-up <n> of <n> epochs <any>guess
time   <n> min <any>guess
cost   <n> node-hours <any>guess
<lines>
"""


def expected(command: str) -> tuple[str, str]:
    """Return what a command of the page prints on stdout and stderr. Fails for a command that it does not know."""
    rows = (
        ("hpclaunch submit", "<any>/runs/<run>\n", CHOICES),
        ("hpclaunch results", RESULTS, ""),
        ("hpclaunch plan", PLAN, "<lines>\n"),
        ("hpclaunch search results", TRIALS, ""),
        ("hpclaunch search ./", TRIALS, SEARCH),
        ("hpclaunch report", "rates.html\n", "<lines>\n"),  # a remark, if there is one
        ("python make_houses.py", "", ""),
    )
    return next((out, err) for begin, out, err in rows if command.startswith(begin))


def is_like(text: str, pattern: str) -> bool:
    """Whether a text is as a pattern says, in which MARKS stand for what differs."""
    pieces = re.split("(" + "|".join(map(re.escape, MARKS)) + ")", pattern)
    return re.fullmatch("".join(MARKS.get(piece, re.escape(piece)) for piece in pieces), text) is not None


def commands() -> list[tuple[str, str, str]]:
    """Every command of steps 3 to 6: for which machine, its detail, and the command on one line."""
    text = PAGE.read_text(encoding="utf-8")
    begin, end = text.index("## 3. "), text.index("## Where to go next")
    blocks = [block for block in blocks_of(PAGE) if block.text in text[begin:end]]
    lines = [(block, line) for block in blocks for line in re.sub(r"\\\n\s*", " ", block.text).splitlines()]
    return [(block.kind, block.detail, line) for block, line in lines if block.kind in ("here", "on")]


def type_here(folder: Path, program: str, python: str, *path: Path) -> None:
    """Type the commands for this machine, and compare what each prints. ``python``: for the ranks (empty: as found)."""
    (folder / "bin").mkdir()
    hpclaunch = folder / "bin" / "hpclaunch"
    hpclaunch.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m hpclaunch "$@"\n')
    hpclaunch.chmod(0o755)
    found = os.pathsep.join(map(str, [folder / "bin", *path, "/usr/bin", "/bin"]))
    environment = {"HOME": str(folder), "PATH": found, "LANG": "C.UTF-8", **this_checkout()}
    for kind, _, line in commands():
        if kind != "here":
            continue
        out, err = expected(line)
        command = line.replace("./houses.py", f"./{program}").replace("--site local", f"--site local {python}".rstrip())
        words = ["bash", "-euo", "pipefail", "-c", command]
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
        said = f"{command}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == 0, said
        assert is_like(done.stdout, out), said
        assert is_like(done.stderr, err.replace("houses.py", program).replace("houses:", f"{program[:-3]}:")), said


def test_steps_3_to_6_print_what_they_should(tmp_path: Path) -> None:
    if importlib.util.find_spec("horovod") is None:
        pytest.skip("group horovod: TensorFlow and Horovod are not installed")
    prepare(tmp_path, blocks_of(PAGE))
    type_here(tmp_path, "houses.py", "", Path(sys.executable).parent)
    assert "learning_rate" in (tmp_path / "rates.html").read_text(encoding="utf-8")


def test_steps_3_to_6_work_with_pytorch_alone(tmp_path: Path) -> None:
    python = torch_environment() / "bin" / "python"
    prepare(tmp_path, blocks_of(PAGE))
    (tmp_path / "houses_torch.py").write_text(TORCH, encoding="utf-8")
    type_here(tmp_path, "houses_torch.py", f"--python {python}", python.parent)


def test_what_the_steps_type_on_a_cluster_is_taken_there(tmp_path: Path) -> None:
    prepare(tmp_path, blocks_of(PAGE))
    (tmp_path / "houses.npz").write_bytes(b"")
    give_site(tmp_path, "perlmutter")
    typed = [(site, shlex.split(line)[1:]) for kind, site, line in commands() if kind == "on"]
    faults = [
        fault_of(for_site(words, site, tmp_path), tmp_path, SCRATCH=str(tmp_path)) if is_rendered(words) else ""
        for site, words in typed
    ]
    assert [fault for fault in [*faults, *(unknown_in(words) for _, words in typed)] if fault] == []
    assert len(typed) == 5
