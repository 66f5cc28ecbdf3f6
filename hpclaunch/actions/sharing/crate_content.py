"""What an RO-Crate of a run contains: its files, without folders of the machine unless asked, and facts about it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from hpclaunch import runs
from hpclaunch.actions.following.inspect import MODEL
from hpclaunch.actions.sharing.recorded_times import times_of
from hpclaunch.config.set_variables import may_set_variables, settings_reason
from hpclaunch.core import inside
from hpclaunch.core.errors import Fault, Refused, shorten
from hpclaunch.core.files import json_object
from hpclaunch.core.records import record
from hpclaunch.core.secret_names import content_reason, file_reason, is_text, key_reason
from hpclaunch.core.spec import LIBRARY, SAMPLER
from hpclaunch.reports.exports.crate import (
    CODE,
    METADATA,
    METRICS,
    README,
    SCRIPT,
    CrateFile,
    RunFacts,
    metadata_of,
    readme_of,
)
from hpclaunch.reports.exports.private_paths import PrivatePaths, private_paths
from hpclaunch.runs import Run, training_library
from hpclaunch.runs.create import CODE_FILES
from hpclaunch.runs.hidden import hidden_values_of
from hpclaunch.runs.metric_events import EPOCH, KINDS, Thinned, metric_lines
from hpclaunch.runs.snapshot import MOST_BYTES, matches, recorded_from_outside

_LARGEST_TEXT = 64 * 2**20
"""Bytes of a record, a log or a file of metrics, which is searched for folders of the machine as a whole."""
_FIRST_OF_A_LOG, _LAST_OF_A_LOG = 8 * 2**20, 24 * 2**20
"""Bytes that are kept of a larger log."""
_LARGEST_MODEL = 16 * 2**30
"""Bytes of the files in model/ together; more is left out, and named."""
_PIECE = 2**20
"""Bytes of a file that are searched at once."""
_OVERLAP = 2**14
"""Bytes that are searched with the next piece again, so that no key or value is cut in two."""
_LARGEST_SETTINGS = 2**18
"""Bytes of a file of settings; hpclaunch reads no larger one."""
_LAYOUT = ("nodes", "tasks_per_node", "cpus_per_task", "gpus_per_node")
Content = bytes | inside.InsideFile


@record
class CrateContent:
    """The files of a crate by path, those whose text was changed, and what was left out or shortened, with reasons."""

    files: Mapping[str, Content]
    changed: frozenset[str]
    left_out: Mapping[str, str]
    shortened: Mapping[str, str]


def facts_of(run: Run, license: str, with_paths: bool) -> RunFacts:
    """Return what the record says of a run. Raises Refused for a run without spec.json or script."""
    spec = run.spec()
    if not spec or inside.size_of(run.home, run.script.name) is None:
        what = f"{run.label} has no spec.json and job.sh that can be read, so its crate would have no workflow"
        raise Refused(Fault(where=str(run.home), what=what, next="choose another run: hpclaunch runs list"))
    names, hidden = _names_for(run) if not with_paths else private_paths({}), hidden_values_of(run)
    began, ended = _times(run)
    layout = spec.get("layout")
    sizes = {key: str(layout[key]) for key in _LAYOUT if layout.get(key)} if isinstance(layout, dict) else {}
    command = spec.get("command")
    words = " ".join(hidden.words(map(str, command))) if isinstance(command, list) else ""
    parameters = {**run.parameters(), **runs.swept(run)}
    return RunFacts(
        label=run.id,
        job=run.name,
        site=run.site,
        state=run.state,
        error=hidden.without(names.without(run.reason or (f"exit code {run.exit_code}" if run.exit_code else ""))),
        user=run.user,
        command=hidden.without(names.without(words)),
        began=began,
        ended=ended,
        version=str(spec.get("version", "")),
        license=license,
        parameters={name: hidden.parameter(name, names.without(value)) for name, value in parameters.items()},
        layout={name: value for name, value in sizes.items() if name not in parameters},
        data=_data_of(run, spec),
        replaced=names.meanings,
    )


def _times(run: Run) -> tuple[str, str]:
    began, ended = (datetime.fromtimestamp(when, timezone.utc).isoformat(timespec="seconds") for when in times_of(run))
    return (began if run.attempts() else "", ended)


def _data_of(run: Run, spec: dict[str, Any]) -> tuple[str, str] | None:
    """Return the name of the data set and its fingerprint, which the training library writes at the start."""
    # In the whole file: the start stands in its first lines.
    start = next((event for _, event in metric_lines(run) if event.get("event") == "start"), {})
    told, need = start.get("data"), spec.get("data")
    fingerprint = str(told.get("fingerprint", "")) if isinstance(told, dict) else ""
    if isinstance(need, dict) and need.get("name"):
        return str(need["name"]), fingerprint
    return (f"data of {run.name}", fingerprint) if fingerprint else None


def _names_for(run: Run) -> PrivatePaths:
    """Return the folders of the machine that the record names."""
    spec, environment = run.spec(), json_object(inside.read_text(run.home, "environment.json"))
    data, code = spec.get("data"), spec.get("code")
    found = {
        "RUN": (str(run.home), "the run directory"),
        "DATA": (str(data.get("folder", "")) if isinstance(data, dict) else "", "the folder of the data set"),
        "CODE": (str(code.get("folder", "")) if isinstance(code, dict) else "", "the folder that the code comes from"),
        "PYTHON": (os.path.dirname(str(environment.get("python", ""))), "the folder of the Python that ran hpclaunch"),
        "SOFTWARE": (str(spec.get("python_folder", "")), "the environment of the ranks"),
        "PROJECT": (str(environment.get("folder", "")), "the folder where the run was submitted"),
        "RUNS": (str(run.home.parent), "the folder of run directories"),
        "HOME": (os.path.expanduser("~"), "the home folder"),
    }
    return private_paths(found)


def content_of(run: Run, with_paths: bool, include: Sequence[str]) -> CrateContent:
    """Return the files of a run that its crate holds, besides metadata and README; the same for the same run.

    ``include``: patterns (of --include) of files in code/ and model/ that are taken although they may hold a secret,
    are large, or were not copied by hpclaunch. Raises Refused for a list of code that names a file outside of code/,
    and for a pattern that matches nothing.
    """
    chooser = _Chooser(run, include)
    records = _Records(run, private_paths({}) if with_paths else _names_for(run))
    files: dict[str, Content] = dict(records.files())
    files |= {f"{CODE}{name}": inside.InsideFile(root=run.home, name=f"code/{name}") for name in chooser.code()}
    own = run.name_of(MODEL)
    files |= {f"{MODEL}/{name}": inside.InsideFile(root=run.home, name=f"{own}/{name}") for name in chooser.model()}
    chooser.refuse_unmatched()
    return CrateContent(
        files={path: files[path] for path in sorted(files)},
        changed=frozenset(records.changed),
        left_out={**records.left_out, **chooser.left_out},
        shortened=records.shortened,
    )


def crate_files(content: CrateContent, facts: RunFacts) -> dict[str, Content]:
    """Return path -> content of all files of the crate, its metadata first."""
    files = {**content.files, README: readme_of(facts, content.left_out, content.shortened).encode("utf-8", "replace")}
    described = [
        CrateFile(path=path, size=_size(files[path]), sha256=_sha256(files[path]), changed=path in content.changed)
        for path in sorted(files)
    ]
    return {METADATA: metadata_of(facts, described).encode(), **{path: files[path] for path in sorted(files)}}


class _Records:
    """The script, its library, the records and the logs; as bytes if folders or values of variables were replaced."""

    def __init__(self, run: Run, names: PrivatePaths) -> None:
        self.changed: set[str] = set()
        self.left_out: dict[str, str] = {}
        self.shortened: dict[str, str] = {}
        self._run, self._names, self._hidden = run, names, hidden_values_of(run)

    def files(self) -> Iterator[tuple[str, Content]]:
        """Yield path in the crate -> content."""
        run = self._run
        for name in (SCRIPT, LIBRARY, SAMPLER, "spec.json", "environment.json"):
            yield from self._file(name, name)
        yield from self._metrics()
        logs = [path.relative_to(run.home).as_posix() for path in run.logs()]
        names = [run.name_of(f"logs/{name}") for name in inside.names_in(run.home, run.name_of("logs"))]
        logs += [name for name in names if name.endswith(".out")]  # those of the ranks too
        for name in dict.fromkeys(logs):
            yield from self._file(f"logs/{name.rpartition('/')[2]}", name)

    def _file(self, path: str, name: str) -> Iterator[tuple[str, Content]]:
        size = inside.size_of(self._run.home, name)
        if size is None:
            why = inside.problem(self._run.home, name)
            self.left_out |= {path: f"it cannot be read: {why}"} if why else {}
            return
        if size > _LARGEST_TEXT and not path.startswith("logs/"):
            self.left_out[path] = f"it is large ({_show_size(size)})"
            return
        raw = self._ends_of_log(path, name, size) if size > _LARGEST_TEXT else self._read_whole(name)
        reason = key_reason(raw)
        if reason:
            self.left_out[path] = reason
            return
        public = self._public(path, raw)
        if public == raw and path not in self.shortened:
            yield path, inside.InsideFile(root=self._run.home, name=name)
            return
        if public != raw:
            self.changed.add(path)
        yield path, public

    def _read_whole(self, name: str) -> bytes:
        return inside.read_bytes(self._run.home, name, _LARGEST_TEXT)

    def _ends_of_log(self, path: str, name: str, size: int) -> bytes:
        """Return the beginning and the end of a large log, with a line between them that says what is missing."""
        left = size - _FIRST_OF_A_LOG - _LAST_OF_A_LOG
        with os.fdopen(inside.open_file(self._run.home, name), "rb") as file:
            first = file.read(_FIRST_OF_A_LOG)
            file.seek(size - _LAST_OF_A_LOG)
            last = file.read(_LAST_OF_A_LOG)
        self.shortened[path] = f"its first {_show_size(_FIRST_OF_A_LOG)} and last {_show_size(_LAST_OF_A_LOG)}"
        self.shortened[path] += f" of {_show_size(size)}"
        return first + f"\n[hpclaunch: {left:,} bytes of this log are left out here]\n".encode() + last

    def _metrics(self) -> Iterator[tuple[str, Content]]:
        """Yield metrics.jsonl; a large one thinned, with the first and the last line of every kind."""
        size = inside.size_of(self._run.home, self._run.name_of(METRICS))
        if size is None:
            return
        if size <= _LARGEST_TEXT:
            yield from self._file(METRICS, self._run.name_of(METRICS))
            return
        lines, seen = thinned_lines(self._run)
        self.shortened[METRICS] = (
            f"{len(lines):,} of its {seen:,} lines, the first, the last and some at even distances"
        )
        self.changed.add(METRICS)
        yield METRICS, self._public(METRICS, b"".join(lines))

    def _public(self, path: str, raw: bytes) -> bytes:
        """Return a file without the machine's folders, unless they stay, and without values that may be secrets."""
        text = raw.decode("utf-8", errors="surrogateescape")
        if path in ("spec.json", "environment.json"):
            text = self._names.without(self._public_values(path, text))
        elif path == METRICS:
            lines = (self._public_values(path, line) for line in text.split("\n"))
            text = self._names.without("\n".join(lines))
        else:
            text = self._names.without(text)
            # The library is hpclaunch's own; it sets variables, and holds no value of the user's.
            text = text if path in (LIBRARY, SAMPLER) else self._hidden.without(text)
        return text.encode("utf-8", "surrogateescape")

    def _public_values(self, path: str, text: str) -> str:
        """Return JSON without values that may be secrets: these are replaced in its strings, so it stays JSON."""
        try:
            values = json.loads(text, object_pairs_hook=_distinct)
            public = self._hidden.plain(values)
            if path == "environment.json" and self._names.names and isinstance(public, dict):
                public.pop("host", None)
            if public == values:
                return text
            return json.dumps(public) if path == METRICS else json.dumps(public, indent=2) + "\n"
        except (ValueError, RecursionError):
            return self._hidden.without(text)


