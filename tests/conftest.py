"""Test groups: one that cannot run here says so at the end of the session, and with CI=true that is a failure."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter, defaultdict
from collections.abc import Generator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.no_processes import no_processes
from tests.tiers import LONG

# A skip must name its group, as in pytest.skip("group slurm: needs root and Slurm"): any other skip is a failure in CI.
_REASON = re.compile(r"group (?P<group>[a-z0-9.-]+): (?P<why>.*)", re.DOTALL)
# The uv that tests call trusts the machine's certificates, as that of tools/setup.sh; by its newer and its older name.
os.environ.update(UV_SYSTEM_CERTS="1", UV_NATIVE_TLS="1")
# A shell that starts the tests in the background lets them ignore SIGINT and SIGQUIT, nohup SIGHUP. What they start
# must not.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
_skipped: Counter[str] = Counter()
_skipped_ids: list[str] = []
_why: dict[str, str] = {}
_unnamed: list[str] = []
# No machine of CI has a GPU: `make gpu` runs this group, and no run of CI must have it.
_OUTSIDE_CI = frozenset({"gpu"})
_MOST_CASES = int(os.environ.get("HPCLAUNCH_TEST_CASES", "0"))
_passed: set[str] = set()
_seconds: defaultdict[str, float] = defaultdict(float)
"""File -> seconds of its tests with their fixtures, of all processes together."""
_FILES_SHOWN = 40
# With `pytest -n 3` the tests of such a folder stay in one process, one after the other: they share a cluster, or take
# both cores themselves. (--dist loadgroup of pytest-xdist 3.8 keeps no group together under pytest 9.)
_TOGETHER = ("browser", "docs", "faults", "frameworks", "horovod", "hostile", "packaging", "site_environment", "slurm")
# This file writes down a few hundred scripts, which takes longer than its tests.
_IN_ONE_PROCESS = "tests/script/test_every_script.py"
# Their tests start no process (tests/no_processes.py).
_WITHOUT_PROCESSES = ("golden", "property", "unit")
# Parts of a folder that run beside its other tests, in a process of their own: about half of its time, or a third.
# Those of tests/slurm that train wait less than the others and compute more; those of tests/horovod start ranks, which
# wait.
_PARTS = {
    "slurm endings": re.compile(
        r"tests/slurm/test_(broadcast|cluster|interactive|node_types|restarts|run_directory|signals|users|without_scheduler)\.py"
    ),
    "slurm training": re.compile(r"tests/slurm/test_(any_cluster|cifar|frameworks|jobs|profile|strategies)\.py"),
    "horovod models": re.compile(
        r"tests/horovod/test_"
        r"(memory|models|own_optimizer|pipeline|sharding|strangers|techniques|tensor_parallel|transformer|updates)\.py"
    ),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="write the golden scripts anew")


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("CI") == "true":
        config.option.durations = 60  # the log of CI ends with its slowest tests


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the long tier alone runs, and more than HPCLAUNCH_TEST_CASES cases of one test, if it is set."""
    later = {item for item in items if not LONG and item.get_closest_marker("long_tier")}
    seen: Counter[str] = Counter()
    for item in items if _MOST_CASES else ():
        function = item.nodeid.partition("[")[0]
        seen[function] += 1
        if seen[function] > _MOST_CASES:
            later.add(item)
    if later:
        config.hook.pytest_deselected(items=list(later))
        items[:] = [item for item in items if item not in later]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class ByFolder(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(_IN_ONE_PROCESS):
                return _IN_ONE_PROCESS
            if _folder(nodeid) not in _TOGETHER:
                return nodeid
            return next((part for part, files in _PARTS.items() if files.match(nodeid)), _folder(nodeid))

    return ByFolder(config, log)


def _folder(nodeid: str) -> str:
    """The folder below tests/ that a test is in."""
    return nodeid.split("/")[1] if nodeid.startswith("tests/") else "other"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    with _started_by(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    with _started_by(item):
        return (yield)


def _started_by(item: pytest.Item) -> AbstractContextManager[None]:
    """Refuse the processes of a test that may start none. What ends after it may be a fixture of another folder."""
    folder = _folder(item.nodeid)
    return no_processes(folder) if folder in _WITHOUT_PROCESSES else nullcontext()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid.partition("::")[0]] += report.duration
    if report.skipped and not hasattr(report, "wasxfail"):
        _note_skip(report.nodeid, report.longrepr)
    if report.passed and report.when == "call":
        _passed.add(report.nodeid.partition("[")[0])


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:
        _note_skip(report.nodeid, report.longrepr)


def _note_skip(nodeid: str, longrepr: object) -> None:
    reason = str(longrepr[2] if isinstance(longrepr, tuple) else longrepr).removeprefix("Skipped: ")
    found = _REASON.match(reason)
    if found:
        if found["group"] not in _OUTSIDE_CI:
            _skipped_ids.append(nodeid)
        _skipped[found["group"]] += 1
        _why.setdefault(found["group"], found["why"])
    else:
        _unnamed.append(f"{nodeid}: {reason}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _skipped or _unnamed:
        terminalreporter.section("groups that did not run")
    for group, number in sorted(_skipped.items()):
        also = " (another run of CI has it)" if group in _elsewhere() else ""
        also = " (make gpu runs it)" if group in _OUTSIDE_CI else also
        terminalreporter.line(f"{group}: {number} skipped: {_why[group]}{also}")
    for line in _unnamed:
        terminalreporter.line(f"(no group) {line}")
    if os.environ.get("CI") == "true":  # where its time goes, of all processes together
        folders: defaultdict[str, float] = defaultdict(float)
        for file, seconds in _seconds.items():
            folders[_folder(file)] += seconds
        terminalreporter.section("minutes of each folder, and of the slowest files")
        slowest = sorted(_seconds, key=_seconds.__getitem__, reverse=True)[:_FILES_SHOWN]
        for name in sorted(folders, key=folders.__getitem__, reverse=True):
            terminalreporter.line(f"{folders[name] / 60:6.1f}  {name}")
        for name in slowest:
            terminalreporter.line(f"{_seconds[name] / 60:6.1f}  {name}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if hasattr(session.config, "workerinput"):
        return  # one process of several: the one that gathers their reports decides
    if "HPCLAUNCH_TEST_SKIPPED" in os.environ:  # a file for `pytest @FILE`: .ci/run runs these tests later, as root
        # File by file, as several processes report them mixed: fixtures of a file would be made for each of its tests.
        tests = sorted(dict.fromkeys(_skipped_ids), key=lambda test: test.partition("::")[0])
        Path(os.environ["HPCLAUNCH_TEST_SKIPPED"]).write_text("".join(f"{test}\n" for test in tests))
    if "HPCLAUNCH_TEST_PASSED" in os.environ:  # a file for the names of the tests that passed (tools/named_tests.py)
        Path(os.environ["HPCLAUNCH_TEST_PASSED"]).write_text("".join(f"{test}\n" for test in sorted(_passed)))
    missed = _skipped.keys() - _elsewhere() - _OUTSIDE_CI
    if os.environ.get("CI") == "true" and exitstatus == 0 and (missed or _unnamed):
        session.exitstatus = 1


def _elsewhere() -> set[str]:
    """The groups that this run of CI may skip, as its other run must have them (HPCLAUNCH_TEST_ELSEWHERE)."""
    return set(os.environ.get("HPCLAUNCH_TEST_ELSEWHERE", "").split())
