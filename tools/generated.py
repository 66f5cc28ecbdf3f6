"""Writes the lines of the product that repeat facts of another file, because bash or an editor cannot read them there.

    python tools/generated.py            say what is out of date; ends with 1 if something is
    python tools/generated.py --write    write it again

- ``templates/library/run.sh``, ``may_follow``: the ends that a scheduler reports (``hpclaunch/core/run_states.py``).
- ``hpclaunch/training/program/setting_types.py``: the settings of a program (``hpclaunch/training/parameters.json``).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from hpclaunch.core.run_states import OF_SCHEDULER  # noqa: E402

_TRAINING = ROOT / "hpclaunch" / "training"
_ENDS = re.compile(r"(  case \$state in # the scheduler's COMPLETED is no success yet\n    '' \| )[A-Z_ |]+(\) ;;\n)")


def with_ends(text: str) -> str:
    """Return a text of bash that has a line with the ends that a scheduler reports, with those of today."""
    return _ENDS.sub(rf"\g<1>{' | '.join(sorted(OF_SCHEDULER))}\g<2>", text)


_TYPES = {"text": "str", "epochs": "tuple[float, ...]"}
"""A type of parameters.json -> Python's; the others have the same name."""


def setting_types(groups: Mapping[str, Any]) -> str:
    """Return the module with the settings of all groups: their names and types, for editors and mypy."""
    settings = {name: row for group in groups.values() if isinstance(group, dict) for name, row in group.items()}
    lines = [f"    {name}: {_TYPES.get(row['type'], row['type'])}" for name, row in settings.items()]
    return "\n".join(
        [
            '"""The settings of a training script with their types; tools/generated.py writes it (parameters.json)."""',
            "",
            "from __future__ import annotations",
            "",
            "import argparse",
            "",
            "",
            "class SettingTypes(argparse.Namespace):",
            '    """Every setting by its name; the meaning, bounds and default are in training/parameters.json."""',
            "",
            *lines,
            "",
        ]
    )


def generated() -> dict[Path, str]:
    """Return file -> its text as it should be. Raises ValueError if no template has the ends, or more than one."""
    libraries = {path: path.read_text() for path in (ROOT / "templates/library").glob("*.sh")}
    with_line = [path for path, text in libraries.items() if _ENDS.search(text)]
    if len(with_line) != 1:
        raise ValueError(f"{len(with_line)} files of templates/library/ have a line with the ends of a run")
    groups = json.loads((_TRAINING / "parameters.json").read_text())["groups"]
    types = {_TRAINING / "program" / "setting_types.py": setting_types(groups)}
    return {with_line[0]: with_ends(libraries[with_line[0]]), **types}


def outdated() -> list[Path]:
    """Return the files that are not as they should be."""
    return [path for path, text in generated().items() if not path.is_file() or path.read_text() != text]


def main() -> int:
    """Say what is out of date, or write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write what is out of date")
    write = parser.parse_args().write
    found = outdated()
    for path in found:
        print(f"{'written' if write else 'out of date'}: {path.relative_to(ROOT)}")
        if write:
            path.write_text(generated()[path])
    return 1 if found and not write else 0


if __name__ == "__main__":
    sys.exit(main())
