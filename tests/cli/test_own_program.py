"""``profile`` and ``plan`` of a stranger's script at a Slurm site of stand-ins: its lines tell its speed."""

from __future__ import annotations

import json
import re
import shlex
import signal
import sys
from pathlib import Path

import pytest

from hpclaunch.config.catalog import bundled
from tests.cli.conftest import Desk, wait_for
from tests.cli.test_profile import SQUEUE

FIXED_S, SAMPLE_S, NETWORK_S = 0.010, 0.001, 0.004
# Rank 0 prints a step in the format of nanoGPT; the batch is what was typed after --.
SBATCH = """#!{python}
import json, pathlib, re, sys
if "--test-only" in sys.argv:
    sys.exit(0)
spool = pathlib.Path({spool!r})
text = open(sys.argv[-1]).read()
run = pathlib.Path(re.search("export HPCLAUNCH_RUN_DIR=(.+)", text)[1].strip("'"))
spec = json.loads((run / "spec.json").read_text())
command, nodes = spec["command"], spec["layout"]["nodes"]
batch = int(command[command.index("--batch-size") + 1]) if "--batch-size" in command else 64
number = 101 + len(list(spool.glob("folder-*")))
seconds = {fixed} + batch * {sample} + {network} * (nodes > 1)
count = 3 if (spool / "short").exists() else 40
lines = [f"iter {{n}}: loss 3.2, time {{1000 * seconds:.2f}}ms, mfu 1%" for n in range(count)]
(run / "logs").mkdir(exist_ok=True)
(run / "logs" / f"{{number}}.out").write_text(chr(10).join(["starting", *lines]) + chr(10))
(spool / f"folder-{{number}}").write_text(str(run))
with (spool / "submitted").open("a") as file:
    file.write(json.dumps([nodes, command]) + chr(10))
print("Submitted batch job", number)
"""
FLAGS = ("--tasks-per-node", "1")


@pytest.fixture
def site(cluster: Desk) -> Desk:
    numbers = {"fixed": FIXED_S, "sample": SAMPLE_S, "network": NETWORK_S}
    cluster.program("sbatch", SBATCH.format(python=sys.executable, spool=str(cluster.spool), **numbers))
    cluster.program("squeue", SQUEUE.format(spool=cluster.spool))
    (cluster.spool / "state").write_text("COMPLETED")
    cluster.write("train.py", "import math\n")
    return cluster


def asked(desk: Desk) -> list[tuple[int, list[str]]]:
    lines = map(json.loads, (desk.spool / "submitted").read_text().splitlines())
    return [(nodes, command[command.index("--batch-size") :]) for nodes, command in lines]


def test_three_runs_with_two_batches_give_a_plan(site: Desk) -> None:
    before = site.type("plan", "./train.py", *FLAGS)
    assert "to measure it first, in short runs:\nhpclaunch profile ./train.py --tasks-per-node 1" in before.out
    words = ("--batch-argument", "--batch-size", "--json", "--", "--batch-size", "64", "--lr", "0.1")
    done = site.type("profile", "./train.py", *FLAGS, *words)
    assert done.code == 0, done.err
    assert asked(site) == [
        (1, ["--batch-size", "64", "--lr", "0.1"]),
        (1, ["--batch-size", "32", "--lr", "0.1"]),
        (2, ["--batch-size", "64", "--lr", "0.1"]),
    ]
    found = done.json["calibration"]
    assert (found["format"], found["batch_argument"], "unit" in found) == (1, "--batch-size", False)
    expected = [64 / 0.074, 32 / 0.042, 128 / 0.078]
    assert [point["samples_per_s"] for point in found["points"]] == pytest.approx(expected)
    site.write("model.pt", "what the program writes beside itself changes nothing")
    plan = site.type("plan", "./train.py", *FLAGS, "--work", "1M", "--json").json
    row = {row["nodes"]: row for row in plan["rows"]}[4]
    rate = row["throughput"]["samples_per_s"]
    assert rate["low"] <= 4 * 64 / 0.078 <= rate["high"]
    assert plan["measured_program"] == {
        "unit": "samples",
        "own_batch": False,
        "amount": 1e6,
        "amount_typed": True,
    }
    other = site.type("plan", "./train.py", *FLAGS, "--nodes", "2", "--global-batch", "64", "--json").json
    (rate,) = (row["throughput"]["samples_per_s"] for row in other["rows"] if row["nodes"] == 2)
    assert rate["low"] <= 64 / 0.046 <= rate["high"] < 1.5 * rate["low"]
    assert other["command"].endswith("-- --batch-size 32 --lr 0.1")


