"""Not on this machine, not on that cluster: nothing reaches another cluster's Slurm or trains on a head node."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hpclaunch.core.scheduler_rows import OTHER_SCHEDULERS, OtherScheduler
from tests.cli.conftest import Desk, Done

SLURM = ("sacct", "sacctmgr", "salloc", "sbatch", "scancel", "sinfo", "squeue", "srun", "sshare")
RECORDING = "#!/bin/bash\necho {name} $* >> {spool}/calls\n"
SCONTROL = RECORDING + "[ -z '{cluster}' ] || printf 'ClusterName             = {cluster}\\n'\n[ -n '{cluster}' ]\n"
PERLMUTTER = ("--site", "perlmutter", "--account", "m1", "--nodes", "1")


@pytest.fixture
def lab(desk: Desk) -> Desk:
    """A login node of the Slurm cluster ``lab``, of which there is no site file; its slurm.conf can be read."""
    answering(desk, "lab")
    (desk.root / "slurm.conf").write_text("ClusterName=lab\n")
    desk.write("train.py", "print('trained')\n")
    return desk


def answering(desk: Desk, cluster: str) -> None:
    """Put Slurm's programs on PATH, which record their calls; scontrol knows the cluster's name."""
    for name in SLURM:
        desk.program(name, RECORDING.format(name=name, spool=desk.spool))
    # Without a job ID hpclaunch would ask for seconds whether there is a job.
    desk.program("sbatch", RECORDING.format(name="sbatch", spool=desk.spool) + "echo Submitted batch job 4711\n")
    desk.program("scontrol", SCONTROL.format(name="scontrol", spool=desk.spool, cluster=cluster))


def calls(desk: Desk) -> list[str]:
    record = desk.spool / "calls"
    return record.read_text().splitlines() if record.exists() else []


def nothing_started(desk: Desk) -> bool:
    return not (desk.project / "runs").exists()


@pytest.mark.parametrize("words", [("submit", "cifar", "--synthetic"), ("submit", "./train.py"), ("doctor",)])
@pytest.mark.parametrize("more", [(), ("--test-only",), ("--walltime", "100:00:00")])
def test_a_script_for_perlmutter_never_reaches_the_slurm_of_another_cluster(
    lab: Desk, words: tuple[str, ...], more: tuple[str, ...]
) -> None:
    if words == ("doctor",) and more == ("--test-only",):
        more = ()
    done = lab.type(*words, *PERLMUTTER, *more)
    assert done.code == 1
    assert "is the cluster lab: its sbatch cannot submit to perlmutter" in done.out + done.err
    assert (calls(lab), nothing_started(lab)) == ([], True)


def test_without_a_readable_slurm_conf_one_call_asks_for_the_name(lab: Desk) -> None:
    (lab.root / "slurm.conf").unlink()
    done = lab.type("submit", "cifar", "--synthetic", *PERLMUTTER)
    assert (done.code, "is the cluster lab" in done.err) == (1, True), done.err
    assert (calls(lab), nothing_started(lab)) == (["scontrol show config"], True)


def test_a_slurm_that_tells_no_name_gets_no_script_for_another_site(lab: Desk) -> None:
    (lab.root / "slurm.conf").unlink()
    answering(lab, "")
    done = lab.type("submit", "cifar", "--synthetic", *PERLMUTTER)
    assert (done.code, "does not tell its cluster's name" in done.err) == (1, True), done.err
    assert (calls(lab), nothing_started(lab)) == (["scontrol show config"], True)


@pytest.mark.parametrize(
    "words",
    [
        ("submit", "cifar", "--synthetic", "--dry-run", "--runs-dir", "/shared", *PERLMUTTER),
        ("render", "cifar", "--synthetic", "--runs-dir", "/shared", *PERLMUTTER),
        ("plan", "cifar", "--site", "perlmutter"),
    ],
)
def test_what_only_shows_asks_the_slurm_here_nothing(lab: Desk, words: tuple[str, ...]) -> None:
    (lab.root / "slurm.conf").unlink()
    done = lab.type(*words)
    assert (done.code, calls(lab)) == (0, []), done.err


@pytest.mark.parametrize("name", ["perlmutter", "Perlmutter"])
def test_a_cluster_of_the_sites_name_gets_its_script(lab: Desk, name: str) -> None:
    (lab.root / "slurm.conf").unlink()
    answering(lab, name)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # Perlmutter's nodes have a /tmp of their own
        lab.type("submit", "cifar", "--synthetic", *PERLMUTTER, "--runs-dir", folder, SCRATCH="/scratch")
    assert [call for call in calls(lab) if call.startswith("sbatch ")]


OWN = """
title: mine
scheduler: slurm
defaults: {node_type: cpu, partition: batch, walltime: "00:10:00"}
node_types: {cpu: {title: x, nodes: 8, cores_per_node: 8}}
partitions: {batch: {max_nodes: 4}}
launchers: {default: srun, options: {srun: {}}}
environment: {python: current}
"""


@pytest.mark.parametrize(
    ("detect", "accepted"),
    [
        ("", True),
        ("detect: {hostname: 'login[0-9]+'}\n", True),
        ("detect: {cluster_name: Lab}\n", True),
        ("detect: {cluster_name: other}\n", False),
    ],
)
def test_a_site_file_of_ones_own_is_refused_only_where_it_names_another_cluster(
    lab: Desk, detect: str, accepted: bool
) -> None:
    lab.write("site_configs/mine.yaml", OWN + detect)
    done = lab.type("submit", "./train.py", "--site", "mine")
    called = any(call.startswith("sbatch ") for call in calls(lab))
    assert called is accepted
    assert ("correct detect.cluster_name" in done.err) is not accepted


def test_without_a_site_a_slurm_cluster_gets_no_training_on_its_login_node(lab: Desk) -> None:
    done = lab.type("submit", "./train.py")
    assert (done.code, nothing_started(lab), calls(lab)) == (1, True, [])
    assert "hpclaunch sites detect --name lab" in done.err


@pytest.mark.parametrize(("program", "title"), [("qsub", "PBS"), ("bsub", "LSF"), ("flux", "Flux")])
@pytest.mark.parametrize("words", [("submit", "./train.py"), ("submit", "cifar", "--synthetic"), ("doctor",)])
def test_on_the_head_node_of_another_batch_system_nothing_starts(
    desk: Desk, program: str, title: str, words: tuple[str, ...]
) -> None:
    desk.write("train.py", "print('trained')\n")
    desk.program(program, RECORDING.format(name=program, spool=desk.spool))
    done = desk.type(*words)
    assert (done.code, nothing_started(desk), calls(desk)) == (1, True, [])
    assert f"this machine has {program} ({title}" in done.out + done.err
    assert "--site local" in done.out + done.err
    shown = desk.type(*words, "--dry-run") if words[0] == "submit" else desk.type("render", "./train.py")
    assert (shown.code, calls(desk)) == (0, []), shown.err


def test_a_detected_slurm_goes_before_its_wrapper_for_pbs(lab: Desk) -> None:
    lab.program("qsub", RECORDING.format(name="qsub", spool=lab.spool))
    lab.write("site_configs/lab.yaml", OWN + "detect: {cluster_name: lab}\n")
    lab.type("submit", "./train.py")
    assert [call for call in calls(lab) if call.startswith("sbatch ")]
    assert not [call for call in calls(lab) if call.startswith("qsub")]


def typed_at_a_terminal(desk: Desk, answer: str, *words: str, **variables: str) -> Done:
    """Type with a terminal as stdin, and answer a question."""
    ours, theirs = pty.openpty()
    os.write(ours, answer.encode())
    command = [sys.executable, "-m", "hpclaunch", *words]
    environment = {**desk.environment, **variables}
    done = subprocess.run(command, cwd=desk.project, env=environment, stdin=theirs, capture_output=True, text=True)
    os.close(ours)
    os.close(theirs)
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("program", "looks"),
    [("sbatch", "a head node of the Slurm cluster lab"), ("qsub", "a head node: it has qsub (PBS or Grid Engine)")],
)
def test_site_local_on_a_head_node_asks_at_a_terminal(desk: Desk, program: str, looks: str) -> None:
    desk.write("train.py", "print('trained')\n")
    desk.program(program, "#!/bin/bash\nexit 1\n")
    if program == "sbatch":
        (desk.root / "slurm.conf").write_text("ClusterName=lab\n")
    refused = typed_at_a_terminal(desk, "n\n", "submit", "./train.py", "--site", "local", "--wait")
    assert (refused.code, nothing_started(desk)) == (1, True)
    assert f"this machine looks like {looks}. Start the run on it? [y/N]" in refused.err
    accepted = typed_at_a_terminal(desk, "y\n", "submit", "./train.py", "--site", "local", "--wait")
    assert accepted.code == 0, accepted.err


@pytest.mark.parametrize(
    ("words", "variables"),
    [(("--site", "local"), {"PBS_JOBID": "1.head"}), ((), {"HPCLAUNCH_SITE": "local"})],
)
def test_a_job_and_a_lasting_choice_are_not_questioned(
    desk: Desk, words: tuple[str, ...], variables: dict[str, str]
) -> None:
    desk.write("train.py", "print('trained')\n")
    desk.program("qsub", "#!/bin/bash\n")
    done = typed_at_a_terminal(desk, "n\n", "submit", "./train.py", "--wait", *words, **variables)
    assert (done.code, "[y/N]" in done.err) == (0, False), done.err


@pytest.mark.parametrize("other", OTHER_SCHEDULERS, ids=lambda other: other.title)
def test_a_head_node_of_any_scheduler_trains_only_where_somebody_said_so(desk: Desk, other: OtherScheduler) -> None:
    desk.write("train.py", "print('trained')\n")
    desk.program(other.program, "#!/bin/bash\nexit 1\n")
    typed = desk.type("submit", "./train.py", "--site", "local", "--wait")
    assert typed.code == 1 and nothing_started(desk)
    assert f"looks like a head node: it has {other.program} (" in typed.err and "HPCLAUNCH_SITE=local" in typed.err
    unnamed = desk.type("submit", "./train.py", "--wait")
    assert unnamed.code == 1 and nothing_started(desk)
    in_a_job = desk.type("submit", "./train.py", "--site", "local", "--wait", **{other.inside_job[0]: "1"})
    assert in_a_job.code == 0, in_a_job.err
    said = desk.type("submit", "./train.py", "--wait", HPCLAUNCH_SITE="local")
    assert said.code == 0, said.err
    assert len(list(Path(desk.project, "runs").iterdir())) == 2
    assert all("trained" in desk.type("logs", name).out for name in ("@1", "@2"))


@pytest.mark.parametrize("program", ["qsub", "condor_submit"])
def test_what_detects_sites_names_the_scheduler_that_it_cannot_describe(desk: Desk, program: str) -> None:
    desk.program(program, "#!/bin/bash\nexit 1\n")
    detected = desk.type("sites", "detect")
    assert detected.code != 0 and "slurmctld" not in detected.err
    assert f"this machine has {program} (" in detected.err and "only from answers of Slurm" in detected.err


def test_what_detects_sites_tells_of_a_slurm_that_does_not_answer_before_its_wrapper_for_pbs(desk: Desk) -> None:
    for program in ("qsub", "sbatch", "scontrol"):
        desk.program(program, "#!/bin/bash\necho 'Unable to contact slurm controller' >&2\nexit 1\n")
    detected = desk.type("sites", "detect")
    assert detected.code != 0
    assert detected.err.index("Unable to contact slurm controller") < detected.err.index("this machine has qsub (")


def test_a_run_of_a_head_node_is_run_again_where_somebody_said_so(desk: Desk) -> None:
    desk.write("train.py", "print('trained')\n")
    assert desk.type("submit", "./train.py", "--site", "local", "--wait").code == 0
    desk.program("qsub", "#!/bin/bash\nexit 1\n")
    refused = desk.type("rerun", "@1", "--wait")
    assert refused.code == 1 and "HPCLAUNCH_SITE=local" in refused.err
    assert len(list(Path(desk.project, "runs").iterdir())) == 1
    said = desk.type("rerun", "@1", "--wait", HPCLAUNCH_SITE="local")
    assert said.code == 0, said.err
    assert len(list(Path(desk.project, "runs").iterdir())) == 2 and "trained" in desk.type("logs").out


def test_a_run_that_was_started_here_by_name_is_continued_here_though_the_machine_is_of_a_cluster(lab: Desk) -> None:
    lab.write("site_configs/lab.yaml", OWN + "detect: {cluster_name: lab}\n")
    lab.write("train.py", "raise SystemExit(3)\n")
    words = ("submit", "./train.py", "--nodes", "1", "--tasks-per-node", "1", "--wait")
    done = lab.type(*words, HPCLAUNCH_SITE="local")
    assert "FAILED (exit code 3:0)" in done.err
    (run,) = (lab.project / "runs").iterdir()
    lab.write("train.py", "print('trained')\n")
    again = lab.type("resume", run.name, "--wait")
    assert "belongs to" not in again.err
    assert "FAILED (exit code 3:0)" in again.err  # it has the code that it took along
    assert not [call for call in calls(lab) if call.startswith("sbatch")]


OWN_SITE = """
title: mine
scheduler: slurm
{detect}
defaults: {{node_type: cpu, walltime: "00:10:00"}}
node_types: {{cpu: {{title: x, nodes: 8, cores_per_node: 8}}}}
launchers: {{default: srun, options: {{srun: {{mpi: pmix}}}}}}
environment: {{python: current}}
"""


@pytest.mark.parametrize(
    ("detect", "clusters", "sent"),
    [
        ("detect: {cluster_name: lab}", "other", False),
        ("detect: {cluster_name: lab}", "lab,other", False),
        ("detect: {cluster_name: lab}", "LAB", True),
        ("detect: {cluster_name: other}", "other", True),  # a person's file of that other cluster
        ("", "other", True),  # of a person's file without a name nothing is known
        ("", "lab", True),
    ],
)
def test_a_variable_that_sends_jobs_to_another_cluster_is_named_as_the_cause(
    lab: Desk, detect: str, clusters: str, sent: bool
) -> None:
    lab.write("site_configs/mine.yaml", OWN_SITE.format(detect=detect))
    done = lab.type("submit", "./train.py", "--site", "mine", "--nodes", "1", SLURM_CLUSTERS=clusters)
    assert any(call.startswith("sbatch") for call in calls(lab)) is sent, done.err
    assert sent or f"this shell has SLURM_CLUSTERS={clusters}, so sbatch would not submit to mine" in done.err
    assert sent or "next: unset SLURM_CLUSTERS" in done.err


@pytest.mark.parametrize("variable", ["SLURM_CLUSTERS", "SBATCH_CLUSTERS"])
def test_a_dry_run_names_the_cluster_and_who_chose_it(lab: Desk, variable: str) -> None:
    lab.write("site_configs/mine.yaml", OWN_SITE.format(detect="detect: {cluster_name: lab}"))
    words = ("submit", "./train.py", "--site", "mine", "--nodes", "1")
    shown = lab.type(*words, "--dry-run", **{variable: "other"})
    assert (shown.code, f"cluster other ({variable})" in shown.err) == (0, True), shown.err
    assert f"warning: {variable}: this shell has {variable}=other, so sbatch would not submit to mine" in shown.err
    refused = lab.type(*words, **{variable: "other"})
    assert (refused.code, refused.err.count(f"error: {variable}: this shell has")) == (1, 1), refused.err
    typed = lab.type(*words, "--sbatch=--clusters=other", **{variable: "third"})
    assert "the site file of mine describes another cluster than other, which gets the script" in typed.err
    assert [call for call in calls(lab) if call.startswith("sbatch --clusters=other ")]


def test_a_site_that_a_variable_shows_is_not_the_cluster_of_another_variable(lab: Desk) -> None:
    done = lab.type("submit", "./train.py", *PERLMUTTER, NERSC_HOST="perlmutter", SLURM_CLUSTERS="other")
    assert (done.code, "SLURM_CLUSTERS: this shell has SLURM_CLUSTERS=other" in done.err) == (1, True), done.err
    assert (calls(lab), nothing_started(lab)) == ([], True)
    own = lab.type("submit", "./train.py", *PERLMUTTER, NERSC_HOST="perlmutter", SLURM_CLUSTERS="perlmutter")
    assert "this shell has SLURM_CLUSTERS" not in own.err
