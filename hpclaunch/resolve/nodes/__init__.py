"""How many nodes of which type a run gets, where, for how long, and what they cost."""
