"""Hostile input by every way in: a result or one clear error, no program started, nothing written elsewhere.

A small, fixed share by default; HPCLAUNCH_FUZZ=100000 tries that many inputs and writes the outcome to
docs/reliability.md (make fuzz).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hpclaunch import cli, runs
from hpclaunch import render as rendering
from hpclaunch.actions import cancel, inspect, resume, retry
from hpclaunch.actions import states as tracking
from hpclaunch.actions.sites import site_as_json, site_card
from hpclaunch.actions.submit import prepare
from hpclaunch.actions.system import System
from hpclaunch.cli.show import run_details, run_tables
from hpclaunch.config.catalog import Catalog, bundled
from hpclaunch.config.job import Job, load_job
from hpclaunch.config.settings import load_settings
from hpclaunch.config.site import Site, load_site
from hpclaunch.core.errors import HpclaunchError
from hpclaunch.core.spec import Request
from hpclaunch.render import render
from hpclaunch.schedulers.slurm import configuration, scheduler, states, submit
from hpclaunch.schedulers.slurm.programs import Answer
from tests.builders import ROOTS, a_job, bundled_site, planned
from tests.property.guard import Guard
from tests.property.typed_text import NASTY
from tests.reliability import surroundings, table, write_part

TOTAL = int(os.environ.get("HPCLAUNCH_FUZZ") or 0)
QUICK = 25
MOST_SECONDS = 10.0
"""Of the processor, for one input; nearly all take some thousandths."""
MOST_MEMORY = 4 * 2**30
"""Bytes of addresses, for the whole process: an input that asks for more ends in a MemoryError, a traceback."""
WAYS = {  # way in -> its part of all inputs
    "site files": 0.2,
    "job files": 0.2,
    "settings files": 0.15,
    "templates": 0.15,
    "command lines": 0.05,
    "answers of Slurm's programs": 0.15,
    "run records": 0.1,
}
MET: dict[str, Counter[str]] = {way: Counter() for way in WAYS}
TOOK: Counter[str] = Counter()

MARKS = [
    "{{ 7*7 }}",
    "{% include '/etc/passwd' %}",
    "!!python/object/apply:os.system ['touch pwned']",
    "../../../etc/x",
]
MARKS += [
    "${jndi:x}",
    "\0",
    "\0x",
    "%n%s",
    "x" * 5000,
    "1e999",
    "9" * 400,
    "-1",
    "0",
    "nan",
    "\ud800",
    "/proc/self/mem",
]
words = st.one_of(st.sampled_from([*NASTY, *MARKS]), st.text(max_size=12))
numbers = st.one_of(st.integers(), st.sampled_from([0, -1, 2**31, 2**63, 10**30]), st.floats())
leaves = st.one_of(st.none(), st.booleans(), numbers, words)
values = st.one_of(leaves, leaves, st.lists(leaves, max_size=2), st.dictionaries(words, leaves, max_size=2))
PAYLOADS = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ spec.__class__.__init__.__globals__['os'].system('touch pwned') }}",
    "{{ spec.__init__.__globals__ }}",
    "{{ self._TemplateReference__context }}",
    "{{ cycler.__init__.__globals__.os.popen('touch pwned') }}",
    "{{ lipsum.__globals__['os'].system('touch pwned') }}",
    "{{ joiner|attr('__init__')|attr('__globals__') }}",
    "{{ 'a'.format.__globals__ }}",
    "{{ '{0.__class__.__init__.__globals__}'.format(spec) }}",
    "{{ '%s' % spec }}",
    "{% include '../../../../etc/passwd' %}",
    "{% import 'os' as os %}",
    "{% extends 'bundled/slurm.sh.j2' %}",
    "{% extends 'slurm.sh.j2' %}",
    "{% block launch %}",
    "{% endblock %}",
    "{% for x in range(10**9) %}x{% endfor %}",
    "{% set spec.name = 1 %}",
    "{{ spec.directives.append(1) }}",
    "{{ spec.environment | map(attribute='__class__') | list }}",
    "{{ 1 / 0 }}",
    "{{ spec.nothing }}",
    "{{ spec.name | quote }}",
    "{{ spec.launch | argv(-5) }}",
    "{{ spec | argv }}",
    "{{ 3 | quote }}",
    "{{ none | directive }}",
    "{{ 'x' | count('y') }}",
    "{{ 'x' | clock }}",
    "{{ x | no_such_filter }}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% raw %}",
    "{{",
    "{%",
    "{#",
]


def fuzzing(way: str) -> Callable[..., Any]:
    """So many inputs for a way in; few and always the same ones unless HPCLAUNCH_FUZZ says how many in all."""
    most = round(TOTAL * WAYS[way]) if TOTAL else QUICK
    calm = list(HealthCheck)
    phases = [Phase.explicit, Phase.generate] if TOTAL else [Phase.explicit, Phase.generate, Phase.shrink]
    made: Callable[..., Any] = settings(
        max_examples=most,
        deadline=None,
        derandomize=not TOTAL,
        database=None,
        phases=phases,
        suppress_health_check=calm,
    )
    return made


@pytest.fixture(scope="module")
def guard() -> Iterator[Guard]:
    before = resource.getrlimit(resource.RLIMIT_AS)
    if TOTAL:
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, before[1]))
    yield Guard()
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A project folder in which a person works, with a home beside it; no program is on PATH."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # 100,000 inputs are as many small files
    with tempfile.TemporaryDirectory(prefix="hostile-", dir=memory) as folder:
        yield from furnished(Path(folder).resolve())


COMPILED = "home/.cache/hpclaunch/templates"
"""Where any command line may leave compiled templates."""


def furnished(folder: Path) -> Iterator[Path]:
    (folder / COMPILED).mkdir(parents=True)
    (folder / "project/jobs/train").mkdir(parents=True)
    (folder / "project/jobs/train/train.py").write_text("print()\n")
    (folder / "project/jobs/train/job.yaml").write_text("{summary: trains, script: train.py}\n")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("HPCLAUNCH", "SLURM", "SBATCH", "XDG"))]:
            patch.delenv(name)
        patch.setenv("HOME", str(folder / "home"))
        patch.setenv("PATH", str(folder))
        patch.chdir(folder / "project")
        patch.setattr(sys, "dont_write_bytecode", True)
        yield folder
    assert not list(folder.rglob("pwned"))


@pytest.fixture(scope="module", autouse=True)
def told(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if TOTAL and all(MET.values()) and not request.session.testsfailed:
        rows = [(way, f"{met.total():,}", f"{met['error']:,}", f"{TOOK[way]:.0f}") for way, met in MET.items()]
        number = sum(met.total() for met in MET.values())
        assert number >= TOTAL, f"{number} inputs instead of {TOTAL}"
        head = (
            f"Measured on {surroundings('hypothesis')}: {number:,} inputs in {sum(TOOK.values()) / 60:.0f} minutes.\n"
        )
        end = "\nTracebacks: 0. Programs started: 0. Writes elsewhere: 0.\n"
        write_part("fuzzing", f"{head}\n{table(('way in', 'inputs', 'refused', 'seconds'), rows)}{end}")


@contextlib.contextmanager
def met(way: str, guard: Guard, *allowed: Path) -> Iterator[None]:
    """One input: it may be refused with an error that says something; any other exception, or a wait, is a failure."""
    began, worked, result = time.monotonic(), time.process_time(), "result"
    try:
        with guard.armed(*allowed):
            yield
    except HpclaunchError as error:
        assert error.faults and all(fault.what for fault in error.faults)
        str(error).encode("utf-8", "surrogateescape")
        result = "error"
    finally:
        TOOK[way] += time.monotonic() - began
    assert time.process_time() - worked < MOST_SECONDS
    MET[way][result] += 1


def screen() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict")


def shown(stream: io.TextIOWrapper) -> bytes:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().strip()


def changed(document: Any, changes: list[tuple[int, str, Any]]) -> Any:
    """A deep copy with some of its places removed, renamed or given another value."""
    copy = json.loads(json.dumps(document, default=str))
    for number, how, value in changes:
        spots = list(_spots(copy))
        if not spots:
            break
        holder, key = spots[number % len(spots)]
        if how == "value":
            holder[key] = value
        elif how == "like":  # gets further than the first check of a file
            holder[key] = like(holder[key], value)
        elif how == "gone":
            del holder[key]
        elif isinstance(holder, dict):
            holder[str(value)] = holder.pop(key)
    return copy


def like(old: Any, value: Any) -> Any:
    """The hostile value as the type that was there."""
    if isinstance(old, str):
        return value if isinstance(value, str) else str(value)
    if isinstance(old, (int, float)) and not isinstance(old, bool):
        return value if isinstance(value, (int, float)) else len(str(value))
    return [value] if isinstance(old, list) else value


def _spots(value: Any) -> Iterator[tuple[Any, Any]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield value, key
        yield from _spots(inner)


changes = st.lists(
    st.tuples(st.integers(0, 10**6), st.sampled_from(["like", "like", "like", "value", "gone", "name"]), values),
    min_size=1,
    max_size=3,
)


def as_yaml(document: Any) -> bytes:
    return json.dumps(document).encode("utf-8", "surrogateescape")  # JSON is YAML, but for a few control characters


SITES = [yaml.safe_load((bundled("site_configs") / f"{name}.yaml").read_text()) for name in ("local", "testcluster")]
JOBS = [
    {"summary": "x", "script": "train.py", "parameters": {"epochs": 3, "rate": {"default": 0.1, "choices": [0.1, 1]}}},
    {
        "summary": "x",
        "command": ["{code}/run", "a b"],
        "resources": {"nodes": 2, "memory": "2GB", "walltime": "1:00:00"},
    },
    {"summary": "x", "script": "train.py", "environment": {"modules": ["a"], "setup": ["b"], "variables": {"A": "b"}}},
    {
        "summary": "x",
        "script": "train.py",
        "secret_env": ["TOKEN"],
        "sbatch": ["--mem=3"],
        "restarts": 3,
        "signal": "USR2",
    },
    {"summary": "x", "script": "train.py", "data": {"name": "d", "layouts": ["a/b"]}, "launcher": "mpirun"},
]


@pytest.fixture
def shipped_templates() -> Iterator[None]:
    """The bundled templates are compiled once: a hostile file has no part in that."""
    with pytest.MonkeyPatch.context() as patch:
        made = rendering._environment(ROOTS, None)
        patch.setattr(rendering, "_environment", lambda *_: made)
        yield


def a_script(site: Site, job: Job) -> None:
    """Plan and render, as submit does before it writes or asks anything."""
    assert render(planned(site, job, accept_unverified=True), ROOTS).startswith("#!")


@given(site=st.sampled_from(SITES), edits=changes, junk=st.binary(max_size=4))
@fuzzing("site files")
def test_site_files(place: Path, guard: Guard, shipped_templates: None, site: Any, edits: Any, junk: bytes) -> None:
    folder = place / "project/site_configs"
    folder.mkdir(exist_ok=True)
    content = as_yaml(changed(site, edits))
    (folder / "mine.yaml").write_bytes(content if len(junk) < 3 else content[: len(content) // 2] + junk)
    catalog = Catalog(project=place / "project", user=place / "home")
    try:
        with met("site files", guard):
            site_card(catalog, "mine")
            json.dumps(site_as_json(catalog, "mine"))
            a_script(load_site(catalog, "mine"), a_job())
    finally:
        shutil.rmtree(folder)


@given(
    job=st.sampled_from(JOBS), edits=changes, junk=st.binary(max_size=4), site=st.sampled_from(["local", "testcluster"])
)
@fuzzing("job files")
def test_job_files(
    place: Path, guard: Guard, shipped_templates: None, job: Any, edits: Any, junk: bytes, site: str
) -> None:
    folder = place / "project/jobs/hostile"
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text("print()\n")
    content = as_yaml(changed(job, edits))
    (folder / "job.yaml").write_bytes(content if len(junk) < 3 else content[: len(content) // 2] + junk)
    with met("job files", guard):
        a_script(bundled_site(site), load_job(System(cwd=place / "project").catalog, "hostile", place))


SETTINGS = {
    "site": "local",
    "mail": {"to": "a@b", "events": ["END"]},
    "remove": ["--nodes", "A"],
    "account": "a",
    "sbatch": ["--mem=3"],
    "environment": {"variables": {"A": "b"}},
    "sites": {"testcluster": {"runs_dir": "/x", "partition": "batch", "signal": "USR2@60", "restarts": 2}},
}


@given(edits=changes, junk=st.binary(max_size=4))
@fuzzing("settings files")
def test_settings_files(place: Path, guard: Guard, edits: Any, junk: bytes) -> None:
    file = place / "project/hpclaunch.yaml"
    content = as_yaml(changed(SETTINGS, edits))
    file.write_bytes(content if len(junk) < 3 else content[: len(content) // 2] + junk)
    try:
        with met("settings files", guard):
            load_settings(place / "home", place / "project")
            prepared = prepare(System(cwd=place / "project"), Request(target="train", site="testcluster"))
            assert prepared.faults or prepared.text.startswith("#!")
    finally:
        file.unlink()


@given(parts=st.lists(st.one_of(st.sampled_from(PAYLOADS), words), min_size=1, max_size=5))
@fuzzing("templates")
def test_templates(place: Path, guard: Guard, parts: list[str]) -> None:
    folder = place / "templates"
    folder.mkdir(exist_ok=True)
    (folder / "slurm.sh.j2").write_bytes("\n".join(parts).encode("utf-8", "surrogatepass"))
    with met("templates", guard):
        text = render(planned(), [("project", folder), *ROOTS])
        assert "root:x:0:0" not in text
        assert "<class 'subprocess.Popen'>" not in text


FLAGS = (
    "site",
    "node-type",
    "nodes",
    "tasks-per-node",
    "cpus-per-task",
    "gpus-per-node",
    "launcher",
    "account",
    "partition",
    "qos",
    "walltime",
    "memory",
    "restarts",
    "signal",
    "set",
    "sbatch",
    "data-dir",
    "hosts",
    "json",
    "synthetic",
    "accept-unverified",
    "rank",
    "timeout",
    "retries",
    "older-than",
    "keep",
    "zzz",
)
flags = st.sampled_from([*(f"--{name}" for name in FLAGS), "-x"])
typed = st.one_of(
    words, st.sampled_from(["local", "testcluster", "train", "1", "2", "1:00:00", "a=b", "--mem=1", "3G"])
)
options = st.lists(st.one_of(flags, st.tuples(flags, typed), typed), max_size=5)
VERBS = [
    ["submit", "train", "--dry-run"],
    ["submit", "--dry-run"],
    ["render", "train"],
    ["render"],
    ["status"],
    ["logs"],
]
VERBS += [
    ["wait"],
    ["cancel"],
    ["retry"],
    ["resume"],
    ["results"],
    ["runs", "show"],
    ["runs", "compare"],
    ["runs", "list"],
]
VERBS += [["jobs", "show"], ["sites", "show"], ["jobs", "list"], ["plan", "train"], []]


@given(verb=st.sampled_from(VERBS), some=options, after=st.lists(typed, max_size=3))
@fuzzing("command lines")
def test_command_lines(place: Path, guard: Guard, verb: list[str], some: list[Any], after: list[str]) -> None:
    line = [*verb, *(word for one in some for word in ([one] if isinstance(one, str) else one))]
    line += ["--", *after] if after else []
    line = [word.replace("\0", "").encode("utf-8", "replace").decode() for word in line]  # exec passes no others
    out, err = screen(), screen()
    with (
        met("command lines", guard, place / COMPILED),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            cli.main(line)
        except SystemExit as ended:
            assert ended.code in (None, 0, 1, 2, 124, 130), (line, ended.code)
            if ended.code in (1, 2):
                MET["command lines"].update(error=1, result=-1)
                assert shown(err) + shown(out), line
    assert b"Traceback" not in shown(err)


tokens = st.one_of(
    words,
    st.sampled_from(["1", "2", "3", "2_1", "PENDING", "RUNNING", "FAILED", "CANCELLED by 0", "COMPLETED", "0:53", "|"]),
    st.sampled_from(["9_1", "9_[0-1%4]", "9_[0-999999999]"]),
    st.sampled_from(["NODE_FAIL", "Resources", "n[1-3]", "slurm_load_jobs error: Invalid job id specified", "\n"]),
)


def decoded(text: str) -> str:
    """What is left of a text that came as bytes from another program."""
    return text.encode("utf-8", "replace").decode()


answers = st.builds(
    lambda ok, rows, messages: Answer(
        ok=ok, text=decoded("\n".join("|".join(row) for row in rows)), messages=decoded(messages)
    ),
    ok=st.booleans(),
    rows=st.lists(st.lists(tokens, max_size=5), max_size=5),
    messages=words,
)


def a_record(path: Path, **news: Any) -> dict[str, Any]:
    return {"name": "train", "site": "x", "scheduler": "slurm", "created": "2026-01-02T03:04:05Z", **news}


def two_runs_and_an_array(place: Path) -> list[runs.Run]:
    found = []
    for number, state in (("1", "RUNNING"), ("2", "SUBMITTING"), ("9", "RUNNING")):
        path = place / "project/runs" / f"train-{number}"
        for folder in ("attempts", "logs"):
            (path / folder).mkdir(parents=True, exist_ok=True)
        news = {"state": state, "submission": "hpclaunch", "job_id": number if state == "RUNNING" else ""}
        news |= {"tasks": 3} if number == "9" else {}  # a job array
        (path / "run.json").write_text(json.dumps(a_record(path, **news)))
        found.append(runs.load(path))
    return found


@given(first=answers, second=answers)
@fuzzing("answers of Slurm's programs")
def test_answers_of_slurms_programs(place: Path, guard: Guard, first: Answer, second: Answer) -> None:
    configuration._ask_configuration.cache_clear()
    found = two_runs_and_an_array(place)
    given_out = iter([first, second] * 20)
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(screen()):
        for module in (configuration, scheduler, states, submit):
            patch.setattr(module, "ask", lambda *_, **__: next(given_out))
        with met("answers of Slurm's programs", guard, place / "project/runs"):
            configuration.configuration()
            scheduler.cluster()
            now = tracking.refreshed(found)
            run_tables.show_status(now, as_json=True)
            run_tables.show_status(now, as_json=False)
            assert len(runs.each(now)) == 5
            assert all(runs.load(run.path) for run in now)
            for run in now:
                retry.ending_of(run)
            scheduler.unwell("n1")
            cancel.cancel([run for run in now if run.job_id])
    shutil.rmtree(place / "project/runs")


FILES: dict[str, Any] = {
    "run.json": a_record(Path(), state="FAILED", job_id="3", earlier=["1"], nodes="n1", exit_code="1:0", excluded="n2")
    | {"edition": 4},
    "spec.json": {"walltime": 60, "directives": [["nodes", "2"]], "layout": {"nodes": 2, "tasks_per_node": 2}}
    | {"code": {"entry": "train.py", "source_only": True}, "command": ["python", "train.py", "--rate=1"]},
    "request.json": {"target": "train", "cwd": "/nonexistent", "nodes": 2, "settings": [["a", "b"]], "sbatch": []},
    "environment.json": {"user": "ada", "variables": {"A": "b"}},
    "metrics.jsonl": {"event": "end", "accuracy": 0.5},
    "states.jsonl": {"time": "2026-01-02T03:04:05Z", "state": "FAILED", "exit_code": "1:0", "edition": 4},
}


@given(name=st.sampled_from(sorted(FILES)), edits=changes, junk=st.binary(max_size=6), mark=words)
@fuzzing("run records")
def test_run_records(place: Path, guard: Guard, name: str, edits: Any, junk: bytes, mark: str) -> None:
    configuration._ask_configuration.cache_clear()
    folder = place / "project/runs"
    path = folder / "train-3"
    start = path / "attempts" / "3.0"
    start.mkdir(parents=True)
    for part in ("logs", "checkpoints", "code"):
        (path / part).mkdir()
    (path / "code/train.py").write_text("print()\n")
    (path / "job.sh").write_text("#!/bin/bash\n")
    for file, content in FILES.items():
        text = json.dumps(changed(content, edits) if file == name else content).encode("utf-8", "surrogateescape")
        (path / file).write_bytes(text[: len(text) // 2] + junk if file == name and len(junk) > 4 else text)
    for file in ("started", "exit-code", "next-job"):
        (start / file).write_bytes(mark.encode("utf-8", "surrogatepass"))
    index = place / "home/.local/state/hpclaunch/runs.txt"
    index.parent.mkdir(parents=True, exist_ok=True)
    index.write_bytes(f"{path}\n{mark}\n/\n/etc\n{path}/../train-3\n".encode("utf-8", "surrogatepass"))
    try:
        read_everything(place, guard, path)
    finally:
        shutil.rmtree(folder)


def read_everything(place: Path, guard: Guard, path: Path) -> None:
    world = System(cwd=place / "project")
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(screen()):
        for module in (configuration, scheduler, states, submit):
            patch.setattr(module, "ask", lambda *_, **__: Answer(ok=True))
        patch.setattr(scheduler, "submit", lambda *_: "4")
        with met("run records", guard, place / "project/runs", place / "home/.local"):
            found = tracking.all_runs(world)
            run_tables.show_status(found, as_json=False)
            for run in found:
                run_details.show_everything(run, as_json=True)
                run_details.show_everything(run, as_json=False)
                inspect.numbers(run)
            inspect.differences([*found, *found])
            run = tracking.find(world, [str(path)])[0]
            if run.scheduler == "slurm" and run.final and run.state != "COMPLETED":
                assert resume.resume(world, run, resume.Changes())[0].job_id == "4"
