"""The names of runs: typed with --name, meant by @latest, @2 or a prefix, and waited for with --after."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Desk


def submit(desk: Desk, job_id: int, *words: str) -> Path:
    desk.fake("sbatch", out=f"Submitted batch job {job_id}\n")
    done = desk.type("submit", "./train.py", *words)
    assert done.code == 0, done.err
    return Path(done.out.strip())


def directives(desk: Desk) -> list[str]:
    lines = (desk.spool / "script").read_text().split("\n")
    return [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH")]


def names(desk: Desk, *words: str) -> list[str]:
    return [row["run"] for row in desk.type("status", *words, "--json").runs]


@pytest.mark.parametrize("words", [("--name", "first.try"), ("--sbatch", "--job-name=first.try")])
def test_a_typed_name_is_that_of_the_job_and_of_the_directory(cluster: Desk, words: tuple[str, str]) -> None:
    run = submit(cluster, 1, *words)
    assert run.name.startswith("first.try-2")
    assert "--job-name=first.try" in directives(cluster)
    assert names(cluster, "first.try") == [run.name]
    record = json.loads((run / "run.json").read_text())
    assert record["name"] == "train", "the name of the job stays, by which its measurements are known"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--name", "4711"), "--name: '4711' cannot be the name of a run; allowed: a letter, then"),
        (("--name", "a b"), "'a b' cannot be the name"),
        (("--name", "../../x"), "cannot be the name"),
        (("--name", "@2"), "cannot be the name"),
        (("--name", "a\n#SBATCH --wrap=x"), "cannot be the name"),
        (("--sbatch", "--job-name="), "--sbatch --job-name=: '' cannot be the name"),
        (("--name", "one", "--sbatch", "--job-name=two"), "2 names: two, one; allowed: one name"),
    ],
)
def test_a_name_that_no_run_can_have_is_refused(cluster: Desk, words: tuple[str, ...], told: str) -> None:
    done = cluster.type("submit", "./train.py", *words)
    assert (done.code, told in done.err, "next: --name" in done.err) == (2, True, True), done.err
    assert not (cluster.project / "runs").exists()


def test_a_job_name_in_a_file_is_referred_to_the_flag(cluster: Desk) -> None:
    cluster.write("hpclaunch.yaml", "sbatch: [--job-name=x]\n")
    done = cluster.type("submit", "./train.py", "--dry-run")
    assert (done.code, "use --name instead" in done.err) == (1, True), done.err


def test_runs_by_their_age(cluster: Desk) -> None:
    one, two, three = (submit(cluster, number, "--name", name) for number, name in enumerate("abc", 1))
    assert names(cluster, "@latest") == names(cluster, "@1") == [three.name]
    assert names(cluster, "@2", "@3") == [two.name, one.name]
    (two / "logs/slurm-2.out").write_text("of the second\n")
    assert cluster.type("logs", "@2").out == "of the second\n"
    done = cluster.type("status", "@4")
    assert (done.code, "'@4' names no run: there are only 3; allowed: @1 to @3" in done.err) == (1, True)
    for wrong in ("@", "@0", "@x", "@-1", "@latestx", "@" + "9" * 5000):
        assert cluster.type("cancel", wrong).code == 1
    assert not (cluster.spool / "scancel.args").exists()


def test_the_run_of_another_user_is_no_latest_run(cluster: Desk) -> None:
    own = submit(cluster, 1)
    other = cluster.project / "runs/zzz-20991231-000000-ffffffff"
    shutil.copytree(own, other)
    text = (other / "run.json").read_text().replace('"created": "2', '"created": "9')
    (other / "run.json").write_text(text)
    assert names(cluster, "@latest") == [own.name]


def test_a_run_of_the_newest_array(cluster: Desk) -> None:
    cluster.write("jobs/tune/job.yaml", "summary: x\nscript: train.py\nparameters: {seed: 1}\n")
    cluster.write("jobs/tune/train.py", "")
    assert cluster.type("submit", "tune", "--sweep", "seed=1..3").code == 0
    (found,) = names(cluster, "@latest/0001")
    assert found.startswith("tune-") and found.endswith("/0001")
    assert cluster.type("status", "@latest/0007").code == 1


def test_the_letters_with_which_only_one_name_begins(cluster: Desk) -> None:
    one, two = submit(cluster, 1, "--name", "alpha"), submit(cluster, 2, "--name", "alphabet")
    assert names(cluster, "alphab") == [two.name]
    assert names(cluster, "alpha") == [one.name], "a whole part of the name comes first"
    refused = cluster.type("cancel", "al")
    assert (refused.code, "'al' matches 2 runs" in refused.err) == (1, True)
    assert cluster.type("status", "lpha").code == 1
    assert names(cluster, one.name[:-1]) == [one.name]


def test_a_run_after_others(cluster: Desk) -> None:
    submit(cluster, 11, "--name", "a")
    submit(cluster, 12, "--name", "b")
    cluster.fake("squeue", out="11|RUNNING|None|n1\n12|PENDING|Priority|\n")
    run = submit(cluster, 13, "--after", "a", "--after-any", "@latest")
    assert {"--dependency=afterok:11,afterany:12", "--kill-on-invalid-dep=yes"} <= set(directives(cluster))
    assert len(json.loads((run / "spec.json").read_text())["after"]) == 2
    submit(cluster, 14, "--after", "a", "--after", "b", "--after-any", "a")
    assert "--dependency=afterok:11:12" in directives(cluster)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--after", ""), 2, "--after: the text is empty; allowed: a run, or the number of a job"),
        (("--after-any", " "), 2, "--after-any: the text is empty"),
        (("--after", "11,12"), 2, "--after: '11,12' is no single run; allowed: one run or job each"),
        (("--after-any", "a:b"), 2, "next: --after-any a --after-any b"),
        (("--after", "afterok:11"), 2, "next: --after 11\n"),
        (("--after", "afterany:11:4712"), 2, "next: --after-any 11 --after-any 4712\n"),
        (("--after", "afterany:11,afterok:12:13"), 2, "next: --after-any 11 --after 12 --after 13\n"),
        (("--after", "afterok:11,afternotok:12"), 2, "next: --sbatch --dependency=afterok:11,afternotok:12\n"),
        (("--after", "afterok:11?afterany:12"), 2, "next: --sbatch '--dependency=afterok:11?afterany:12'\n"),
        (("--after", "afternotok:11"), 2, "next: --sbatch --dependency=afternotok:11\n"),
        (("--after", "0"), 1, "no run is called '0'"),
    ],
)
def test_words_that_name_no_single_run_are_not_waited_for(
    cluster: Desk, words: tuple[str, str], code: int, told: str
) -> None:
    submit(cluster, 11, "--name", "a")
    done = cluster.type("submit", "./train.py", *words, "--dry-run")
    assert (done.code, told in done.err) == (code, True), done.err


def test_the_data_of_a_run_may_come_from_the_run_that_it_waits_for(cluster: Desk) -> None:
    run = submit(cluster, 11)
    cluster.fake("squeue", out="11|RUNNING|None|n1\n")
    words = ("submit", "cifar", "--nodes", "1", "--data-dir", str(cluster.project / "later"))
    refused = cluster.type(*words)
    assert (refused.code, "the data set cifar10 was not found" in refused.err) == (1, True)
    done = cluster.type(*words, "--after", run.name)
    assert done.code == 0, done.err
    told = f"the data set cifar10 is not in {words[-1]} yet: what this run waits for must make it"
    assert f"{told}, but the command of {run.name} does not contain this folder\n" in done.err
    maker = submit(cluster, 11, "--", "--folder", words[-1])
    done = cluster.type(*words, "--after", maker.name)
    assert (done.code, f"{told}\n" in done.err) == (0, True), done.err


def test_the_data_must_be_there_if_nothing_is_waited_for(cluster: Desk) -> None:
    run = submit(cluster, 11)
    cluster.fake("sacct", out="11|COMPLETED|0:0|n1\n")
    words = ("--nodes", "1", "--data-dir", str(cluster.project / "later"), "--after", run.name)
    refused = cluster.type("submit", "cifar", *words)
    assert (refused.code, "the data set cifar10 was not found" in refused.err) == (1, True)


def test_a_dry_run_waits_for_what_is_recorded_and_asks_no_scheduler(cluster: Desk) -> None:
    submit(cluster, 11)
    for name in ("squeue", "sacct", "scontrol"):
        (cluster.spool / f"{name}.args").unlink(missing_ok=True)
    done = cluster.type("submit", "./train.py", "--after", "@latest", "--dry-run")
    assert "#SBATCH --dependency=afterok:11\n" in done.out
    assert not [name for name in ("squeue", "sacct", "scontrol") if (cluster.spool / f"{name}.args").exists()]


def test_what_has_ended_is_not_waited_for(cluster: Desk) -> None:
    run = submit(cluster, 11)
    cluster.fake("sacct", out="11|COMPLETED|0:0|n1\n")
    done = cluster.type("submit", "./train.py", "--after", "11")
    assert (done.code, "dependency" in "".join(directives(cluster))) == (0, False)
    assert f"{run.name} has ended already (COMPLETED), so this run does not wait for it" in done.err


def test_what_cannot_complete_any_more_is_refused_before_anything_is_queued(cluster: Desk) -> None:
    run = submit(cluster, 11)
    cluster.fake("sacct", out="11|FAILED|1:0|n1\n")
    (cluster.spool / "sbatch.args").unlink()
    done = cluster.type("submit", "./train.py", "--after", "11")
    assert done.code == 1
    assert f"--after: {run.name} cannot complete any more: its state is FAILED; allowed: a run of slurmsite" in done.err
    assert f"next: hpclaunch resume {run.name}, then submit again; or --after-any {run.name}" in done.err
    assert not (cluster.spool / "sbatch.args").exists()
    assert cluster.type("submit", "./train.py", "--after-any", "11").code == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--after", "nothing"), "no run is called 'nothing'"),
        (("--after", "@latest", "--sbatch", "--dependency=singleton"), "the job would wait for two things"),
        (("--after", "rendered"), "has no job: its state is RENDERED"),
        (("--after", "chain"), "may continue in another job"),
        (("--after", "@latest", "--site", "local"), "--after has no meaning at local"),
        (("--after-any", "@latest", "--site", "local"), "next: hpclaunch wait RUN, then leave --after-any out"),
        (("--after", "@latest", "--site", "perlmutter", "--account", "m1"), "is a run of slurmsite, and this one is"),
    ],
)
def test_runs_that_no_job_can_wait_for(cluster: Desk, words: tuple[str, ...], told: str) -> None:
    site = cluster.project / "site_configs/slurmsite.yaml"
    assert cluster.type("render", "./train.py", "--name", "rendered", "-o", "x.sh").code == 0
    site.write_text(site.read_text() + "restart: resubmit\n")
    submit(cluster, 10, "--name", "chain", "--restarts", "2")
    submit(cluster, 11)
    done = cluster.type("submit", "./train.py", *words, "--dry-run")
    assert (done.code, told in done.err, "next: " in done.err) == (1, True, True), done.err


def test_a_further_start_does_not_wait_again(cluster: Desk) -> None:
    submit(cluster, 11, "--name", "a")
    cluster.fake("squeue", out="11|RUNNING|None|n1\n")
    submit(cluster, 12, "--after", "a")
    cluster.fake("squeue")
    cluster.fake("sacct", out="11|COMPLETED|0:0|n1\n12|TIMEOUT|0:0|n1\n")
    cluster.fake("sbatch", out="Submitted batch job 13\n")
    done = cluster.type("resume", "12")
    assert done.code == 0, done.err
    assert "dependency=" not in "".join(directives(cluster))


@pytest.mark.parametrize("verb", ["resume", "retry"])
def test_resume_and_retry_can_wait_for_the_end(cluster: Desk, verb: str) -> None:
    run = submit(cluster, 11)
    (run / "logs/slurm-11.out").write_text("of the first start\n")
    cluster.fake("sacct", out="11|NODE_FAIL|0:0|n1\n")
    assert names(cluster, "11") == [run.name]
    cluster.fake("sbatch", out="Submitted batch job 12\n")
    cluster.fake("sacct", out="11|NODE_FAIL|0:0|n1\n12|COMPLETED|0:0|n1\n")
    done = cluster.type(verb, "@latest", "--wait")
    assert done.code == 0, done.err
    assert f"{run.name}: COMPLETED" in done.err
    assert "of the first start" not in done.err
    assert done.out == f"{run}\n"


def test_a_parameter_by_its_initials(cluster: Desk) -> None:
    done = cluster.type("submit", "cifar", "--set", "lr=0.1", "--synthetic", "--gpus-per-node", "0", "--dry-run")
    assert "--set lr: cifar has no parameter 'lr'; did you mean 'learning_rate'?; allowed: the " in done.err
    assert " that hpclaunch jobs show cifar lists" in done.err and "momentum" not in done.err
    assert "next: --set learning_rate=0.1" in done.err


@pytest.mark.parametrize(
    ("queue", "past", "directive"),
    [
        ("9999|RUNNING\n9998_[0-3]|PENDING\n", "", "--dependency=afterok:9999,afterany:9998"),
        ("9998|PENDING\n", "9999|COMPLETED|\n", "--dependency=afterany:9998"),
        ("9999_1|FAILED\n9999_2|RUNNING\n", "9998|CANCELLED by 7|\n", "--dependency=afterok:9999"),
    ],
)
def test_a_job_of_another_program_is_waited_for(cluster: Desk, queue: str, past: str, directive: str) -> None:
    cluster.fake("squeue", out=queue)
    cluster.fake("sacct", out=past)
    submit(cluster, 13, "--after", "9999", "--after-any", "9998")
    assert {directive, "--kill-on-invalid-dep=yes"} <= set(directives(cluster))


def test_a_task_of_another_program_and_a_run_are_waited_for_together(cluster: Desk) -> None:
    submit(cluster, 11, "--name", "mine")
    cluster.fake("squeue", out="11|RUNNING|None|n1\n9999_3|RUNNING\n")
    submit(cluster, 13, "--after", "9999_3", "--after", "mine")
    assert "--dependency=afterok:11:9999_3" in directives(cluster)
    shown = cluster.type("submit", "./train.py", "--after", "777", "--dry-run")
    assert (shown.code, "#SBATCH --dependency=afterok:777" in shown.out) == (0, True), "a dry run asks no scheduler"


def test_a_job_that_cannot_be_waited_for_is_refused(cluster: Desk) -> None:
    cluster.fake("squeue", err="slurm_load_jobs error: Invalid job id specified\n", code=1)
    cluster.fake("sacct", out="9998|FAILED|\n")
    unknown = cluster.type("submit", "./train.py", "--after", "9999", "--after", "9998")
    assert unknown.code == 1 and "squeue --me" in unknown.err
    assert "--after: the scheduler knows no job 9999, and hpclaunch no run of it" in unknown.err
    assert "--after: job 9998 cannot complete any more: its state is FAILED" in unknown.err
    assert "next: submit that job again, then this one --after its number; or --after-any 9998\n" in unknown.err
    done = cluster.type("submit", "./train.py", "--after-any", "9998")
    assert (done.code, "job 9998 has ended already (FAILED)" in done.err) == (0, True), done.err
    plain = cluster.type("submit", "./train.py", "--after", "x", "--after", "9999").err
    assert "no run is called 'x'" in plain and "9999" not in plain


def test_a_silent_scheduler_leaves_the_wait_to_sbatch(cluster: Desk) -> None:
    cluster.fake("squeue", err="slurm_load_jobs error: Unable to contact slurm controller\n", code=1)
    submit(cluster, 13, "--after-any", "9999")
    assert "--dependency=afterany:9999" in directives(cluster)


def test_data_may_come_from_any_job_that_is_waited_for(cluster: Desk) -> None:
    cluster.fake("squeue", out="9999|RUNNING\n")
    words = ("submit", "cifar", "--nodes", "1", "--data-dir", str(cluster.project / "later"))
    done = cluster.type(*words, "--after", "9999")
    assert done.code == 0, done.err
    assert f"the data set cifar10 is not in {words[-1]} yet: what this run waits for must make it\n" in done.err
