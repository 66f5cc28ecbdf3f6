"""The pytest plugin of the study, in a copy: ``--reach`` notes what every test calls, ``--chosen`` runs some tests."""

from __future__ import annotations

import importlib
import json
import resource
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

MEMORY = 6 * 2**30
"""Bytes of addresses for each process: a mutant may fill a list for ever."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--reach", help="a folder for the notes: what each test calls, its seconds and its fixtures")
    parser.addoption("--chosen", help="a file with the IDs of the tests to run, in this order, as a list of JSON")
    parser.addoption("--failed", help="a file for the first test that fails")


def pytest_configure(config: pytest.Config) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    if config.getoption("--reach"):
        config.pluginmanager.register(_Mapping(Path(config.getoption("--reach"))))
    if config.getoption("--failed"):
        config.pluginmanager.register(_Failure(Path(config.getoption("--failed"))))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--chosen"):
        order = {test: number for number, test in enumerate(json.loads(Path(config.getoption("--chosen")).read_text()))}
        items[:] = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])


class _Failure:
    """Writes down the first failure at once, as the process may be ended before it can say more."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._write(report.nodeid, "Failed: Timeout" in str(report.longrepr))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(report.nodeid, False)

    def _write(self, test: str, too_slow: bool) -> None:
        if not self._file.exists():
            self._file.write_text(json.dumps({"test": test, "too_slow": too_slow}))


class _Mapping:
    """A line for each test in the file ``tests``. What a fixture of several tests calls counts for all that have it.

    A fixture of a file or of the session is named by its place and name.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "tests"
        self._notes = importlib.import_module("reach_hook").NOTES
        self._fixtures: list[str] = []
        self._seconds = 0.0
        self._passed = True

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        before = self._notes.current
        self._notes.write_current(f"fixture {request.node.nodeid} {fixturedef.argname}")
        try:
            return (yield)
        finally:
            self._notes.write_current(before)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._notes.write_current(item.nodeid)
        file = item.nodeid.partition("::")[0]
        names = getattr(item, "fixturenames", [])
        self._fixtures = [f"fixture {place} {name}" for place in ("", file) for name in names]
        self._seconds, self._passed = 0.0, True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds += report.duration
        self._passed = self._passed and report.passed
        if report.when == "teardown":
            about = {"test": report.nodeid, "passed": self._passed, "seconds": round(self._seconds, 3)}
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**about, "fixtures": self._fixtures}) + "\n")
