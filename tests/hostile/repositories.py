"""Hostile repositories: each function adds to an ordinary project what tries to start a program or to do other harm.

A program of a repository writes a file into ``started``. ``victim`` is the ID of a process that nobody may end.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SPARSE = 6 * 10**9
_GIT = ("git", "-c", "user.name=Eve", "-c", "user.email=eve@example.org")
JOB = {
    "summary": "an ordinary job",
    "script": "train.py",
    "parameters": {"epochs": 3, "batch_size_per_rank": 64},
    "training": {"samples": 50_000, "model": "model:make"},
}
RECORD = {
    "name": "mine",
    "site": "slurmsite",
    "scheduler": "slurm",
    "created": "2026-01-01T00:00:00Z",
    "state": "RUNNING",
    "job_id": "4711",
    "host": os.uname().nodename,
    "uid": str(os.getuid()),
    "user": "",
}


@dataclass(frozen=True)
class Repository:
    """A project in ``folder``; its programs write into ``started``."""

    folder: Path
    started: Path
    victim: int

    @property
    def command(self) -> str:
        """A line of a shell that leaves a mark."""
        return f"echo > {shlex.quote(str(self.started))}/$$"

    @property
    def python(self) -> str:
        """A line of Python that leaves a mark."""
        return f"open({str(self.started / 'python')!r}, 'w').close()\n"

    def program(self, name: str = "evil/program") -> str:
        """The path of an executable file that leaves a mark."""
        file = self.write(name, f"#!/bin/bash\n{self.command}\nexit 1\n")
        file.chmod(0o755)
        return str(file)

    def write(self, name: str, content: str | bytes | dict[str, Any]) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(content) if isinstance(content, dict) else content
        path.write_bytes(text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text)
        return path

    def run(self, directory: str = "mine-1", **record: Any) -> Path:
        """A run directory whose script is hostile."""
        folder = self.write(f"runs/{directory}/run.json", {**RECORD, **record}).parent
        self.write(f"runs/{directory}/job.sh", f"#!/bin/bash\n{self.command}\n")
        self.write(f"runs/{directory}/spec.json", {"run_dir": str(folder), "walltime": 60, "layout": {"nodes": 1}})
        return folder

    def git(self, *words: str) -> None:
        subprocess.run([*_GIT, *words], cwd=self.folder, check=True, capture_output=True)

    def committed(self) -> None:
        for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message=all"]):
            self.git(*words)


def ordinary(folder: Path, started: Path, victim: int) -> Repository:
    """A project with a job, a script and settings that harm nobody."""
    repository = Repository(folder, started, victim)
    repository.write("jobs/mine/job.yaml", dict(JOB))
    repository.write("jobs/mine/train.py", "")
    repository.write("jobs/mine/model.py", "")
    repository.write("train.py", "")
    repository.write("hpclaunch.yaml", "mail: {to: eve@example.org}\n")
    return repository


def fsmonitor(r: Repository) -> None:
    r.committed()
    r.git("config", "core.fsmonitor", r.program())


def filters(r: Repository) -> None:
    r.write(".gitattributes", "* filter=x diff=x\n")
    r.committed()
    for key in ("filter.x.clean", "filter.x.smudge", "filter.x.process", "diff.x.textconv", "diff.external"):
        r.git("config", key, r.program())
    r.write("jobs/mine/train.py", "# changed\n")


def hooks(r: Repository) -> None:
    r.committed()
    for name in ("post-index-change", "post-checkout", "reference-transaction", "pre-auto-gc"):
        r.program(f".git/hooks/{name}")
    r.git("config", "core.hooksPath", ".git/hooks")
    os.utime(r.folder / "train.py")


def transports(r: Repository) -> None:
    r.committed()
    program = r.program()
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::{program}",
        "protocol.ext.allow": "always",
        "core.sshCommand": program,
    }.items():
        r.git("config", key, value)
    shutil.rmtree(r.folder / ".git/objects")
    (r.folder / ".git/objects").mkdir()


def git_elsewhere(r: Repository) -> None:
    """A .git file in the job's folder that names another repository, with a monitor of its own."""
    r.committed()
    (r.folder / ".git").rename(r.folder / "evil.git")
    r.write("jobs/mine/.git", f"gitdir: {r.folder}/evil.git\n")
    r.write(
        "evil.git/config", f"[core]\nbare = false\nworktree = ..\nfsmonitor = {r.program()}\npager = {r.program()}\n"
    )


def settings_with_set_up(r: Repository) -> None:
    r.write("hpclaunch.yaml", {"environment": {"setup": [r.command]}})


