"""hpclaunch: Slurm scripts, plans and launches for sharded multi-node training. Importing this imports nothing."""

__version__ = "0.1.0"
