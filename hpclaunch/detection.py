"""Which site this machine belongs to: by environment variables, Slurm's cluster name and the host's name."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hpclaunch.catalog import SITE, Catalog
from hpclaunch.errors import InvalidFile
from hpclaunch.site import Detect, load_site


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What detection looks at. ``hostnames``: the host's name, and with the domains that it searches."""

    environment: Mapping[str, str]
    cluster: str = ""
    hostnames: tuple[str, ...] = ()


def machine(environment: Mapping[str, str], nodename: str) -> Machine:
    """Return what is known of this machine from plain files: no program is asked, and no name server."""
    names = [nodename]
    if "." not in nodename:
        names += [f"{nodename}.{domain}" for domain in _search_domains()]
    return Machine(environment=environment, cluster=cluster_name(environment), hostnames=tuple(names))


def cluster_name(environment: Mapping[str, str]) -> str:
    """Return ClusterName from slurm.conf, or nothing."""
    text = _text(Path(environment.get("SLURM_CONF") or "/etc/slurm/slurm.conf"))
    match = re.search(r"^\s*ClusterName\s*=\s*(\S+)", text, re.MULTILINE | re.IGNORECASE)
    return match.group(1) if match else ""


def _search_domains() -> list[str]:
    lines = re.findall(r"^(?:search|domain)\s+(.+)$", _text(Path("/etc/resolv.conf")), re.MULTILINE)
    return [domain.rstrip(".") for line in lines for domain in line.split()]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def holds(detect: Detect, here: Machine) -> bool:
    """Whether this machine is one of the site's; saying nothing is never true."""
    if not (detect.environment or detect.cluster_name or detect.hostname):
        return False
    variables = all(here.environment.get(name) == value for name, value in detect.environment.items())
    cluster = detect.cluster_name in (None, here.cluster)
    pattern = detect.hostname
    return variables and cluster and (pattern is None or any(re.fullmatch(pattern, name) for name in here.hostnames))


def detect_site(here: Machine) -> str | None:
    """Return the bundled site that this machine belongs to, or None.

    Only the sites in this table are looked at, so that no site file but the one that is meant is ever read.
    """
    return next((name for name, detect in DETECTED.items() if holds(detect, here)), None)


def detect_own_site(catalog: Catalog, here: Machine) -> str | None:
    """Return the project's or the user's own site whose ``detect`` holds here; a faulty file is passed over."""
    for found in catalog.names(SITE):
        if found.origin == "bundled":
            continue
        try:
            detect = load_site(catalog, found.name).detect
        except InvalidFile:
            continue
        if detect is not None and holds(detect, here):
            return found.name
    return None


DETECTED: dict[str, Detect] = {
    "perlmutter": Detect(environment={"NERSC_HOST": "perlmutter"}),
    "testcluster": Detect(cluster_name="hpctest"),
}
"""A copy of ``detect`` in the bundled site files; a test holds the two equal."""
