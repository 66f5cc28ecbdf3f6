"""The card of a site: no value without its place and sources, marks in words, lines that fit."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.config.catalog import SITE, Catalog
from hpclaunch.config.documents import read_yaml
from hpclaunch.config.fileformat import INTERNAL, Environment
from hpclaunch.config.limits import Limits
from hpclaunch.config.provenance import values
from hpclaunch.config.site import BOOK, EnvironmentRecipe, LauncherOptions, NodeType, Site, Source, load_site
from hpclaunch.sites.card import sections_of
from hpclaunch.sites.card.lines import Row, Section, lines_of
from hpclaunch.sites.card.short import gpus_in_short, lacks
from hpclaunch.sites.card.wording import wording_of
from hpclaunch.sites.card.words import text_of
from tests.builders import BUNDLED, a_site, bundled_site

SITES = [found.name for found in BUNDLED.names(SITE)]
WIDTH = 100


def card(name: str, catalog: Catalog = BUNDLED) -> list[str]:
    path = catalog.find(SITE, name).path
    sections = sections_of(load_site(catalog, name), read_yaml(path), str(path), "", ())
    return ["".join(text for text, _ in line).rstrip() for line in lines_of(sections, WIDTH)]


def own_site(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "site_configs" / "mine.yaml"
    path.parent.mkdir()
    path.write_text(text)
    return card("mine", Catalog(project=tmp_path, user=tmp_path / "user"))


@pytest.mark.parametrize("name", SITES)
def test_every_value_of_a_bundled_site_is_shown_with_its_sources(name: str) -> None:
    site, content = bundled_site(name), read_yaml(BUNDLED.find(SITE, name).path)
    shown = " ".join(" ".join(card(name)).split())
    for value in values(site, content):
        last = value.value[-1] if isinstance(value.value, list) and value.value else value.value
        if isinstance(last, str) and last != "none":  # which is said in other words
            assert " ".join(last.split()) in shown, value.key
        bracket = ", ".join(value.sources) + (f"; {value.mark}" if value.mark else "")
        assert f"[{bracket}{f': {value.how}' if value.how else ''}]" in shown, value.key


@pytest.mark.parametrize("name", SITES)
def test_every_value_of_a_bundled_site_has_a_section_of_its_own_kind(name: str) -> None:
    assert "Other" not in card(name)


@pytest.mark.parametrize("name", SITES)
def test_what_is_not_verified_is_listed_with_what_is_missing_and_sources_with_their_dates(name: str) -> None:
    site, shown = bundled_site(name), " ".join(" ".join(card(name)).split())
    assert all(f"{key} {' '.join(why.split())}" in shown for key, why in site.unverified.items())
    assert all(f"{key} {source.ref} ({source.read})" in shown for key, source in site.sources.items())


@pytest.mark.parametrize("name", SITES)
def test_a_line_is_wider_than_the_terminal_only_for_one_long_word(name: str) -> None:
    for line in card(name):
        start = line.strip().split("  ")[-1]
        assert len(line) <= WIDTH or " " not in start.strip(), line


def test_values_from_one_place_share_a_bracket_and_marks_are_words() -> None:
    site = replace(
        a_site(),
        sources={"a": Source(ref="the guide", read="2026"), "b": Source(ref="a user", read="undated")},
        origins={"partitions": ("a",), "partitions.debug": ("b",)},
        third_party=("partitions.debug",),
        derived={"partitions.batch.max_gpus_per_node": "of 8"},
    )
    content = {
        "partitions": {
            "batch": {"max_nodes": 1, "max_walltime": "01:00:00", "max_gpus_per_node": 4},
            "debug": {"max_nodes": 2},
        }
    }
    lines = ["".join(text for text, _ in line) for line in lines_of(sections_of(site, content, "f", "", ()), WIDTH)]
    start = lines.index("Partitions")
    assert lines[start + 1 : start + 3] == [
        "  batch (usual)  at most 1 node, at most 01:00:00 [a] at most 4 GPUs per node [a; derived: of 8]",
        "  debug          at most 2 nodes [b; third-party]",
    ]
    assert ("[b; third-party]", "third-party") in [
        (text.strip(), style)
        for line in lines_of(sections_of(site, content, "f", "", ()), WIDTH)
        for text, style in line
    ]


def test_values_with_old_sources_only_are_marked_and_counted() -> None:
    site = replace(a_site(), sources={"a": Source(ref="the guide", read="2024")}, origins={"partitions": ("a",)})
    content = {"partitions": {name: {"max_nodes": 1} for name in ("batch", "debug")}}
    sections = sections_of(site, content, "f", "of 2024-12-31, 22 months ago", {"partitions.debug.max_nodes"})
    lines = ["".join(text for text, _ in line) for line in lines_of(sections, WIDTH)]
    start = lines.index("Partitions")
    assert [line.split("[")[1] for line in lines[start + 1 : start + 3]] == ["a]", "a; old]"]
    words = "of 2024-12-31, 22 months ago; 1 value from old sources only (marked old)"
    assert f"  newest source  {words}" in lines


def test_a_file_without_origins_is_shown_without_brackets_and_says_so(tmp_path: Path) -> None:
    shown = own_site(
        tmp_path,
        "title: mine\nscheduler: slurm\ndefaults: {node_type: gpu}\n"
        "node_types: {gpu: {title: one, cores_per_node: 8, gpus_per_node: 2}}\n",
    )
    assert "the file names no sources" in " ".join(shown)
    assert not any("[" in line for line in shown)
    assert "not verified: the launcher, how GPUs are asked for; --accept-unverified" in " ".join(shown)


def test_a_retired_site_says_that_it_is_never_submitted_to() -> None:
    assert any("never submitted" in line for line in card("cori"))
    assert not any("never submitted" in line for line in card("perlmutter"))


@pytest.mark.parametrize(
    ("kind", "key", "value", "text"),
    [
        (Limits, "max_nodes", 1, "at most 1 node"),
        (Limits, "max_running", 3, "3 running jobs per user"),
        (Limits, "bins", [{"max_nodes": 91, "max_walltime": "2h"}], "2h with up to 91 nodes"),
        (Limits, "preemption.safe", "2h", "never preempted in the first 2h"),
        (Limits, "preemption.grace", "5m", "a preempted job has 5m to save"),
        (Site, "folders.purge_days", 30, "files that were not used for 30 days are deleted"),
        (EnvironmentRecipe, "packages", ["jax==1", "flax"], "pip install jax==1 flax"),
        (Site, "hosts.login", ["a", "b"], "a, b"),
        (Environment, "sbatch", ["--uenv=x", "--view=y"], "with --uenv=x, --view=y"),
        (Limits, "by_node_type.knl.max_nodes", 9, "knl: at most 9 nodes"),
        (Limits, "by_node_type.a.b.max_nodes", 9, "a.b: at most 9 nodes"),
        (NodeType, "environment.variables.A", True, "A=true"),
        (Environment, "variables.A.B", "x", "A.B=x"),
        (Site, "detect.environment.NERSC_HOST", "cori", "NERSC_HOST=cori"),
        (Site, "gpus.directive", "none", "no directive: they come with the nodes"),
        (LauncherOptions, "gpu_bind", "none", "--gpu-bind=none"),
        (Limits, "whole_nodes", False, "nodes may be shared"),
        (Site, "task_directives", [], "no directives: only the launcher sets them"),
        (Limits, "", {}, "no extra options"),
        (Environment, "setup", ["a", "b"], "a; b"),
        (Site, "some_new.key", 3, "some new key 3"),
        (NodeType, "cores_per_node", None, "cores per node: none"),
    ],
)
def test_how_a_value_is_said(kind: type, key: str, value: object, text: str) -> None:
    assert text_of(kind, key, value) == text


def test_every_key_of_a_site_file_says_in_which_section_it_stands() -> None:
    own = [one for one in dataclasses.fields(Site) if one.metadata not in (INTERNAL, BOOK)]
    assert [one.name for one in own if not wording_of(one).section] == []


def test_a_label_longer_than_its_column_keeps_its_distance() -> None:
    section = Section(
        title="t", rows=(Row(label="x" * 40, pieces=(("word", ""),)), Row(label="y", pieces=(("w", ""),)))
    )
    lines = ["".join(text for text, _ in line) for line in lines_of([section], WIDTH)]
    assert lines == ["t", f"  {'x' * 40}  word", f"  y{' ' * 31}w"]


@pytest.mark.parametrize(
    ("model", "memory", "short"),
    [
        ("NVIDIA A100 (SXM4)", 40, "4 x A100 40 GB"),
        ("AMD Instinct MI210", 64, "4 x MI210 64 GB"),
        ("AMD MI250X (one of its two dies)", 64, "4 x MI250X die 64 GB"),
        (None, None, "4 x GPU"),
    ],
)
def test_gpus_in_short(model: str | None, memory: int | None, short: str) -> None:
    node = NodeType(title="x", gpus_per_node=4, gpu_model=model, gpu_memory_gb=memory)
    assert gpus_in_short(replace(a_site(), node_types={"gpu": node})) == short
    assert gpus_in_short(replace(a_site(), node_types={"gpu": node, "b": node})) == f"{short} (+1 type)"


def test_a_site_without_gpus_has_none_in_short() -> None:
    assert gpus_in_short(bundled_site("local")) == ""


def test_the_essentials_that_a_file_lacks() -> None:
    site = a_site()
    assert lacks(site) == []
    assert lacks(replace(site, launchers=None)) == ["the launcher"]
    assert lacks(replace(site, gpus=None)) == ["how GPUs are asked for"]
    assert lacks(replace(site, gpus=None, node_types={"gpu": NodeType(title="x")})) == []
    assert lacks(bundled_site("local")) == []
