"""Hostile texts by every way in: a result or one clear error, no program started, nothing written elsewhere."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import strategies as st

from hpclaunch import render as rendering
from hpclaunch import runs
from hpclaunch.actions.clusters.sites import site_as_json, site_card
from hpclaunch.actions.continuing import resume
from hpclaunch.actions.following import adopt, cancel, inspect
from hpclaunch.actions.following import states as tracking
from hpclaunch.actions.preparing.submit import prepare
from hpclaunch.actions.queueing import retry
from hpclaunch.actions.system import System
from hpclaunch.cli.show import run_details, run_tables
from hpclaunch.config.catalog import Catalog, bundled
from hpclaunch.config.job import Job, load_job
from hpclaunch.config.settings import load_settings
from hpclaunch.config.site import Site, load_site
from hpclaunch.core.spec import Request
from hpclaunch.render import render
from hpclaunch.runs.ownership import list_own
from hpclaunch.schedulers import QueuedJob
from hpclaunch.schedulers.slurm import (
    configuration,
    describe,
    held,
    history,
    limits,
    programs,
    scheduler,
    states,
    submit,
)
from hpclaunch.schedulers.slurm.programs import Answer
from tests.builders import ROOTS, a_job, bundled_site, planned
from tests.fuzz.scene import COMPILED, KEPT, Scene, Way
from tests.property.typed_text import NASTY

SUBMITTED = "1800000000"
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


@contextlib.contextmanager
def shipped_templates() -> Iterator[None]:
    """The bundled templates are compiled once: a hostile file has no part in that."""
    with pytest.MonkeyPatch.context() as patch:
        made = rendering._environment(ROOTS, None)
        patch.setattr(rendering, "_environment", lambda *_: made)
        yield


def a_script(site: Site, job: Job) -> None:
    """Plan and render, as submit does before it writes or asks anything."""
    assert render(planned(site, job, accept_unverified=True), ROOTS).startswith("#!")


def feed_site_file(scene: Scene, site: Any, edits: Any, junk: bytes) -> None:
    place = scene.place
    folder = place / "project/site_configs"
    folder.mkdir(exist_ok=True)
    content = as_yaml(changed(site, edits))
    (folder / "mine.yaml").write_bytes(content if len(junk) < 3 else content[: len(content) // 2] + junk)
    catalog = Catalog(project=place / "project", user=place / "home")
    try:
        with shipped_templates(), scene.met():
            site_card(catalog, "mine", date(2026, 11, 28))
            json.dumps(site_as_json(catalog, "mine", date(2026, 11, 28)))
            a_script(load_site(catalog, "mine"), a_job())
    finally:
        shutil.rmtree(folder)


def feed_job_file(scene: Scene, job: Any, edits: Any, junk: bytes, site: str) -> None:
    place = scene.place
    folder = place / "project/jobs/hostile"
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text("print()\n")
    content = as_yaml(changed(job, edits))
    (folder / "job.yaml").write_bytes(content if len(junk) < 3 else content[: len(content) // 2] + junk)
    with shipped_templates(), scene.met(place / KEPT):
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


def feed_settings_file(scene: Scene, edits: Any, junk: bytes) -> None:
    place = scene.place
    file = place / "project/hpclaunch.yaml"
    content = as_yaml(changed(SETTINGS, edits))
    file.write_bytes(content if len(junk) < 3 else content[: len(content) // 2] + junk)
    try:
        with scene.met(place / COMPILED, place / KEPT):
            load_settings(Catalog(user=place / "home", project=place / "project"))
            prepared = prepare(System(cwd=place / "project"), Request(target="train", site="testcluster"))
            assert prepared.faults or prepared.text.startswith("#!")
    finally:
        file.unlink()


def feed_template(scene: Scene, parts: list[str]) -> None:
    place = scene.place
    folder = place / "templates"
    folder.mkdir(exist_ok=True)
    (folder / "slurm.sh.j2").write_bytes("\n".join(parts).encode("utf-8", "surrogatepass"))
    with scene.met():
        text = render(planned(), [("project", folder), *ROOTS])
        assert "root:x:0:0" not in text
        assert "<class 'subprocess.Popen'>" not in text


tokens = st.one_of(
    words,
    st.sampled_from(["1", "2", "3", "2_1", "PENDING", "RUNNING", "FAILED", "CANCELLED by 0", "COMPLETED", "0:53", "|"]),
    st.sampled_from(["9_1", "9_[0-1%4]", "9_[0-999999999]"]),
    st.sampled_from(["NODE_FAIL", "Resources", "n[1-3]", "slurm_load_jobs error: Invalid job id specified", "\n"]),
)


rows = st.lists(st.lists(tokens, max_size=5), max_size=5)
outputs = st.one_of(
    rows.map(lambda found: "\n".join("|".join(row) for row in found).encode("utf-8", "surrogatepass")),
    rows.map(lambda found: "\n".join("|".join(row) for row in found).encode("latin1", "replace")),
    st.binary(max_size=200),
)
answers = st.tuples(st.booleans(), outputs, st.one_of(outputs, words.map(lambda text: text.encode("utf-8", "replace"))))


def answer_of(made: tuple[bool, bytes, bytes], undecodable: str = "replace") -> Answer:
    """The answer that programs.ask makes of a program's bytes."""
    ok, text, messages = made
    return Answer(ok=ok, text=text.decode("utf-8", undecodable), messages=messages.decode("utf-8", "replace"))


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
        (path / "run.json").write_text(json.dumps(a_record(path, **news, token=f"{int(number):032x}")))
        found.append(runs.load(path))
        assert not list_own(place / "home/.local/state/hpclaunch", found[-1])
    return found


