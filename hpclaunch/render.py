"""Renders a JobSpec as script text with one Jinja environment; decides nothing, and writes only compiled templates."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import (
    ChoiceLoader,
    Environment,
    FileSystemBytecodeCache,
    FileSystemLoader,
    PrefixLoader,
    StrictUndefined,
    TemplateError,
    TemplateNotFound,
)
from jinja2 import compiler as jinja_compiler
from jinja2.bccache import Bucket, BytecodeCache
from jinja2.exceptions import SecurityError
from jinja2.loaders import split_template_path
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from hpclaunch.core.errors import Fault, InvalidFile
from hpclaunch.core.files import is_own_folder, is_there, read_bytes
from hpclaunch.core.job_request import job_request_of
from hpclaunch.core.quoting import plain_word
from hpclaunch.core.records import record
from hpclaunch.core.resources import TooMuch, bounded
from hpclaunch.core.scheduler_rows import SCHEDULERS
from hpclaunch.core.spec import LIBRARY, SAMPLER, JobSpec
from hpclaunch.core.units import CONTROL, count, format_walltime
from hpclaunch.launchers import LAUNCHERS

_PLAIN_DIRECTIVE = re.compile(r"[^\s\"'\\#\x00-\x1f\x7f]+")
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_WIDTH = 106
_LARGEST_EXPONENT = 64
_LARGEST_FILE = 256 * 1024
"""Bytes of a template, or of the library."""

_LIBRARY_NAME = "the library of the scripts"
_FIRST_LINE = "# shellcheck shell=bash\n"
LIBRARY_PARTS = (
    *("run", "checks", "sampler", "broadcast"),
    *dict.fromkeys(row.library_part for row in LAUNCHERS.values() if row.library_part),
    *SCHEDULERS,
)
"""The files of ``templates/library/``, in their order in a script; ``run`` has what every script needs."""
SHELL = "shell.sh.j2"
"""The template of the file that an interactive shell reads."""
Roots = Sequence[tuple[str, Path]]
Check = Callable[[str, Path], None]
"""Raises HpclaunchError for a file of an origin (``project``, ``user`` or ``bundled``) that must not be used."""


@record
class _Library:
    """The library as a template sees it: its text, its path in the run directory, and its SHA-256."""

    text: str
    path: str
    sha256: str


@record
class ShellParts:
    """What a shell's file has besides the script's environment.

    ``container``: the words before a command that runs in the job's image; none without one. ``program``: the path of
    hpclaunch itself. ``login_shell``: whether the shell begins with what a login shell reads, as a job does.
    """

    container: tuple[str, ...] = ()
    program: str = ""
    login_shell: bool = True


def _accept(origin: str, path: Path) -> None:
    """Take every file."""


def render(
    spec: JobSpec, roots: Roots, standalone: bool = False, cache: Path | None = None, check: Check = _accept
) -> str:
    """Return the script. ``roots`` are the template folders (origin, folder), highest precedence first, bundled last.

    A ``standalone`` script contains the library; any other names its path and SHA-256. Compiled templates are kept in
    the folder ``cache``, if that can be used; without one, in the memory of this process. ``check`` sees each file
    before it is read. Raises InvalidFile, with the template and the line, if a person's own template has an error.
    """
    text = whole_library(roots, check) if standalone else library(spec, roots, check)
    inside = text.removeprefix(_FIRST_LINE)  # allowed only at the beginning of a file
    about = _Library(text=inside, path=f"{spec.run_dir}/{LIBRARY}", sha256=hashlib.sha256(text.encode()).hexdigest())
    values = {"spec": spec, "library": about, "standalone": standalone}
    return _render_template(spec.template, values, roots, cache, check)


def render_shell(
    spec: JobSpec, parts: ShellParts, roots: Roots, cache: Path | None = None, check: Check = _accept
) -> str:
    """Return the file that an interactive shell reads: the environment of the spec's script, from the same template.

    Raises InvalidFile, as ``render`` does.
    """
    values = {
        "spec": spec,
        "checks": _part("checks", roots[-1], check).strip(),
        "container": parts.container,
        "program": parts.program,
        "login_shell": parts.login_shell,
        "job_id": f"${SCHEDULERS[spec.scheduler].inside_job}",
    }
    text = _render_template(SHELL, values, roots, cache, check)
    if not text.startswith("# The environment of a job"):
        what = "it has no block script, which a shell's file replaces"
        raise InvalidFile(Fault(where=f"template {spec.template}", what=what, next='extend "bundled/base.sh.j2"'))
    return text


def _render_template(
    name: str, values: Mapping[str, Any], roots: Roots, cache: Path | None, check: Check = _accept
) -> str:
    spec = values["spec"]
    environment = _environment(roots, cache, check)
    facts = {
        "launcher": LAUNCHERS[spec.launcher],
        "scheduler": SCHEDULERS[spec.scheduler],
        "request": job_request_of(spec),
    }
    try:
        # A template is a program: one of a project could compute for ever.
        with bounded() if override_of(spec, roots) else contextlib.nullcontext():
            return environment.get_template(name).render({**values, **facts})
    except TooMuch as error:
        raise InvalidFile(Fault(where=f"template {name}", what=str(error))) from None
    except RecursionError:
        what = f'extends itself; to build on the bundled one, extend "bundled/{name}"'
        raise InvalidFile(Fault(where=f"template {name}", what=what)) from None
    except (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        named = getattr(error, "name", None) or name
        line = getattr(error, "lineno", None)
        where = f"template {named}" + (f", line {line}" if line else "")
        raise InvalidFile(Fault(where=where, what=str(error) or type(error).__name__)) from None


def library(spec: JobSpec, roots: Roots, check: Check = _accept) -> str:
    """Return the functions that the spec's script needs beside it: the parts of the library that it calls.

    With a person's own template, all of them: that may call any. Raises InvalidFile if the library cannot be read.
    """
    if override_of(spec, roots):
        return whole_library(roots, check)
    return _join(_needed_parts(spec), roots[-1], check)


def whole_library(roots: Roots, check: Check = _accept) -> str:
    """Return all functions of the library; a person's own one file in place of them. Raises InvalidFile, too."""
    for origin, folder in roots[:-1]:
        path = folder / LIBRARY
        if is_there(path):
            check(origin, path)
            return _text_of(path, _LIBRARY_NAME)
    return _join(LIBRARY_PARTS, roots[-1], check)


