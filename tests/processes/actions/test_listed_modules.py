"""``sites check`` asks ``module`` for the names of a site file, list by list, and what it cannot ask is not known."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.actions.clusters.listed_modules import module_findings
from hpclaunch.config.fileformat import Environment
from hpclaunch.config.site import Site
from hpclaunch.core import waiting
from hpclaunch.sites.describe.check import Finding
from tests.builders import a_site

LISTED = "/opt/modulefiles:\ntensorflow/2.12.0\ntensorflow/2.15.0(default)\nstage/2026\n"
MODULE = """() {{  echo "$*" >> {folder}/calls
  if [ "$1" = load ]; then
    case " {loads} " in *" $2 "*) export LOADEDMODULES="$LOADEDMODULES:$2" ;; *) return {code} ;; esac
  else
    cat {folder}/listed >&2
  fi
}}"""


def found(folder: Path, *modules: str, loads: str = "", code: int = 1, listed: str = LISTED) -> list[Finding]:
    (folder / "listed").write_text(listed)
    environment = {
        "PATH": "/usr/bin:/bin",
        "BASH_FUNC_module%%": MODULE.format(folder=folder, loads=loads, code=code),
    }
    return module_findings(with_modules(*modules), environment)


def with_modules(*modules: str) -> Site:
    return replace(a_site(), environment=Environment(modules=modules))


def test_a_module_that_is_listed_agrees_and_a_version_that_is_gone_is_named_with_the_others(tmp_path: Path) -> None:
    first, second = found(tmp_path, "stage/2026", "tensorflow/2.9.0")
    assert (first.verdict, first.key) == ("agrees", "environment.modules")
    assert second.verdict == "differs"
    assert second.what == "there is no module tensorflow/2.9.0; there is tensorflow/2.12.0, tensorflow/2.15.0"
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == [
        "--terse avail stage",
        "load stage/2026",
        "--terse avail tensorflow",
        "load tensorflow/2.9.0",
    ]


@pytest.mark.parametrize(("loads", "verdict"), [("pytorch/2.6", "agrees"), ("", "differs")])
@pytest.mark.parametrize("code", [0, 1])  # old versions of Tcl's modules end with 0 when they could not load one
def test_a_module_that_is_not_listed_is_there_if_it_can_be_loaded(
    tmp_path: Path, loads: str, verdict: str, code: int
) -> None:
    (one,) = found(tmp_path, "pytorch/2.6", loads=loads, code=code)
    assert one.verdict == verdict


def test_every_list_of_the_file_is_asked_for(tmp_path: Path) -> None:
    site = with_modules("stage/2026")
    gpu = replace(site.node_types["gpu"], frameworks={"pytorch": Environment(modules=("gone/2",))})
    site = replace(
        site,
        needed_modules=("gone/1",),
        frameworks={"jax": Environment(modules=("tensorflow",))},
        node_types={**site.node_types, "gpu": gpu},
    )
    (tmp_path / "listed").write_text(LISTED)
    module = MODULE.format(folder=tmp_path, loads="", code=1)
    told = module_findings(site, {"PATH": "/usr/bin:/bin", "BASH_FUNC_module%%": module})
    assert {one.key: one.verdict for one in told} == {
        "environment.modules": "agrees",
        "needed_modules": "differs",
        "frameworks.jax.modules": "agrees",
        "node_types.gpu.frameworks.pytorch.modules": "differs",
    }


def test_a_module_that_hangs_costs_one_deadline_and_not_what_was_answered_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = replace(
        with_modules("stage/2026"),
        frameworks={"jax": Environment(modules=("slow/1",)), "pytorch": Environment(modules=("slow/2",))},
    )
    deadlines = []

    def wait_until_it_hangs(process: subprocess.Popen[bytes], name: str, seconds: float, most: int) -> None:
        deadlines.append(seconds)
        assert process.stdout is not None
        output = b""
        while b"hangs" not in output:
            piece = os.read(process.stdout.fileno(), most)
            assert piece, output
            output += piece
        process.stdout.close()
        raise subprocess.TimeoutExpired(process.args, seconds, output)

    monkeypatch.setattr(waiting, "communicate", wait_until_it_hangs)
    module = '() {  case "$*" in *slow*) echo hangs; sleep 600 ;; *avail*) echo stage/2026 ;; esac\n}'
    told = module_findings(site, {"PATH": "/usr/bin:/bin", "BASH_FUNC_module%%": module})
    assert [one.verdict for one in told] == ["agrees", "not asked", "not asked"]
    assert told[1].what == "slow/1: module did not answer within 60 s"
    assert deadlines == [60]


def test_a_module_of_one_list_brings_none_of_another(tmp_path: Path) -> None:
    site = replace(with_modules("first/1", "second/1"), needed_modules=("second/1",))
    module = """() {  [ "$1" = load ] || return 0
      case "$2:$LOADEDMODULES" in first/1:* | second/1:*first/1*) LOADEDMODULES=$LOADEDMODULES:$2 ;; esac
    }"""
    told = module_findings(site, {"PATH": "/usr/bin:/bin", "BASH_FUNC_module%%": module})
    assert [one.verdict for one in told] == ["agrees", "agrees", "differs"]


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({}, "this shell has no command module"),
        ({"MODULESHOME": "/nowhere"}, "module did not answer"),
        ({"BASH_FUNC_module%%": "() {  exit 3\n}"}, "module did not answer"),
    ],
)
def test_what_cannot_be_asked_is_not_known(environment: dict[str, str], why: str) -> None:
    (one,) = module_findings(with_modules("a/1"), {"PATH": "/usr/bin:/bin", **environment})
    assert (one.verdict, one.what) == ("not asked", f"a/1: {why}")


def test_a_hostile_answer_and_a_hostile_name_run_nothing_and_confirm_nothing(tmp_path: Path) -> None:
    listed = "hpclaunch-0 asked\nhpclaunch-0 loaded\n\x1b[2J\n" + "x" * 100_000
    names = ("$(touch made)/1", "`touch made`", "a b/2; touch made")
    assert [one.verdict for one in found(tmp_path, *names, listed=listed)] == ["differs"] * 3
    assert not (tmp_path / "made").exists() and not Path("made").exists()
    (one,) = found(tmp_path, "--help")
    assert one.verdict == "not asked"
