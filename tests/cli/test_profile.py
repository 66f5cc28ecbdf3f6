"""``profile`` at a Slurm site of stand-ins: sbatch runs nothing, and leaves what a run of a known speed would leave."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Desk, wait_for

FIXED_S, SAMPLE_S, NETWORK_S = 0.010, 0.001, 0.004
SBATCH = """#!{python}
import json, pathlib, re, sys
if "--test-only" in sys.argv:
    sys.exit(0)
spool = pathlib.Path({spool!r})
text = open(sys.argv[-1]).read()
run = pathlib.Path(re.search("export HPCLAUNCH_RUN_DIR=(.+)", text)[1].strip("'"))
spec = json.loads((run / "spec.json").read_text())
said = dict(word[2:].split("=", 1) for word in spec["command"] if word.startswith("--"))
with (spool / "submitted").open("a") as file:
    file.write(json.dumps({{"run": run.name, "nodes": spec["layout"]["nodes"], **said}}) + chr(10))
number = len((spool / "submitted").read_text().splitlines())
ranks, batch = spec["layout"]["nodes"] * spec["layout"]["tasks_per_node"], int(said["batch"])
rate = ranks * batch / ({fixed} + batch * {sample} + {network} * (spec["layout"]["nodes"] > 1))
count = 1 if (spool / "short").exists() and spec["layout"]["nodes"] > 1 else int(said["epochs"])
rates = [rate / 10, *[rate] * (count - 1)]
lines = [{{"event": "epoch", "seconds": 1.0, "samples_per_s": one}} for one in rates]
if ranks > 1:
    lines.append({{"event": "noise_scale", "noise_scale": 300.0, "low": 250.0, "high": 350.0, "steps": 400}})
