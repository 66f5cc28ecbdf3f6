"""``sites compare``, and a second ``--site`` where one is taken."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Desk

SLOW_SITE = """
title: one small node
status: production
scheduler: local
defaults: {node_type: a}
node_types: {a: {title: x, cores_per_node: 1}}
launchers: {default: horovodrun, options: {horovodrun: {}}}
"""


def test_the_quicker_site_stands_first_and_each_says_its_cost_and_its_software(desk: Desk) -> None:
    desk.write("site_configs/small.yaml", SLOW_SITE)
    done = desk.type("sites", "compare", "cifar", "--site", "small", "--site", "perlmutter", "--account", "m1")
    assert done.code == 0, done.err
    header, first, second = (line.split("\t") for line in done.out.splitlines())
    assert header == ["site", "nodes", "time", "cost", "software"]
    assert [line[0] for line in (first, second)] == ["perlmutter", "small"]
    assert first[1].startswith("1 x gpu40 = ") and "node-hours (" in first[3] and first[4].startswith("tensorflow/")
    assert first[4].endswith(", with Horovod")
    assert second[2:] == ["not known", "not known", "no tensorflow in its file"]
    assert "nothing was measured: hpclaunch profile JOB measures" in done.err


def test_it_is_what_plan_says_there(desk: Desk) -> None:
    compared = desk.type("sites", "compare", "ddp", "--site", "perlmutter", "--nodes", "4", "--json").json["sites"][0]
    planned = desk.type("plan", "ddp", "--site", "perlmutter", "--nodes", "4", "--json").json
    (row,) = [row for row in planned["rows"] if row["nodes"] == 4]
    assert (compared["nodes"], compared["ranks"], compared["framework"]) == (4, row["ranks"], "pytorch")
    assert compared["seconds"] == [row["candidate"]["time_s"][name] for name in ("middle", "low", "high")]
    assert compared["cost"] == [row["candidate"]["cost"][name] for name in ("middle", "low", "high")]


def test_a_site_that_would_refuse_it_stands_last_with_the_reason(desk: Desk) -> None:
    desk.write("site_configs/small.yaml", SLOW_SITE)
    words = ("sites", "compare", "cifar", "--nodes", "8", "--site")
    done = desk.type(*words, "small", "--site", "perlmutter")
    assert done.code == 0, done.err
    assert [line.split("\t")[0] for line in done.out.splitlines()[1:]] == ["perlmutter", "small"]
    assert done.out.splitlines()[2].split("\t")[2] == "refused" and "small would refuse it: " in done.err
    assert desk.type(*words, "small").code == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("cifar", "--site", "nowhere"), "no site is called 'nowhere'"),
        (("nothing", "--site", "perlmutter"), "no job is called 'nothing'"),
        (("cifar", "--site", "perlmutter", "--site", "perlmutter"), "--site: perlmutter is named more than once"),
        (("cifar", "--site", "perlmutter", "--set", "epohcs=3"), "epohcs"),
    ],
)
def test_what_no_site_can_have_is_one_error(desk: Desk, words: tuple[str, ...], message: str) -> None:
    done = desk.type("sites", "compare", *words)
    assert (done.code != 0, done.out) == (True, "")
    assert message in done.err and done.err.count("error: ") == 1


@pytest.mark.parametrize(
    "verb", [("submit", "cifar", "--dry-run"), ("plan", "cifar"), ("doctor",), ("render", "cifar")]
)
def test_other_commands_take_one_site(desk: Desk, verb: tuple[str, ...]) -> None:
    done = desk.type(*verb, "--site", "local", "--site=perlmutter")
    assert (done.code, done.out) == (2, "")
    assert f"hpclaunch {verb[0]} --site: is typed more than once, and this command takes one site" in done.err
