"""How plans, runs and reports are shown, on a terminal and as JSON."""
