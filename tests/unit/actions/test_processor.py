"""An environment for another processor than the nodes have, told by its files; the files here are only headers."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.actions.environments.processor import (
    faults_of_processor,
    machine_of_environment,
    machine_of_program,
    remarks_on_processor,
)
from hpclaunch.config.site import Site
from hpclaunch.core.spec import JobSpec
from hpclaunch.resolve.case import Case
from tests.builders import a_case, a_job, a_site, planned


def header(machine: int, order: str = "little") -> bytes:
    """The first bytes of a program of 64 bits, as elf(5) has them."""
    ident = b"\x7fELF\x02" + (b"\x02" if order == "big" else b"\x01") + b"\x01" + bytes(9)
    return ident + (3).to_bytes(2, order) + machine.to_bytes(2, order) + bytes(44)  # type: ignore[arg-type]


ARM, X86 = header(183), header(62)


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3.11").write_bytes(X86)
    (tmp_path / "bin/python").symlink_to("python3.11")
    return tmp_path


@pytest.mark.parametrize(
    ("content", "machine"),
    [
        (X86, "x86_64"),
        (ARM, "aarch64"),
        (header(21), "ppc64le"),
        (header(21, "big"), "ppc64le"),
        (header(2), ""),
        (X86[:19], ""),
        (b"", ""),
        (b"MZ" + X86, ""),
        (b"#!/bin/sh\nexec python\n", ""),
    ],
)
def test_a_programs_header_names_its_machine(tmp_path: Path, content: bytes, machine: str) -> None:
    (tmp_path / "python").write_bytes(content)
    assert machine_of_program(tmp_path / "python") == machine


def test_links_and_scripts_of_python_are_followed_and_the_systems_programs_tell_nothing(tmp_path: Path) -> None:
    (tmp_path / "python3").write_bytes(ARM)
    (tmp_path / "python").symlink_to("python3")
    (tmp_path / "script").write_text(f"#!{tmp_path / 'python'} -u\nprint(1)\n")
    assert machine_of_program(tmp_path / "script") == machine_of_program(tmp_path / "python") == "aarch64"
    (tmp_path / "turning").write_text(f"#!{tmp_path / 'python-again'}\n")
    (tmp_path / "python-again").symlink_to("turning")
    (tmp_path / "gone").symlink_to("nowhere")
    (tmp_path / "system").symlink_to("/bin/sh")
    for name in ("turning", "gone", "system", "."):
        assert machine_of_program(tmp_path / name) == ""


def test_a_venv_of_the_systems_python_is_for_what_its_packages_are(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to("/bin/sh")  # stands for the system's Python
    package = tmp_path / "lib/python3.11/site-packages/torch/lib"
    package.mkdir(parents=True)
    assert machine_of_environment(tmp_path) == ""
    (package / "libtorch.so").write_bytes(ARM)
    assert machine_of_environment(tmp_path) == "aarch64"


def nodes_of(**changes: object) -> Site:
    node = replace(a_site().node_types["gpu"], **changes)
    return a_site(node_types={"gpu": node, "cpu": a_site().node_types["cpu"]})


def at(site: Site, **typed: object) -> tuple[Case, JobSpec]:
    case = a_case(site, a_job(), **typed)
    return case, planned(site, a_job(), **typed)


GRACE = {"cpu": "NVIDIA Grace", "gpu_model": "NVIDIA GH200"}


def test_an_environment_for_another_processor_is_refused_with_both_ways_on(venv: Path) -> None:
    (fault,) = faults_of_processor(*at(nodes_of(**GRACE), venv=str(venv)))
    assert fault.where == f"the Python in {venv}"
    assert fault.what == "it is for x86_64, and the gpu nodes of cluster are aarch64: it cannot start there"
    assert fault.next.startswith("hpclaunch environment make NAME --framework ")
    assert fault.next.endswith("--node-type gpu, then --environment NAME; or --node-type with other nodes")
    (venv / "bin/python3.11").write_bytes(ARM)
    assert faults_of_processor(*at(nodes_of(**GRACE), venv=str(venv))) == []
    (fault,) = faults_of_processor(*at(nodes_of(cpu="AMD EPYC 7763"), python=str(venv / "bin/python")))
    assert "it is for aarch64, and the gpu nodes of cluster are x86_64" in fault.what


@pytest.mark.parametrize(
    ("node", "machine"),
    [
        ({"cpu": "NVIDIA Grace"}, "aarch64"),
        ({"cpu": None, "gpu_model": "NVIDIA GH200"}, "aarch64"),
        ({"cpu": None, "gpu_model": "AMD MI300A"}, "x86_64"),
        ({"cpu": "AMD EPYC 7763 (Milan)"}, "x86_64"),
    ],
)
def test_the_processor_is_that_of_the_site_file(venv: Path, node: dict[str, str], machine: str) -> None:
    faults = faults_of_processor(*at(nodes_of(**node), venv=str(venv)))
    assert [f"are {machine}" in fault.what for fault in faults] == ([True] if machine != "x86_64" else [])


def test_where_the_nodes_processor_is_not_known_a_strange_environment_is_told_of(venv: Path) -> None:
    unknown = nodes_of(cpu=None, gpu_model="NVIDIA A100")
    foreign = header(243)  # riscv64, which this machine is not
    (venv / "bin/python3.11").write_bytes(foreign)
    case, spec = at(unknown, venv=str(venv))
    assert faults_of_processor(case, spec) == []
    assert remarks_on_processor(case, spec) == [
        f"the Python in {venv} is for riscv64; the site file does not tell whether the gpu nodes of cluster are"
    ]
    case, spec = at(nodes_of(**GRACE), venv=str(venv))
    assert (len(faults_of_processor(case, spec)), remarks_on_processor(case, spec)) == (1, [])


def made(tmp_path: Path, **facts: str) -> Path:
    """Write down a build as `environment make` leaves it."""
    folder = tmp_path / "mine/1"
    folder.mkdir(parents=True)
    recipe = {"format": 1, "framework": "pytorch", "site": "cluster", "make_with": "container", **facts}
    (folder / "recipe.json").write_text(json.dumps(recipe))
    (folder / "built.json").write_text(json.dumps({"format": 1, "machine": facts.get("machine", "x86_64")}))
    (folder / "image.sif").touch()
    return folder


@pytest.mark.parametrize(
    ("gpus", "model", "words"),
    [
        (
            "nvidia",
            "AMD MI250X",
            "for GPUs of NVIDIA (CUDA), and the gpu nodes of cluster have those of AMD (ROCm)",
        ),
        ("amd", "NVIDIA A100", "for GPUs of AMD (ROCm), and the gpu nodes of cluster have those of NVIDIA (CUDA)"),
        ("nvidia", "NVIDIA A100", ""),
        ("nvidia", None, ""),
        ("", "NVIDIA A100", ""),
    ],
)
def test_an_environment_for_gpus_of_another_maker_is_refused(
    tmp_path: Path, gpus: str, model: str | None, words: str
) -> None:
    folder = made(tmp_path, gpus=gpus)
    case, spec = at(nodes_of(cpu="AMD EPYC", gpu_model=model))
    case = replace(case, request=replace(case.request, environment=str(folder)))
    faults = faults_of_processor(case, spec)
    assert [words in fault.what for fault in faults] == ([True] if words else [])
    told = ["the environment mine was made for nodes without GPUs" in text for text in remarks_on_processor(case, spec)]
    assert told == ([True] if not gpus else [])


def test_an_environment_that_hpclaunch_made_is_for_the_machine_on_record(tmp_path: Path) -> None:
    case, spec = at(nodes_of(**GRACE))
    case = replace(case, request=replace(case.request, environment=str(made(tmp_path, gpus="nvidia"))))
    (fault,) = faults_of_processor(case, spec)
    assert fault.where == "the environment mine" and "it is for x86_64" in fault.what
    assert "--framework pytorch --node-type gpu" in fault.next


def test_a_compiled_program_for_another_processor_is_refused_too(tmp_path: Path) -> None:
    program = tmp_path / "simulate"
    program.write_bytes(X86)
    site = nodes_of(**GRACE)
    spec = replace(planned(site, a_job()), interpreter=str(program), python_folder="")
    case = a_case(site, a_job(command=(str(program),)))
    (fault,) = faults_of_processor(case, spec)
    assert (fault.where, fault.next) == (
        str(program),
        "compile it on such a node; or --node-type with other nodes",
    )


def test_this_python_is_for_this_machine() -> None:
    assert machine_of_program(Path(sys.executable)) in (os.uname().machine, "")  # empty: it is the system's
