"""The version of hpclaunch, which scripts, run directories and reports name."""

__version__ = "0.1.0"
