"""``scale`` at a Slurm site of stand-ins: sbatch runs nothing, and leaves what runs of known steps would leave."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Desk, wait_for

FIXED_S, SAMPLE_S, NETWORK_S, OUTSIDE_S = 0.010, 0.001, 0.004, 0.001
SBATCH = """#!{python}
import json, pathlib, re, sys
if "--test-only" in sys.argv:
    sys.exit(0)
spool = pathlib.Path({spool!r})
text = open(sys.argv[-1]).read()
run = pathlib.Path(re.search("export HPCLAUNCH_RUN_DIR=(.+)", text)[1].strip("'"))
spec = json.loads((run / "spec.json").read_text())
typed = dict(word[2:].split("=", 1) for word in spec["command"] if word.startswith("--"))
nodes, tasks = spec["layout"]["nodes"], spec["layout"]["tasks_per_node"]
with (spool / "submitted").open("a") as file:
    file.write(json.dumps({{"run": run.name, "nodes": nodes, "tasks": tasks, **typed}}) + chr(10))
number = len((spool / "submitted").read_text().splitlines())
if (spool / "refuses").exists() and nodes > 1:
    sys.exit("sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified")
ranks, batch = nodes * tasks, int(typed["batch"])
network = {network} * (ranks > 1)
compute, outside = {fixed} + batch * {sample}, {outside}
step = compute + network + outside
rate = ranks * batch / step * (1 + 0.02 * ((number - 1) // 3))  # a later round is faster
line = {{"event": "epoch", "seconds": 1.0, "samples_per_s": rate}}
if not (spool / "no parts").exists():
    # Rank 0 is faster by 2 ms than all others, and waits for them.
    own = [compute - 0.001 if rank == 0 and ranks > 1 else compute for rank in range(ranks)]
    mean = sum(own) / ranks
    parts = {{"compute": mean, "communication": max(0.0, step - outside - mean), "input": 0.0}}
    line |= {{"step_seconds": parts, "step_seconds_by_rank": own}}
lines = [{{"event": "epoch", "seconds": 9.0, "samples_per_s": rate / 9}}] + [line] * (int(typed["epochs"]) - 1)
(run / "metrics.jsonl").write_text("".join(json.dumps(one) + chr(10) for one in lines))
(spool / f"folder-{{100 + number}}").write_text(str(run))
print("Submitted batch job", 100 + number)
"""
SQUEUE = """#!/bin/bash
for word in "$@"; do
  case $word in --jobs=*) ids=${{word#--jobs=}} ;; esac
done
for id in ${{ids//,/ }}; do
  state=$(cat {spool}/state)
  [ ! -e {spool}/state-$id ] || state=$(cat {spool}/state-$id)
  [ -e {spool}/folder-$id ] || continue
  run=$(cat {spool}/folder-$id)
  echo "$id|$state|None|n1|$(date +%s)|$run"
  [ "$state" = COMPLETED ] || continue
  mkdir -p "$run/attempts/$id.0" # what the script leaves after every rank has ended with 0
  echo 2026-01-02T03:04:05Z > "$run/attempts/$id.0/started"
  echo "$id.0 1" > "$run/attempts/$id.0/completed"
done
"""
JOB: dict[str, Any] = {
    "summary": "mine",
    "script": "train.py",
    "parameters": {"epochs": 30, "batch": 64, "train_samples": 0, "accumulation": 1, "tensor_parallel": 1},
    "resources": {"tasks_per_node": 1},
    "training": {
        "samples": 50_000,
        "names": {"batch_size_per_rank": "batch"},
        "figures": {"parameters": 1e6, "flops_per_sample": 2e9, "saved_bytes_per_sample": 4e6},
    },
}


@pytest.fixture
def site(cluster: Desk) -> Desk:
    numbers = {"fixed": FIXED_S, "sample": SAMPLE_S, "network": NETWORK_S, "outside": OUTSIDE_S}
    cluster.program("sbatch", SBATCH.format(python=sys.executable, spool=str(cluster.spool), **numbers))
    cluster.program("squeue", SQUEUE.format(spool=cluster.spool))
    (cluster.spool / "state").write_text("COMPLETED")
    cluster.write("jobs/mine/train.py", "")
    cluster.write("jobs/mine/job.yaml", json.dumps(JOB))
    return cluster


def submitted(desk: Desk) -> list[dict[str, Any]]:
    file = desk.spool / "submitted"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def studies(desk: Desk) -> list[Path]:
    return sorted((desk.project / "runs").glob("scale-*"))


def step_s(ranks: int, batch: int) -> float:
    return FIXED_S + batch * SAMPLE_S + NETWORK_S * (ranks > 1) + OUTSIDE_S


def test_strong_scaling_keeps_the_global_batch_and_compares_with_one_process(site: Desk) -> None:
    done = site.type("scale", "mine", "--nodes", "1,2,4", "--wait", "--json")
    assert done.code == 0, done.err
    asked = [(row["nodes"], row["batch"], row["train-samples"], row["epochs"]) for row in submitted(site)]
    assert asked == [(1, "64", "6400", "4"), (2, "32", "6400", "4"), (4, "16", "6400", "4")]
    rows = done.json["rows"]
    assert [row["ranks"] for row in rows] == [1, 2, 4] and done.json["complete"]
    steps = [step_s(1, 64), step_s(2, 32), step_s(4, 16)]
    assert [row["step_s"] for row in rows] == pytest.approx(steps)
    assert [row["speed_up"] for row in rows] == pytest.approx([1, steps[0] / steps[1], steps[0] / steps[2]])
    assert rows[2]["efficiency"] == pytest.approx(steps[0] / steps[2] / 4)
    split = rows[2]["split"]
    assert split["waiting_s"] == pytest.approx(0.001 / 4) and split["communication_s"] == pytest.approx(NETWORK_S)
    assert sum(split.values()) == pytest.approx(steps[2] - OUTSIDE_S)
    (folder,) = studies(site)
    names = ("proposal.md", "proposal.tex", "results.csv", "results.json", "study.json")
    assert sorted(path.name for path in folder.iterdir() if path.suffix) == list(names)
    lines = list(csv.DictReader((folder / "results.csv").read_text().splitlines()))
    assert [float(line["speed_up"]) for line in lines] == pytest.approx([row["speed_up"] for row in rows])
    assert float(lines[2]["communication_s"]) == pytest.approx(NETWORK_S)


def test_weak_scaling_keeps_the_batch_per_rank(site: Desk) -> None:
    done = site.type(
        "scale", "mine", "--nodes", "2,4", "--weak", "--set", "batch=32", "--steps", "10", "--wait", "--json"
    )
    assert done.code == 0, done.err
    assert [(row["nodes"], row["batch"], row["train-samples"]) for row in submitted(site)] == [
        (1, "32", "320"),
        (2, "32", "640"),
        (4, "32", "1280"),
    ]
    ratio = step_s(1, 32) / step_s(4, 32)
    assert done.json["rows"][2]["speed_up"] == pytest.approx(4 * ratio)
    assert done.json["warnings"] == []


def test_the_same_command_continues_and_submits_nothing_twice(site: Desk) -> None:
    (site.spool / "state").write_text("RUNNING")
    first = site.type("scale", "mine", "--nodes", "1,2")
    assert first.code == 0 and "2 runs of the study have not ended" in first.err, first.err
    assert len(submitted(site)) == 2 and len(studies(site)) == 1
    again = site.type("scale", "mine", "--nodes", "1,2", "--json")
    assert again.code == 0 and again.json["open"] == 2 and len(submitted(site)) == 2
    (site.spool / "state").write_text("COMPLETED")
    more = site.type("scale", "mine", "--nodes", "1,2,4", "--repeat", "2", "--wait", "--json")
    assert more.code == 0, more.err
    # The other node count belongs to the same study; of each layout only what it lacks is submitted.
    assert [row["nodes"] for row in submitted(site)] == [1, 2, 4, 1, 2, 4] and len(studies(site)) == 1
    assert [len(row["rates"]) for row in more.json["rows"]] == [2, 2, 2]
    row = more.json["rows"][1]
    assert row["deviation"] > 0 and row["speed_up_low"] < row["speed_up"] < row["speed_up_high"]
    shown = site.type("scale", str(studies(site)[0]), "--json")
    assert shown.code == 0 and shown.json["rows"] == more.json["rows"] and len(submitted(site)) == 6
    by_name = site.type("scale", studies(site)[0].name)
    assert by_name.code == 0 and re.search(r"^4\s+4\s+16\s", by_name.out, re.MULTILINE), by_name.out


def test_the_view_of_the_gpus_is_that_of_a_run(site: Desk) -> None:
    refused = site.type("scale", "mine", "--nodes", "1,2", "--gpu-view", "two")
    assert refused.code == 1 and "--gpu-view: no view of the GPUs is called 'two'; allowed: all, one" in refused.err


def test_two_commands_at_once_share_the_runs(site: Desk) -> None:
    words = ("scale", "mine", "--nodes", "1,2,4", "--wait", "--json")
    both = [site.start(*words), site.start(*words)]
    for process in both:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    assert sorted(row["nodes"] for row in submitted(site)) == [1, 2, 4]


def test_an_interrupted_command_is_continued(site: Desk) -> None:
    (site.spool / "state").write_text("RUNNING")
    waiting = site.start("scale", "mine", "--nodes", "1,2", "--one-by-one")
    histories = lambda: (path.read_text() for path in site.project.glob("runs/mine-*/states.jsonl"))  # noqa: E731
    wait_for(lambda: "RUNNING" in "".join(histories()), "the first run is running")
    waiting.send_signal(signal.SIGINT)
    _, err = waiting.communicate(timeout=120)
    assert waiting.returncode == 130 and "the same command continues" in err, err
    assert len(submitted(site)) == 1
    (site.spool / "state").write_text("COMPLETED")
    done = site.type("scale", "mine", "--nodes", "1,2", "--one-by-one", "--json")
    assert done.code == 0 and done.json["complete"] and len(submitted(site)) == 2, done.err


def test_a_run_that_was_never_queued_is_replaced_and_one_that_failed_when_asked_for(site: Desk) -> None:
    (site.spool / "refuses").touch()
    refused = site.type("scale", "mine", "--nodes", "1,2")
    assert refused.code == 1 and "Invalid account" in refused.err and len(submitted(site)) == 2
    (site.spool / "refuses").unlink()
    (site.spool / "state-103").write_text("FAILED")
    done = site.type("scale", "mine", "--nodes", "1,2", "--wait", "--json")
    assert [row["nodes"] for row in submitted(site)] == [1, 2, 2]
    assert done.code == 1 and "is FAILED" in done.json["problems"][0] and not done.json["complete"]
    assert "--resubmit" in done.err
    unchanged = site.type("scale", "mine", "--nodes", "1,2", "--wait", "--json")
    assert unchanged.code == 1 and len(submitted(site)) == 3
    again = site.type("scale", "mine", "--nodes", "1,2", "--wait", "--resubmit", "--json")
    assert again.code == 0 and again.json["complete"] and len(submitted(site)) == 4, again.err


def test_a_tiny_batch_is_slower_than_one_process_and_the_cause_is_named(site: Desk) -> None:
    done = site.type("scale", "mine", "--nodes", "1,4", "--global-batch", "4", "--wait", "--json")
    assert done.code == 0, done.err
    (warning,) = done.json["warnings"]
    assert "4 ranks on 4 nodes x 1 sample are slower than one process with the same global batch of 4" in warning
    # Of a step of 16 ms, 10 ms do not depend on the batch: ideal is a quarter of the 15 ms of one process.
    assert "what costs most is computing that more ranks do not shorten: 7." in warning
    assert "then communication: 4 ms" in warning and f"warning: {warning}" in done.err
    causes = done.json["rows"][1]["causes"]
    assert [cause["name"] for cause in causes][:2] == ["computing that more ranks do not shorten", "communication"]


def test_without_the_parts_of_a_step_the_cause_is_not_known(site: Desk) -> None:
    (site.spool / "no parts").touch()
    done = site.type("scale", "mine", "--nodes", "1,4", "--global-batch", "4", "--wait")
    assert done.code == 0 and "its runs do not report the parts of their steps" in done.err, done.err
    assert "communication" not in done.out


def test_predictions_were_made_before_and_later_plans_use_the_measurements(site: Desk) -> None:
    unmeasured = site.type("scale", "mine", "--nodes", "1,2", "--wait", "--json").json
    assert [row["predicted"] for row in unmeasured["rows"]] == [None, None]
    plan = site.type("plan", "mine", "--nodes", "4", "--json").json
    assert plan["measured"].startswith("2 runs on 1 and 2 nodes, ")
    done = site.type("scale", "mine", "--nodes", "1,4", "--global-batch", "128", "--wait", "--json")
    _, row = done.json["rows"]
    assert row["predicted_low"] < row["predicted"] < row["predicted_high"]
    assert row["prediction_error"] == pytest.approx(row["predicted"] / row["samples_per_s"] - 1)
    again = site.type("scale", "mine", "--nodes", "1,4", "--global-batch", "128", "--json").json
    assert again["rows"][1]["predicted"] == row["predicted"]  # not that of a plan that knows the study
    stored = json.loads(Path(done.json["calibration"]).read_text())
    shapes = [(point["nodes"], point["per_rank"]) for point in stored["points"]]
    assert shapes == [(1, 128), (4, 32), (1, 64), (2, 32)]


def test_the_proposal_has_measured_figures_alone(site: Desk) -> None:
    site.type("scale", "mine", "--nodes", "1,2", "--repeat", "2", "--wait")
    (folder,) = studies(site)
    text = (folder / "proposal.md").read_text()
    assert text.startswith(
        "## Strong scaling of mine at slurmsite\n\nThe training mine was measured on 1 and 2 nodes of"
    )
    assert "The global batch of 64 samples was the same in all layouts. Every layout ran 2 times" in text
    assert "± is the standard deviation over the runs." in text and "predicted" not in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 4 and table[0].startswith(
        "| nodes | ranks | batch per rank | samples/s | speed-up | efficiency |"
    )
    latex = (folder / "proposal.tex").read_text()
    assert r"\begin{tabular}" in latex and r"$\pm$" in latex and r"\%" in latex


def test_the_picture_shows_what_was_measured(site: Desk) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        pytest.skip("group plot: needs matplotlib (the extra plot)")
    done = site.type("scale", "mine", "--nodes", "1,2", "--wait", "--plot", "study.svg")
    assert done.code == 0 and "the study is drawn in study.svg" in done.err, done.err
    text = (site.project / "study.svg").read_text(encoding="utf-8")
    for words in (
        "speed-up",
        "ideal",
        "efficiency",
        "parts of a step",
        "communication",
        "waiting for the slowest rank",
    ):
        assert f"<!-- {words} -->" in text, words
    wrong = site.type("scale", "mine", "--nodes", "1,4", "--plot", "study.txt")
    assert wrong.code == 2 and "has no known format" in wrong.err and len(submitted(site)) == 2


def test_a_dry_run_writes_nothing(site: Desk) -> None:
    site.type("plan", "mine")  # keeps the model's figures
    before = site.listing()
    done = site.type("scale", "mine", "--nodes", "1,2,4", "--repeat", "3", "--dry-run", "--json")
    assert done.code == 0 and site.listing() == before and not submitted(site)
    assert [run["layout"]["nodes"] for run in done.json["runs"]] == [1, 2, 4] and done.json["repeats"] == 3
    shown = site.type("scale", "mine", "--nodes", "1,2", "--dry-run")
    assert shown.code == 0 and "strong scaling of mine at slurmsite, global batch 64, 1 repeat" in shown.err
    assert "one process, 64 samples per rank" in shown.err and "2 nodes x 1 rank, 32 samples per rank" in shown.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--nodes", "1,2,2"), "--nodes: the node count 2 is named twice"),
        (("--nodes", "1,0"), "--nodes: '1,0' is not a list of node counts"),
        (("--nodes", "1,two"), "--nodes: '1,two' is not a list of node counts"),
        (("--nodes", "1,7"), "7 nodes requested"),
        (("--nodes", "1,8", "--global-batch", "12"), "8 nodes requested"),
        (("--nodes", "1,8", "--global-batch", "12"), "12 samples does not divide evenly among 8 ranks"),
        (("--nodes", "1,3"), "--global-batch: a global batch of 64 samples does not divide evenly among 3 ranks"),
        (("--nodes", "1,2", "--global-batch", "90000"), "larger than the data set of 50000 samples"),
        (("--nodes", "1,2", "--weak", "--global-batch", "8"), "--global-batch: has no effect with --weak"),
        (("--nodes", "1,2", "--weak", "--strong"), "--strong and --weak: cannot be used together"),
        (("--nodes", "1,2", "--set", "tensor_parallel=2"), "cannot run as one process"),
        (("--nodes", "1,2", "--set", "colour=red"), "colour"),
        ((), "'mine' is not the folder of a study, so --nodes is missing"),
    ],
)
def test_a_bad_request_is_one_error_before_anything_is_queued_or_written(
    words: tuple[str, ...], message: str, site: Desk
) -> None:
    done = site.type("scale", "mine", *words)
    assert done.code in (1, 2) and message in done.err, done.err
    assert not submitted(site) and not studies(site)


def test_a_refusal_of_the_machine_leaves_no_study(site: Desk) -> None:
    done = site.type("scale", "cifar", "--nodes", "1,2", "--data-dir", str(site.root / "nowhere"))
    assert done.code == 1 and "nowhere" in done.err, done.err
    assert not submitted(site) and not studies(site)


def test_a_run_whose_record_cannot_be_read_is_not_submitted_again(site: Desk) -> None:
    site.type("scale", "mine", "--nodes", "1,2", "--wait")
    record = site.project / "runs" / submitted(site)[1]["run"] / "run.json"
    record.write_text("{")
    done = site.type("scale", "mine", "--nodes", "1,2", "--json")
    assert len(submitted(site)) == 2 and not done.json["complete"], done.err
    assert done.code == 1 and "its run directory is missing or cannot be read" in done.json["problems"][0]


def test_a_newer_study_is_not_written_over(site: Desk) -> None:
    site.type("scale", "mine", "--nodes", "1,2", "--wait")
    (folder,) = studies(site)
    (folder / "study.json").write_text('{"format": 99}')
    done = site.type("scale", "mine", "--nodes", "1,2")
    assert done.code == 1 and "a newer hpclaunch wrote this study" in done.err
    assert (folder / "study.json").read_text() == '{"format": 99}' and len(submitted(site)) == 2


def test_a_job_without_training_and_a_damaged_study_are_refused(site: Desk) -> None:
    site.write("jobs/plain/train.py", "")
    site.write("jobs/plain/job.yaml", json.dumps({"summary": "plain", "script": "train.py"}))
    done = site.type("scale", "plain", "--nodes", "1,2")
    assert done.code == 1 and "has no 'training' section" in done.err
    site.type("scale", "mine", "--nodes", "1,2", "--wait")
    (folder,) = studies(site)
    for text in ("{", '{"format": 1}', '{"format": 1, "kind": "scaling", "request": {}, "points": [3]}'):
        (folder / "study.json").write_text(text)
        done = site.type("scale", str(folder))
        assert done.code == 1 and "the record of the study is damaged" in done.err, done.err
    (folder / "study.json").write_text('{"format": 99}')
    assert "a newer hpclaunch wrote this study" in site.type("scale", str(folder)).err
    listed = site.type("runs", "list")
    assert listed.code == 0 and "scale-" not in listed.out + listed.err  # the folder of a study is no run