def _needed_parts(spec: JobSpec) -> Iterator[str]:
    yield from ("run", "checks")
    if spec.samples:
        yield "sampler"
    if spec.broadcast:
        yield "broadcast"
    yield from LAUNCHERS[spec.launcher].library_parts_at(spec.scheduler)
    yield spec.scheduler


def _join(parts: Iterable[str], bundled: tuple[str, Path], check: Check) -> str:
    return _FIRST_LINE + "\n".join(_part(name, bundled, check) for name in parts)


def _part(name: str, bundled: tuple[str, Path], check: Check) -> str:
    """Return the text of one part, without the line that only ShellCheck reads."""
    origin, folder = bundled
    path = folder / "library" / f"{name}.sh"
    check(origin, path)
    return _text_of(path, _LIBRARY_NAME).removeprefix(_FIRST_LINE)


def sampler(roots: Roots) -> str:
    """Return the bundled program that measures a node. Raises InvalidFile if it cannot be read."""
    return _text_of(roots[-1][1] / SAMPLER, "the sampler of the scripts")


def _text_of(path: Path, name: str) -> str:
    try:
        return read_bytes(path, _LARGEST_FILE).decode("utf-8")
    except (OSError, ValueError) as error:
        raise InvalidFile(Fault(where=str(path), what=f"{name} cannot be read: {error}")) from None


def override_of(spec: JobSpec, roots: Roots) -> Path | None:
    """Return the project's or the user's own template that replaces a bundled one, or None."""
    for origin, folder in roots:
        for name in (spec.template, "base.sh.j2", LIBRARY):
            if origin != "bundled" and is_there(folder / name):
                return folder / name
    return None


class CompiledTemplates(FileSystemBytecodeCache):
    """Compiled templates in a folder of this user alone; compiling them takes a tenth of a dry run.

    They are code, so a folder that others may write is not used. A folder that cannot be used changes nothing.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self._private: bool | None = None  # not looked at yet, or the folder is missing
        # What Jinja and this module make of a template may change with their versions.
        self._compilers = [os.stat(path).st_mtime_ns for path in (__file__, jinja_compiler.__file__)]

    def get_source_checksum(self, source: str) -> str:
        """Return a checksum of the source and of what compiled it."""
        return super().get_source_checksum(f"{self._compilers}{source}")

    def load_bytecode(self, bucket: Bucket) -> None:
        """Read a compiled template, if there is one."""
        try:
            if self._is_private():
                super().load_bytecode(bucket)
        except Exception:  # unpickling a damaged file can raise anything; the template is compiled again
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write a compiled template, if that is possible."""
        with contextlib.suppress(OSError):
            Path(self.directory).mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._is_private():
                super().dump_bytecode(bucket)

    def _is_private(self) -> bool:
        if self._private is None:
            self._private = is_own_folder(self.directory)
        return self._private


class _InMemory(BytecodeCache):
    """Compiled templates in this process, by the checksum of their source."""

    def __init__(self) -> None:
        self._compiled: dict[tuple[str, str], Any] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Take a template that was compiled before."""
        bucket.code = self._compiled.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a compiled template."""
        self._compiled[bucket.key, bucket.checksum] = bucket.code


_in_memory = _InMemory()


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, without powers that no limit of time could interrupt."""

    intercepted_binops = frozenset({"**"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Return left ** right. Raises SecurityError for a large exponent."""
        if not isinstance(right, int | float) or abs(right) > _LARGEST_EXPONENT:
            raise SecurityError(f"an exponent may be at most {_LARGEST_EXPONENT}")
        return super().call_binop(context, operator, left, right)