def settings_with_variables(r: Repository) -> None:
    script = r.write("evil/env.sh", r.command + "\n")
    r.write("evil/sitecustomize.py", r.python)
    variables = {"BASH_ENV": str(script), "PYTHONPATH": str(script.parent), "LD_PRELOAD": "/nonexistent/x.so"}
    r.write("hpclaunch.yaml", {"environment": {"variables": variables}})


def settings_with_python(r: Repository) -> None:
    r.write("hpclaunch.yaml", {"environment": {"python": r.program()}})


def settings_with_a_venv(r: Repository) -> None:
    r.write("venv/bin/activate", r.command + "\n")
    r.write("hpclaunch.yaml", {"environment": {"venv": str(r.folder / "venv")}})


def job_with_set_up(r: Repository) -> None:
    r.write("jobs/mine/job.yaml", {**JOB, "environment": {"setup": [r.command], "python": r.program()}})


def job_with_a_model(r: Repository) -> None:
    r.write("jobs/mine/model.py", r.python)


def job_that_hides_a_bundled_one(r: Repository) -> None:
    r.write("jobs/cifar/job.yaml", {**JOB, "environment": {"setup": [r.command]}})
    r.write("jobs/cifar/train.py", r.python)
    r.write("jobs/cifar/model.py", r.python)


def site_of_this_machine(r: Repository) -> None:
    """The project's own site "local", with a set-up."""
    site = {
        "title": "x",
        "scheduler": "local",
        "defaults": {"node_type": "x"},
        "node_types": {"x": {"title": "x", "cores_per_node": 1}},
        "environment": {"setup": [r.command]},
    }
    r.write("site_configs/local.yaml", site)
    r.write("hpclaunch.yaml", {"site": "local"})


def site_with_a_slow_pattern(r: Repository) -> None:
    site = {
        "title": "x",
        "scheduler": "slurm",
        "defaults": {"node_type": "x"},
        "node_types": {"x": {"title": "x", "cores_per_node": 1}},
        "detect": {"hostname": "(([a-z]|[a-z0-9])*)*(.*)*!" * 3},
    }
    r.write("site_configs/slow.yaml", site)


def template_that_escapes(r: Repository) -> None:
    escape = "{{ ''.__class__.__mro__[1].__subclasses__() }}{{ cycler.__init__.__globals__.os.system('%s') }}"
    r.write("templates/slurm.sh.j2", escape % r.command.replace("'", '"'))
    r.write("templates/local.sh.j2", escape % r.command.replace("'", '"'))


def template_without_end(r: Repository) -> None:
    loops = "{% for i in range(99999) %}" * 3 + "{% endfor %}" * 3
    r.write("templates/base.sh.j2", loops)
    r.write("templates/slurm.sh.j2", loops)


def template_that_grows(r: Repository) -> None:
    r.write(
        "templates/slurm.sh.j2",
        "{% set n = namespace(x='x') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x }}",
    )


def library_of_its_own(r: Repository) -> None:
    r.write("templates/hpclaunch.sh", f"{r.command}\n")


def record_of_a_process(r: Repository) -> None:
    r.run("mine-1", site="local", scheduler="local", job_id=str(r.victim))
    r.run("mine-2", site="local", scheduler="local", job_id=f"by-hand-{r.victim}")
    r.run("mine-3", site="local", scheduler="local", job_id="4242")


def record_of_a_job(r: Repository) -> None:
    r.run("mine-1")
    r.run("mine-2", job_id="4712", state="PENDING", created="9999-12-31T23:59:59Z")


def record_of_an_array(r: Repository) -> None:
    r.run("mine-1", tasks=100_000, parts=[], earlier=["1", "2"])
    r.write("runs/mine-1/values.json", b"[" * 10_000)


def record_to_start_again(r: Repository) -> None:
    for number, state in enumerate(("NODE_FAIL", "PREEMPTED", "NOT_SUBMITTED", "FAILED", "TIMEOUT", "SUBMITTING")):
        r.run(f"mine-{number}", state=state, exit_code="1:0", job_id="" if state == "SUBMITTING" else "4711")


def record_of_a_chain(r: Repository) -> None:
    r.run("mine-1", submission="")
    for name, content in {"started": "now\n", "next-job": "4999\n", "exit-code": "75\n"}.items():
        r.write(f"runs/mine-1/attempts/4711.0/{name}", content)
    r.write("runs/mine-1/claims/1", "4711.0 host 1 1\n")


