"""Which nodes, which batch and which layout a plan chooses, and what to type for them."""
