"""What Slurm and this machine report, read as values, and as the parts of a site file."""
