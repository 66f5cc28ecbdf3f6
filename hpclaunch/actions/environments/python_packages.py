"""Which packages a Python environment on this machine lacks, by the names of its folders; it starts no program."""

from __future__ import annotations

import os
import re
from pathlib import Path

from hpclaunch.core.errors import Fault
from hpclaunch.core.spec import JobSpec

NEXT = (
    "name another environment with --venv, --conda or --python, or 'environment:' in the settings, the job file or "
    "the site file"
)
"""What to do about a Python that lacks a package; the script and `doctor` say the same."""

_HARMLESS = ("distutils-precedence.pth", "_virtualenv.pth")
"""Files of setuptools and virtualenv that run code, which adds no folder."""


def missing_packages(spec: JobSpec) -> list[Fault]:
    """Return why the ranks' Python cannot run the program: the packages that its environment is known to lack.

    Only a folder that holds all that its Python sees is known. Where more may come from elsewhere (a module, a set-up
    line, PYTHONPATH, the system's packages, a .pth file), the script looks before it starts the ranks.
    """
    from_elsewhere = "PYTHONPATH" in dict(spec.environment) or any(not _is_activation(step.line) for step in spec.steps)
    if not spec.packages or not spec.python_folder.startswith("/") or from_elsewhere:
        return []
    lacking = lacking_in(Path(spec.python_folder), spec.packages)
    if not lacking:
        return []
    what = f"it has no {' and no '.join(lacking)}, which {spec.name} needs"
    return [Fault(where=f"the Python in {spec.python_folder}", what=what, next=NEXT)]


def lacking_in(folder: Path, packages: tuple[str, ...]) -> list[str]:
    """Return those of the packages that a venv or conda environment lacks; none if it may see others than its own."""
    configuration = folder / "pyvenv.cfg"
    try:
        is_conda = (folder / "conda-meta").is_dir()
        text = configuration.read_text() if configuration.is_file() else ""
        libraries = list(folder.glob("lib/python3*/site-packages"))
        shared = re.search(r"(?im)^include-system-site-packages\s*=\s*true", text)
        added = [_added_folders(file) for library in libraries for file in library.glob("*.pth")]
        if shared or not libraries or not (text or is_conda) or None in added:
            return []
        if is_conda:
            libraries += Path.home().glob(".local/lib/python3*/site-packages")
        libraries += [path for paths in added for path in paths or ()]
        names = {name for library in libraries if library.is_dir() for name in os.listdir(library)}
    except (OSError, ValueError):
        return []
    return [name for name in packages if name not in names and f"{name}.py" not in names]


def _is_activation(line: str) -> bool:
    """Whether a line of set-up only activates an environment, or puts it first on PATH."""
    return bool(re.match(r"""source ["']?/|conda activate |eval "\$\(|export PATH=""", line))


def _added_folders(file: Path) -> list[Path] | None:
    """Return the folders that a .pth file adds; None if it runs code, which may add any."""
    if file.name in _HARMLESS:
        return []
    lines = [line.strip() for line in file.read_text(errors="replace").splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    return None if any(line.startswith("import") for line in lines) else [file.parent / line for line in lines]
