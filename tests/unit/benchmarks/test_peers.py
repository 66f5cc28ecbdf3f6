"""The comparison with other tools: its rules, its page, and what a user of each tool writes."""

from __future__ import annotations

import ast
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PEERS = Path(__file__).parents[3] / "benchmarks" / "peers"
if not PEERS.is_dir():
    pytest.skip("group checkout: an sdist holds no benchmarks", allow_module_level=True)

Modules = Callable[[str], ModuleType]


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Modules]:
    """Imports a module of benchmarks/peers by its name."""
    folders = [str(PEERS), str(PEERS.parent / "reference")]
    monkeypatch.setattr(sys, "path", [*folders, *sys.path])
    before = set(sys.modules)
    hidden = {name: sys.modules.pop(name) for name in ("cases", "store", "table") if name in sys.modules}
    yield importlib.import_module
    for name in set(sys.modules) - before | set(hidden):
        found = getattr(sys.modules.get(name), "__file__", None) or ""
        if found.startswith(str(PEERS.parent)):
            del sys.modules[name]
    sys.modules.update(hidden)


def seen(**changes: Any) -> dict[str, Any]:
    """What a run shows in which every rule holds, with changes."""
    arguments = importlib.import_module("cases").HOSTILE_ARGUMENTS
    ranks = [
        {"rank": rank, "job": "7", "restart": 0, "host": f"node{rank // 2}", "gpus": [str(rank % 2)]}
        | {"arguments": list(arguments), "variables": {}}
        for rank in range(8)
    ]
    good = {"jobs": ["7"], "ranks": ranks, "exit_code": 0, "error": "", "gpus": 8, "command_was_run": False}
    good |= {"state": "COMPLETED", "sacct_exit_code": "0:0", "was_preempted": False, "shows_job": True}
    good |= {"dry_run": {"jobs": 0, "exit_code": 0, "same": "the same bytes", "difference": ""}}
    return good | changes


def judge(peers: Modules, column: str, what: dict[str, Any]) -> bool:
    found = next(one for one in peers("columns").COLUMNS if one.name == column)
    passed, words = found.judge(what)
    assert words
    return bool(passed)


def changed(what: dict[str, Any], **values: Any) -> dict[str, Any]:
    """The same with these values in its first rank."""
    first, *others = what["ranks"]
    return {**what, "ranks": [{**first, **values}, *others]}


@pytest.mark.parametrize(
    "column", ["size", "arguments", "odd_environment", "gpus_given", "gpus_own", "dry_run", "lost_answer"]
)
def test_a_rule_holds_for_a_good_run_and_not_without_a_job(peers: Modules, column: str) -> None:
    peers("columns")
    assert judge(peers, column, seen())
    assert not judge(
        peers, column, seen(jobs=[], ranks=[], gpus=0, exit_code=1, shows_job=False, error="no such option")
    )


def test_size_counts_ranks_and_nodes(peers: Modules) -> None:
    peers("columns")
    good = seen()
    assert not judge(peers, "size", {**good, "ranks": good["ranks"][:7]})
    assert not judge(peers, "size", changed(good, host="node1"))
    assert not judge(peers, "size", changed(good, rank=1))
    assert not judge(peers, "size", {**good, "jobs": ["7", "8"]})


def test_arguments_and_variables_are_unchanged(peers: Modules) -> None:
    peers("columns")
    good = seen()
    assert not judge(peers, "arguments", changed(good, arguments=["two", "words"]))
    assert not judge(peers, "arguments", {**good, "command_was_run": True})
    assert not judge(peers, "odd_environment", changed(good, variables={"ODD": "line 1"}))
    typed = peers("cases").TYPED_VARIABLES
    clean = {**good, "ranks": [{**rank, "variables": dict(typed)} for rank in good["ranks"]]}
    assert judge(peers, "clean_environment", clean)
    assert not judge(peers, "clean_environment", good)
    assert not judge(peers, "clean_environment", changed(clean, variables={**typed, "OMP_NUM_THREADS": "77"}))


def test_the_end_of_a_job(peers: Modules) -> None:
    peers("columns")
    assert judge(peers, "exit_code", seen(state="FAILED", sacct_exit_code="3:0"))
    assert not judge(peers, "exit_code", seen(state="FAILED", sacct_exit_code="1:0"))
    again = [{**rank, "restart": 1} for rank in seen()["ranks"]]
    both = seen(ranks=[*seen()["ranks"], *again], was_preempted=True)
    assert judge(peers, "preempted", both)
    assert not judge(peers, "preempted", {**both, "was_preempted": False})
    assert not judge(peers, "preempted", seen(was_preempted=True))
    assert not judge(peers, "preempted", {**both, "ranks": both["ranks"][:-1]})


