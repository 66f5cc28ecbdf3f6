"""The hosts that a file lists, in the shapes that batch systems and MPI launchers give such a file; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

_NAME = re.compile("[A-Za-z][A-Za-z0-9.-]*")
_PORTION = re.compile(r"([^:\s]+):[0-9]+")
"""HOST:N; a name with several colons is an address of IPv6."""


def hosts_in(text: str) -> tuple[str, ...]:
    """Return the names of the hosts, each once, in their order. How often one is listed is the number of its slots.

    The shapes, and where they are described:

    - one name per slot: ``$PBS_NODEFILE`` (PBS Professional User's Guide, "The Job's Node File"), LSF's
      ``$LSB_DJOB_HOSTFILE`` ("Automatic generation of the job host file");
    - one name per host: the output of ``scontrol show hostnames`` (scontrol(1));
    - ``HOST slots=N max_slots=M``, with comments after ``#``: Open MPI (orte_hosts(7), PRRTE's "Hostfiles");
    - ``HOST:N binding=...``: MPICH's Hydra and Intel MPI ("Using the Hydra Process Manager");
    - ``HOST SLOTS QUEUE PROCESSORS``: Grid Engine's ``$PE_HOSTFILE`` (sge_pe(5)); ``HOST SLOTS``: bsub -hostfile;
    - ``HOST N HOST N ...`` or ``HOST HOST ...`` on one line: the texts of LSF's ``$LSB_MCPU_HOSTS`` and ``$LSB_HOSTS``
      ("How LSF runs parallel jobs").
    """
    words = (line.partition("#")[0].split() for line in text.splitlines())
    return tuple(dict.fromkeys(host for line in words if line for host in _hosts_of(line)))


def _hosts_of(words: list[str]) -> Iterator[str]:
    """Yield the hosts of one line: its first word; each first of several pairs with a number; or all, if all are names.

    An address is no name here, so a line of /etc/hosts lists one host.
    """
    if len(words) > 2 and len(words) % 2 == 0 and all(word.isdecimal() for word in words[1::2]):
        found = words[::2]
    else:
        found = words if all(map(_NAME.fullmatch, words)) else words[:1]
    for word in found:
        portion = _PORTION.fullmatch(word)
        yield portion[1] if portion else word
