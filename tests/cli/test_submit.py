from __future__ import annotations

import json
import stat
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from types import MappingProxyType

import pytest

from hpclaunch.actions.preparing.submit import prepare
from hpclaunch.actions.queueing.start import start
from hpclaunch.actions.system import System
from hpclaunch.core.spec import Request
from tests.cli.conftest import Desk


def directives(script: str) -> list[str]:
    return [line.removeprefix("#SBATCH ") for line in script.split("\n") if line.startswith("#SBATCH")]


def test_submit_hands_the_script_of_the_run_directory_to_sbatch(cluster: Desk) -> None:
    done = cluster.type("submit", "./train.py", "--nodes", "2", "--", "--lr", "0.1", "$HOME")
    assert done.code == 0
    run = Path(done.out.strip())
    assert run.parent == cluster.project / "runs"
    assert (cluster.spool / "script").read_bytes() == (run / "job.sh").read_bytes()
    assert "--nodes=2" in directives((run / "job.sh").read_text())
    assert "--lr 0.1 '$HOME'" in (run / "job.sh").read_text()
    assert (run / "code/train.py").read_text() == "print('hello')\n"
    assert (run / "logs").is_dir()
    assert "as job 4711 at slurmsite" in done.err
    for verb in ("status", "logs -f", "cancel"):
        assert f"hpclaunch {verb} {run.name}" in done.err
    assert json.loads((run / "run.json").read_text())["state"] == "PENDING"


def test_submit_as_json(cluster: Desk) -> None:
    done = cluster.type("submit", "./train.py", "--json")
    assert done.json["job_id"] == "4711"
    assert (done.json["site"], done.json["state"], done.json["name"]) == ("slurmsite", "PENDING", "train")
    assert Path(done.json["run_dir"]).is_dir()


def test_row_01_inside_a_job_sbatch_sees_nothing_of_that_job(cluster: Desk) -> None:
    inside = {
        "SLURM_JOB_ID": "7",
        "SLURM_NTASKS": "1",
        "SLURM_GPUS_PER_TASK": "1",
        "SLURM_MEM_PER_CPU": "100",
        "SLURM_CPU_BIND": "quiet",
        "SBATCH_ACCOUNT": "theirs",
        "SRUN_DEBUG": "3",
        "PMI_RANK": "0",
        "PMIX_RANK": "0",
        "OMPI_COMM_WORLD_SIZE": "1",
    }
    kept = {"SLURM_TIME_FORMAT": "b", "SLURM_CONF": cluster.environment["SLURM_CONF"]}
    assert cluster.type("submit", "./train.py", **inside, **kept).code == 0
    seen = cluster.environment_of("sbatch")
    assert not inside.keys() & seen.keys()
    assert kept.items() <= seen.items()
    assert not [line for line in directives((cluster.spool / "script").read_text()) if "account" in line]


def test_row_01_outside_a_job_sbatch_variables_are_what_the_user_wants(cluster: Desk) -> None:
    wanted = {"SBATCH_ACCOUNT": "mine", "SBATCH_PARTITION": "debug", "SBATCH_QOS": "low"}
    done = cluster.type("submit", "./train.py", "--walltime", "1", **wanted)
    assert "mine" in done.err and "(SBATCH_ACCOUNT)" in done.err
    written = directives((cluster.spool / "script").read_text())
    assert {"--account=mine", "--partition=debug", "--qos=low"} <= set(written)
    assert not wanted.keys() & cluster.environment_of("sbatch").keys()


def test_dry_run_writes_nothing_at_all_and_needs_no_slurm_and_no_data(cluster: Desk) -> None:
    for name in ("sbatch", "squeue", "sacct", "scancel"):
        (cluster.root / "bin" / name).unlink()
    before = cluster.listing()
    done = cluster.type("submit", "cifar", "--dry-run", "--nodes", "2", "--gpus-per-node", "0", "--cpus-per-task", "1")
    assert cluster.listing() == before
    assert done.code == 0
    script, _, missing = done.out.partition("\nfinish\n")  # the site has no software with TensorFlow
    assert script.startswith("#!/bin/bash\n") and missing.startswith("\n# slurmsite provides no known")
    assert "warning: no data folder is known for cifar10" in done.err
    assert "warning: there is no sbatch on this machine" in done.err


