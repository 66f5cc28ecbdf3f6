"""The documents name every key that a file may hold, and their example files can be used."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.config.catalog import Catalog
from hpclaunch.config.fileformat import INTERNAL, Environment
from hpclaunch.config.job import Job
from hpclaunch.config.settings import Settings, load_settings
from hpclaunch.config.site import Site, load_site
from tests.builders import bundled_site, planned

DOCS = Path(__file__).resolve().parents[2] / "docs"


def keys(kind: Any, seen: set[Any]) -> Iterator[str]:
    """The keys of a dataclass and of all that its fields may hold."""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind not in seen:
        seen.add(kind)
        for one in dataclasses.fields(kind):
            if one.metadata != INTERNAL:
                yield one.name
                yield from keys(one.type, seen)
    for inner in typing.get_args(kind):
        yield from keys(inner, seen)


def text(document: str) -> str:
    return (DOCS / document).read_text(encoding="utf-8")


def example(document: str, name: str) -> str:
    found = re.search(rf"<!-- example: {name} -->\n```yaml\n(.+?)```", text(document), re.DOTALL)
    assert found, name
    return found[1]


# ``environment`` stands in all three, and is explained in one.
@pytest.mark.parametrize(
    ("document", "kind", "elsewhere"),
    [
        ("site-files.md", Site, {Environment}),
        ("settings.md", Settings, {Environment}),
        ("job-files.md", Job, set()),
    ],
)
def test_every_key_that_a_file_may_hold_is_explained(document: str, kind: Any, elsewhere: set[Any]) -> None:
    named = set(re.findall(r"[a-z_0-9]+", " ".join(re.findall(r"`([^`\n]+)`", text(document)))))
    found = set(keys(kind, set(elsewhere)))
    assert len(found) > 10
    assert sorted(found - named) == []


def test_the_example_of_a_site_can_be_planned_for(tmp_path: Path) -> None:
    folder = tmp_path / "site_configs"
    folder.mkdir()
    (folder / "hypatia.yaml").write_text(example("site-files.md", "site"), encoding="utf-8")
    site = load_site(Catalog(project=tmp_path, user=tmp_path / "user"), "hypatia")
    spec = planned(site, nodes=2, account="m1")
    assert (spec.partition, spec.layout.world_size) == ("gpu", 8)
    assert [one.value for one in spec.declined] == ["short", "batch"]
    spec = planned(site, partition="batch", account="m1")
    assert spec.node_type == "cpu"


def test_the_example_of_settings_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text(example("settings.md", "settings"), encoding="utf-8")
    settings = load_settings(Catalog(user=tmp_path, project=tmp_path / "project"))
    site = bundled_site("perlmutter")
    spec = planned(site, users=settings)
    directives = dict(spec.directives)
    assert (spec.account, spec.qos, directives["mail-type"]) == ("m1234_g", "debug", "END,FAIL")
    assert "no-requeue" not in directives
    assert dict(spec.environment)["NCCL_DEBUG"] == "INFO"
    assert "FI_MR_CACHE_MONITOR" not in dict(spec.environment)
    assert spec.warnings == ()
