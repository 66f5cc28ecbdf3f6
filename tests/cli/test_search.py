"""``hpclaunch search`` on this machine and at a site with fake programs of Slurm: start, status, results, resume."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cli.conftest import Desk, wait_for

ARTICLE = """{
# We pick the Bayes algorithm:
"algorithm": "random",
"parameters": {
"batch_size": {
"type": "discrete",
"values": [8, 32, 128, 512]
},
},
"spec": {
"metric": "val_loss",
"objective": "minimize",
},
}
"""
PROGRAM = """import json, os, sys
words = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:])
x, y = float(words["x"]), float(words["y"])
with open(os.path.join(os.environ["HPCLAUNCH_RUN_DIR"], "metrics.jsonl"), "a") as file:
    file.write(json.dumps({"event": "end", "loss": (x - 2) ** 2 + (y + 1) ** 2}) + "\\n")
"""
# Trials from 3 on wait until the file exists.
GATED = """import os, sys, time
n = sys.argv[1].partition("=")[2]
open(n + ".begun", "a").write("x")
while int(n) > 2 and not os.path.exists("open"):
    time.sleep(0.05)
"""
SPACE = ("--sweep", "x=0..5", "--sweep", "y=-2,-1,0,1")


@pytest.fixture
def local(desk: Desk) -> Desk:
    desk.environment["HPCLAUNCH_SITE"] = "local"
    desk.write("objective.py", PROGRAM)
    return desk


def search(desk: Desk, *words: str) -> dict[str, object]:
    done = desk.type("search", "./objective.py", "--metric", "loss", *SPACE, *words, "--wait", "--json")
    assert done.code == 0, done.err
    found: dict[str, object] = done.json
    return found


def run_dir(desk: Desk) -> Path:
    return sorted((desk.project / "runs").iterdir())[-1]


def test_a_grid_tries_each_point_once_and_reports_the_true_best(local: Desk) -> None:
    found = search(local)
    trials = found["trials"]
    assert isinstance(trials, list)
    assert len({json.dumps(one["values"]) for one in trials}) == len(trials) == 24
    best = found["best"]
    assert isinstance(best, dict)
    assert (best["values"], best["value"]) == ({"x": "2", "y": "-1"}, 0.0)
    status = local.type("search", "status", "--json").json
    assert status["trials"] == {"total": 24, "COMPLETED": 24, "waiting": 0}
    lines = list(csv.DictReader(io.StringIO(local.type("search", "results", "--csv").out)))
    assert min(lines, key=lambda line: float(line["loss"]))["trial"] == str(best["trial"])
    table = local.type("search", "results", "--most", "2")
    assert table.out.splitlines()[1].split("\t")[:5] == [str(best["trial"]), "COMPLETED", "0", "2", "-1"]
    assert "22 more trials" in table.err
    assert "importance: x" in table.err


def test_a_killed_search_is_resumed_without_losing_or_doubling_a_trial(local: Desk) -> None:
    local.write("slow.py", GATED)
    done = local.type("search", "./slow.py", "--sweep", "n=0..19", "--json")
    assert done.code == 0, done.err

    def finished() -> int:
        return int(local.type("search", "status", "--json").json["trials"].get("COMPLETED", 0))

    wait_for(lambda: finished() == 3, "all but those at the gate have ended")
    local.type("search", "cancel")
    assert finished() == 3
    local.write("open", "")
    both = [local.start("search", "resume", "--json") for _ in range(2)]
    said = [process.communicate(timeout=120) for process in both]
    assert 0 in [process.returncode for process in both], said
    assert not any("Traceback" in err for _, err in said)
    wait_for(lambda: local.type("search", "status", "--json").json["state"] == "COMPLETED", "the search has ended")
    assert finished() == 20
    begun = [len(path.read_text()) for path in local.project.glob("*.begun")]
    assert len(begun) == 20
    assert sum(begun) <= 22, "only trials that were running began twice"
    refused = local.type("search", "resume")
    assert refused.code == 1
    assert "nothing to continue" in refused.err


def test_ctrl_c_leaves_the_search_running(local: Desk) -> None:
    local.write("slow.py", "import time\ntime.sleep(1)\n")
    typed = local.start("search", "./slow.py", "--sweep", "n=0..3", "--wait")
    wait_for(lambda: list(local.project.glob("runs/*/search/claims/1")), "the search has begun")
    os.kill(typed.pid, signal.SIGINT)
    _, err = typed.communicate(timeout=60)
    assert typed.returncode == 130
    assert "goes on" in err
    wait_for(lambda: local.type("search", "status", "--json").json["state"] == "COMPLETED", "the search has ended")


def test_the_articles_configuration_is_refused_without_the_map_and_taken_with_it(local: Desk) -> None:
    local.write("optim.config", ARTICLE)
    refused = local.type("search", "cifar", "--config", "optim.config", "--synthetic", "--dry-run")
    assert refused.code == 1
    assert "cifar has no parameter 'batch_size'; did you mean 'batch_size_per_rank'?" in refused.err
    assert "--map batch_size=batch_size_per_rank" in refused.err
    words = ("--map", "batch_size=batch_size_per_rank", "--synthetic", "--dry-run")
    taken = local.type("search", "cifar", "--config", "optim.config", *words)
    assert taken.code == 0, taken.err
    assert "random over batch_size_per_rank: 4 trials, minimize val_loss" in taken.err
    assert "validation_part=0.2 is set" in taken.err
    assert "--validation-part=0.2" in taken.out
    assert not (local.project / "runs").exists()


def test_at_a_slurm_site_the_script_has_a_worker_on_every_node(cluster: Desk) -> None:
    done = cluster.type(
        "search", "./train.py", "--sweep", "n=1..8", "--nodes", "2", "--trials-at-once", "8", "--dry-run"
    )
    assert done.code == 0, done.err
    assert "#SBATCH --nodes=2" in done.out
    assert "#SBATCH --ntasks-per-node=1" in done.out
    launch = done.out.partition("launch_search ")[2].replace("\\\n", " ").split("\n")[0].split()
    assert (launch[0], launch[2:5]) == ("2", ["4", "8", "0"])
    assert launch[5] == "srun"
    assert {"--ntasks=2", "--mpi=none", "--wait=0", "--kill-on-bad-exit=0"} <= set(launch)
    submitted = cluster.type("search", "./train.py", "--sweep", "n=1..8", "--nodes", "2", "--trials-at-once", "8")
    assert submitted.code == 0, submitted.err
    assert (run_dir(cluster) / "search.json").exists()


def test_where_jobs_share_nodes_the_trials_are_small_jobs_of_an_array(cluster: Desk) -> None:
    words = ("--sweep", "n=1..8", "--trials-at-once", "3", "--cpus-per-trial", "2", "--dry-run")
    done = cluster.type("search", "./train.py", *words, "--", "--n={n}")
    assert done.code == 0, done.err
    assert {"#SBATCH --array=0-2", "#SBATCH --nodes=1", "#SBATCH --cpus-per-task=2"} <= {*done.out.splitlines()}
    assert '--n="${own[0]#*=}"' in done.out
    assert "each a job of an array, 2 CPUs each" in done.err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "the space of the search is missing"),
        (("--sweep", "x=1", "--space", "s.yaml"), "given twice"),
        (("--sweep", "x=1,1"), "listed twice"),
        (("--sweep", "x=1,2", "--sampler", "gird"), "did you mean 'grid'"),
        (("--sweep", "x=1,2", "--map", "y=z"), "no parameter 'y'"),
        (("--sweep", "x=1,2", "--map", "y"), "not OLD=NEW"),
        (("--space", "no.yaml"), "cannot be read"),
        (("--sweep", "x=1,2", "--sampler", "tpe"), "name of a metric"),
        (("--sweep", "x=1,2", "--trials-at-once", "4000"), "4000 trials"),
    ],
    ids=["no space", "two spaces", "repeated", "sampler", "map", "half a map", "no file", "no metric", "too many"],
)
def test_a_search_that_cannot_be_made_is_refused_before_anything_is_written(
    local: Desk, words: tuple[str, ...], text: str
) -> None:
    done = local.type("search", "./objective.py", *words)
    assert done.code in (1, 2)
    assert text in done.err
    assert not (local.project / "runs").exists()


def test_what_is_no_search_is_said(local: Desk) -> None:
    assert "there is no search yet" in local.type("search", "status").err
    local.type("submit", "./objective.py", "--", "x=1", "y=1")
    done = local.type("search", "status", run_dir(local).name)
    assert done.code == 1
    assert "is not a search" in done.err


JOB = """summary: a bowl
script: bowl.py
parameters: {x: 0, y: 0.0, note: {default: "", help: a text}}
resources: {walltime: "00:05:00"}
"""


@pytest.fixture
def bowl(local: Desk) -> Desk:
    local.write("jobs/bowl/job.yaml", JOB)
    local.write("jobs/bowl/bowl.py", PROGRAM)
    local.type("trust")
    return local


def test_the_best_trial_is_submitted_by_its_name_and_kept_as_a_recipe(bowl: Desk) -> None:
    done = bowl.type("search", "bowl", "--metric", "loss", *SPACE, "--set", "note=a b", "--wait", "--json")
    assert done.code == 0, done.err
    best = done.json["best"]
    assert best["values"] == {"x": 2, "y": -1.0}
    name = run_dir(bowl).name
    shown = bowl.type("submit", "bowl", "--from", f"{name}@best", "--set", "y=0.5", "--dry-run")
    assert shown.code == 0, shown.err
    assert "--x=2 --y=0.5" in shown.out
    assert "'--note=a b'" in shown.out
    other = bowl.type("render", "bowl", "--from", f"{name}@0")
    assert "--x=0 --y=-2.0" in other.out
    added = bowl.type("search", "recipe", name, "--name", "found", "--write", "jobs/bowl/job.yaml")
    assert added.code == 0, added.err
    assert "--x=2 --y=-1.0" in bowl.type("submit", "bowl", "--recipe", "found", "--dry-run").out.replace(
        "--default=", "--"
    )
    again = bowl.type("search", "recipe", name, "--name", "found", "--write", "jobs/bowl/job.yaml")
    assert again.code == 1
    assert "has a recipe 'found' already" in again.err


@pytest.mark.parametrize("text", ["none@best", "best", "@best", "x@"])
def test_a_trial_that_cannot_be_found_is_refused(local: Desk, text: str) -> None:
    done = local.type("submit", "./objective.py", "--from", text, "--dry-run")
    assert done.code == 1
    assert "no run is called" in done.err or "names no trial" in done.err


def test_the_results_are_drawn(local: Desk) -> None:
    if find_spec("matplotlib") is None:
        pytest.skip("group plot: needs matplotlib (the extra plot)")
    search(local)
    for name in ("search.svg", "search.png"):
        done = local.type("search", "results", "--plot", name)
        assert done.code == 0, done.err
        assert (local.project / name).stat().st_size > 10_000
    assert "format" in local.type("search", "results", "--plot", "search.gif").err
    few = local.type("search", "./objective.py", "--metric", "loss", *SPACE, "--trials", "3", "--wait")
    assert few.code == 0, few.err
    assert local.type("search", "results", "--plot", "few.svg").code == 0, "too few trials for an importance"


REPORT = """
import json, os
with open(os.path.join(os.environ["HPCLAUNCH_RUN_DIR"], "metrics.jsonl"), "a") as file:
    file.write(json.dumps({"loss": 10 * learning_rate}) + "\\n")