def test_render_to_stdout_writes_nothing_either(cluster: Desk) -> None:
    before = cluster.listing()
    done = cluster.type("render", "./train.py")
    assert cluster.listing() == before
    assert (done.code, done.out[:12]) == (0, "#!/bin/bash\n")


def test_dry_run_as_json_has_the_spec_and_the_script(cluster: Desk) -> None:
    document = cluster.type("submit", "./train.py", "--dry-run", "--json", "--nodes", "3").json
    assert document["spec"]["layout"]["nodes"] == 3
    assert document["script"].startswith("#!/bin/bash\n")


def test_what_is_printed_is_byte_for_byte_what_is_submitted(cluster: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", cluster.environment["PATH"])
    world = System(
        cwd=cluster.project,
        environment=MappingProxyType(dict(cluster.environment)),
        now=lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc),
        unique=lambda: "abcd",
    )
    hostile = ("--x", "$HOME `date`", "two\nlines", "ü", "\udcff", "")
    request = Request(target="./train.py", nodes=2, arguments=hostile, sbatch=("--comment=a 'b' # \"c\"",))
    printed = prepare(world, request).text
    run = start(world, prepare(world, request))
    assert (run.path.name, run.job_id) == ("train-20260102-030405-abcd", "4711")
    assert (cluster.spool / "script").read_bytes() == printed.encode("utf-8", "surrogateescape")
    assert run.script.read_bytes() == (cluster.spool / "script").read_bytes()


def test_render_to_a_file_makes_the_run_directory_so_that_it_can_be_submitted_by_hand(cluster: Desk) -> None:
    done = cluster.type("render", "./train.py", "-o", "my job.sh", "--json")
    run = Path(done.json["run_dir"])
    assert (cluster.project / "my job.sh").read_bytes() == (run / "job.sh").read_bytes()
    assert done.json["state"] == "RENDERED"
    assert (run / "logs").is_dir() and (run / "code/train.py").is_file()
    assert stat.S_IMODE((cluster.project / "my job.sh").stat().st_mode) & 0o100
    assert not (cluster.spool / "sbatch.args").exists()


def test_render_to_a_file_warns_of_variables_that_sbatch_would_obey(cluster: Desk) -> None:
    done = cluster.type("render", "./train.py", "-o", "job.sh", SBATCH_TIMELIMIT="1", SBATCH_QOS="low")
    assert "unset these variables first, as they override the script with sbatch" in done.err
    assert "SBATCH_TIMELIMIT" in done.err


def test_row_15_slurms_own_words_are_told_and_the_run_directory_stays(cluster: Desk) -> None:
    cluster.fake("sbatch", err="sbatch: error: Batch job submission failed: Invalid qos specification\n", code=1)
    done = cluster.type("submit", "./train.py")
    assert done.code == 1
    assert "Batch job submission failed: Invalid qos specification" in done.err
    assert "hpclaunch retry" in done.err
    (run,) = (cluster.project / "runs").iterdir()
    record = json.loads((run / "run.json").read_text())
    assert record["state"] == "NOT_SUBMITTED"
    assert "Invalid qos specification" in record["reason"]


def test_an_answer_of_sbatch_without_a_job_id_is_told(cluster: Desk) -> None:
    cluster.fake("sbatch", out="I am no scheduler\n")
    done = cluster.type("submit", "./train.py")
    assert done.code == 1
    assert "I am no scheduler" in done.err


