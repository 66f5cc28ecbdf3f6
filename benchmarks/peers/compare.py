"""The same four-node job, submitted by hpclaunch and by other tools on the test cluster: docs/comparison.md.

    python benchmarks/peers/compare.py [--peers NAME …] [--cases CASE …] [--runs 3] [--list]
    python benchmarks/peers/compare.py --report
    python benchmarks/peers/compare.py --small --results FOLDER

Needs root and Slurm (tests/cluster/cluster.py install) and the index of Python packages. It starts a cluster of its
own and stops it again; the tools run as an ordinary user. It runs what has no result yet (an hour of two cores for
all), and can be stopped and called again. --small is hpclaunch and submitit with one case, once. --report writes the
page. The rules of the columns are in columns.py. --conf takes a test cluster that runs already, also without root.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))

import environments
import peers_page
import running
import store
from cases import CASES, Case
from columns import verdicts
from peer import Peer, Place
from peers_page import RESULTS, STUDY, name_of

CLUSTER_PY = Path(__file__).resolve().parents[2] / "tests" / "cluster" / "cluster.py"
SMALL = ("hpclaunch", "submitit"), ("plain",)
# Its processor time and wall time are measured, so nothing of this program runs beside it.
ALONE = "plain"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", nargs="+", choices=list(environments.every_peer()), metavar="NAME")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--root", default="/var/tmp/hpclaunch-peers", help="the cluster's folder")
    parser.add_argument("--conf", type=Path, help="the slurm.conf of a running test cluster, which is left running")
    parser.add_argument("--work", type=Path, help="with --conf: a folder that all its nodes see")
    parser.add_argument("--slot", type=int, default=7, help="the cluster's slot (tests/cluster/README.md)")
    parser.add_argument("--beside", type=int, default=3, help="how many cases without a time run beside each other")
    parser.add_argument("--list", action="store_true", help="show what is done, and end")
    parser.add_argument("--report", action="store_true", help="write docs/comparison.md, and end")
    parser.add_argument("--small", action="store_true", help="two tools, one case, once; needs --results")
    options = parser.parse_args()
    if options.conf and not options.work:
        parser.error("--conf needs --work")
    if options.small:
        if options.results == RESULTS:
            parser.error("--small makes no real results: name another folder with --results")
        options.peers, options.cases, options.runs = *SMALL, 1
    return options


def wanted(options: argparse.Namespace) -> list[tuple[Peer, Case, int]]:
    """The runs that were asked for: all tools in a case before the next case, so that a busy hour meets all alike."""
    peers = [peer for name, peer in environments.every_peer().items() if name in (options.peers or [name])]
    cases = [case for name, case in CASES.items() if name in (options.cases or [name])]
    return [(peer, case, run) for case in cases for run in range(1, options.runs + 1) for peer in peers]


def settings(peer: Peer, case: Case) -> dict[str, Any]:
    """What decides the outcome; the situation as a digest, because the hostile arguments fill no cell of a table."""
    situation = hashlib.sha256(json.dumps(case.settings(), sort_keys=True).encode()).hexdigest()[:12]
    return {"package": peer.package, "situation": situation}


def finished(options: argparse.Namespace, peer: Peer, case: Case, run: int) -> store.Result | None:
    """The result of a run as it is now, or None."""
    return store.finished(STUDY, name_of(peer.name, case.name), run, settings(peer, case), options.results)


@contextmanager
def cluster(options: argparse.Namespace) -> Iterator[running.Cluster]:
    """A test cluster of its own, stopped at the end; or the one that was named."""
    if options.conf:
        yield running.Cluster(conf=options.conf, work=options.work)
        return
    words = [sys.executable, str(CLUSTER_PY)]
    place = ["--root", options.root]
    start = [*words, "start", *place, "--slot", str(options.slot), "--cluster-name", "hpcpeers"]
    subprocess.run(start, check=True, stdout=subprocess.DEVNULL)
    root = Path(options.root)
    try:
        yield running.Cluster(conf=root / "etc" / "slurm.conf", work=root / "work")
    finally:
        subprocess.run([*words, "stop", *place], check=True, stdout=subprocess.DEVNULL)


def measure(options: argparse.Namespace, on: running.Cluster, peer: Peer, case: Case, run: int) -> int:
    """Make one result unless there is one with these settings; return 1 if that failed."""
    which = f"{peer.name:<13}{case.name:<12}run {run}  "
    if finished(options, peer, case, run):
        return 0
    try:
        seen = {"cannot": peer.cannot[""]} if "" in peer.cannot else seen_of(on, peer, case, run)
        judged = {} if "cannot" in seen else {"verdicts": verdicts(case.name, seen)}
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        store.say(f"{which}FAILED: {error}")
        return 1
    load = round(os.getloadavg()[2], 1)
    result = store.Result(
        study=STUDY,
        case=name_of(peer.name, case.name),
        seed=run,
        settings=settings(peer, case),
        measured={"version": peer.version or store.own_version(), "load_average": load, **seen, **judged},
        machine=machine(on),
    )
    store.write(result, options.results)
    store.say(which + (seen.get("cannot") or f"{len(seen['jobs'])} jobs, {len(seen['ranks'])} ranks, {seen['state']}"))
    return 0


def seen_of(on: running.Cluster, peer: Peer, case: Case, run: int) -> dict[str, Any]:
    """What one run showed; a tool that cannot be installed is a result, too."""
    try:
        programs = environments.programs(peer)
    except RuntimeError as error:
        return {"cannot": str(error)}
    folder = on.work / f"{peer.name}-{case.name}-{run}"
    place = Place(
        folder=folder / "project",
        seen=folder / "seen",
        python=programs / "python",
        programs=programs,
        program=folder / "program.py",
    )
    return running.seen_of(on, peer, case, place)


def machine(on: running.Cluster) -> dict[str, Any]:
    versions = {"python": platform.python_version(), "slurm": on.slurm("sinfo", "--version").split()[-1]}
    return {"processor": store.processor(), "cores": len(os.sched_getaffinity(0)), "versions": versions}


def study(options: argparse.Namespace) -> int:
    """Run what has no result; return how many runs failed."""
    timed = [one for one in wanted(options) if one[1].name == ALONE]
    others = [one for one in wanted(options) if one[1].name != ALONE]
    with cluster(options) as on:
        failed = sum(measure(options, on, *one) for one in timed)
        with ThreadPoolExecutor(options.beside) as pool:
            failed += sum(pool.map(lambda one: measure(options, on, *one), others))
    return failed


def show(options: argparse.Namespace) -> None:
    for peer, case, run in wanted(options):
        found = finished(options, peer, case, run)
        print(f"{peer.name:<13}{case.name:<12}run {run}  {'done ' + found.date if found else 'to do'}")


def main() -> int:
    options = parse()
    if options.list:
        show(options)
        return 0
    if options.report:
        peers_page.PAGE.write_text(peers_page.page(options.results), encoding="utf-8")
        return 0
    if os.geteuid() and not options.conf:
        raise SystemExit("the test cluster needs root: run this command as root")
    with store.alone(options.work or CLUSTER_PY.parents[2] / "build" / "peers"):
        return 1 if study(options) else 0


if __name__ == "__main__":
    sys.exit(main())
