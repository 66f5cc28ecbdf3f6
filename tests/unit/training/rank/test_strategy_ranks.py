"""The place of a rank under a strategy of TensorFlow, and how ranks exchange values without Horovod."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from hpclaunch.training.rank import strategy_ranks
from hpclaunch.training.rank.failure import TrainingError

OF_HOROVODRUN = {"HOROVOD_RANK": "3", "HOROVOD_SIZE": "4", "HOROVOD_LOCAL_RANK": "1", "HOROVOD_LOCAL_SIZE": "2"}
OF_MPIRUN = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}
OF_THE_SCRIPT = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}


@pytest.mark.parametrize("told", [OF_THE_SCRIPT, OF_HOROVODRUN, OF_MPIRUN, {**OF_THE_SCRIPT, "HOROVOD_RANK": "0"}])
def test_the_place_is_that_of_the_script_else_of_the_launcher(told: dict[str, str]) -> None:
    environ = dict(told)
    fields = strategy_ranks.place(environ, "job")
    assert [fields[name] for name in ("rank", "size", "local_rank", "local_size")] == [3, 4, 1, 2]
    assert environ["RANK"] == "3"  # messages name the rank by it


def test_ranks_that_do_not_know_their_place_are_refused() -> None:
    with pytest.raises(TrainingError, match=r"the world has 1 rank, but 4 were requested .* Every rank needs RANK"):
        strategy_ranks.place({"HPCLAUNCH_WORLD_SIZE": "4"}, "job")


class Table:
    """The texts of TensorFlow's coordination service; a reader waits until its text is there."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._changed = threading.Condition()

    def set_config_key_value(self, key: str, text: str) -> None:
        with self._changed:
            assert key not in self.texts
            self.texts[key] = text
            self._changed.notify_all()

    def get_config_key_value(self, key: str) -> str:
        with self._changed:
            assert self._changed.wait_for(lambda: key in self.texts, timeout=60)
            return self.texts[key]

    def delete_config_key_value(self, key: str) -> None:
        with self._changed:
            for name in [name for name in self.texts if name.startswith(key + "/")]:
                del self.texts[name]


def test_every_rank_gets_the_values_of_all_in_pieces_and_old_ones_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    table, found = Table(), {}
    monkeypatch.setattr(strategy_ranks, "PIECE", 8)
    values: list[list[Any]] = [["short", None, {"a": 1}], ["x" * 100, 1.5, b"\0"], ["", (), [2]]]

    def gathered(rank: int) -> None:
        exchange = strategy_ranks.Exchange(table, rank, 3)
        found[rank] = [exchange.gather(value, "values") for value in values[rank]] + [exchange.gather(rank, "rounds")]

    threads = [threading.Thread(target=gathered, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    expected = [[values[rank][turn] for rank in range(3)] for turn in range(3)]
    assert [found[rank] for rank in range(3)] == [[*expected, [0, 1, 2]]] * 3
    assert {key.rpartition("/")[0].rpartition("/")[0] for key in table.texts} == {
        "hpclaunch/values/3",
        "hpclaunch/rounds/1",
    }


@pytest.mark.parametrize("root_first", [True, False])
def test_rank_0_ends_after_all_others(root_first: bool) -> None:
    table = Table()
    exchanges = [strategy_ranks.Exchange(table, rank, 3) for rank in range(3)]
    root = threading.Thread(target=exchanges[0].end)
    if root_first:
        root.start()
    exchanges[1].end()
    if root_first:
        assert root.is_alive()
    exchanges[2].end()
    if not root_first:
        root.start()
    root.join(60)
    assert not root.is_alive()