def test_a_gpu_of_its_own(peers: Modules) -> None:
    peers("columns")
    assert not judge(peers, "gpus_own", changed(seen(), gpus=["0", "1"]))
    assert not judge(peers, "gpus_own", changed(seen(), gpus=["1"]))
    assert not judge(peers, "gpus_given", seen(gpus=4))


def test_the_script_and_the_lost_answer(peers: Modules) -> None:
    peers("columns")
    assert not judge(peers, "dry_run", seen(dry_run=None))
    assert not judge(peers, "dry_run", seen(dry_run={"jobs": 0, "exit_code": 0, "same": "", "difference": "a, b"}))
    assert not judge(peers, "lost_answer", seen(jobs=["7", "8"]))
    assert not judge(peers, "lost_answer", seen(shows_job=False))


def test_every_tool_writes_python_and_json_for_every_case(peers: Modules, tmp_path: Path) -> None:
    modules, cases, place_of = peers("environments").modules(), peers("cases").CASES, peers("peer").Place
    assert len(modules) == 9 and next(iter(modules)) == "hpclaunch"
    place = place_of(
        folder=tmp_path, seen=tmp_path, python=Path("/p"), programs=Path("/b"), program=tmp_path / "program.py"
    )
    for name, module in modules.items():
        assert module.PEER.name == name and "==" in module.PEER.package + "==" and module.__doc__
        for case in cases.values():
            for path, text in module.PEER.files(case, place).items():
                if path.endswith(".py"):
                    ast.parse(text)
                if path.endswith(".yaml"):
                    json.loads(text)
            assert module.PEER.submit(case, place) or "" in module.PEER.cannot


def test_cells_and_the_columns_where_hpclaunch_is_not_first(peers: Modules) -> None:
    page, store = peers("peers_page"), peers("store")
    columns = {column.name: column for column in peers("columns").COLUMNS}
    own = peers("environments").every_peer()["hpclaunch"]

    def result(run: int, **changes: Any) -> Any:
        what = seen(**changes)
        measured = {**what, "verdicts": peers("columns").verdicts("plain", what)}
        return store.Result(study="peers", case="hpclaunch/plain", seed=run, settings={}, measured=measured, machine={})

    results = [result(run, cpu_s=seconds) for run, seconds in enumerate((0.5, 0.7, 0.6), 1)]
    assert page.cell(own, columns["submit_cpu"], results).text == "0.60 s"
    assert page.cell(own, columns["size"], results).text == "yes"
    assert page.cell(own, columns["size"], results[:2]).text == "not run"
    once = [*results[:2], result(3, gpus=4)]
    assert page.cell(own, columns["gpus_given"], once) == page.Cell(
        text="2 of 3", value=pytest.approx(1 / 3), seen="4 GPUs"
    )
    cannot = peers("environments").every_peer()["SkyPilot"]
    assert page.cell(cannot, columns["size"], []).seen == cannot.cannot[""]
    row = {"hpclaunch": page.Cell(text="0.60 s", value=0.6), "a": page.Cell(text="0.10 s", value=0.1)}
    row |= {"b": page.Cell(text="0.60 s", value=0.6), "c": page.Cell(text="not run", value=None)}
    assert page.not_first(row) == ["a"]


def test_the_table_of_results_has_what_the_rules_say(peers: Modules, tmp_path: Path) -> None:
    page, store = peers("peers_page"), peers("store")
    for run, gpus in ((1, 8), (2, 4)):
        what = seen(cpu_s=0.5, gpus=gpus)
        measured = {"version": "0.1.0 (abc)", "load_average": 1.0, **what}
        measured["verdicts"] = peers("columns").verdicts("plain", what)
        one = store.Result(study="peers", case="hpclaunch/plain", seed=run, settings={}, measured=measured, machine={})
        store.write(one, tmp_path)
    first, second = page.results_of("hpclaunch", tmp_path)
    assert "ranks" not in first.measured
    assert (first.measured["verdicts"]["gpus_given"], second.measured["verdicts"]["gpus_given"]) == (
        "yes: 8 GPUs",
        "no: 4 GPUs",
    )
    assert len(store.read_raw("peers", "hpclaunch/plain", 1, tmp_path).measured["ranks"]) == 8
    assert page.results_of("submitit", tmp_path) == []
