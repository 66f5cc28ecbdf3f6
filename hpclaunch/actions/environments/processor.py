"""For which processor an environment's programs are, as their files say, beside that of the nodes; it starts none."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

from hpclaunch.config.environment_recipes import machine_of, maker_of_gpus
from hpclaunch.core.errors import Fault
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.records import record
from hpclaunch.core.spec import JobSpec
from hpclaunch.resolve.case import Case

_MACHINES = {0x15: "ppc64le", 0x3E: "x86_64", 0xB7: "aarch64", 0xF3: "riscv64"}
"""The field e_machine of a program's ELF header -> what uname -m prints (elf(5), linux/elf-em.h)."""
_OF_EACH_NODE = ("/usr/", "/bin/", "/lib/", "/lib64/")
"""Folders that every node has itself: there it has a Python for its own processor."""
_MOST_LINKS = 4
_MOST_FILES = 2_000
"""How many names of an environment's folders are looked at for a compiled library."""


def machine_of_program(path: Path) -> str:
    """Return the machine that a program is for (``x86_64``); empty if its file does not say.

    Links are followed, and a script of Python to its interpreter. A program of the system is on every node for that
    node's own processor, so its file here says nothing.
    """
    for _ in range(_MOST_LINKS):
        real = os.path.realpath(path)
        if real.startswith(_OF_EACH_NODE):
            return ""
        try:
            with open(real, "rb") as file:
                head = file.read(256)
        except OSError:
            return ""
        if not head.startswith(b"#!"):
            return _machine_in(head)
        words = head[2:].split(b"\n", 1)[0].decode("utf-8", "replace").split()
        if not words or not os.path.basename(words[0]).startswith("python"):
            return ""  # a shell's script may start any program
        path = Path(words[0])
    return ""


def _machine_in(head: bytes) -> str:
    """Return the machine of an ELF header; empty for another file."""
    if len(head) < 20 or not head.startswith(b"\x7fELF"):
        return ""
    order = ">" if head[5] == 2 else "<"
    return _MACHINES.get(struct.unpack_from(f"{order}H", head, 18)[0], "")


def machine_of_environment(folder: Path) -> str:
    """Return the machine for which a venv or conda environment is; empty if its files do not say.

    That of its Python, else of the first compiled library among its packages: the Python may be the system's.
    """
    found = machine_of_program(folder / "bin" / "python")
    if found:
        return found
    library = next(_compiled_libraries(folder), None)
    return machine_of_program(library) if library else ""


def _compiled_libraries(folder: Path) -> Iterator[Path]:
    """Yield the compiled libraries among the first names of an environment's packages."""
    left = _MOST_FILES
    for library in sorted(folder.glob("lib/python3*/site-packages")):
        for place, folders, files in os.walk(library):
            yield from (Path(place, name) for name in sorted(files) if name.endswith(".so"))
            left -= len(folders) + len(files)
            if left < 0:
                return


def faults_of_processor(case: Case, spec: JobSpec) -> list[Fault]:
    """Return why a person's own environment or program cannot start on the nodes, or not use their GPUs."""
    found = _found_in(case, spec)
    faults = []
    for node_type in _node_types(spec):
        nodes = f"the {node_type} nodes of {case.site.name}"
        own, maker = machine_of(case.node(node_type)), maker_of_gpus(case.node(node_type))
        if found.machine and own and found.machine != own:
            what = f"it is for {found.machine}, and {nodes} are {own}: it cannot start there"
            faults.append(Fault(where=found.where, what=what, next=_way_on(found, node_type)))
        elif found.gpus and maker and found.gpus != maker and spec.layout.gpus_per_node:
            what = f"it was made for GPUs of {_TITLES[found.gpus]}, and {nodes} have those of {_TITLES[maker]}"
            faults.append(Fault(where=found.where, what=what, next=_way_on(found, node_type)))
    return faults


def _way_on(found: _Found, node_type: str) -> str:
    other = "or --node-type with other nodes"
    if found.is_program:
        return f"compile it on such a node; {other}"
    make = (
        f"hpclaunch environment make NAME --framework {found.framework or 'NAME'} --node-type {shell_word(node_type)}"
    )
    return f"{make}, then --environment NAME; {other}"


_TITLES = {"nvidia": "NVIDIA (CUDA)", "amd": "AMD (ROCm)"}


def remarks_on_processor(case: Case, spec: JobSpec) -> list[str]:
    """Return what may keep an environment from working on the nodes, where the site file does not tell enough."""
    found = _found_in(case, spec)
    remarks = []
    for node_type in _node_types(spec):
        node = case.node(node_type)
        nodes = f"the {node_type} nodes of {case.site.name}"
        if found.machine and found.machine != os.uname().machine and not machine_of(node):
            remarks.append(f"{found.where} is for {found.machine}; the site file does not tell whether {nodes} are")
        if found.gpus == "" and maker_of_gpus(node) and spec.layout.gpus_per_node:
            remarks.append(f"{found.where} was made for nodes without GPUs, so it may not use those of {nodes}")
    return remarks


def _node_types(spec: JobSpec) -> list[str]:
    return list(dict.fromkeys([spec.node_type, *(one.node_type for one in spec.further)]))


@record
class _Found:
    """What a person's own environment or program is for.

    ``machine``: empty if it is not known, as for modules and for images that hpclaunch did not make. ``gpus``: the
    maker of the GPUs (empty: it is for nodes without), None if it is not known.
    """

    where: str = ""
    machine: str = ""
    gpus: str | None = None
    framework: str = ""
    is_program: bool = False


def _found_in(case: Case, spec: JobSpec) -> _Found:
    if case.request.environment is not None:
        from hpclaunch.actions.environments.kept import read_build  # only who names one needs it

        build = read_build(Path(case.request.environment))
        machine = build.built.get("machine")
        return _Found(
            where=f"the environment {build.name}",
            machine=machine if isinstance(machine, str) else machine_of_environment(build.folder),
            gpus=build.value("gpus") if "gpus" in build.recipe else None,
            framework=build.value("framework"),
        )
    is_python = case.job.script is not None
    if is_python and spec.python_folder.startswith("/"):
        machine = machine_of_environment(Path(spec.python_folder))
        framework = next((one.value for one in spec.choices if one.key == "framework"), "")
        return _Found(where=f"the Python in {spec.python_folder}", machine=machine, framework=framework)
    if spec.interpreter.startswith("/"):
        machine = machine_of_program(Path(spec.interpreter))
        return _Found(where=spec.interpreter, machine=machine, is_program=not is_python)
    return _Found()
