"""What a scheduler's row tells: options against nodes, and how often states are asked for."""

from __future__ import annotations

import pytest

from hpclaunch.core.errors import NotFound
from hpclaunch.core.scheduler_rows import longest_pause, scheduler_row

SCRIPT = "#!/bin/bash\n# a comment\n#SBATCH --nodes=2\n\n#SBATCH --time=1\n\necho\n#SBATCH --exclude=never-read\n"


def test_nodes_are_excluded_where_that_can_be_asked_for() -> None:
    assert scheduler_row("slurm").excluding("n1,n2") == ["--exclude=n1,n2"]
    assert scheduler_row("slurm").excluding("") == []
    assert scheduler_row("local").excluding("n1") == []


def test_the_slowest_scheduler_tells_how_long_to_pause() -> None:
    assert longest_pause(["local", "local"]) < 1 < longest_pause(["local", "slurm"])
    assert longest_pause([]) == 0


def test_an_unknown_scheduler_is_not_found() -> None:
    with pytest.raises(NotFound, match="no scheduler is called 'slrm'; did you mean 'slurm'"):
        scheduler_row("slrm")


def test_the_directive_stands_after_the_last_one_that_sbatch_reads() -> None:
    text = scheduler_row("slurm").without_nodes(SCRIPT, "node3,node[5-6]")
    line = "#SBATCH --exclude=node3,node[5-6]\n"
    assert text == SCRIPT.replace("#SBATCH --time=1\n", f"#SBATCH --time=1\n{line}")


def test_an_earlier_directive_is_replaced() -> None:
    slurm = scheduler_row("slurm")
    once = slurm.without_nodes(SCRIPT, "node3")
    assert slurm.without_nodes(once, "node3,node4") == slurm.without_nodes(SCRIPT, "node3,node4")


def test_without_nodes_or_directives_a_script_stays_as_it_is() -> None:
    assert scheduler_row("slurm").without_nodes(SCRIPT, "") == SCRIPT
    assert scheduler_row("local").without_nodes(SCRIPT, "node3") == SCRIPT


def test_nodes_are_excluded_from_all_components_of_a_heterogeneous_job() -> None:
    slurm = scheduler_row("slurm")
    script = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH hetjob\n#SBATCH --nodes=2\n#SBATCH --exclude=node1\n\necho\n"
    assert slurm.without_nodes(script, "node1,node2") == (
        "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --exclude=node1,node2\n#SBATCH hetjob\n#SBATCH --nodes=2\n\necho\n"
    )
