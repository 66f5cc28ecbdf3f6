"""The same run again from its record: its script, its code and its values, and what is named as not the same."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Desk

JOB = """
summary: sweeps
script: train.py
resources: {nodes: 1}
parameters:
  learning_rate: 0.1
  seed: 1
"""


@pytest.fixture
def site(cluster: Desk) -> Desk:
    """A Slurm site with a job ``tune`` that declares its parameters."""
    cluster.write("jobs/tune/job.yaml", JOB)
    cluster.write("jobs/tune/train.py", "print('hello')\n")
    return cluster


def submitted(desk: Desk, *words: str) -> Path:
    done = desk.type("submit", *words)
    assert done.code == 0, done.err
    return Path(done.out.strip())


def again(desk: Desk, run: Path | str, *words: str) -> tuple[Path, str]:
    done = desk.type("rerun", getattr(run, "name", run), *words)
    assert done.code == 0, done.err
    return Path(done.out.strip()), done.err


def own(text: str, run: Path) -> str:
    """A script without what differs in every run: its directory, and when it was rendered."""
    return re.sub(r"at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "at TIME", text.replace(str(run), "RUN"))


def test_the_new_run_has_the_script_the_code_and_the_values_of_the_first(site: Desk) -> None:
    first = submitted(site, "tune", "--nodes", "2", "--set", "seed=7", "--walltime", "4m", "--", "--more")
    site.write("jobs/tune/train.py", "print('another program')\n")
    site.write("jobs/tune/job.yaml", JOB.replace("0.1", "0.5"))
    second, told = again(site, first)
    assert f"everything that is recorded of {first.name} is the same" in told
    assert second.parent == first.parent and second != first
    assert own((second / "job.sh").read_text(), second) == own((first / "job.sh").read_text(), first)
    assert (second / "code/train.py").read_text() == "print('hello')\n"
    parameters = [json.loads((run / "spec.json").read_text())["parameters"] for run in (first, second)]
    assert parameters[0] == parameters[1] == [["learning_rate", "0.1"], ["seed", "7"]]
    assert json.loads((second / "rerun.json").read_text()) == {
        "format": 1,
        "rerun_of": str(first),
        "not_the_same": [],
    }
    third, told = again(site, second)  # the new run has a record of its own
    assert f"everything that is recorded of {second.name} is the same" in told
    assert own((third / "job.sh").read_text(), third) == own((first / "job.sh").read_text(), first)


def test_what_files_would_choose_now_is_replaced_by_what_they_chose_then(site: Desk) -> None:
    first = submitted(site, "tune")
    file = site.project / "site_configs/slurmsite.yaml"
    file.write_text(file.read_text().replace('walltime: "00:10:00"', 'walltime: "00:20:00"'))
    second, told = again(site, first)
    assert "is the same" in told
    assert own((second / "job.sh").read_text(), second) == own((first / "job.sh").read_text(), first)


def test_what_the_site_no_longer_has_is_named(site: Desk) -> None:
    first = submitted(site, "tune")
    file = site.project / "site_configs/slurmsite.yaml"
    file.write_text(file.read_text().replace("{mpi: pmix}", "{mpi: pmi2}"))
    done = site.type("rerun", first.name, "--dry-run", "--json")
    assert done.code == 0, done.err
    assert done.json["rerun_of"] == str(first)
    (difference,) = done.json["not_the_same"]
    assert difference["what"] == "launch" and "--mpi=pmi2" in difference["now"] and "--mpi=pmix" in difference["before"]
    assert f"not the same as {first.name}:" in done.err and "--mpi=pmi2" in done.err
    assert [path.name for path in first.parent.iterdir()] == [first.name]


@pytest.mark.parametrize("library", ["training.zip", "training/__init__.py"])
def test_another_version_is_named_and_the_runs_own_library_is_copied(site: Desk, library: str) -> None:
    first = submitted(site, "tune")
    spec = json.loads((first / "spec.json").read_text())
    (first / "spec.json").write_text(json.dumps({**spec, "version": "0.0.9"}))
    assert "  hpclaunch: 0.1.0 instead of 0.0.9" in again(site, first)[1]
    site.write(str(first / "code/hpclaunch" / library), "its own")  # a folder: as hpclaunch 0.1 left it
    second, told = again(site, first)
    assert "hpclaunch (the training library is the run's own copy): 0.1.0 instead of 0.0.9" in told
    copied = [path for path in (second / "code/hpclaunch").rglob("*") if path.is_file()]
    assert [(str(path.relative_to(second / "code/hpclaunch")), path.read_text()) for path in copied] == [
        (library, "its own")
    ]


def test_a_copy_of_the_code_that_somebody_changed_is_named(site: Desk) -> None:
    first = submitted(site, "tune")
    later = time.time() + 60
    os.utime(first / "code/train.py", (later, later))
    _, told = again(site, first, "--dry-run")
    assert "the run's copy of its code was changed after its submission: train.py" in told


def test_code_in_place_that_has_changed_is_named_and_other_code_is_not(site: Desk) -> None:
    first = submitted(site, "./train.py", "--code-in-place")
    now = (first / "request.json").stat().st_mtime - 60
    os.utime(first / "request.json", (now, now))  # as if the files here had been changed after it
    second, told = again(site, first)
    assert f"the code is used in place, in {site.project}, and was changed after the submission: " in told
    assert not (second / "code/train.py").exists()
    later = time.time() + 60
    os.utime(first / "request.json", (later, later))
    _, told = again(site, first, "--dry-run")
    assert "everything that is recorded" in told


def test_a_job_that_is_used_in_place_keeps_its_own_parameters(site: Desk) -> None:
    """Those of its job file: a script alone has none."""
    first = submitted(site, "tune", "--code-in-place", "--set", "learning_rate=0.2")
    second, _ = again(site, first)
    assert own((second / "job.sh").read_text(), second) == own((first / "job.sh").read_text(), first)
    assert "--learning-rate=0.2" in (second / "job.sh").read_text()


def test_data_that_have_changed_are_named(site: Desk) -> None:
    for name in "abcd":
        site.write(f"samples/{name}.bin", name)
    first = submitted(site, "./train.py", "--data-dir", str(site.project / "samples"))
    began = time.time() + 60
    os.utime(first / "request.json", (began, began))
    _, told = again(site, first, "--dry-run")
    assert "everything that is recorded" in told
    os.utime(first / "request.json", (began - 3600, began - 3600))
    _, told = again(site, first, "--dry-run")
    place = f"in {site.project}/samples was changed after the run began"
    assert re.search(f"{re.escape(place)}: samples, samples/[abcd].bin, samples/[abcd].bin and 2 others", told)


def test_what_a_run_went_through_is_named_and_its_data_are_those_of_its_last_start(site: Desk) -> None:
    site.write("samples/a.bin", "a")
    first = submitted(site, "./train.py", "--data-dir", str(site.project / "samples"))
    os.utime(first / "request.json", (1, 1))
    job_id = json.loads((first / "run.json").read_text())["job_id"]

    def start(number: int, when: float) -> None:
        folder = first / f"attempts/{job_id}.{number}"
        folder.mkdir(parents=True)
        (folder / "started").touch()
        os.utime(folder / "started", (when, when))

    start(0, 1)
    _, told = again(site, first, "--dry-run")
    assert "was changed after the run began" in told and "starts" not in told
    start(1, time.time() + 60)
    (first / "spec.1.json").write_text("{}")
    record = {**json.loads((first / "run.json").read_text()), "allocation": "77"}
    (first / "run.json").write_text(json.dumps(record))
    _, told = again(site, first, "--dry-run")
    assert "was changed after the run began" not in told
    assert "the run continued from checkpoints in 2 starts; the new one trains from its beginning" in told
    assert "the original changed options when it was resumed" in told
    assert "the run was inside the allocation 77; the new one is submitted" in told


def test_a_whole_array_is_made_again_and_one_run_of_it_alone(site: Desk) -> None:
    first = submitted(site, "tune", "--sweep", "seed=1,2,3", "--set", "learning_rate=0.2")
    second, told = again(site, first)
    assert "everything that is recorded" in told
    assert (second / "values").read_text() == (first / "values").read_text()
    assert own((second / "job.sh").read_text(), second) == own((first / "job.sh").read_text(), first)
    one, told = again(site, f"{first.name}/0001")
    assert "not the same" not in told, told
    spec = json.loads((one / "spec.json").read_text())
    assert dict(spec["parameters"]) == {"learning_rate": "0.2", "seed": "2"} and spec["sweep"] is None
    assert one.parent == first.parent


def test_one_run_of_an_array_of_free_words_is_refused_with_what_works(site: Desk) -> None:
    first = submitted(site, "./train.py", "--sweep", "lr=1,2")
    done = site.type("rerun", f"{first.name}/0001")
    assert done.code == 1
    assert "declares no parameters, so its values are words" in done.err
    assert f"hpclaunch rerun {first.name} makes the whole array again" in done.err
    assert [path.name for path in first.parent.iterdir()] == [first.name]


@pytest.mark.parametrize(
    ("lost", "message"),
    [("spec.json", "has no spec.json that can be read"), ("request.json", "missing or damaged: 'target' is missing")],
)
def test_a_run_without_its_record_is_refused(site: Desk, lost: str, message: str) -> None:
    first = submitted(site, "tune")
    (first / lost).unlink()
    done = site.type("rerun", first.name)
    assert done.code == 1 and message in done.err
    assert f"a new run of its code: hpclaunch submit {first}/code" in done.err


def test_a_run_whose_folder_is_gone_is_refused(site: Desk, tmp_path: Path) -> None:
    first = submitted(site, "tune")
    request = json.loads((first / "request.json").read_text())
    (first / "request.json").write_text(json.dumps({**request, "cwd": str(tmp_path / "gone")}))
    done = site.type("rerun", first.name)
    assert done.code == 1 and f"the folder where {first.name} was submitted no longer exists" in done.err


def test_a_run_of_another_cluster_is_refused(site: Desk) -> None:
    site.fake("scontrol", out="ClusterName = alpha\nSlurmctldHost[0] = a\n")
    first = submitted(site, "tune")
    site.fake("scontrol", out="ClusterName = beta\nSlurmctldHost[0] = b\n")
    done = site.type("rerun", first.name)
    assert done.code == 1 and "is a run of the cluster alpha" in done.err


def test_test_only_asks_the_scheduler_and_writes_nothing(site: Desk) -> None:
    first = submitted(site, "tune")
    site.fake("sbatch", err="sbatch: Job 4712 to start at 2026-01-02T03:04:05\n")
    done = site.type("rerun", first.name, "--test-only")
    assert done.code == 0 and "2026-01-02" in done.out, done.err
    assert [path.name for path in first.parent.iterdir()] == [first.name]
    both = site.type("rerun", first.name, "--test-only", "--dry-run")
    assert both.code == 2 and "leave one of them out" in both.err


def test_it_runs_here_and_names_both_runs(desk: Desk) -> None:
    desk.write("train.py", "import sys\nprint('hello', *sys.argv[1:])\n")
    first = desk.type("submit", "./train.py", "--site", "local", "--wait", "--", "--x=1")
    assert first.code == 0, first.err
    done = desk.type("rerun", "@1", "--wait", "--json")
    assert done.code == 0, done.err
    assert done.json["state"] == "COMPLETED"
    second = Path(done.json["run_dir"])
    assert json.loads((second / "rerun.json").read_text())["rerun_of"] == first.out.strip()
    (log,) = (second / "logs").glob("[!r]*.out")
    assert "hello --x=1" in log.read_text()
