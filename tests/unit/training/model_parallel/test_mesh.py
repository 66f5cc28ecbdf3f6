"""Which ranks share what."""

from __future__ import annotations

import pytest

from hpclaunch.training.model_parallel.mesh import Division, Mesh, fault, update_groups, update_groups_fault

LAYOUTS = [(1, 1, 4), (4, 1, 1), (2, 1, 2), (4, 1, 2), (2, 2, 2), (3, 2, 4)]


@pytest.mark.parametrize(("data", "pipeline", "tensor"), LAYOUTS)
def test_every_rank_has_one_place(data: int, pipeline: int, tensor: int) -> None:
    size = data * pipeline * tensor
    places = [Mesh(data, pipeline, tensor, rank) for rank in range(size)]
    assert [(one.data_index * pipeline + one.stage) * tensor + one.tensor_index for one in places] == list(range(size))
    for one in places:
        assert one.rank in one.tensor_group and one.rank in one.data_group
        assert (len(one.tensor_group), len(one.data_group), one.size) == (tensor, data, size)
        for other in one.tensor_group:
            assert (places[other].data_index, places[other].stage) == (one.data_index, one.stage)
        for other in one.data_group:
            assert (places[other].stage, places[other].tensor_index) == (one.stage, one.tensor_index)
        assert places[one.first_of_copy].data_index == one.data_index
        assert one.first_of_copy % (pipeline * tensor) == 0


def test_the_groups_of_all_ranks_are_the_same_everywhere_and_each_once() -> None:
    assert Mesh(2, 1, 2, 3).groups() == Mesh(2, 1, 2, 0).groups() == [(0, 1), (0, 2), (1, 3), (2, 3)]
    assert Mesh(1, 1, 4, 0).groups() == []  # one group is the world, all others have one rank
    assert Mesh(4, 1, 1, 0).groups() == []
    assert Mesh(2, 2, 1, 0).groups() == [(0, 2), (0, 1), (1, 3), (2, 3)]  # data groups, and pairs of stages
    assert Mesh(1, 3, 1, 0).groups() == [(0, 1), (1, 2)]


def test_stages_know_their_neighbours() -> None:
    places = [Mesh(2, 3, 2, rank) for rank in range(12)]
    assert [one.part for one in places] == [*range(6)] * 2
    assert places[7].pipeline_group == (7, 9, 11)
    assert [places[rank].next_pair for rank in (7, 9, 11)] == [(7, 9), (9, 11), ()]


@pytest.mark.parametrize(
    ("size", "local_size", "division", "words"),
    [
        (8, 4, Division(2), ""),
        (8, 4, Division(4), ""),
        (8, 4, Division(8), ""),
        (8, 8, Division(2), ""),
        (
            4,
            4,
            Division(3),
            "--tensor-parallel=3 does not divide the 4 ranks: use a multiple of 3 ranks, or --tensor-parallel=1, 2 or ",
        ),
        (1, 1, Division(2), "does not divide the 1 rank: use a multiple of 2 ranks, or --tensor-parallel=1"),
        (
            12,
            4,
            Division(3),
            "--tensor-parallel=3 does not fit nodes of 4 ranks: some layers would be shared between two nodes",
        ),
        (8, 4, Division(2, 2), ""),
        (8, 1, Division(1, 8), ""),
        (
            8,
            4,
            Division(2, 3),
            "--pipeline-stages=3 does not divide the 4 groups of 2 ranks: use a multiple of 6 ranks",
        ),
        (4, 1, Division(1, 3), "--pipeline-stages=3 does not divide the 4 ranks: use a multiple of 3 ranks, or"),
        (12, 4, Division(6), "does not fit nodes of 4 ranks"),
    ],
)
def test_what_cannot_be_divided_is_named(size: int, local_size: int, division: Division, words: str) -> None:
    found = fault(size, local_size, division)
    assert words in found and bool(words) == bool(found)


def test_groups_that_update_apart_are_neighbours_and_equal() -> None:
    assert update_groups(8, 2) == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert update_groups(4, 4) == [(0,), (1,), (2,), (3,)]
    assert update_groups(6, 4) == []
    assert [update_groups_fault(size, count) for size, count in ((8, 2), (4, 4), (3, 1))] == ["", "", ""]
    assert update_groups_fault(6, 4) == (
        "--update-groups=4 does not divide the 6 ranks: use a multiple of 4 ranks, or --update-groups=1, 2, 3 or 6"
    )
    assert "the 1 rank: use a multiple of 2 ranks, or --update-groups=1" in update_groups_fault(1, 2)
