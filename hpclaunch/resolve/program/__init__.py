"""What the program of a run is told: its command, its settings and recipe, and the runs of a sweep."""
