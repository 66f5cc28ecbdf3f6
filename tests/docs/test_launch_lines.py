"""hpclaunch's GPU requests beside the centres' own, flag by flag; docs/launch-lines.md is written from here.

After a change that is meant: ``pytest tests/docs/test_launch_lines.py --rewrite-golden``, then read the diff.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpclaunch.config.catalog import SITE
from hpclaunch.config.site import NodeType, Site
from hpclaunch.core.spec import JobSpec
from tests.builders import BUNDLED, bundled_job, bundled_site, planned
from tests.docs.launch_lines import DERIVED, Row, centre, compare, ours, placement, slurm_options

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "launch-lines.md"
DATA: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("launch_lines.yaml").read_text(encoding="utf-8"))
EVERYWHERE: dict[str, str] = DATA["everywhere"]
KEYS = {"site", "what", "source", "third_party", "typed", "directives", "launch", "exports", "ranks"}
KEYS |= {"one_gpu_each", "closest", "why"}


@dataclass(frozen=True, kw_only=True)
class Table:
    """One request of a centre, compared."""

    request: dict[str, Any]
    site: Site
    spec: JobSpec
    rows: list[Row]

    def unsaid(self) -> set[str]:
        """The flags that hpclaunch adds at every site: only where both sides have the same ranks on their nodes."""
        derived = {row.name for row in self.rows if row.differs}
        if derived & {"nodes of the job", "ranks on a node"}:
            return set()
        theirs, mine = centre(self.request), ours(self.spec)
        same = {name for name in EVERYWHERE if theirs.said(name) in (None, mine.said(name))}
        return derived & same - set(self.request["why"])

    def reason(self, row: Row) -> str:
        """Why the row differs; empty where it does not."""
        if not row.differs:
            return ""
        why: dict[str, str] = self.request["why"]
        return why.get(row.name) or EVERYWHERE.get(row.name, "")


def spec_of(request: dict[str, Any]) -> JobSpec:
    typed = {"target": "cifar", "account": "m1234", "accept_unverified": True, **request["typed"]}
    of_torch = typed.get("launcher") == "torchrun"  # which starts none of the jobs that train with Horovod
    return planned(bundled_site(request["site"]), bundled_job("ddp" if of_torch else "cifar"), **typed)


def table(request: dict[str, Any]) -> Table:
    spec, site = spec_of(request), bundled_site(request["site"])
    rows = compare(centre(request), ours(spec), site.node_types[spec.node_type], request)
    return Table(request=request, site=site, spec=spec, rows=rows)


REQUESTS = {f"{request['site']}: {request['what']}": request for request in DATA["requests"]}


def faults(one: Table) -> list[str]:
    """Differences that nobody has explained, and explanations that explain none."""
    differing = {row.name for row in one.rows if row.differs}
    explained = set(one.request["why"])
    missing = [f"not explained: {name}" for name in sorted(differing - explained - one.unsaid())]
    return missing + [f"explains no difference: {name}" for name in sorted(explained - differing)]


HEAD = """# Launch lines: the centres' and hpclaunch's

This page compares the script that a centre teaches for a job on several GPU nodes with hpclaunch's script for the same
request: the bundled job `cifar`, on as many nodes. It covers every bundled Slurm site except the test cluster. Where a
centre shows no such script, its script for several CPU nodes is compared.

- **Flags**: every option on resources and placement that either script has: partition, QOS, constraint, nodes, tasks,
  CPUs, GPUs, memory, binding, distribution, network, MPI, and the variables that order GPUs. Not compared: account,
  walltime, logs, what happens when a rank fails, the MPI transport (`-mca`, `-x`), variables of network libraries.
- The rows below the flags show **their effect** according to the manuals of sbatch and srun, computed for both sides:
  nodes, ranks, CPUs (as Slurm counts them) and GPUs, the GPUs that each rank of a node sees, in its order, and the GPU
  that it uses (a · b · c: local rank 0, 1, 2). The program is the same on both sides: it uses the only GPU that it
  sees, or the one with its local rank's number. A variable that is set before the launch is assumed to reach the
  ranks, as its author intends. `--gpu-bind=closest` is read with the centre's own table of GPUs and cores.
