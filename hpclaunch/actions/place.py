"""Where a request is typed: its site, and what is known of this machine."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

from hpclaunch.actions.system import System
from hpclaunch.config.settings import Settings
from hpclaunch.config.site import Site
from hpclaunch.core.errors import Fault, InvalidRequest
from hpclaunch.core.files import read_bytes
from hpclaunch.core.folders import user_folder
from hpclaunch.core.spec import Context, Request
from hpclaunch.core.version import __version__
from hpclaunch.sites.detect import SiteChoice, choice_of, machine


def choose_site(system: System, name: str | None, settings: Settings) -> SiteChoice:
    """Return the site of a request and who chose it; ``name`` is that of --site. Raises NotFound or InvalidFile."""
    here = machine(system.environment, os.uname().nodename)
    return choice_of(system.catalog, here, name, settings)


def context_at(system: System, request: Request, chosen: SiteChoice) -> Context:
    """Return the context of a request at a site, without its notices."""
    return replace(
        context_of(system, request),
        site_origin=chosen.origin,
        is_lasting_site=chosen.lasting,
        other_site=chosen.elsewhere,
        at_site=chosen.here,
        own_site=chosen.own,
        cluster=chosen.cluster,
    )


def context_of(system: System, request: Request) -> Context:
    """Return clock, folders and environment, without a run directory. Raises InvalidRequest for a bad hosts file."""
    return Context(
        now=system.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        cwd=str(system.cwd),
        run_dir="",
        python=sys.executable,
        version=__version__,
        cpus=len(os.sched_getaffinity(0)),
        hosts=_hosts(system, request),
        user_folder=os.path.abspath(user_folder(system.environment)),
        environment=system.environment,
    )


def looked_at(site: Site, context: Context) -> tuple[Site, Context]:
    """Return site and context with the hardware of this machine, if the site is this machine."""
    if not site.is_this_machine:
        return site, context
    from hpclaunch.sites.found import find_hardware, with_hardware  # loads ctypes

    hardware = find_hardware(context.environment)
    context = replace(context, cpus=hardware.cpus, hardware=hardware, notices=(*context.notices, *hardware.remarks))
    return with_hardware(site, hardware), context


_LARGEST_HOSTS_FILE = 4 * 2**20


def _hosts(system: System, request: Request) -> tuple[str, ...]:
    if request.hosts_file is None:
        return ()
    path = system.cwd / request.hosts_file
    try:
        text = read_bytes(path, _LARGEST_HOSTS_FILE).decode("utf-8")
    except (OSError, ValueError) as error:
        raise InvalidRequest(Fault(where=str(path), what=f"the hosts file cannot be read: {error}")) from None
    from hpclaunch.config.hosts_file import hosts_in

    return hosts_in(text)
