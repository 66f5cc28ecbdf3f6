"""What a run used of what it asked for, and what is suggested: every rule at its threshold, and beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.guidelines.utilization import Usage, percent, quantities, suggestions

CPU = Usage(nodes=2, tasks_per_node=2, cpus_per_task=8, seconds=600.0, walltime=700, cores=31.0, cores_asked=32.0)
GPU = Usage(nodes=2, tasks_per_node=4, cpus_per_task=8, gpus_per_node=4, seconds=600.0, gpus=(0.9,) * 8)


def advice(usage: Usage, **changes: Any) -> list[tuple[str, str]]:
    """What is suggested: (about, the options)."""
    return [(one.about, " ".join(one.options)) for one in suggestions(replace(usage, **changes))]


def words(usage: Usage, **changes: Any) -> str:
    [one] = suggestions(replace(usage, **changes))
    return one.words


def test_a_run_that_used_what_it_asked_for_gets_no_suggestion() -> None:
    assert advice(CPU, is_complete=True, memory=8 * 2**30, memory_asked=10 * 2**30) == advice(GPU) == []


@pytest.mark.parametrize(("share", "quantity"), [(0.5, "CPU"), (0.25, "memory"), (0.125, "GPU"), (0.1, "time")])
def test_the_shares(share: float, quantity: str) -> None:
    usage = replace(GPU, cores=32.0, cores_asked=64.0, memory=2**30, memory_asked=2**32, gpus=(0.125,) * 8)
    usage = replace(usage, seconds=100.0, walltime=1000, gpu_memory=1, gpu_memory_size=None)
    found = {one.name: one.share for one in quantities(usage)}
    assert (found[quantity], found["GPU memory"]) == (share, None)


def test_what_is_not_known_has_no_share_and_no_suggestion() -> None:
    usage = Usage(nodes=1, tasks_per_node=1, cpus_per_task=1, seconds=0.0)
    assert [(one.name, one.share) for one in quantities(usage)] == [("CPU", None), ("memory", None), ("time", None)]
    assert suggestions(usage) == ()


@pytest.mark.parametrize(
    ("cores", "busiest", "options"),
    [
        (25.6, 6.4, None),  # 80 %
        (25.5, 6.4, ()),
        (12.0, 3.2, ("--cpus-per-task", "4")),
        (12.0, 3.3, ("--cpus-per-task", "5")),
        (4.0, 1.0, ("--cpus-per-task", "2")),
        (4.0, 0.8, ("--cpus-per-task", "1")),
        (4.0, None, ("--cpus-per-task", "2")),
        (0.1, 0.05, ("--cpus-per-task", "1")),
    ],
)
def test_cpus(cores: float, busiest: float | None, options: tuple[str, ...] | None) -> None:
    found = advice(CPU, cores=cores, busiest_rank=busiest)
    assert found == ([("CPU", " ".join(options))] if options else [])


def test_a_run_that_idles_is_asked_to_look_at_its_logs() -> None:
    assert words(CPU, cores=0.3, busiest_rank=0.1) == (
        "used 1 % of its CPUs: --cpus-per-task 1 is enough, as each rank computed on 1 core at most. "
        "Its ranks waited most of the time: look at their logs (hpclaunch logs)"
    )
    alone = words(CPU, cpus_per_task=1, cores=0.3, cores_asked=4.0, busiest_rank=0.1)
    assert alone == "used 8 % of its CPUs. Its ranks waited most of the time: look at their logs (hpclaunch logs)"


def test_the_cpus_of_a_core_are_asked_for_together() -> None:
    usage = replace(CPU, cpus_per_task=16, cpus_per_core=2, cores=8.0, busiest_rank=2.0)
    assert advice(usage) == [("CPU", "--cpus-per-task 6")]


def test_of_a_run_with_gpus_the_cpus_are_no_waste() -> None:
    assert advice(GPU, cores=1.0, cores_asked=64.0) == []


@pytest.mark.parametrize(
    ("gpus", "options"),
    [
        ((0.25,) * 8, None),
        ((0.24,) * 8, "--nodes 1 --tasks-per-node 3 --cpus-per-task 10"),
        ((0.12,) * 8, "--nodes 1 --tasks-per-node 2 --cpus-per-task 16"),
        ((0.05,) * 8, "--nodes 1 --tasks-per-node 1 --cpus-per-task 32"),
        ((0.9,) * 4 + (0.0,) * 4, "--nodes 1"),
        ((0.9,) * 6 + (0.0,) * 2, "--tasks-per-node 3 --cpus-per-task 10"),
    ],
)
def test_fewer_gpus_have_more_cpus_each(gpus: tuple[float, ...], options: str | None) -> None:
    assert advice(GPU, gpus=gpus) == ([("GPU", options)] if options else [])


def test_the_words_about_gpus() -> None:
    one = replace(GPU, nodes=1, tasks_per_node=1, gpus_per_node=4, gpus=(0.12,) * 4)
    assert words(one) == "used 12 % of 4 GPUs: the same work fits --gpus-per-node 1"
    assert "a larger batch per rank" in words(replace(one, gpus_per_node=1, gpus=(0.12,)))
    assert words(one, gpus=(0.0,) * 4).startswith("its GPUs computed nothing: check that the program finds them")
    assert "3 of them not at all" in words(one, gpus=(0.9, 0.0, 0.0, 0.0))
    assert suggestions(replace(one, gpus=(0.1, 0.1, 0.1, 0.1), is_mixed=True))[0].options == ()


@pytest.mark.parametrize(
    ("gigabytes", "seconds", "options"),
    [(7.0, 600.0, None), (6.9, 600.0, "--memory 9G"), (0.2, 600.0, "--memory 1G"), (0.2, 299.0, None)],
)
def test_memory(gigabytes: float, seconds: float, options: str | None) -> None:
    asked = {"memory": int(gigabytes * 2**30), "memory_asked": 10 * 2**30, "seconds": seconds, "cores": None}
    assert advice(CPU, **asked) == ([("memory", options)] if options else [])


@pytest.mark.parametrize(
    ("seconds", "complete", "options"),
    [
        (2520.0, True, None),  # 70 %
        (2500.0, True, "--walltime 00:50:00"),
        (600.0, True, "--walltime 00:15:00"),
        (600.0, False, None),
        (299.0, True, None),
    ],
)
def test_time(seconds: float, complete: bool, options: str | None) -> None:
    usage = replace(CPU, seconds=seconds, walltime=3600, is_complete=complete)
    assert advice(usage) == ([("time", options)] if options else [])


@pytest.mark.parametrize(("share", "text"), [(0.0, "0 %"), (0.001, "<1 %"), (0.12, "12 %"), (1.0, "100 %")])
def test_percent(share: float, text: str) -> None:
    assert percent(share) == text


def test_the_gpus_of_others_say_nothing_about_a_run_that_asked_for_none() -> None:
    usage = replace(GPU, nodes=1, gpus_per_node=0, gpus=(0.0,) * 4, gpu_samples=1000, gpu_seconds=600.0)
    assert suggestions(usage) == ()
    assert {one.name for one in quantities(usage)} == {"CPU", "memory", "time"}
