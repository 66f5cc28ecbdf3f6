"""Keeps the speed of a device that ``doctor`` measured, one file per site and node type; it measures nothing.

The file lies beside the calibrations of the node type. The newest measurement of each kind of ranks is kept.
"""

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from hpclaunch.config.fileformat import AtLeast, AtMost, Line, read
from hpclaunch.core.errors import HpclaunchError
from hpclaunch.core.files import write_text
from hpclaunch.core.records import record
from hpclaunch.guidelines.hardware import MeasuredDevice
from hpclaunch.planner.measured.calibrations import device_file_of, place_of

Speed = Annotated[float, AtLeast(0), AtMost(1e6)]


@record
class DeviceSpeed:
    """TFLOP/s of a matrix product (0: not measured) and GB/s of a copy, of each of so many ranks of a node.

    ``run`` and ``when``: the probe job, and when it was made.
    """

    ranks_per_node: Annotated[int, AtLeast(1), AtMost(10**7)]
    on_gpus: bool
    float32: Annotated[float, AtLeast(1e-6), AtMost(1e6)]
    tf32: Speed = 0.0
    mixed: Speed = 0.0
    copy_gbytes_per_s: Annotated[float, AtLeast(1e-6), AtMost(1e6)]
    run: Line = ""
    when: Line = ""


@record
class DeviceFile:
    """What is measured of a node type."""

    measurements: Annotated[tuple[DeviceSpeed, ...], AtLeast(1)]


def device_place(environment: Mapping[str, str], site: str, node_type: str) -> Path:
    """Return the file of a node type, in the user's data folder."""
    return device_file_of(place_of(environment, f"{site}/{node_type}/any"))


def keep_speed(place: Path, found: DeviceSpeed) -> None:
    """Write a measurement in place of an older one of the same ranks. Raises OSError."""
    known = _read(place)
    alike = [one for one in known if (one.ranks_per_node, one.on_gpus) == (found.ranks_per_node, found.on_gpus)]
    if any(one.when > found.when for one in alike):
        return  # the results of an older probe were read again
    others = tuple(one for one in known if one not in alike)
    place.parent.mkdir(parents=True, exist_ok=True)
    write_text(place, json.dumps(asdict(DeviceFile(measurements=(*others, found))), indent=1) + "\n")


def _read(place: Path) -> tuple[DeviceSpeed, ...]:
    """Return what was measured of a node type; nothing if there is no file, or a damaged one."""
    with contextlib.suppress(HpclaunchError):
        if os.path.isfile(place):
            return read(place, DeviceFile).measurements
    return ()


def measured_devices(place: Path) -> tuple[MeasuredDevice, ...]:
    """Return the measured devices of a node type."""
    return tuple(
        MeasuredDevice(
            ranks_per_node=one.ranks_per_node,
            on_gpus=one.on_gpus,
            float32=one.float32,
            tf32=one.tf32,
            mixed=one.mixed,
            copy_gbytes_per_s=one.copy_gbytes_per_s,
            origin=", ".join(filter(None, ("hpclaunch doctor", one.run, one.when[:10]))),
        )
        for one in _read(place)
    )
