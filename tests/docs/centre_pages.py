"""docs/centres/: a page for each centre, five recipes each, written from its site file and one text."""

from __future__ import annotations

import re
import textwrap

from hpclaunch.config.catalog import SITE
from hpclaunch.config.limits import Limits
from hpclaunch.config.site import Environment, Site
from hpclaunch.sites.describe.platforms import PLATFORMS
from tests.builders import BUNDLED, bundled_site

HEAD = """# {title}: five recipes

{place}

| on this site | |
|---|---|
{facts}

`hpclaunch sites show {name}` has every value with its source. This page is written from the same file.

## First run

<!-- on: {name} -->
```
hpclaunch submit ./hello.py --nodes {nodes} {typed}--walltime 10m --dry-run
hpclaunch submit ./hello.py --nodes {nodes} {typed}--walltime 10m
hpclaunch status
hpclaunch logs
```

The first line prints the script, the second submits it. The [tutorial](../tutorial.md) has the program `hello.py`.
`hpclaunch doctor` checks ranks, GPUs and network with a short job.

## Your own environment

{environment}

<!-- on: {name} -->
```
hpclaunch submit ./train.py --nodes {nodes} {typed}--venv ~/envs/mine
```

`--conda NAME` and `--module NAME` work likewise: [use your own Python environment](../how-to/environment.md).

## PyTorch

{pytorch}

<!-- on: {name} -->
```
hpclaunch submit ./train.py --nodes {nodes} {typed}--framework pytorch{launcher}
```

More: [run a PyTorch program](../how-to/pytorch.md).

## Many runs

{sweep}

## Long runs

{restart}

<!-- on: {name} -->
```
hpclaunch submit ./train.py --nodes {nodes} {typed}{long}
hpclaunch resume RUN
```

The program must save its state: [run longer than the walltime](../how-to/long-runs.md).
"""
ARRAY = """<!-- on: {name} -->
```
hpclaunch submit ./train.py --nodes 1 {typed}--sweep lr=0.1,0.01 --sweep seed=1..5 --at-once 4
hpclaunch status --all
hpclaunch results
```

These are ten runs in one job array, at most four at the same time. More: [start many runs](../how-to/many-runs.md)."""
ONE_ALLOCATION = """This site accepts no job arrays, so one allocation makes all trials, one for each pair of values:

<!-- on: {name} -->
```
hpclaunch search ./train.py --nodes 1 {typed}--sweep lr=0.1,0.01 --sweep seed=1..5 --metric loss
hpclaunch search status
hpclaunch search results
```

The program writes its `loss` into `metrics.jsonl`: [results](../how-to/results.md). More: [searches](../search.md)."""
INDEX = """# Your centre

Every Slurm cluster that hpclaunch knows has a page with the same five recipes: a first run, an environment of your own,
PyTorch, many runs, and long runs. Their commands are rendered for the site by a test.

| centre | site | GPUs of a node |
|---|---|---|
{rows}

Your cluster is not here? [Use a cluster that is not listed](../how-to/new-cluster.md).
"""
TOOLS = {one.name for one in PLATFORMS}
OF_A_TOOL = (
    " Partitions, limits and numbers of nodes are those of your cluster: on its login node, first type "
    "`hpclaunch sites detect --name mycluster`. The site of that name is then used without a flag, and has the folders "
    "and variables of this one."
)
RESTARTS = {
    "requeue": "A job that has saved its state puts itself back into the queue.",
    "resubmit": "A job that has saved its state submits the next one.",
    "none": "This site lets no job start another one, so continue a run by hand with `resume`.",
}


def centres() -> list[Site]:
    """The Slurm sites in use, by name."""
    sites = [bundled_site(found.name) for found in BUNDLED.names(SITE)]
    return [site for site in sites if site.scheduler == "slurm" and site.status == "production"]


