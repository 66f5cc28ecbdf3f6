"""How many runs a job array may have, and how many digits their names have."""

MOST_RUNS = 100_000
"""The largest array that hpclaunch is tested with; Slurm's own limit (MaxArraySize) is checked at submission."""


def digits_of(count: int) -> int:
    """Return the number of digits in the name of each of ``count`` runs: at least four (0000 to 9999)."""
    return max(4, len(str(count - 1)))