def in_own_folders(answer: Answer, place: Path, form: str) -> Answer:
    """The answer with submission and run directory of each job as its last fields, as squeue and sacct print them."""
    between = ["", SUBMITTED] if "Submit" in form else [SUBMITTED] if "%V" in form else []
    cells = [[*line.split("|", 3), "", "", "", ""][:4] for line in answer.text.split("\n")]
    lines = ["|".join([*row, *between, f"{place}/project/runs/train-{row[0].partition('_')[0]}"]) for row in cells]
    return replace(answer, text="\n".join(lines))


def feed_answers(scene: Scene, first: Any, second: Any) -> None:
    place = scene.place
    configuration._known.clear()
    found = two_runs_and_an_array(place)
    given_out = itertools.cycle([first, second])

    folders = itertools.cycle([True, False])

    def ask(command: Sequence[str] = (), undecodable: str = "replace", **__: Any) -> Answer:
        answer = answer_of(next(given_out), undecodable)
        return in_own_folders(answer, place, " ".join(command)) if next(folders) else answer

    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(screen()):
        for module in (configuration, describe, history, programs, scheduler, states, submit):
            patch.setattr(module, "ask", ask)
        patch.setattr(limits, "_ask_all", lambda *commands, **_: [ask().text for _ in commands])
        patch.setattr(programs, "_answers", {})  # each input is asked for, however recent the last one is
        with scene.met(place / "project/runs"):
            configuration.configuration()
            scheduler.cluster()
            now = tracking.refreshed(found)
            run_tables.show_status(now, as_json=True)
            run_tables.show_status(now, as_json=False)
            assert len(runs.each(now)) == 5
            assert all(runs.load(run.path) for run in now)
            for run in now:
                retry.ending_of(run)
            scheduler.unwell("n1", None)
            history.past_jobs(1)
            limits.longest_walltime("")
            cancel.cancel([run for run in now if run.job_id])
    shutil.rmtree(place / "project/runs")


FILES: dict[str, Any] = {
    "run.json": a_record(Path(), state="FAILED", job_id="3", earlier=["1"], nodes="n1", exit_code="1:0", excluded="n2")
    | {"edition": 4, "token": "3" * 32},
    "spec.json": {"walltime": 60, "directives": [["nodes", "2"]], "layout": {"nodes": 2, "tasks_per_node": 2}}
    | {"code": {"entry": "train.py", "source_only": True}, "command": ["python", "train.py", "--rate=1"]},
    "request.json": {"target": "train", "cwd": "/nonexistent", "nodes": 2, "settings": [["a", "b"]], "sbatch": []},
    "environment.json": {"user": "ada", "variables": {"A": "b"}},
    "metrics.jsonl": {"event": "end", "accuracy": 0.5},
    "states.jsonl": {"time": "2026-01-02T03:04:05Z", "state": "FAILED", "exit_code": "1:0", "edition": 4},
}


def feed_run_record(scene: Scene, name: str, edits: Any, junk: bytes, mark: str) -> None:
    place = scene.place
    configuration._known.clear()
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
    for file in ("started", "exit-code", "completed", "next-job"):
        (start / file).write_bytes(mark.encode("utf-8", "surrogatepass"))
    index = place / "home/.local/state/hpclaunch/runs.txt"
    index.parent.mkdir(parents=True, exist_ok=True)
    index.write_bytes(f"{path}\n{mark}\n/\n/etc\n{path}/../train-3\n".encode("utf-8", "surrogatepass"))
    assert not list_own(index.parent, runs.Run(path=path, token="3" * 32, **a_record(path)))
    try:
        read_everything(scene, path)
    finally:
        shutil.rmtree(folder)


def read_everything(scene: Scene, path: Path) -> None:
    place = scene.place
    world = System(cwd=place / "project")
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(screen()):
        for module in (configuration, held, programs, scheduler, states, submit):
            patch.setattr(module, "ask", lambda *_, **__: Answer(ok=True))
        patch.setattr(limits, "_ask_all", lambda *commands, **_: ["" for _ in commands])
        patch.setattr(programs, "_answers", {})  # each input is asked for, however recent the last one is
        patch.setattr(scheduler, "submit", lambda *_: QueuedJob(job_id="4"))
        with scene.met(place / "project/runs", place / "home/.local", place / KEPT):
            found = tracking.all_runs(world)
            run_tables.show_status(found, as_json=False)
            for run in found:
                run_details.show_everything(run, as_json=True)
                run_details.show_everything(run, as_json=False)
                inspect.numbers(run)
            inspect.differences([*found, *found])
            assert tracking.find(world, [str(path)])[0].path == path
            (run,) = adopt.adopt(world, [path])  # only then is it this user's, and resumed
            if run.scheduler == "slurm" and run.final and run.state != "COMPLETED":
                assert resume.resume(world, run, resume.Changes())[0].job_id == "4"


TEXT_WAYS = {
    "site files": Way(st.tuples(st.sampled_from(SITES), changes, st.binary(max_size=4)), feed_site_file),
    "job files": Way(
        st.tuples(st.sampled_from(JOBS), changes, st.binary(max_size=4), st.sampled_from(["local", "testcluster"])),
        feed_job_file,
    ),
    "settings files": Way(st.tuples(changes, st.binary(max_size=4)), feed_settings_file),
    "templates": Way(
        st.tuples(st.lists(st.one_of(st.sampled_from(PAYLOADS), words), min_size=1, max_size=5)), feed_template
    ),
    "answers of Slurm's programs": Way(st.tuples(answers, answers), feed_answers),
    "run records": Way(
        st.tuples(st.sampled_from(sorted(FILES)), changes, st.binary(max_size=6), words), feed_run_record
    ),
}
