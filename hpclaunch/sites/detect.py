"""Which site this machine belongs to: by environment variables, Slurm's cluster name and the host's name."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from hpclaunch.config.catalog import SITE, THIS_MACHINE, Catalog
from hpclaunch.config.detection import Detect
from hpclaunch.config.host_patterns import host_pattern, plain_beginning
from hpclaunch.config.settings import Settings
from hpclaunch.config.site import Site, load_site
from hpclaunch.core.errors import ChangeableByOthers, Fault, InvalidFile, NotFound, did_you_mean
from hpclaunch.core.files import read_bytes
from hpclaunch.core.records import record


@record
class Host:
    """What detection looks at. ``hostnames``: the host's name, alone and with each of its search domains."""

    environment: Mapping[str, str]
    cluster: str = ""
    hostnames: tuple[str, ...] = ()


def machine(environment: Mapping[str, str], nodename: str) -> Host:
    """Return what plain files tell of this machine; runs no program and asks no name server."""
    names = [nodename]
    if "." not in nodename:
        names += [f"{nodename}.{domain}" for domain in _search_domains()]
    return Host(environment=environment, cluster=cluster_name(environment), hostnames=tuple(names))


_CONFIGURATIONS = (Path("/etc/slurm/slurm.conf"), Path("/run/slurm/conf/slurm.conf"))
"""slurm.conf, and the copy that slurmd and sackd keep on a "configless" cluster (Slurm's configless_slurm.html)."""


def cluster_name(environment: Mapping[str, str]) -> str:
    """Return ClusterName from slurm.conf or from the copy of it that slurmctld sent; empty if there is neither."""
    named = environment.get("SLURM_CONF")
    text = _text(Path(named)) if named else next(filter(None, map(_text, _CONFIGURATIONS)), "")
    match = re.search(r"^\s*ClusterName\s*=\s*(\S+)", text, re.MULTILINE | re.IGNORECASE)
    return match.group(1) if match else ""


def _search_domains() -> list[str]:
    lines = re.findall(r"^(?:search|domain)\s+(.+)$", _text(Path("/etc/resolv.conf")), re.MULTILINE)
    return [domain.rstrip(".") for line in lines for domain in line.split()]


_LARGEST_FILE = 4 * 2**20
"""Bytes of slurm.conf or resolv.conf: thousands of nodes may be listed one by one."""


def _text(path: Path) -> str:
    try:
        return read_bytes(path, _LARGEST_FILE).decode("utf-8", errors="replace")
    except (OSError, ValueError):
        return ""


def holds(detect: Detect, here: Host) -> bool:
    """Whether this machine belongs to the site. An empty ``detect`` matches no machine."""
    if not (detect.environment or detect.cluster_name or detect.hostname):
        return False
    variables = all(here.environment.get(name) == value for name, value in detect.environment.items())
    cluster = detect.cluster_name in (None, here.cluster)
    if not (variables and cluster):
        return False
    if detect.hostname is None:
        return True
    beginning = plain_beginning(detect.hostname)
    names = [name for name in here.hostnames if name.startswith(beginning)]
    return bool(names) and _matches_one(detect.hostname, names)


def _matches_one(hostname: str, names: list[str]) -> bool:
    pattern = host_pattern(hostname)
    return any(pattern.matches(name) for name in names)


def detect_site(here: Host) -> str | None:
    """Return the bundled site that this machine belongs to, or None.

    It looks only at the table DETECTED, so that no other site's file is read.
    """
    return next((name for name, detect in DETECTED.items() if holds(detect, here)), None)


def detect_own_site(catalog: Catalog, here: Host) -> str | None:
    """Return the project's or the user's own site whose ``detect`` matches this machine; skips faulty files."""
    for found in catalog.names(SITE):
        if found.origin == "bundled":
            continue
        try:
            detect = load_site(catalog, found.name).detect
        except ChangeableByOthers:
            raise  # else another site would be chosen without a word
        except InvalidFile:
            continue
        if detect is not None and holds(detect, here):
            return found.name
    return None


TYPED = "--site"
UNDETECTED = "no cluster was detected"
"""Origins of a site: the user typed it, or nothing names one."""


@record
class SiteChoice:
    """A site, who chose it, and the site of this machine where that is another one (``elsewhere``).

    ``here``: whether this machine is known to be one of the site's. ``own``: the site file is the user's or the
    project's. ``cluster``: the name of this machine's cluster, as slurm.conf tells it. ``lasting``: HPCLAUNCH_SITE or
    the settings name the site, too, whoever chose it now.
    """

    site: Site
    origin: str
    elsewhere: str
    here: bool
    own: bool = False
    cluster: str = ""
    lasting: bool = False


def choice_of(catalog: Catalog, here: Host, asked: str | None, settings: Settings) -> SiteChoice:
    """Return the site. Precedence: flag, HPCLAUNCH_SITE, settings, detection, this machine.

    Raises NotFound, InvalidFile.
    """
    chooser, usual = settings.default_site()
    detected = detect_own_site(catalog, here) or detect_site(here)
    of_shell = here.environment.get("HPCLAUNCH_SITE") or None
    offers = [(asked, TYPED), (of_shell, "HPCLAUNCH_SITE"), (usual, chooser), (detected, "detected")]
    name, origin = next(((name, origin) for name, origin in offers if name), (THIS_MACHINE, UNDETECTED))
    try:
        site = load_site(catalog, name)
    except NotFound as error:
        raise NotFound([replace(fault, where=origin) for fault in error.faults]) from None
    # A user's own site file may describe this machine without a `detect` that recognizes it.
    own = catalog.find(SITE, name).origin != "bundled"
    fits = own or not site.scheduler_row.has_queue or (site.detect is not None and holds(site.detect, here))
    elsewhere = "" if fits or detected in (None, name) else str(detected)
    known_here = detected == name or _belongs(site, here, unknown=detected is None)
    return SiteChoice(
        site=site,
        origin=origin,
        elsewhere=elsewhere,
        here=known_here,
        own=own,
        cluster=here.cluster,
        lasting=name == (of_shell or usual),
    )