(run / "metrics.jsonl").write_text("".join(json.dumps(line) + chr(10) for line in lines))
(spool / f"folder-{{100 + number}}").write_text(str(run))
print("Submitted batch job", 100 + number)
"""
SQUEUE = """#!/bin/bash
for word in "$@"; do
  case $word in --jobs=*) ids=${{word#--jobs=}} ;; esac
done
for id in ${{ids//,/ }}; do
  [ -e {spool}/folder-$id ] || continue
  run=$(cat {spool}/folder-$id) state=$(cat {spool}/state)
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
    "parameters": {"epochs": 30, "batch": 64, "train_samples": 0, "precision": "float32", "accumulation": 1},
    "resources": {"tasks_per_node": 1},
    "training": {
        "samples": 50_000,
        "names": {"batch_size_per_rank": "batch"},
        "figures": {"parameters": 1e6, "flops_per_sample": 2e9, "saved_bytes_per_sample": 4e6},
    },
}


@pytest.fixture
def site(cluster: Desk) -> Desk:
    numbers = {"fixed": FIXED_S, "sample": SAMPLE_S, "network": NETWORK_S}
    cluster.program("sbatch", SBATCH.format(python=sys.executable, spool=str(cluster.spool), **numbers))
    cluster.program("squeue", SQUEUE.format(spool=cluster.spool))
    (cluster.spool / "state").write_text("COMPLETED")
    cluster.write("jobs/mine/train.py", "")
    cluster.write("jobs/mine/job.yaml", json.dumps(JOB))
    return cluster


def submitted(desk: Desk) -> list[dict[str, Any]]:
    file = desk.spool / "submitted"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def kept(desk: Desk) -> list[Path]:
    return sorted((desk.home / ".local/share/hpclaunch").rglob("*.json"))


def test_three_short_runs_are_measured_and_kept(site: Desk) -> None:
    done = site.type("profile", "mine", "--json", "--steps", "20")
    assert done.code == 0, done.err
    asked = [(row["nodes"], row["batch"], row["train-samples"], row["epochs"]) for row in submitted(site)]
    assert asked == [(1, "64", "1280", "4"), (1, "32", "640", "4"), (2, "64", "2560", "4")]
    points = done.json["calibration"]["points"]
    expected = [64 / (0.010 + 0.064), 32 / (0.010 + 0.032), 2 * 64 / (0.010 + 0.064 + 0.004)]
    assert [point["samples_per_s"] for point in points] == pytest.approx(expected)
    assert done.json["calibration"]["noise_scale"] == {"value": 300.0, "low": 250.0, "high": 350.0, "steps": 400}
    assert [str(path) for path in kept(site)] == [done.json["place"]]
    assert "calibrations/slurmsite/cpu/mine-" in done.json["place"]


def test_later_plans_and_submissions_use_it_and_say_so(site: Desk) -> None:
    unmeasured = site.type("plan", "mine", "--json").json
    assert unmeasured["measured"] == "" and unmeasured["rows"][0]["throughput"] is None
    site.type("profile", "mine")
    found = site.type("plan", "mine", "--nodes", "4", "--json").json
    assert found["measured"].startswith("3 runs on 1 and 2 nodes, 20")
    (row,) = [row for row in found["rows"] if row["nodes"] == 4]
    assert row["throughput"]["samples_per_s"]["origin"] == "fitted"
    assert row["throughput"]["samples_per_s"]["middle"] == pytest.approx(4 * 64 / 0.079, rel=0.05)
    assert "measured: 3 runs on 1 and 2 nodes" in site.type("plan", "mine").out
    assert "; measured: 3 runs on 1 and 2 nodes" in site.type("submit", "mine", "--dry-run").err
    typed = site.type("submit", "mine", "--nodes", "2", "--dry-run").err
    assert "; measured:" not in typed and "from measured runs" in typed  # the node count is not advised, the time is


def test_it_holds_for_this_code_and_way_to_run_it_alone(site: Desk) -> None:
    site.type("profile", "mine")

    def measured(*words: str) -> str:
        done = site.type("plan", "mine", "--json", *words)
        assert done.code == 0
        return str(done.json["measured"])

    assert measured("--set", "batch=32", "--nodes", "2").startswith("3 runs")
    assert measured("--set", "precision=float16") == ""
    assert measured("--tasks-per-node", "2") == ""
    site.write("c.json", '{"points": [{"nodes": 1, "ranks_per_node": 1, "per_rank": 64, "samples_per_s": 5}]}')
    assert measured("--calibration", "c.json") == "c.json"
    kept(site)[0].write_text("{")
    assert measured() == "3 finished runs on 1 and 2 nodes"  # the profile's own
    site.write("jobs/mine/train.py", "import os\n")
    assert measured() == ""


def test_every_finished_run_refines_it_and_no_other(site: Desk) -> None:
    def measured(*words: str) -> tuple[str, list[str]]:
        done = site.type("plan", "mine", "--json", *words)
        sections = {section["title"]: section["remarks"] for section in done.json["sections"]}
        return str(done.json["measured"]), sections.get("measurements", [])

    (site.spool / "state").write_text("RUNNING")
    site.type("submit", "mine", "--nodes", "2")
    assert measured() == ("", [])  # it has not ended
    (site.spool / "state").write_text("COMPLETED")
    site.type("status")
    (first,) = (row["run"] for row in submitted(site))
    origin, sources = measured()
    assert origin == "1 finished run on 2 nodes"
    assert sources[0].startswith("2 nodes x 1 rank, 64 samples per rank: ") and sources[0].endswith(f"({first})")
    site.type("profile", "mine")
    assert measured()[0].endswith("; and 1 finished run on 2 nodes")
    for words in (["--set", "precision=float16"], ["--synthetic"], ["--sbatch", "--exclusive"]):
        site.type("submit", "mine", "--nodes", "4", *words)
    (site.spool / "state").write_text("FAILED")
    site.type("submit", "mine", "--nodes", "4")
    site.type("status")
    origin, sources = measured()
    assert origin.endswith("; and 1 finished run on 2 nodes")
    assert sources[-1] == f"not used: {submitted(site)[-1]['run']} is FAILED"
    out = site.type("plan", "mine", "--explain").out
    assert "MEASUREMENTS" in out and first in out
    assert "; measured: 3 runs on 1 and 2 nodes" in site.type("submit", "mine", "--dry-run").err


def test_a_dry_run_tells_the_runs_and_the_most_they_cost(site: Desk) -> None:
    before = site.listing()
    done = site.type("profile", "mine", "--dry-run")
    assert done.code == 0
    assert "  2 nodes, 64 samples per rank, 2 ranks: slurmsite " in done.err
    told = site.type("profile", "mine", "--dry-run", "--json", "--walltime", "6m", "--nodes", "4").json
    assert [row["nodes"] for row in told["runs"]] == [1, 1, 4]
    assert told["runs"][0]["spec"]["walltime"] == 360
    assert submitted(site) == [] and site.listing() == before


def test_the_ranks_get_the_python_and_the_variables_that_are_typed(site: Desk) -> None:
    software = ("--python", "/usr/bin/python3", "--env", "FLAVOUR=plain")
    assert site.type("profile", "mine", *software).code == 0
    scripts = [path.read_text() for path in (site.project / "runs").glob("*/job.sh")]
    assert len(scripts) == 3
    assert all("need /usr/bin/python3" in script and "export FLAVOUR=plain\n" in script for script in scripts)


def test_the_view_of_the_gpus_is_that_of_a_run(site: Desk) -> None:
    refused = site.type("profile", "mine", "--gpu-view", "two")
    assert refused.code == 1 and "--gpu-view: no view of the GPUs is called 'two'; allowed: all, one" in refused.err


def test_a_run_that_tells_nothing_leaves_nothing_kept_and_the_others_can_be_read(site: Desk) -> None:
    (site.spool / "short").touch()
    done = site.type("profile", "mine")
    assert done.code == 1
    first, second, last = (row["run"] for row in submitted(site))
    assert f"{last}: is COMPLETED and reported the speed of no epoch after the first" in done.err
    assert first not in done.err.rpartition("error:")[2]
    assert kept(site) == []
    again = site.type("profile", "mine", "--from", first, "--from", second)
    assert again.code == 0 and len(submitted(site)) == 3
    assert site.type("plan", "mine", "--json").json["measured"].startswith("2 runs on 1 node, ")


def test_ctrl_c_lets_the_runs_go_on_and_says_how_to_read_them(site: Desk) -> None:
    (site.spool / "state").write_text("RUNNING")
    process = site.start("profile", "mine")
    wait_for(lambda: len(submitted(site)) == 3, "three runs")
    states = lambda: [row["state"] for row in site.type("status", "--json").runs]  # noqa: E731
    wait_for(lambda: states() == ["RUNNING"] * 3, "all runs run")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    names = [row["run"] for row in submitted(site)]
    assert "Traceback" not in err and process.returncode == 130
    assert "interrupted; 3 submitted runs of mine will continue" in err
    assert f"hpclaunch profile mine {' '.join(f'--from {name}' for name in names)}" in err
    assert states() == ["RUNNING"] * 3 and kept(site) == []
    (site.spool / "state").write_text("COMPLETED")
    assert site.type("profile", "mine", *(word for name in names for word in ("--from", name))).code == 0
    assert len(kept(site)) == 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("mine", "--rate-from", "tqdm"), "mine is a job, which is measured by its 'training' section"),
        (("mine", "--nodes", "5"), "5 nodes"),
        (("mine", "--set", "epohcs=3"), "no parameter 'epohcs'"),
        (("other",), "other has no parameter for epochs"),
        (("mine", "--from", "nothing"), "no run is called 'nothing'"),
    ],
)
def test_what_cannot_be_measured_is_said_before_anything_is_submitted(
    site: Desk, words: tuple[str, ...], reason: str
) -> None:
    other = {**JOB, "parameters": {"batch": 64}}
    site.write("jobs/other/train.py", "")
    site.write("jobs/other/job.yaml", json.dumps(other))
    done = site.type("profile", *words)
    assert done.code == 1 and reason in done.err
    assert submitted(site) == []


def test_a_run_of_another_job_is_no_measurement_of_this_one(site: Desk) -> None:
    site.type("submit", "./train.py", "--", "--batch=3", "--epochs=2")
    done = site.type("profile", "mine", "--from", submitted(site)[0]["run"])
    assert done.code == 1 and "is not a run of mine" in done.err


def test_one_by_one_each_run_waits_for_the_one_before(site: Desk) -> None:
    (site.spool / "state").write_text("RUNNING")
    process = site.start("profile", "mine", "--one-by-one")
    wait_for(lambda: len(submitted(site)) == 1, "one run")
    wait_for(lambda: site.type("status", "--json").runs[0]["state"] == "RUNNING", "it runs")
    assert len(submitted(site)) == 1
    (site.spool / "state").write_text("COMPLETED")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert len(submitted(site)) == 3
