"""Runs a script where `import horovod` fails, as in a Python without it: without_horovod.py SCRIPT ARGUMENT …"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    for name in [name for name in sys.modules if name.partition(".")[0] == "horovod"]:  # a forked rank has some
        del sys.modules[name]
    sys.modules["horovod"] = None  # type: ignore[assignment]
    del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
