"""A cluster: its site file, compared with what Slurm answers, and the checks of doctor."""
