"""The program's entry: ``hpclaunch`` and ``python -m hpclaunch``."""

import contextlib
import gc
import os
import sys

# `python -m` looks for modules in the current folder first, which may be a project that someone else wrote.
if __name__ == "__main__" and sys.path[:1] in ([""], [os.getcwd()] if os.path.exists(os.curdir) else [""]):
    del sys.path[0]


def main() -> None:
    """Run the command line, with paths and files in UTF-8 whatever the locale is."""
    _enter_utf8_mode()
    # A start makes many objects and drops few: at the usual 700 the collector takes 5 % of a submission's processor
    # time.
    gc.set_threshold(100_000)
    from hpclaunch.cli import main as run  # after the threshold: the imports make most of the objects

    try:
        run()
    finally:
        gc.freeze()  # as Python ends it would look through all objects for circles, whose memory is free then anyway


def _enter_utf8_mode() -> None:
    """Start again in Python's UTF-8 mode if the locale gives paths another encoding.

    A path outside that encoding has no name there: one run in such a folder would stop every listing, and the paths in
    a record would mean other folders in another locale. Python chooses the encoding as it starts, and never later.
    """
    if sys.getfilesystemencoding() == "utf-8" or sys.flags.utf8_mode or not sys.executable:
        return
    with contextlib.suppress(OSError):  # then the paths that have a name can still be used
        os.execv(sys.executable, [sys.orig_argv[0], "-X", "utf8", *sys.orig_argv[1:]])


if __name__ == "__main__":
    main()