"""
# Programs as their libraries' own pages write them; each takes --learning-rate or --learning_rate, and not the other.
STRANGERS = {
    "argparse": """import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--learning_rate", type=float)
learning_rate = parser.parse_args().learning_rate
""",
    "dashes": """import argparse
parser = argparse.ArgumentParser()
parser.add_argument("-l", "--learning-rate", type=float)
learning_rate = parser.parse_args().learning_rate
""",
    "beside": "from options import learning_rate\n",
    "click": """import click
@click.command()
@click.option("--learning-rate", type=float)
def main(learning_rate): globals().update(learning_rate=learning_rate)
main(standalone_mode=False)
""",
    "typer": """import typer
app = typer.Typer()
@app.command()
def main(learning_rate: float = 0.5): globals().update(learning_rate=learning_rate)
app(standalone_mode=False)
""",
    "library": """from hpclaunch import training
learning_rate = training.settings(epochs=1).learning_rate
""",
}


@pytest.mark.parametrize("kind", STRANGERS)
@pytest.mark.parametrize("name", ["learning_rate", "learning-rate"])
def test_a_strangers_program_gets_its_values_as_it_spells_its_options(local: Desk, kind: str, name: str) -> None:
    local.write("options.py", STRANGERS["dashes"])
    local.write("train.py", STRANGERS[kind] + REPORT)
    words = ("--sweep", f"{name}=0.2,0.4", "--metric", "loss", "--python", sys.executable)
    done = local.type("search", "./train.py", *words, "--wait", "--json")
    assert done.code == 0, done.err
    assert [one["value"] for one in done.json["trials"]] == [2.0, 4.0]
    assert [one["values"] for one in done.json["trials"]] == [{name: "0.2"}, {name: "0.4"}]


def test_an_option_that_the_program_does_not_have_is_refused_before_the_first_trial(local: Desk) -> None:
    local.write("train.py", STRANGERS["dashes"])
    refused = local.type("search", "./train.py", "--sweep", "learning_rat=1,2")
    assert refused.code == 1
    assert "train.py has no option --learning_rat; did you mean 'learning-rate'?" in refused.err
    assert not (local.project / "runs").exists()
    local.write("space.yaml", "parameters: {learning_rat: [1, 2]}\n")
    refused = local.type("search", "./train.py", "--space", "space.yaml")
    assert "error: space.yaml: learning_rat: train.py has no option --learning_rat" in refused.err
    assert "next: name it learning-rate in space.yaml; or write" in refused.err
    taken = local.type("search", "./train.py", "--sweep", "x=1,2", "--dry-run", "--", "--learning-rate={x}")
    assert taken.code == 0, taken.err
    assert '--learning-rate="${own[0]#*=}"' in taken.out


def test_a_program_that_says_nothing_of_its_options_gets_them_as_typed_with_a_note(local: Desk) -> None:
    done = local.type("search", "./objective.py", *SPACE, "--dry-run")
    assert done.code == 0, done.err
    assert "how objective.py spells its options is not known, so it gets --x=… --y=…" in done.err


FAILING = """import sys
x = sys.argv[1].partition("=")[2]
print("begin", x)
sys.exit("train.py: error: unrecognized arguments" if {bad} else 0)
"""


def test_a_search_whose_trials_failed_is_failed_and_shows_the_last_lines_of_the_first(local: Desk) -> None:
    local.write("train.py", FAILING.format(bad="True"))
    done = local.type("search", "./train.py", "--sweep", "x=1,2", "--wait")
    assert done.code == 1
    assert "2 of 2 trials FAILED; the first is trial 0: " in done.err
    assert "  | begin 1\n  | train.py: error: unrecognized arguments\n" in done.err
    assert local.type("status", "--json").json["runs"][0]["state"] == "FAILED"
    assert local.type("search", "status", "--json").json["state"] == "FAILED"
    assert "  | train.py: error: unrecognized arguments\n" in local.type("search", "results").err
    assert "  | train.py: error: unrecognized arguments\n" in local.type("logs").out
    if find_spec("matplotlib"):
        assert local.type("report", "@1", "-o", "page.html").code == 0
        page = (local.project / "page.html").read_text()
        assert "2 of 2 trials FAILED; the first is trial 0: " in page
        assert "The last lines of the log of trial 0" in page
    again = local.type("search", "resume")
    assert (again.code, "nothing to continue" in again.err) == (1, True)


def test_a_search_with_a_failed_trial_among_others_completes_and_counts_it(local: Desk) -> None:
    local.write("train.py", FAILING.format(bad="x == '2'"))
    done = local.type("search", "./train.py", "--sweep", "x=1,2,3", "--wait")
    assert done.code == 0, done.err
    assert "1 of 3 trials FAILED; the first is trial 1: " in done.err
    assert "  | begin 2\n  | train.py: error: unrecognized arguments\n" in done.err
    assert local.type("search", "status", "--json").json["state"] == "COMPLETED"


def test_a_range_with_whole_ends_has_all_numbers_and_says_how_to_have_whole_ones(local: Desk) -> None:
    words = ("search", "./objective.py", "--space", "space.yaml", "--sampler", "random", "--trials", "4")
    local.write("space.yaml", "metric: loss\nparameters: {x: {min: 0, max: 1}, y: {min: 0, max: 1, int: true}}\n")
    done = local.type(*words, "--wait", "--json")
    assert done.code == 0, done.err
    assert "space.yaml: x: any number of the range is tried" in done.err
    assert "int: true tries whole numbers only" in done.err
    rows = [one["values"] for one in done.json["trials"]]
    assert all(0 < row["x"] < 1 and row["y"] in (0, 1) for row in rows)
    local.write("space.yaml", "metric: loss\nparameters: {x: {min: 0, max: 1, int: false}, y: [0]}\n")
    assert "any number of the range" not in local.type(*words, "--dry-run").err


def test_a_grid_that_earlier_versions_made_of_whole_numbers_says_what_has_changed(local: Desk) -> None:
    words = ("search", "./objective.py", "--space", "space.yaml", "--map", "z=x")
    local.write("space.yaml", "metric: loss\nparameters: {z: {min: 0, max: 3}, y: {min: 0, max: 0.5}}\n")
    refused = local.type(*words, "--dry-run")
    assert refused.code == 1
    x, y = (line for line in refused.err.splitlines() if "a grid needs to know" in line)
    assert x.startswith("error: x: ")
    assert x.endswith("(earlier versions of hpclaunch tried the whole numbers of this range)")
    assert "earlier versions" not in y


def test_a_search_that_was_begun_with_whole_numbers_continues_with_them(local: Desk) -> None:
    local.write("slow.py", GATED)
    local.write("space.yaml", "parameters: {n: {min: 0, max: 5, int: true}}\n")
    assert local.type("search", "./slow.py", "--space", "space.yaml").code == 0

    def finished() -> int:
        return int(local.type("search", "status", "--json").json["trials"].get("COMPLETED", 0))

    wait_for(lambda: finished() == 3, "all but those at the gate have ended")
    local.type("search", "cancel")
    local.write("space.yaml", "parameters: {n: {min: 0, max: 5}}\n")  # as it meant whole numbers before
    local.write("open", "")
    assert local.type("search", "resume").code == 0
    wait_for(lambda: local.type("search", "status", "--json").json["state"] == "COMPLETED", "the search has ended")
    trials = local.type("search", "results", "--json").json["trials"]
    assert [one["values"]["n"] for one in trials] == [0, 1, 2, 3, 4, 5]
