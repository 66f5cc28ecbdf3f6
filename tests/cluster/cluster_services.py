"""The services below Slurm: munged, and the accounting daemon with its database, accounts, users and QOS."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import cluster_daemons as daemons
from cluster_config import Options
from cluster_network import run

USERS = ("hpclaunch-tester", "hpclaunch-other")
"""Ordinary users of the machine, for the tests: the one that submits, and one whose jobs are not its own."""


def add_users() -> None:
    for name in USERS:
        try:
            pwd.getpwnam(name)
        except KeyError:
            run("useradd", "--create-home", "--shell", "/bin/bash", name)


def start_munged(options: Options) -> None:
    """Start munged. Clusters of one slurmdbd have one key, as both sides read the credentials of the other."""
    root = Path(options.root)
    key, run = root / "run" / "munge.key", root / "run"
    serving = Path(options.accounting_of, "run", "munge.key") if options.accounting_of else None
    key.write_bytes(serving.read_bytes() if serving else os.urandom(128))
    key.chmod(0o600)
    command = ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={run / 'munge.socket'}"]
    command += [f"--pid-file={run / 'munged.own.pid'}", f"--seed-file={run / 'munged.seed'}"]
    daemons.spawn(root, "munged", command)
    daemons.wait_for("munge socket", (run / "munge.socket").exists, 120)


def start_accounting(options: Options) -> None:
    root = Path(options.root)
    if options.has_slurmdbd:
        cnf, client = str(root / "etc" / "mariadb.cnf"), f"--socket={root / 'run' / 'mariadb.socket'}"
        run("mariadb-install-db", f"--defaults-file={cnf}", "--skip-test-db", "--skip-name-resolve")
        daemons.spawn(root, "mariadb", ["mariadbd", f"--defaults-file={cnf}"])
        daemons.wait_for("database", lambda: _answers(root, "mariadb-admin", "--no-defaults", client, "ping"), 120)
        daemons.spawn(root, "slurmdbd", ["slurmdbd", "-D"])
    daemons.wait_for("slurmdbd", lambda: _answers(root, "sacctmgr", "-n", "list", "cluster"), 180)
    users = sorted({"root", os.environ.get("SUDO_USER", "root"), *USERS})
    here = f"Cluster={options.cluster_name}"
    for words in (
        ("add", "cluster", options.cluster_name),
        *([("add", "qos", "short", "MaxWall=00:30:00")] if options.has_slurmdbd else []),
        ("add", "account", "research,physics", here, "Description=tests", "Organization=tests"),
        ("add", "user", ",".join(users), here, "Account=research,physics", "DefaultAccount=research"),
        ("modify", "account", "where", "Account=research,physics", here, "set", "QOS=normal,short"),
    ):
        run("env", f"SLURM_CONF={root / 'etc' / 'slurm.conf'}", "sacctmgr", "-i", *words)


def _answers(root: Path, *command: str) -> bool:
    """Whether a client gets through; what it says goes to ROOT/log/clients.out, for a failed start."""
    environment = {"PATH": daemons.PATH, "SLURM_CONF": str(root / "etc" / "slurm.conf")}
    with (root / "log" / "clients.out").open("ab") as log:
        try:
            done = subprocess.run(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=60
            )
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == 0
