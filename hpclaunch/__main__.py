"""The program's entry: ``hpclaunch`` and ``python -m hpclaunch``."""

import gc
import os
import sys

# `python -m` looks for modules in the current folder first, which may be a project that someone else wrote.
if __name__ == "__main__" and sys.path[:1] in ([""], [os.getcwd()] if os.path.exists(os.curdir) else [""]):
    del sys.path[0]
# A start makes many objects and drops few: at the usual 700 the collector takes 5 % of a submission's processor time.
gc.set_threshold(100_000)

from hpclaunch.cli import main  # noqa: E402  (the threshold comes before the imports, which make the objects)

__all__ = ["main"]

if __name__ == "__main__":
    main()
