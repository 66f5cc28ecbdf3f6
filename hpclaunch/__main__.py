"""The program's entry: ``hpclaunch`` and ``python -m hpclaunch``."""

import gc

# A start makes many objects and drops few: at the usual 700 the collector takes 5 % of a submission's processor time.
gc.set_threshold(100_000)

from hpclaunch.cli import main  # noqa: E402  (the threshold comes before the imports, which make the objects)

__all__ = ["main"]

if __name__ == "__main__":
    main()
