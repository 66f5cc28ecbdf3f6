"""The page of a run: what ``hpclaunch report`` writes (decision 55)."""
