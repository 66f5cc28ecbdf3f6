from __future__ import annotations

from dataclasses import replace

import pytest

from hpclaunch.job import Resources
from hpclaunch.plan.directives import OWNED
from hpclaunch.site import NodeType
from tests.builders import AROUND, a_job, a_site, around, planned, refused


def test_the_directives_are_what_user_job_and_site_asked_for_each_once() -> None:
    assert planned(nodes=2, account="m1").directives == (
        ("job-name", "train"),
        ("account", "m1"),
        ("partition", "batch"),
        ("nodes", "2"),
        ("ntasks-per-node", "4"),
        ("cpus-per-task", "8"),
        ("gpus-per-node", "4"),
        ("time", "01:00:00"),
        ("chdir", AROUND.run_dir),
        ("output", f"{AROUND.run_dir}/logs/slurm-%j.out"),
        ("open-mode", "append"),
        ("no-requeue", ""),
        ("export", "NONE"),
    )


def test_row_03_gpus_are_asked_for_per_node_and_not_per_task() -> None:
    names = dict(planned().directives)
    assert "gpus-per-node" in names
    assert "gpus-per-task" not in names


@pytest.mark.parametrize("unasked", ["mem", "wckey", "signal", "constraint", "qos", "account", "array", "requeue"])
def test_row_16_nothing_is_written_that_nobody_asked_for(unasked: str) -> None:
    assert unasked not in dict(planned().directives)


def test_row_16_a_site_can_remove_any_line() -> None:
    names = dict(planned(a_site(remove=("--open-mode", "--export"))).directives)
    assert {"open-mode", "export"}.isdisjoint(names)


def test_row_16_any_other_sbatch_option_passes_through() -> None:
    site = a_site(sbatch=("--comment=site", "--exclusive"))
    spec = planned(site, a_job(sbatch=("--comment=job",)), sbatch=("--mail-user=a@b", "--hold"))
    assert spec.directives[-4:] == (("comment", "job"), ("exclusive", ""), ("mail-user", "a@b"), ("hold", ""))


def test_row_11_no_requeue_unless_somebody_asks_for_it() -> None:
    assert dict(planned().directives)["no-requeue"] == ""
    asked = dict(planned(sbatch=("--requeue",)).directives)
    assert "requeue" in asked and "no-requeue" not in asked


def test_row_11_logs_are_appended_to() -> None:
    assert dict(planned().directives)["open-mode"] == "append"


def test_row_24_the_submitting_shell_does_not_travel_along() -> None:
    assert dict(planned().directives)["export"] == "NONE"


def test_row_27_a_percent_in_the_run_directory_is_no_pattern() -> None:
    spec = planned(surroundings=around(run_dir="/home/ada/100%j/run"))
    assert dict(spec.directives)["output"] == "/home/ada/100%%j/run/logs/slurm-%j.out"


def test_memory_and_constraint_of_the_files_are_written() -> None:
    node = NodeType(title="x", cores_per_node=8, constraint="gpu&hbm80g")
    spec = planned(a_site(node_types={"gpu": node}), a_job(resources=Resources(memory=16384)))
    assert ("constraint", "gpu&hbm80g") in spec.directives
    assert ("mem", "16G") in spec.directives


def test_a_site_without_a_scheduler_has_no_directives() -> None:
    site = replace(a_site(), scheduler="local")
    assert planned(site, launcher="mpirun").directives == ()


@pytest.mark.parametrize("option", sorted(OWNED))
@pytest.mark.parametrize("form", ["--{}", "--{}=x"])
def test_an_option_that_hpclaunch_writes_itself_is_refused_naming_its_own(option: str, form: str) -> None:
    (fault,) = refused(sbatch=(form.format(option),))
    assert fault.what == f"--{option} belongs to hpclaunch"
    assert (OWNED[option] or "hpclaunch writes it itself") in fault.next


@pytest.mark.parametrize(
    "option",
    [
        "",
        " ",
        ":",
        "-N 4",
        "-N4",
        "nodes=4",
        "--",
        "--=x",
        "--Comment=x",
        "--comment x",
        "#SBATCH --nodes=99",
        "--a=b\n#SBATCH --nodes=99",
        "--a=\x1b",
        "\n",
    ],
)
def test_what_is_not_one_long_option_is_refused(option: str) -> None:
    (fault,) = refused(sbatch=(option,))
    assert "is not one sbatch option" in fault.what


@pytest.mark.parametrize("value", ["", "a b", "$HOME", "`x`", '"', "'", "\\", "#", "ü", "%j", "a=b", ":"])
def test_a_value_is_kept_as_it_was_typed(value: str) -> None:
    assert planned(sbatch=(f"--comment={value}",)).directives[-1] == ("comment", value)