def _belongs(site: Site, here: Host, *, unknown: bool) -> bool:
    """Whether this machine is one of the site's; ``unknown``: it is no known site's.

    Then only the cluster's name in slurm.conf can tell: that of ``detect``, or the site's own name if it gives none.
    """
    if site.detect is not None and holds(site.detect, here):
        return True
    named = site.detect.cluster_name if site.detect is not None else None
    return unknown and bool(here.cluster) and here.cluster == (named or site.name)


def is_other_cluster(site: Site, cluster: str, *, own: bool) -> bool:
    """Whether the cluster with this ClusterName cannot be the site's. Slurm's programs print the name in small letters.

    If ``detect`` gives no ClusterName, that of a bundled site is its name or a word of it (juwels_booster: juwels). An
    ``own`` site file may give its site any name, so there nothing is known.
    """
    named = site.detect.cluster_name if site.detect is not None else None
    if named is None and own:
        return False
    names = [named] if named is not None else [site.name, *site.name.split("_")]
    return _letters(cluster) not in map(_letters, names)


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def check_settings(catalog: Catalog, settings: Settings) -> None:
    """Raise InvalidFile if the settings name a site that does not exist: they would silently never apply."""
    named = settings.named_sites()
    known = [found.name for found in catalog.names(SITE)] if named else []
    faults = [
        Fault(
            where=f"{origin}: sites.{name}",
            what=f"no such site{did_you_mean(name, known)}",
            allowed=", ".join(known),
            next="hpclaunch sites list",
        )
        for origin, name in named
        if name not in known
    ]
    if faults:
        raise InvalidFile(faults)


DETECTED: dict[str, Detect] = {
    "anvil": Detect(hostname=r".+\.anvil\.rcac\.purdue\.edu"),
    "bridges2": Detect(hostname=r".+\.bridges2\.psc\.edu"),
    "clariden": Detect(hostname=r"clariden-ln\d+(\..+)?"),
    "cori": Detect(environment={"NERSC_HOST": "cori"}),
    "daint_alps": Detect(hostname=r"daint-ln\d+(\..+)?"),
    "delta": Detect(hostname=r"dt-login\d+\.delta\.(internal\.ncsa\.edu|ncsa\.illinois\.edu)"),
    "deltaai": Detect(hostname=r"(dtai|gh)-login\d*\.delta\.(internal\.ncsa\.edu|ncsa\.illinois\.edu)|dtai-login\d*"),
    "expanse": Detect(hostname=r".+\.expanse\.sdsc\.edu|expanse-ln\d+"),
    "fir": Detect(environment={"CC_CLUSTER": "fir"}),
    "frontera": Detect(hostname=r"login\d+\.frontera(\.tacc\.utexas\.edu)?"),
    "frontier": Detect(hostname=r".*\.frontier\.olcf\.ornl\.gov"),
    "horizon": Detect(hostname=r"login\d+\.horizon(\.tacc\.utexas\.edu)?"),
    "jean_zay": Detect(hostname=r"jean-zay\d+(\..+)?"),
    "jupiter": Detect(environment={"SYSTEMNAME": "jupiter"}),
    "juwels_booster": Detect(environment={"SYSTEMNAME": "juwelsbooster"}),
    "karolina": Detect(hostname=r"login[1-4]\.karolina\.it4i\.cz"),
    "leonardo_booster": Detect(hostname=r".+\.leonardo\.(local|cineca\.it)"),
    "levante": Detect(hostname=r"levante\d+(\.levante\.dkrz\.de)?"),
    "lonestar6": Detect(hostname=r"login\d+\.ls6(\.tacc\.utexas\.edu)?"),
    "lumi": Detect(hostname=r"lumi-uan\d+(\.csc\.fi)?"),
    "marconi100": Detect(hostname=r"login\d+\.m100\.cineca\.it"),
    "marenostrum5_acc": Detect(environment={"BSC_MACHINE": "mn5"}, hostname=r"alogin\d+(\..+)?"),
    "narval": Detect(environment={"CC_CLUSTER": "narval"}),
    "perlmutter": Detect(environment={"NERSC_HOST": "perlmutter"}),
    "roihu": Detect(hostname=r"roihu-(cpu|gpu)-login\d+(\.csc\.fi)?"),
    "setonix": Detect(environment={"PAWSEY_CLUSTER": "setonix"}),
    "snellius": Detect(hostname=r"int\d+(\.local)?\.snellius\.surf\.nl"),
    "stampede3": Detect(hostname=r"login\d+\.stampede3(\.tacc\.utexas\.edu)?"),
    "testcluster": Detect(cluster_name="hpctest"),
    "vega": Detect(hostname=r"vglogin\d+(\.vega\.izum\.si)?"),
    "vista": Detect(hostname=r"login\d+\.vista(\.tacc\.utexas\.edu)?"),
}
"""A copy of ``detect`` from the bundled site files; a test checks that both are equal."""
