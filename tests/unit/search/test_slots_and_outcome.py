"""What a trial gets of its node, and how its end is judged."""

from __future__ import annotations

import pytest

from hpclaunch.search.outcome import outcome_of
from hpclaunch.search.slots import slots_of, usable_cpus, usable_gpus


def test_slots_share_nothing() -> None:
    slots = slots_of(4, list(range(10)), ["0", "1", "2", "3"])
    assert [slot.cpu_list for slot in slots] == ["0-1", "2-3", "4-5", "6-7"]
    assert [slot.gpus for slot in slots] == [("0",), ("1",), ("2",), ("3",)]
    assert all(slot.is_bound for slot in slots)


def test_where_the_system_offers_fewer_cpus_than_the_scheduler_counts_shares_are_numbers() -> None:
    slots = slots_of(4, [0, 1], [], wanted_cpus=8)
    assert [slot.cpu_list for slot in slots] == ["0-1", "2-3", "4-5", "6-7"]
    assert not any(slot.is_bound for slot in slots)


def test_the_gpus_are_those_that_a_variable_names() -> None:
    cuda, rocr, hip = "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"
    assert usable_gpus({cuda: "3,2"}, 4) == (cuda, ["3", "2"])
    assert usable_gpus({cuda: "", rocr: "2,3"}, 2) == (rocr, ["2", "3"])
    assert usable_gpus({rocr: "2,3", hip: "0,1"}, 2) == (hip, ["0", "1"])  # HIP counts among those that are left
    assert usable_gpus({"ZE_AFFINITY_MASK": "1,0"}, 2) == ("ZE_AFFINITY_MASK", ["1", "0"])
    assert usable_gpus({}, 2) == (cuda, ["0", "1"])
    assert usable_gpus({cuda: ""}, 0) == (cuda, [])


def test_what_the_script_says_of_this_machines_gpus_comes_first() -> None:
    variables = {"HPCLAUNCH_SEARCH_GPUS": "CUDA_VISIBLE_DEVICES=MIG-a,MIG-b", "CUDA_VISIBLE_DEVICES": "0,1"}
    assert usable_gpus(variables, 2) == ("CUDA_VISIBLE_DEVICES", ["MIG-a", "MIG-b"])


def test_the_usable_cpus_are_each_once() -> None:
    found = usable_cpus()
    assert found
    assert len(found) == len(set(found))


@pytest.mark.parametrize(
    ("code", "value", "asked", "state"),
    [
        (0, 0.5, "", "COMPLETED"),
        (0, None, "", "FAILED"),
        (3, 0.5, "", "FAILED"),
        (75, None, "", "INTERRUPTED"),
        (137, None, "", "MACHINE"),
        (-9, None, "", "MACHINE"),
        (143, None, "", "MACHINE"),
        (139, None, "", "FAILED"),
        (143, None, "INTERRUPTED", "INTERRUPTED"),
        (-15, 0.5, "PRUNED", "PRUNED"),
        (0, 0.5, "PRUNED", "PRUNED"),
        (0, 0.5, "INTERRUPTED", "COMPLETED"),
    ],
)
def test_an_end_is_judged_by_code_value_and_request(code: int, value: float | None, asked: str, state: str) -> None:
    assert outcome_of(code, "loss" if value is None else "", asked).state == state


def test_without_a_metric_a_trial_needs_no_value() -> None:
    assert outcome_of(0, "", "").state == "COMPLETED"


def test_a_launcher_that_failed_is_no_fault_of_the_trial() -> None:
    log = "srun: error: Unable to create step for job 7: Socket timed out on send/recv operation\n"
    assert outcome_of(1, "loss", "", log).state == "MACHINE"