class _Chooser:
    """Which files of code/ and model/ are in a crate, and why others are not."""

    def __init__(self, run: Run, include: Sequence[str]) -> None:
        self.left_out: dict[str, str] = {}
        self._run, self._include = run, include
        self._values = hidden_values_of(run).in_code()
        self._matched: set[str] = set()

    def code(self) -> list[str]:
        """Return the names of the code, relative to code/: of those that hpclaunch copied, no secrets and no links."""
        home = self._run.home
        environment = json_object(inside.read_text(home, "environment.json"))
        listed = environment.get(CODE_FILES)
        copied = frozenset(map(str, listed)) if isinstance(listed, list) else None
        self._refuse_outside(copied or ())
        linked = frozenset(recorded_from_outside(home))
        parts = inside.names_in(home, f"code/{training_library.FOLDER}")
        is_library = training_library.ARCHIVE in parts or "training" in parts
        library = f"{training_library.FOLDER}/" if is_library else ""
        chosen, left = [], MOST_BYTES
        for path, about in self._walk("code"):
            name = path.removeprefix("code/")
            if (library and name.startswith(library)) or "__pycache__/" in path:
                continue
            # A pattern such as '*.py' does not mean what another folder holds: only the name itself does.
            if name in linked and not {path, name, os.path.basename(name)}.intersection(self._include):
                self.left_out[path] = "it was copied through a link that leads out of the folder of the code"
                continue
            if copied is not None and name not in copied:
                reason = "hpclaunch did not copy it there"
            else:
                reason = file_reason(name)
            if self._is_taken(path, about, reason, left, f"code has at most {_show_size(MOST_BYTES)}"):
                chosen.append(name)
                left -= about.st_size
        return chosen

    def model(self) -> list[str]:
        """Return the names of the trained model, relative to model/."""
        own = self._run.name_of(MODEL)
        chosen, left = [], _LARGEST_MODEL
        for path, about in self._walk(own):
            name = path.removeprefix(f"{own}/")
            shown = f"{MODEL}/{name}"
            why = f"the files of a model have at most {_show_size(_LARGEST_MODEL)} together"
            if self._is_taken(path, about, file_reason(name), left, why, shown):
                chosen.append(name)
                left -= about.st_size
        return chosen

    def _walk(self, folder: str) -> list[tuple[str, os.stat_result]]:
        try:
            return list(inside.walk(self._run.home, folder))
        except FileNotFoundError:
            return []
        except (OSError, OverflowError) as error:
            what = getattr(error, "strerror", None) or str(error)
            raise Refused(Fault(where=str(self._run.home / folder), what=what)) from None

    def _is_taken(
        self, path: str, about: os.stat_result, reason: str, left: int, limit: str, shown: str | None = None
    ) -> bool:
        """Whether a file is taken; else the reason is noted under its path in the crate."""
        home, shown = self._run.home, shown or path
        why = inside.kind_in_words(about.st_mode) or inside.problem(home, path)
        if why:
            self.left_out[shown] = f"it {why}" if why.startswith(("is ", "has ")) else f"it cannot be read: {why}"
            return False
        matching = [pattern for pattern in self._include if matches(shown, [pattern])]
        self._matched.update(matching)
        if matching:
            return True
        if about.st_size > left:
            reason = f"it is large ({_show_size(about.st_size)}): {limit}"
        reason = reason or self._content_reason(path)
        if reason:
            self.left_out[shown] = reason
        return not reason

    def _content_reason(self, path: str) -> str:
        """Return why the content of a file may not leave the machine; else empty."""
        home = self._run.home
        if may_set_variables(path.partition("/")[2]):
            try:
                reason = settings_reason(inside.read_bytes(home, path, _LARGEST_SETTINGS))
            except OSError as error:
                reason = f"it may set variables, and cannot be read: {error.strerror or error}"
            if reason:
                return reason
        searches_all = False
        for number, piece in enumerate(_pieces(home, path)):
            if any(value in piece for value in self._values):
                return "it holds the value of a variable or a secret of the run"
            # Of weights, which may have many GB, only the beginning is searched for everything.
            searches_all = is_text(piece) if number == 0 else searches_all
            reason = content_reason(piece) if searches_all or number == 0 else key_reason(piece)
            if reason:
                return reason
        return ""

    def _refuse_outside(self, copied: Iterable[str]) -> None:
        outside = [name for name in copied if name.startswith("/") or ".." in name.split("/")]
        if outside:
            what = f"its list of code names a file outside of code/: {shorten(outside[0], 100)!r}"
            next_step = "the record was changed; hpclaunch writes no such list"
            raise Refused(Fault(where=str(self._run.home / "environment.json"), what=what, next=next_step))

    def refuse_unmatched(self) -> None:
        """Raise Refused for patterns of --include that match no file."""
        unmatched = [pattern for pattern in self._include if pattern not in self._matched]
        if unmatched:
            what = f"no regular file in code/ or model/ of {self._run.label} matches {unmatched[0]!r}"
            raise Refused(Fault(where="--include", what=what, allowed="a pattern such as 'code/server.pem' or '*.csv'"))


