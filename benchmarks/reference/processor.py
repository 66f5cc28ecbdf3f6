"""The processor of this machine, as results of studies name it."""

from __future__ import annotations

import platform
import re
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")


def processor() -> str:
    """The processor's name with its family and model: a virtual machine may shorten the name of each to "AMD EPYC"."""
    first = CPUINFO.read_text().partition("\n\n")[0]
    found = dict(re.findall(r"^(model name|cpu family|model)\s*: (.+)$", first, re.MULTILINE))
    if "model name" not in found:
        return platform.processor()
    if not found.keys() >= {"cpu family", "model"}:
        return found["model name"]
    return f"{found['model name']} (family {found['cpu family']}, model {found['model']})"
