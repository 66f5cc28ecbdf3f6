"""``plan`` for a job that names its model and stores no figures: a look in the job's environment, kept by its code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import KEPT, Desk

FOUND = {
    "parameters": 1_000_000,
    "fixed_parameters": 0,
    "flops_per_sample": 2.0e9,
    "flops_at_least": False,
    "saved_bytes_per_sample": 4.0e6,
    "saved_at_most": True,
    "largest_layer": 500_000,
    "operations": 400,
    "layers": [["one", "Dense", 500_000, 64], ["two", "Dense", 500_000, 64]],
    "tensorflow": "2.15.1",
}
AT = ("--site", "perlmutter")


@pytest.fixture
def job(desk: Desk) -> Path:
    """A job whose Python is a stand-in: it remembers how it was called, and answers as told."""
    python = desk.write(
        "stand-in",
        f"""#!/bin/bash
        printf '%s\\n' "$PWD $*" >> {desk.spool}/calls
        [ -e model.py ] && [ -e hpclaunch/training.zip ] || exit 9
        [ ! -e {desk.spool}/words ] || {{ cat {desk.spool}/words >&2; exit 1; }}
        cat {desk.spool}/found > "${{@: -1}}"
        """.replace("\n        ", "\n"),
        mode=0o755,
    )
    (desk.spool / "found").write_text(json.dumps(FOUND))
    desk.write("jobs/mine/train.py", "")
    desk.write("jobs/mine/model.py", "")
    content = {
        "summary": "mine",
        "script": "train.py",
        "parameters": {"epochs": 3, "batch_size_per_rank": 64},
        "training": {"samples": 50_000, "model": "model:make"},
        "environment": {"python": str(python), "setup": ["export SET_UP=yes"]},
    }
    (desk.project / "site_configs").mkdir()
    desk.write("jobs/mine/job.yaml", json.dumps(content))
    desk.type("trust")
    return desk.project / "jobs/mine"


def calls(desk: Desk) -> list[str]:
    file = desk.spool / "calls"
    return file.read_text().splitlines() if file.exists() else []


def kept_by(desk: Desk) -> list[Path]:
    """What is in the cache folder besides what any command keeps there."""
    return [path for path in (desk.home / ".cache/hpclaunch").iterdir() if path.name not in KEPT]


def test_the_model_is_looked_at_once_and_the_figures_are_used(desk: Desk, job: Path) -> None:
    here = ("--site", "local")
    done = desk.type("plan", "mine", *here, "--json")
    assert "measuring the model model:make once" in done.err
    assert done.json["known"] is True
    assert any("an upper bound, the sum of all layers' outputs" in line for line in done.json["assumed"])
    (call,) = calls(desk)
    assert "-m hpclaunch.training.model_probe model:make " in call
    assert call.startswith(f"{desk.home}/.cache/hpclaunch/look-")
    (kept,) = kept_by(desk)
    assert kept.name == "models"
    again = desk.type("plan", "mine", *here, "--json")
    assert (again.json, "looking" in again.err, len(calls(desk))) == (done.json, False, 1)
    (job / "model.py").write_text("# another one\n")
    desk.type("plan", "mine", *here)
    assert len(calls(desk)) == 2


def test_submit_uses_what_was_found_and_never_looks_itself(desk: Desk, job: Path) -> None:
    submit = ("submit", "mine", *AT, "--account", "m1", "--dry-run", "-v")
    before = desk.type(*submit, SCRATCH="/scratch")
    assert (before.code, "planner" in before.err, calls(desk)) == (0, False, [])
    desk.type("plan", "mine", "--site", "local")
    after = desk.type(*submit, SCRATCH="/scratch")
    assert "  planner: " in after.err and "(planner)" in after.err
    assert len(calls(desk)) == 1


def test_a_look_that_fails_leaves_the_model_unknown_and_says_why(desk: Desk, job: Path) -> None:
    (desk.spool / "words").write_text("a line\nModuleNotFoundError: No module named 'tensorflow'\n")
    done = desk.type("plan", "mine", "--site", "local")
    assert done.code == 0
    flat = " ".join(done.out.split())
    assert "mine at local (workstation): 1 node: the figures of its model are not known" in flat
    assert "as at local: ModuleNotFoundError: No module named 'tensorflow'" in flat
    assert kept_by(desk) == []
    desk.type("plan", "mine", "--site", "local")
    assert len(calls(desk)) == 2  # a failure is not kept


@pytest.mark.parametrize("text", ["", "no json", "[]", '{"parameters": 0}'])
def test_an_answer_that_cannot_be_used_is_no_answer(desk: Desk, job: Path, text: str) -> None:
    (desk.spool / "found").write_text(text)
    done = desk.type("plan", "mine", "--site", "local", "--json")
    assert done.code == 0 and done.json["known"] is False


def test_a_damaged_file_in_the_cache_is_looked_for_anew(desk: Desk, job: Path) -> None:
    desk.type("plan", "mine", "--site", "local")
    (kept,) = (desk.home / ".cache/hpclaunch/models").iterdir()
    kept.write_text('{"parameters": ')
    assert desk.type("plan", "mine", "--site", "local", "--json").json["known"] is True
    assert len(calls(desk)) == 2


def test_a_set_up_that_fails_is_named(desk: Desk, job: Path) -> None:
    content = json.loads((job / "job.yaml").read_text())
    content["environment"]["setup"] = ["false"]
    (job / "job.yaml").write_text(json.dumps(content))
    done = desk.type("plan", "mine", "--site", "local")
    assert "as at local: false: failed" in " ".join(done.out.split())
    assert calls(desk) == []
