"""The training library of a run, as one archive beside its code, from which any Python imports it.

``code/hpclaunch/`` holds ``__init__.py`` and ``training.zip``; the last line of the first adds the second to the places
where Python looks for ``hpclaunch.training`` (zipimport of the standard library). So a script finds it beside itself,
in a container and on a node's own disk too, and one file is opened where 150 were. Runs of an older hpclaunch have a
folder ``code/hpclaunch/training`` instead.
"""

from __future__ import annotations

import os
from pathlib import Path

from hpclaunch.core.folders import PACKAGE

FOLDER = "hpclaunch"
ARCHIVE = "training.zip"
_NAME = b"hpclaunch"
_IMPORT = f'\n__path__.append(__path__[0] + "/{ARCHIVE}")  # in a run directory: the training library\n'
_SAME_TIME = (1980, 1, 1, 0, 0, 0)
"""Of all members, so that the archive of a version is always the same, byte for byte; a ZIP file's first time."""


def is_named(content: bytes) -> bool:
    """Whether a file may import the library: whether it holds the name at all, in whatever language."""
    return _NAME in content


def write_library(code: Path) -> None:
    """Write the library into a copy of code that has no folder of its name. Raises OSError."""
    package = code / FOLDER
    package.mkdir()
    (package / "__init__.py").write_bytes((PACKAGE / "__init__.py").read_bytes() + _IMPORT.encode())
    (package / ARCHIVE).write_bytes(_archive(PACKAGE / "training"))


def has_library(code: Path) -> bool:
    """Whether the folder hpclaunch in a copy of code is the library, not one of the user's own."""
    package = code / FOLDER
    return (package / ARCHIVE).is_file() or (package / "training").is_dir()


def _archive(library: Path) -> bytes:
    """Return the files of the library in a ZIP file.

    They are stored as they are: a Python may lack zlib, and to unpack them takes each rank longer than to read them.
    """
    import io
    import zipfile  # takes 5 ms, which a script without the library does not need

    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for place, folders, names in os.walk(library):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(names):
                path = Path(place, name)
                about = zipfile.ZipInfo(path.relative_to(library.parent).as_posix(), _SAME_TIME)
                about.external_attr = 0o644 << 16
                archive.writestr(about, path.read_bytes())
    return made.getvalue()
