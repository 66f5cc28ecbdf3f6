#!/usr/bin/env python3
"""A real multi-node Slurm cluster on this machine for the tests (Debian, root); it touches no system service.

Every node is a network, mount and UTS namespace with a slurmd of its own; see README.md beside this file.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import cluster_daemons as daemons
import cluster_network as network
import cluster_services as services
from cluster_config import HERE, ClusterError, Options, checkout_below_tmp, config_files

PACKAGES = (
    *("slurm-wlm", "slurmctld", "slurmd", "slurm-client", "slurmdbd", "munge", "mariadb-server"),
    *("openmpi-bin", "libopenmpi-dev", "gcc", "libc6-dev", "iproute2", "bubblewrap", "strace"),
)
ETC_SLURM = Path("/etc/slurm")
LOCK = Path("/run/hpclaunch-cluster.lock")
# Gone after `stop`; log/ and work/ stay until the next start or `stop --purge`.
STATE = ("cluster.json", "etc", "run", "state", "nodes", "dev", "mariadb")
GOOD_STATES = {"idle", "mixed", "allocated", "completing", "reserved", "planned"}


def install() -> None:
    """Install the Debian packages, with no service started; quick when all are there."""
    question = ["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\n", *PACKAGES]
    query = subprocess.run(question, capture_output=True, text=True)
    present = {line.split()[0] for line in query.stdout.splitlines() if line.endswith(" installed")}
    missing = [package for package in PACKAGES if package not in present]
    if not missing:
        print("Slurm and Open MPI are installed")
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with _no_services():
        for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", *missing]):
            done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if done.returncode:
                raise ClusterError(f"'{' '.join(command)}' failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    print(f"installed: {' '.join(missing)}")


@contextlib.contextmanager
def _no_services() -> Iterator[None]:
    """Debian's way to forbid package scripts to start daemons."""
    policy = Path("/usr/sbin/policy-rc.d")
    if policy.exists():
        yield
        return
    policy.write_text("#!/bin/sh\nexit 101\n", encoding="utf-8")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink(missing_ok=True)


def start(options: Options) -> None:
    """Bring the cluster up and wait until every node is idle; at once when the same one already runs."""
    _require_tools(options)
    root = Path(options.root)
    other = network.owner(options.slot)
    if other not in (None, options.root):
        raise ClusterError(
            f"a cluster with root {other} is running; stop it: cluster.py stop --root {other};"
            " or start this one beside it, with a --slot of its own"
        )
    if _is_same(options) and not _faults(options):
        print(_summary(options, "already running"))
        return
    began = time.monotonic()
    _stop(root, options.slot)
    try:
        _prepare(options)
        _start_all(options)
    except (ClusterError, OSError):
        print(daemons.log_tails(root), file=sys.stderr)
        _stop(root, options.slot)
        raise
    print(_summary(options, f"started in {time.monotonic() - began:.1f} s"))


def _require_tools(options: Options) -> None:
    tools = ["slurmctld", "slurmd", "sinfo", "munged", "ip", "nsenter", "unshare"]
    tools += ["slurmdbd", "mariadbd", "mariadb-install-db"] if options.has_slurmdbd else []
    tools += ["sacctmgr"] if options.accounting else []
    missing = [tool for tool in tools if shutil.which(tool, path=daemons.PATH) is None]
    if missing:
        raise ClusterError(f"not installed: {', '.join(missing)}; run: python3 {HERE / 'cluster.py'} install")


def _prepare(options: Options) -> None:
    """Directories, configuration, stand-in GPUs and the network, before any daemon."""
    root = Path(options.root)
    shutil.rmtree(root / "log", ignore_errors=True)
    for name in ("etc", "run", "log", "state", "dev"):
        (root / name).mkdir(parents=True)
    _make_open_directory(root / "work")
    for node in options.node_names:
        (root / "nodes" / node / "spool").mkdir(parents=True)
        _make_open_directory(root / "nodes" / node / "tmp")
    for gpu in range(options.gpus):
        device = root / "dev" / f"nvidia{gpu}"
        os.mknod(device, 0o20666, os.makedev(1, 3))
        device.chmod(0o666)
    for name, text in config_files(options, _slurm_version()).items():
        (root / "etc" / name).write_text(text, encoding="utf-8")
        (root / "etc" / name).chmod(0o600 if name == "slurmdbd.conf" else 0o644)
    (root / "cluster.json").write_text(json.dumps(dataclasses.asdict(options), indent=1) + "\n", encoding="utf-8")
    network.create(options)
    if options.slot == 1:
        _link_configuration(root)