def thinned_lines(run: Run) -> tuple[list[bytes], int]:
    """Return lines of a large metrics.jsonl in their order, and how many it has: of every kind the first and last."""
    kinds: dict[str, Thinned[tuple[int, bytes]]] = {}
    seen = 0
    for number, (line, event) in enumerate(metric_lines(run)):
        kind = str(event.get("event"))
        kind = kind if kind == EPOCH or kind in KINDS else ""
        kinds.setdefault(kind, Thinned()).add((number, line if line.endswith(b"\n") else line + b"\n"), len(line))
        seen = number + 1
    kept = sorted(item for one in kinds.values() for _, item in one.kept())
    return [line for _, line in kept], seen


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON. Raises ValueError if a key stands twice, as only one of the values would be seen."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _pieces(home: Path, name: str) -> Iterator[bytes]:
    """Yield the content of a file, of any size, in pieces that overlap."""
    before = b""
    with os.fdopen(inside.open_file(home, name), "rb") as file:
        while content := file.read(_PIECE):
            yield before + content
            before = (before + content)[-_OVERLAP:]


def _show_size(size: int) -> str:
    return f"{size / 2**40:,.1f} TB" if size >= 2**40 else f"{size / 2**20:,.0f} MB"


def _size(content: Content) -> int:
    return len(content) if isinstance(content, bytes) else content.size()


def _sha256(content: Content) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    digest = hashlib.sha256()
    with content.open() as file:
        while piece := file.read(2**20):
            digest.update(piece)
    return digest.hexdigest()
