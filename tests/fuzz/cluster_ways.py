"""Hostile answers of Slurm about a cluster: ``sites detect``, ``doctor``, ``submit --here``, ``plan``, ``retry``."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import strategies as st

from hpclaunch.config.catalog import bundled
from hpclaunch.config.fileformat import read
from hpclaunch.config.site import Site
from hpclaunch.config.yaml_edits import edited
from hpclaunch.core.users import user_name
from hpclaunch.resolve.nodes.allocation import site_within
from hpclaunch.schedulers.slurm import (
    allocation,
    configuration,
    describe,
    history,
    limits,
    node_states,
    partition_nodes,
    programs,
    scheduler,
)
from hpclaunch.schedulers.slurm.programs import Answer
from hpclaunch.sites.describe.draft import Here
from hpclaunch.sites.describe.writing import text_of
from tests.builders import bundled_site, planned
from tests.fuzz.scene import Scene, Way
from tests.fuzz.text_ways import words
from tests.unit.sites.describe.texts import answers

QUEUE = "7|RUNNING|{uid}|batch|a|normal|1:00:00|59:00|n[1-2],gpu07|(null)"
DETAIL = "JobId=7 JobName=x\n Nodes=n[1-2] CPU_IDs=0-3,8 Mem=100 GRES=gpu:a100:2(IDX:0-1)\n"
PAST = "2026-01-02T03:04:05|2026-01-02T03:04:05|2026-01-02T03:05:05|2|1:00:00|batch|normal\n"
HELP = "      --container=bundle\n      --container-image=IMAGE\n"
ODD = [
    "",
    "(null)",
    "N/A",
    "UNLIMITED",
    "NONE",
    "ALL",
    "-1",
    "0",
    "\u00b2",
    "9" * 5000,
    "1-",
    "--",
    "-",
    "3-1",
    "n[1-",
    "=",
]
SHARES = f"""Current Association Manager state
ClusterName=lab Account=a UserName={user_name()}(7) Partition= Priority=0 ID=8 ParentAccount= Lft=5 DefAssoc=Yes \
GrpJobs=N(1) GrpSubmitJobs=9(4) GrpWall=60(1.50) GrpTRES=cpu=8(2),mem=N(1000),gres/gpu:a100=4(2) \
GrpTRESMins=cpu=1000(7) GrpTRESRunMins=cpu=N(480) MaxJobs=5(1) MaxSubmitJobs=20(3) MaxWallPJ=1440 MaxTRESPJ=cpu=8
QOS=normal(1) UsageRaw=0.0 GrpJobs=3(1) GrpSubmitJobs=N(4) GrpWall=N(0.00) GrpTRES=cpu=8(2),gres/gpu=N(2) \
MinTRESPJ= Account Limits= a={{MaxJobsPA=N(1) MaxSubmitJobsPA=N(4) MaxTRESPA=cpu=N(2)}} User Limits= \
{os.getuid()}={{MaxJobsPU=N(1) MaxSubmitJobsPU=5(4) MaxTRESPU=cpu=N(2)}}"""
ODD += [
    "gpu:\u00b2",
    "gpu:a:" + "9" * 5000,
    "gpu",
    "gpu:a100:0",
    "gpu::",
    "n[1-3,07]",
    "n[0-999999999]",
    "a b",
    "1K",
    "2T",
    ",",
]
ODD += [
    "1-00:00:00",
    "99999999-00:00:00",
    "infinite",
    "0x1F",
    "\x1b[2J",
    "|",
    "\n",
    "NodeName=",
    "PartitionName=x",
    "cpu=1,gres/gpu=",
]
WORD = re.compile(r"[^\s=|,:]+")
edits = st.lists(
    st.tuples(
        st.sampled_from(["word", "word", "word", "cut", "drop", "twice"]),
        st.integers(0, 10**6),
        st.one_of(st.sampled_from(ODD), words),
    ),
    max_size=4,
)


def respelled(text: str, changes: Sequence[tuple[str, int, str]]) -> str:
    """The text with other words in some of its places, or some of its lines left out, repeated, or cut off."""
    for how, number, word in changes:
        lines = text.split("\n")
        line = number % len(lines)
        if how == "word":
            places = list(WORD.finditer(text))
            place = places[number % len(places)].span() if places else (0, 0)
            text = text[: place[0]] + word + text[place[1] :]
        elif how == "cut":
            text = text[: number % (len(text) + 1)] + word
        else:
            lines[line : line + 1] = [] if how == "drop" else [lines[line]] * 2
            text = "\n".join(lines)
    return text[:200_000].encode("utf-8", "replace").decode()  # as bytes of a program are decoded


KINDS = (
    "config",
    "nodes",
    "partitions",
    "qos",
    "associations",
    "sinfo",
    "mpi",
    "gres_conf",
    "queue",
    "detail",
    "past",
    "help",
    "shares",
)
BASES = {version: {kind: str(getattr(answers(version), kind, "")) for kind in KINDS} for version in ("22.05", "24.05")}
for base in BASES.values():
    base.update(queue=QUEUE, detail=DETAIL, past=PAST, help=HELP, shares=SHARES)
    base["config"] += "\nAccountingStorageEnforce = associations,limits,qos,safe\n"


def kind_of(command: Sequence[str]) -> str:
    """Which answer a command gets."""
    line = " ".join(command)
    named = {"show config": "config", "show node": "nodes", "show partition": "partitions", "show qos": "qos"}
    named |= {"show associations": "associations", "--mpi=list": "mpi", "--help": "help", "show job": "detail"}
    named |= {"show assoc_mgr": "shares"}
    named |= {"squeue": "queue", "sacct ": "past", "sinfo": "sinfo"}
    return next((kind for words, kind in named.items() if words in line), "")


def feed_description(scene: Scene, version: str, changes: dict[str, Any], ok: bool) -> None:
    """Every answer has changes of its own, and every reader of one is called."""
    texts = {kind: respelled(text, changes[kind]) for kind, text in BASES[version].items()}
    texts["queue"] = texts["queue"].replace("{uid}", str(os.getuid()))

    def ask(command: Sequence[str], **_: Any) -> Answer:
        return Answer(
            ok=ok or kind_of(command) == "config", text=texts.get(kind_of(command), ""), messages=texts["mpi"]
        )

    outcomes = []
    with pytest.MonkeyPatch.context() as patch:
        for module in (allocation, configuration, describe, history, partition_nodes, programs, scheduler):
            patch.setattr(module, "ask", ask)
        patch.setattr(limits, "_ask_all", lambda *commands, **_: [ask(command).text for command in commands])
        configuration._known.clear()
        patch.setattr(programs, "_answers", {})  # each input is asked for, however recent the last one is
        for part in (draft_a_site, compare_a_site, check_a_site, read_allocation, read_rest):
            part(scene)
            outcomes.append(scene.outcome)
    scene.outcome = "result" if "result" in outcomes else "refused"


def draft_a_site(scene: Scene) -> None:
    """``sites detect``: the drafted file is read as a submission would."""
    file = scene.place / "project/drafted.yaml"
    with scene.met():
        described = scheduler.describe(Here(user="ada", launchers=("mpirun",), known_cluster="hpctest"))
        text = text_of(described, "drafted")
    if scene.outcome == "result":
        file.write_text(text, encoding="utf-8")
        with scene.met():
            read(file, Site, name="drafted")


def compare_a_site(scene: Scene) -> None:
    """``doctor``: the site file beside what Slurm shows, and the limits of a submission and of ``retry``."""
    with scene.met():
        found = scheduler.compare(scene.store["site"])
        assert found is None or all(one.key and one.what for one in found.differences)
        objections = scheduler.objections(scene.store["spec"])
        assert all(fault.what for fault in objections.faults) and all(objections.delays)
        limits.longest_walltime("")


def check_a_site(scene: Scene) -> None:
    """``sites check``: the patched file is read as a submission would."""
    text = (bundled("site_configs") / "testcluster.yaml").read_text(encoding="utf-8")
    with scene.met():
        found = scheduler.check(scene.store["site"])
        corrected, _ = edited(text, [one.change for one in found.findings if one.change is not None])
    if scene.outcome == "result":
        file = scene.place / "project/corrected.yaml"
        file.write_text(corrected, encoding="utf-8")
        with scene.met():
            read(file, Site, name="corrected")


def read_allocation(scene: Scene) -> None:
    """``submit --here``."""
    with scene.met():
        found = allocation.allocation({"SLURM_JOB_ID": "7"})
        assert found is not None and len(found.hosts) <= 100_000 and found.cpus >= 0
        site_within(scene.store["site"], found)
        allocation.variables_in(found, scene.store["spec"].layout, {"SLURM_JOB_ID": "7"})


def read_rest(scene: Scene) -> None:
    """Waiting times for ``plan``, types of GPUs and of MPI for ``doctor``, nodes that ``retry`` leaves out."""
    with scene.met():
        history.past_jobs(1)
        history.start_in(programs.ask(["squeue"]).text)
        scheduler.gpu_types()
        scheduler.mpi_types()
        node_states.troubles(programs.ask(["scontrol", "show", "node"]).text, 0.0)


def prepare_site(scene: Scene) -> None:
    """A site file, and a submission at that site."""
    scene.store["site"] = bundled_site("testcluster")
    scene.store["spec"] = planned(account="a", qos="normal", partition="batch")
    feed_description(scene, "24.05", {kind: [] for kind in KINDS}, ok=True)  # what is loaded late is loaded now


CLUSTER_WAYS = {
    "descriptions of clusters": Way(
        st.tuples(
            st.sampled_from(sorted(BASES)),
            st.fixed_dictionaries(dict.fromkeys(KINDS, edits)),
            st.sampled_from([True, True, True, False]),
        ),
        feed_description,
        prepare_site,
    )
}
