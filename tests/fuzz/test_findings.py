"""What the long fuzzing once found, each by its name: `make fuzz` begins where these end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpclaunch.config.catalog import Catalog
from hpclaunch.config.site import load_site
from hpclaunch.core.errors import InvalidFile
from hpclaunch.core.spec import Code
from hpclaunch.planner.measured.finished_runs import Taken, taken_in
from hpclaunch.planner.measured.model_figures import NotFoundOut, _figures
from hpclaunch.runs.snapshot import faults_of
from hpclaunch.runs.sweep_values import values_at
from hpclaunch.schedulers.slurm import allocation, history
from hpclaunch.schedulers.slurm.programs import Answer
from hpclaunch.sites.describe.answers import gpus_of, nodes_of
from hpclaunch.sites.slurm_limits import limits_of_partition
from hpclaunch.sites.slurm_text import numbers
from tests.builders import a_desk, a_job, refused
from tests.fuzz.measured_ways import FINISHED, MODEL, TRAINED_JOB

ENDLESS = 10**12
NO_NUMBERS = ["\u00b2", "9" * 5000]
"""Texts of which str.isdigit() says that they are numbers, while int() refuses them."""


def test_a_site_file_with_a_million_million_gpus_a_node_is_refused(tmp_path: Path) -> None:
    """Planning listed them all for CUDA_VISIBLE_DEVICES, until memory was full."""
    (tmp_path / "site_configs").mkdir()
    (tmp_path / "site_configs" / "mine.yaml").write_text(
        f"""
        title: mine
        scheduler: local
        defaults: {{node_type: box}}
        node_types: {{box: {{title: it, cores_per_node: 8, gpus_per_node: {ENDLESS}}}}}
        launchers: {{default: mpirun, options: {{mpirun: {{}}}}}}
        """
    )
    with pytest.raises(InvalidFile, match=r"gpus_per_node.* is too large.*at most 1024"):
        load_site(Catalog(project=tmp_path, user=tmp_path), "mine")


def test_a_million_million_gpus_that_are_typed_are_refused() -> None:
    faults = refused(a_desk(), gpus_per_node=ENDLESS)
    assert any(f"{ENDLESS} GPUs per node requested" in fault.what for fault in faults)


def test_a_damaged_pattern_in_the_list_of_ignored_files_is_refused(tmp_path: Path) -> None:
    """The library that reads the patterns gives [z-a] to the regular expressions as it is."""
    (tmp_path / "train.py").write_text("")
    (tmp_path / ".hpclaunchignore").write_text("*.csv\n[z-a]\n")
    (fault,) = faults_of(Code(folder=str(tmp_path), entry="train.py"))
    assert fault.where == str(tmp_path / ".hpclaunchignore")
    assert "cannot be used: a pattern is damaged: bad character range" in fault.what


DAMAGED = [(part, value) for part in ("nodes", "samples_per_s") for value in ("x", None, {}, -1, 1e999, True)]
DAMAGED += [(part, value) for part in ("overhead_s", "read") for value in ("x", {}, True)] + [("read", 1e999)]


@pytest.mark.parametrize(("part", "value"), DAMAGED)
def test_a_damaged_file_of_finished_runs_is_not_used(tmp_path: Path, part: str, value: object) -> None:
    """Its values went into the plan unchecked, where many of these are an exception."""
    content = json.loads(json.dumps(FINISHED))
    (finished,) = content["finished"]
    file = tmp_path / "x.finished"
    file.write_text(json.dumps(content))
    assert taken_in(tmp_path / "x.json", a_job()).finished
    {"read": content, "overhead_s": finished}.get(part, finished["point"])[part] = value
    file.write_text(json.dumps(content))
    assert taken_in(tmp_path / "x.json", a_job()) == Taken()


def test_endless_figures_of_a_model_are_refused_as_figures() -> None:
    with pytest.raises(NotFoundOut, match="the probe's figures cannot be used: cannot convert float infinity"):
        _figures(TRAINED_JOB, {**MODEL, "parameters": float("inf")})


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_slurms_answers_may_have_texts_that_only_look_like_numbers(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    limits = limits_of_partition({"MaxNodes": text, "TotalNodes": "4", "MinNodes": text})
    assert (limits.max_nodes, limits.min_nodes) == (4, None)
    assert (gpus_of(f"gpu:{text}"), numbers([text, "3"])) == (((text, 1),), [3])
    started = "2026-01-02T03:04:05"
    monkeypatch.setattr(
        history, "ask", lambda *_, **__: Answer(ok=True, text=f"{started}|{started}|{started}|{text}|1|a|b")
    )
    assert history.past_jobs(1) == []


def test_a_node_with_an_endless_number_of_cpus_is_read() -> None:
    """Of so many digits the first 18 count: no node has as many, and a site file refuses them."""
    (node,) = nodes_of(f"NodeName=n1 Sockets=1 CoresPerSocket=4 CPUTot={'9' * 5000} RealMemory=1 Partitions=a")
    assert node.cpus == 10**18 - 1


@pytest.mark.parametrize("cpus", ["-", "0--3", "1-2-3", "8-0"])
def test_damaged_cpus_of_an_allocation_are_not_known(cpus: str) -> None:
    (found,) = allocation._parts_in(f" Nodes=n1 CPU_IDs={cpus} Mem=1 GRES=gpu:2")
    assert found == (0, 2)


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_a_line_of_values_whose_index_only_looks_like_a_number_has_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "values").write_text(f"{text}\t--a=1\n")
    assert values_at(tmp_path, 0) == {}
