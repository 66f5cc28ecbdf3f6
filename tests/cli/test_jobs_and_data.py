from __future__ import annotations

import re
import tarfile
from pathlib import Path

import pytest

from tests.cli.conftest import Desk


def test_jobs_are_listed_and_shown(desk: Desk) -> None:
    rows = desk.type("jobs", "list", "--json").json
    assert {row["name"] for row in rows} >= {"cifar", "mnist"}
    assert "cifar\tbundled\t" in desk.type("jobs", "list").out
    assert desk.type("jobs", "show", "cifar", "--json").json["parameters"]["epochs"]["default"] == 12
    shown = desk.type("jobs", "show", "cifar").out
    assert "epochs\tint\t12\t" in shown
    assert "\n--strategy horovod, mirrored, multiworker\n" in shown
    assert "\n[training]\t\t\t\nepochs\t" in shown and "\n[learning rate]\t\t\t\nlearning_rate\tfloat\t0.001\t" in shown
    assert "\n[this job]\t\t\t\nimage_size\tint\t500\tpixels per side" in desk.type("jobs", "show", "chips").out


def joined(script: str) -> str:
    """The script with every continued line in one."""
    return re.sub(r" *\\\n *", " ", script)


def test_only_what_is_typed_stands_in_the_script_of_a_bundled_job(desk: Desk) -> None:
    words = ("submit", "cifar", "--synthetic", "--dry-run", "--site", "local", "--recipe", "job")
    script = joined(desk.type(*words).out)
    assert "train.py --synthetic=true\n" in script
    script = joined(desk.type(*words, "--set", "epochs=12").out)
    assert "train.py --epochs=12 --synthetic=true\n" in script


def test_a_fault_in_a_jobs_parameters_names_file_key_and_what_is_allowed(desk: Desk) -> None:
    desk.write("jobs/mine/job.yaml", "summary: x\nscript: a.py\nparameters: {from: parameters.json}\n")
    desk.write("jobs/mine/parameters.json", '{"from": "training", "epoch": 3, "seed": -1}')
    done = desk.type("submit", "mine", "--dry-run", "--site", "local")
    assert (done.code, done.out) == (1, "")
    path = desk.project / "jobs/mine/parameters.json"
    assert f"{path}: epoch: 'from' contains no parameter of this name; did you mean 'epochs'?; allowed: epo" in done.err
    assert f"{path}: seed: -1 is not a number that is at least 0" in done.err


def test_a_new_job_can_be_submitted_at_once(desk: Desk) -> None:
    done = desk.type("jobs", "new", "mine")
    assert Path(done.out.strip()) == desk.project / "jobs/mine"
    shown = desk.type("submit", "mine", "--dry-run", "--site", "local", "--set", "epochs=3")
    assert shown.code == 0, shown.err
    assert "--epochs=3" in shown.out
    assert "warning: the job is the project's own" in shown.err


def test_a_new_job_from_a_script(desk: Desk) -> None:
    desk.write("old.py", "print('old')\n")
    assert desk.type("jobs", "new", "mine", "--script", "old.py").code == 0
    assert (desk.project / "jobs/mine/old.py").read_text() == "print('old')\n"
    shown = desk.type("jobs", "show", "mine")
    assert shown.code == 0 and "--strategy" not in shown.out


def test_a_new_job_from_a_shell_script_runs_it_with_bash(desk: Desk) -> None:
    desk.write("it's run.sh", "echo hello\n")
    assert desk.type("jobs", "new", "1", "--script", "it's run.sh").code == 0
    done = desk.type("submit", "1", "--dry-run", "--site", "local")
    assert done.code == 0, done.err
    assert "code/it'\"'\"'s run.sh'" in done.out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["jobs", "new", "a b"], 2, "'a b' is not a job name"),
        (["jobs", "new", "../x"], 2, "is not a job name"),
        (["jobs", "new", "mine", "--script", "none.py"], 1, "the script does not exist"),
        (["jobs", "new", "there"], 1, "exists already"),
        (["jobs", "show", "cifr"], 1, "did you mean 'cifar'?"),
        (["jobs"], 2, "Usage"),
    ],
)
def test_what_is_wrong_with_a_job_is_told(desk: Desk, words: list[str], code: int, message: str) -> None:
    (desk.project / "jobs/there").mkdir(parents=True)
    done = desk.type(*words)
    assert done.code == code
    assert message in done.err + done.out


def test_data_is_fetched_from_an_archive_and_then_found(desk: Desk) -> None:
    source = desk.write("source/train/airplane/a.png", "x")
    with tarfile.open(desk.project / "cifar.tar.gz", "w:gz") as tar:
        tar.add(source.parents[1], "train")
    done = desk.type("data", "fetch", "cifar", "--from", "cifar.tar.gz", "--data-dir", "data", "--site", "local")
    assert (done.code, done.out.strip()) == (0, str(desk.project / "data/cifar10")), done.err
    dry = desk.type("submit", "cifar", "--dry-run", "--site", "local", "--data-dir", "data")
    assert "data set" not in dry.err
    assert f"export HPCLAUNCH_DATA_DIR={desk.project}/data\n" in dry.out


def test_data_needs_a_folder(desk: Desk) -> None:
    done = desk.type("data", "fetch", "cifar", "--from", "x", "--site", "local")
    assert (done.code, "no data folder is known at local" in done.err) == (1, True)