def test_without_the_batch_two_runs_give_a_plan_in_its_own_steps(site: Desk) -> None:
    done = site.type("profile", "./train.py", *FLAGS)
    assert done.code == 0, done.err
    assert "40 (nanogpt; first" not in done.out and "(nanogpt; first 10 lines left out)" in done.out
    assert done.err.rstrip().endswith("\n  hpclaunch plan ./train.py --tasks-per-node 1")
    plan = site.type("plan", "./train.py", *FLAGS)
    assert plan.code == 0, plan.err
    assert "the program's own, on each of" in plan.out and "steps/s" in plan.out
    assert "work: not typed" in plan.out
    refused = site.type("plan", "./train.py", *FLAGS, "--global-batch", "64")
    assert refused.code == 1 and "--batch-argument NAME" in refused.err


def test_the_file_of_two_points_is_used_or_refused(site: Desk) -> None:
    points = [
        {"nodes": 1, "ranks_per_node": 1, "per_rank": 64, "samples_per_s": 865},
        {"nodes": 2, "ranks_per_node": 1, "per_rank": 64, "samples_per_s": 1641},
    ]
    site.write("c.json", json.dumps({"points": points}))
    plan = site.type("plan", "./train.py", *FLAGS, "--calibration", "c.json", "--work", "10M")
    assert plan.code == 0, plan.err
    assert "samples/s" in plan.out and "measured: c.json" in plan.out and "not known" not in plan.out.splitlines()[3]
    for content, why in (
        (json.dumps({"format": 2, "points": points}), "newer than this hpclaunch"),
        (json.dumps({"points": [{**points[0], "low": 900, "high": 1000}]}), "low <= samples_per_s <= high"),
        (json.dumps({"points": [{**points[0], "samples_per_s": 1e308}]}), "from 1e-06 to 1e+12"),
        (json.dumps({"points": [{**points[0], "samples_per_s": 1e-300}]}), "from 1e-06 to 1e+12"),
        (json.dumps({"points": [{**points[0], "ranks_per_node": 2}]}), "no measured point has 1 rank a node"),
    ):
        site.write("bad.json", content)
        refused = site.type("plan", "./train.py", *FLAGS, "--calibration", "bad.json")
        assert refused.code != 0 and why in refused.err, refused.err


def test_a_budget_needs_the_work_and_is_kept(site: Desk) -> None:
    site.type("profile", "./train.py", *FLAGS, "--batch-argument", "--batch-size", "--", "--batch-size", "64")
    other = site.type("plan", "./train.py", "--tasks-per-node", "2", "--work", "10M")
    assert other.code == 1 and "hpclaunch profile ./train.py --tasks-per-node 2" in other.err
    asked_for = site.type("plan", "./train.py", *FLAGS, "--deadline", "1h")
    assert asked_for.code == 1 and "add --work N, in samples" in asked_for.err
    found = site.type("plan", "./train.py", *FLAGS, "--work", "10M", "--deadline", "2h", "--json").json
    chosen = next(row for row in found["rows"] if row["nodes"] == found["nodes"])
    assert found["nodes"] > 1 and chosen["candidate"]["time_s"]["middle"] <= 7200
    late = site.type("plan", "./train.py", *FLAGS, "--work", "10M", "--deadline", "1m")
    assert late.code == 1 and "no node count is feasible" in late.err


