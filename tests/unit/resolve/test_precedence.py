"""Who decides: flag, then job, then the user's settings (or SBATCH_* variables), then the site."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.config.data_sets import DataSet
from hpclaunch.config.fileformat import Environment
from hpclaunch.config.job import Resources
from hpclaunch.config.settings import Settings, SiteSettings
from hpclaunch.config.site import Defaults, Folders, NodeType
from hpclaunch.core.spec import JobSpec
from tests.builders import HOUR, a_context, a_desk, a_job, a_site, origin_of, planned

SITE = a_site(
    defaults=Defaults(node_type="gpu", partition="batch", qos="site-qos", account="site-account", walltime=HOUR),
    folders=Folders(data="/site/data"),
)
NAMED = {"account", "partition", "qos"}


def chosen(key: str, by: set[str]) -> tuple[str, str]:
    """Let everyone in ``by`` offer something for ``key``; return (value, origin) of the plan."""
    typed: dict[str, Any] = {}
    resources: dict[str, Any] = {}
    settings = Settings()
    environment: dict[str, str] = {}
    launcher = None
    values: dict[str, tuple[Any, Any]] = {
        "node type": ("cpu", "cpu"),
        "nodes": (2, 3),
        "tasks per node": (2, 3),
        "cpus per task": (2, 3),
        "gpus per node": (4, 4),
        "walltime": (2 * HOUR, 3 * HOUR),
        "launcher": ("mpirun", "mpirun"),
    }
    if "flag" in by:
        flags = {"data": ("data_dir", "/flag/data"), **{name: (name, "debug") for name in NAMED}}
        flags |= {name: (name.replace(" ", "_"), flag) for name, (flag, _) in values.items()}
        typed = dict([flags[key]])
    if "job" in by:
        resources = {key.replace(" ", "_"): values[key][1]} if key != "launcher" else {}
        launcher = "mpirun" if key == "launcher" else None
    if "settings" in by:
        name = {"data": "data_dir"}.get(key, key)
        settings = Settings(**{name: "debug"})
    if "site settings" in by:
        settings = replace(settings, sites={"cluster": SiteSettings(**{key: "batch"})})
    if "variable" in by:
        name = {"data": "HPCLAUNCH_DATA_DIR"}.get(key, f"SBATCH_{key.upper()}")
        environment = {name: "debug"}
    job = a_job(resources=Resources(**resources), launcher=launcher, data=DataSet(name="d", layouts=("x",)))
    typed.setdefault("walltime", HOUR // 4) if key in NAMED else None
    return origin_of(planned(SITE, job, settings, a_context(environment=environment), **typed), key)


@pytest.mark.parametrize(
    ("key", "by", "value", "origin"),
    [
        ("node type", {"flag", "job"}, "cpu", "--node-type"),
        ("node type", {"job"}, "cpu", "job"),
        ("node type", set(), "gpu", "site cluster"),
        ("nodes", {"flag", "job"}, "2", "--nodes"),
        ("nodes", {"job"}, "3", "job"),
        ("nodes", set(), "1", "default of 'auto'"),
        ("tasks per node", {"flag", "job"}, "2", "--tasks-per-node"),
        ("tasks per node", {"job"}, "3", "job"),
        ("tasks per node", set(), "4", "site cluster"),
        ("cpus per task", {"flag", "job"}, "2", "--cpus-per-task"),
        ("cpus per task", {"job"}, "3", "job"),
        ("cpus per task", set(), "8", "formula"),
        ("gpus per node", {"flag", "job"}, "4", "--gpus-per-node"),
        ("gpus per node", {"job"}, "4", "job"),
        ("gpus per node", set(), "4", "one per task"),
        ("walltime", {"flag", "job"}, str(2 * HOUR), "--walltime"),
        ("walltime", {"job"}, str(3 * HOUR), "job"),
        ("walltime", set(), str(HOUR), "site cluster"),
        ("launcher", {"flag", "job"}, "mpirun", "--launcher"),
        ("launcher", {"job"}, "mpirun", "job"),
        ("launcher", set(), "srun", "site cluster"),
        ("account", {"flag", "variable", "settings"}, "debug", "--account"),
        ("account", {"variable", "settings"}, "debug", "SBATCH_ACCOUNT"),
        ("account", {"settings", "site settings"}, "batch", "settings"),
        ("account", {"settings"}, "debug", "settings"),
        ("account", set(), "site-account", "site cluster"),
        ("partition", {"flag", "variable", "settings"}, "debug", "--partition"),
        ("partition", {"variable", "settings"}, "debug", "SBATCH_PARTITION"),
        ("partition", {"settings"}, "debug", "settings"),
        ("partition", set(), "batch", "site cluster"),
        ("qos", {"flag", "variable", "settings"}, "debug", "--qos"),
        ("qos", {"variable", "settings"}, "debug", "SBATCH_QOS"),
        ("qos", {"settings"}, "debug", "settings"),
        ("qos", set(), "site-qos", "site cluster"),
        ("data", {"flag", "variable", "settings"}, "/flag/data", "--data-dir"),
        ("data", {"variable", "settings"}, "debug", "HPCLAUNCH_DATA_DIR"),
        ("data", {"settings"}, "debug", "settings"),
        ("data", set(), "/site/data", "site cluster"),
    ],
)
def test_the_first_who_says_something_decides(key: str, by: set[str], value: str, origin: str) -> None:
    assert chosen(key, by) == (value, origin)


def test_row_01_sbatch_variables_of_the_surrounding_job_decide_nothing() -> None:
    inside = a_context(environment={"SLURM_JOB_ID": "7", "SBATCH_ACCOUNT": "theirs"})
    assert origin_of(planned(SITE, context=inside), "account") == ("site-account", "site cluster")


def test_a_node_types_partition_wins_over_the_sites_default() -> None:
    site = a_site(node_types={"gpu": NodeType(title="x", cores_per_node=8, partition="debug")})
    assert origin_of(planned(site, walltime=60), "partition") == ("debug", "node type of cluster")


def test_nobody_says_anything_and_nothing_is_written() -> None:
    site = a_site(defaults=Defaults(node_type="cpu"))
    assert {"account", "partition", "qos", "time"}.isdisjoint(dict(planned(site).directives))


@pytest.mark.parametrize(
    ("theirs", "python", "origin"),
    [
        (Environment(), "python3", "site cluster"),
        (Environment(python="/job/python"), "/job/python", "job"),
        (Environment(venv="/job/venv"), "python", "job"),
        (Environment(conda="env"), "python", "job"),
        (Environment(python="current"), "/opt/hpc/bin/python", "job"),
    ],
)
def test_a_job_that_names_its_python_replaces_the_sites(theirs: Environment, python: str, origin: str) -> None:
    assert origin_of(planned(job=a_job(environment=theirs)), "python") == (python, origin)


def test_a_jobs_modules_replace_the_sites_and_its_variables_are_added() -> None:
    site = a_site(
        environment=Environment(modules=("tf/1",), setup=("site-line",), variables={"A": "site", "B": "site"})
    )
    job = a_job(environment=Environment(modules=("tf/2",), setup=("job-line",), variables={"B": "job"}))
    spec = planned(site, job)
    assert [step.line for step in spec.steps] == ["module load tf/2", "site-line", "job-line"]
    assert {"A": "site", "B": "job"}.items() <= dict(spec.environment).items()


def test_one_rank_on_this_machine_needs_no_launcher() -> None:
    assert origin_of(planned(a_desk()), "launcher") == ("direct", "one rank needs none")
    assert origin_of(planned(a_desk(), tasks_per_node=2), "launcher") == ("horovodrun", "site desk")


def test_a_plan_is_the_same_for_the_same_request() -> None:
    def one() -> JobSpec:
        return planned(SITE, nodes=2, arguments=("--x",), users=Settings(account="a"))

    assert one() == one()