@pytest.mark.parametrize(
    ("words", "code", "messages"),
    [
        (["submit"], 2, ["what to run is missing"]),
        (["submit", "x", "--nodes", "0"], 2, ["--nodes"]),
        (
            ["submit", "./train.py", "--nodez", "1"],
            2,
            ["there is no option --nodez; did you mean '--nodes'?"],
        ),
        (["submit", "./train.py", "--walltime", "soon"], 2, ["--walltime: 'soon' is not a length of time", "HH:MM:SS"]),
        (["submit", "./train.py", "--set", "lr"], 2, ["--set: 'lr' is not KEY=VALUE"]),
        (["submit", "./train.py", "--hosts", "none"], 2, ["the hosts file cannot be read"]),
        (["submit", "cifr"], 1, ["no job is called 'cifr'; did you mean 'cifar'?", "hpclaunch jobs list"]),
        (
            ["submit", "./train.py", "--site", "slurmsit"],
            1,
            ["no site is called 'slurmsit'; did you mean 'slurmsite'?"],
        ),
        (["submit", "./missing.py"], 1, ["missing.py: the script does not exist"]),
        (["submit", "./train.py", "--partition", "debgu"], 1, ["did you mean 'debug'?"]),
        (["submit", "cifar", "--set", "epoch=1"], 1, ["cifar has no parameter 'epoch'; did you mean 'epochs'?"]),
        (["submit", "cifar", "--set", "epochs=x"], 1, ["--set epochs: 'x' is not a whole number"]),
        (["submit", "./train.py", "--set", "lr=1"], 1, ["write the program's own options after --"]),
        (
            ["submit", "cifar", "--data-dir", "."],
            1,
            ["the data set cifar10 was not found", "hpclaunch data fetch cifar"],
        ),
        (["submit", "./train.py", "--data-dir", "none.npz"], 1, ["none.npz (from --data-dir): does not exist"]),
        (
            ["submit", "./train.py", "--sbatch", "--nodes=4"],
            1,
            ["hpclaunch itself writes --nodes", "use --nodes instead"],
        ),
        (["submit", "./train.py", "--sbatch", "--wrap=x"], 1, ["use -- ARGS instead"]),
        (["submit", "./train.py", "--sbatch", "-N4"], 1, ["is not a single sbatch option"]),
        (
            ["submit", "./train.py", "--nodes", "9", "--launcher", "jsrun", "--account", "a b", "--sbatch", "x"],
            1,
            [
                "9 nodes requested; allowed: at most 8",
                "at most 4 nodes",
                "'jsrun'",
                "account 'a b'",
                "'x' is not a single",
            ],
        ),
    ],
)
def test_what_is_wrong_is_told_with_the_exit_code(
    cluster: Desk, words: list[str], code: int, messages: list[str]
) -> None:
    before = cluster.listing()
    done = cluster.type(*words)
    assert (done.code, done.out) == (code, "")
    for message in messages:
        assert message in done.err
    assert not (cluster.spool / "sbatch.args").exists()
    assert cluster.listing() == before


def test_errors_as_json(cluster: Desk) -> None:
    done = cluster.type("submit", "./train.py", "--nodes", "9", "--json")
    assert done.code == 1
    assert done.json["error"] == "Refused"
    assert [fault["where"] for fault in done.json["faults"]] == ["slurmsite partition", "slurmsite cpu"]


def test_a_missing_sbatch_is_told_before_anything_is_written(cluster: Desk) -> None:
    (cluster.root / "bin/sbatch").unlink()
    before = cluster.listing()
    done = cluster.type("submit", "./train.py")
    assert done.code == 1
    assert "there is no sbatch on this machine" in done.err and "--dry-run" in done.err
    assert cluster.listing() == before


def test_row_07_a_run_directory_that_the_nodes_do_not_share_is_refused(desk: Desk) -> None:
    desk.fake("sbatch", out="Submitted batch job 1\n")
    desk.fake("srun")
    desk.write("train.py", "")
    done = desk.type("submit", "./train.py", "--site", "testcluster", "--runs-dir", "/tmp/hpclaunch-never-made")
    assert done.code == 1
    assert "is in /tmp, which is local to each node of testcluster" in done.err
    assert "--runs-dir" in done.err
    assert not Path("/tmp/hpclaunch-never-made").exists()


@pytest.mark.parametrize(
    ("where", "words", "variables"),
    [
        ("flag", ["--runs-dir", "flag"], {"HPCLAUNCH_RUNS_DIR": "variable"}),
        ("variable", [], {"HPCLAUNCH_RUNS_DIR": "variable"}),
        ("settings", [], {}),
    ],
)
def test_who_says_where_runs_lie(cluster: Desk, where: str, words: list[str], variables: dict[str, str]) -> None:
    cluster.write(str(cluster.config / "settings.yaml"), "runs_dir: settings\n")
    run = Path(cluster.type("submit", "./train.py", *words, **variables).out.strip())
    assert run.parent == cluster.project / where


