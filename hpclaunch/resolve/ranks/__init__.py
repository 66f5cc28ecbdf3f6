"""How the ranks of a run are started, and which GPUs they see."""
