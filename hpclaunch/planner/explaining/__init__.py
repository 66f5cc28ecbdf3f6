"""A plan in words: its headlines, its sections and what it assumed."""