def test_a_run_that_tells_too_little_is_named_with_what_to_do(site: Desk) -> None:
    (site.spool / "short").touch()
    done = site.type("profile", "./train.py", *FLAGS)
    assert done.code == 1
    assert "gave no speed: nanogpt: 3 lines with a speed" in done.err and "--rate-from" in done.err
    assert not list((site.home / ".local/share/hpclaunch").rglob("*.json"))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--rate-from", "tdqm"), "did you mean 'tqdm'"),
        (("--batch-argument", "--batch-size"), "must be among the program's arguments once"),
        (("--batch-argument", "--batch-size", "--", "--batch-size", "many"), "must be among the program's arguments"),
    ],
)
def test_what_cannot_be_measured_is_said_before_anything_is_submitted(
    site: Desk, words: tuple[str, ...], why: str
) -> None:
    done = site.type("profile", "./train.py", *FLAGS, *words)
    assert done.code != 0 and why in done.err, done.err
    assert not (site.spool / "submitted").exists()


def test_an_ended_run_is_read_again_by_a_typed_pattern(site: Desk, tmp_path: Path) -> None:
    site.type("profile", "./train.py", *FLAGS)
    names = [Path(file.read_text()).name for file in sorted(site.spool.glob("folder-*"))]
    pattern = r"time (?P<step_ms>[\d.]+)ms"
    words = [word for name in names for word in ("--from", name)]
    done = site.type("profile", "./train.py", *FLAGS, *words, "--rate-from", pattern)
    assert done.code == 0, done.err
    assert "pattern" in done.out


def planned(site: Desk, points: list[dict[str, object]], *words: str, **more: object) -> str:
    values = {"batch_argument": "--b", "arguments": ["--b", "64"], "points": points, **more}
    site.write("c.json", json.dumps(values))
    done = site.type("plan", "./train.py", *FLAGS, "--calibration", "c.json", *words)
    return " ".join((done.out if done.code == 0 else done.err).split())


def point(nodes: int, per_rank: int, rate: float) -> dict[str, object]:
    return {"nodes": nodes, "ranks_per_node": 1, "per_rank": per_rank, "samples_per_s": rate}


def test_a_plan_says_what_was_measured_and_how_to_measure_the_rest(site: Desk) -> None:
    one = planned(site, [point(1, 64, 864)])
    measuring = "hpclaunch profile ./train.py --tasks-per-node 1 --nodes 2 --batch-argument=--b -- --b 64"
    assert f"no other node count is known ({measuring})" in one
    assert "(no other is known)" in one and "one batch does not tell it from the samples'" in one
    assert "(as measured)" in one and "one node measured" in one
    near = planned(site, [point(1, 64, 864), point(1, 62, 862)])
    assert "the batches are too near to tell it from the samples'" in near
    four = planned(site, [point(4, 64, 3000)])
    assert "measured at scale" in four and "one node measured" not in four
    two = [point(1, 64, 864), point(1, 32, 762), point(2, 64, 1641)]
    beyond = planned(site, two, "--nodes", "2", "--global-batch", "1024")
    assert "(beyond what was measured)" in beyond and "measured at scale" not in beyond
    between = planned(site, two, "--nodes", "2", "--global-batch", "96")
    assert "(between those that were measured)" in between and "measured at scale" in between


def test_a_site_of_one_machine_is_told_of_no_further_nodes(site: Desk) -> None:
    site.write("c.json", json.dumps({"points": [point(1, 64, 864)]}))
    plan = site.type("plan", "./train.py", "--site", "local", *FLAGS, "--calibration", "c.json")
    assert plan.code == 0 and "communication: not measured" in plan.out and "--nodes 2" not in plan.out


def test_a_script_that_does_not_exist_is_refused(site: Desk) -> None:
    for verb in (("plan",), ("profile",), ("scale", "--nodes", "1")):
        for target in ("./nope.py", "python train.py"):
            done = site.type(*verb, target, *FLAGS)
            assert done.code == 1 and "the script does not exist\n    next: check the path" in done.err
            assert done.out == ""


def test_a_file_of_a_program_is_none_of_a_job_and_names_its_batch(site: Desk) -> None:
    assert "batch_argument must be among the arguments" in planned(site, [point(1, 64, 864)], arguments=["--c=64"])
    for more in ({"unit": "tokens"}, {"own_batch": True}, {"batch_argument": "--b", "arguments": ["--b=64"]}):
        site.write("c.json", json.dumps({"points": [point(1, 64, 864)], **more}))
        done = site.type("plan", "cifar", *FLAGS, "--calibration", "c.json")
        assert done.code == 1 and "the measurements of a program of its own" in done.err, done.err