def request_of_elsewhere(r: Repository) -> None:
    """A run whose request and code would be resolved again by ``resume --nodes``."""
    r.run("mine-1", state="TIMEOUT")
    r.write("runs/mine-1/request.json", {"target": "mine", "cwd": str(r.folder), "sbatch": [f"--wrap={r.command}"]})
    r.write("runs/mine-1/code/job.yaml", {**JOB, "environment": {"setup": [r.command]}})
    settings_with_set_up(r)


def links_out_of_the_project(r: Repository) -> None:
    """A record and a history that are the user's own files; a file of code without an end."""
    home = r.folder.parent / "home"
    run = r.run("mine-1")
    (run / "states.jsonl").symlink_to(home / ".bashrc")
    (run / "metrics.jsonl").symlink_to(home / ".bashrc")
    (run / "logs").symlink_to(home)
    (run / "claims").symlink_to(home)
    (r.folder / "runs/linked").symlink_to(home)
    (r.folder / "jobs/mine/pages.py").symlink_to("/proc/self/pagemap")
    (r.folder / "jobs/loop").symlink_to("loop")
    (r.folder / "hpclaunch.yaml").unlink()
    (r.folder / "hpclaunch.yaml").symlink_to(home / ".bashrc")


def runs_that_are_a_link(r: Repository) -> None:
    (r.folder / "runs").symlink_to("/proc")


def huge_files(r: Repository) -> None:
    run = r.run("mine-1", state="COMPLETED")
    r.run("mine-2")
    names = ["run.json", "states.jsonl", "metrics.jsonl", "spec.json", "request.json", "environment.json", "job.sh"]
    for path in [run / name for name in names] + [
        r.write("runs/mine-2/logs/4711.out", ""),
        r.write("runs/mine-2/metrics.jsonl", ""),
        r.write("hpclaunch.yaml", ""),
        r.write("site_configs/huge.yaml", ""),
        r.write("jobs/huge/job.yaml", ""),
        r.write("templates/slurm.sh.j2", ""),
        r.write("jobs/mine/data.py", ""),
    ]:
        with path.open("ab") as file:
            file.truncate(SPARSE)


def pipes(r: Repository) -> None:
    """Named pipes, which block who opens them."""
    run = r.run("mine-1")
    for name in ("run.json", "states.jsonl", "metrics.jsonl", "spec.json", "job.sh", "request.json"):
        (run / name).unlink(missing_ok=True)
        os.mkfifo(run / name)
    r.run("mine-2")
    for path in ("runs/mine-2/logs/x.out", "runs/mine-2/metrics.jsonl", "runs/mine-2/states.jsonl"):
        (r.folder / path).parent.mkdir(exist_ok=True)
        os.mkfifo(r.folder / path)
    for path in ("hpclaunch.yaml", "jobs/mine/x.py", "site_configs/pipe.yaml", "jobs/pipe/job.yaml", "matplotlibrc"):
        (r.folder / path).unlink(missing_ok=True)
        (r.folder / path).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(r.folder / path)


def deep_yaml(r: Repository) -> None:
    r.write("hpclaunch.yaml", "[" * 60_000)
    r.write("site_configs/deep.yaml", "a: " + "{a: " * 30_000)
    r.write("jobs/deep/job.yaml", "".join(" " * n + "- \n" for n in range(500)) + "[" * 50_000)


def deep_records(r: Repository) -> None:
    r.run("mine-1")
    r.write("runs/mine-1/run.json", "[" * 100_000)
    r.run("mine-2")
    for name in ("spec.json", "request.json", "environment.json", "states.jsonl", "metrics.jsonl"):
        r.write(f"runs/mine-2/{name}", '{"a":' * 100_000)


def long_records(r: Repository) -> None:
    """Long texts, wrong types and numbers without end where a record has short ones."""
    r.run("mine-1", name="x" * 10**6, reason="\x1b]0;x\x07" * 10_000, created=1e308, nodes="[1-999999999]" * 100)
    r.run("mine-2", tasks=10**400, parts=["0-999999999"] * 100, earlier=["1"] * 100_000)
    r.write("runs/mine-2/spec.json", {"layout": {"nodes": 10**300, "tasks_per_node": -1}, "command": [[]], "sweep": 7})


def large_records(r: Repository) -> None:
    """Records of valid JSON that takes much more memory than it has bytes."""
    r.run("mine-1")
    for name in ("spec.json", "request.json", "environment.json", "run.json"):
        r.write(f"runs/mine-1/{name}", '{"name": [' + "{}," * 5_000_000 + "{}]}")
    r.run("mine-2")
    r.write("runs/mine-2/spec.json", '{"name": [' + "{}," * 1_900_000 + "{}]}")
    r.write("runs/mine-2/metrics.jsonl", '{"event": "end", "a": 1}\n' * 500_000)


