"""The parts of a run together, and the lines of its script."""
