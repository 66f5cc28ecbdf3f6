"""Whether the modules that a site file names are there now: ``module`` is asked on this machine, for those names only.

A list of modules is asked for in its order, as a script would load it: one module may bring the next. One shell asks
for all lists, each in a subshell of its own, so that all of them have one deadline.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence

from hpclaunch.config.site import Site
from hpclaunch.core import waiting
from hpclaunch.sites.describe.check import Finding, Path

_ASKED = "module avail"
_SECONDS = 60
"""For all lists; Lmod without its cache walks through every module file."""
_MOST_BYTES = 16 * 2**20
_MOST_NAMED = 4
_Answers = list[tuple[tuple[str, ...], bool]]
"""For every module of a list: what is listed beside it, and whether it could be loaded."""
_ASK = """
declare -F module > /dev/null || source "$MODULESHOME/init/bash" > /dev/null 2>&1 || exit 1
mark=$1
shift
while (($#)); do
  number=$1
  shift
  printf '\\n%s list\\n' "$mark"
  (
    for name in "${@:1:number}"; do
      printf '\\n%s asked\\n' "$mark"
      module --terse avail "${name%/*}" 2>&1
      module load "$name" > /dev/null 2>&1
      case ":$LOADEDMODULES:" in *":$name:"* | *":$name/"*) printf '\\n%s loaded\\n' "$mark" ;; esac
    done
    printf '\\n%s end\\n' "$mark"
  )
  shift "$number"
done
"""


def module_findings(site: Site, environment: Mapping[str, str]) -> list[Finding]:
    """Return a finding for every module that the file names; without ``module`` none is asked for."""
    has_module = "BASH_FUNC_module%%" in environment or bool(environment.get("MODULESHOME"))
    found, lists = [], dict(_lists_of(site))
    asked = list(dict.fromkeys(names for names in lists.values() if not _has_option(names)))
    told = dict(zip(asked, _ask(asked, environment), strict=True)) if has_module and asked else {}
    for path, names in lists.items():
        if not has_module:
            found += [_report_unasked(path, name, "this shell has no command module") for name in names]
            continue
        answers = told.get(names, "an entry of the list is an option, and no module")
        if isinstance(answers, str):
            found += [_report_unasked(path, name, answers) for name in names]
            continue
        for name, (listed, is_loaded) in zip(names, answers, strict=True):
            found.append(_judge(path, name, listed, is_loaded))
    return found


def _lists_of(site: Site) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Yield (path of the key, modules) of every list that the file has."""
    lists: dict[Path, tuple[str, ...]] = {
        ("environment", "modules"): site.environment.modules,
        ("needed_modules",): site.needed_modules,
    }
    lists |= {("frameworks", name, "modules"): one.modules for name, one in site.frameworks.items()}
    lists |= {("recipes", name, "modules"): one.modules for name, one in site.recipes.items()}
    for key, node in site.node_types.items():
        place = ("node_types", key)
        lists |= {
            (*place, "needed_modules"): node.needed_modules,
            (*place, "environment", "modules"): node.environment.modules if node.environment else (),
        }
        lists |= {(*place, "frameworks", name, "modules"): one.modules for name, one in node.frameworks.items()}
    for path, names in lists.items():
        if names:
            yield path, names


def _has_option(names: Sequence[str]) -> bool:
    return any(name.startswith("-") for name in names)


def _ask(lists: Sequence[Sequence[str]], environment: Mapping[str, str]) -> list[_Answers | str]:
    """Return the answers about each list, or why nothing is known of it.

    What was answered before the deadline counts.
    """
    mark = f"hpclaunch-{secrets.token_hex(8)}"
    words = [word for names in lists for word in (str(len(names)), *names)]
    try:
        process = subprocess.Popen(
            ["bash", "-c", _ASK, "bash", mark, *words],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return [str(error)] * len(lists)
    why = "module did not answer"
    try:
        output, _ = waiting.communicate(process, "module", _SECONDS, most=_MOST_BYTES)
    except (subprocess.TimeoutExpired, waiting.TooLong) as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        late = isinstance(error, subprocess.TimeoutExpired)
        why = f"module did not answer within {_SECONDS} s" if late else f"module was ended, as {error}"
        output = error.output or b""
    _, *told = output.decode("utf-8", "replace").split(f"\n{mark} list\n")
    told += [""] * (len(lists) - len(told))
    return [_answers_in(text, mark, len(names)) or why for text, names in zip(told, lists, strict=True)]


def _answers_in(text: str, mark: str, number: int) -> _Answers:
    """Return the answers about one list of so many modules; none if they are not complete."""
    _, *parts = text.split(f"\n{mark} asked\n")
    if len(parts) != number or f"\n{mark} end" not in parts[-1]:
        return []
    return [(_names_listed(part, mark), f"\n{mark} loaded" in part) for part in parts]


def _names_listed(text: str, mark: str) -> tuple[str, ...]:
    """Return the names in an answer of ``module --terse avail``, without marks such as ``(default)``."""
    lines = [line.strip() for line in text.splitlines() if mark not in line]
    return tuple(line.partition("(")[0].rstrip("/") for line in lines if line and not line.endswith(":"))


def _judge(path: Path, name: str, listed: Sequence[str], is_loaded: bool) -> Finding:
    if is_loaded or any(_is_version(one, name) for one in listed):
        return Finding(path=path, verdict="agrees", asked=_ASKED, now=name)
    family = f"{name.rpartition('/')[0] or name}/"
    versions = [one for one in listed if one.startswith(family)]
    what = f"there is no module {name}"
    what += f"; there is {', '.join(versions[-_MOST_NAMED:])}" if versions else ", nor another version of it"
    return Finding(path=path, verdict="differs", asked=_ASKED, what=what)


def _is_version(listed: str, name: str) -> bool:
    """Whether a module that is listed is the one of that name: perhaps with a mark, or as one of its versions."""
    return listed == name or listed.startswith((f"{name}/", f"{name}.", f"{name}-"))


def _report_unasked(path: Path, name: str, why: str) -> Finding:
    return Finding(path=path, verdict="not asked", asked=_ASKED, what=f"{name}: {why}")
