"""A script as a value: what is read of its directives, what is changed in them, and that the rest stays as it is."""

from __future__ import annotations

import pytest

from hpclaunch.core.job_script import JobScript, read_job_script
from hpclaunch.core.scheduler_rows import scheduler_row

SAME_NAME = "#SBATCH --dependency=singleton\n"
SCRIPT = "#!/bin/bash\n# a comment\n#SBATCH --nodes=2\n\n#SBATCH --time=1\n\necho\n#SBATCH --exclude=never-read\n"
HETEROGENEOUS = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH hetjob\n#SBATCH --nodes=2\n#SBATCH --exclude=node1\n\necho\n"
ARRAY = "#!/bin/bash\n#SBATCH --array=0-9%2\n\narray_task 4 SLURM_ARRAY_TASK_ID\necho\n"


def read(text: str, scheduler: str = "slurm") -> JobScript:
    return read_job_script(text, scheduler_row(scheduler))


def test_the_directive_stands_after_the_last_one_that_sbatch_reads() -> None:
    text = read(SCRIPT).without_nodes("node3,node[5-6]").text
    line = "#SBATCH --exclude=node3,node[5-6]\n"
    assert text == SCRIPT.replace("#SBATCH --time=1\n", f"#SBATCH --time=1\n{line}")


def test_an_earlier_directive_is_replaced() -> None:
    once = read(SCRIPT).without_nodes("node3")
    assert once.without_nodes("node3,node4") == read(SCRIPT).without_nodes("node3,node4")


def test_without_nodes_or_directives_a_script_stays_as_it_is() -> None:
    assert read(SCRIPT).without_nodes("").text == SCRIPT
    assert read(SCRIPT, "local").without_nodes("node3").text == SCRIPT
    assert read(ARRAY, "local").with_tasks("0-3").text == ARRAY


def test_nodes_are_excluded_from_all_components_of_a_heterogeneous_job() -> None:
    assert read(HETEROGENEOUS).without_nodes("node1,node2").text == (
        "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --exclude=node1,node2\n#SBATCH hetjob\n#SBATCH --nodes=2\n\necho\n"
    )


@pytest.mark.parametrize(
    "text", [SCRIPT, HETEROGENEOUS, ARRAY, "", "\n", "#!/bin/bash", "#SBATCH --nodes=1\n#\n\n", "a\r\n"]
)
@pytest.mark.parametrize("scheduler", ["slurm", "local"])
def test_a_script_that_was_read_gives_its_text_again(text: str, scheduler: str) -> None:
    assert read(text, scheduler).text == text


@pytest.mark.parametrize(
    ("directive", "waits", "kept"),
    [
        ("", (), ""),
        ("#SBATCH --dependency=afterok:5:6\n", ("afterok:5:6",), ""),
        (
            "#SBATCH --dependency=singleton,afterany:7\n",
            ("singleton", "afterany:7"),
            "#SBATCH --dependency=singleton\n",
        ),
    ],
)
def test_only_the_wait_for_jobs_of_the_same_name_outlasts_a_start(
    directive: str, waits: tuple[str, ...], kept: str
) -> None:
    script = read(f"#!/bin/bash\n{directive}true\n#SBATCH --dependency=afterok:1\n")
    assert (script.waits, script.waits_for_same_name) == (waits, bool(kept))
    assert script.without_waiting().text == f"#!/bin/bash\n{kept}true\n#SBATCH --dependency=afterok:1\n"


def test_the_nodes_that_a_job_must_have_are_read() -> None:
    assert read("#!/bin/bash\n#SBATCH --nodelist=n[1-2]\n").required_nodes == "n[1-2]"
    assert read("#!/bin/bash\necho\n#SBATCH --nodelist=n[1-2]\n").required_nodes == ""


def test_a_part_of_an_array_has_its_tasks_and_its_first_run() -> None:
    part = read(ARRAY).with_tasks("0-4%1").with_first_run(5, digits=4)
    assert part and part.text == ARRAY.replace("0-9%2", "0-4%1").replace("TASK_ID\n", "TASK_ID 5\n")
    assert read(ARRAY).with_first_run(5, digits=5) is None
    assert read(ARRAY + ARRAY).with_first_run(5, digits=4) is None