def _slurm_version() -> tuple[int, int]:
    """The first two numbers of the version, as in (22, 5)."""
    answer = network.run("env", f"PATH={daemons.PATH}", "slurmctld", "-V")
    found = re.search(r"(\d+)\.(\d+)", answer)
    if found is None:
        raise ClusterError(f"no version in the answer of slurmctld -V: {answer}")
    return int(found[1]), int(found[2])


def _make_open_directory(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o1777)


def _link_configuration(root: Path) -> None:
    """Let clients on the host find the cluster without SLURM_CONF, unless the machine has a configuration already."""
    link = ETC_SLURM / "slurm.conf"
    if not link.exists():
        ETC_SLURM.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(root / "etc" / "slurm.conf")


def _start_all(options: Options) -> None:
    root = Path(options.root)
    services.add_users()
    services.start_munged(options)
    if options.accounting:
        services.start_accounting(options)
    daemons.spawn(root, "slurmctld", ["slurmctld", "-D", "-f", str(root / "etc" / "slurm.conf")])
    for node in options.node_names:
        command = [
            *network.enter(node, options.slot),
            "/bin/sh",
            str(HERE / "node-init.sh"),
            node,
            str(root),
            options.share,
        ]
        daemons.spawn(root, f"slurmd-{node}", command)
    daemons.wait_for("idle nodes", lambda: set(_node_states(options).values()) == {"idle"}, 180, lambda: _dead(options))


def stop(root: Path, *, purge: bool = False) -> None:
    """End everything that `start` began and delete its state; safe to run twice."""
    recorded = _recorded(root)
    slot = network.slot_of(str(root)) or (recorded.slot if recorded else 1)
    was_running = network.owner(slot) == str(root) or bool(daemons.running(root))
    _stop(root, slot)
    if purge and root.is_dir():
        for name in ("log", "work"):
            shutil.rmtree(root / name, ignore_errors=True)
        root.rmdir()
    print("stopped" if was_running else "nothing was running")


def _stop(root: Path, slot: int) -> None:
    pids = set(daemons.running(root).values())
    mine = network.owner(slot) in (None, str(root))

    def alive() -> set[int]:
        return set(daemons.running(root).values()) | set(network.processes(slot) if mine else ())

    deadline = time.monotonic() + 120
    while pids := alive():
        daemons.kill(pids)
        time.sleep(0.05)
        if time.monotonic() > deadline:
            raise ClusterError(f"processes {sorted(pids)} do not end")
    if mine:
        network.remove(slot)
    link = ETC_SLURM / "slurm.conf"
    if link.is_symlink() and link.readlink().is_relative_to(root):
        link.unlink()
    for name in STATE:
        path = root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def status(root: Path) -> None:
    """Print the nodes' states; ClusterError when nothing runs or something is broken."""
    options = _recorded(root)
    if options is None:
        raise ClusterError(f"no cluster is running in {root}; start one: cluster.py start")
    states = _node_states(options)
    for node in options.node_names:
        print(f"{node} {states.get(node, 'unknown')}")
    if faults := _faults(options):
        raise ClusterError("; ".join(faults))


def env(root: Path) -> None:
    """Print the lines to `eval` in a shell."""
    print(f"export SLURM_CONF={root / 'etc' / 'slurm.conf'}")
    print(f"export HPCLAUNCH_CLUSTER_ROOT={root}")


