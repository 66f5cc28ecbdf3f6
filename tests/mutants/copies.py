"""A copy of the checkout, with a Python of its own, in which files are mutated and tests run. See `Copy`."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sysconfig
import time
import venv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PASSED, FAILED, TOO_SLOW = "passed", "failed", "too slow"


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a run of tests ended; ``test`` is the first one that failed."""

    outcome: str
    test: str
    seconds: float


class Copy:
    """Below a fresh ``folder``: the files in ``code``, a Python in ``venv``, the files of tests in ``tmp``.

    The Python finds the code of the copy, then what is installed beside the running Python; an editable install of
    hpclaunch there is not followed. All programs that the tests start run this Python, so they run the mutated code.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.code = folder / "code"
        self._stopped = False
        self._passes: dict[str, bool] = {}
        self.code.mkdir(parents=True)
        venv.create(folder / "venv", symlinks=True)
        self.python = folder / "venv/bin/python"
        self.packages = next((folder / "venv/lib").glob("python3.*/site-packages"))
        installed = dict.fromkeys(sysconfig.get_paths()[name] for name in ("purelib", "platlib"))
        (self.packages / "copy.pth").write_text("".join(f"{path}\n" for path in (self.code, *installed)))

    def fill(self, checkout: Path, commit: str) -> None:
        """Lay down all files of a commit."""
        archive = subprocess.Popen(["git", "-C", checkout, "archive", commit], stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", self.code], stdin=archive.stdout, check=True)
        if archive.wait():
            raise RuntimeError(f"git archive {commit} failed in {checkout}")
        self.compile()

    def compile(self) -> None:
        """Compile the package so that Python compares the text of a file, not its time, before it takes byte code."""
        how = ["--invalidation-mode", "checked-hash", "-q", "hpclaunch"]
        subprocess.run([self.python, "-m", "compileall", *how], cwd=self.code, check=True)

    @contextlib.contextmanager
    def mutated(self, file: str, text: str) -> Iterator[None]:
        """Give a file another text for a while."""
        path = self.code / file
        original = path.read_bytes()
        path.write_text(text, encoding="utf-8")
        try:
            yield
        finally:
            path.write_bytes(original)

    def run(self, tests: Sequence[str], seconds: float, options: Sequence[str] = ()) -> Verdict:
        """Run tests in this order until one fails, or until all took longer than ``seconds`` together."""
        chosen, failed = self.folder / "chosen.json", self.folder / "failed"
        chosen.write_text(json.dumps(list(tests)))
        failed.unlink(missing_ok=True)
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        begin = time.monotonic()
        code = self.pytest([*("-x", f"--chosen={chosen}", f"--failed={failed}"), *options, *files], seconds)
        took = time.monotonic() - begin
        about = json.loads(failed.read_text()) if failed.exists() else {"test": "", "too_slow": code is None}
        if about["too_slow"]:
            return Verdict(TOO_SLOW, about["test"], took)
        if code == 0:
            return Verdict(PASSED, "", took)
        if code == 5:
            raise RuntimeError(f"pytest found none of the tests; see {self.folder}/output")
        return Verdict(FAILED, about["test"] or f"pytest itself (exit code {code})", took)

    def passes(self, test: str, options: Sequence[str] = ()) -> bool:
        """Whether a test passes with the code as it is. Each is run once: a change elsewhere may have broken it."""
        if test not in self._passes:
            self._passes[test] = self.run([test], 600, options).outcome == PASSED
        return self._passes[test]

    def pytest(self, options: Sequence[str], seconds: float) -> int | None:
        """Run pytest, and end all that it leaves. Returns its exit code, or None after ``seconds``."""
        temporary = self.folder / "tmp"
        command = [self.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={temporary}"]
        with (self.folder / "output").open("w") as output:
            process = subprocess.Popen(
                [*command, "-p", "tests.mutants.plugin", *options],
                cwd=self.code,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                return process.wait(seconds)
            except subprocess.TimeoutExpired:
                return None
            finally:
                self._end_what_is_left()
                process.wait()
                shutil.rmtree(temporary, ignore_errors=True)
                if self._stopped:
                    raise RuntimeError("the study was stopped")

    def stop(self) -> None:
        """End what runs here, for another thread; what was running raises, as it has no result."""
        self._stopped = True
        self._end_what_is_left()

    def _environment(self) -> dict[str, str]:
        """With the tests' own checkout nowhere in it, and without CI, where a skip can be a failure."""
        return {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTHON")}

    def _end_what_is_left(self) -> None:
        """End all processes that have this folder in their command line or work in it."""
        own = os.fsencode(self.folder) + b"/"
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes() + b"\0" + os.fsencode(os.readlink(entry / "cwd")) + b"/"
                if own in words:
                    os.kill(int(entry.name), signal.SIGKILL)
