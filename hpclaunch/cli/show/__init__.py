"""How things look, on a terminal and as JSON."""