def page_of(site: Site) -> str:
    """The page of a centre."""
    title, _, place = site.title.partition(", ")
    detected = ", and detects it on its login nodes" if site.detect else ""
    needs_consent = site.gpus is None or site.launchers is None
    typed = "--account m1234 " + ("--accept-unverified " if needs_consent else "")
    sweep = ONE_ALLOCATION if "--array" in site.refuses else ARRAY
    long = "" if site.restart == "none" else "--restarts 20 "
    return HEAD.format(
        title=title,
        place=_filled(
            f"{place[0].upper()}{place[1:]}. hpclaunch calls this site `{site.name}`{detected}. "
            "`m1234` stands for your account." + (OF_A_TOOL if site.name in TOOLS else "")
        ),
        name=site.name,
        facts="\n".join(f"| {name} | {value} |" for name, value in facts_of(site) if value),
        typed=typed,
        nodes=_nodes(site),
        sweep=sweep.format(name=site.name, typed=typed),
        environment=_filled(_environment(site)),
        pytorch=_filled(_pytorch(site)),
        launcher=" --launcher torchrun" if site.launchers and site.launchers.default == "horovodrun" else "",
        restart=_filled(f"{RESTARTS[site.restart]} {_longest(site)}"),
        long=f"{long}--walltime 2h",
    )


def facts_of(site: Site) -> list[tuple[str, str]]:
    """What one should know before the first run, in rows."""
    node = site.node_types[site.defaults.node_type]
    gpus = f"{node.gpus_per_node} GPU{'s' * (node.gpus_per_node > 1)}" + (
        f" ({node.gpu_model})" if node.gpu_model else ""
    )
    others = [name for name in site.node_types if name != site.defaults.node_type]
    return [
        ("node type without `--node-type`", f"`{site.defaults.node_type}`: {gpus if node.gpus_per_node else 'no GPU'}"),
        ("other node types", ", ".join(f"`{name}`" for name in others)),
        ("every run has", ", ".join(site.required)),
        ("launcher", f"`{site.launchers.default}`" if site.launchers else "unverified: `--accept-unverified`"),
        ("a cost is counted in", site.charging.unit if site.charging else ""),
    ]


def _filled(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _environment(site: Site) -> str:
    tensorflow = _of_framework(site, "tensorflow")
    cases = {"Every run": site.environment.modules}
    if tensorflow:
        cases["A program of TensorFlow"] = tensorflow.modules
    known = [
        f"{who} gets the module{'s' * (len(modules) > 1)} {_names(modules)}."
        for who, modules in cases.items()
        if modules
    ]
    return " ".join(known) or "The site file names no module for the ranks, so name an environment of your own."


def _names(modules: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in modules)


def _of_framework(site: Site, name: str) -> Environment | None:
    """Return what the site provides with a framework, on the node type that a run gets without ``--node-type``."""
    return (site.node_types[site.defaults.node_type].frameworks or site.frameworks).get(name)


def _pytorch(site: Site) -> str:
    provided = _of_framework(site, "pytorch")
    modules = provided.modules if provided else ()
    if provided and provided.container:
        path = provided.container
        # A path is not broken, and a page's lines have 120 characters at most; `sites show` has the whole of it.
        name = path if len(path) < 118 else path.rpartition("/")[2]
        return f"The site's container for PyTorch is `{name}`."
    if modules:
        are = "module for PyTorch is" if len(modules) == 1 else "modules for PyTorch are"
        return f"The site's {are} {_names(modules)}."
    return "The site file names no module for PyTorch. Add `--venv DIR` or `--module NAME` with your own."


def _nodes(site: Site) -> int:
    """Two nodes, or one where no partition that is chosen by itself gives two."""
    kind = site.defaults.node_type
    fitting = [one for one in site.partitions.values() if not one.only_if_asked and kind in (one.node_types or (kind,))]
    return min(2, max((one.max_nodes or 2 for one in fitting), default=2))


def _longest(site: Site) -> str:
    """The longest walltime of the partition or QOS that a run gets without a flag."""
    chosen: list[Limits | None] = [site.partitions.get(site.defaults.partition or "")]
    chosen.append(site.qos.get(site.defaults.qos or ""))
    known = [one.max_walltime for one in chosen if one and one.max_walltime]
    if not known:
        return ""
    hours = min(known) / 3600
    return f"A job may take {hours:g} hours at most by default; a longer `--walltime` becomes a chain of jobs."


def index_of(sites: list[Site]) -> str:
    """The list of all pages."""
    rows = []
    for site in sites:
        title, _, rest = site.title.partition(", ")
        place = re.split(r" \(|, ", rest)[0]
        node = site.node_types[site.defaults.node_type]
        gpus = f"{node.gpus_per_node} x {node.gpu_model}" if node.gpu_model else str(node.gpus_per_node)
        rows.append(f"| [{title}]({site.name}.md), {place} | `{site.name}` | {gpus} |")
    return INDEX.format(rows="\n".join(rows))
