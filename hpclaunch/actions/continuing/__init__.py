"""A further run from an earlier one: resume goes on where it ended, rerun makes it again."""
