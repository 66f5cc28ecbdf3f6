"""Models that are split over several ranks: which ranks hold what, and how they compute together."""