- hpclaunch's srun repeats nodes, tasks and CPUs per task (*also srun*), because since Slurm 22.05 srun does not read
  the CPUs per task from the directives ([slurm-facts.md](slurm-facts.md), row 2). That is no difference.
- A row with an empty last column has no difference; the last column of every other row gives the reason.
- **Third party**: the request is not the centre's own, but from a file of one of its users. **Retired**: the
  machine no longer exists; hpclaunch renders scripts for it and never submits them.

`pytest tests/docs/test_launch_lines.py --rewrite-golden` writes this page from
[launch_lines.yaml](../tests/docs/launch_lines.yaml) and the plans; a difference not explained there fails the tests.
"""


def document() -> str:
    """The whole page."""
    tables = [table(request) for request in DATA["requests"]]
    index = ["| site | request | flags that differ | what comes out differently |", "|---|---|---|---|"]
    index += [f"| {one.site.name} | {_marked(one)} | {_differing(one)} |" for one in tables]
    parts = [HEAD, "\n".join(index) + "\n"]
    shown_site = ""
    for one in tables:
        if one.site.name != shown_site:
            parts.append(f"## {one.site.name}\n\n{one.site.title}\n")
        shown_site = one.site.name
        parts.append(_section(one))
    return "\n".join(parts)


def _differing(one: Table) -> str:
    """Two cells: the flags that only say more or otherwise, and the quantities that are others."""
    names = [row.name for row in one.rows if row.differs]
    flags = [row.title for row in one.rows if row.differs and row.name not in DERIVED]
    return f"{', '.join(flags)} | {', '.join(name for name in names if name in DERIVED)}"


def _marked(one: Table) -> str:
    marks = [*(["third party"] if one.request.get("third_party") else [])]
    marks += ["retired"] if one.site.status == "retired" else []
    return str(one.request["what"]) + "".join(f", *{mark}*" for mark in marks)


def _section(one: Table) -> str:
    what = _marked(one)
    typed = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in one.request["typed"].items())
    lines = [f"### {what[0].upper()}{what[1:]}", "", f"Source: {one.request['source']}. hpclaunch: `{typed}`", ""]
    lines += ["| | centre | hpclaunch | why it differs |", "|---|---|---|---|"]
    lines += [f"| {row.title} | {row.centre} | {row.ours} | {one.reason(row)} |" for row in one.rows]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="session", autouse=True)
def rewrite(request: pytest.FixtureRequest) -> None:
    """Write the page anew if that was asked for."""
    if request.config.getoption("--rewrite-golden"):
        DOCUMENT.write_text(document(), encoding="utf-8")


def test_every_slurm_site_is_compared_on_several_nodes() -> None:
    sites = [bundled_site(found.name) for found in BUNDLED.names(SITE)]
    expected = {site.name for site in sites if site.scheduler == "slurm" and site.status != "test"}
    assert {request["site"] for request in DATA["requests"] if request["typed"]["nodes"] > 1} == expected


@pytest.mark.parametrize("name", REQUESTS)
def test_every_difference_is_explained_and_every_explanation_needed(name: str) -> None:
    request = REQUESTS[name]
    assert set(request) <= KEYS
    assert faults(table(request)) == []


def test_what_is_explained_for_all_sites_is_needed() -> None:
    assert set().union(*(table(request).unsaid() for request in DATA["requests"])) == set(EVERYWHERE)


def test_the_page_is_what_the_data_and_the_plans_say() -> None:
    assert document() == DOCUMENT.read_text(encoding="utf-8"), "pytest tests/docs/test_launch_lines.py --rewrite-golden"


def changed(site: str, **changes: Any) -> list[str]:
    """The faults of the site's first request, changed."""
    request = next(request for request in DATA["requests"] if request["site"] == site)
    assert faults(table(request)) == []
    return faults(table({**request, **changes}))