def _recorded(root: Path) -> Options | None:
    try:
        values = json.loads((root / "cluster.json").read_text(encoding="utf-8"))
        return Options(**{**values, "partitions": tuple(values["partitions"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _is_same(options: Options) -> bool:
    """Same options, and the same configuration texts (a template may have been edited since)."""
    if _recorded(Path(options.root)) != options:
        return False
    etc = Path(options.root) / "etc"
    wanted = config_files(options, _slurm_version()).items()
    return all((etc / name).is_file() and (etc / name).read_text(encoding="utf-8") == text for name, text in wanted)


def _expected(options: Options) -> set[str]:
    names = {"munged", "slurmctld", *(f"slurmd-{node}" for node in options.node_names)}
    return names | ({"mariadb", "slurmdbd"} if options.has_slurmdbd else set())


def _dead(options: Options) -> list[str]:
    return sorted(_expected(options) - daemons.running(Path(options.root)).keys())


def _faults(options: Options) -> list[str]:
    """What is wrong with a cluster that should be running."""
    if dead := _dead(options):
        return [f"not running: {', '.join(dead)}"]
    states = _node_states(options)
    known = {node: states.get(node, "unknown") for node in options.node_names}
    return [f"{node} is {state}" for node, state in known.items() if state not in GOOD_STATES]


def _node_states(options: Options) -> dict[str, str]:
    environment = {"PATH": daemons.PATH, "SLURM_CONF": str(Path(options.root) / "etc" / "slurm.conf")}
    command = ["sinfo", "--noheader", "--Node", "--format=%N %T"]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return {}
    # A "-" only says that the scheduler has plans for the node; a "*" (no answer) is left, as a fault.
    return {node: state.rstrip("-") for node, state in (line.split() for line in done.stdout.splitlines())}


def _summary(options: Options, how: str) -> str:
    partitions = [*options.partitions, *(["preempt"] if options.preempt else [])]
    return (
        f"cluster {options.cluster_name} {how}: {options.nodes} nodes x {options.cpus} CPUs, {options.gpus} GPUs;"
        f" partitions {','.join(partitions)}; SLURM_CONF={options.root}/etc/slurm.conf"
    )


@contextlib.contextmanager
def _lock() -> Iterator[None]:
    """One start or stop at a time on this machine."""
    with LOCK.open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _parser() -> argparse.ArgumentParser:
    standard = Options()
    parser = argparse.ArgumentParser(prog="cluster.py", description="A real multi-node Slurm cluster on this machine.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("install", help="install the Debian packages")
    for verb, text in (
        ("start", "start, or restart with other options"),
        ("stop", "end and delete it"),
        ("status", "node states; exit 0 if healthy"),
        ("env", "shell lines to eval"),
    ):
        sub = verbs.add_parser(verb, help=text)
        sub.add_argument(
            "--root", type=os.path.realpath, default=standard.root, help="directory outside /tmp (default: %(default)s)"
        )
        if verb == "stop":
            sub.add_argument("--purge", action="store_true", help="delete logs and work directories as well")
        if verb != "start":
            continue
        for name in ("nodes", "gpus", "shards", "cpus", "memory", "slot"):
            sub.add_argument(f"--{name}", type=int, default=getattr(standard, name), help="default: %(default)s")
        sub.add_argument("--partitions", default=",".join(standard.partitions), help="the first is the default one")
        sub.add_argument("--share", default=checkout_below_tmp(), help="folder below /tmp that the nodes see too")
        sub.add_argument("--max-array-size", type=int, default=standard.max_array_size, help="Slurm's own: 1001")
        sub.add_argument("--enforce", default="", help="for AccountingStorageEnforce, as in limits,qos (default: none)")
        sub.add_argument("--first-job-id", type=int, default=standard.first_job_id, help="default: %(default)s")
        sub.add_argument("--cluster-name", default=standard.cluster_name)
        sub.add_argument("--no-accounting", dest="accounting", action="store_false", help="no slurmdbd, no sacct")
        sub.add_argument(
            "--accounting-of",
            default="",
            type=lambda text: os.path.realpath(text) if text else "",
            help="root of a running cluster whose slurmdbd serves this one",
        )
        sub.add_argument("--no-preempt", dest="preempt", action="store_false", help="no preemption, no such partition")
    return parser


def _dispatch(arguments: argparse.Namespace) -> None:
    if arguments.verb == "install":
        install()
        return
    root = Path(arguments.root)
    if arguments.verb == "env":
        env(root)
        return
    if arguments.verb == "status":
        status(root)
        return
    if os.geteuid() != 0:
        raise ClusterError(f"{arguments.verb} needs root")
    if arguments.verb == "stop":
        with _lock():
            stop(root, purge=arguments.purge)
        return
    names = [field.name for field in dataclasses.fields(Options)]
    values = {name: getattr(arguments, name) for name in names}
    options = Options(**{**values, "partitions": tuple(arguments.partitions.split(","))})
    if faults := options.faults():
        raise ClusterError("\n".join(faults))
    with _lock():
        start(options)


def main() -> int:
    arguments = _parser().parse_args()
    try:
        _dispatch(arguments)
    except (ClusterError, OSError) as error:
        print(f"cluster.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