def test_scale_measures_a_program_on_the_node_counts_and_a_plan_uses_it(site: Desk) -> None:
    words = ("--nodes", "2,1,4", "--batch-argument=--batch-size", "--repeat", "2", "--json")
    done = site.type("scale", "./train.py", *FLAGS, *words, "--", "--batch-size", "64")
    assert done.code == 0, done.err
    round_of_runs = [(1, "64"), (1, "32"), (2, "64"), (4, "64")]
    assert [(nodes, typed[1]) for nodes, typed in asked(site)] == 2 * round_of_runs
    speed_ups = [run["speed_up"] for run in done.json["runs"]]
    assert speed_ups == [1.0, None, pytest.approx(2 * 74 / 78), pytest.approx(4 * 74 / 78)] * 2
    plan = site.type("plan", "./train.py", *FLAGS, "--work", "1M", "--json").json
    assert plan["measured"].startswith("8 runs on 1 and 2 and 4 nodes")
    (rate,) = (row["throughput"]["samples_per_s"] for row in plan["rows"] if row["nodes"] == 4)
    assert rate["low"] <= 4 * 64 / 0.078 <= rate["high"] < 1.3 * rate["low"]


def test_the_documents_of_scale_are_those_of_the_page(site: Desk) -> None:
    page = (bundled("docs") / "json.md").read_text(encoding="utf-8")
    for words, document in ((("--dry-run",), "profile_design"), ((), "profile")):
        done = site.type("scale", "./train.py", *FLAGS, "--nodes", "1,2", "--json", *words)
        assert done.code == 0 and done.json["document"] == document
        row = re.search(rf"^\| `{document}` \| (.+?) \|", page, re.MULTILINE)
        assert row is not None and f"`{' '.join(('scale', *words))}` of a program" in row[1]


def test_ctrl_c_names_a_command_that_reads_the_runs(site: Desk) -> None:
    (site.spool / "state").write_text("RUNNING")
    site.write("my train.py", "import math\n")
    name = "--batch-argument=--batch-size"
    process = site.start("scale", "./my train.py", *FLAGS, "--nodes", "1,2", name, "--", "--batch-size", "64")
    wait_for(lambda: list(site.spool.glob("folder-103")), "three runs")
    wait_for(lambda: [row["state"] for row in site.type("status", "--json").runs] == ["RUNNING"] * 3, "all runs run")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    command = re.search(r"when they have ended: (hpclaunch .+); or hpclaunch cancel", err)
    assert command is not None, err
    assert command[1].startswith("hpclaunch profile './my train.py' --tasks-per-node 1 --from ")
    (site.spool / "state").write_text("COMPLETED")
    done = site.type(*shlex.split(command[1])[1:])
    assert done.code == 0, done.err
    plan = site.type("plan", "./my train.py", *FLAGS, "--json").json
    assert plan["measured"].startswith("3 runs on 1 and 2 nodes")


@pytest.mark.parametrize("verb", [("scale", "--nodes", "1,2"), ("profile",)])
def test_a_program_on_path_is_measured_and_planned(site: Desk, verb: tuple[str, ...]) -> None:
    site.program("trainer", "#!/bin/bash\n")
    done = site.type(*verb, "trainer", *FLAGS, "--", "train.py")
    assert done.code == 0, done.err
    lines = (site.spool / "submitted").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [[1, ["trainer", "train.py"]], [2, ["trainer", "train.py"]]]
    plan = site.type("plan", "trainer", *FLAGS, "--json")
    assert plan.code == 0 and plan.json["measured"].startswith("2 runs on 1 and 2 nodes"), plan.err
    for words in (verb, ("plan",)):
        unknown = site.type(*words, "trainre", *FLAGS)
        assert unknown.code == 1 and "no job is called 'trainre'" in unknown.err
        assert "or a program on PATH" in unknown.err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("./train.py", "--nodes", "1,2", "--strong"), "--strong: is for the study of a job"),
        (("./train.py", "--nodes", "1,2", "--global-batch", "64"), "--global-batch: is for the study of a job"),
        (
            ("./train.py", "--nodes", "1,2", "--plot", "a.svg"),
            "--plot: is for the study of a job; of a program a table is printed next: leave it out; --json",
        ),
        (
            ("./train.py", "--nodes", "1,2", "--resubmit"),
            "is for the study of a job; all runs of a program are submitted each time next: leave it out",
        ),
        (
            ("./train.py", "--nodes", "1,2", "--batch-argument", "--b"),
            "let the command end with the program's arguments, such as --batch-argument --b -- --b 64",
        ),
        (("./train.py", "--nodes", "1,2", "--rate-from", "tdqm"), "did you mean 'tqdm'"),
        (("./train.py", "--rate-from", "tqdm"), "is not the folder of a study, so --nodes is missing"),
        (("cifar", "--nodes", "1,2", "--rate-from", "tqdm"), "cifar is a job, which is measured by its 'training'"),
        (("cifar", "--nodes", "1,2", "--", "--lr", "1"), "cifar is a job, which is measured by its 'training'"),
        (("./train.py", "--nodes", "1,400"), "400 nodes"),
    ],
)
def test_scale_of_a_program_refuses_what_it_cannot_do_before_anything_is_submitted(
    site: Desk, words: tuple[str, ...], why: str
) -> None:
    target, *rest = words
    done = site.type("scale", target, *FLAGS, *rest)
    assert done.code != 0 and why in " ".join(done.err.split()), done.err
    assert not (site.spool / "submitted").exists()


