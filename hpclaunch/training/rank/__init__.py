"""The parts of a rank: start-up, its place and GPU, signals, and failures that all ranks agree on."""