class _Templates(FileSystemLoader):
    """The templates in one folder, each of which is looked at before it is read."""

    def __init__(self, origin: str, folder: Path, check: Check) -> None:
        super().__init__(str(folder))
        self._origin, self._folder, self._check = origin, folder, check

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        """Return a template's text and its path. Raises TemplateError for one that cannot be read."""
        file = self._folder.joinpath(*split_template_path(template))
        if not is_there(file):
            raise TemplateNotFound(template)
        self._check(self._origin, file)
        try:
            return read_bytes(file, _LARGEST_FILE).decode("utf-8"), str(file), lambda: True
        except UnicodeDecodeError:
            why = "is not UTF-8 text"
        except OSError as error:
            why = str(error.strerror) if error.errno == errno.EFBIG else f"cannot be read: {error.strerror}"
        raise TemplateError(f"{file} {why}")


def _environment(roots: Roots, cache: Path | None, check: Check = _accept) -> _Sandbox:
    shipped = _Templates(*roots[-1], check)
    loaders = [_Templates(origin, folder, check) for origin, folder in roots[:-1]]
    environment = _Sandbox(
        loader=ChoiceLoader([*loaders, shipped, PrefixLoader({"bundled": shipped})]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        bytecode_cache=CompiledTemplates(cache) if cache else _in_memory,
    )
    environment.filters.update(
        quote=quote,
        argv=argv,
        swept_argv=swept_argv,
        few=few,
        directive=directive,
        oneline=oneline,
        clock=clock,
        count=count,
        message=message,
    )
    return environment


def quote(text: str) -> str:
    r"""Return text as one bash word on one line; a newline or another control character is written as in ``$'\n'``."""
    if not CONTROL.search(text):
        return plain_word(text)
    return _escape(text)


def message(text: str) -> str:
    """Return text as one bash word without ``$`` or a backtick in single quotes, which ShellCheck reports (SC2016)."""
    return _escape(text) if "$" in text or "`" in text else quote(text)


def _escape(text: str) -> str:
    escaped = (_ESCAPES.get(c) or (f"\\x{ord(c) & 0xFF:02x}" if CONTROL.match(c) else c) for c in text)
    return "$'" + "".join(escaped) + "'"


def argv(words: Iterable[str], indent: int = 2) -> str:
    """Return words as a bash command, broken into readable lines with backslashes."""
    return _break_lines(map(quote, words), indent)


def swept_argv(spec: JobSpec, indent: int = 2) -> str:
    """Return the command of the runs of a sweep, or of trials, as bash text; the array ``own`` holds the words of one.

    A ``{NAME}`` in a typed argument becomes the value of that word, between pieces of quoted text.
    """
    swept = [name for name, _ in spec.sweep.axes] if spec.sweep else []
    sweep, names = (spec.trials, spec.trials.names) if spec.trials else (spec.sweep, swept)
    if sweep is None:
        return argv(spec.command, indent)
    typed_from = len(spec.command) - sweep.arguments
    words = [
        _fill(word, names, sweep.filled) if sweep.filled and place >= typed_from else quote(word)
        for place, word in enumerate(spec.command)
    ]
    rest = [f'"${{own[{place}]}}"' for place, name in enumerate(names) if name not in sweep.filled]
    own = rest if sweep.filled else ['"${own[@]}"']
    return _break_lines([*words[: sweep.position], *own, *words[sweep.position :]], indent)


def _fill(word: str, names: Sequence[str], filled: Sequence[str]) -> str:
    pieces = re.split("[{](" + "|".join(map(re.escape, filled)) + ")[}]", word)
    texts = [quote(piece) if piece else "" for piece in pieces[::2]]
    values = [f'"${{own[{names.index(name)}]#*=}}"' for name in pieces[1::2]]
    return "".join(text + value for text, value in zip(texts, [*values, ""], strict=True)) or quote("")


def _break_lines(words: Iterable[str], indent: int) -> str:
    lines = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + len(word) >= _WIDTH - indent:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".lstrip()
    return (" \\\n" + " " * (indent + 2)).join(lines)


def directive(value: str) -> str:
    """Return a value for an #SBATCH line, quoted if it contains a blank, a quote, # or a backslash."""
    if _PLAIN_DIRECTIVE.fullmatch(value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def few(values: Sequence[str]) -> str:
    """Return values as text for a reader; of many values, only some."""
    shown = [(value or '""') if len(value) <= _WIDTH // 2 else f"{value[: _WIDTH // 2]}…" for value in values]
    return ", ".join(shown if len(shown) <= 8 else [*shown[:6], "…", f"{shown[-1]} ({len(values)} values)"])


def oneline(text: str) -> str:
    """Return text that cannot end a comment line: control characters become blanks."""
    return CONTROL.sub(" ", text)


def clock(seconds: int) -> str:
    """Return a walltime (seconds) as text for a reader."""
    return format_walltime(seconds)
