"""Searches: many trials of one job, and the best of them; the trials of a search share an allocation."""
