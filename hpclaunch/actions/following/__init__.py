"""A run as it is: its state, progress and directory, and what one does to it there (cancel, repair, adopt, clean)."""
