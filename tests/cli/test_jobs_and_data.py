from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path

import pytest

from tests.cli.conftest import Desk


def test_jobs_are_listed_and_shown(desk: Desk) -> None:
    rows = desk.type("jobs", "list", "--json").json["jobs"]
    assert {row["name"] for row in rows} >= {"cifar", "mnist"}
    assert "cifar\tbundled\t" in desk.type("jobs", "list").out
    assert desk.type("jobs", "show", "cifar", "--json").json["parameters"]["epochs"]["default"] == 12
    shown = desk.type("jobs", "show", "cifar").out
    assert "epochs\tint\t12\t" in shown
    assert "\n--strategy horovod, mirrored, multiworker, central-storage, one-device\n" in shown
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


def test_a_new_job_that_hides_a_bundled_one_says_so(desk: Desk) -> None:
    assert (
        "warning: in this project cifar now means the new job: the bundled job" in desk.type("jobs", "new", "cifar").err
    )
    assert "warning" not in desk.type("jobs", "new", "another").err


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


def test_a_setting_names_the_data_set_that_is_fetched_and_looked_for(desk: Desk) -> None:
    source = desk.write("copy/train-images-idx3-ubyte.gz", "x").parent
    words = ("--data-dir", "data", "--site", "local", "--set", "dataset=fashion_mnist")
    done = desk.type("data", "fetch", "mnist", "--from", str(source), *words)
    assert (done.code, done.out.strip()) == (0, str(desk.project / "data/fashion_mnist")), done.err
    for setting, missing in (("dataset=fashion_mnist", False), ("dataset=mnist", True)):
        dry = desk.type("submit", "mnist", "--dry-run", "--site", "local", "--data-dir", "data", "--set", setting)
        assert ("the data set mnist was not found" in dry.err) == missing, dry.err
    lost = desk.type("submit", "mnist", "--dry-run", "--site", "local", "--data-dir", ".", *words[-2:])
    assert "next: hpclaunch data fetch mnist --set dataset=fashion_mnist, or" in lost.err
    for words, message in (
        (("mnist", "--set", "dataset=kmnist"), "no data set is named 'kmnist'"),
        (("mnist", "--set", "epochs=3"), "only the data set can be chosen (dataset)"),
        (("cifar", "--set", "dataset=x"), "no program makes the data of cifar"),
    ):
        refused = desk.type("data", "fetch", *words, "--data-dir", "data", "--site", "local")
        assert (refused.code, message in refused.err) == (1, True), refused.err


def test_data_needs_a_folder(desk: Desk) -> None:
    done = desk.type("data", "fetch", "cifar", "--from", "x", "--site", "local")
    assert (done.code, "no data folder is known at local" in done.err) == (1, True)


def test_data_is_made_from_text_by_the_jobs_own_program(desk: Desk) -> None:
    for number in range(9):
        desk.write(f"texts/{number}.txt", f"text number {number}\n")
    words = ("data", "fetch", "transformer", "--data-dir", "data", "--site", "local")
    done = desk.type(*words, "--from", "texts", "--set", "vocabulary=260")
    assert (done.code, done.out.strip()) == (0, str(desk.project / "data/text")), done.err
    assert "encoding 7 documents: train\n" in done.err and "\nSHA-256 " in done.err
    record = json.loads((desk.project / "data/text/tokens.json").read_text())
    assert (record["vocabulary"], record["source"]) == (260, str(desk.project / "texts"))
    assert desk.type(*words, "--from", "texts").code == 0  # it is there: nothing is made again
    other = desk.type(*words, "--from", "texts", "--set", "vocabulary=257")
    assert (other.code, "holds a data set that was made with vocabulary=260" in other.err) == (1, True)
    other = desk.type(*words, "--from", "elsewhere")
    assert f"made with from {desk.project}/texts" in other.err
    copied = desk.type("data", "fetch", "transformer", "--from", "data/text", "--data-dir", "copy", "--site", "local")
    assert (copied.code, (desk.project / "copy/text/train.npy").exists()) == (0, True), copied.err
    dry = desk.type("submit", "transformer", "--dry-run", "--site", "local", "--data-dir", "data")
    assert "data set" not in dry.err


@pytest.mark.parametrize(
    ("job", "words", "message"),
    [
        ("transformer", ("--from", "empty.txt"), "empty.txt: has 0 different documents with text"),
        ("transformer", ("--from", "binary"), "binary: is not text in UTF-8: byte 0 cannot be decoded"),
        ("transformer", ("--from", "short.txt", "--set", "vocabulary=999"), "the text allows at most 257 tokens"),
        ("transformer", ("--from", "short.txt", "--sha256", "00"), "its SHA-256 is "),
        ("transformer", ("--set", "vocabulary=256"), "--set vocabulary: '256' is not a number that is at least 257"),
        ("transformer", ("--set", "vocabluary=300"), "did you mean 'vocabulary'?"),
        ("cifar", ("--set", "epochs=3"), "--set epochs: no program makes the data of cifar, so nothing can be set"),
    ],
)
def test_what_cannot_be_made_is_refused_in_one_line(desk: Desk, job: str, words: tuple[str, ...], message: str) -> None:
    desk.write("empty.txt", "\n")
    desk.write("short.txt", "a\n\nb\n\nc\n")
    (desk.project / "binary").write_bytes(b"\xff\xfe")
    done = desk.type("data", "fetch", job, *words, "--data-dir", "data", "--site", "local")
    assert done.code == 1 and message in done.err, done.err
    assert [line for line in done.err.splitlines() if line.startswith("error")] and "Traceback" not in done.err
    assert not (desk.project / "data").exists() or list((desk.project / "data").iterdir()) == []


def test_a_projects_program_makes_no_data_before_the_project_is_trusted(desk: Desk) -> None:
    desk.write("jobs/mine/train.py", "")
    desk.write("jobs/mine/make.py", "import sys\nopen(sys.argv[1] + '/made', 'w').write(' '.join(sys.argv[2:]))\n")
    make = {"program": "make.py", "parameters": ["size"]}
    data = {"name": "mine", "layouts": ["made"], "make": make}
    job = {"summary": "mine", "script": "train.py", "parameters": {"size": 3}, "data": data}
    desk.write("jobs/mine/job.yaml", json.dumps(job))
    words = ("data", "fetch", "mine", "--data-dir", "data", "--site", "local")
    done = desk.type(*words)
    assert (done.code, "is not a trusted folder" in done.err) == (1, True)
    assert f"  the program make.py of {desk.project}/jobs/mine" in done.err
    assert not (desk.project / "data").exists()
    desk.type("trust")
    done = desk.type(*words)
    assert (done.code, (desk.project / "data/mine/made").read_text()) == (0, "--size=3"), done.err


def test_a_program_that_fails_leaves_nothing_and_its_last_line_is_the_reason(desk: Desk) -> None:
    desk.write("jobs/mine/train.py", "")
    desk.write("jobs/mine/make.py", "import sys\nprint('begins')\nsys.exit('first\\nno room for it')\n")
    data = {"name": "mine", "layouts": ["made"], "make": {"program": "make.py"}}
    desk.write("jobs/mine/job.yaml", json.dumps({"summary": "mine", "script": "train.py", "data": data}))
    desk.type("trust")
    done = desk.type("data", "fetch", "mine", "--data-dir", "data", "--site", "local")
    assert (done.code, done.err.splitlines()) == (
        1,
        ["begins", f"error: {desk.project}/jobs/mine/make.py: no room for it"],
    )
    assert list((desk.project / "data").iterdir()) == []
