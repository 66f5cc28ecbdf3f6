"""The metadata and the README of a crate: whole, of a run with everything that a run can have, and of a bare one.

After a change that is meant: ``pytest tests/unit/reports/exports/test_crate.py --rewrite-golden``, then read the diff.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.reports.exports.crate import CrateFile, RunFacts, metadata_of, readme_of

GOLDEN = Path(__file__).with_name("crate-metadata.json")
FACTS = RunFacts(
    label="mnist-20261128-101500",
    job="mnist",
    site="perlmutter",
    state="COMPLETED",
    error="",
    user="ada",
    command="python train.py --data RUN/x",
    began="2026-11-28T10:15:00+00:00",
    ended="2026-11-28T11:45:30+00:00",
    version="0.1.0",
    license="CC-BY-4.0",
    parameters={"learning_rate": "0.1", "epochs": "3", "augment": "true", "optimizer": "adam"},
    layout={"nodes": "2", "tasks_per_node": "4"},
    data=("mnist", "random-64"),
    replaced={"RUN": "the run directory", "HOME": "the home folder"},
)
NAMES = (
    *("README.md", "code/a b.py", "code/net/model.py", "environment.json", "hpclaunch.sh", "job.sh", "logs/4711.out"),
    *("metrics.jsonl", "model/model.json", "model/weights.bin", "spec.json"),
)
CHANGED = ("job.sh", "environment.json", "logs/4711.out")
FILES = [
    CrateFile(path=name, size=100 + number, sha256=f"{number:064x}", changed=name in CHANGED)
    for number, name in enumerate(NAMES)
]
BARE = replace(FACTS, state="FAILED", error="exit code 7:0", began="", license="", data=None, user="")


def entities(facts: RunFacts, files: list[CrateFile]) -> dict[str, dict[str, Any]]:
    return {one["@id"]: one for one in json.loads(metadata_of(facts, files))["@graph"]}


def test_the_metadata_of_a_run_with_everything(request: pytest.FixtureRequest) -> None:
    text = metadata_of(FACTS, FILES)
    if request.config.getoption("--rewrite-golden"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")
    names = [one["@id"] for one in json.loads(text)["@graph"]]
    assert len(names) == len(set(names)), "every entity is described once"


def links_in(value: Any) -> list[str]:
    """Every link to an entity within a value."""
    if isinstance(value, list):
        return [link for one in value for link in links_in(one)]
    if isinstance(value, dict):
        own = [value["@id"]] if set(value) == {"@id"} else []
        return [*own, *(link for one in value.values() for link in links_in(one))]
    return []


@pytest.mark.parametrize("facts", [FACTS, BARE], ids=["all", "bare"])
@pytest.mark.parametrize("names", [NAMES, ("README.md", "job.sh")], ids=["every file", "the script alone"])
def test_every_link_of_the_metadata_leads_to_an_entity(facts: RunFacts, names: tuple[str, ...]) -> None:
    found = entities(facts, [one for one in FILES if one.path in names])
    links = {link for one in found.values() for link in links_in(list(one.values()))}
    assert {link for link in links if "://" not in link} <= set(found)
    assert set(found) >= {name.replace(" ", "%20") for name in names}


def test_a_run_that_failed_before_it_began_claims_no_more_than_is_known() -> None:
    found = entities(BARE, [one for one in FILES if one.path in ("README.md", "job.sh")])
    action = found["#run"]
    assert action["actionStatus"] == "http://schema.org/FailedActionStatus"
    assert (action["error"], action["endTime"], action["result"]) == ("exit code 7:0", FACTS.ended, [])
    assert "startTime" not in action and "#data" not in found
    assert not {"metrics.jsonl", "model/", "code/", "logs/"} & set(found)
    assert {"@id": "code/"} not in action["object"] and {"@id": "#data"} not in action["object"]
    assert found["#submitter"]["name"] == "unknown"
    assert found["./"]["license"] == found["job.sh"]["license"] == {"@id": "#license"}
    assert found["#license"]["name"] == "no license was named"
    assert entities(replace(BARE, error=""), FILES)["#run"]["error"] == "FAILED"


def test_a_license_may_be_an_address_and_a_data_set_may_have_no_fingerprint() -> None:
    address = "https://example.org/terms"
    found = entities(replace(FACTS, license=address, data=("own", "")), FILES)
    assert found["./"]["license"] == {"@id": address} and address in found
    assert (found["#data"]["name"], found["#data"]["description"]) == ("own", "read by the run")


@pytest.mark.parametrize(
    ("value", "kind"),
    [("true", "Boolean"), ("false", "Boolean"), ("True", "Text"), ("3", "Integer"), ("3.0", "Float"), ("", "Text")],
)
def test_the_type_of_a_parameter_is_that_of_its_text(value: str, kind: str) -> None:
    found = entities(replace(FACTS, parameters={"x": value}), FILES)
    assert found["#parameter-x"]["additionalType"] == kind and found["#value-x"]["value"] == value


def test_the_readme_names_everything_that_is_not_whole_and_every_name_that_stands_for_a_folder() -> None:
    left_out = {"code/b.pem": "the name of a key", "code/a\n`x`": "it is a link"}
    shortened = {"metrics.jsonl": "3 of its 9 lines", "logs/4711.out": "its first 8 MB"}
    text = readme_of(FACTS, left_out, shortened)
    assert text.splitlines()[2].startswith(
        "A run of mnist at perlmutter (nodes 2, tasks_per_node 4); it ended as COMPLETED. Written by hpclaunch 0.1.0"
    )
    assert "checkpoints, end. Of this long file: 3 of its 9 lines\n" in text
    assert "Only a part of these files is here:\n\n- `logs/4711.out`: its first 8 MB\n\n" in text
    missing = (
        "These files of the run are not here:\n\n- `code/a\\n'x'`: it is a link\n- `code/b.pem`: the name of a key\n"
    )
    assert missing in text
    assert text.endswith("replaced by names:\n\n- `RUN`: the run directory\n- `HOME`: the home folder\n")
    bare = readme_of(replace(FACTS, replaced={}), {}, {})
    assert not [words for words in ("Only a part", "not here", "replaced by", "long file") if words in bare]
