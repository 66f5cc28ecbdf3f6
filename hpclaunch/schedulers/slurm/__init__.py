"""Slurm: submitting, states, limits and history, each through Slurm's own programs."""