def test_row_22_code_that_is_edited_while_the_job_waits_does_not_change_it(cluster: Desk) -> None:
    run = Path(cluster.type("submit", "./train.py").out.strip())
    cluster.write("train.py", "edited")
    assert (run / "code/train.py").read_text() == "print('hello')\n"
    assert f"{run}/code/train.py" in (run / "job.sh").read_text()


def test_a_retired_sites_scripts_can_be_rendered_not_submitted(cluster: Desk) -> None:
    site = cluster.project / "site_configs/slurmsite.yaml"
    site.write_text(site.read_text() + "status: retired\n")
    assert cluster.type("submit", "./train.py", "--dry-run").code == 0
    done = cluster.type("submit", "./train.py")
    assert (done.code, "is retired" in done.err) == (1, True)


def test_bytes_that_are_not_utf_8_are_submitted_as_they_were_typed(cluster: Desk) -> None:
    done = cluster.type("submit", "./train.py", "--", "a\udcffb")
    assert done.code == 0, done.err
    assert rb"$'a\xffb'" in (cluster.spool / "script").read_bytes()


def test_the_submitted_script_does_not_depend_on_the_locale(cluster: Desk) -> None:
    assert cluster.type("submit", "./train.py", "--", "ü", LANG="C", LC_ALL="C").code == 0
    assert "ü".encode() in (cluster.spool / "script").read_bytes()


def test_a_spec_is_replaced_not_changed() -> None:
    request = Request(target="x")
    assert replace(request, nodes=2) != request


@pytest.mark.parametrize("place", ["link.sh", "mine.py", "nowhere/x.sh", "."])
def test_render_never_writes_over_what_it_did_not_render(desk: Desk, place: str) -> None:
    mine = desk.write("mine.py", "print('mine')\n")
    (desk.project / "link.sh").symlink_to("mine.py")
    done = desk.type("render", "./mine.py", "--site", "local", "-o", place)
    assert done.code == 1
    assert done.err.count("error: ") == 1, done.err
    assert mine.read_text() == "print('mine')\n"
    assert desk.type("status", "--json").runs == []


def test_render_writes_over_its_own_older_script(desk: Desk) -> None:
    desk.write("mine.py", "print('mine')\n")
    for _ in range(2):
        assert desk.type("render", "./mine.py", "--site", "local", "-o", "job.sh").code == 0
    assert "# Rendered by hpclaunch" in (desk.project / "job.sh").read_text()


@pytest.mark.parametrize("option", ["--arra=0-1", "--outp=/x", "--tim=9:00:00", "--part=debug", "--sig=USR1@60"])
def test_row_16_an_owned_option_cannot_be_shortened_past_planning(desk: Desk, option: str) -> None:
    done = desk.type("submit", "cifar", "--synthetic", "--site", "testcluster", "--runs-dir", "/x", "--sbatch", option)
    assert (done.code, "write sbatch options in full" in done.err) == (1, True)


def test_words_after_two_dashes_belong_to_submissions_only(desk: Desk) -> None:
    done = desk.type("status", "--", "nothere")
    assert (done.code, "search, profile and scale accept arguments after --" in done.err) == (2, True)


def test_earlier_runs_beside_a_script_are_not_taken_along(desk: Desk) -> None:
    desk.write("mine.py", "print('mine')\n")
    for _ in range(2):
        done = desk.type("render", "./mine.py", "--site", "local", "--runs-dir", "out", "-o", "job.sh")
        assert done.code == 0, done.err
    assert not list((desk.project / "out").glob("*/code/out"))


def test_a_template_that_extends_itself_is_told_how_to_extend_the_bundled_one(desk: Desk) -> None:
    desk.write("templates/local.sh.j2", '{% extends "local.sh.j2" %}\n')
    done = desk.type("submit", "cifar", "--synthetic", "--dry-run", "--site", "local")
    assert (done.code, "bundled/local.sh.j2" in done.err) == (1, True)


def test_a_list_of_runs_that_cannot_be_written_is_told_and_the_run_goes_on(desk: Desk) -> None:
    desk.environment["XDG_STATE_HOME"] = "/proc/nowhere"
    desk.write("mine.py", "print('mine')\n")
    done = desk.type("submit", "./mine.py", "--site", "local")
    assert (done.code, "the list of runs cannot be written" in done.err) == (0, True)
    assert (desk.project / "runs").is_dir()