def test_steps_that_divide_one_batch_over_all_ranks_are_refused(site: Desk) -> None:
    divided = SBATCH.replace("{network} * (nodes > 1)", "{network} * (nodes > 1) - batch * {sample} / 2 * (nodes > 1)")
    numbers = {"fixed": FIXED_S, "sample": SAMPLE_S, "network": NETWORK_S}
    site.program("sbatch", divided.format(python=sys.executable, spool=str(site.spool), **numbers))
    done = site.type("profile", "./train.py", *FLAGS)
    assert done.code == 1 and "its steps seem to divide one batch over all ranks" in done.err
    assert "0.074 s on 1 node and 0.046 s on 2" in done.err
    plan = planned(site, [point(1, 64, 864), point(2, 64, 2800)])
    assert "its steps seem to divide one batch over all ranks" in plan


def test_a_program_of_few_lines_is_told_to_train_longer(site: Desk) -> None:
    telling = SBATCH.replace('(run / "logs").mkdir', 'tell(run)\n(run / "logs").mkdir').replace(
        "spool = ",
        "tell = lambda run: (run / 'metrics.jsonl').write_text("
        "json.dumps(dict(event='steps', steps=20, seconds=1.0)) + chr(10))\nspool = ",
        1,
    )
    numbers = {"fixed": FIXED_S, "sample": SAMPLE_S, "network": NETWORK_S}
    (site.spool / "short").touch()
    site.program("sbatch", telling.format(python=sys.executable, spool=str(site.spool), **numbers))
    done = site.type("profile", "./train.py", *FLAGS)
    assert done.code == 1 and "metrics.jsonl: 1 line with a speed" in done.err
    assert "four lines are needed" in done.err and "--rate-from" not in done.err


def test_a_program_that_cannot_start_again_is_planned_on_nodes_where_one_job_ends(site: Desk) -> None:
    """40 days on one node of a site whose jobs last two days at most."""
    points = [{**point(1, 64, 864), "ranks_per_node": 4}, {**point(2, 64, 1641), "ranks_per_node": 4}]
    site.write("c.json", json.dumps({"points": points}))
    words = ("plan", "./train.py", "--site", "perlmutter", "--calibration", "c.json", "--work")
    free = site.type(*words, "1G")
    assert free.code == 0 and "it would take 7 jobs of 2-00:00:00 each, and it cannot start again" in " ".join(
        free.out.split()
    )
    for more in (("30G",), ("1G", "--nodes", "2")):
        endless = site.type(*words, *more)
        assert endless.code == 1 and "cannot start again (no restarts)" in endless.err
        restarts = re.search(r"--restarts (\d+) allows such a chain", endless.err)
        assert restarts is not None
        chain = site.type(*words, *more, *restarts[0].split()[:2])
        assert chain.code == 0, chain.err
        assert f"--restarts {restarts[1]}" in chain.out and "jobs in sequence" in chain.out
