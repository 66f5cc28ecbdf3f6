"""``plan`` as a person types it, and what ``submit`` takes from it without ``--nodes``."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest

from tests.cli.conftest import Desk

AT = ("--site", "perlmutter")
FIRST = (
    "hpclaunch submit cifar",
    "hpclaunch profile cifar",
    "cifar at perlmutter (gpu40): ",
    "  nodes ranks",
    "assumed: ",
)
"""How the parts of a plan begin, in their order."""


def test_five_lines_come_first_then_the_command_and_the_table_in_80_columns(desk: Desk) -> None:
    done = desk.type("plan", "cifar", *AT)
    assert done.code == 0
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines[:5]] == ["nodes", "batch", "rate", "time", "cost"]
    assert all("(" in line and line.endswith("  guess") for line in lines[:5])
    first = [next(n for n, line in enumerate(lines) if line.startswith(begin)) for begin in FIRST]
    assert first == sorted(first) and lines[5] == ""
    assert max(map(len, lines)) <= 80
    assert "hpclaunch submit cifar --nodes 1" in done.out


def test_explain_tells_rules_numbers_and_sources(desk: Desk) -> None:
    out = desk.type("plan", "cifar", *AT, "--explain").out
    for word in (
        "BATCH",
        "rule     global batch size below sqrt(N)",
        "sqrt(N) = 223.6",
        "arXiv 1812.06162",
        "not      gRPC",
    ):
        assert word in out
    assert out.startswith("nodes ") and out.index("hpclaunch submit cifar") < out.index("assumed: ") < out.index(
        "BATCH"
    )


def test_json_has_the_choice_the_candidates_and_every_reason(desk: Desk) -> None:
    told = desk.type("plan", "cifar", *AT, "--json").json
    assert (told["nodes"], told["feasible"], told["known"]) == (1, True, True)
    assert told["rows"][0]["candidate"]["time_s"]["low"] > 0
    assert all(reason["source"] for section in told["sections"] for reason in section["reasons"])


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["--weight", "2"], 2, "--weight: 2.0 is not allowed; allowed: above 0 and below 1"),
        (["--weight", "nan"], 2, "--weight: nan is not allowed"),
        (["--prefer", "luxury"], 2, "allowed: time, cost"),
        (["--prefer", "time", "--weight", "0.5"], 2, "cannot be used together"),
        (["--budget", "-1"], 2, "--budget: -1.0 is not allowed"),
        (["--deadline", "soon"], 2, "--deadline: 'soon' is not a length of time"),
        (["--set", "epohcs=3"], 1, "no parameter 'epohcs'; did you mean 'epochs'?"),
        (["--node-type", "gup"], 1, "no node type 'gup'"),
        (["--nodes", "4000"], 1, "4000 nodes requested"),
        (["--calibration", "nowhere.json"], 1, "the calibration file does not exist"),
        (["--plot", "plan.gif"], 2, "has no known format; allowed: .png, .svg"),
        (["--plot", "plan.svg", "--plot-kind", "pie"], 2, "'pie' is not allowed; allowed: nodes, frontier, gradient"),
        (["--plot-kind", "steps"], 2, "--plot-kind: needs a file to draw into"),
        (["--budget", "0.00001"], 1, "is feasible"),
    ],
)
def test_bad_input_says_what_is_allowed(desk: Desk, words: list[str], code: int, reason: str) -> None:
    done = desk.type("plan", "cifar", *AT, *words)
    assert done.code == code
    assert reason in done.err


def test_an_impossible_wish_still_answers_as_json(desk: Desk) -> None:
    done = desk.type("plan", "cifar", *AT, "--budget", "0.00001", "--json")
    assert done.code == 1
    assert done.json["feasible"] is False
    assert "the budget is 1e-05" in done.json["refusals"][0]["what"]


def test_a_faulty_calibration_names_the_key(desk: Desk) -> None:
    desk.write("c.json", '{"points": [{"nodes": 1, "ranks_per_node": 4, "per_rank": 0, "samples_per_s": -1}]}')
    done = desk.type("plan", "cifar", *AT, "--calibration", "c.json")
    assert done.code == 1
    assert "c.json: points.0.per_rank: 0 is too small" in done.err


def test_the_json_has_the_five_lines_with_their_numbers(desk: Desk) -> None:
    done = desk.type("plan", "cifar", *AT, "--json")
    found = {line["name"]: line for line in done.json["headlines"]}
    assert list(found) == ["nodes", "batch", "rate", "time", "cost"]
    assert {line["trust"] for line in found.values()} == {"guess"}
    ranks = done.json["ranks_per_node"] or 4  # None: whole nodes
    size = (done.json["nodes"], done.json["nodes"] * ranks)
    run = next(row["candidate"] for row in done.json["rows"] if (row["nodes"], row["ranks"]) == size)
    for name, interval in (("time", run["time_s"]), ("cost", run["cost"])):
        line = found[name]
        assert [line["low"], line["number"], line["high"]] == [interval[key] for key in ("low", "middle", "high")]
    assert (found["time"]["unit"], found["cost"]["unit"]) == ("s", f"{done.json['unit']}s")


def test_a_calibration_without_points_is_refused(desk: Desk) -> None:
    desk.write("train.py", "print(1)\n")
    desk.write("c.json", "{}")
    done = desk.type("plan", "./train.py", "--site", "perlmutter", "--calibration", "c.json")
    assert done.code == 1 and "c.json: points: this key is required, but missing" in done.err and not done.out


def test_a_calibration_is_used(desk: Desk) -> None:
    desk.write(
        "c.json",
        '{"points": [{"nodes": 1, "ranks_per_node": 1, "per_rank": 48, "samples_per_s": 9000},'
        ' {"nodes": 1, "ranks_per_node": 1, "per_rank": 24, "samples_per_s": 6000}], "overhead_s": 60}',
    )
    told = desk.type("plan", "cifar", *AT, "--calibration", "c.json", "--json").json
    assert told["rows"][0]["throughput"]["samples_per_s"]["origin"] == "fitted"
    assert told["rows"][0]["candidate"]["time_s"]["middle"] > 60


def test_a_plot_needs_matplotlib(desk: Desk) -> None:
    desk.write("without/matplotlib.py", "raise ImportError")  # modules of the current folder are not imported
    without = f"{desk.project / 'without'}:{desk.environment.get('PYTHONPATH', '')}"
    done = desk.type("plan", "cifar", *AT, "--plot", "plan.svg", PYTHONPATH=without)
    assert done.code == 1
    assert "next: pip install 'hpclaunch[plot]'" in done.err
    assert not (desk.project / "plan.svg").exists()


def test_a_script_is_unknown_on_one_node(desk: Desk) -> None:
    desk.write("train.py", "")
    words = " ".join(desk.type("plan", "./train.py", *AT).out.split())
    assert "1 node: the figures of its model are not known (the job file has no training)" in words


def test_submit_without_nodes_takes_the_planners_and_says_why(desk: Desk) -> None:
    done = desk.type("submit", "cifar", *AT, "--account", "m1", "--dry-run", "-v", SCRATCH="/scratch")
    assert done.code == 0
    assert "#SBATCH --nodes=1\n" in done.out
    assert "(planner)" in done.err
    why = [line for line in done.err.splitlines() if line.startswith("  planner: ")]
    assert len(why) == 1 and why[0].endswith("next: hpclaunch plan cifar --explain")


def test_a_typed_number_of_nodes_asks_no_planner(desk: Desk) -> None:
    done = desk.type("submit", "cifar", *AT, "--account", "m1", "--nodes", "3", "--dry-run", SCRATCH="/scratch")
    assert "#SBATCH --nodes=3\n" in done.out
    assert "planner" not in done.err


@pytest.mark.parametrize("words", [[], ["--nodes", "2"]])
def test_a_model_that_does_not_fit_is_refused(desk: Desk, words: list[str]) -> None:
    desk.write("jobs/large/train.py", "")
    desk.write(
        "jobs/large/job.yaml",
        "summary: x\nscript: train.py\nparameters: {batch_size_per_rank: 8}\ntraining:\n  samples: 1000000\n"
        "  figures: {parameters: 7.0e9, flops_per_sample: 1.0e12, saved_bytes_per_sample: 4.0e9}\n",
    )
    done = desk.type("submit", "large", *AT, "--account", "m1", *words, "--dry-run", SCRATCH="/scratch")
    assert done.code == 1
    assert "the model of large does not fit the GPUs of perlmutter, as large can divide it" in done.err
    assert "state sharding would fit, but the job has no parameter shard_optimizer" in done.err
    assert "hpclaunch plan large --explain" in done.err


@pytest.mark.parametrize(("site", "retired"), [("cori", True), ("perlmutter", False)])
def test_a_plan_for_a_retired_site_says_that_nothing_can_be_submitted(desk: Desk, site: str, retired: bool) -> None:
    told = desk.type("plan", "cifar", "--site", site, "--json").json
    assert (
        f"the site {site} is retired: scripts can be rendered for it, but not submitted" in told["warnings"]
    ) is retired


def test_a_batch_that_the_job_divides_is_the_one_that_is_planned_for(desk: Desk) -> None:
    words = ("chips", *AT, "--account", "m1", "--synthetic", "--set")
    done = desk.type("submit", *words, "global_batch_size=64", "--dry-run", SCRATCH="/scratch")
    assert done.code == 0
    (line,) = [line for line in done.err.splitlines() if line.startswith("  planner: ")]
    assert "B = 64:" in line and "as submitted" not in line
    odd = desk.type("submit", *words, "global_batch_size=63", "--tasks-per-node", "4", "--dry-run", SCRATCH="/scratch")
    assert odd.code == 1
    assert "next: --set global_batch_size=64 divides evenly" in odd.err
    assert "does not divide" not in odd.err  # that is the same once more
    uneven = ("global_batch_size=64", "--set", "accumulation=3", "--tasks-per-node", "4")
    rest = desk.type("submit", *words, *uneven, "--dry-run", SCRATCH="/scratch")
    assert rest.code == 1
    assert "64 does not divide among 4 ranks with 3 accumulation steps; allowed: a multiple of 12" in rest.err


def test_what_a_plan_proposes_for_a_divided_batch_can_be_submitted(desk: Desk) -> None:
    words = ("--account", "m1", "--nodes", "1", "--set", "global_batch_size=256")
    proposed = desk.type("plan", "chips", *AT, *words, "--json").json["command"].split()[1:]
    assert "learning_rate=0.001" in proposed and "scale_learning_rate=sqrt" not in proposed
    done = desk.type(*proposed, "--synthetic", "--dry-run", SCRATCH="/scratch")
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("words", "own"),
    [(["--recipe", "job"], 512), ([], None), (["--recipe", "job", "--set", "batch_size_per_rank=48"], None)],
)
def test_submit_says_which_batch_it_makes_where_the_plan_is_for_another(
    desk: Desk, words: list[str], own: int | None
) -> None:
    done = desk.type("submit", "cifar", *AT, "--account", "m1", *words, "--dry-run", SCRATCH="/scratch")
    line = next(line for line in done.err.splitlines() if line.startswith("  planner: "))
    assert ("as submitted, with the job's own batch per rank, B = 512;" in line) == (own is not None)


def parameters_in(script: str) -> dict[str, float | str]:
    """The parameters that a script gives to its ranks, whether a person or the recipe chose them."""
    command = script.partition("/code/train.py")[2].partition("\n}")[0]
    return {
        name.replace("-", "_"): read(value) for name, value in re.findall(r"--(?:default=)?([a-z-]+)=(\S+)", command)
    }


def read(value: str) -> float | str:
    """A number where it is one: 2 and 2.0 are the same epochs."""
    return float(value) if re.fullmatch(r"[\d.e+-]*\d", value) else value


def settings_of(plan: dict[str, Any]) -> dict[str, float | str]:
    return {name: read(value) for name, value in plan["settings"]}


@pytest.mark.parametrize(
    "words",
    [
        ["cifar"],
        ["cifar", "--nodes", "4"],
        ["cifar", "--nodes", "2", "--set", "optimizer=lamb", "--set", "batch_size_per_rank=128"],
        ["mnist", "--prefer", "cost"],
        ["cosmoflow"],
        ["cosmoflow", "--nodes", "64", "--global-batch", "1024"],
    ],
)
def test_the_printed_command_gives_exactly_this_plan(desk: Desk, words: list[str]) -> None:
    plan = desk.type("plan", *words, *AT, "--account", "m1", "--json").json
    done = desk.type(*shlex.split(plan["command"])[1:], "--synthetic", "--dry-run", SCRATCH="/scratch")
    assert done.code == 0, done.err
    assert f"#SBATCH --nodes={plan['nodes']}\n" in done.out
    typed = {name: read(value) for name, value in (word.split("=") for word in words if "=" in word)}
    batch = plan["recipe"]["batch"]
    assert parameters_in(done.out) == {"synthetic": "true", **settings_of(plan), **typed}
    assert ("typed against the advice" in done.err) == ("optimizer=lamb" in words)
    assert f"recipe plan: B = {batch['per_rank'] * batch['replicas'] * batch['accumulation']}, " in done.err


@pytest.mark.parametrize("nodes", [[], ["--nodes", "4"]])
def test_submit_trains_as_the_plan_says_without_its_command(desk: Desk, nodes: list[str]) -> None:
    words = ("cifar", *AT, "--account", "m1", *nodes)
    plan = desk.type("plan", *words, "--json").json
    done = desk.type("submit", *words, "--dry-run", SCRATCH="/scratch")
    assert parameters_in(done.out) == settings_of(plan)