def names_with_signs(r: Repository) -> None:
    for name in (
        "a\nb",
        "$(touch x)",
        "--all",
        "\u2028",
        "\x1b[31m",
        "'; id",
        "-rf",
        b"\xff".decode("utf-8", "surrogateescape"),
    ):
        r.run(name)
        r.write(f"jobs/{name}/job.yaml", dict(JOB))
        r.write(f"site_configs/{name}.yaml", "title: x\n")


def modules_of_python(r: Repository) -> None:
    """Modules with the names of those that hpclaunch imports, in the folder in which one types."""
    names = ("yaml", "typer", "click", "rich", "jinja2", "submitit", "json", "typing_extensions", "sitecustomize")
    for name in (*names, "usercustomize", "cloudpickle", "matplotlib", "tensorflow"):
        r.write(f"{name}.py", r.python)
        r.write(f"{name}/__init__.py", r.python)


def settings_of_libraries(r: Repository) -> None:
    r.write("matplotlibrc", f"backend: module://evil\ntext.usetex: True\nanimation.convert_path: {r.program()}\n")
    r.write("evil.py", r.python)
    for name in ("pyvenv.cfg", "setup.cfg", "tox.ini", ".env", ".envrc", "Makefile", ".slurmrc", "conftest.py"):
        r.write(name, r.python)


def many_folders(r: Repository) -> None:
    for number in range(3_000):
        r.write(f"runs/x-{number:05}/run.json", "{}")
    r.run("mine-1")


def data_from_the_job(r: Repository) -> None:
    """A job whose data set and secrets have hostile names."""
    data = {"name": "../../home", "layouts": ["*" * 200], "address": "file:///etc/passwd"}
    r.write("jobs/mine/job.yaml", {**JOB, "data": data, "secret_env": ["HOME", "LD_PRELOAD"]})


def slow_list_of_ignored_files(r: Repository) -> None:
    for folder in ("", "jobs/mine/"):
        r.write(f"{folder}.hpclaunchignore", "\n".join(["*a" * 60 + "b", "**/" * 400 + "x", "[" * 2_000, "!"]))
        r.write(f"{folder}{'a' * 250}", "")


def pipes_as_lists_of_files(r: Repository) -> None:
    """What tells which files are code: git's index, and the lists of ignored files."""
    r.committed()
    (r.folder / ".git/index").unlink()
    os.mkfifo(r.folder / ".git/index")
    for folder in (r.folder, r.folder / "jobs/mine"):
        os.mkfifo(folder / ".hpclaunchignore")


def false_lists_of_files(r: Repository) -> None:
    """An index that names files elsewhere, and a place of the repository that leads there."""
    names = [b"../../home/.bashrc", b"/etc/passwd", b"train.py/../../../x", b"\xff" * 300, b""]
    entries = b"".join(
        entry + b"\0" * (8 - len(entry) % 8)
        for name in names
        for entry in [b"\0" * 24 + b"\0\0\x81\xa4" + b"\0" * 32 + bytes([0, min(len(name), 255)]) + name]
    )
    r.write("elsewhere/index", b"DIRC\0\0\0\2\0\0\0\5" + entries + b"\0" * 20)
    r.write(".git", "gitdir: elsewhere\n")
    os.symlink("/", r.folder / "everything")
    os.symlink("/proc/kmsg", r.folder / "kernel.py")


ALL: tuple[Callable[[Repository], None], ...] = (
    *(fsmonitor, filters, hooks, transports, git_elsewhere),
    *(settings_with_set_up, settings_with_variables, settings_with_python, settings_with_a_venv),
    *(job_with_set_up, job_with_a_model, job_that_hides_a_bundled_one, data_from_the_job),
    *(site_of_this_machine, site_with_a_slow_pattern),
    *(template_that_escapes, template_without_end, template_that_grows, library_of_its_own),
    *(record_of_a_process, record_of_a_job, record_of_an_array, record_to_start_again, record_of_a_chain),
    *(request_of_elsewhere, links_out_of_the_project, runs_that_are_a_link),
    *(huge_files, pipes, deep_yaml, deep_records, long_records, large_records, names_with_signs, many_folders),
    *(modules_of_python, settings_of_libraries),
    *(slow_list_of_ignored_files, pipes_as_lists_of_files, false_lists_of_files),
)
