"""The program's entry: ``hpclaunch`` and ``python -m hpclaunch``."""

from hpclaunch.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
