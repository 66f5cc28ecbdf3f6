"""Packs text as tokens: python pack.py FOLDER [--from TEXT] [--vocabulary 1024]; `hpclaunch data fetch` runs it."""

import sys

from hpclaunch.training.input import text_packing

if __name__ == "__main__":
    sys.exit(text_packing.main())