def test_a_flag_that_nobody_has_explained_is_found() -> None:
    directives = "-C gpu -N 2 --ntasks-per-node 8 --cpus-per-task 9 --gpus-per-node 8 --mem 300G"
    expected = ["not explained: CPUs of a rank", "not explained: cpus-per-task", "not explained: mem"]
    assert changed("cori", directives=directives) == expected


def test_an_explanation_of_nothing_is_found() -> None:
    assert changed("cori", why={"gres": "no reason"}) == ["explains no difference: gres"]


def test_a_rank_on_another_gpu_is_found() -> None:
    found = changed("perlmutter", exports="CUDA_VISIBLE_DEVICES=3,2,0,1")
    assert found == ["not explained: GPU a rank takes", "not explained: GPUs a rank sees"]


def test_what_holds_for_all_sites_excuses_nothing_where_the_ranks_are_others() -> None:
    found = changed("vista", directives="-N 2 -n 4 -p gh")
    assert {"not explained: ntasks", "not explained: ntasks-per-node", "not explained: ranks on a node"} <= set(found)


def test_the_nodes_of_a_request_that_names_none() -> None:
    """Eight GPUs of nodes with four need two nodes, though one has the CPUs; a CPU node has no GPU to take."""
    words = "--gpus=a100:8 --ntasks-per-gpu=1 --cpus-per-task=6"
    request: dict[str, Any] = {"directives": words, "launch": "srun"}
    found = placement(centre(request), NodeType(title="a node", gpus_per_node=4, cores_per_node=48), request)
    assert (found.nodes, found.ranks, found.cpus, found.gpus) == (2, 4, 6, 4)
    request = {"directives": "-N 10 -n 40", "launch": "ibrun"}
    found = placement(centre(request), NodeType(title="a CPU node", cores_per_node=112), request)
    assert (found.ranks, found.gpus, found.takes) == (4, 0, ())
    assert [DERIVED[name](found) for name in ("GPUs a rank sees", "GPU a rank takes")] == ["none", "none"]


def test_an_option_that_nobody_has_sorted_is_refused() -> None:
    with pytest.raises(AssertionError, match="--spread-job: is it about resources"):
        slurm_options(["--nodes=2", "--spread-job=yes"])


SEEN = [
    ("--gpus-per-node=4", "srun", "", "each: 0, 1, 2, 3"),
    ("--gpus-per-node=4", "srun", "CUDA_VISIBLE_DEVICES=3,2,1,0", "each: 3, 2, 1, 0"),
    ("--gpus-per-task=1", "srun", "", "0 · 1 · 2 · 3"),
    ("--gpus-per-task=1 --gpu-bind=none", "srun", "", "each: 0, 1, 2, 3"),
    ("--gres=gpu:4", "srun --gpu-bind=closest", "", "3 · 2 · 1 · 0"),
    ("--gres=gpu:4 --gpu-bind=closest", "mpirun -np 8", "", "each: 0, 1, 2, 3"),
    ("--gpus=8", "srun", "ROCR_VISIBLE_DEVICES=$SLURM_LOCALID", "0 · 1 · 2 · 3"),
    ("", "ibrun", "", "each: 0, 1, 2, 3"),
    ("--gpus=a100:8 --ntasks-per-gpu=1", "srun", "", "each: 0, 1, 2, 3"),
]


@pytest.mark.parametrize(("gpus", "launch", "ranks", "expected"), SEEN)
def test_the_gpus_that_a_rank_sees(gpus: str, launch: str, ranks: str, expected: str) -> None:
    """Two nodes of four ranks and four GPUs; GPU 3 is beside the cores of rank 0."""
    request: dict[str, Any] = {"directives": f"-N 2 --ntasks-per-node=4 {gpus}", "launch": launch, "ranks": ranks}
    request["closest"] = [3, 2, 1, 0]
    node = NodeType(title="a node", gpus_per_node=4)
    assert DERIVED["GPUs a rank sees"](placement(centre(request), node, request)) == expected
